"""The tools that write: ingest, build, the jobs that they run as, corrections of the graph, and an agent's work on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import BeforeValidator, Field

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.jobs import BuildRequest, Job
from leanrag_engine.core.model import DocumentSource

from ..replies.changes import CorrectionsReply
from ..replies.work.agent import PendingReply, SubmitReply
from ..replies.work.jobs import DeleteReply, IngestReply, JobReply, progress_line
from .arguments import (
    CollectionName,
    Cursor,
    DocumentArgument,
    DocumentOrJson,
    EntityName,
    JobId,
    Limit,
    Strings,
    ToolGroup,
    WaitSeconds,
    wrap_single,
)

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

PROGRESS_INTERVAL_S = 1.0  # Seconds between two progress notifications of a waiting call

Documents = Annotated[
    list[DocumentOrJson], BeforeValidator(wrap_single), Field(min_length=1, max_length=1000)
]
Ids = Annotated[Strings, Field(min_length=1, max_length=100, description="ids or numbers (d3)")]
Undo = bool
"""Whether to take such a correction back."""


class ManageTools(ToolGroup):
    async def ingest_documents(
        self,
        documents: Documents,
        build: bool = True,
        sync: Annotated[
            bool, Field(description="Paths are folders: also remove documents whose files vanished")
        ] = False,
        graph: Annotated[
            str,
            Field(
                description="The path is a graph: graphrag, lightrag, openie, leanrag, graphml, csv, jsonl, obsidian"
            ),
        ] = "",
        wait_seconds: WaitSeconds = 20,
        collection: CollectionName = "default",
        *,
        context: Context[None, object],
    ) -> Annotated[CallToolResult, IngestReply]:
        """Add or update documents: files and folders by `path` (text, HTML, PDF, DOCX, code, …; .gitignore holds), or `text`; then build. A bad document fails alone."""
        deadline = anyio.current_time() + wait_seconds
        if any(each.path for each in documents) and not self._engine.may("admin"):
            raise InvalidInput(
                "Your token may not read the server's files, which `path` would do: that needs the right admin.",
                "Give the documents' `text`.",
            )
        engine = await self._engine.get()
        where, allowed = self._engine.collection(collection), self._engine.settings.allow_dirs
        sources = [document_source(each) for each in documents]
        if graph:
            path = only_path(sources, sync=sync)
            job = await engine.submit_import(graph, path, collection=where, build=build, allowed=allowed)
        else:
            job = await engine.submit_ingest(
                sources,
                collection=where,
                build=build,
                allowed=allowed,
                sync=sync,
                replaces=self._engine.may("admin"),
            )
        job = await wait_for_job(engine, job, deadline, context)
        return IngestReply.from_engine(job).to_result()

    async def build_hierarchy(
        self,
        mode: Annotated[
            Literal["auto", "update", "rebuild", "upgrade"],
            Field(
                description="update keeps clusters, rebuild does not; upgrade: a model reads what none has read"
            ),
        ] = "auto",
        dry_run: Annotated[bool, Field(description="Forecast the cost")] = False,
        wait_seconds: WaitSeconds = 20,
        collection: CollectionName = "default",
        *,
        context: Context[None, object],
    ) -> Annotated[CallToolResult, JobReply]:
        """Build and publish the hierarchy of all documents: after ingest_documents with build=false, or when stale."""
        deadline = anyio.current_time() + wait_seconds
        engine, named = await self._open(collection)
        order = BuildRequest(upgrade=True) if mode == "upgrade" else BuildRequest(mode=mode)
        job = await engine.submit_build(collection=named, order=order, dry_run=dry_run)
        job = await wait_for_job(engine, job, deadline, context)
        return JobReply.from_engine(job).to_result()

    async def delete_documents(
        self, ids: Ids, wait_seconds: WaitSeconds = 20, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, DeleteReply]:
        """Delete documents and what only they support, for good: be sure the user wants it. \
Next: build_hierarchy."""
        deadline = anyio.current_time() + wait_seconds
        engine = await self._engine.get()
        job, found = await engine.submit_delete(ids, collection=self._engine.collection(collection))
        if job is not None:
            job = await engine.job(job.id, remaining_seconds(deadline))
        return DeleteReply.from_engine(job, found).to_result()

    async def get_job(
        self, job_id: JobId, wait_seconds: WaitSeconds = 0, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, JobReply]:
        """Get state, progress, failures and result of a job."""
        engine = await self._engine.get()
        where = await self._engine.collection_of_job(job_id, collection)
        return JobReply.from_engine(await engine.job(job_id, wait_seconds, collection=where)).to_result()

    async def cancel_job(
        self, job_id: JobId, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, JobReply]:
        """Stop a job. Finished work is kept; the same ingest or build resumes it."""
        engine = await self._engine.get()
        where = await self._engine.collection_of_job(job_id, collection)
        return JobReply.from_engine(await engine.cancel_job(job_id, collection=where)).to_result()

    async def merge_entities(
        self, entities: Strings, name: str = "", undo: Undo = False, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, CorrectionsReply]:
        """Make entities one, called `name` or as the first, from the next build on; `undo` takes that back."""
        engine, named = await self._open(collection)
        done = await engine.merge_entities(entities, name, undo=undo, collection=named)
        return CorrectionsReply.from_engine(done, undone=undo).to_result()

    async def split_entity(
        self,
        entity: EntityName,
        name: str,
        places: Annotated[Strings, Field(description="d3 or d3:c12")] = [],  # noqa: B006
        undo: Undo = False,
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, CorrectionsReply]:
        """Treat `entity` in these places as a separate entity, `name`. Otherwise as merge_entities."""
        engine, named = await self._open(collection)
        done = await engine.split_entity(entity, name, places, undo=undo, collection=named)
        return CorrectionsReply.from_engine(done, undone=undo).to_result()


Items = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=100)]
Replace = bool
"""Whether items may replace what an agent or a model wrote; the rejections say so where it matters."""


class AgentTools(ToolGroup):
    """A model's work for the calling agent: read chunks, summarise clusters. No key is needed."""

    async def get_pending_work(
        self,
        kind: Literal["extraction", "summary", "relation", "description"] = "extraction",
        limit: Limit = 5,
        cursor: Cursor = "",
        instructions: bool = False,
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, PendingReply]:
        """Get work for a language model (you), if the user wants a better index, most valuable first: \
chunks to extract from, then texts to write. Submit; go on with next_cursor; build_hierarchy."""
        engine, named = await self._open(collection)
        work = await engine.pending_work(kind, limit, cursor, instructions=instructions, collection=named)
        return PendingReply.from_engine(work).to_result()

    async def submit_extractions(
        self, items: Items, replace: Replace = False, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, SubmitReply]:
        """Submit extractions from get_pending_work. Good items are stored at once; correct the rejected ones."""
        engine, named = await self._open(collection)
        submission = await engine.submit_extractions(items, replace=replace, collection=named)
        return SubmitReply.from_engine(submission).to_result()

    async def submit_summaries(
        self, items: Items, replace: Replace = False, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, SubmitReply]:
        """Submit work of the other kinds, as submit_extractions does."""
        engine, named = await self._open(collection)
        submission = await engine.submit_summaries(items, replace=replace, collection=named)
        return SubmitReply.from_engine(submission).to_result()


async def wait_for_job(engine: LeanRAG, job: Job, deadline: float, context: Context[None, object]) -> Job:
    """Return the job at its end or at the ``deadline``; report its progress to the client meanwhile."""
    started = anyio.current_time()
    while True:
        state = await engine.job_state(job.id, min(PROGRESS_INTERVAL_S, remaining_seconds(deadline)))
        if state.status.finished or not remaining_seconds(deadline) or state.status.value == "interrupted":
            return await engine.job(job.id)
        # Stages have different units, and clients rely on a figure that grows: send the seconds.
        passed = anyio.current_time() - started
        await context.report_progress(round(passed, 2), message=progress_line(job.id, state))


def remaining_seconds(deadline: float) -> float:
    """Return what is left of a wait, to which opening the stores for the first time counts too."""
    return max(0.0, deadline - anyio.current_time())


def only_path(sources: Sequence[DocumentSource], *, sync: bool) -> str:
    """Return the path of a graph's files. Raises ``InvalidInput`` if anything else is given with it."""
    first = sources[0]
    if len(sources) > 1 or sync or not first.path or first.title or first.id or first.metadata:
        raise InvalidInput(
            "With graph, documents holds one path and nothing else: a graph brings its documents along.",
            'Give [{"path": "..."}], without sync, and other documents in a call of their own.',
        )
    return first.path


def document_source(argument: DocumentArgument) -> DocumentSource:
    if bool(argument.path) == (argument.text is not None):
        raise InvalidInput(
            f"A document needs exactly one of path and text; this one has {'both' if argument.path else 'neither'}.",
            'Give {"path": "..."} or {"text": "...", "title": "..."}.',
        )
    metadata = {key: str(value) for key, value in argument.metadata.items()}
    return DocumentSource(**argument.model_dump(exclude={"metadata"}), metadata=metadata)
