"""Options and error reporting that several commands share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import anyio
import typer

from leanrag_engine.core.errors import LeanRAGError

DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder that holds everything; default: the platform's own.",
        envvar="LEANRAG_DATA_DIR",
        show_default=False,
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        help="PostgreSQL database that replaces the SQLite file: postgresql://user@host/name. A password is safer in the "
        "environment.",
        envvar="LEANRAG_DATABASE_URL",
        show_default=False,
    ),
]
ChromaUrl = Annotated[
    str | None,
    typer.Option(
        help="Chroma server that keeps the vectors: http://host:8000.",
        envvar="LEANRAG_CHROMA_URL",
        show_default=False,
    ),
]
DaskAddress = Annotated[
    str | None,
    typer.Option(
        help="Dask scheduler whose workers read documents: tcp://host:8786.",
        envvar="LEANRAG_DASK",
        show_default=False,
    ),
]
CollectionOption = Annotated[
    str | None, typer.Option(help="Which corpus.", envvar="LEANRAG_COLLECTION", show_default="default")
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for programs.")]

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show each stage of the work by itself.")]

# --- of ``leanrag serve`` ------------------------------------------------------------------

AllowDirs = Annotated[
    list[Path] | None,
    typer.Option(
        help="A folder beneath which documents may be read; repeatable. Without one no path is read."
    ),
]
Toolsets = Annotated[
    str | None,
    typer.Option(
        help="Which tools are offered, separated by commas.",
        envvar="LEANRAG_TOOLSETS",
        show_default="read,manage,agent",
    ),
]
HttpAddress = Annotated[
    str | None,
    typer.Option(
        help="Serve streamable HTTP at this address, path /mcp, instead of standard input and output.",
        metavar="HOST:PORT",
        envvar="LEANRAG_HTTP",
        show_default=False,
    ),
]
HttpTokenFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the bearer token that clients must send; or set LEANRAG_HTTP_TOKEN.",
        envvar="LEANRAG_HTTP_TOKEN_FILE",
        show_default=False,
    ),
]
HttpAllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        help="A name under which clients reach the server, such as rag.example; repeatable.",
        show_default=False,
    ),
]
HttpAllowedOrigins = Annotated[
    list[str] | None,
    typer.Option(
        help="A web page that may call the server, such as https://app.example; repeatable.",
        show_default=False,
    ),
]


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error of the engine into a message on standard error and exit code 1."""
    try:
        yield
    except LeanRAGError as problem:
        typer.echo(f"Error: {problem}", err=True)
        raise typer.Exit(1) from problem


def run_async(work: Callable[[], Awaitable[None]]) -> None:
    """Run a command's asynchronous part; errors are reported as by ``report_errors``."""
    with report_errors():
        anyio.run(work)
