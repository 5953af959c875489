"""The writing half of the engine: how documents get in, how a build gets out, how vectors are rebuilt.

Every function here runs inside a job, under the writer lock. The order of writes is what makes a
crash harmless: a document is one transaction; vectors are written before the generation that
needs them is published; what nothing refers to any more is dropped last.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np

from .config import Settings
from .errors import (
    DocumentUnreadable,
    InvalidInput,
    LeanRAGError,
    ModelUnavailable,
    NotReady,
    StoreUnusable,
)
from .graph.chunking import chunk
from .graph.heuristics import extract
from .graph.loading import expand, load
from .graph.merging import merge
from .hierarchy.building import Plan, build
from .hierarchy.ways import Clustering, Manner
from .model import (
    Chunk,
    Collection,
    DocumentSource,
    Entity,
    Extract,
    Generation,
    Graph,
    Hierarchy,
    LoadedDocument,
    Vectors,
    content_id,
    window_id,
)
from .ports import (
    Embedder,
    EmbedderSource,
    Extractor,
    GraphStore,
    Progress,
    ProgressReport,
    Tokenizer,
    VectorStore,
)
from .retrieval.kept_adjacency import Adjacencies

logger = logging.getLogger(__name__)

BATCH = 1000
"""Rows handed to the vector store between two looks at whether the work should stop."""


async def extract_heuristically(
    document: LoadedDocument, chunks: Sequence[Chunk], pulse: Callable[[], None]
) -> list[Extract]:
    """The extractor that needs no model."""
    return await anyio.to_thread.run_sync(partial(extract, chunks, document.title, pulse=pulse))


@dataclass(frozen=True, slots=True)
class Workshop:
    """The tools of the writing half."""

    settings: Settings
    graph: GraphStore
    vectors: VectorStore
    embedders: EmbedderSource
    tokenizer: Tokenizer
    adjacencies: Adjacencies
    extractor: Extractor = extract_heuristically


@dataclass(frozen=True, slots=True)
class Spaces:
    """The names of a generation's vector spaces: one each for chunks, layer-0 entities, aggregates and facts."""

    chunks: str
    entities: str
    aggregates: str
    facts: str = ""
    """Distinct descriptions of base relations; builds of older versions have none."""

    @classmethod
    def of(
        cls, collection: Collection, embedder: Embedder, texts: Mapping[str, Sequence[tuple[str, str]]]
    ) -> Spaces:
        """By the embedder and what it embeds (ids and texts by kind): a space never holds what another build
        had, such as passages that were forgotten, and the same build again finds its own."""
        keys = {kind: content_id("", *chain.from_iterable(each)) for kind, each in texts.items()}
        prefix = f"c{collection.number}"
        return cls(**{kind: f"{prefix}-{kind}-{embedder.identity}-{key}" for kind, key in keys.items()})

    @classmethod
    def recorded(cls, generation: Generation) -> Spaces:
        return cls(**generation.settings["spaces"])

    def as_settings(self) -> dict[str, str]:
        return {kind: space for kind, space in asdict(self).items() if space}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one document: ``added``, ``replaced``, ``unchanged``, ``skipped`` or ``failed``."""

    id: str
    title: str
    status: str
    chunks: int = 0
    error: str = ""


# --- documents in --------------------------------------------------------------------------


def spread_folders(
    sources: Iterable[DocumentSource], allowed: Sequence[Path] | None
) -> tuple[list[DocumentSource], list[Outcome]]:
    """Each folder becomes its files; what cannot be read as documents becomes an outcome at once."""
    files: list[DocumentSource] = []
    outcomes: list[Outcome] = []
    for source in sources:
        if not source.path or source.text is not None:
            files.append(source)
            continue
        try:
            found = expand(source.path, allowed=allowed)
        except LeanRAGError as problem:
            outcomes.append(Outcome(source.id or source.path, source.title, "failed", error=str(problem)))
            continue
        single = len(found.files) == 1 and not Path(source.path).is_dir()
        files.extend(
            replace(
                source, path=str(path), id=source.id if single else "", title=source.title if single else ""
            )
            for path in found.files
        )
        outcomes.extend(Outcome(str(path), path.name, "skipped", error=why) for path, why in found.skipped)
        if not found.files and not found.skipped:
            why = f"The folder {source.path} holds no file to ingest."
            outcomes.append(Outcome(source.path, "", "failed", error=why))
    return files, outcomes


async def ingest_one(
    workshop: Workshop,
    collection: str,
    source: DocumentSource,
    allowed: Sequence[Path] | None,
    pulse: Callable[[str], None],
) -> Outcome:
    """Load, chunk, extract and store one document. Raises a ``LeanRAGError`` if it cannot be ingested.

    ``pulse`` hears now and then what is done with the document; what it raises ends the work.
    """
    settings = workshop.settings
    limit = settings.max_document_mb * 1024 * 1024
    document = await anyio.to_thread.run_sync(partial(load, source, allowed=allowed, max_bytes=limit))
    before = await workshop.graph.document(collection, document.id)
    if before is not None and before.digest == document.digest:
        return Outcome(document.id, document.title, "unchanged", before.chunks)
    chunks = await anyio.to_thread.run_sync(
        partial(
            chunk,
            document,
            tokenizer=workshop.tokenizer,
            max_tokens=settings.chunk_tokens,
            overlap=settings.chunk_overlap,
        )
    )
    if not chunks:
        raise DocumentUnreadable(f"The document {document.id!r} holds no text.", "Give one with text in it.")
    pulse(f"{document.title}: reading {len(chunks)} chunks")
    steps = count(1)

    def beat() -> None:
        # The heuristic extractor beats twice for each chunk.
        pulse(f"{document.title}: chunk {next(steps) // 2} of {len(chunks)}")

    extracts = await workshop.extractor(document, chunks, beat)
    await workshop.graph.put_document(collection, document, chunks, extracts)
    return Outcome(document.id, document.title, "added" if before is None else "replaced", len(chunks))


async def index_pending(workshop: Workshop, collection: str, report: ProgressReport) -> None:
    """Embed the chunks that came in since the published build, so that they are found by meaning too."""
    generation = await published(workshop.graph, collection)
    if generation is None:
        return
    pending = await workshop.graph.pending_chunks(collection)
    if pending:
        embedder = await restored(workshop, generation)
        rows = await windows_of(embedder, texts_of(pending), report)
        async with vectors_changing(workshop):
            await upsert(workshop, Spaces.recorded(generation).chunks, rows, report)


# --- a build out ---------------------------------------------------------------------------


async def build_generation(workshop: Workshop, collection: str, report: ProgressReport) -> Generation:
    """Merge all extracts into G0, build the layers, write their vectors, publish (design: publish).

    Raises ``NotReady`` if the collection holds no document.
    """
    held = await workshop.graph.collection(collection)
    if held is None or not held.documents:
        raise NotReady(f"Collection {collection!r} holds no document.", "Ingest documents first, then build.")
    settings = workshop.settings
    report(Progress("merge", 0, held.chunks))
    extracts = await workshop.graph.extracts(collection)
    base = await anyio.to_thread.run_sync(merge, extracts)
    chunks = await workshop.graph.all_chunks(collection)
    report(Progress("fit", 0, len(chunks)))
    embedder, state = await workshop.embedders.fit([each.indexed_text for each in chunks])
    built = await build(base, embedder, plan_of(settings), progress=report)
    hierarchy, layers = built.hierarchy, built.vectors
    texts = embedded_texts(chunks, hierarchy.layers)
    spaces = Spaces.of(held, embedder, texts)
    report(Progress("embed", 0, len(chunks)))
    rows = {
        spaces.chunks: await windows_of(embedder, texts["chunks"], report),
        spaces.facts: await rows_of(embedder, texts["facts"], report),
        **rows_of_layers(spaces, hierarchy, layers),
    }
    async with vectors_changing(workshop):
        for space, held_rows in rows.items():
            await write_whole(workshop, space, held_rows, report)
    report(Progress("publish"))
    generation = await workshop.graph.publish(
        collection,
        held.revision,
        hierarchy,
        embedder=embedder.identity,
        dimension=embedder.dimension,
        embedder_state=state,
        settings={
            "embedder": workshop.embedders.name,
            "spaces": spaces.as_settings(),
            "vectors": {kind: len(rows[space].ids) for kind, space in spaces.as_settings().items()},
            "cluster_size": built.health.cluster_size,
            "cluster_cap": built.health.cluster_cap,
            "health": built.health.as_settings(),
            "tau": settings.tau,
        },
    )
    await workshop.adjacencies.keep(generation, hierarchy.layers, chunks)
    await sweep(workshop, held)
    return generation


def plan_of(settings: Settings) -> Plan:
    """How the settings ask for hierarchies to be built."""
    return Plan(
        cluster_size=None if settings.cluster_size == "auto" else settings.cluster_size,
        cap=settings.cluster_cap or None,
        tau=settings.tau,
        manner=Manner(Clustering(settings.clustering), settings.relation_weight),
    )


async def rebuild_vectors(workshop: Workshop, collection: str, report: ProgressReport) -> Mapping[str, int]:
    """Write the vector store anew from the graph store; counts by kind. Raises ``NotReady`` before a build."""
    generation = await published(workshop.graph, collection)
    if generation is None:
        raise NotReady(
            f"Collection {collection!r} was never built.", "Build it; that writes its vectors.", "build"
        )
    embedder = await restored(workshop, generation)
    spaces = Spaces.recorded(generation)
    texts = await indexed_texts(workshop, generation, spaces)
    rows = {
        space: await (windows_of if space == spaces.chunks else rows_of)(embedder, held, report)
        for space, held in texts.items()
    }
    async with vectors_changing(workshop):
        try:
            for space in texts:
                await workshop.vectors.drop(space)
        except StoreUnusable:
            # The whole store is damaged. Other collections lose their vectors too, and their status says so.
            await workshop.vectors.start_over()
        for space, held_rows in rows.items():
            await upsert(workshop, space, held_rows, report)
    return {kind: len(rows[space].ids) for kind, space in spaces.as_settings().items() if space}


async def indexed_texts(
    workshop: Workshop, generation: Generation, spaces: Spaces
) -> dict[str, list[tuple[str, str]]]:
    """What each space of a generation holds: ids and the texts that are embedded."""
    number, kinds = generation.number, spaces.as_settings()
    layers = [
        Graph(
            tuple(await workshop.graph.layer(number, each.layer)),
            # Above layer 0 no relation is embedded.
            () if each.layer else tuple(await workshop.graph.relations(number, 0)),
        )
        for each in generation.layers
    ]
    texts = embedded_texts(await workshop.graph.all_chunks(generation.collection), layers)
    return {space: texts[kind] for kind, space in kinds.items()}


def embedded_texts(chunks: Sequence[Chunk], layers: Sequence[Graph]) -> dict[str, list[tuple[str, str]]]:
    """What a build embeds, as ids and texts by kind (see :class:`Spaces`)."""
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
async def vectors_changing(workshop: Workshop) -> AsyncIterator[None]:
    """Move the version counter before the first write and after the last, however the writing ends, so
    that no reader trusts what it has open."""
    await workshop.graph.bump_vector_version()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await workshop.graph.bump_vector_version()


async def published(graph: GraphStore, collection: str) -> Generation | None:
    held = await graph.collection(collection)
    return held.generation if held else None


async def restored(workshop: Workshop, generation: Generation) -> Embedder:
    """The embedder of a generation.

    Raises ``InvalidInput`` if another one is configured now, or the configured one cannot be used at all;
    ``ModelUnavailable`` if it cannot be reached; ``StoreUnusable`` if what was kept of it is damaged.
    """
    if await workshop.embedders.gave(generation.embedder):
        state = await workshop.graph.embedder_state(generation.number)
        embedder = await workshop.embedders.restore(generation.embedder, state)
        if (embedder.identity, embedder.dimension) == (generation.embedder, generation.dimension):
            return embedder
    raise other_embedder(workshop, generation)


async def embedder_trouble(workshop: Workshop, generation: Generation | None) -> list[str]:
    """Why search by meaning would fail now, as far as that shows without loading a model."""
    try:
        if generation is None or await workshop.embedders.gave(generation.embedder):
            return []
    except (InvalidInput, ModelUnavailable) as problem:
        return [str(problem)]
    return [str(other_embedder(workshop, generation))]


def other_embedder(workshop: Workshop, generation: Generation) -> InvalidInput:
    return InvalidInput(
        f"Collection {generation.collection!r} was embedded with {embedder_name(generation)!r} "
        f"({generation.embedder}, {generation.dimension} dimensions); the setting embedder now says "
        f"{workshop.embedders.name!r}. Vectors of two embedders cannot be compared.",
        "Set the embedder back, or build the collection: a build embeds everything with the new one.",
    )


def embedder_name(generation: Generation) -> str:
    """What the setting said when the generation was built."""
    return str(generation.settings.get("embedder") or generation.embedder.partition("-")[0])


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a vector space gets: ids, and an ``(n, d)`` array in the same order."""

    ids: Sequence[str]
    vectors: Vectors


async def rows_of(embedder: Embedder, texts: Sequence[tuple[str, str]], report: ProgressReport) -> Rows:
    """One row for each (id, text)."""
    vectors = await embedder.embed([text for _, text in texts], report)
    return Rows([id_ for id_, _ in texts], vectors)


async def windows_of(embedder: Embedder, texts: Sequence[tuple[str, str]], report: ProgressReport) -> Rows:
    """One row for each window of each (id, text): all that a long text says is found."""
    windows = await embedder.embed_windows([text for _, text in texts], report)
    seen: Counter[int] = Counter()
    ids = []
    for owner in windows.owners:
        ids.append(window_id(texts[owner][0], seen[owner]))
        seen[owner] += 1
    return Rows(ids, windows.vectors)


def rows_of_layers(spaces: Spaces, hierarchy: Hierarchy, layers: Sequence[Vectors]) -> dict[str, Rows]:
    """Layer 0 for one space, all layers above it for another."""
    base, *above = hierarchy.layers
    ids = [entity.id for layer in above for entity in layer.entities]
    return {
        spaces.entities: Rows([each.id for each in base.entities], layers[0]),
        spaces.aggregates: Rows(ids, np.concatenate(layers[1:])),
    }


async def write_whole(workshop: Workshop, space: str, rows: Rows, report: ProgressReport) -> None:
    """Write all rows of a space, and no other. What a killed writer left of it is dropped and written anew,
    as is a space of the same content that documents without a build were added to."""
    try:
        await upsert(workshop, space, rows, report)
        if await workshop.vectors.count(space) == len(rows.ids):
            return
    except StoreUnusable:
        logger.info("Vector space %s is written anew.", space)
    await workshop.vectors.drop(space)
    await upsert(workshop, space, rows, report)


async def upsert(workshop: Workshop, space: str, rows: Rows, report: ProgressReport) -> None:
    total = len(rows.ids)
    for start in range(0, total, BATCH):
        report(Progress("index", start, total))
        part = slice(start, start + BATCH)
        await workshop.vectors.upsert(space, rows.ids[part], rows.vectors[part])
    report(Progress("index", total, total))


async def sweep(workshop: Workshop, collection: Collection) -> None:
    """Drop the vector spaces of this collection that no kept generation refers to."""
    generations = await workshop.graph.generations(collection.name)
    await workshop.adjacencies.sweep(generations)
    kept: set[str] = set()
    for generation in generations:
        kept |= set(Spaces.recorded(generation).as_settings().values())
    try:
        for space in await workshop.vectors.spaces():
            if space.startswith(f"c{collection.number}-") and space not in kept:
                await workshop.vectors.drop(space)
    except StoreUnusable as problem:
        # The build is published: what is left over costs room, no answer. The next build sweeps again.
        logger.warning("Vector spaces of %s could not be swept: %s", collection.name, problem)
