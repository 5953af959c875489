"""Roll a collection back: publish the content of an earlier generation as a new one. Documents, extracts,
texts of agents and corrections stay: what came since is pending."""

from dataclasses import replace
from datetime import UTC, datetime

import anyio.to_thread

from leanrag_engine.core.history import Publication
from leanrag_engine.core.jobs import RollbackResult
from leanrag_engine.core.model import Collection, Generation
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
    """Publish the content of generation ``number`` over the present passages. Raises as ``find_restorable``
    and ``restore_embedder``."""
    generation = collection.generation
    if (
        generation is None or generation.record.history.restored != number
    ):  # it was not killed after its publication
        target = await find_restorable(stores, collection, number)
        generation = await _publish_again(stores, collection, target, report)
    held = await stores.documents.collection(collection.name)
    return RollbackResult(generation.number, number, generation.layers, held.pending_documents if held else 0)


async def _publish_again(
    stores: Stores, collection: Collection, target: Generation, report: ProgressReport
) -> Generation:
    started, published = datetime.now(UTC), collection.generation
    report(Progress("read"))
    embedder = await restore_embedder(stores, target)
    before = await read_hierarchy(stores, published) if published else None
    chunks = await index_chunks(stores, collection)
    reusing = await reuse_vectors(stores, published, before, chunks, embedder)
    hierarchy = await read_hierarchy(stores, target)
    changes = await anyio.to_thread.run_sync(compare, before, hierarchy)
    finished = FinishedBuild(
        hierarchy,
        chunks,
        reusing,
        await stores.generations.embedder_state(target.number),
        target.revision,
        replace(
            target.record,
            history=replace(
                target.record.history,
                mode="rollback",
                reason=f"generation {target.number} was asked for",
                restored=target.number,
            ),
        ),
        Publication(started, changes, since=published.revision if published else -1),
        before,
    )
    return await publish_build(stores, collection, finished, report)
