"""Jobs: requests, progress, failures and results of the work that runs in the background."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from .model import NO_CORRECTIONS, CorrectionEffects, DocumentSource, LayerCount, SchemaEffects, Spent


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def finished(self) -> bool:
        return self in (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED)


# --- requests ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """Documents to ingest. ``allowed`` are the folders beneath which paths may lie; ``None`` allows any path.
    ``sync``: the documents are folders, and documents whose files vanished from beneath them are deleted; those of an
    empty folder only if ``allow_empty``. ``dry_run``: only find out what would happen. ``replaces``: a document may
    take the place of one of its id, whose text is then deleted."""

    documents: tuple[DocumentSource, ...]
    build: bool = True
    allowed: tuple[str, ...] | None = ()
    sync: bool = False
    allow_empty: bool = False
    dry_run: bool = False
    replaces: bool = True


AskedMode = Literal["auto", "update", "rebuild"]
"""Update the clusters of the previous build in place, cluster everything again, or let what changed decide."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """How to build. ``upgrade``: the model also reads what was read heuristically. Caps (``max_cost`` in US
    dollars) that are None are those of the settings."""

    upgrade: bool = False
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    mode: AskedMode = "auto"


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """A graph to take over from another program's files, then a build if ``build``, which keeps the files'
    clusters if ``hierarchy``. ``allowed`` as for an ingest."""

    format: str
    path: str
    build: bool = True
    hierarchy: bool = False
    allowed: tuple[str, ...] | None = ()


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Ids of the documents to delete; none once the job is finished."""

    document_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReindexRequest:
    """Write the vectors of the published build anew; ``damaged_only``: those of spaces that are missing, damaged or
    incomplete when the job begins."""

    damaged_only: bool = False


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """Publish the content of generation ``number`` again."""

    number: int


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """Copy the collection, with its published build, into a new one called ``target``."""

    target: str


@dataclass(frozen=True, slots=True)
class DeleteCollectionRequest:
    """Delete the collection with everything in it."""


JobRequest = (
    IngestRequest
    | ImportRequest
    | BuildRequest
    | DeleteRequest
    | ReindexRequest
    | RollbackRequest
    | CopyRequest
    | DeleteCollectionRequest
)


# --- results -------------------------------------------------------------------------------


def plain(value: object) -> Any:
    """Return dataclasses and mappings as objects, tuples as lists: as JSON has them."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return [*map(plain, value)] if isinstance(value, tuple) else value


class Figures:
    """Base of the results of jobs."""

    __slots__ = ()

    def figures(self) -> dict[str, Any]:
        """Return the result as JSON values under the names that clients see."""
        found: dict[str, Any] = plain(self)
        return found


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A part of a job that failed while the job went on: ``document`` is a document's id or the name of a step."""

    document: str
    error: str


@dataclass(frozen=True, slots=True)
class IngestOutcome:
    """What became of one document, why it failed or was removed, and how many of its ``chunks`` were ``kept`` of the replaced version."""

    id: str
    title: str
    status: Literal["added", "replaced", "removed", "unchanged", "failed"]
    chunks: int = 0
    error: str = ""
    kept: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What was left out, or taken with a change, for one reason: of an ingest, files and folders; of an import, parts of the graph."""

    reason: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuildResult(Figures):
    """The published generation, what its model calls used by step, its ``mode`` ("update" or "rebuild") and
    why, the number of ``stale`` texts, and what ``corrections`` and ``schema`` did."""

    generation: int
    layers: tuple[LayerCount, ...]
    spent: tuple[Spent, ...] = ()
    mode: str = ""
    reason: str = ""
    stale: int = 0
    corrections: CorrectionEffects = NO_CORRECTIONS
    schema: SchemaEffects | None = None

    def figures(self) -> dict[str, Any]:
        figures = {"built": True, **plain(self)}
        effects = figures.pop("corrections")
        if self.corrections != NO_CORRECTIONS:
            figures["corrections"] = {"applied": effects["applied"], "without_effect": effects["idle"]}
        return {name: each for name, each in figures.items() if each or name not in ("spent", "schema")}


@dataclass(frozen=True, slots=True)
class IngestResult(Figures):
    """The outcome of each document so far, what was left out, and the build that followed. ``built``: the published
    generation covers the present documents; ``None`` until the job is done. ``build`` is ``None`` if the job did not
    build. ``dry_run``: nothing was changed, the outcomes are what would happen."""

    documents: tuple[IngestOutcome, ...] = ()
    built: bool | None = None
    build: BuildResult | None = None
    skipped: tuple[LeftOut, ...] = ()
    dry_run: bool = False

    def figures(self) -> dict[str, Any]:
        figures = {} if self.built is None else {"built": self.built}
        if self.build is not None:
            figures |= self.build.figures()
        if self.dry_run:
            figures["dry_run"] = True
        if self.skipped:
            figures["skipped"] = plain(self.skipped)
        return figures | {"documents": plain(self.documents)}


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """Numbers of what an import found, or of what it took."""

    documents: int = 0
    passages: int = 0
    entities: int = 0
    relations: int = 0


@dataclass(frozen=True, slots=True)
class ImportResult(Figures):
    """What was found in another program's files and taken, in ``changed`` documents (0: all was there),
    ``remarks`` on the rest, and the build, if the job built."""

    format: str
    found: ImportCounts
    taken: ImportCounts
    changed: int
    remarks: tuple[LeftOut, ...] = ()
    built: bool = False
    build: BuildResult | None = None

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = plain(self)
        del figures["build"]
        return figures | (self.build.figures() if self.build else {})


@dataclass(frozen=True, slots=True)
class DeleteResult(Figures):
    """How many documents and chunks were deleted."""

    documents: int = 0
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class ReindexResult(Figures):
    """The rows that were written, by kind of vector space."""

    vectors: Mapping[str, int] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        return dict(self.vectors)


@dataclass(frozen=True, slots=True)
class RollbackResult(Figures):
    """The generation that was published, with the content of generation ``restored``, and how many ``pending`` documents
    came or changed since that was built."""

    generation: int
    restored: int
    layers: tuple[LayerCount, ...]
    pending: int = 0


@dataclass(frozen=True, slots=True)
class CopyResult(Figures):
    """The new collection; ``built``: it has a published build too."""

    target: str
    documents: int
    chunks: int
    built: bool


@dataclass(frozen=True, slots=True)
class StepRange:
    """The least and the most that one step of a build requests. Costs are in US dollars, ``None`` if unknown."""

    step: str
    calls: tuple[int, int]
    input_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    cost: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Forecast(Figures):
    """What a build would request of its models, by step; not ``exact``: as ranges. ``guessed`` steps have
    output estimated without any reply; ``models`` are named by their work."""

    documents: int
    chunks: int
    steps: tuple[StepRange, ...]
    exact: bool
    guessed: tuple[str, ...]
    models: Mapping[str, str]

    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self)
        for name in ("calls", "input_tokens", "output_tokens", "cost"):
            ranges = [getattr(each, name) for each in self.steps]
            known = None not in ranges
            found[name] = [sum(low for low, _ in ranges), sum(high for _, high in ranges)] if known else None
        return found


JobResult = (
    IngestResult
    | ImportResult
    | BuildResult
    | DeleteResult
    | ReindexResult
    | RollbackResult
    | CopyResult
    | Forecast
)


KINDS: Mapping[str, tuple[type[JobRequest], type[JobResult]]] = {
    "ingest": (IngestRequest, IngestResult),
    "import": (ImportRequest, ImportResult),
    "build": (BuildRequest, BuildResult),
    "forecast": (BuildRequest, Forecast),
    "delete": (DeleteRequest, DeleteResult),
    "delete_collection": (DeleteCollectionRequest, DeleteResult),
    "reindex": (ReindexRequest, ReindexResult),
    "rollback": (RollbackRequest, RollbackResult),
    "copy": (CopyRequest, CopyResult),
}
"""What each kind of job is asked for, and what it results in."""


# --- a job ---------------------------------------------------------------------------------


class Step(Protocol):
    """How far a stage is, and what is said of it; ``ingest`` counts kilobytes of files."""

    @property
    def stage(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...


def describe_done(step: Step) -> str:
    """Say how much of a stage is done, e.g. ``12 of 40`` or ``1.2 of 205.0 MB``."""
    if step.stage == "ingest":
        return f"{step.done / 1000:,.1f} of {step.total / 1000:,.1f} MB"
    return f"{step.done} of {step.total}"


OF_SERVER = "@server"  # Ends the owner of a job that a server began


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """How far a job is, which process (``owner``) runs it and whether it should stop: ``done`` of ``total``
    units of ``stage``, ``rate`` a second (0: unknown)."""

    id: str
    kind: str
    collection: str
    status: JobStatus
    owner: str
    created_at: datetime
    updated_at: datetime
    stage: str = ""
    done: int = 0
    total: int = 0
    message: str = ""
    rate: float = 0.0
    cancel_requested: bool = False

    @property
    def resumes(self) -> bool:
        """Whether a server takes the job over if its process is gone: it was a server's, or deletes, which must not stay half done."""
        return self.owner.endswith(OF_SERVER) or self.kind in ("delete", "delete_collection")

    @property
    def seconds_left(self) -> int | None:
        """The time that the present stage still takes at the present rate; None if the rate is unknown."""
        if self.status is not JobStatus.RUNNING or not self.rate or self.total <= self.done:
            return None
        return round((self.total - self.done) / self.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobState):
    """Work that runs in the background. ``attempts`` counts the runs that crashed without progress and the
    present one; ``reached`` is ``done`` at the last interruption, -1 before."""

    request: JobRequest
    failures: tuple[JobFailure, ...] = ()
    result: JobResult | None = None
    attempts: int = 1
    reached: int = -1

    @property
    def documents(self) -> tuple[IngestOutcome, ...]:
        """The outcomes of the documents that an ingest has processed so far; none for other kinds of jobs."""
        return self.result.documents if isinstance(self.result, IngestResult) else ()

    @property
    def skipped(self) -> tuple[LeftOut, ...]:
        """What an ingest left out; nothing for other kinds of jobs."""
        return self.result.skipped if isinstance(self.result, IngestResult) else ()

    @property
    def dry_run(self) -> bool:
        """Whether it is an ingest that changes nothing."""
        return isinstance(self.request, IngestRequest) and self.request.dry_run
