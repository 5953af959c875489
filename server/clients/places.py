"""The MCP clients that are supported (``clients.toml``): the form and the place of their configuration."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from leanrag_engine.core.errors import InvalidInput

if TYPE_CHECKING:
    from leanrag_engine.core.model import JsonObject


Scope = Literal["user", "project"]


@dataclass(frozen=True, slots=True)
class Client:
    """How one MCP client's configuration differs from the others. The file of a user is ``path`` in the folder of the environment's
    ``variable``, by default ``folder`` at home. ``servers``: the key that holds the servers, ``marks`` is in every entry, ``one_list``:
    program and arguments are one list, ``project_file``: shared by a project, ``project_folder``: what is replaced with its folder;
    ``plugins``: it takes plugins in Claude Code's layout."""

    name: str
    title: str
    then: str
    variable: str = ""
    folder: str = ""
    path: str = ""
    servers: str = "mcpServers"
    marks: JsonObject = field(default_factory=dict)
    one_list: bool = False
    comments: bool = False
    toml: bool = False
    project_file: str = ""
    project_folder: str = ""
    plugins: bool = False

    def file(self, machine: Machine) -> Path:
        find = _PLACES.get(self.name, lambda here: here.variable(self.variable, here.home / self.folder))
        return find(machine) / self.path


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


_PLACES = {
    "claude-desktop": claude_desktop_folder,
    "vscode": vscode_folder,
    "zed": zed_folder,
    "cline": cline_file,
    "opencode": opencode_file,
}
"""Where what no variable and no folder at home tells is found; ``path`` lies there."""
_TABLES = tomllib.loads(Path(__file__).with_name("clients.toml").read_text(encoding="utf-8"))
CLIENTS = {name: Client(name, **fields) for name, fields in _TABLES.items()}
