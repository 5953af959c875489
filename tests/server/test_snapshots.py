"""What a client sees of this server, kept beside the tests and, of tools, in the package: a change of a name, a text or a
schema shows in review.

To renew after a change that is meant: ``python tests/server/test_snapshots.py``. Then read the diff.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.server.mcpserver.tools import Tool
from pydantic import BaseModel

from leanrag_engine.core.config import load_settings
from leanrag_mcp.app import create_server
from leanrag_mcp.engine_handle import EngineHandle
from leanrag_mcp.tools import toolsets
from leanrag_mcp.tools.toolsets import TOOLS, Definition, load_definitions

pytestmark = pytest.mark.anyio

DEFINED = frozenset({"description", "input_schema", "output_schema"})
"""What the package's own file of definitions says of a tool."""
SNAPSHOTS = Path(__file__).parent / "snapshots"
RENEW = "python tests/server/test_snapshots.py"


async def surface(data_dir: Path) -> dict[str, str]:
    """Every file that should be there, by its path beneath ``SNAPSHOTS``: all tools, also those that need a model."""
    files: dict[str, str] = {}
    toolsets = ("read", "manage", "agent")
    settings = load_settings(data_dir=data_dir, llm_model="openai/any", toolsets=toolsets)
    async with Client(create_server(settings)) as client:
        tools = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
        templates = (await client.list_resource_templates()).resource_templates
        resources = (await client.list_resources()).resources
        files["server.json"] = dump_json(
            {
                "instructions": (client.instructions or "").splitlines(),
                "capabilities": plain(client.server_capabilities),
                "tools": [plain(tool, without=DEFINED) for tool in tools],
                "prompts": [prompt.name for prompt in prompts],
                "resource_templates": [template.uri_template for template in templates],
                "resources": [str(resource.uri) for resource in resources],
            }
        )
        named = [("prompts", each) for each in prompts]
        named += [("resources", each) for each in (*templates, *resources)]
        for kind, each in named:
            files[f"{kind}/{each.name}.json"] = dump_json(format_card(plain(each)))
    return files


def plain(model: BaseModel, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=set(without))


def format_card(card: dict[str, Any]) -> dict[str, Any]:
    """Split the description into lines, so that a diff shows which one changed."""
    return {**card, "description": card.get("description", "").splitlines()}


def dump_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_snapshots() -> Iterator[tuple[str, str]]:
    for file in sorted(SNAPSHOTS.rglob("*.json")):
        yield file.relative_to(SNAPSHOTS).as_posix(), file.read_text(encoding="utf-8")


async def test_what_clients_see_equals_the_reviewed_snapshots(tmp_path: Path) -> None:
    offered, reviewed = await surface(tmp_path), dict(read_snapshots())
    changes = [
        line
        for name in sorted(offered.keys() | reviewed.keys())
        for line in difflib.unified_diff(
            reviewed.get(name, "").splitlines(),
            offered.get(name, "").splitlines(),
            f"reviewed/{name}",
            f"offered/{name}",
            lineterm="",
        )
    ]
    shown = "\n".join(changes[:200])
    assert not changes, f"What clients see has changed. If that is meant, renew it with: {RENEW}\n{shown}"


def define(tool: Tool) -> Definition:
    """Return the definition of a complete tool. Its schema forbids unknown arguments; the server refuses them."""
    assert tool.output_schema is not None
    return {
        "description": cleandoc(tool.description),
        "arguments": shorten_input(tool.parameters) | {"additionalProperties": False},
        "reply": shorten_output(tool.output_schema),
    }


LEFT_OUT = frozenset({"title", "minItems", "maxItems", "minLength", "maxLength", "minimum"})
"""Keywords that a published schema leaves out, to save tokens. Calls are checked by the full schema all the same, and an
error says what was expected."""


def shorten_input(schema: Any, definitions: dict[str, Any] | None = None) -> Any:
    """Return the schema of arguments as a client sees it: without the keywords ``LEFT_OUT``, empty defaults (which say
    no more than that the argument is optional) and null; definitions stand where they are used."""
    if isinstance(schema, list):
        return [shorten_input(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        return shorten_input(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        types = [each for each in schema["anyOf"] if each.get("type") != "null"]
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        # A value of several plain types, such as one of metadata, needs no list of them.
        return shorten_input(rest | (types[0] if len(types) == 1 else {}), definitions)
    return {
        key: {name: shorten_input(each, definitions) for name, each in value.items()}
        if key == "properties"
        else shorten_input(value, definitions)
        for key, value in schema.items()
        if not _is_left_out(key, value)
    }


def _is_left_out(key: str, value: object) -> bool:
    if key == "default":
        # A flag without a default is false, a number 0. Other defaults are shown: they say what
        # happens without the argument.
        return not value or (isinstance(value, dict) and not any(value.values()))
    if key == "additionalProperties" and value is True:
        return True
    if key == "maximum":
        return value in (100, 10**9)
    return key in LEFT_OUT or key == "$defs" or (key == "additionalProperties" and value in (False, {}))


def shorten_output(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a reply as a client sees it: without titles and descriptions, without
    ``additionalProperties`` (false would forbid a later version more keys, true says nothing), and without the inner lists
    of required keys: all are, and the lists take a tenth of its tokens. A definition that is used once stands there."""
    uses = Counter(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema)))
    definitions = schema.get("$defs", {})

    def shorten(part: Any, *, top: bool = False) -> Any:
        if isinstance(part, list):
            return [shorten(each) for each in part]
        if not isinstance(part, dict):
            return part
        name = part.get("$ref", "").rpartition("/")[2]
        if uses[name] == 1:
            return shorten(definitions[name])
        if {frozenset(each) for each in part.get("anyOf", ())} == {frozenset({"type"})}:
            # Plain types: one keyword with a list says the same in a third of the tokens.
            part = {"type": [each["type"] for each in part["anyOf"]]}
        return {
            key: {name: shorten(each) for name, each in value.items()}
            if key == "properties"
            else shorten(value)
            for key, value in part.items()
            if key not in ("title", "description", "$defs")
            and not (key == "additionalProperties" and isinstance(value, bool))
            and (top or key != "required")
        }

    shared = {name: shorten(each) for name, each in definitions.items() if uses[name] > 1}
    shortened: dict[str, Any] = shorten(schema, top=True)
    return ({"$defs": shared} if shared else {}) | shortened


def read_definitions() -> dict[str, Definition]:
    """What the functions of all tools say, whatever the file of definitions holds."""
    handle = EngineHandle(load_settings())
    return {entry.name: define(Tool.from_function(entry.load(handle))) for entry in TOOLS}


def test_the_definitions_are_those_of_the_functions() -> None:
    assert load_definitions() == read_definitions(), f"If the change is meant, renew the file with: {RENEW}"


def write_snapshots() -> None:
    Path(toolsets.__file__).with_name("definitions.json").write_text(
        dump_json(read_definitions()), encoding="utf-8"
    )
    with tempfile.TemporaryDirectory() as folder:
        offered = anyio.run(surface, Path(folder))
    for name, _ in read_snapshots():
        if name not in offered:
            (SNAPSHOTS / name).unlink()
    for name, text in offered.items():
        (SNAPSHOTS / name).parent.mkdir(parents=True, exist_ok=True)
        (SNAPSHOTS / name).write_text(text, encoding="utf-8")
    print(f"{len(offered)} snapshots in {SNAPSHOTS}: read their diff before you commit it.")


if __name__ == "__main__":
    sys.exit(write_snapshots())
