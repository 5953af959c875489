"""Publish finished layers: write their vectors, switch readers to them, then delete what nothing reads any more."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import anyio.to_thread

from leanrag_engine.core.errors import open_task_group
from leanrag_engine.core.graphs.graph import GenerationContent, Hierarchy, PublishedLayers
from leanrag_engine.core.graphs.stored import StoredPlaces
from leanrag_engine.core.history import Publication
from leanrag_engine.core.model import BuildRecord, Collection, EmbeddingCounts, Generation, Vectors
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.extraction.mentions import MentionIndex
from leanrag_engine.pipeline.history import drop_old_generations
from leanrag_engine.pipeline.index import Stores, texts_by_kind

from .embedding_reuse import ReusingEmbedder
from .vectors import settle_spaces, write_vectors
from .windows import IndexedChunks


@dataclass(frozen=True, slots=True, eq=False)
class FinishedBuild:
    """What is published: layers over ``chunks`` of the collection's ``revision``, the embedder and its state. ``record``
    lacks the vector spaces and rows; ``vectors`` are of kinds embedded already, ``mentions`` for the next update."""

    hierarchy: Hierarchy
    chunks: IndexedChunks
    embedder: ReusingEmbedder
    state: bytes
    revision: int
    record: BuildRecord
    publication: Publication
    previous: Hierarchy | None
    vectors: Mapping[str, Vectors] = field(default_factory=dict)
    mentions: MentionIndex | None = None


async def publish_build(
    stores: Stores, collection: Collection, build: FinishedBuild, report: ProgressReport
) -> Generation:
    """Write the vectors, then switch the collection to the new generation in one transaction."""
    embedder, layers = build.embedder, build.hierarchy.layers
    texts = await anyio.to_thread.run_sync(texts_by_kind, build.chunks.windows, layers)
    in_place = build.record.history.mode != "rebuild"
    written = await write_vectors(
        stores, collection, embedder, texts, build.vectors, report, in_place=in_place
    )
    report(Progress("publish"))
    last, layers_before = collection.generation, build.previous
    places: list[StoredPlaces] = []
    embedded = EmbeddingCounts(embedder.embedded, embedder.reused)
    record = replace(build.record, spaces=written.spaces, vectors=written.counts, embedded=embedded)
    generation = await stores.generations.publish(
        collection.name,
        build.revision,
        GenerationContent(build.hierarchy, embedder.identity, embedder.dimension, build.state, record),
        build.publication,
        previous=PublishedLayers(last.number, layers_before) if last and layers_before else None,
        report=report,
        note_places=places.append,
    )
    known = build.mentions.keys_by_name() if build.mentions else {}
    before = build.previous.layers if build.previous else ()
    kept = stores.adjacencies
    # Beside each other: writing files leaves the processor to the adjacency.
    async with open_task_group() as group:
        group.start_soon(kept.keep, generation, layers, build.chunks.heads, known, last, before)
        if build.vectors:
            group.start_soon(partial(kept.keep_arrays, "vectors"), generation, build.vectors)
        group.start_soon(partial(kept.keep_arrays, "windows"), generation, build.chunks.arrays())
        group.start_soon(kept.keep_columns, generation, layers, places[-1])
        if build.mentions is not None:
            group.start_soon(partial(kept.keep_arrays, "mentions"), generation, build.mentions.arrays())
    await settle_spaces(stores, written)
    await drop_old_generations(stores, collection)
    return generation
