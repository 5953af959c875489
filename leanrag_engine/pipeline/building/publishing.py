"""Publish finished layers: write their vectors, switch readers to them, then delete what nothing reads any more. They are those of a
build, or of a generation once more: of an earlier one, then documents, extracts, texts of agents and corrections stay, and what came
since is pending; or of another collection, of which this one is a copy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

import anyio
import anyio.to_thread

from leanrag_engine.core.errors import open_task_group
from leanrag_engine.core.graphs.graph import GenerationContent, Hierarchy, PublishedLayers
from leanrag_engine.core.graphs.stored import StoredPlaces
from leanrag_engine.core.history import Publication
from leanrag_engine.core.jobs import CopyResult, RollbackResult
from leanrag_engine.core.model import (
    NO_CORRECTIONS,
    BuildRecord,
    Collection,
    EmbeddingCounts,
    Generation,
    Vectors,
)
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.extraction.mentions import MentionIndex
from leanrag_engine.hierarchy.changes.comparing import compare
from leanrag_engine.pipeline.history import drop_old_generations, find_restorable
from leanrag_engine.pipeline.index import Stores, read_hierarchy, restore_embedder, texts_by_kind

from .embedding_reuse import ReusingEmbedder, reuse_vectors
from .vectors import settle_spaces, write_vectors
from .windows import IndexedChunks, index_chunks


@dataclass(frozen=True, slots=True, eq=False)
class FittedChunks:
    """The chunks of a collection, the embedder of their build with its ``state``, the ``previous`` layers,
    and the share of words ``unknown`` to a kept fitted embedder."""

    chunks: IndexedChunks
    embedder: ReusingEmbedder
    state: bytes
    previous: Hierarchy | None
    unknown: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class FinishedBuild:
    """What is published: layers over chunks of the collection's ``revision``. ``record`` lacks the vector spaces and rows;
    ``vectors`` are of kinds embedded already, ``mentions`` for the next update."""

    hierarchy: Hierarchy
    fitted: FittedChunks
    revision: int
    record: BuildRecord
    publication: Publication
    vectors: Mapping[str, Vectors] = field(default_factory=dict)
    mentions: MentionIndex | None = None


async def publish_build(
    stores: Stores, collection: Collection, build: FinishedBuild, report: ProgressReport
) -> Generation:
    """Write the vectors, then switch the collection to the new generation in one transaction."""
    layers, chunks, embedder = build.hierarchy.layers, build.fitted.chunks, build.fitted.embedder
    texts = await anyio.to_thread.run_sync(texts_by_kind, chunks.windows, layers)
    in_place = build.record.history.mode != "rebuild"
    written = await write_vectors(
        stores, collection, embedder, texts, build.vectors, report, in_place=in_place
    )
    report(Progress("publish"))
    last, layers_before = collection.generation, build.fitted.previous
    places: list[StoredPlaces] = []
    embedded = EmbeddingCounts(embedder.embedded, embedder.reused)
    record = replace(build.record, spaces=written.spaces, vectors=written.counts, embedded=embedded)
    generation = await stores.generations.publish(
        collection.name,
        build.revision,
        GenerationContent(build.hierarchy, embedder.identity, embedder.dimension, build.fitted.state, record),
        build.publication,
        previous=PublishedLayers(last.number, layers_before) if last and layers_before else None,
        report=report,
        note_places=places.append,
    )
    known = build.mentions.keys_by_name() if build.mentions else {}
    before = layers_before.layers if layers_before else ()
    kept = stores.adjacencies
    # Beside each other: writing files leaves the processor to the adjacency.
    async with open_task_group() as group:
        group.start_soon(kept.keep, generation, layers, chunks.heads, known, last, before)
        if build.vectors:
            group.start_soon(partial(kept.keep_arrays, "vectors"), generation, build.vectors)
        group.start_soon(partial(kept.keep_arrays, "windows"), generation, chunks.arrays())
        group.start_soon(kept.keep_columns, generation, layers, places[-1])
        if build.mentions is not None:
            group.start_soon(partial(kept.keep_arrays, "mentions"), generation, build.mentions.arrays())
    await settle_spaces(stores, written)
    await drop_old_generations(stores, collection)
    return generation


async def roll_back(
    stores: Stores, collection: Collection, number: int, report: ProgressReport
) -> RollbackResult:
    """Publish the content of generation ``number`` over the present passages. Raises as ``find_restorable`` and ``restore_embedder``."""
    generation = collection.generation
    if generation is None or generation.record.history.restored != number:  # not killed after its publication
        target = await find_restorable(stores, collection, number)
        reason = f"generation {number} was asked for"
        history = replace(target.record.history, mode="rollback", reason=reason, restored=number)
        record = replace(target.record, history=history)
        generation = await publish_again(stores, collection, target, record, report)
    held = await stores.documents.collection(collection.name)
    return RollbackResult(generation.number, number, generation.layers, held.pending_documents if held else 0)


async def copy_collection(
    stores: Stores, source: Collection, target: str, report: ProgressReport, *, resumed: bool
) -> CopyResult:
    """Copy the documents and the published build of a collection; ``resumed``: what was copied is kept.
    Raises ``InvalidInput`` if another one is called ``target``, and as ``restore_embedder``."""
    report(Progress("copy", 0, source.documents))
    held = await stores.documents.collection(target)
    if held is None or not (resumed and held.revision == source.revision):
        held = await stores.documents.copy_collection(source.name, target)
    if source.generation and not held.generation:
        published = source.generation
        reason = f"it was copied from collection {source.name}"
        history = replace(published.record.history, mode="copy", reason=reason, restored=0)
        # Corrections are copied too, under refs of their own.
        record = replace(published.record, history=history, corrections=NO_CORRECTIONS)
        await publish_again(stores, held, published, record, report)
    return CopyResult(target, held.documents, held.chunks, source.generation is not None)


async def publish_again(
    stores: Stores, collection: Collection, source: Generation, record: BuildRecord, report: ProgressReport
) -> Generation:
    """Publish the content of a generation, with another ``record``, over the present passages of a collection: its own, or
    the first of a copy."""
    started, published = datetime.now(UTC), collection.generation
    report(Progress("read"))
    embedder = await restore_embedder(stores, source)
    hierarchy = await read_hierarchy(stores, source)
    before = await read_hierarchy(stores, published) if published else None
    chunks = await index_chunks(stores, collection)
    if published is None:
        chunks = replace(chunks, pending=await stores.documents.pending_chunks(source.collection))
    reusing = await reuse_vectors(stores, published or source, before or hierarchy, chunks, embedder)
    state = await stores.generations.embedder_state(source.number)
    finished = FinishedBuild(
        hierarchy=hierarchy,
        fitted=FittedChunks(chunks, reusing, state, before),
        revision=source.revision,
        record=record,
        publication=Publication(
            started,
            await anyio.to_thread.run_sync(compare, before, hierarchy),
            since=published.revision if published else -1,
        ),
    )
    return await publish_build(stores, collection, finished, report)
