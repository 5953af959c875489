"""The vector store as a collection's index: what is embedded, in which space it stands, how it is written anew.

What writes here runs inside a job, under the writer lock. The order of writes is what makes a crash
harmless: vectors are written before the generation that needs them is published; what nothing refers to
any more is dropped last.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.to_thread
import numpy as np

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import (
    EmbedderChanged,
    InvalidInput,
    ModelUnavailable,
    NotReady,
    StoreUnusable,
)
from leanrag_engine.core.jobs import ReindexResult
from leanrag_engine.core.model import (
    Chunk,
    Collection,
    Entity,
    Generation,
    Graph,
    Hierarchy,
    Vectors,
    VectorSpaces,
    window_id,
)
from leanrag_engine.core.ports import (
    DocumentStore,
    Embedder,
    EmbedderSource,
    Extractor,
    GenerationStore,
    JobStore,
    Progress,
    ProgressReport,
    ReplyStore,
    Tokenizer,
    VectorStore,
)
from leanrag_engine.retrieval.graph.adjacency_cache import AdjacencyCache

logger = logging.getLogger(__name__)

BATCH = 2500
"""Rows handed to the vector store between two looks at whether the work should stop."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The tools of the writing half."""

    settings: Settings
    documents: DocumentStore
    generations: GenerationStore
    jobs: JobStore
    replies: ReplyStore
    vectors: VectorStore
    embedders: EmbedderSource
    tokenizer: Tokenizer
    adjacencies: AdjacencyCache
    extractor: Extractor


async def rebuild_vectors(stores: Stores, collection: str, report: ProgressReport) -> ReindexResult:
    """Write the vector store anew from the graph store; counts by kind. Raises ``NotReady`` before a build."""
    generation = await find_published(stores.documents, collection)
    if generation is None:
        raise NotReady(
            f"Collection {collection!r} was never built.", "Build it; that writes its vectors.", "build"
        )
    embedder = await restore_embedder(stores, generation)
    spaces = generation.record.spaces
    texts = await read_indexed_texts(stores, generation, spaces)
    rows = {
        space: await (embed_windows if space == spaces.chunks else embed_rows)(embedder, held, report)
        for space, held in texts.items()
    }
    async with announce_vector_change(stores):
        try:
            for space in texts:
                await stores.vectors.drop(space)
        except StoreUnusable:
            # The whole store is damaged. Other collections lose their vectors too, and their status says so.
            await stores.vectors.start_over()
        for space, held_rows in rows.items():
            await upsert(stores, space, held_rows, report)
    return ReindexResult({kind: len(rows[space].ids) for kind, space in spaces.by_kind().items()})


async def read_indexed_texts(
    stores: Stores, generation: Generation, spaces: VectorSpaces
) -> dict[str, list[tuple[str, str]]]:
    """What each space of a generation holds: ids and the texts that are embedded."""
    number, kinds = generation.number, spaces.by_kind()
    layers = [
        Graph(
            tuple(await stores.generations.layer(number, each.layer)),
            # Above layer 0 no relation is embedded.
            () if each.layer else tuple(await stores.generations.relations(number, 0)),
        )
        for each in generation.layers
    ]
    texts = texts_by_kind(await stores.documents.all_chunks(generation.collection), layers)
    return {space: texts[kind] for kind, space in kinds.items()}


def texts_by_kind(chunks: Sequence[Chunk], layers: Sequence[Graph]) -> dict[str, list[tuple[str, str]]]:
    """What a build embeds, as ids and texts by kind (see :class:`VectorSpaces`)."""
    base, *above = layers
    return {
        "chunks": texts_of(chunks),
        "entities": texts_of(base.entities),
        "aggregates": texts_of([entity for layer in above for entity in layer.entities]),
        "facts": base.facts(),
    }


def texts_of(items: Sequence[Chunk] | Sequence[Entity]) -> list[tuple[str, str]]:
    """Ids, and what is embedded for each."""
    return [(each.id, each.indexed_text) for each in items]


# --- vectors -------------------------------------------------------------------------------


@asynccontextmanager
async def announce_vector_change(stores: Stores) -> AsyncIterator[None]:
    """Move the version counter before the first write and after the last, however the writing ends, so
    that no reader trusts what it has open."""
    await stores.generations.bump_vector_version()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await stores.generations.bump_vector_version()


async def find_published(documents: DocumentStore, collection: str) -> Generation | None:
    held = await documents.collection(collection)
    return held.generation if held else None


async def restore_embedder(stores: Stores, generation: Generation) -> Embedder:
    """The embedder of a generation.

    Raises ``InvalidInput`` if another one is configured now, or the configured one cannot be used at all;
    ``ModelUnavailable`` if it cannot be reached; ``StoreUnusable`` if what was kept of it is damaged.
    """
    if await stores.embedders.gave(generation.embedder):
        state = await stores.generations.embedder_state(generation.number)
        embedder = await stores.embedders.restore(generation.embedder, state)
        if (embedder.identity, embedder.dimension) == (generation.embedder, generation.dimension):
            return embedder
    raise other_embedder(stores, generation)


async def embedder_trouble(stores: Stores, generation: Generation | None) -> list[str]:
    """Why search by meaning would fail now, as far as that shows without loading a model."""
    try:
        if generation is None or await stores.embedders.gave(generation.embedder):
            return []
    except (InvalidInput, ModelUnavailable) as problem:
        return [str(problem)]
    return [str(other_embedder(stores, generation))]


def other_embedder(stores: Stores, generation: Generation) -> InvalidInput:
    return EmbedderChanged(
        f"Collection {generation.collection!r} was embedded with {embedder_name(generation)!r} "
        f"({generation.embedder}, {generation.dimension} dimensions); the setting embedder now says "
        f"{stores.embedders.name!r}. Vectors of two embedders cannot be compared.",
        "Set the embedder back, or build the collection: a build embeds everything with the new one.",
    )


def embedder_name(generation: Generation) -> str:
    """What the setting said when the generation was built."""
    return generation.record.embedder or generation.embedder.partition("-")[0]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a vector space gets: ids, and an ``(n, d)`` array in the same order."""

    ids: Sequence[str]
    vectors: Vectors


async def embed_rows(embedder: Embedder, texts: Sequence[tuple[str, str]], report: ProgressReport) -> Rows:
    """One row for each (id, text)."""
    vectors = await embedder.embed([text for _, text in texts], report)
    return Rows([id_ for id_, _ in texts], vectors)


async def embed_windows(embedder: Embedder, texts: Sequence[tuple[str, str]], report: ProgressReport) -> Rows:
    """One row for each window of each (id, text): all that a long text says is found."""
    windows = await embedder.embed_windows([text for _, text in texts], report)
    seen: Counter[int] = Counter()
    ids = []
    for owner in windows.owners:
        ids.append(window_id(texts[owner][0], seen[owner]))
        seen[owner] += 1
    return Rows(ids, windows.vectors)


def rows_of_layers(spaces: VectorSpaces, hierarchy: Hierarchy, layers: Sequence[Vectors]) -> dict[str, Rows]:
    """Layer 0 for one space, all layers above it for another."""
    base, *above = hierarchy.layers
    ids = [entity.id for layer in above for entity in layer.entities]
    return {
        spaces.entities: Rows([each.id for each in base.entities], layers[0]),
        spaces.aggregates: Rows(ids, np.concatenate(layers[1:])),
    }


async def write_space(stores: Stores, space: str, rows: Rows, report: ProgressReport) -> None:
    """Write all rows of a space, and no other. What a killed writer left of it is dropped and written anew,
    as is a space of the same content that documents without a build were added to; what a cancelled build
    left of it is gone on with."""
    try:
        # A space's name tells its ids and texts, and rows are written in order: those it holds are the first.
        held = await stores.vectors.count(space)
        await upsert(stores, space, rows, report, start=held)
        if await stores.vectors.count(space) == len(rows.ids):
            return
    except StoreUnusable:
        logger.info("Vector space %s is written anew.", space)
    await stores.vectors.drop(space)
    await upsert(stores, space, rows, report)


async def upsert(stores: Stores, space: str, rows: Rows, report: ProgressReport, *, start: int = 0) -> None:
    """Write the rows from ``start`` on."""
    total = len(rows.ids)
    for first in range(start, total, BATCH):
        report(Progress("index", first, total))
        part = slice(first, first + BATCH)
        await stores.vectors.upsert(space, rows.ids[part], rows.vectors[part])
    report(Progress("index", total, total))


async def drop_unused_spaces(stores: Stores, collection: Collection) -> None:
    """Drop the vector spaces of this collection that no kept generation refers to."""
    generations = await stores.generations.find_all(collection.name)
    await stores.adjacencies.sweep(collection.name, generations)
    kept: set[str] = set()
    for generation in generations:
        kept |= set(generation.record.spaces.by_kind().values())
    try:
        for space in await stores.vectors.spaces():
            if space.startswith(f"c{collection.number}-") and space not in kept:
                await stores.vectors.drop(space)
    except StoreUnusable as problem:
        # The build is published: what is left over costs room, no answer. The next build sweeps again.
        logger.warning("Vector spaces of %s could not be swept: %s", collection.name, problem)
