"""The calling agent as the model: pending work, and its submissions, which the next build uses. The tasks are those of a
model; every part of an answer has to fit the published schema. Work may stop at any point: everything has a heuristic form."""

import dataclasses
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import never_built, no_documents
from leanrag_engine.core.model import Collection, Extract, ExtractionSchema, Generation, JsonObject, Method
from leanrag_engine.core.ports import AgentTextKind
from leanrag_engine.core.text.language.words import content_words, words
from leanrag_engine.core.text.shortening import count_things
from leanrag_engine.extraction.by_model.extract import extraction_kind, submission_task
from leanrag_engine.extraction.schemas.conforming import conform
from leanrag_engine.hierarchy.by_model.prompt_lines import approximate_tokens
from leanrag_engine.llm.batching import TaskKind
from leanrag_engine.llm.prompts import Prompts
from leanrag_engine.pipeline.building.schemas import find_schema
from leanrag_engine.pipeline.index import Stores
from leanrag_engine.retrieval.graph.adjacency import Adjacency, EdgeKind

from .items import (
    FORM,
    PendingWork,
    QueuedWork,
    Reader,
    Submission,
    WorkItem,
    WorkKind,
    make_page,
    publish_schema,
    read_items,
    refuse_replacing,
    select_page,
)
from .texts import TextWork, name_author, open_text_work, sort_by_kind


class ChunkWork:
    """The chunks of a collection that no model and no agent has read."""

    def __init__(
        self, stores: Stores, collection: Collection, prompts: Prompts, schema: ExtractionSchema | None
    ) -> None:
        self._stores = stores
        self._collection = collection
        self._schema = schema
        self.task_kind: TaskKind = extraction_kind(prompts=prompts, schema=schema)

    async def pending(self, limit: int, cursor: str) -> PendingWork:
        """Return chunks by descending value; those of equal value, and all before the first build, in reading order. The
        value of a chunk is the sum over its entities, in the published build, of ln(1 + relations of the entity): what is
        read well there improves most of the graph. How often a chunk was asked for is recorded nowhere and does not count."""
        if not self._collection.documents:
            raise no_documents(self._collection.name)
        readings = await self._stores.documents.chunk_readings(self._collection.name)
        generation = self._collection.generation
        values = measure_chunks(await self._stores.adjacencies.of(generation)) if generation else {}
        queue = [QueuedWork(each.id, not each.written, values.get(each.id, 0.0)) for each in readings]
        queue.sort(key=lambda each: -each.value)
        chunks = await self._stores.documents.chunks(self._collection.name, select_page(queue, limit, cursor))
        items = [
            WorkItem(each.id, f"{each.citation} {each.title}", submission_task(each).text) for each in chunks
        ]
        unread = [each.tokens for each in readings if not each.written]
        mean = sum(unread) / max(1, len(unread))
        page = make_page("extraction", queue, cursor, items, "the links of what is unread", lambda _: mean)
        return dataclasses.replace(page, names=tuple(await self._names_near(page.items)))

    async def submit(self, items: Sequence[JsonObject], replace: bool) -> Submission:
        """Store extracts. One that replaces another of an agent or a model needs ``replace``."""
        name = self._collection.name
        ids = [str(item.get("work_id")) for item in items]
        schema = publish_schema(self.task_kind)
        readers = {
            each.id: Reader(schema, submission_task(each, self._schema).read)
            for each in await self._stores.documents.chunks(name, ids)
        }
        said, rejected = read_items(
            items, readers, "get the pending work again, its document was changed or deleted"
        )
        outcomes = await self._stores.documents.submit_extracts(name, list(said.values()), replace=replace)
        found = {each.chunk_id: each for each in outcomes}
        earlier = {id_: _describe(each.earlier) for id_, each in found.items() if each.earlier}
        rejected += [(id_, refuse_replacing(earlier[id_])) for id_, each in found.items() if not each.stored]
        rejected += [(id_, "Its document was deleted meanwhile.") for id_ in said if id_ not in found]
        accepted = [id_ for id_, each in found.items() if each.stored]
        return Submission(
            "extraction",
            tuple(accepted),
            tuple((id_, earlier[id_]) for id_ in accepted if id_ in earlier),
            tuple(rejected),
            (await self._stores.documents.count_extracts(name)).get(Method.HEURISTIC, 0)
            + sum((await self._stores.documents.count_outdated(name)).values()),
            self._list_outside([each for id_, each in said.items() if id_ in accepted]),
        )

    def _list_outside(self, extracts: Sequence[Extract]) -> tuple[str, ...]:
        """Return the types of the extracts that the schema does not have, with the number of their passages."""
        if self._schema is None:
            return ()
        known = set(self._schema.adopted)
        _, effects = conform(extracts, self._schema)
        return tuple(f"{each.ref} ({each.chunks})" for each in effects.proposals if each.ref not in known)

    async def _names_near(self, items: Sequence[WorkItem]) -> list[str]:
        """Return names that models and agents use for what these chunks may mention: in the chunks around them, then in
        the published build. Each shares a word with the chunks."""
        name, generation = self._collection.name, self._collection.generation
        seen = {word for item in items for word in content_words(item.text)}
        # The written names of five chunks before and after each are shown with it,
        near = await self._stores.documents.extracts_near(name, [each.work_id for each in items], 5)
        found = dict.fromkeys(entity.name for each in near for entity in each.entities)
        if generation is not None:
            for item in items:
                # and those in use in other documents, from the ten entities that fit a chunk best.
                hits = await self._stores.generations.search_entities(
                    generation.number, item.text, 10, layer=0
                )
                entities = await self._stores.generations.entities(
                    generation.number, [hit.id for hit in hits]
                )
                found |= dict.fromkeys(each.name for each in entities if each.method.written)
        return [each for each in found if not seen.isdisjoint(words(each))][:30]


def measure_chunks(adjacency: Adjacency) -> dict[str, float]:
    """Return the value of each chunk of a build by its id; see :meth:`ChunkWork.pending`. O(edges)."""
    rows = np.repeat(np.arange(len(adjacency.offsets) - 1), np.diff(adjacency.offsets))
    relations = np.bincount(rows[adjacency.kinds == EdgeKind.RELATION], minlength=len(adjacency.offsets) - 1)
    chunks = len(adjacency.chunk_ids)
    mentions = (rows < chunks) & (adjacency.kinds <= EdgeKind.TITLE)
    degrees: NDArray[np.float64] = np.log1p(relations[adjacency.targets[mentions]])
    sums = np.bincount(rows[mentions], weights=degrees, minlength=chunks)
    # Rounded: sums of equal values in another order must stay equal.
    values = np.round(sums, 6).tolist()
    return {id_.decode(): value for id_, value in zip(adjacency.chunk_ids.tolist(), values, strict=True)}


def _describe(extract: Extract) -> str:
    entities = count_things(len(extract.entities), "entity", "entities")
    relations = count_things(len(extract.relations), "relation")
    return f"{entities} and {relations} by {name_author(extract.method)}"


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
        return dataclasses.replace(page, instructions=text, schema=publish_schema(asked), tokens=tokens)

    async def submit_extractions(self, items: Sequence[JsonObject], *, replace: bool) -> Submission:
        """Store extractions, each with a ``work_id``; ``replace`` allows to replace what agents and models wrote."""
        return await (await self._chunks()).submit(items, replace)

    async def submit_texts(self, items: Sequence[JsonObject], *, replace: bool) -> Submission:
        """Store summaries, sentences on relations and descriptions, each with the ``work_id`` of its pending item."""
        sorted_items = await sort_by_kind(self._stores, self._require_generation(), items)
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
        return open_text_work(kind, self._stores, self._require_generation(), self._prompts)

    def _require_generation(self) -> Generation:
        if self._collection.generation is None:
            raise never_built(self._collection.name)
        return self._collection.generation
