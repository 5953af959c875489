"""The vector store as a collection's index: what is embedded, in which space, and how a space is written
within a job. Vectors are written before a generation is published, and unused spaces dropped last."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise

import anyio
import anyio.to_thread
import numpy as np

from leanrag_engine.adapters.wiring import Adapters
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import (
    EmbedderChanged,
    InvalidInput,
    ModelUnavailable,
    StoreUnreachable,
    StoreUnusable,
)
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.graphs.rows import Places, make_ids
from leanrag_engine.core.graphs.texts import EmbeddedTexts, list_sentences
from leanrag_engine.core.history import READ_GENERATIONS
from leanrag_engine.core.model import METHODS, Chunk, Collection, Generation, SharedText, Vectors, window_id
from leanrag_engine.core.ports import Embedder, Extractor, Progress, ProgressReport
from leanrag_engine.core.vectors import unit_rows
from leanrag_engine.retrieval.graph.adjacency_cache import AdjacencyCache, read_layers

logger = logging.getLogger(__name__)

BATCH = 2500  # Rows written to the vector store between two checks whether the work should stop


@dataclass(frozen=True, slots=True)
class Stores(Adapters):
    """The stores, embedders and settings that every step of the pipeline works with."""

    settings: Settings
    adjacencies: AdjacencyCache
    extractor: Extractor | None
    """Reads the documents that are ingested; None: heuristics."""


async def read_indexed_texts(stores: Stores, generation: Generation) -> dict[str, Sequence[tuple[str, str]]]:
    """Return the ids and embedded texts of each space of a generation."""
    hierarchy = await read_hierarchy(stores, generation)
    windows = texts_of_windows(await stores.documents.all_chunks(generation.collection))
    texts = texts_by_kind(EmbeddedTexts.of_pairs(windows), hierarchy.layers)
    return {space: texts[kind].pairs() for kind, space in generation.record.spaces.by_kind().items()}


async def open_hierarchy(stores: Stores, generation: Generation) -> Hierarchy:
    """Return all layers of a generation, whose rows are read when they are asked for if its columns were kept."""
    columns = await stores.adjacencies.find_arrays("columns", generation)
    found = await stores.generations.open_layers(generation, columns) if columns else None
    return found or await read_hierarchy(stores, generation)


async def read_hierarchy(stores: Stores, generation: Generation) -> Hierarchy:
    """Return all layers of a generation."""
    return Hierarchy(await read_layers(stores.generations, generation))


def texts_by_kind(windows: EmbeddedTexts, layers: Sequence[Graph]) -> dict[str, EmbeddedTexts]:
    """Return what a build embeds by kind (see :class:`VectorSpaces`)."""
    base, *above = layers
    methods = [*METHODS.values()]
    written = any(methods[place].written for place in np.unique(base.edges.methods).tolist())
    return {
        "windows": windows,
        "entities": EmbeddedTexts.of_entities(base.entities, base.nodes),
        "aggregates": EmbeddedTexts.join(
            [EmbeddedTexts.of_entities(each.entities, each.nodes) for each in above]
        ),
        # Heuristic facts are sentences of the windows, which search finds there.
        "facts": EmbeddedTexts.of_pairs(base.facts() if written else []),
        "sentences": EmbeddedTexts.of_pairs(list_sentences(layers)),
    }


def texts_of_windows(chunks: Sequence[Chunk]) -> list[tuple[str, str]]:
    """Return the ids of all windows with the text that is embedded for each."""
    return [window for chunk in chunks for window in chunk.indexed_windows]


@asynccontextmanager
async def announce_vector_change(stores: Stores) -> AsyncIterator[None]:
    """Increase the vector version before the first write and after the last, so that readers reopen the store."""
    await stores.generations.bump_vector_version()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await stores.generations.bump_vector_version()


async def restore_embedder(stores: Stores, generation: Generation) -> Embedder:
    """Return the embedder of a generation. Raises ``InvalidInput`` if another one is configured now or the configured one
    cannot be used, ``ModelUnavailable`` if it cannot be reached, ``StoreUnusable`` if its stored state is damaged."""
    if await stores.embedders.gave(generation.embedder):
        state = await stores.generations.embedder_state(generation.number)
        embedder = await stores.embedders.restore(generation.embedder, state)
        if (embedder.identity, embedder.dimension) == (generation.embedder, generation.dimension):
            return embedder
    raise other_embedder(stores, generation)


async def embedder_trouble(stores: Stores, generation: Generation | None) -> list[str]:
    """Return why search by meaning would fail now, as far as that is known without loading a model."""
    try:
        if generation is None or await stores.embedders.gave(generation.embedder):
            return []
    except (InvalidInput, ModelUnavailable) as problem:
        return [str(problem)]
    return [str(other_embedder(stores, generation))]


def other_embedder(stores: Stores, generation: Generation) -> InvalidInput:
    return EmbedderChanged(
        f"Collection {generation.collection!r} was embedded with {generation.embedder_name!r} "
        f"({generation.embedder}, {generation.dimension} dimensions); the setting embedder now says "
        f"{stores.embedders.name!r}. Vectors of two embedders cannot be compared.",
        "Set the embedder back, or build the collection: a build embeds everything with the new one.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class VectorRows:
    """Rows of a vector space: ids, and an ``(n, d)`` array in the same order."""

    ids: Sequence[str]
    vectors: Vectors


async def embed_shared(
    texts: Sequence[str],
    windows: EmbeddedTexts,
    embed: Callable[[Sequence[str]], Awaitable[Vectors]],
    embed_windows: Callable[[Sequence[str]], Awaitable[Vectors]],
) -> Vectors:
    """Return one row for each text; that of a :class:`SharedText` is the mean of two directions: that of its names, and the
    mean of the ``windows`` of its chunks, whose vectors are known. Questions on MuSiQue, HotpotQA and three sets of documents are
    answered as well as with every sentence embedded for its entities, and more relations lie within a cluster."""
    rows = await embed(texts)
    shared = {place: text.chunk_ids for place, text in enumerate(texts) if isinstance(text, SharedText)}
    if not shared:
        return rows
    wanted = {id_ for each in shared.values() for id_ in each}
    spans = await anyio.to_thread.run_sync(_find_windows, windows, wanted)
    means, bounds = np.empty((len(spans), rows.shape[1]), dtype=np.float32), [*spans.values()]
    for first in range(0, len(bounds), BATCH):  # the windows of all would take more memory than all else here
        part = bounds[first : first + BATCH]
        places = np.array([place for span in part for place in range(*span)], dtype=np.intp)
        vectors = await embed_windows(windows.choose(places))
        ends = accumulate((end - start for start, end in part), initial=0)
        for place, (start, end) in enumerate(pairwise(ends), first):
            means[place] = vectors[start:end].mean(axis=0)
    return await anyio.to_thread.run_sync(_add_windows, rows, shared, [*spans], means)


def locate_chunks(windows: EmbeddedTexts, chunk_ids: Sequence[str]) -> Places:
    """Return the place of the first window of each chunk, −1 for one that has none."""
    return windows.locate(make_ids(window_id(id_, 0) for id_ in chunk_ids))


def _find_windows(windows: EmbeddedTexts, chunk_ids: AbstractSet[str]) -> dict[str, tuple[int, int]]:
    """Return for each chunk the place of its first window and the place after its last; without chunks that have none."""
    ids = sorted(chunk_ids)
    first = np.flatnonzero(np.char.endswith(windows.ids, b"#0"))
    starts = locate_chunks(windows, ids)
    ends = np.append(first, len(windows))[np.searchsorted(first, starts, side="right")]
    spans = zip(ids, starts.tolist(), ends.tolist(), strict=True)
    return {id_: (start, end) for id_, start, end in spans if start >= 0}


def _add_windows(
    rows: Vectors, shared: Mapping[int, Sequence[str]], chunk_ids: Sequence[str], means: Vectors
) -> Vectors:
    """Add to the rows of texts the directions of the ``means`` (n, d) of their chunks' windows."""
    places = {id_: place for place, id_ in enumerate(chunk_ids)}
    for place, ids in shared.items():
        if found := [places[id_] for id_ in ids if id_ in places]:
            rows[place] += unit_rows(means[found].sum(axis=0, keepdims=True))[0]
    return unit_rows(rows, out=rows)


async def embed_rows(
    embedder: Embedder, texts: Sequence[tuple[str, str]], report: ProgressReport
) -> VectorRows:
    """Return one row for each (id, text)."""
    return VectorRows([id_ for id_, _ in texts], await embedder.embed([text for _, text in texts], report))


async def write_space(stores: Stores, space: str, rows: VectorRows, report: ProgressReport) -> None:
    """Write exactly these rows to a space: rows of a cancelled build are completed, an inconsistent space is dropped first."""
    try:
        # A space's name identifies its ids and texts, and rows are written in order: the rows in it are the first.
        await upsert(stores, space, rows, report, start=await stores.vectors.count(space))
        if await stores.vectors.count(space) == len(rows.ids):
            return
    except StoreUnusable:
        logger.info("Vector space %s is rewritten.", space)
    await stores.vectors.drop(space)
    await upsert(stores, space, rows, report)


async def upsert(
    stores: Stores, space: str, rows: VectorRows, report: ProgressReport, *, start: int = 0
) -> None:
    """Write the rows from ``start`` on."""
    total = len(rows.ids)
    for first in range(start, total, BATCH):
        report(Progress("index", first, total))
        part = slice(first, first + BATCH)
        await stores.vectors.upsert(space, rows.ids[part], rows.vectors[part])
    report(Progress("index", total, total))


@asynccontextmanager
async def start_over_if_damaged(stores: Stores) -> AsyncIterator[None]:
    """Put the whole vector store aside if the block finds it damaged. Other collections lose their vectors too then: their
    status says so, and they are repaired in turn."""
    try:
        yield
    except StoreUnreachable:
        raise
    except StoreUnusable as problem:
        logger.warning("The vector store is put aside: %s", problem)
        await stores.vectors.start_over()


async def drop_unused_spaces(stores: Stores, collection: Collection) -> None:
    """Drop the vector spaces of this collection that no generation refers to which is still read."""
    generations = (await stores.generations.find_all(collection.name))[:READ_GENERATIONS]
    await stores.adjacencies.sweep(collection.name, generations)
    kept = {space for each in generations for space in each.record.spaces.by_kind().values()}
    try:
        for space in await stores.vectors.spaces():
            if space.startswith(f"c{collection.number}-") and space not in kept:
                await stores.vectors.drop(space)
                await stores.generations.settle(space)
    except StoreUnusable as problem:
        # The build is published: leftover spaces only cost disk space. The next build sweeps again.
        logger.warning("Vector spaces of %s could not be swept: %s", collection.name, problem)
