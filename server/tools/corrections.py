"""Tools that correct the graph: what is one entity, and where one name means another."""

from __future__ import annotations

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from ..replies.changes.corrections import CorrectionsReply
from .arguments import CollectionName, EntityName, Strings, ToolGroup

Undo = bool
"""Whether to take such a correction back."""


class CorrectionTools(ToolGroup):
    async def merge_entities(
        self, entities: Strings, name: str = "", undo: Undo = False, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, CorrectionsReply]:
        """Make entities one, called `name` or as the first, from the next build on; `undo` takes that back."""
        engine = await self._engine.get()
        named = await self._engine.choose(collection)
        if undo:
            done = await engine.undo_merge(entities, collection=named)
        else:
            done = await engine.merge_entities(entities, name, collection=named)
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
        engine = await self._engine.get()
        named = await self._engine.choose(collection)
        if undo:
            done = await engine.undo_split(entity, name, collection=named)
        else:
            done = await engine.split_entity(entity, name, places, collection=named)
        return CorrectionsReply.from_engine(done, undone=undo).to_result()
