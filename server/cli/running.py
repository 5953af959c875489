"""Run a command on an open engine, and end it by how its job ended."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import anyio
import typer

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.text.shortening import count_things

from ..protocol.telemetry import start_telemetry_if_asked
from .options import CollectionOption, DataDir, as_command, echo, escape_controls, report_errors

if TYPE_CHECKING:
    from leanrag_engine.core.jobs import Job
    from leanrag_engine.core.model import DocumentSource
    from leanrag_engine.engine import LeanRAG

    from ..replies.work.jobs import JobReply


INTERRUPTED = 130  # Exit code after Ctrl-C, as shells have it


def read_settings(data_dir: Path | None, collection: str | None, **more: object) -> Settings:
    with report_errors():
        return load_settings(data_dir=data_dir, collection=collection, **more)


def run(settings: Settings, work: Callable[[LeanRAG], Awaitable[None]]) -> None:
    """Open the engine, do the work and close it."""
    with report_errors():
        start_telemetry_if_asked(settings.telemetry)

    @as_command
    async def open_and_work() -> None:
        from leanrag_engine.engine import LeanRAG  # noqa: PLC0415 - heavy: --help must not wait for it

        async with await LeanRAG.open(settings) as engine:
            await work(engine)

    open_and_work()


def run_long(settings: Settings, work: Callable[[LeanRAG], Awaitable[None]], kept: str) -> None:
    """Run work that may last: say at once that it begins, and after Ctrl-C what is ``kept`` and how to go on."""
    echo(f"Opening the collection {settings.collection} in {settings.data_dir} …", err=True)
    try:
        run(settings, work)
    except KeyboardInterrupt:
        echo(f"\nStopped. {kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def on_engine(
    kept: str = "", *, chosen: bool = True, **more: object
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Make a command of a function of an open engine: it takes the data folder too and, if one can be ``chosen``, the collection, before
    ``--json``. ``kept`` is as of :func:`run_long`, ``more`` are settings, or functions of the command's arguments that return them."""

    def decorate(work: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        def command(data_dir: DataDir = None, collection: CollectionOption = None, **given: object) -> None:
            set_: dict[str, Any] = {
                key: value(given) if callable(value) else value for key, value in more.items()
            }
            settings = read_settings(data_dir, set_.pop("collection", collection), **set_)
            if kept:
                run_long(settings, partial(work, **given), kept)
            else:
                run(settings, partial(work, **given))

        # The engine's own type is not imported: --help must not wait for it.
        _, *taken = signature(work, locals={"LeanRAG": object}, eval_str=True).parameters.values()
        own = [*signature(command, eval_str=True).parameters.values()][: 1 + chosen]
        place = len(taken) - (taken[-1].name == "json")
        shown = signature(command).replace(parameters=[*taken[:place], *own, *taken[place:]])
        command.__signature__ = shown  # type: ignore[attr-defined] # Typer reads both
        command.__annotations__ = {each.name: each.annotation for each in shown.parameters.values()}
        command.__doc__ = work.__doc__
        return command

    return decorate


def find_width() -> int:
    """Return how many columns the terminal has, 0 if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else 0


def print_report(text: str, *, json: bool = False) -> None:
    """Print lines of prose, at a terminal long ones broken between words, or JSON as it is."""
    if (width := find_width()) and not json:
        text = "\n".join(wrap_line(line, width) for line in text.splitlines())
    echo(text)


def print_rows(text: str, *, json: bool = False) -> None:
    """Print one row a line, at a terminal cut at its width, or JSON as it is."""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - rich is heavy

    if (width := find_width()) and not json:
        text = "\n".join(
            line if cell_len(line) <= width else f"{set_cell_size(line, width - 1)}…"
            for line in text.splitlines()
        )
    echo(text)


def wrap_line(line: str, width: int) -> str:
    """Break a line between words; not one that holds a command or code, which are copied, a branch of a tree or a row."""
    if len(line) <= width or "leanrag " in line or line.startswith(("├", "│", "└", "|", "    ", "\t")):
        return line
    indent = " " * (len(line) - len(line.lstrip()) or 2)
    return fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


async def follow_job(engine: LeanRAG, job: Job, *, verbose: bool = False, watched: bool = False) -> Job:
    """Show a job's progress until it ends, each stage by itself if ``verbose``. Ctrl-C cancels it, if it is not only ``watched``."""
    from .progress import WholeProgress, describe_stage, list_steps, progress_bar  # noqa: PLC0415 - rich is heavy

    steps = list_steps(job.kind, job.request, engine.settings)
    try:
        with progress_bar(describe_stage if verbose else WholeProgress(steps).describe) as show:
            while (state := await engine.job_state(job.id, wait_seconds=0.1)).status.value in (
                "queued",
                "running",
            ):
                show(state)
    except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):
        with anyio.CancelScope(shield=True):
            if not watched:
                await engine.cancel_job(job.id)
        raise
    return await engine.job(job.id)


SECONDS_PER_MB, PASSAGES_PER_MB, LONG_SECONDS = 95, 1_450, 300
"""Of text: processor time of an ingest with its build, and passages, as measured; and the time from which an estimate is said."""


async def agree_on_time(engine: LeanRAG, sources: Sequence[DocumentSource], *, sync: bool) -> None:
    """Say how long an ingest without a model will take if that is long; at a terminal ask whether to go on."""
    from .progress import format_seconds  # noqa: PLC0415 - rich is heavy

    files, size = await engine.measure_ingest(sources, collection=engine.settings.collection, sync=sync)
    cores = engine.settings.workers or os.cpu_count() or 1
    seconds = size / 1e6 * SECONDS_PER_MB / cores
    if seconds < LONG_SECONDS:
        return
    passages = round(size / 1e6 * PASSAGES_PER_MB, 1 - len(str(round(size / 1e6 * PASSAGES_PER_MB))))
    said = (
        f"{size / 1e6:,.0f} MB of text in {files:,} files: about {passages:,.0f} passages, about {format_seconds(seconds)}"
        f" on {count_things(cores, 'core')}."
    )
    if not sys.stdin.isatty():
        echo(f"Warning: {said} Ctrl-C keeps what is done.", err=True)
    else:
        typer.confirm(f"{said} Go on?", default=True, abort=True, err=True)


async def run_ingest(
    engine: LeanRAG, sources: Sequence[DocumentSource], *, verbose: bool = False, **options: bool
) -> Job:
    """Ingest sources from any folder, after saying how long that takes if it is long; ``options`` are as of
    ``LeanRAG.submit_ingest``. Returns the ended job."""
    if not options.get("dry_run"):
        checked = options.get("sync", False) and not options.get("allow_empty")
        await agree_on_time(engine, sources, sync=checked)
    job = await engine.submit_ingest(sources, collection=engine.settings.collection, allowed=None, **options)
    return await follow_job(engine, job, verbose=verbose)


def confirm(question: str) -> bool:
    """Ask at a terminal; elsewhere, and at the end of input, the answer is no."""
    try:
        return sys.stdin.isatty() and typer.confirm(escape_controls(question), default=True, err=True)
    except typer.Abort as ended:
        if isinstance(ended.__context__, EOFError):
            return False
        raise


def leave_unless_done(status: str) -> None:
    if status != "done":
        raise typer.Exit(1)


def end(job: Job, settings: Settings, *, json: bool, following: Sequence[str] = ()) -> None:
    """Print what a job has done, or why it ended early, and leave; ``following``: the words of the next command."""
    from ..replies.work.jobs import JobReply  # noqa: PLC0415 - heavy

    reply = JobReply.from_engine(job)
    text = reply.model_dump_json() if json else "\n".join(list_lines(reply, job, settings, following))
    print_report(text, json=json)
    leave_unless_done(reply.status)


def list_lines(reply: JobReply, job: Job, settings: Settings, following: Sequence[str]) -> list[str]:
    if reply.status != "done":
        return [*reply.ending_lines(), say_early_end(job)]
    lines = [*reply.ending_lines(), say_time(job)]
    return [*lines, say_next(following, settings)] if following else lines


def say_early_end(job: Job) -> str:
    ended = "failed" if job.status.value == "failed" else f"was {job.status.value}"
    return f"The {job.kind} {ended}. {job.message}".rstrip()


def say_time(job: Job) -> str:
    seconds = (job.updated_at - job.created_at).total_seconds()
    return f"It took {seconds:.0f} s." if seconds >= 1 else "It took less than a second."


def say_next(words: Sequence[str], settings: Settings) -> str:
    return f"Next: {command_line(['leanrag', *words, *index_options(settings)])}"


def index_options(settings: Settings) -> list[str]:
    """Return the options that name the index of ``settings``, if it is not the default one."""
    options: list[str] = []
    if "data_dir" in settings.model_fields_set:
        options += ["--data-dir", str(settings.data_dir.expanduser().absolute())]
    if "collection" in settings.model_fields_set:
        options += ["--collection", settings.collection]
    return options


def command_line(words: Sequence[str]) -> str:
    """Quote ``words`` for this platform's shell."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
