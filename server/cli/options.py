"""Options and error reporting that several commands share."""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import anyio
import typer
from typer.models import OptionInfo

from leanrag_engine.core.errors import LeanRAGError

P = ParamSpec("P")


def setting(name: str, explanation: str, metavar: str | None = None) -> OptionInfo:
    """Return the option of a setting, which its environment variable gives too."""
    found: OptionInfo = typer.Option(
        help=explanation, envvar=f"LEANRAG_{name}", show_default=False, metavar=metavar
    )
    return found


DataDir = Annotated[
    Path | None, setting("DATA_DIR", "Folder that holds everything; default: the platform's own.")
]
CollectionOption = Annotated[
    str | None, typer.Option(help="Which corpus.", envvar="LEANRAG_COLLECTION", show_default="default")
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for programs.")]

ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer no tool that writes.")]

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show each stage of the work by itself.")]


def is_followed(context: typer.Context) -> bool:
    """Return whether a command follows that of a group. Raises ``typer.BadParameter`` for a data folder before it."""
    source = context.get_parameter_source("data_dir")
    if context.invoked_subcommand and source is not None and source.name == "COMMANDLINE":
        # It would be ignored, and another folder be changed.
        raise typer.BadParameter(f"Give --data-dir after `{context.invoked_subcommand}`.", context)
    return context.invoked_subcommand is not None


_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    """Return text with signs that would steer a terminal as JSON escapes them, so that JSON stays what it is."""
    return _STEERS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def echo(text: str, *, err: bool = False) -> None:
    """Print text that may hold the names of files, whose signs a terminal may obey or an output not hold."""
    typer.echo(escape_controls(text), err=err)


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error of the engine into a message on standard error and exit code 1."""
    try:
        yield
    except LeanRAGError as problem:
        echo(f"Error: {name_options(str(problem))}", err=True)
        raise typer.Exit(1) from problem


def name_options(text: str) -> str:
    """Return a message or context with commands and options in place of the tools and parameters that it names."""
    for tools, commands in (
        ("names from search_entities, or search_text.", "or leanrag grep."),
        ("or call get_outline.", "or see leanrag ls."),
        ("Ingest documents first.", "`leanrag setup FOLDER` adds them."),
        ("seen=[citations above] gives them.", "--seen with the citations above gives them."),
        ("leave out match='pattern'", "leave out -E"),
        ("token_budget cannot be", "The token budget cannot be"),
    ):
        text = text.replace(tools, commands)
    return text


def as_command(work: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Make a command of an asynchronous function; errors are reported as by ``report_errors``."""

    @wraps(work)
    def command(*args: P.args, **given: P.kwargs) -> None:
        with report_errors():
            anyio.run(partial(work, *args, **given))

    return command
