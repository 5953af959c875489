"""The command line: ``leanrag serve | ingest | sync | build | query | status | forget | merge | split | reindex | …``.

Results go to standard output (``--json``: one JSON object), progress and errors to standard error.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from .corpus.build import build, reindex
from .corpus.corrections import corrections, merge, split
from .corpus.documents import forget, ingest, sync
from .corpus.history import history, rollback
from .demo.command import demo
from .evaluate.commands import app as evaluation
from .machine.config import app as config
from .machine.doctor import doctor
from .machine.install import install, uninstall
from .machine.setup import setup
from .reading.collections import list_collections
from .reading.ls import list_documents
from .reading.query import query, status
from .reading.show import show
from .reading.tree import tree
from .serve import serve

app = typer.Typer(
    help="LeanRAG: documents become a layered knowledge graph; questions get a small, cited context.\n\n"
    "First steps: `leanrag setup FOLDER` indexes your documents and adds the server to your MCP clients; `leanrag demo` "
    'shows it on real input; `leanrag query "..."` asks from here.',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
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


app.command()(serve)
app.command()(setup)
app.command()(demo)
app.command()(install)
app.command()(uninstall)
app.command()(ingest)
app.command()(sync)
app.command()(forget)
app.command("delete", hidden=True)(forget)
app.command()(build)
app.command()(query)
app.command()(status)
app.command()(doctor)
app.command("collections")(list_collections)
app.command("ls")(list_documents)
app.command()(show)
app.command()(tree)
app.command()(merge)
app.command()(split)
app.command()(corrections)
app.command()(history)
app.command()(rollback)
app.command()(reindex)
app.add_typer(config, name="config")
app.add_typer(evaluation, name="eval")


def main() -> None:
    """Run the console command ``leanrag``."""
    app()


def serve_main() -> None:
    """Run the console command ``leanrag-mcp``, the same as ``leanrag serve``."""
    sys.argv.insert(1, "serve")
    app()
