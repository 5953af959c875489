"""The calling agent as the model: pending work, and its submissions, which the next build uses. The tasks are those of a
model; every part of an answer has to fit the published schema. Work may stop at any point: everything has a heuristic form."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from leanrag_engine.core.model import Collection, JsonObject
from leanrag_engine.core.ports import AgentTextKind
from leanrag_engine.hierarchy.by_model.prompt_lines import approximate_tokens
from leanrag_engine.llm.prompts import Prompts
from leanrag_engine.pipeline.building.schemas import find_schema
from leanrag_engine.pipeline.index import Stores

from .chunks import ChunkWork
from .items import FORM, PendingWork, Submission, WorkKind, publish_schema
from .texts import TextWork, open_text_work, require_generation, sort_by_kind


class AgentWork:
    def __init__(self, stores: Stores, collection: Collection, prompts: Prompts) -> None:
        self._stores = stores
        self._collection = collection
        self._prompts = prompts

    async def pending(
        self, kind: WorkKind, limit: int, cursor: str, *, instructions: bool = False
    ) -> PendingWork:
        """Return at most ``limit`` items after ``cursor``, the most valuable first, on the first page with instructions and
        schema. Raises ``NotReady`` without a document or build to write for, ``InvalidInput`` for a cursor that is none."""
        work = await self._chunks() if kind == "extraction" else self._texts(kind)
        page = await work.pending(limit, cursor)
        if not page.items or (cursor and not instructions):
            return page
        asked = work.task_kind
        # Without the reply format of chat models.
        text = asked.prompts.fill("agent_work", instructions=asked.instructions.partition(FORM)[0].strip())
        tokens = page.tokens + approximate_tokens(text)
        return replace(page, instructions=text, schema=publish_schema(asked), tokens=tokens)

    async def submit_extractions(self, items: Sequence[JsonObject], *, replace: bool) -> Submission:
        """Store extractions, each with a ``work_id``; ``replace`` allows to replace what agents and models wrote."""
        return await (await self._chunks()).submit(items, replace)

    async def submit_texts(self, items: Sequence[JsonObject], *, replace: bool) -> Submission:
        """Store summaries, sentences on relations and descriptions, each with the ``work_id`` of its pending item."""
        generation = require_generation(self._collection.name, self._collection.generation)
        sorted_items = await sort_by_kind(self._stores, generation, items)
        done = [await self._texts(kind).submit(each, replace) for kind, each in sorted_items.items()]
        return Submission(
            done[0].kind,
            tuple(chain.from_iterable(each.accepted for each in done)),
            tuple(chain.from_iterable(each.replaced for each in done)),
            tuple(chain.from_iterable(each.rejected for each in done)),
            sum(each.remaining for each in done),
        )

    async def _chunks(self) -> ChunkWork:
        schema = await find_schema(self._stores, self._collection)
        return ChunkWork(self._stores, self._collection, self._prompts, schema)

    def _texts(self, kind: AgentTextKind) -> TextWork:
        generation = require_generation(self._collection.name, self._collection.generation)
        return open_text_work(kind, self._stores, generation, self._prompts)
