"""A plugin in the layout of Claude Code: the server's entry and the skills, in a folder that is also a marketplace of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from leanrag_engine.core.errors import InvalidInput

from ..protocol.skills import load_skills
from ..replies.errors import Offered

if TYPE_CHECKING:
    from leanrag_engine.core.model import JsonObject

MANIFEST = ".claude-plugin/plugin.json"


def make_plugin(name: str, entry: JsonObject, offered: Offered) -> dict[str, bytes]:
    """Return the files of the plugin by their paths."""
    package = metadata("leanrag-mcp")
    about = {"name": name, "description": package["Summary"]}
    tables: dict[str, object] = {
        MANIFEST: {**about, "version": package["Version"]},
        ".claude-plugin/marketplace.json": {
            "name": name,
            "owner": {"name": package["Name"]},
            "plugins": [{**about, "source": "./"}],
        },
        ".mcp.json": {"mcpServers": {name: entry}},
    }
    made = {path: f"{json.dumps(table, indent=2)}\n".encode() for path, table in tables.items()}
    return made | {f"skills/{skill.name}/SKILL.md": skill.content for skill in load_skills(offered)}


def write_plugin(folder: Path, plugin: Mapping[str, bytes]) -> None:
    """Write a plugin into a folder. Raises :class:`InvalidInput` if the folder holds anything but a plugin."""
    if folder.exists() and not (folder / MANIFEST).is_file() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} is not empty, and no plugin.", "Name a new folder.")
    for path, content in plugin.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
