"""Completions in prompts and resource addresses, at every keystroke: each is one bounded lookup in a sorted
table, none an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

from leanrag_engine.core.errors import LeanRAGError

from ..engine_handle import EngineHandle
from ..replies.errors import plain_line

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

MOST = 50
"""Values of one completion; the protocol allows 100."""


class Completions:
    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,  # noqa: ARG002 - names mean the same everywhere
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion:
        """Return values that begin with the typed text; similar ones if there are none."""
        arguments = (context.arguments or {}) if context else {}
        try:
            engine = await self._engine.get()
            if argument.name == "collection":
                found = await self._collections(engine, argument.value)
            else:
                named = self._engine.collection(arguments.get("collection", self._engine.settings.collection))
                found = await values(engine, argument.name, argument.value, named)
        except LeanRAGError:
            # Unknown collection, or nothing built yet.
            found = []
        visible = [plain_line(value) for value in found[:MOST]]
        return Completion(
            values=visible, total=None if len(found) > MOST else len(found), has_more=len(found) > MOST
        )

    async def _collections(self, engine: LeanRAG, typed: str) -> list[str]:
        known = [each.name for each in await engine.collections() if self._engine.sees(each.name)]
        return [each for each in known if each.casefold().startswith(typed.casefold())]


async def values(engine: LeanRAG, name: str, typed: str, collection: str) -> list[str]:
    """Return all values for the argument ``name``; [] if it cannot be completed."""
    if name in ("entity", "cluster"):
        return await engine.names_like(
            typed, aggregated=name == "cluster", limit=MOST + 1, collection=collection
        )
    if name == "document":
        documents = await engine.documents(collection=collection)
        folded = typed.casefold()
        return [each.title or each.id for each in documents if folded in (each.title or each.id).casefold()]
    return []
