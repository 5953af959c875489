"""Where each MCP client keeps its servers, and how that file is changed without losing anything.

The places are those of each client's documentation; Claude Desktop from the Microsoft Store reads a
copy inside its package folder and nothing else. Only the server's own entry is touched, byte by byte,
after a backup, and the file is replaced at once.
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
    """What is peculiar to one MCP client's configuration."""

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
    """Where a configuration could lie: the platform as ``sys.platform`` says it, home, environment, folder."""

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
        """The folder in which desktop programs keep their settings."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.variable("APPDATA", self.home / "AppData" / "Roaming")
        return self.variable("XDG_CONFIG_HOME", self.home / ".config")


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """What would be written where. ``before`` and ``after`` are whole texts."""

    file: Path
    before: str
    after: str
    existed: bool

    @property
    def changes(self) -> bool:
        return self.before != self.after


# --- where ---------------------------------------------------------------------------------


def config_file(client: ClientName, scope: Scope, machine: Machine) -> Path:
    """The file in which ``client`` looks for its servers. Raises :class:`InvalidInput` if it has none such."""
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
    """Its folder; on Windows that inside the package, if it was installed as one: it reads no other."""
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


# --- how -----------------------------------------------------------------------------------


def plan_install(client: Client, file: Path, name: str, entry: Mapping[str, Any]) -> ConfigChange:
    """``entry`` under ``name``. What a user added to an older entry, such as ``env``, stays."""
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
        raise malformed_file(client, file, problem) from problem
    return ConfigChange(file, before, document.text, existed)


def plan_uninstall(client: Client, file: Path, name: str) -> ConfigChange:
    """The file without the server called ``name``. Raises :class:`NotFound` if there is none."""
    before, document, existed = read_config(client, file)
    try:
        present = document.member([client.servers, name])
        if present is None:
            raise NotFound(f"{file} has no server called {name!r}.", there_are(document.value, client))
        refuse_foreign(document, present, name, file)
        document = jsonc.without_member(document, [client.servers, name])
    except jsonc.Malformed as problem:
        raise malformed_file(client, file, problem) from problem
    return ConfigChange(file, before, document.text, existed)


def there_are(value: Mapping[str, Any], client: Client) -> str:
    names = ", ".join(value.get(client.servers) or {})
    return f"It has: {names}." if names else "It has none at all."


def read_config(client: Client, file: Path) -> tuple[str, jsonc.JsonDocument, bool]:
    """The text as it is, parsed; an absent or blank file counts as an empty object."""
    try:
        before = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return "", jsonc.parse("{}\n"), False
    except UnicodeDecodeError as problem:
        raise InvalidInput(
            f"{file} is no UTF-8 text (byte {problem.start}).",
            f"{client.title} cannot read it either: save it as UTF-8. Nothing was written.",
        ) from problem
    except OSError as problem:
        raise InvalidInput(f"{file} cannot be read: {problem.strerror}.", "Nothing was written.") from problem
    try:
        return before, jsonc.parse(before if before.strip() else "{}\n", comments=client.comments), True
    except jsonc.Malformed as problem:
        raise malformed_file(client, file, problem) from problem


def malformed_file(client: Client, file: Path, problem: jsonc.Malformed) -> InvalidInput:
    return InvalidInput(
        f"{file}, line {problem.line}: {problem.problem}.",
        f"Mend it first ({client.title} reads this file), or add what --print shows by hand. Nothing was written.",
    )


def refuse_foreign(document: jsonc.JsonDocument, present: jsonc.JsonMember, name: str, file: Path) -> None:
    """Only an entry that starts this server is ours to change."""
    value = present.node.value
    words = [value.get("command"), *(value.get("args") or [])] if isinstance(value, dict) else []
    if not any("leanrag" in str(word) for word in words):
        raise InvalidInput(
            f"{file}, line {document.line_of(present.start)}: the server {name!r} is another one, it does not start leanrag.",
            "Choose another --name, or change that entry by hand. Nothing was written.",
        )


def apply_change(plan: ConfigChange) -> Path | None:
    """Write the plan: backup first, then one replacement. Gives the backup, None if there was nothing to keep.

    Raises :class:`InvalidInput` if the file cannot be written or has changed since it was read.
    """
    file = Path(
        os.path.realpath(plan.file)
    )  # a link to it, as people keep among their dotfiles, stays a link
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
            "Check who may write there, or add what --print shows by hand.",
        ) from problem
    return backup


def back_up(file: Path, content: bytes) -> Path:
    """A copy beside the file, under the first free number; an equal one that is there already serves."""
    number = 1
    while (backup := file.with_name(f"{file.name}.bak{number}")).exists():
        if backup.read_bytes() == content:
            return backup
        number += 1
    shutil.copy2(file, backup)
    return backup


def replace(file: Path, content: bytes) -> None:
    """Put ``content`` in the place of ``file`` at once, with the same rights; a new file is for its owner alone."""
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
