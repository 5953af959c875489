"""The tools that write: ingest, build, and the jobs that they run as."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from mcp_types import CallToolResult
from pydantic import Field

from leanrag_engine.errors import InvalidInput

from . import markdown
from .arguments import CollectionName, JobId, WaitSeconds
from .engine_handle import EngineHandle
from .replies import DocumentArgument, DocumentOutcome, IngestReply, JobReply

if TYPE_CHECKING:
    from leanrag_engine.model import DocumentSource, Job

TOOL_OF = {
    "ingest": "ingest_documents",
    "build": "build_hierarchy",
    "forecast": "build_hierarchy",
    "reindex": "build_hierarchy",
}
"""The tool that does the same work again."""

LISTED = 100
"""Documents that one reply lists."""

Documents = Annotated[list[DocumentArgument], Field(min_length=1, max_length=1000)]


class ManageTools:
    """Each method is one tool; its docstring is what the model reads."""

    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    async def ingest_documents(
        self,
        documents: Documents,
        build: bool = True,
        wait_seconds: WaitSeconds = 20,
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, IngestReply]:
        """Add documents to a collection: files or folders by `path` (text, Markdown, HTML, PDF, DOCX, source code; \
beneath the folders that the server allows), or texts by `text`. Then builds the hierarchy, unless build=false (use \
that when more documents follow). Safe to repeat: the same content is `unchanged`, the same path or id with other \
content is `replaced`. A bad document fails alone, with its reason.
        Returns each document's status. If work goes on after wait_seconds, status is queued or running: call get_job \
with job_id. Next: query_lca_context."""
        started = anyio.current_time()
        engine = await self._engine.get()
        job = await engine.submit_ingest(
            [document_source(each) for each in documents],
            collection=self._engine.collection(collection),
            build=build,
            allowed=self._engine.settings.allow_dirs,
        )
        job = await engine.job(job.id, left(started, wait_seconds))
        return markdown.ingest_result(ingest_reply(job))

    async def build_hierarchy(
        self,
        mode: Annotated[
            Literal["auto", "upgrade"],
            Field(description="upgrade: let the model also read what was read without one"),
        ] = "auto",
        dry_run: Annotated[bool, Field(description="Only forecast model calls, tokens and cost")] = False,
        wait_seconds: WaitSeconds = 20,
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, JobReply]:
        """Build the layers of aggregated entities and the relations between them from all ingested documents, and \
publish them at once; readers see the old build until then. Needed after ingest_documents with build=false, or when \
get_index_status says stale. Where a model is configured it writes the texts, within the caps of the settings; \
dry_run forecasts that. Returns a job: if it is not done after wait_seconds, call \
get_job with job_id. Next: query_lca_context."""
        started = anyio.current_time()
        engine = await self._engine.get()
        named = self._engine.collection(collection)
        from leanrag_engine.model import BuildOrder  # noqa: PLC0415 - brings numpy; only a build needs it

        order = BuildOrder(upgrade=mode == "upgrade")
        job = await engine.submit_build(collection=named, order=order, dry_run=dry_run)
        return markdown.job_result(job_reply(await engine.job(job.id, left(started, wait_seconds))))

    async def get_job(
        self, job_id: JobId, wait_seconds: WaitSeconds = 0, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, JobReply]:
        """How a job stands: status (queued, running, done, failed, cancelled, interrupted), stage, done of total, \
failures by document, and its result. Waits up to wait_seconds for its end; call again while it is queued or \
running. An interrupted job is resumed by itself when the server starts again."""
        engine = await self._engine.get()
        return markdown.job_result(job_reply(await engine.job(job_id, wait_seconds)))

    async def cancel_job(
        self, job_id: JobId, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, JobReply]:
        """Stop a queued or running job. What it had finished is kept: documents already ingested stay, the \
published build stays as it was. Calling ingest_documents or build_hierarchy again carries on."""
        engine = await self._engine.get()
        return markdown.job_result(job_reply(await engine.cancel_job(job_id)))


def left(started: float, wait_seconds: float) -> float:
    """What is left of the wait: opening the stores for the first time counts too."""
    return max(0.0, wait_seconds - (anyio.current_time() - started))


def document_source(argument: DocumentArgument) -> DocumentSource:
    from leanrag_engine.model import DocumentSource  # noqa: PLC0415 - brings numpy; only ingesting needs it

    if bool(argument.path) == (argument.text is not None):
        raise InvalidInput(
            f"A document needs exactly one of path and text; this one has {'both' if argument.path else 'neither'}.",
            'Give {"path": "..."} or {"text": "...", "title": "..."}.',
        )
    metadata = {key: str(value) for key, value in argument.metadata.items()}
    return DocumentSource(
        path=argument.path, text=argument.text, title=argument.title, id=argument.id, metadata=metadata
    )


def ingest_reply(job: Job) -> IngestReply:
    """The documents of a job, failures first where there are too many to list."""
    outcomes = [DocumentOutcome(**each) for each in job.result.get("documents", [])]
    message = job.message
    if len(outcomes) > LISTED:
        message = f"{message} {tally(job)}; {LISTED} are listed, failures first.".lstrip()
        outcomes = sorted(outcomes, key=lambda each: each.status != "failed")[:LISTED]
    return IngestReply(
        job_id=job.id,
        status=job.status.value,
        stage=job.stage,
        done=job.done,
        total=job.total,
        rate=job.rate,
        seconds_left=job.seconds_left,
        message=message,
        documents=outcomes,
        next_step=next_step(job),
    )


def tally(job: Job) -> str:
    """How many documents came to which end, e.g. ``8 added, 1 failed``."""
    counts = Counter(each["status"] for each in job.result["documents"])
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def job_reply(job: Job) -> JobReply:
    return JobReply(
        job_id=job.id,
        kind=job.kind,
        collection=job.collection,
        status=job.status.value,
        stage=job.stage,
        done=job.done,
        total=job.total,
        rate=job.rate,
        seconds_left=job.seconds_left,
        message=job.message,
        failures=[dict(failure) for failure in job.failures[:LISTED]],
        result={
            key: value for key, value in job.result.items() if key not in {"documents", "attempts", "reached"}
        }
        | ({"documents": tally(job)} if "documents" in job.result else {}),
        next_step=next_step(job),
    )


def next_step(job: Job) -> str:
    """What a model should call now, given how the job stands."""
    return after_success(job) if job.status.value == "done" else while_open(job)


def while_open(job: Job) -> str:
    match job.status.value:
        case "queued" | "running":
            return f"Call get_job with job_id={job.id!r} and wait_seconds=30."
        case "interrupted":
            return f"It is resumed by itself; call get_job with job_id={job.id!r} again in a while."
        case "cancelled":
            return f"Call {TOOL_OF[job.kind]} again to carry on from what is kept."
    return f"Mend what the message names, then call {TOOL_OF[job.kind]} again."


def after_success(job: Job) -> str:
    if job.kind == "forecast":
        return "Call build_hierarchy without dry_run to build."
    if job.result.get("built", True):
        return "Call query_lca_context with a question."
    return "Call build_hierarchy, then query_lca_context."
