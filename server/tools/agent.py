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
    Field(min_length=1, max_length=100, description="By the schema of get_pending_work"),
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
        """Get work that needs a language model, to do it yourself when the user wants a better index and no model is \
configured: chunks to extract from, or clusters to summarise. Next: submit_extractions or submit_summaries, until none \
remains; then build_hierarchy."""
        engine = await self._engine.get()
        work = await engine.pending_work(
            kind, limit, cursor, collection=await self._engine.choose(collection)
        )
        return PendingReply.from_engine(work).to_result()

    async def submit_extractions(
        self, items: Items, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, SubmitReply]:
        """Submit the entities and relations of chunks from get_pending_work. Good items are stored at once; correct \
and submit again those that come back with a reason."""
        engine = await self._engine.get()
        submission = await engine.submit_extractions(items, collection=await self._engine.choose(collection))
        return SubmitReply.from_engine("extraction", submission).to_result()

    async def submit_summaries(
        self, items: Items, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, SubmitReply]:
        """Submit names, descriptions and findings of clusters from get_pending_work(kind='summary'), as with \
submit_extractions. They appear after build_hierarchy; then comes the layer above."""
        engine = await self._engine.get()
        submission = await engine.submit_summaries(items, collection=await self._engine.choose(collection))
        return SubmitReply.from_engine("summary", submission).to_result()
