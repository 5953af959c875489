"""``leanrag install`` and ``leanrag uninstall``: the server in the configuration of an MCP client.

Where each client keeps its configuration is in its own documentation; Claude Desktop from the
Microsoft Store reads a copy inside its package folder and nothing else. What is there stays: only the
server's own entry is touched, byte by byte, after a backup, and the file is replaced at once.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from leanrag_engine.config import Settings, load_settings
from leanrag_engine.errors import InvalidInput, LeanRAGError, NotFound

from . import jsonc
from .snippets import server_command

ClientName = Literal["claude-desktop", "claude-code", "vscode", "cursor"]
Scope = Literal["user", "project"]
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
PACKAGE = "leanrag-mcp"


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
class Plan:
    """What would be written where. ``before`` and ``after`` are whole texts."""

    client: Client
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


# --- what ----------------------------------------------------------------------------------


def command_of(prefix: Path, environ: Mapping[str, str], *, uvx: bool) -> list[str]:
    """How a client is to start the server: this installation, or ``uvx`` if this one will not last.

    A desktop program does not see the shell's PATH, so that the full path of ``uvx`` is given, except
    where the caller asks for ``uvx``: that is for a file shared with others.
    """
    if uvx:
        return ["uvx", PACKAGE]
    if is_passing(prefix, environ):
        return [shutil.which("uvx", path=environ.get("PATH")) or "uvx", PACKAGE]
    return server_command()


def is_passing(prefix: Path, environ: Mapping[str, str]) -> bool:
    """Whether ``uvx`` made this environment for one run: it lies in uv's cache, which is emptied now and then."""
    if {"archive-v0", "environments-v2", "builds-v0"} & set(prefix.parts):
        return True
    cache = environ.get("UV_CACHE_DIR")
    return bool(cache) and prefix.is_relative_to(Path(str(cache)))


def server_entry(client: Client, command: Sequence[str], settings: Settings) -> dict[str, Any]:
    """The server as ``client`` writes it. Holds no key: ``settings`` has none, and no variable is copied."""
    program, *arguments = command
    for folder in settings.allow_dirs:
        arguments += ["--allow-dir", str(existing_folder(folder))]
    if "data_dir" in settings.model_fields_set:
        arguments += ["--data-dir", str(settings.data_dir.expanduser().absolute())]
    if "collection" in settings.model_fields_set:
        arguments += ["--collection", settings.collection]
    if settings.read_only:
        arguments.append("--read-only")
    entry = {"command": program, "args": arguments}
    return {"type": "stdio", **entry} if client.typed else entry


def existing_folder(folder: Path) -> Path:
    found = folder.expanduser().absolute()
    if not found.is_dir():
        raise InvalidInput(f"The folder {folder} does not exist.", "Make it, or give another --allow-dir.")
    return found


def unseen_variables(environ: Mapping[str, str]) -> list[str]:
    """Settings of this shell that are not among the arguments: a desktop client does not see them."""
    written = {"LEANRAG_DATA_DIR", "LEANRAG_ALLOW_DIRS", "LEANRAG_COLLECTION", "LEANRAG_READ_ONLY"}
    known = {f"LEANRAG_{name.upper()}" for name in Settings.model_fields}
    return sorted(name for name in known - written if environ.get(name))


# --- how -----------------------------------------------------------------------------------


def planned_install(client: Client, file: Path, name: str, entry: Mapping[str, Any]) -> Plan:
    """``entry`` under ``name``. What a user added to an older entry, such as ``env``, stays."""
    before, document, existed = opened(client, file)
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
        raise broken(client, file, problem) from problem
    return Plan(client, file, before, document.text, existed)


def planned_uninstall(client: Client, file: Path, name: str) -> Plan:
    """The file without the server called ``name``. Raises :class:`NotFound` if there is none."""
    before, document, existed = opened(client, file)
    try:
        present = document.member([client.servers, name])
        if present is None:
            raise NotFound(f"{file} has no server called {name!r}.", there_are(document.value, client))
        refuse_foreign(document, present, name, file)
        document = jsonc.without_member(document, [client.servers, name])
    except jsonc.Malformed as problem:
        raise broken(client, file, problem) from problem
    return Plan(client, file, before, document.text, existed)


def there_are(value: Mapping[str, Any], client: Client) -> str:
    names = ", ".join(value.get(client.servers) or {})
    return f"It has: {names}." if names else "It has none at all."


def opened(client: Client, file: Path) -> tuple[str, jsonc.Document, bool]:
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
        raise broken(client, file, problem) from problem


def broken(client: Client, file: Path, problem: jsonc.Malformed) -> InvalidInput:
    return InvalidInput(
        f"{file}, line {problem.line}: {problem.problem}.",
        f"Mend it first ({client.title} reads this file), or add what --print shows by hand. Nothing was written.",
    )


def refuse_foreign(document: jsonc.Document, present: jsonc.Member, name: str, file: Path) -> None:
    """Only an entry that starts this server is ours to change."""
    value = present.node.value
    words = [value.get("command"), *(value.get("args") or [])] if isinstance(value, dict) else []
    if not any("leanrag" in str(word) for word in words):
        raise InvalidInput(
            f"{file}, line {document.line_of(present.start)}: the server {name!r} is another one, it does not start leanrag.",
            "Choose another --name, or change that entry by hand. Nothing was written.",
        )


def carried_out(plan: Plan) -> Path | None:
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
        backup = backed_up(file, now) if plan.existed else None
        replace(file, plan.after.encode("utf-8"))
    except OSError as problem:
        raise InvalidInput(
            f"{plan.file} cannot be written: {problem.strerror}.",
            "Check who may write there, or add what --print shows by hand.",
        ) from problem
    return backup


def backed_up(file: Path, content: bytes) -> Path:
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


# --- the commands --------------------------------------------------------------------------

ClientArgument = Annotated[
    ClientName, typer.Argument(help="claude-desktop, claude-code, vscode or cursor.", show_default=False)
]
NameOption = Annotated[str, typer.Option(help="What the client calls the server.")]
ScopeOption = Annotated[
    Scope, typer.Option(help="For you in every project, or for this folder's project alone.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The file to change, if not the client's usual one (a profile, VS Code Insiders).",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the lines that would change; write nothing.")]


def install(
    client: ClientArgument,
    allow_dir: Annotated[
        list[Path] | None,
        typer.Option(help="A folder beneath which the server may read documents; repeatable."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder that holds everything.", show_default=False)
    ] = None,
    collection: Annotated[str | None, typer.Option(help="Which corpus.", show_default=False)] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no tool that writes.")] = False,
    name: NameOption = "leanrag",
    scope: ScopeOption = "user",
    config: ConfigOption = None,
    uvx: Annotated[
        bool, typer.Option("--uvx", help="Write `uvx leanrag-mcp`: for a file that is shared with others.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--print", help="Only print what to add to the configuration; write nothing.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Add this server to an MCP client's configuration.

    Other servers and settings there stay as they are, comments too where the client allows them; a
    numbered backup is left beside the file. The command written is the full path of this installation's
    `leanrag-mcp`, because desktop programs do not see your shell's PATH; run through `uvx`, which keeps
    nothing, it is `uvx leanrag-mcp`. Keys are never written: they come from the environment.

    Example: `leanrag install claude-desktop --allow-dir ~/Documents`
    """
    with told_plainly():
        machine = Machine.here()
        settings = load_settings(
            allow_dirs=tuple(allow_dir) if allow_dir else None,
            data_dir=data_dir,
            collection=collection,
            read_only=read_only or None,
        )
        kind = CLIENTS[client]
        file = config or config_file(client, scope, machine)
        entry = server_entry(kind, command_of(Path(sys.prefix), machine.environ, uvx=uvx), settings)
        if show:
            print_entry(client, file, checked_name(name), scope, entry)
        else:
            finish(planned_install(kind, file, checked_name(name), entry), dry_run=dry_run)
            tell_what_is_missing(kind, settings, machine.environ)


def uninstall(
    client: ClientArgument,
    name: NameOption = "leanrag",
    scope: ScopeOption = "user",
    config: ConfigOption = None,
    dry_run: DryRun = False,
) -> None:
    """Take this server out of an MCP client's configuration. Your documents and their index stay."""
    with told_plainly():
        file = config or config_file(client, scope, Machine.here())
        finish(planned_uninstall(CLIENTS[client], file, checked_name(name)), dry_run=dry_run)


class told_plainly:  # noqa: N801 - reads as what it is, a context
    """An error becomes a message and exit code 1."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, LeanRAGError):
            typer.echo(f"Error: {problem}", err=True)
            raise typer.Exit(1) from problem


def checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise InvalidInput(
            f"The name {name!r} would not do for every client.", "Use up to 64 letters, digits, - and _."
        )
    return name


def print_entry(client: ClientName, file: Path, name: str, scope: Scope, entry: Mapping[str, Any]) -> None:
    """The entry on standard output, ready to be pasted; where it goes on standard error."""
    typer.echo(f"Goes into {file}:", err=True)
    typer.echo(json.dumps({CLIENTS[client].servers: {name: entry}}, indent=2, ensure_ascii=False))
    if client == "claude-code":
        words = ["claude", "mcp", "add", "--scope", scope, name, "--", entry["command"], *entry["args"]]
        typer.echo(f"Or run: {shlex.join(words)}", err=True)


def finish(plan: Plan, *, dry_run: bool) -> None:
    if not plan.changes:
        typer.echo(f"{plan.file} says so already; nothing was written.")
    elif dry_run:
        typer.echo(f"Would change {plan.file}:")
        typer.echo("\n".join(changed_lines(plan)))
    else:
        backup = carried_out(plan)
        typer.echo(f"Wrote {plan.file}" + (f" (as it was: {backup.name})." if backup else "."))
        typer.echo(plan.client.then)


def changed_lines(plan: Plan) -> list[str]:
    """The lines that go and come, without those around them: another server's key may stand there."""
    lines = difflib.unified_diff(plan.before.splitlines(), plan.after.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def tell_what_is_missing(client: Client, settings: Settings, environ: Mapping[str, str]) -> None:
    """What the user would otherwise find out later."""
    if not settings.allow_dirs:
        typer.echo(
            "Note: without --allow-dir the server reads no file, only texts that it is given.", err=True
        )
    if unseen := unseen_variables(environ):
        typer.echo(
            f"Note: {', '.join(unseen)} set in this shell may not reach {client.title}, nor do keys. "
            'Put what it needs into "env" of the entry; it stays there when you install again.',
            err=True,
        )
