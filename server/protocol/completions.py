"""Completions: what may stand for collection, entity, cluster or document in a prompt or a resource's address.

They are asked for at every key: each is one bounded look into a sorted table, and none is an error.
"""

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
"""Values that one completion gives; the protocol allows 100."""


class Completions:
    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,  # noqa: ARG002 - names mean the same everywhere
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion:
        """Values that begin like what is typed; if there is none, similar ones."""
        chosen = (context.arguments or {}) if context else {}
        collection = self._engine.collection(chosen.get("collection", self._engine.settings.collection))
        try:
            engine = await self._engine.get()
            found = await values(engine, argument.name, argument.value, collection, fixed=self._engine.fixed)
        except LeanRAGError:
            # No such collection, or nothing built yet: there is nothing to complete.
            found = []
        shown = [plain_line(value) for value in found[:MOST]]
        return Completion(
            values=shown, total=None if len(found) > MOST else len(found), has_more=len(found) > MOST
        )


async def values(engine: LeanRAG, name: str, typed: str, collection: str, *, fixed: bool) -> list[str]:
    """All values for the argument ``name``; [] for one that cannot be completed."""
    if name == "collection":
        known = [collection] if fixed else [each.name for each in await engine.collections()]
        return [each for each in known if each.casefold().startswith(typed.casefold())]
    if name in ("entity", "cluster"):
        return await engine.names_like(
            typed, aggregated=name == "cluster", limit=MOST + 1, collection=collection
        )
    if name == "document":
        documents = await engine.documents(collection=collection)
        folded = typed.casefold()
        return [each.title or each.id for each in documents if folded in (each.title or each.id).casefold()]
    return []
