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
CollectionOption = Annotated[
    str | None, typer.Option(help="Which corpus.", envvar="LEANRAG_COLLECTION", show_default="default")
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
