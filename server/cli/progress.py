"""Progress on standard error: at a terminal one bar for each stage of a job, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import anyio
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

if TYPE_CHECKING:
    from leanrag_engine.core.jobs import Job
    from leanrag_engine.engine import LeanRAG


LINE_SECONDS = 10.0
"""Between two lines of progress where there is no terminal."""


class StageProgress(Protocol):
    """Progress of some work: ``done`` of ``total`` units of ``stage``."""

    @property
    def stage(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def message(self) -> str: ...


@contextmanager
def stage_bars(*, transient: bool = False) -> Iterator[Callable[[StageProgress], None]]:
    """Yield a function that shows the progress on standard error: bars at a terminal, else lines.

    ``transient``: the bars vanish at the end.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(console).show
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[message]}"),
    )
    drawn: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=transient) as bars:
        yield lambda step: draw(bars, drawn, step)
        finish(bars, drawn)


class ProgressLines:
    """Lines of progress, the first after ``LINE_SECONDS``, for logs and pipes."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._last = clock()

    def show(self, step: StageProgress) -> None:
        """Print the progress, unless a line was printed a moment ago."""
        now = self._clock()
        if now - self._last < LINE_SECONDS:
            return
        self._last = now
        count = f" {step.done} of {step.total}" if step.total else ""
        message = f" ({step.message})" if step.message else ""
        self._console.print(f"{step.stage}{count}{message}", markup=False, highlight=False, soft_wrap=True)


async def follow(engine: LeanRAG, job: Job, *, transient: bool = False) -> Job:
    """Draw the job's stages on standard error until it ends; if interrupted, cancel the job."""
    try:
        with stage_bars(transient=transient) as show:
            while not (job := await engine.job(job.id)).status.finished:
                show(job)
                await anyio.sleep(0.1)
    except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):
        with anyio.CancelScope(shield=True):
            await engine.cancel_job(job.id)
        raise
    return job


def draw(bars: Progress, drawn: dict[str, TaskID], step: StageProgress) -> None:
    if step.stage not in drawn:
        finish(bars, drawn)
        drawn[step.stage] = bars.add_task(step.stage, total=None, message="")
    bars.update(drawn[step.stage], completed=step.done, total=step.total or None, message=step.message[:60])


def finish(bars: Progress, drawn: dict[str, TaskID]) -> None:
    """Fill the bars of finished stages."""
    for task in bars.tasks:
        if task.id in drawn.values():
            total = task.total or 1
            bars.update(task.id, completed=total, total=total, message="")
