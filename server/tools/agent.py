"""Tools with which the calling agent does a model's work: read chunks, summarise clusters. No key is needed."""

from typing import Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import Field

from ..replies.work.agent import PendingReply, SubmitReply
from .arguments import CollectionName, Cursor, Limit, ToolGroup

Items = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=100)]
Replace = bool
"""Whether items may replace what an agent or a model wrote; the rejections say so where it matters."""


class AgentTools(ToolGroup):
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
