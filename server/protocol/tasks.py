"""The tasks extension (``io.modelcontextprotocol/tasks`` 2026-07-28): a call whose job continues is answered with
a task, for clients that declare it. A task is a job, with its id; ``get_job`` and ``cancel_job`` see the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from leanrag_engine.core.errors import NotFound

from ..engine_handle import EngineHandle

if TYPE_CHECKING:
    from leanrag_engine.core.jobs import Job

IDENTIFIER = "io.modelcontextprotocol/tasks"

STARTS_JOBS = frozenset({"ingest_documents", "build_hierarchy"})

UNFINISHED = frozenset({"queued", "running", "interrupted"})


class TaskParams(RequestParams):
    """Parameters of all three methods; further input of ``tasks/update`` is never requested."""

    task_id: str = Field(alias="taskId")


class Tasks(Extension):
    """Answers with tasks, and serves ``tasks/get``, ``tasks/update`` and ``tasks/cancel``."""

    identifier = IDENTIFIER

    def __init__(self, engine: EngineHandle, adapt: Callable[[CallToolResult], CallToolResult]) -> None:
        """``adapt`` removes the names of tools that this server does not offer from a result."""
        self._engine = engine
        self._adapt = adapt

    def methods(self) -> Sequence[MethodBinding]:
        handlers = {"tasks/get": self._get, "tasks/update": self._update, "tasks/cancel": self._cancel}
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding(name, TaskParams, handler, protocol_versions=versions)
            for name, handler in handlers.items()
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[object, object], call_next: CallNext
    ) -> HandlerResult:
        if params.name not in STARTS_JOBS or not knows_tasks(ctx):
            return await call_next(ctx)
        # Short jobs end within a second and need no task.
        params.arguments = {"wait_seconds": 1, **(params.arguments or {})}
        result = await call_next(ctx)
        content = (result.structured_content if isinstance(result, CallToolResult) else None) or {}
        if content.get("status") not in UNFINISHED or not content.get("job_id"):
            return result
        engine = await self._engine.get()
        return {**task_of(await engine.job(content["job_id"])), "resultType": "task"}

    async def _get(self, ctx: ServerRequestContext[object, object], params: TaskParams) -> HandlerResult:
        job = await self._job(ctx, params)
        task = task_of(job)
        if task["status"] == "completed":
            result = self._adapt(outcome(job)).model_dump(by_alias=True, mode="json", exclude_none=True)
            task["result"] = result
        return task

    async def _update(self, ctx: ServerRequestContext[object, object], params: TaskParams) -> HandlerResult:
        await self._job(ctx, params)
        return {"resultType": "complete"}

    async def _cancel(self, ctx: ServerRequestContext[object, object], params: TaskParams) -> HandlerResult:
        job = await self._job(ctx, params)
        if not self._engine.settings.read_only and self._engine.may("write"):
            await (await self._engine.get()).cancel_job(job.id)
        return {"resultType": "complete"}

    async def _job(self, ctx: ServerRequestContext[object, object], params: TaskParams) -> Job:
        require_client_extension(ctx, IDENTIFIER)
        engine = await self._engine.get()
        try:
            collection = await self._engine.collection_of_job(
                params.task_id, self._engine.settings.collection
            )
            return await engine.job(params.task_id, collection=collection)
        except NotFound as problem:
            raise MCPError(code=INVALID_PARAMS, message=f"Task not found. {problem}") from problem


def knows_tasks(ctx: ServerRequestContext[object, object]) -> bool:
    """Return whether the client declared the extension; protocols before 2026-07-28 have none."""
    capabilities = ctx.session.client_capabilities
    return (
        ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        and capabilities is not None
        and IDENTIFIER in (capabilities.extensions or {})
    )


def task_of(job: Job) -> dict[str, object]:
    """Convert a job to the protocol's task. A failed job is a completed call with an error as its result."""
    from leanrag_engine.core.jobs import describe_done  # noqa: PLC0415 - the start must not wait for it

    ended = "cancelled" if job.status.value == "cancelled" else "completed"
    progress = f" {describe_done(job)}" if job.total else ""
    return {
        "taskId": job.id,
        "status": "working" if job.status.value in UNFINISHED else ended,
        "statusMessage": f"{job.stage}{progress}. {job.message}".rstrip(". ") or job.status.value,
        "createdAt": job.created_at.isoformat(),
        "lastUpdatedAt": job.updated_at.isoformat(),
        "ttlMs": None,
        "pollIntervalMs": 1000,
        "resultType": "complete",
    }


def outcome(job: Job) -> CallToolResult:
    """Return the result that the call would have had if it had waited for the end."""
    from ..replies.work.jobs import IngestReply, JobReply  # noqa: PLC0415 - the start must not wait for them

    return (IngestReply if job.kind == "ingest" else JobReply).from_engine(job).to_result()
