"""Write a bill of materials of the default installation, with licences, from what is installed: no network is used.

    python tests/programs/materials.py [--to FILE]

Follows the requirements of leanrag-mcp without extras, for this platform. FILE becomes a CycloneDX 1.6 document in JSON, the same
for the same packages. Prints one JSON line: packages, and how many have each licence. Exit code 1 if the licence of one is not known,
or asks that what is used with it be published.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement

ROOT = "leanrag-mcp"
STRICT = re.compile(r"(?<!L)(?<!Lesser )\b(A?GPL|GNU (Affero )?General)", re.IGNORECASE)
"""Licences whose terms reach the program that uses them."""
FILES = ("LICENSE*", "LICENCE*", "COPYING*")


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def collect(root: str) -> dict[str, Distribution]:
    """Return the distributions that a requirement brings, by name; extras are followed where they are asked for."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(root, "")]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        found[name] = found.get(name) or distribution(name)
        environment = {**default_environment(), "extra": extra}
        for text in found[name].requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate(environment):
                waiting += [(normalise(wanted.name), each) for each in ("", *wanted.extras)]
    return dict(sorted(found.items()))


def licence_of(package: Distribution) -> str:
    """Return the licence as the package states it: an expression, a classifier, a short text, or the first line of its file."""
    metadata = package.metadata
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in metadata.get_all("Classifier") or ()
        if each.startswith("License ::")
    ]
    classifiers = [each for each in classifiers if each != "OSI Approved"]
    stated = (metadata.get("License") or "").strip()
    choices = [
        metadata.get("License-Expression") or "",
        " AND ".join(classifiers),
        stated if "\n" not in stated else "",
    ]
    if found := next(filter(None, choices), ""):
        return found
    texts = [stated, *(
        file.locate().read_text(encoding="utf-8", errors="replace")
        for file in package.files or ()
        if any(Path(file.name).match(pattern) for pattern in FILES)
    )]  # fmt: skip
    lines = (line.strip() for text in texts for line in text.splitlines())
    return next((line for line in lines if re.search(r"licen[sc]e", line, re.IGNORECASE)), "")


def component(name: str, package: Distribution) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": (purl := f"pkg:pypi/{name}@{package.version}"),
        "name": name,
        "version": package.version,
        "purl": purl,
        "licenses": [{"license": {"name": licence_of(package)}}],
    }


def main(to: Path | None) -> int:
    packages = collect(ROOT)
    root = packages.pop(ROOT)
    licences = {name: licence_of(each) for name, each in packages.items()}
    if to:
        bill = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": {**component(ROOT, root), "type": "application"}},
            "components": [component(*each) for each in packages.items()],
        }
        to.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    unknown = [name for name, licence in licences.items() if not licence]
    strict = {name: licence for name, licence in licences.items() if STRICT.search(licence)}
    figures = Counter(licences.values())
    print(
        json.dumps(
            {
                "packages": len(packages),
                "licences": dict(figures.most_common()),
                "unknown": unknown,
                "strict": strict,
            }
        )
    )
    return bool(unknown or strict)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, help="write the bill here")
    try:
        sys.exit(main(parser.parse_args().to))
    except PackageNotFoundError as problem:
        sys.exit(f"{problem} is not installed")
