"""What a client sees of this server, kept beside the tests and, of tools, in the package: a change of a name, a text or a
schema shows in review.

To renew after a change that is meant: ``python tests/server/test_snapshots.py``. Then read the diff.
"""

from __future__ import annotations

import difflib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
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
from leanrag_mcp.tools import deferred
from leanrag_mcp.tools.deferred import Definition, define, load_definitions
from leanrag_mcp.tools.toolsets import TOOLS

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


def read_definitions() -> dict[str, Definition]:
    """What the functions of all tools say, whatever the file of definitions holds."""
    handle = EngineHandle(load_settings())
    return {entry.name: define(Tool.from_function(entry.load(handle))) for entry in TOOLS}


def test_the_definitions_are_those_of_the_functions() -> None:
    assert load_definitions() == read_definitions(), f"If the change is meant, renew the file with: {RENEW}"


def write_snapshots() -> None:
    Path(deferred.__file__).with_name("definitions.json").write_text(
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
