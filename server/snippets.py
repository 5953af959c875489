"""How each MCP client is told about this server, as text to paste."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Snippet:
    """What to paste for one client, and where it goes."""

    client: str
    place: str
    text: str


def server_command() -> list[str]:
    """How to start this installation: the console script beside the interpreter, else the module."""
    beside = Path(sys.executable).with_name("leanrag-mcp")
    script = str(beside) if beside.exists() else shutil.which("leanrag-mcp")
    return [script] if script else [sys.executable, "-P", "-m", "leanrag_mcp", "serve"]


def snippets(folder: str = "/path/to/your/documents", command: Sequence[str] | None = None) -> list[Snippet]:
    """Claude Desktop, Claude Code, VS Code and Cursor, with ``folder`` as the one that may be read."""
    program, *fixed = command or server_command()
    arguments = [*fixed, "--allow-dir", folder]
    entry = {"command": program, "args": arguments}
    servers = json.dumps({"mcpServers": {"leanrag": entry}}, indent=2)
    return [
        Snippet("Claude Desktop", "claude_desktop_config.json (Settings > Developer > Edit Config)", servers),
        Snippet(
            "Claude Code",
            "a terminal",
            shlex.join(["claude", "mcp", "add", "leanrag", "--", program, *arguments]),
        ),
        Snippet(
            "VS Code",
            ".vscode/mcp.json in the workspace",
            json.dumps({"servers": {"leanrag": {"type": "stdio", **entry}}}, indent=2),
        ),
        Snippet("Cursor", "~/.cursor/mcp.json", servers),
    ]
