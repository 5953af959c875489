"""A plugin in the layout of Claude Code: the server's entry and the skills, in a folder that is also a marketplace of one."""

from __future__ import annotations

import json
from importlib.metadata import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.runtime.replacement import replace_file

from ..protocol.skills import load_skills
from ..replies.errors import Offered

if TYPE_CHECKING:
    from leanrag_engine.core.model import JsonObject


def write_plugin(folder: Path, name: str, entry: JsonObject, offered: Offered) -> None:
    """Write the plugin. Raises :class:`InvalidInput` if the folder holds anything but a plugin."""
    manifest, package = ".claude-plugin/plugin.json", metadata("leanrag-mcp")
    if (
        folder.exists()
        and not (folder / manifest).is_file()
        and any(each.is_file() for each in folder.rglob("*"))
    ):
        raise InvalidInput(f"{folder} is not empty, and no plugin.", "Name a new folder.")
    about = {"name": name, "description": package["Summary"]}
    listed = {"name": name, "owner": {"name": package["Name"]}, "plugins": [{**about, "source": "./"}]}
    tables = {
        manifest: {**about, "version": package["Version"]},
        ".claude-plugin/marketplace.json": listed,
        ".mcp.json": {"mcpServers": {name: entry}},
    }
    files = {path: f"{json.dumps(table, indent=2)}\n".encode() for path, table in tables.items()}
    files |= {f"skills/{skill}/SKILL.md": content for skill, content in load_skills(offered).items()}
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        replace_file(folder / path, content)
