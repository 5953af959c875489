"""The MCP clients that are supported: the form and the place of their configuration, by their documentation of November 2026."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from leanrag_engine.core.errors import InvalidInput

if TYPE_CHECKING:
    from leanrag_engine.core.model import JsonObject


Scope = Literal["user", "project"]


@dataclass(frozen=True, slots=True)
class Client:
    """How one MCP client's configuration differs from the others. ``file`` is that of a user, ``servers`` the key that holds
    the servers, ``marks`` is in every entry, ``one_list``: program and arguments are one list, ``project_file``: shared by a
    project, ``project_folder``: what is replaced with its folder; ``plugins``: it takes plugins in Claude Code's layout."""

    title: str
    then: str
    file: Callable[[Machine], Path]
    servers: str = "mcpServers"
    marks: JsonObject = field(default_factory=dict)
    one_list: bool = False
    comments: bool = False
    toml: bool = False
    project_file: str = ""
    project_folder: str = ""
    plugins: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """What determines the paths: the platform as in ``sys.platform``, home, environment, current folder."""

    platform: str
    home: Path
    environ: Mapping[str, str]
    folder: Path

    @classmethod
    def here(cls) -> Machine:
        return cls(sys.platform, Path.home(), os.environ, Path.cwd())

    def variable(self, name: str, otherwise: Path) -> Path:
        return Path(self.environ.get(name) or otherwise)

    def applications(self) -> Path:
        """Return the folder in which desktop programs keep their settings."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.variable("APPDATA", self.home / "AppData" / "Roaming")
        return self.variable("XDG_CONFIG_HOME", self.home / ".config")


def config_file(client: str, scope: Scope, machine: Machine) -> Path:
    """Return the file with the servers of ``client``. Raises :class:`InvalidInput` if there is none in this scope."""
    if scope == "user":
        return CLIENTS[client].file(machine)
    kind = CLIENTS[client]
    if not kind.project_file:
        raise InvalidInput(f"{kind.title} has no configuration per project.", "Leave out --scope.")
    file = machine.folder / kind.project_file
    return existing_jsonc(file) if client == "opencode" else file


def is_present(client: str, machine: Machine) -> bool:
    """Return whether the client has left traces in this user's home folder: its configuration or the folder for it."""
    if client == "claude-code":
        # Its file lies in the home folder itself.
        return CLIENTS[client].file(machine).exists() or (machine.home / ".claude").is_dir()
    if client == "cline":
        return (machine.home / ".cline").is_dir() or cline_file(machine).parent.is_dir()
    return CLIENTS[client].file(machine).parent.is_dir()


def claude_desktop_folder(machine: Machine) -> Path:
    """Return its folder; of Claude Desktop from the Microsoft Store the one inside the package, which alone it reads."""
    plain = machine.applications() / "Claude"
    if machine.platform != "win32":
        return plain
    packages = machine.variable("LOCALAPPDATA", machine.home / "AppData" / "Local") / "Packages"
    inside = [each / "LocalCache" / "Roaming" / "Claude" for each in sorted(packages.glob("Claude_*"))]
    used = [each for each in inside if each.exists()]
    if len(used) > 1:
        listed = ", ".join(str(each) for each in used)
        raise InvalidInput(
            f"Claude Desktop is installed more than once: {listed}.", "Say which file with --config."
        )
    return (used or inside or [plain])[0]


def vscode_folder(machine: Machine) -> Path:
    return machine.applications() / "Code" / "User"


def zed_folder(machine: Machine) -> Path:
    if machine.platform == "win32":
        return machine.applications() / "Zed"
    if machine.platform == "darwin":
        return machine.home / ".config" / "zed"
    return machine.applications() / "zed"


def cline_file(machine: Machine) -> Path:
    """Return the file that all editions of Cline share, or that of an older extension for VS Code if only it is there."""
    name = "cline_mcp_settings.json"
    data = machine.variable("CLINE_DIR", machine.home / ".cline") / "data"
    shared = machine.variable("CLINE_DATA_DIR", data) / "settings" / name
    extension = vscode_folder(machine) / "globalStorage" / "saoudrizwan.claude-dev" / "settings" / name
    return extension if extension.exists() and not shared.exists() else shared


def existing_jsonc(file: Path) -> Path:
    """Return ``file``, or its twin that ends in ``.jsonc`` if only that one exists."""
    twin = file.with_suffix(".jsonc")
    return twin if twin.exists() and not file.exists() else file


def opencode_file(machine: Machine) -> Path:
    """Return its file, which on macOS and Windows lies where it does on Linux."""
    folder = machine.variable("XDG_CONFIG_HOME", machine.home / ".config") / "opencode"
    return existing_jsonc(folder / "opencode.json")


CLIENTS: dict[str, Client] = {
    "claude-desktop": Client(
        title="Claude Desktop",
        then="Quit Claude Desktop (closing its window is not enough) and start it again.",
        file=lambda machine: claude_desktop_folder(machine) / "claude_desktop_config.json",
    ),
    "claude-code": Client(
        title="Claude Code",
        then="Start a new session; /mcp shows the server.",
        file=lambda machine: machine.variable("CLAUDE_CONFIG_DIR", machine.home) / ".claude.json",
        marks={"type": "stdio"},
        project_file=".mcp.json",
        plugins=True,
    ),
    "vscode": Client(
        title="VS Code",
        then="Run `MCP: List Servers` and start the server; its tools are offered in agent mode.",
        file=lambda machine: vscode_folder(machine) / "mcp.json",
        servers="servers",
        marks={"type": "stdio"},
        comments=True,
        project_file=".vscode/mcp.json",
        project_folder="${workspaceFolder}",
    ),
    "cursor": Client(
        title="Cursor",
        then="Restart Cursor; the server is listed under MCP in its settings.",
        file=lambda machine: machine.home / ".cursor" / "mcp.json",
        comments=True,
        project_file=".cursor/mcp.json",
        project_folder="${workspaceFolder}",
    ),
    "codex": Client(
        title="Codex",
        then="Start a new session; /mcp shows the server. Of a project, Codex reads it once you trust the project.",
        file=lambda machine: machine.variable("CODEX_HOME", machine.home / ".codex") / "config.toml",
        servers="mcp_servers",
        toml=True,
        project_file=".codex/config.toml",
    ),
    "gemini-cli": Client(
        title="Gemini CLI",
        then="Start a new session; /mcp shows the server.",
        file=lambda machine: machine.variable("GEMINI_CLI_HOME", machine.home) / ".gemini" / "settings.json",
        comments=True,
        project_file=".gemini/settings.json",
    ),
    "windsurf": Client(
        title="Windsurf",
        then="Refresh the MCP servers in Cascade's settings, or restart Windsurf.",
        file=lambda machine: machine.home / ".codeium" / "windsurf" / "mcp_config.json",
        comments=True,
    ),
    "zed": Client(
        title="Zed",
        then="Zed starts it at once; the agent panel's settings show a green dot beside its name.",
        file=lambda machine: zed_folder(machine) / "settings.json",
        servers="context_servers",
        marks={"source": "custom"},
        comments=True,
        project_file=".zed/settings.json",
    ),
    "cline": Client(
        title="Cline", then="Cline starts it at once; its MCP Servers page lists the tools.", file=cline_file
    ),
    "opencode": Client(
        title="opencode",
        then="Start a new session; `opencode mcp list` shows the server.",
        file=opencode_file,
        servers="mcp",
        marks={"type": "local", "enabled": True},
        one_list=True,
        comments=True,
        project_file="opencode.json",
    ),
    "copilot-cli": Client(
        title="GitHub Copilot CLI",
        then="Start a new session; /mcp show lists the server.",
        file=lambda machine: machine.variable("COPILOT_HOME", machine.home / ".copilot") / "mcp-config.json",
        marks={"type": "local", "tools": ["*"]},
        comments=True,
        project_file=".github/mcp.json",
    ),
}
