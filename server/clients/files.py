"""The configuration file of each MCP client, and how to change it without losing anything.

The paths are those of each client's documentation; Claude Desktop from the Microsoft Store reads only a
copy inside its package folder. Only the server's own entry changes, every other byte stays; a backup is
made first, and the file is replaced atomically.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leanrag_engine.core.errors import InvalidInput, NotFound

from . import jsonc

ClientName = Literal["claude-desktop", "claude-code", "vscode", "cursor"]
Scope = Literal["user", "project"]


@dataclass(frozen=True, slots=True)
class Client:
    """How one MCP client's configuration differs from the others."""

    title: str
    servers: str
    comments: bool
    typed: bool
    then: str


CLIENTS: dict[ClientName, Client] = {
    "claude-desktop": Client(
        title="Claude Desktop",
        servers="mcpServers",
        comments=False,
        typed=False,
        then="Quit Claude Desktop (closing its window is not enough) and start it again.",
    ),
    "claude-code": Client(
        title="Claude Code",
        servers="mcpServers",
        comments=False,
        typed=True,
        then="Start a new session; /mcp shows the server.",
    ),
    "vscode": Client(
        title="VS Code",
        servers="servers",
        comments=True,
        typed=True,
        then="Run `MCP: List Servers` and start the server; its tools are offered in agent mode.",
    ),
    "cursor": Client(
        title="Cursor",
        servers="mcpServers",
        comments=True,
        typed=True,
        then="Restart Cursor; the server is listed under MCP in its settings.",
    ),
}


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


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one file. ``before`` and ``after`` are whole texts."""

    file: Path
    before: str
    after: str
    existed: bool

    @property
    def changes(self) -> bool:
        return self.before != self.after


# --- paths ---------------------------------------------------------------------------------


def config_file(client: ClientName, scope: Scope, machine: Machine) -> Path:
    """Return the file with the servers of ``client``. Raises :class:`InvalidInput` if there is none in this scope."""
    if client == "claude-desktop":
        if scope == "project":
            raise InvalidInput("Claude Desktop has no configuration per project.", "Leave out --scope.")
        return claude_desktop_folder(machine) / "claude_desktop_config.json"
    if scope == "project":
        within = {"claude-code": ".mcp.json", "vscode": ".vscode/mcp.json", "cursor": ".cursor/mcp.json"}
        return machine.folder / within[client]
    if client == "claude-code":
        return machine.variable("CLAUDE_CONFIG_DIR", machine.home) / ".claude.json"
    if client == "vscode":
        return machine.applications() / "Code" / "User" / "mcp.json"
    return machine.home / ".cursor" / "mcp.json"


def claude_desktop_folder(machine: Machine) -> Path:
    """Return its folder; on Windows the one inside the package if it was installed as a package."""
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


# --- changes ---------------------------------------------------------------------------------


def plan_install(client: Client, file: Path, name: str, entry: Mapping[str, Any]) -> ConfigChange:
    """Plan to write ``entry`` under ``name``. What a user added to an older entry, such as ``env``, stays."""
    before, document, existed = read_config(client, file)
    try:
        present = document.member([client.servers, name])
        if present is None:
            document = jsonc.with_member(document, [client.servers, name], dict(entry))
        else:
            refuse_foreign(document, present, name, file)
            for key, value in entry.items():
                if present.node.value.get(key) != value:
                    document = jsonc.with_member(document, [client.servers, name, key], value)
    except jsonc.Malformed as problem:
        raise syntax_error(client, file, problem) from problem
    return ConfigChange(file, before, document.text, existed)


def plan_uninstall(client: Client, file: Path, name: str) -> ConfigChange:
    """Plan to remove the server called ``name``. Raises :class:`NotFound` if there is none."""
    before, document, existed = read_config(client, file)
    try:
        present = document.member([client.servers, name])
        if present is None:
            raise NotFound(f"{file} has no server called {name!r}.", list_servers(document.value, client))
        refuse_foreign(document, present, name, file)
        document = jsonc.without_member(document, [client.servers, name])
    except jsonc.Malformed as problem:
        raise syntax_error(client, file, problem) from problem
    return ConfigChange(file, before, document.text, existed)


def list_servers(value: Mapping[str, Any], client: Client) -> str:
    names = ", ".join(value.get(client.servers) or {})
    return f"It has: {names}." if names else "It has none."


def read_config(client: Client, file: Path) -> tuple[str, jsonc.JsonDocument, bool]:
    """Return the text, the parsed document and whether the file exists; a missing or blank file is an empty object."""
    try:
        before = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return "", jsonc.parse("{}\n"), False
    except UnicodeDecodeError as problem:
        raise InvalidInput(
            f"{file} is not UTF-8 text (byte {problem.start}).",
            f"{client.title} cannot read it either: save it as UTF-8. Nothing was written.",
        ) from problem
    except OSError as problem:
        raise InvalidInput(f"{file} cannot be read: {problem.strerror}.", "Nothing was written.") from problem
    try:
        return before, jsonc.parse(before if before.strip() else "{}\n", comments=client.comments), True
    except jsonc.Malformed as problem:
        raise syntax_error(client, file, problem) from problem


def syntax_error(client: Client, file: Path, problem: jsonc.Malformed) -> InvalidInput:
    return InvalidInput(
        f"{file}, line {problem.line}: {problem.problem}.",
        f"Fix it first ({client.title} reads this file), or add what --print shows by hand. Nothing was written.",
    )


def refuse_foreign(document: jsonc.JsonDocument, present: jsonc.JsonMember, name: str, file: Path) -> None:
    """Raise ``InvalidInput`` if the entry starts another server than this one."""
    value = present.node.value
    words = [value.get("command"), *(value.get("args") or [])] if isinstance(value, dict) else []
    if not any("leanrag" in str(word) for word in words):
        raise InvalidInput(
            f"{file}, line {document.line_of(present.start)}: the server {name!r} is a different one: it does not start leanrag.",
            "Choose another --name, or change that entry by hand. Nothing was written.",
        )


def apply_change(plan: ConfigChange) -> Path | None:
    """Back up the file and replace it. Returns the backup, None if there was no file.

    Raises :class:`InvalidInput` if the file cannot be written or has changed since it was read.
    """
    # A symbolic link to the file, as in a dotfiles repository, stays a link.
    file = Path(os.path.realpath(plan.file))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        now = file.read_bytes() if file.exists() else b""
        if now != plan.before.encode("utf-8"):
            raise InvalidInput(
                f"{file} was changed by another program just now.", "Run this again. Nothing was written."
            )
        backup = back_up(file, now) if plan.existed else None
        replace(file, plan.after.encode("utf-8"))
    except OSError as problem:
        raise InvalidInput(
            f"{plan.file} cannot be written: {problem.strerror}.",
            "Check the file's permissions, or add what --print shows by hand.",
        ) from problem
    return backup


def back_up(file: Path, content: bytes) -> Path:
    """Copy the file beside itself, under the first free number; an existing equal backup is used instead."""
    number = 1
    while (backup := file.with_name(f"{file.name}.bak{number}")).exists():
        if backup.read_bytes() == content:
            return backup
        number += 1
    shutil.copy2(file, backup)
    return backup


def replace(file: Path, content: bytes) -> None:
    """Replace ``file`` atomically with ``content``, keeping its permissions; a new file is readable by its owner only."""
    handle, scratch = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if file.exists():
            shutil.copymode(file, scratch)
        Path(scratch).replace(file)
    finally:
        Path(scratch).unlink(missing_ok=True)
