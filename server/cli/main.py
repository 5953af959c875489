"""The command line: ``leanrag serve | ingest | sync | build | query | status | forget | merge | split | reindex |
…``. Results go to standard output (``--json``: one JSON object), progress and errors to standard error."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from importlib.metadata import version
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperGroup

from leanrag_engine.core.runtime.replacement import NO_ROOM

if TYPE_CHECKING:
    # Typer carries its own copy of click.
    from typer._click import Command, Context

# Before numpy is imported: its threads for large matrices take half of a query's processor time, waiting for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

MARKUP: Final = "markdown"

PANELS: Final = {
    "Start": "machine.setup:setup demo.command:demo machine.install:install machine.install:uninstall machine.doctor:doctor",
    "Ask": "reading.ask:query reading.ask:grep reading.show:show reading.ask:explore",
    "Documents": "corpus.documents:ingest corpus.documents:sync corpus.documents:forget ls=reading.overview:list_documents "
    "reading.overview:status jobs=corpus.build:jobs_app collections=reading.overview:app",
    "Graph": "corpus.build:build reading.overview:tree corpus.graph:merge corpus.graph:split corpus.graph:corrections "
    "schema=corpus.graph:schema_app corpus.build:history corpus.build:rollback corpus.graph:export import=corpus.graph:import_graph",
    "Data": "machine.backup:backup machine.backup:restore corpus.build:reindex config=machine.config:app",
    "Server": "serve:serve",
    "Measure": "eval=evaluate.commands:app",
}
"""Where each command is, by panels of the help: a module of this package, and a function or a Typer application in it, after its
name where that is another."""

COMMANDS = {
    name or place.rpartition(":")[2]: (place, panel)
    for panel, places in PANELS.items()
    for name, _, place in (each.rpartition("=") for each in places.split())
}

OTHER_NAMES = {"delete": "forget"}  # Names that work, and that no list shows


class Commands(TyperGroup):
    """The commands, each imported when it is asked for: one is run, and the server must start at once."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Say where an option belongs that stands before the command."""
        first = args[0].partition("=")[0] if args else ""
        if first.startswith("--") and not any(first in each.opts for each in self.get_params(ctx)):
            ctx.fail(f"Options of a command follow it, as in: leanrag query QUESTION {first} ...")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 - Typer's signature
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002 - Typer's signature
        """Import a command by its name; ``None`` if there is none."""
        found = COMMANDS.get(OTHER_NAMES.get(cmd_name, cmd_name))
        if found is None:
            # Typer suggests a similar name out of those it holds.
            self.commands = {name: self.load(name, *place) for name, place in COMMANDS.items()}
            return None
        return self.load(cmd_name, *found)

    def load(self, name: str, place: str, panel: str) -> Command:
        """Import the command that is found at ``place``, for a ``panel`` of the help."""
        found = resolve_name(f"{__package__}.{place}")
        alone = typer.Typer(rich_markup_mode=MARKUP)
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=name, rich_help_panel=panel)
        else:
            alone.command(name, rich_help_panel=panel)(found)
        return typer.main.get_group(alone).commands[name]


app = typer.Typer(
    cls=Commands,
    help="LeanRAG: documents become a layered knowledge graph; questions get a small, cited context.\n\n"
    "First steps: `leanrag setup FOLDER` indexes your documents and adds the server to your MCP clients; `leanrag demo` "
    'shows it on real input; `leanrag query "..."` asks from here.',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
)


def print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"leanrag-mcp {version('leanrag-mcp')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run the console command ``leanrag``."""
    search_cycles_seldom()
    # Registered before any other of ours, and so called after them.
    leave = QuickExit()
    atexit.register(leave)
    try:
        app()
    except SystemExit as ended:
        leave.status = 0 if ended.code is None else ended.code
        raise
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        what = problem.filename or "The output"
        with suppress(OSError):
            print(  # noqa: T201 - what prints otherwise may have failed
                f"Error: {what} cannot be written: {problem.strerror}. Make room on the disk, then run this again.",
                file=sys.stderr,
            )
        # What is left in the buffer cannot be written either.
        os._exit(1)


def serve_main() -> None:
    """Run the console command ``leanrag-mcp``, the same as ``leanrag serve``; it may be written out, as the help does."""
    if sys.argv[1:2] != ["serve"]:
        sys.argv.insert(1, "serve")
    main()


class QuickExit:
    """Ends the process with ``status`` without taking its memory apart: a fourteenth of the time of ``leanrag query``."""

    def __init__(self) -> None:
        self.status: object = None

    def __call__(self) -> None:
        """Exit unless the status is not a number or output is not taken, which Python reports."""
        if not isinstance(self.status, int):
            return
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except (OSError, ValueError):
                return
        os._exit(self.status)


def search_cycles_seldom() -> None:
    """Let Python search seldom for unused reference cycles: among what imports leave, that took a tenth of ``leanrag status``."""
    gc.set_threshold(200_000, 20, 10)
    # At the end of the process too, where that is not a quick one.
    atexit.register(gc.freeze)
