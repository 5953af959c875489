"""``leanrag install`` and ``leanrag uninstall``: the server as an entry in the configuration of an MCP client."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.config import Settings, load_settings, variable_of
from leanrag_engine.core.config import config_file as settings_file
from leanrag_engine.core.errors import InvalidInput, LeanRAGError
from leanrag_engine.core.text.nearest import find_nearest

from ...clients.files import (
    ConfigChange,
    apply_change,
    find_installed_command,
    plan_install,
    plan_uninstall,
    print_config,
)
from ...clients.places import CLIENTS, Client, Machine, Scope, config_file
from ..options import DataDir, ReadOnly, report_errors
from ..running import command_line, index_options

if TYPE_CHECKING:
    from leanrag_engine.core.model import Json, JsonObject


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
PACKAGE = "leanrag-mcp"

INDEX_OPTIONS = ("--data-dir", "--collection")
"""Options of the server that say which index it opens: always that of the command."""

DATA_FILES = ("graph.sqlite3*", "vectors*", "arrays", "*.lock", "writer.json", "restoring", "database-*")
"""What the data folder holds of ours."""


# --- the entry ---------------------------------------------------------------------------


def server_command() -> list[str]:
    """Return the command that starts this installation: the console script beside the interpreter, else the module."""
    here = Path(sys.executable)
    beside = [path for name in ("leanrag-mcp", "leanrag-mcp.exe") if (path := here.with_name(name)).exists()]
    script = str(beside[0]) if beside else shutil.which("leanrag-mcp")
    return [script] if script else [sys.executable, "-P", "-m", "leanrag_mcp", "serve"]


def command_of(prefix: Path, environ: Mapping[str, str], scope: Scope = "user") -> list[str]:
    """Return the command for a client: this installation, or ``uvx`` if this one is temporary. Desktop programs do not see the shell's
    PATH, so a program is given with its full path, except in a file that a project shares: there only its name holds for everyone."""
    if scope == "project":
        return [PACKAGE]
    if is_temporary(prefix, environ):
        return [shutil.which("uvx", path=environ.get("PATH")) or "uvx", PACKAGE]
    return server_command()


def is_temporary(prefix: Path, environ: Mapping[str, str]) -> bool:
    """Return whether ``uvx`` made this environment for one run: it is in uv's cache, which is pruned."""
    if {"archive-v0", "environments-v2", "builds-v0"} & set(prefix.parts):
        return True
    cache = environ.get("UV_CACHE_DIR")
    return bool(cache) and prefix.is_relative_to(Path(str(cache)))


def server_arguments(settings: Settings) -> list[str]:
    """Return the server's arguments for one user, with full paths. None is a key: ``settings`` has none."""
    folders = [word for each in settings.allow_dirs for word in ("--allow-dir", str(existing_folder(each)))]
    return [*folders, *index_options(settings), *(["--read-only"] if settings.read_only else [])]


def list_shared_arguments(
    client: Client, allow_dirs: Sequence[Path], data_dir: Path | None, settings: Settings, project: Path
) -> list[str]:
    """Return the server's arguments for everyone who opens the project: its folders are given relative to it. Raises
    :class:`InvalidInput` for a folder outside the project, which others do not have."""

    def in_project(folder: Path, option: str) -> str:
        path = Path(os.path.abspath(folder.expanduser()))  # noqa: PTH100 - `..` goes, a link stays as it is named
        if not path.is_relative_to(project):
            raise InvalidInput(
                f"{option} {folder} is outside of the project {project}: a file that others share cannot name it.",
                "Name a folder of the project, or leave out --scope project.",
            )
        inside = path.relative_to(project).as_posix()
        if not client.project_folder:
            return inside
        return client.project_folder if inside == "." else f"{client.project_folder}/{inside}"

    arguments: list[str] = []
    for folder in allow_dirs:
        existing_folder(folder)
        arguments += ["--allow-dir", in_project(folder, "--allow-dir")]
    if data_dir:
        arguments += ["--data-dir", in_project(data_dir, "--data-dir")]
    if "collection" in settings.model_fields_set:
        arguments += ["--collection", settings.collection]
    return [*arguments, *(["--read-only"] if settings.read_only else [])]


def server_entry(client: Client, command: Sequence[str]) -> dict[str, Json]:
    """Return the entry that starts ``command``, in the form of ``client``."""
    program, *arguments = command
    if client.one_list:
        return {**client.marks, "command": [program, *arguments]}
    return {**client.marks, "command": program, "args": arguments}


def merge_arguments(present: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the arguments of an older entry together with those wanted: the folders of both, the wanted index."""
    ours = group_options(wanted)
    kept = [
        each for each in group_options(present) if each[0].startswith("--") and each[0] not in INDEX_OPTIONS
    ]
    first = [each for each in ours if not each[0].startswith("--")]
    rest = [each for each in ours if each not in first and each not in kept]
    return [word for each in [*first, *kept, *rest] for word in each]


def group_options(arguments: Sequence[str]) -> list[list[str]]:
    """Return each option with its value, and what stands before the first one."""
    groups: list[list[str]] = []
    for word in arguments:
        if word.startswith("--") or not groups:
            groups.append([word])
        else:
            groups[-1].append(word)
    return groups


def existing_folder(folder: Path) -> Path:
    found = folder.expanduser().absolute()
    if not found.is_dir():
        raise InvalidInput(f"The folder {folder} does not exist.", "Create it, or give another --allow-dir.")
    return found


def unseen_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the settings of this shell that are not among the arguments: a desktop client does not see them."""
    written = {"LEANRAG_DATA_DIR", "LEANRAG_ALLOW_DIRS", "LEANRAG_COLLECTION", "LEANRAG_READ_ONLY"}
    return sorted(name for name in {*map(variable_of, Settings.model_fields)} - written if environ.get(name))


# --- the commands --------------------------------------------------------------------------

CLIENT = typer.Argument(
    help=f"One of {', '.join(CLIENTS)}.",
    metavar="CLIENT",
    show_default=False,
    autocompletion=lambda: [*CLIENTS],
)
NameOption = Annotated[str, typer.Option(help="What the client calls the server.")]
ScopeOption = Annotated[
    Scope,
    typer.Option(
        help="user: for you in every project; project: a file in this folder that everyone who works on it shares."
    ),
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
    name_: Annotated[str, CLIENT],
    allow_dir: Annotated[
        list[Path] | None,
        typer.Option(help="A folder beneath which the server may read documents; repeatable."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder that holds everything.", show_default=False)
    ] = None,
    collection: Annotated[str | None, typer.Option(help="Which corpus.", show_default=False)] = None,
    read_only: ReadOnly = False,
    name: NameOption = "leanrag",
    scope: ScopeOption = "user",
    config: ConfigOption = None,
    clear: Annotated[
        bool, typer.Option("--no-allow-dir", help="Forget the folders that an earlier install allowed.")
    ] = False,
    plugin: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write a plugin into this folder instead: the server with skills on how to use it.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--print", help="Only print the entry that would be written, to add it by hand.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Add this server to an MCP client's configuration, or change its entry there.

    Folders that the entry allows already stay allowed, unless `--no-allow-dir` is given. Other servers and settings
    stay as they are, comments too where the client allows them; a numbered backup is made beside the file. The command written is the full path of this installation's
    `leanrag-mcp`, because desktop programs do not see your shell's PATH; with `--scope project` it is the
    name alone, and folders are relative to the project. Keys are never written: they come from the environment.

    Example: `leanrag install claude-desktop --allow-dir ~/Documents`
    """
    with report_errors():
        client = find_client(name_)
        check_name(name)
        machine = Machine.here()
        kind = CLIENTS[client]
        file = config or config_file(client, scope, machine)
        settings = load_settings(
            allow_dirs=tuple(allow_dir) if allow_dir else None,
            data_dir=data_dir,
            collection=collection,
            read_only=read_only or None,
        )
        command = command_of(Path(sys.prefix), machine.environ, scope)
        if scope == "project":
            command += list_shared_arguments(kind, allow_dir or [], data_dir, settings, machine.folder)
        else:
            command += server_arguments(settings)
        if not plugin:
            # A file that cannot be read is mended by hand, with what is printed.
            with suppress(InvalidInput) if show else nullcontext():
                command[1:] = keep_options(kind, file, name, command, clear=clear)
        entry = server_entry(kind, command)
        if plugin:
            install_plugin(kind, name, plugin.expanduser().absolute(), entry, settings, dry_run=dry_run)
            return
        if show:
            print_entry(client, file, name, scope, entry, command)
            return
        if scope == "user" and not file.parent.is_dir():
            note = f"Note: {file.parent} does not exist. Is {kind.title} installed, and has it run once?"
            typer.echo(note, err=True)
        finish(plan_install(kind, file, name, entry), kind.then, dry_run=dry_run)
        typer.echo(f"The client will start: {command_line(command)}")
        if kind.plugins:
            typer.echo(f"With skills on how to use it, as a plugin: leanrag install {client} --plugin DIR")
        if scope == "project":
            typer.echo(f"Everyone who opens this project needs {command[0]} on their PATH.")
        warn_of_gaps(kind, command, machine.environ)


def keep_options(client: Client, file: Path, name: str, command: Sequence[str], *, clear: bool) -> list[str]:
    """Return the arguments of ``command`` with those that the entry in the file has already; say which are not kept."""
    present = group_options(find_installed_command(client, file, name))[1:]
    kept = [each for each in present if not (clear and each[0].startswith("--allow-dir"))]
    arguments = merge_arguments([word for each in kept for word in each], command[1:])
    if gone := [each for each in kept if each not in group_options(arguments)]:
        typer.echo(f"Not kept of the entry that was there: {'; '.join(map(' '.join, gone))}.", err=True)
    return arguments


def install_plugin(
    kind: Client, name: str, folder: Path, entry: JsonObject, settings: Settings, *, dry_run: bool
) -> None:
    """Write the plugin and print how to add it to the client. Raises :class:`InvalidInput` if the client has no plugins."""
    from ...clients.plugin import write_plugin  # noqa: PLC0415 - imports the SDK
    from ...replies.errors import Offered  # noqa: PLC0415
    from ...tools.toolsets import ALL_TOOLS, offers  # noqa: PLC0415

    if not kind.plugins:
        having = ", ".join(each for each, client in CLIENTS.items() if client.plugins)
        raise InvalidInput(f"{kind.title} has no plugins of this form.", f"Clients that have: {having}.")
    if not dry_run:
        write_plugin(
            folder, name, entry, Offered(frozenset(each.name for each in offers(settings)), ALL_TOOLS)
        )
    add = command_line(["claude", "plugin", "marketplace", "add", str(folder)])
    typer.echo(
        f"{'Would write' if dry_run else 'Wrote'} {folder}. Add it with:\n  {add}\n  claude plugin install {name}@{name}"
    )


def uninstall(
    name_: Annotated[str, CLIENT] = "",
    every: Annotated[bool, typer.Option("--all", help="Remove it from every client that has it.")] = False,
    data: Annotated[
        bool, typer.Option("--data", help="Also delete the data folder and the settings; asks first.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete the data without asking.")] = False,
    name: NameOption = "leanrag",
    scope: ScopeOption = "user",
    config: ConfigOption = None,
    dry_run: DryRun = False,
    data_dir: DataDir = None,
) -> None:
    """Remove this server from an MCP client's configuration. Without `--data` your index stays; your files stay always.

    A file that held nothing else goes, and so do backups that equal what is left.

    Example: `leanrag uninstall cursor`, or `leanrag uninstall --all --data`
    """
    with report_errors():
        if bool(name_) is every and not data:
            raise InvalidInput("Either a client or --all is needed.", f"Clients: {', '.join(CLIENTS)}.")
        check_name(name)
        failed = False
        for client in [find_client(name_)] if name_ else [*CLIENTS] if every else []:
            try:
                remove_entry(client, name, scope, config, every=every, dry_run=dry_run)
            except LeanRAGError as problem:
                if not every:
                    raise
                failed = True
                typer.echo(f"Error: {CLIENTS[client].title} was left as it is. {problem}", err=True)
        if data and not failed:
            delete_data(load_settings(data_dir=data_dir), yes=yes, dry_run=dry_run)
    if failed:
        raise typer.Exit(1)


def remove_entry(
    client: str, name: str, scope: Scope, config: Path | None, *, every: bool, dry_run: bool
) -> None:
    """Remove the server from one client; with ``every`` one that does not have it is passed over."""
    kind = CLIENTS[client]
    if every and scope == "project" and not kind.project_file:
        return
    file = config or config_file(client, scope, Machine.here())
    if not every or find_installed_command(kind, file, name):
        then = f"{kind.title} runs without it from its next start."
        finish(plan_uninstall(kind, file, name), then, dry_run=dry_run)


def delete_data(settings: Settings, *, yes: bool, dry_run: bool) -> None:
    """Delete what is ours in the data folder, and the file of settings; ask first."""
    folder = settings.data_dir.expanduser().absolute()
    found = [each for pattern in DATA_FILES for each in sorted(folder.glob(pattern))]
    found += [each for each in [settings_file()] if each.is_file()]
    if not found:
        typer.echo(f"{folder} holds no index.")
        return
    if dry_run:
        typer.echo("Would delete:\n" + "\n".join(f"  {each}" for each in found))
        return
    if not yes:
        typer.confirm(f"Delete the index in {folder} with all settings permanently?", abort=True, err=True)
    for each in found:
        shutil.rmtree(each) if each.is_dir() else each.unlink(missing_ok=True)
    for each in {folder, settings_file().parent}:
        if each.is_dir() and not any(each.iterdir()):
            each.rmdir()
    typer.echo(f"Deleted: the index in {folder} and the settings.")
    if settings.database_url or settings.chroma_url:
        typer.echo(
            "What a database or Chroma server holds stays: `leanrag collections delete` deletes that first.",
            err=True,
        )


def find_client(given: str) -> str:
    """Return the client of that name. Raises :class:`InvalidInput` if there is none."""
    if given in CLIENTS:
        return given
    near = "".join(f"Did you mean {each}? " for each in find_nearest(given, CLIENTS))
    raise InvalidInput(f"There is no client called {given!r}.", f"{near}Choose one of {', '.join(CLIENTS)}.")


def check_name(name: str) -> None:
    """Raise ``InvalidInput`` for a name that a client may not accept."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            f"Not every client accepts the name {name!r}.", "Use up to 64 letters, digits, - and _."
        )


def print_entry(
    client: str, file: Path, name: str, scope: Scope, entry: JsonObject, command: Sequence[str]
) -> None:
    """Print the entry on standard output, ready to paste, and its file on standard error."""
    typer.echo(f"Goes into {file}:", err=True)
    typer.echo(print_config(CLIENTS[client], name, entry), nl=False)
    if client == "claude-code":
        words = ["claude", "mcp", "add", "--scope", scope, name, "--", *command]
        typer.echo(f"Or run: {command_line(words)}", err=True)


def finish(plan: ConfigChange, then: str, *, dry_run: bool) -> None:
    if not plan.changes:
        typer.echo(f"{plan.file} is up to date; nothing was written.")
    elif dry_run:
        typer.echo(f"Would change {plan.file}:")
        lines = difflib.unified_diff(plan.before.splitlines(), plan.after.splitlines(), n=0, lineterm="")
        # Without context, which might show another server's key.
        typer.echo("\n".join(line for line in lines if not line.startswith(("---", "+++", "@@"))))
    else:
        backup = apply_change(plan)
        what = "Deleted" if plan.deletes else "Wrote"
        typer.echo(f"{what} {plan.file}" + (f" (backup: {backup.name})." if backup else "."))
        typer.echo(then)


def warn_of_gaps(client: Client, command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Print notes about what the server will lack."""
    if "--allow-dir" not in command:
        typer.echo("Note: without --allow-dir the server reads no files, only texts passed to it.", err=True)
    if unseen := unseen_variables(environ):
        typer.echo(
            f"Note: {', '.join(unseen)} set in this shell may not reach {client.title}, nor do keys. "
            'Put what it needs into "env" of the entry; it stays there when you install again.',
            err=True,
        )
