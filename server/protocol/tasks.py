"""The tasks extension: a call whose job goes on is answered with a task, to clients that know tasks.

A task is a job, under the job's id: it is as durable, and ``get_job`` and ``cancel_job`` see the same. Clients that
do not declare the extension get the job's handle as ever. Specification: ``io.modelcontextprotocol/tasks`` 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from leanrag_engine.core.errors import NotFound

from ..engine_handle import EngineHandle
from ..replies.jobs import IngestReply, JobReply

if TYPE_CHECKING:
    from leanrag_engine.core.model import Job

IDENTIFIER = "io.modelcontextprotocol/tasks"

POLL_MS = 1000
"""Milliseconds between two looks that a client is asked to leave."""

AT_ONCE = 1
"""Seconds that a call waits for its job's end if the client knows tasks and does not say how long to wait."""

STARTS_JOBS = frozenset({"ingest_documents", "build_hierarchy"})

GOES_ON = frozenset({"queued", "running", "interrupted"})


class TaskParams(RequestParams):
    """What all three methods take; what ``tasks/update`` brings besides is never asked for."""

    task_id: str = Field(alias="taskId")


class Tasks(Extension):
    """Answers with tasks, and serves ``tasks/get``, ``tasks/update`` and ``tasks/cancel``."""

    identifier = IDENTIFIER

    def __init__(self, engine: EngineHandle, adapt: Callable[[CallToolResult], CallToolResult]) -> None:
        """``adapt`` puts a result into the words of what this server offers."""
        self._engine = engine
        self._adapt = adapt

    def methods(self) -> Sequence[MethodBinding]:
        served = {"tasks/get": self._get, "tasks/update": self._update, "tasks/cancel": self._cancel}
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding(name, TaskParams, handler, protocol_versions=versions)
            for name, handler in served.items()
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        if params.name not in STARTS_JOBS or not knows_tasks(ctx):
            return await call_next(ctx)
        params.arguments = {"wait_seconds": AT_ONCE, **(params.arguments or {})}
        result = await call_next(ctx)
        content = (result.structured_content if isinstance(result, CallToolResult) else None) or {}
        if content.get("status") not in GOES_ON or not content.get("job_id"):
            return result
        engine = await self._engine.get()
        return {**task_of(await engine.job(content["job_id"])), "resultType": "task"}

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        job = await self._job(ctx, params)
        found = task_of(job)
        if found["status"] == "completed":
            result = self._adapt(outcome(job)).model_dump(by_alias=True, mode="json", exclude_none=True)
            found["result"] = result
        return found

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        await self._job(ctx, params)
        return {"resultType": "complete"}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        job = await self._job(ctx, params)
        if not self._engine.settings.read_only:
            await (await self._engine.get()).cancel_job(job.id)
        return {"resultType": "complete"}

    async def _job(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Job:
        require_client_extension(ctx, IDENTIFIER)
        engine = await self._engine.get()
        try:
            return await engine.job(params.task_id)
        except NotFound as problem:
            raise MCPError(code=INVALID_PARAMS, message=f"Task not found. {problem}") from problem


def knows_tasks(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether this request's client declared the extension; before 2026-07-28 there is none."""
    declared = ctx.session.client_capabilities
    return (
        ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        and declared is not None
        and IDENTIFIER in (declared.extensions or {})
    )


def task_of(job: Job) -> dict[str, Any]:
    """A job as the protocol's task. A job that failed is a call that completed, with an error for a result."""
    ended = "cancelled" if job.status.value == "cancelled" else "completed"
    progress = f" {job.done} of {job.total}" if job.total else ""
    return {
        "taskId": job.id,
        "status": "working" if job.status.value in GOES_ON else ended,
        "statusMessage": f"{job.stage}{progress}. {job.message}".rstrip(". ") or job.status.value,
        "createdAt": job.created_at.isoformat(),
        "lastUpdatedAt": job.updated_at.isoformat(),
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
        "resultType": "complete",
    }


def outcome(job: Job) -> CallToolResult:
    """What the call would have given if it had waited for the end."""
    reply = IngestReply if job.kind == "ingest" else JobReply
    return reply.from_engine(job).to_result()
