"""Progress on standard error: at a terminal a bar, elsewhere a line now and then, for a whole job, with ``-v`` for each stage."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from leanrag_engine.core.config import Settings
from leanrag_engine.core.jobs import ImportRequest, IngestRequest, JobRequest, Step, describe_done

LINE_SECONDS = 10.0  # Between two lines of progress where there is no terminal

FORECAST_SECONDS, FORECAST_SHARE = 3.0, 0.05
"""How long a job must have run, and how much of it must be done, before the time left is estimated."""


@dataclass(frozen=True, slots=True)
class JobStep:
    """A step that a user sees of a job: its stages, and its share of the time in a first build of a few hundred passages."""

    words: str
    stages: tuple[str, ...]
    share: float


READING = (JobStep("looking for files", ("list",), 1), JobStep("reading documents", ("ingest",), 15))
REMOVING = JobStep("deleting documents", ("read", "delete"), 2)
READING_BY_MODEL = JobStep("reading passages with the model", ("extract",), 100)
EMBEDDING_PASSAGES = JobStep("embedding passages", ("fit", "embed"), 40)
MERGING = (
    JobStep("merging what the passages name", ("merge", "describe"), 2),
    JobStep("embedding entities", ("embed",), 37),
)
LAYERS = ("cluster", "name", "aggregate", "relate", "embed", "summarise", "connect")
CLUSTERING = JobStep("building the hierarchy", LAYERS, 6)
CLUSTERING_BY_MODEL = JobStep("building the hierarchy", LAYERS, 80)
CHECKING = JobStep("checking the hierarchy", ("check", "measure"), 1)
INDEXING = JobStep("writing the search index", ("embed", "index"), 3)
TAKING = JobStep("taking the graph over", ("import",), 5)
PUBLISHING = JobStep("publishing", ("publish",), 1)

OTHER_STEPS = {
    "copy": (JobStep("copying documents", ("copy", "read"), 2), INDEXING, PUBLISHING),
    "delete": (REMOVING,),
    "delete_collection": (REMOVING,),
    "reindex": (EMBEDDING_PASSAGES, INDEXING),
    "rollback": (JobStep("reading the build", ("read",), 2), INDEXING, PUBLISHING),
}
"""Steps of the kinds of jobs that neither ingest nor build."""


def list_steps(kind: str, request: JobRequest, settings: Settings) -> tuple[JobStep, ...]:
    """Return the steps of a job in their order."""
    if kind in OTHER_STEPS:
        return OTHER_STEPS[kind]
    by_model = bool(settings.llm_model or settings.extraction_model)
    build = (
        *((READING_BY_MODEL,) if by_model else ()),
        EMBEDDING_PASSAGES,
        *MERGING,
        CLUSTERING_BY_MODEL if by_model else CLUSTERING,
        CHECKING,
        INDEXING,
        PUBLISHING,
    )
    if isinstance(request, ImportRequest):
        return (TAKING, *build) if request.build else (TAKING,)
    if not isinstance(request, IngestRequest):
        return build
    reading = (*READING, REMOVING) if request.sync else READING
    if request.dry_run:
        return reading
    return (*reading, *build) if request.build else (*reading, INDEXING)


class WholeProgress:
    """How far a job is as a whole, from the stages that it reports."""

    def __init__(self, steps: tuple[JobStep, ...], clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = steps
        self._clock = clock
        self._began = clock()
        self._place = -1
        self._stage = ""
        self._counted = ""
        self.share = 0.0
        """What is done of the whole job, from 0 to 1; it never falls."""

    def describe(self, step: Step) -> tuple[str, float]:
        """Take note of what the job does now; return that, and the share of the job that is done."""
        self._counted = f" ({describe_done(step)})" if step.stage == "ingest" and step.total else ""
        self._stage = step.message or ("starting" if step.stage == "queued" else step.stage)
        places = range(max(self._place, 0), len(self._steps))
        # Several steps embed something: it is the next of them that has not passed yet.
        found = next((each for each in places if step.stage in self._steps[each].stages), None)
        if found is not None:
            self._place = found
            # A step of several stages counts as done when the next step begins.
            single = len(self._steps[found].stages) <= 2  # noqa: PLR2004 - one that counts, one that prepares it
            part = step.done / step.total if single and step.total else 0.0
            done = sum(each.share for each in self._steps[:found]) + part * self._steps[found].share
            self.share = max(self.share, done / sum(each.share for each in self._steps))
        return str(self), self.share

    @property
    def seconds_left(self) -> float | None:
        """The time that the job still takes if it goes on as fast; None while too little is known."""
        elapsed = self._clock() - self._began
        if elapsed < FORECAST_SECONDS or self.share < FORECAST_SHARE:
            return None
        return elapsed * (1 - self.share) / self.share

    def __str__(self) -> str:
        """Say what is done, e.g. ``building the hierarchy, step 5 of 8, about 20 s left``."""
        if self._place < 0:
            return self._stage
        parts = [
            f"{self._steps[self._place].words}{self._counted}",
            f"step {self._place + 1} of {len(self._steps)}",
        ]
        if (left := self.seconds_left) is not None:
            parts.append(f"about {format_seconds(left)} left")
        return ", ".join(parts)


def format_seconds(seconds: float) -> str:
    """Return a time as people say it, never more exact than an estimate is."""
    if seconds < 10:  # noqa: PLR2004 - below, each second counts
        return f"{max(round(seconds), 1)} s"
    if seconds < 90:  # noqa: PLR2004 - a minute and a half
        return f"{5 * round(seconds / 5)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{round(minutes / 60)} h"  # noqa: PLR2004 - as above


def describe_stage(step: Step) -> tuple[str, float]:
    """Return what a stage does, and the share of it that is done."""
    count = f" {describe_done(step)}" if step.total else ""
    message = f" ({step.message[:60]})" if step.message else ""
    return f"{step.stage}{count}{message}", step.done / step.total if step.total else 0.0


@contextmanager
def progress_bar(
    describe: Callable[[Step], tuple[str, float]] = describe_stage,
) -> Iterator[Callable[[Step], None]]:
    """Yield a function that shows on standard error what ``describe`` says of a step: a bar that vanishes at the end at a
    terminal, else lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        lines = ProgressLines(console)
        yield lambda step: lines.print(describe(step)[0])
        return
    columns = (SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=1.0)

        def show(step: Step) -> None:
            text, share = describe(step)
            bars.update(task, completed=share, description=text)

        yield show


class ProgressLines:
    """Lines of progress for logs and pipes, the first after ``LINE_SECONDS``."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._last = clock()

    def print(self, line: str) -> None:
        """Print the line, unless one was printed a moment ago."""
        now = self._clock()
        if now - self._last < LINE_SECONDS:
            return
        self._last = now
        self._console.print(line[:1].upper() + line[1:], markup=False, highlight=False, soft_wrap=True)
