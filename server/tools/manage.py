"""The tools that write: ingest, build, and the jobs that they run as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import BeforeValidator, Field

from leanrag_engine.core.errors import InvalidInput

from ..engine_handle import EngineHandle
from ..replies import markdown
from ..replies.cards import BRIEF, GLIMPSE, shorten_line
from ..replies.models import (
    DeletedDocument,
    DeleteReply,
    DeletionState,
    DocumentOutcome,
    IngestReply,
    JobReply,
    JobState,
)
from .arguments import (
    CollectionName,
    DocumentArgument,
    DocumentOrJson,
    JobId,
    Strings,
    WaitSeconds,
    wrap_single,
)

if TYPE_CHECKING:
    from leanrag_engine.core.model import DocumentSource, Job
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.pipeline.delete import DocumentLookup

TOOL_OF = {
    "ingest": "ingest_documents",
    "build": "build_hierarchy",
    "forecast": "build_hierarchy",
    "reindex": "build_hierarchy",
    "forget": "delete_documents",
}
"""The tool that does the same work again."""

BEAT = 1.0
"""Seconds between two notifications of progress."""

LISTED = 100
"""Documents that one reply lists, where their names are short."""

LISTED_CHARACTERS = 9_000
"""Characters that the documents of one reply may take."""

FAILURES = 30
"""Failures that one reply of a job lists; its tally counts all."""

ERROR = 300
"""Characters of one document's error."""

GUESSED = 10
"""Unknown ids of one call for which the nearest are named."""

BECAME: Mapping[JobState, DeletionState] = {
    "done": "deleted",
    "failed": "not_deleted",
    "cancelled": "not_deleted",
}
"""Of a document whose deletion ended so."""

Documents = Annotated[
    list[DocumentOrJson], BeforeValidator(wrap_single), Field(min_length=1, max_length=1000)
]
Ids = Annotated[Strings, Field(min_length=1, max_length=100, description="ids or numbers such as d3")]


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
        *,
        context: Context[None, Any],
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
        job = await wait_for_job(engine, job, remaining_seconds(started, wait_seconds), context)
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
        *,
        context: Context[None, Any],
    ) -> Annotated[CallToolResult, JobReply]:
        """Build the layers of aggregated entities and the relations between them from all ingested documents, and \
publish them at once; readers see the old build until then. Needed after ingest_documents with build=false, or when \
get_index_status says stale. Where a model is configured it writes the texts, within the caps of the settings; \
dry_run forecasts that. Returns a job: if it is not done after wait_seconds, call \
get_job with job_id. Next: query_lca_context."""
        started = anyio.current_time()
        engine = await self._engine.get()
        named = self._engine.collection(collection)
        from leanrag_engine.core.model import BuildRequest  # noqa: PLC0415 - brings numpy; only a build needs it

        order = BuildRequest(upgrade=mode == "upgrade")
        job = await engine.submit_build(collection=named, order=order, dry_run=dry_run)
        job = await wait_for_job(engine, job, remaining_seconds(started, wait_seconds), context)
        return markdown.job_result(job_reply(job))

    async def delete_documents(
        self, ids: Ids, wait_seconds: WaitSeconds = 20, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, DeleteReply]:
        """Delete documents for good, with every passage, entity and relation that only they support, at once. \
Summaries that they fed are hidden until the next build_hierarchy. Cannot be undone: be sure that the user wants it. \
Ids are those of list_collections or ingest_documents; each unknown one comes back with the nearest ids. Next: \
build_hierarchy."""
        started = anyio.current_time()
        engine = await self._engine.get()
        job, found = await engine.submit_forget(ids, collection=self._engine.collection(collection))
        if job is not None:
            job = await engine.job(job.id, remaining_seconds(started, wait_seconds))
        return markdown.delete_result(delete_reply(job, found))

    async def get_job(
        self, job_id: JobId, wait_seconds: WaitSeconds = 0, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, JobReply]:
        """How a job stands: status (queued, running, done, failed, cancelled, interrupted), stage, done of total, \
failures by document, and its result. Waits up to wait_seconds for its end; call again while it is queued or \
running. An interrupted job is resumed by itself when the server starts again."""
        engine = await self._engine.get()
        named = self._engine.collection(collection)
        return markdown.job_result(job_reply(await engine.job(job_id, wait_seconds, collection=named)))

    async def cancel_job(
        self, job_id: JobId, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, JobReply]:
        """Stop a queued or running job. What it had finished is kept: documents already ingested stay, the \
published build stays as it was. Calling ingest_documents or build_hierarchy again carries on."""
        engine = await self._engine.get()
        named = self._engine.collection(collection)
        return markdown.job_result(job_reply(await engine.cancel_job(job_id, collection=named)))


async def wait_for_job(engine: LeanRAG, job: Job, seconds: float, context: Context[None, Any]) -> Job:
    """The job after so many seconds or at its end, telling the client now and then how far it is."""
    started = anyio.current_time()
    while not (
        job := await engine.job(job.id, min(BEAT, remaining_seconds(started, seconds)))
    ).status.finished:
        passed = anyio.current_time() - started
        if passed >= seconds or job.status.value == "interrupted":
            return job
        # Stages have units of their own; what a client may count on is that the figure grows.
        await context.report_progress(round(passed, 2), message=markdown.job_line(job_reply(job)))
    return job


def remaining_seconds(started: float, wait_seconds: float) -> float:
    """What is left of the wait: opening the stores for the first time counts too."""
    return max(0.0, wait_seconds - (anyio.current_time() - started))


def document_source(argument: DocumentArgument) -> DocumentSource:
    from leanrag_engine.core.model import DocumentSource  # noqa: PLC0415 - brings numpy; only ingesting needs it

    if bool(argument.path) == (argument.text is not None):
        raise InvalidInput(
            f"A document needs exactly one of path and text; this one has {'both' if argument.path else 'neither'}.",
            'Give {"path": "..."} or {"text": "...", "title": "..."}.',
        )
    metadata = {key: str(value) for key, value in argument.metadata.items()}
    return DocumentSource(
        path=argument.path, text=argument.text, title=argument.title, id=argument.id, metadata=metadata
    )


def delete_reply(job: Job | None, found: DocumentLookup) -> DeleteReply:
    """What became of each id that was given, the bad ones last."""
    status: JobState = job.status.value if job else "done"
    became = BECAME.get(status, "deleting")
    known = [
        DeletedDocument(id=id_, title=shorten_line(document.title, BRIEF), status=became, did_you_mean=[])
        for id_, document in found.documents
    ]
    unknown = [
        DeletedDocument(
            id=shorten_line(id_, GLIMPSE // 2),
            title="",
            status="unknown",
            # A long id is told by its number, which serves as well; of many bad ids the first show what is wrong.
            did_you_mean=[
                f"{near.ref if len(near.ref) <= GLIMPSE else near.hint} ({shorten_line(near.name, GLIMPSE)}, {near.hint})"
                for near in nearest
                if place < GUESSED
            ],
        )
        for place, (id_, nearest) in enumerate(found.unknown)
    ]
    step = next_step(job) if job else "Call list_collections to see the ids of the documents that there are."
    return DeleteReply(
        job_id=job.id if job else "",
        status=status,
        message=job.message if job else "Nothing was deleted: no document bears any of these ids.",
        documents=[*known, *unknown],
        next_step=step,
    )


def ingest_reply(job: Job) -> IngestReply:
    """The documents of a job, failures first where there are too many to list."""
    outcomes = [
        DocumentOutcome(
            **{**each, "title": shorten_line(each["title"], BRIEF), "error": each["error"][:ERROR]}
        )
        for each in job.result.get("documents", [])
    ]
    message = job.message
    shown = listable(outcomes)
    if len(shown) < len(outcomes):
        shown = listable(sorted(outcomes, key=lambda each: each.status != "failed"))
        message = f"{message} {tally(job)}; {len(shown)} are listed, failures first.".lstrip()
    return IngestReply(
        job_id=job.id,
        status=job.status.value,
        stage=job.stage,
        done=job.done,
        total=job.total,
        rate=job.rate,
        seconds_left=job.seconds_left,
        message=message,
        documents=shown,
        next_step=next_step(job),
    )


def listable(outcomes: Sequence[DocumentOutcome]) -> list[DocumentOutcome]:
    """The first that a reply has room for."""
    lengths = accumulate(len(each.id) + len(each.title) + len(each.error) + 60 for each in outcomes)
    fit = sum(length <= LISTED_CHARACTERS for length in lengths)
    return list(outcomes[: min(LISTED, max(fit, 1))])


def tally(job: Job) -> str:
    """How many documents came to which end, e.g. ``8 added, 1 failed``."""
    counts = Counter(each["status"] for each in job.result["documents"])
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def result_of(job: Job) -> dict[str, Any]:
    """A job's result, its documents counted by how they ended."""
    result = {key: value for key, value in job.result.items() if key not in {"attempts", "reached"}}
    return result | ({"documents": tally(job)} if isinstance(result.get("documents"), list) else {})


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
        failures=[
            {key: shorten_line(value, ERROR) for key, value in failure.items()}
            for failure in job.failures[:FAILURES]
        ],
        result=result_of(job),
        next_step=next_step(job),
    )


def next_step(job: Job) -> str:
    """What a model should call now, given how the job stands."""
    return after_success(job) if job.status.value == "done" else while_open(job)


def while_open(job: Job) -> str:
    where = f" and collection={job.collection!r}" if job.collection != "default" else ""
    match job.status.value:
        case "queued" | "running":
            return f"Call get_job with job_id={job.id!r}{where} and wait_seconds=30."
        case "interrupted":
            return f"It is resumed by itself; call get_job with job_id={job.id!r}{where} again in a while."
        case "cancelled":
            return f"Call {TOOL_OF[job.kind]} again to carry on from what is kept."
    return f"Mend what the message names, then call {TOOL_OF[job.kind]} again."


def after_success(job: Job) -> str:
    if job.kind == "forget":
        return "Call build_hierarchy, so that the summaries that are hidden now are made anew."
    if job.kind == "forecast":
        return "Call build_hierarchy without dry_run to build."
    if job.result.get("built", True):
        return "Call query_lca_context with a question."
    return "Call build_hierarchy, then query_lca_context."
