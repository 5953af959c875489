"""Roll a collection back: publish the content of an earlier generation as a new one. Documents, extracts,
texts of agents and corrections stay: what came since is pending."""

from dataclasses import replace
from datetime import UTC, datetime

import anyio.to_thread

from leanrag_engine.core.history import Publication
from leanrag_engine.core.jobs import RollbackResult
from leanrag_engine.core.model import BuildRecord, Collection, Generation
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.hierarchy.changes.comparing import compare
from leanrag_engine.pipeline.history import find_restorable
from leanrag_engine.pipeline.index import Stores, read_hierarchy, restore_embedder

from .embedding_reuse import reuse_vectors
from .publishing import FinishedBuild, publish_build
from .windows import index_chunks


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
    finished = FinishedBuild(
        hierarchy=hierarchy,
        chunks=chunks,
        embedder=await reuse_vectors(stores, published or source, before or hierarchy, chunks, embedder),
        state=await stores.generations.embedder_state(source.number),
        revision=source.revision,
        record=record,
        publication=Publication(
            started,
            await anyio.to_thread.run_sync(compare, before, hierarchy),
            since=published.revision if published else -1,
        ),
        previous=before,
    )
    return await publish_build(stores, collection, finished, report)
