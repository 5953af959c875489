"""Checks a server.json against the schema that it names, as the package skillsaw carries it."""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import jsonschema


def check(path: Path) -> str:
    document = json.loads(path.read_text(encoding="utf-8"))
    dated = re.fullmatch(r".*/(\d{4})-(\d\d)-(\d\d)/server\.schema\.json", document["$schema"])
    assert dated, document["$schema"]
    found = find_spec("skillsaw")  # its files alone: importing it would ask for all that it needs
    assert found
    assert found.origin
    folder = Path(found.origin).parent / "schemas" / "mcp_registry" / f"v{'_'.join(dated.groups())}"
    schema = json.loads((folder / "server.schema.json").read_text(encoding="utf-8"))
    assert schema["$id"] == document["$schema"], schema["$id"]
    jsonschema.validate(document, schema, cls=jsonschema.Draft7Validator)
    return f"{document['name']} {document['version']} conforms to the schema of {'-'.join(dated.groups())}"


if __name__ == "__main__":
    print(check(Path(sys.argv[1])))
