"""Progress bars for a person at a terminal: one bar for each stage of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.model import Job

REFRESH = 0.1
"""Seconds between two looks at a job."""


async def follow(engine: LeanRAG, job: Job) -> Job:
    """Draw the job's stages on standard error until it ends; if interrupted, cancel the job."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[message]}"),
    )
    try:
        with Progress(*columns, console=Console(stderr=True)) as bars:
            drawn: dict[str, TaskID] = {}
            while not (job := await engine.job(job.id)).status.finished:
                draw(bars, drawn, job)
                await anyio.sleep(REFRESH)
            finish(bars, drawn)
    except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):
        with anyio.CancelScope(shield=True):
            await engine.cancel_job(job.id)
        raise
    return job


def draw(bars: Progress, drawn: dict[str, TaskID], job: Job) -> None:
    if job.stage not in drawn:
        finish(bars, drawn)
        drawn[job.stage] = bars.add_task(job.stage, total=None, message="")
    bars.update(drawn[job.stage], completed=job.done, total=job.total or None, message=job.message[:60])


def finish(bars: Progress, drawn: dict[str, TaskID]) -> None:
    """Fill the bars of the stages that are over."""
    for task in bars.tasks:
        if task.id in drawn.values():
            total = task.total or 1
            bars.update(task.id, completed=total, total=total, message="")
