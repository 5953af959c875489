"""The writing half of the engine: how documents get in, how a build gets out, how vectors are rebuilt.

Every function here runs inside a job, under the writer lock. The order of writes is what makes a
crash harmless: a document is one transaction; vectors are written before the generation that
needs them is published; what nothing refers to any more is dropped last.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np

from .config import Settings
from .errors import DocumentUnreadable, InvalidInput, LeanRAGError, NotReady, StoreUnusable
from .graph.chunking import chunk
from .graph.heuristics import extract
from .graph.loading import expand, load
from .graph.merging import merge
from .hierarchy.building import build
from .model import Collection, DocumentSource, Generation, Hierarchy, Vectors, content_id
from .ports import Embedder, EmbedderSource, GraphStore, Progress, ProgressReport, Tokenizer, VectorStore

logger = logging.getLogger(__name__)

BATCH = 1000
"""Rows handed to the vector store between two looks at whether the work should stop."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """The tools of the writing half."""

    settings: Settings
    graph: GraphStore
    vectors: VectorStore
    embedders: EmbedderSource
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class Spaces:
    """The names of a generation's vector spaces: one each for chunks, layer-0 entities and aggregates."""

    chunks: str
    entities: str
    aggregates: str

    @classmethod
    def of(cls, collection: Collection, embedder: Embedder, hierarchy: Hierarchy) -> Spaces:
        """Chunks and entities belong to an embedder, aggregates to one build: other members, other ids."""
        key = content_id("", *(entity.id for layer in hierarchy.layers[1:] for entity in layer.entities))
        prefix = f"c{collection.number}"
        return cls(
            chunks=f"{prefix}-chunks-{embedder.identity}",
            entities=f"{prefix}-entities-{embedder.identity}",
            aggregates=f"{prefix}-aggregates-{embedder.identity}-{key}",
        )

    @classmethod
    def recorded(cls, generation: Generation) -> Spaces:
        return cls(**generation.settings["spaces"])

    def as_settings(self) -> dict[str, str]:
        return asdict(self)


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
        # The extractor beats twice for each chunk.
        pulse(f"{document.title}: chunk {next(steps) // 2} of {len(chunks)}")

    extracts = await anyio.to_thread.run_sync(partial(extract, chunks, document.title, pulse=beat))
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
        ids = [each.id for each in pending]
        vectors = await embedder.embed([each.indexed_text for each in pending])
        async with vectors_changing(workshop):
            await upsert(workshop, Spaces.recorded(generation).chunks, ids, vectors, report)


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
    hierarchy, layers = await build(
        base,
        embedder,
        cluster_size=settings.cluster_size,
        cap=settings.cluster_cap,
        tau=settings.tau,
        progress=report,
    )
    spaces = Spaces.of(held, embedder, hierarchy)
    report(Progress("embed", 0, len(chunks)))
    chunk_vectors = await embedder.embed([each.indexed_text for each in chunks])
    async with vectors_changing(workshop):
        await write_whole(workshop, spaces.chunks, [each.id for each in chunks], chunk_vectors, report)
        await write_layers(workshop, spaces, hierarchy, layers, report)
    report(Progress("publish"))
    generation = await workshop.graph.publish(
        collection,
        held.revision,
        hierarchy,
        embedder=embedder.identity,
        dimension=embedder.dimension,
        embedder_state=state,
        settings={
            "spaces": spaces.as_settings(),
            "cluster_size": settings.cluster_size,
            "cluster_cap": settings.cluster_cap,
            "tau": settings.tau,
        },
    )
    await sweep(workshop, held)
    return generation


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
    vectors = {space: await embedder.embed([text for _, text in rows]) for space, rows in texts.items()}
    async with vectors_changing(workshop):
        try:
            for space in texts:
                await workshop.vectors.drop(space)
        except StoreUnusable:
            # The whole store is damaged. Other collections lose their vectors too, and their status says so.
            await workshop.vectors.start_over()
        for space, rows in texts.items():
            await upsert(workshop, space, [id_ for id_, _ in rows], vectors[space], report)
    return {kind: len(texts[space]) for kind, space in spaces.as_settings().items()}


async def indexed_texts(
    workshop: Workshop, generation: Generation, spaces: Spaces
) -> dict[str, list[tuple[str, str]]]:
    """What each space of a generation holds: ids and the texts that are embedded."""
    chunks = await workshop.graph.all_chunks(generation.collection)
    texts: dict[str, list[tuple[str, str]]] = {
        spaces.chunks: [(each.id, each.indexed_text) for each in chunks],
        spaces.entities: [],
        spaces.aggregates: [],
    }
    for layer in generation.layers:
        space = spaces.entities if layer.layer == 0 else spaces.aggregates
        nodes = await workshop.graph.layer(generation.number, layer.layer)
        texts[space] += [(node.id, node.indexed_text) for node in nodes]
    return texts


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
    """The embedder of a generation. Raises ``InvalidInput`` if another one is configured now."""
    if not generation.embedder.startswith(workshop.embedders.name):
        raise InvalidInput(
            f"Collection {generation.collection!r} was embedded with {generation.embedder!r}, "
            f"the setting now says {workshop.embedders.name!r}.",
            "Set the embedder back, or build the collection anew.",
        )
    state = await workshop.graph.embedder_state(generation.number)
    return await workshop.embedders.restore(generation.embedder, state)


async def write_layers(
    workshop: Workshop,
    spaces: Spaces,
    hierarchy: Hierarchy,
    layers: Sequence[Vectors],
    report: ProgressReport,
) -> None:
    """Layer 0 into one space, all layers above it into another."""
    base, *above = hierarchy.layers
    await write_whole(workshop, spaces.entities, [each.id for each in base.entities], layers[0], report)
    ids = [entity.id for layer in above for entity in layer.entities]
    await write_whole(workshop, spaces.aggregates, ids, np.concatenate(layers[1:]), report)


async def write_whole(
    workshop: Workshop, space: str, ids: Sequence[str], vectors: Vectors, report: ProgressReport
) -> None:
    """Write all rows of a space. What a killed writer left of it is dropped and written anew."""
    try:
        await upsert(workshop, space, ids, vectors, report)
    except StoreUnusable:
        await workshop.vectors.drop(space)
        await upsert(workshop, space, ids, vectors, report)


async def upsert(
    workshop: Workshop, space: str, ids: Sequence[str], vectors: Vectors, report: ProgressReport
) -> None:
    for start in range(0, len(ids), BATCH):
        report(Progress("index", start, len(ids)))
        await workshop.vectors.upsert(space, ids[start : start + BATCH], vectors[start : start + BATCH])
    report(Progress("index", len(ids), len(ids)))


async def sweep(workshop: Workshop, collection: Collection) -> None:
    """Drop the vector spaces of this collection that no kept generation refers to."""
    kept: set[str] = set()
    for generation in await workshop.graph.generations(collection.name):
        kept |= set(Spaces.recorded(generation).as_settings().values())
    try:
        for space in await workshop.vectors.spaces():
            if space.startswith(f"c{collection.number}-") and space not in kept:
                await workshop.vectors.drop(space)
    except StoreUnusable as problem:
        # The build is published: what is left over costs room, no answer. The next build sweeps again.
        logger.warning("Vector spaces of %s could not be swept: %s", collection.name, problem)
