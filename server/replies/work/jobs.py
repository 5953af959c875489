"""Replies of the tools that write, which run as jobs: ingest, delete, and a job as such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from leanrag_engine.core.jobs import IngestOutcome, Job, JobFailure, JobState, LeftOut, describe_done
from leanrag_engine.core.text.shortening import count_things, take_fitting

from ..base import LIMITS, Card, JobStatusName, ReplyModel, shorten_line
from ..errors import plain_line
from .results import SENTENCES, JobFigures, describe_remarks, describe_taken

if TYPE_CHECKING:
    from leanrag_engine.pipeline.delete import DocumentLookup

OutcomeState = Literal["added", "replaced", "removed", "unchanged", "failed"]
DeletionState = Literal["deleted", "deleting", "not_deleted", "unknown"]

TOOL_OF_KIND = {
    "ingest": "ingest_documents",
    "import": "ingest_documents with graph",
    "build": "build_hierarchy",
    "forecast": "build_hierarchy",
    "reindex": "build_hierarchy",
    "delete": "delete_documents",
    "rollback": "leanrag rollback",
    "copy": "leanrag collections copy",
    "delete_collection": "leanrag collections delete",
}
"""The tool or command that does the work of a job again."""

STEP_AFTER = {
    "delete": "Call build_hierarchy to make the hidden summaries anew.",
    "copy": "Call list_collections to see both.",
    "delete_collection": "Call list_collections to see which are left.",
    "forecast": "Call build_hierarchy without dry_run to build.",
}
"""The next step after a job that was done, by its kind."""

LISTED = ("failed", "removed", "replaced", "added", "unchanged")  # Outcomes in the order of listing

COUNTED: tuple[OutcomeState, ...] = ("added", "replaced", "removed", "unchanged", "failed")
"""Outcomes in the order of counting."""


DELETION_STATES: Mapping[JobStatusName, DeletionState] = {
    "done": "deleted",
    "failed": "not_deleted",
    "cancelled": "not_deleted",
}
"""State of a document by the state of the job that deletes it."""


# --- a job ---------------------------------------------------------------------------------


class JobProgressReply(ReplyModel):
    """What each reply about a job says of how far it is."""

    job_id: str
    status: JobStatusName
    stage: str
    done: int
    total: int
    rate: float = Field(description="units of the stage per second; 0: not known")
    seconds_left: int | None = Field(description="of this stage; null: not known")
    message: str

    @property
    def is_failure(self) -> bool:
        return self.status == "failed"


class JobReply(JobProgressReply):
    kind: str
    collection: str
    failures: list[dict[str, str]]
    result: dict[str, Any]
    next_step: str

    @classmethod
    def from_engine(cls, job: Job) -> JobReply:
        return cls.of(
            job,
            job_id=job.id,
            status=job.status.value,
            failures=list_failures(job.failures),
            result=public_result(job),
            next_step=next_step(job),
        )

    def to_markdown(self) -> str:
        how_far = f"{self.kind} of collection {self.collection}: {progress_line(self.job_id, self)}"
        return "\n".join([how_far, *self.ending_lines(), f"Next: {self.next_step}"])

    def ending_lines(self) -> list[str]:
        """Say what failed and what was done."""
        done = SENTENCES[self.kind](self.collection, self.result) if self.result else []
        return [*done, *map(failure_line, self.failures)]


def list_failures(failures: Sequence[JobFailure]) -> list[dict[str, str]]:
    """Return the first failures, as many as a reply holds."""
    return [
        {
            "document": shorten_line(failure.document, LIMITS.error),
            "error": shorten_line(failure.error, LIMITS.error),
        }
        for failure in failures[: LIMITS.failures]
    ]


def failure_line(failure: Mapping[str, str]) -> str:
    return f"- failed: {failure['document']}: {failure['error']}"


def public_result(job: Job) -> dict[str, Any]:
    """Return a job's result with its documents counted by outcome, and few examples of what was left out."""
    result = job.result.figures() if job.result else {}
    if job.skipped:
        result["skipped"] = [SkippedCard.from_engine(each).model_dump() for each in job.skipped]
    return result | ({"documents": count_outcomes(job)} if isinstance(result.get("documents"), list) else {})


def count_outcomes(job: Job) -> str:
    """Count the documents of a job by outcome, e.g. ``8 added, 1 failed``."""
    counts = Counter(each.status for each in job.documents)
    return ", ".join(f"{counts[status]} {status}" for status in COUNTED if counts[status])


def progress_line(job_id: str, at: JobProgressReply | JobState) -> str:
    message = plain_line(at.message)
    if at.status in ("done", "failed", "cancelled"):
        return f"Job {job_id}: {at.status}. {message}".rstrip()
    progress = f" {describe_done(at)}" if at.total else ""
    if at.rate and at.stage != "ingest":
        progress += f", {at.rate:.3g} a second"
    if at.seconds_left is not None:
        progress += f", about {at.seconds_left} s left"
    more = f". {message}" if message else ""
    return f"Job {job_id}: {at.status}, stage {at.stage}{progress}{more}"


def next_step(job: Job) -> str:
    """Return what a model should call now, by the state of the job."""
    where = f" and collection={job.collection!r}" if job.collection != "default" else ""
    match job.status.value:
        case "done":
            return _step_after_success(job)
        case "queued" | "running":
            return f"Call get_job with job_id={job.id!r}{where} and wait_seconds=30."
        case "interrupted" if job.resumes:
            return f"It resumes by itself; call get_job with job_id={job.id!r}{where} again later."
        case "interrupted" | "cancelled":
            return f"Call {TOOL_OF_KIND[job.kind]} again to continue from what is kept."
    return f"Fix what the message names, then call {TOOL_OF_KIND[job.kind]} again."


def _step_after_success(job: Job) -> str:
    if job.kind in STEP_AFTER:
        return STEP_AFTER[job.kind]
    if job.dry_run:
        return "Call ingest_documents with sync=true to do it."
    result = public_result(job)
    if result.get("pending"):
        return "Call build_hierarchy to add the pending documents to what was rolled back to."
    if stale := result.get("stale"):
        return f"{describe_stale(stale)} Or call query_lca_context with a question."
    if result.get("built", True):
        return "Call query_lca_context with a question."
    return "Call build_hierarchy, then query_lca_context."


def describe_stale(count: int) -> str:
    """Say what stale texts are and what to do about them."""
    several = "written summaries or relation sentences are"
    texts = count_things(count, "written summary or relation sentence is", several)
    return f"{texts} stale: members came, left or changed since. get_pending_work with kind='summary' lists summaries."


# --- ingest --------------------------------------------------------------------------------


class DocumentOutcome(Card):
    id: str
    title: str
    status: OutcomeState
    chunks: int
    kept: int = Field(description="chunks that were in the replaced version too")
    error: str

    @classmethod
    def from_engine(cls, outcome: IngestOutcome) -> DocumentOutcome:
        title, error = shorten_line(outcome.title, LIMITS.brief), shorten_line(outcome.error, LIMITS.error)
        return cls.of(outcome, title=title, error=error)

    @property
    def detail(self) -> str:
        """Return why it failed or was removed, or how many chunks it has; of a dry run nothing is known."""
        if self.error:
            return f": {self.error}"
        new = f", {self.chunks - self.kept} of them new" if self.kept else ""
        return f", {count_things(self.chunks, 'chunk')}{new}" if self.chunks else ""

    def to_line(self) -> str:
        name = f"{self.title} (id {self.id})" if self.title else self.id
        # A file's name may contain a line break, and the rest of it would look like the server's own line.
        return " ".join(f"- {name}: {self.status}{self.detail}".split())


class SkippedCard(Card):
    reason: str
    count: int
    examples: list[str]

    @classmethod
    def from_engine(cls, skipped: LeftOut) -> SkippedCard:
        return cls.of(skipped, examples=[shorten_line(each, LIMITS.glimpse) for each in skipped.examples[:3]])

    def to_line(self) -> str:
        more = f" and {self.count - len(self.examples)} more" if self.count > len(self.examples) else ""
        return f"- left out: {self.count} {self.reason} ({', '.join(self.examples)}{more})"


class IngestReply(JobProgressReply):
    counts: dict[str, int] = Field(description="documents by status")
    documents: list[DocumentOutcome] = Field(description="unchanged ones last")
    skipped: list[SkippedCard]
    failures: list[dict[str, str]] = Field(description="of steps, such as a model that left chunks unread")
    next_step: str

    @classmethod
    def from_engine(cls, job: Job) -> IngestReply:
        """Build the reply; documents are listed by what became of them, failures first, as many as fit."""
        outcomes = sorted(
            map(DocumentOutcome.from_engine, job.documents), key=lambda each: LISTED.index(each.status)
        )
        sizes = [len(each.id) + len(each.title) + len(each.error) + 60 for each in outcomes]
        listed = take_fitting(outcomes, sizes, LIMITS.documents_length)[: LIMITS.documents]
        more = f"; {len(listed)} are listed, failures first" if len(listed) < len(outcomes) else ""
        counted = f"{count_outcomes(job)}{more}." if outcomes else ""
        dry = "Dry run: nothing was changed." if job.dry_run else ""
        imported = describe_import(job.result.figures()) if job.kind == "import" and job.result else ""
        named = {each.id for each in job.documents}
        return cls.of(
            job,
            job_id=job.id,
            status=job.status.value,
            message=" ".join(filter(None, (job.message, imported, counted, dry))),
            counts=dict(Counter(each.status for each in job.documents)),
            documents=listed,
            skipped=[SkippedCard.from_engine(each) for each in job.skipped[: LIMITS.failures]],
            failures=list_failures([each for each in job.failures if each.document not in named]),
            next_step=next_step(job),
        )

    def to_markdown(self) -> str:
        documents = [each.to_line() for each in self.documents]
        skipped = [each.to_line() for each in self.skipped]
        failed = [failure_line(each) for each in self.failures]
        return "\n".join(
            [progress_line(self.job_id, self), *documents, *skipped, *failed, f"Next: {self.next_step}"]
        )


def describe_import(result: JobFigures) -> str:
    """Say in one line what was taken of a graph, and what was left out or changed."""
    remarks = "; ".join(describe_remarks(result))
    return describe_taken(result) + (f" Left out or changed: {remarks}." if remarks else "")


# --- delete --------------------------------------------------------------------------------


class DeletedDocument(Card):
    id: str
    title: str
    status: DeletionState
    did_you_mean: list[str]


class DeleteReply(ReplyModel):
    job_id: str
    status: JobStatusName
    message: str
    documents: list[DeletedDocument]
    next_step: str

    @classmethod
    def from_engine(cls, job: Job | None, found: DocumentLookup, *, dry_run: bool = False) -> DeleteReply:
        """Build the reply with the state of each id that was given, the unknown ones last."""
        status: JobStatusName = job.status.value if job else "done"
        state = "not_deleted" if dry_run else DELETION_STATES.get(status, "deleting")
        message = "Nothing was deleted: no document has any of these ids, paths or names."
        if dry_run and found.documents:
            message = "Dry run: nothing was changed."
        known = [
            DeletedDocument(
                id=id_, title=shorten_line(document.title, LIMITS.brief), status=state, did_you_mean=[]
            )
            for id_, document in found.documents
        ]
        unknown = [
            DeletedDocument(
                id=shorten_line(id_, LIMITS.glimpse // 2),
                title="",
                status="unknown",
                # A long id is replaced by its number; of many bad ids the first show what is wrong.
                did_you_mean=[
                    f"{near.ref if len(near.ref) <= LIMITS.glimpse else near.hint} "
                    f"({shorten_line(near.name, LIMITS.glimpse)}, {near.hint})"
                    for near in nearest
                    if place < LIMITS.suggestions
                ],
            )
            for place, (id_, nearest) in enumerate(found.unknown)
        ]
        return cls(
            job_id=job.id if job else "",
            status=status,
            message=job.message if job else message,
            documents=[*known, *unknown],
            next_step=next_step(job) if job else "Call get_outline to see the documents.",
        )

    @property
    def is_failure(self) -> bool:
        return self.status == "failed" or not self.job_id

    def to_markdown(self) -> str:
        lines = [self.message]
        if self.job_id:
            lines = [f"Job {self.job_id}: {self.status}. {self.message}".rstrip()]
        for each in self.documents:
            title = f" ({each.title})" if each.title else ""
            near = f"; did you mean {', '.join(each.did_you_mean)}?" if each.did_you_mean else ""
            lines.append(f"- {each.id}{title}: {each.status.replace('_', ' ')}{near}")
        return "\n".join([*lines, f"Next: {self.next_step}"])
