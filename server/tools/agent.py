"""The tools by which the calling agent does a model's work: read chunks, summarise clusters. No key is needed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import ConfigDict, Field

from ..engine_handle import EngineHandle
from ..replies.markdown import both
from ..replies.models import ReplyModel
from .arguments import CollectionName, Cursor

if TYPE_CHECKING:
    from leanrag_engine.pipeline.agent_work import PendingWork, Submission

SUBMIT = {"extraction": "submit_extractions", "summary": "submit_summaries"}
UNIT = {"extraction": "chunks", "summary": "clusters of this layer"}

Items = Annotated[
    list[dict[str, Any]],
    Field(min_length=1, max_length=100, description="Each in the form of get_pending_work's schema"),
]


class WorkCard(ReplyModel):
    work_id: str
    title: str
    text: str


class PendingReply(ReplyModel):
    model_config = ConfigDict(serialize_by_alias=True)

    instructions: str
    item_schema: dict[str, Any] = Field(alias="schema", description="JSON schema of one item to submit")
    items: list[WorkCard]
    remaining: int
    next_cursor: str
    next_step: str


class Rejection(ReplyModel):
    work_id: str
    reason: str


class SubmitReply(ReplyModel):
    accepted: int
    rejected: list[Rejection]
    remaining: int
    next_step: str


class AgentTools:
    """Each method is one tool; its docstring is what the model reads."""

    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    async def get_pending_work(
        self,
        kind: Literal["extraction", "summary"] = "extraction",
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, PendingReply]:
        """Get work that needs a language model, to do it yourself; better extracts and summaries make better \
answers. kind=extraction: chunks whose entities and relations are to be extracted; kind=summary: clusters to be named \
and described (lowest layer first). Use it when the user asks for a better index and no model is configured. \
Returns instructions, a JSON schema, items and how many remain. Next: submit_extractions or submit_summaries, then \
this again until none remains, then build_hierarchy. Nothing submitted is ever lost; several agents can share \
the work by cursor."""
        engine = await self._engine.get()
        work = await engine.pending_work(kind, limit, cursor, collection=self._engine.collection(collection))
        return pending_result(pending_reply(work))

    async def submit_extractions(
        self, items: Items, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, SubmitReply]:
        """Hand in what chunks from get_pending_work(kind=extraction) say: items of work_id, entities, relations. \
Each item is checked by itself: good ones are kept at once, each bad one comes back with the reason; mend and submit \
those again. Returns how many were accepted and how many remain. Next: get_pending_work, or build_hierarchy when none \
remains."""
        engine = await self._engine.get()
        done = await engine.submit_extractions(items, collection=self._engine.collection(collection))
        return submit_result(submit_reply("extraction", done))

    async def submit_summaries(
        self, items: Items, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, SubmitReply]:
        """Hand in summaries of clusters from get_pending_work(kind=summary): items of work_id, name, description, \
findings. Each item is checked by itself: good ones are kept at once, each bad one comes back with the reason; mend \
and submit those again. They show after the next build_hierarchy; then the layer above has its turn."""
        engine = await self._engine.get()
        done = await engine.submit_summaries(items, collection=self._engine.collection(collection))
        return submit_result(submit_reply("summary", done))


def pending_reply(work: PendingWork) -> PendingReply:
    if work.items:
        step = f"Do these {len(work.items)} items, then call {SUBMIT[work.kind]}."
    elif work.remaining:
        step = "No item stands after this cursor: call get_pending_work without it."
    else:
        step = "Nothing is left to do here. Call build_hierarchy if get_index_status says stale, then query_lca_context."
    return PendingReply(
        instructions=work.instructions if work.items else "",
        schema=dict(work.schema) if work.items else {},
        items=[WorkCard(work_id=each.work_id, title=each.title, text=each.text) for each in work.items],
        remaining=work.remaining,
        next_cursor=work.cursor,
        next_step=step,
    )


def pending_result(reply: PendingReply) -> CallToolResult:
    lines = []
    if reply.items:
        schema = json.dumps(reply.item_schema, ensure_ascii=False, separators=(",", ":"))
        lines = [reply.instructions, "", f"Schema of one item: {schema}", ""]
    for item in reply.items:
        lines += [f"# work_id {item.work_id} ({item.title})", "", item.text, ""]
    lines.append(f"{reply.remaining} remaining, these included.")
    if reply.next_cursor:
        lines.append(f"Items after these: cursor={reply.next_cursor!r}.")
    return both([*lines, f"Next: {reply.next_step}"], reply)


def submit_reply(kind: str, done: Submission) -> SubmitReply:
    if done.rejected:
        step = f"Mend the rejected items and call {SUBMIT[kind]} with them again."
    elif done.remaining:
        step = f"Call get_pending_work with kind={kind!r}: {done.remaining} {UNIT[kind]} remain. Or build_hierarchy now."
    elif kind == "extraction":
        step = "Call build_hierarchy; then get_pending_work with kind='summary'."
    else:
        step = "Call build_hierarchy; then get_pending_work with kind='summary' for the layer above."
    return SubmitReply(
        accepted=len(done.accepted),
        rejected=[Rejection(work_id=id_, reason=reason) for id_, reason in done.rejected],
        remaining=done.remaining,
        next_step=step,
    )


def submit_result(reply: SubmitReply) -> CallToolResult:
    lines = [f"{reply.accepted} accepted, {len(reply.rejected)} rejected, {reply.remaining} remain."]
    lines += [f"Rejected {each.work_id or '(no work_id)'}: {each.reason}" for each in reply.rejected]
    return both(
        [*lines, f"Next: {reply.next_step}"], reply, is_error=not reply.accepted and bool(reply.rejected)
    )
