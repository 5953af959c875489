"""Tools with which the calling agent does a model's work: read chunks, summarise clusters. No key is needed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import Field

from ..engine_handle import EngineHandle
from ..replies.agent import PendingReply, SubmitReply
from .arguments import CollectionName, Cursor

Items = Annotated[
    list[dict[str, Any]],
    Field(min_length=1, max_length=100, description="Each in the form of get_pending_work's schema"),
]


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
this again until none remains, then build_hierarchy. Submitted work is never lost; several agents can share \
it by cursor."""
        engine = await self._engine.get()
        work = await engine.pending_work(kind, limit, cursor, collection=self._engine.collection(collection))
        return PendingReply.from_engine(work).to_result()

    async def submit_extractions(
        self, items: Items, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, SubmitReply]:
        """Submit what chunks from get_pending_work(kind=extraction) say: items of work_id, entities, relations. \
Each item is checked by itself: good ones are stored at once, bad ones are returned with the reason; correct and submit \
those again. Returns how many were accepted and how many remain. Next: get_pending_work, or build_hierarchy when none \
remains."""
        engine = await self._engine.get()
        submission = await engine.submit_extractions(items, collection=self._engine.collection(collection))
        return SubmitReply.from_engine("extraction", submission).to_result()

    async def submit_summaries(
        self, items: Items, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, SubmitReply]:
        """Submit summaries of clusters from get_pending_work(kind=summary): items of work_id, name, description, \
findings. Each item is checked by itself: good ones are stored at once, bad ones are returned with the reason; correct \
and submit those again. They appear after the next build_hierarchy; then comes the layer above."""
        engine = await self._engine.get()
        submission = await engine.submit_summaries(items, collection=self._engine.collection(collection))
        return SubmitReply.from_engine("summary", submission).to_result()
