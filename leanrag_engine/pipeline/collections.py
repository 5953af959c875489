"""Copy a collection into a new one, and delete one with everything in it. Both run inside a job, under the writer lock."""

import logging
from dataclasses import replace
from datetime import UTC, datetime

import anyio.to_thread

from leanrag_engine.core.errors import StoreUnreachable, StoreUnusable
from leanrag_engine.core.history import Publication
from leanrag_engine.core.jobs import CopyResult, DeleteResult
from leanrag_engine.core.model import NO_CORRECTIONS, Collection, Generation
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.hierarchy.changes.comparing import compare

from .building.embedding_reuse import reuse_vectors
from .building.publishing import FinishedBuild, publish_build
from .building.windows import index_chunks
from .index import Stores, announce_vector_change, read_hierarchy, restore_embedder

logger = logging.getLogger(__name__)


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
        await _publish_copy(stores, source.generation, held, report)
    return CopyResult(target, held.documents, held.chunks, source.generation is not None)


async def _publish_copy(
    stores: Stores, published: Generation, target: Collection, report: ProgressReport
) -> None:
    started = datetime.now(UTC)
    report(Progress("read"))
    embedder = await restore_embedder(stores, published)
    hierarchy = await read_hierarchy(stores, published)
    changes = await anyio.to_thread.run_sync(compare, None, hierarchy)
    reason = f"it was copied from collection {published.collection}"
    pending = await stores.documents.pending_chunks(published.collection)
    chunks = replace(await index_chunks(stores, target), pending=pending)
    finished = FinishedBuild(
        hierarchy,
        chunks,
        await reuse_vectors(stores, published, hierarchy, chunks, embedder),
        await stores.generations.embedder_state(published.number),
        published.revision,
        replace(
            published.record,
            history=replace(published.record.history, mode="copy", reason=reason, restored=0),
            # They are copied too, under refs of their own.
            corrections=NO_CORRECTIONS,
        ),
        Publication(started, changes),
        previous=None,
    )
    await publish_build(stores, target, finished, report)


async def delete_collection(stores: Stores, name: str, job: str, report: ProgressReport) -> DeleteResult:
    """Delete a collection with all that belongs to it but ``job``; the database last, so that a resumed job
    repeats the work."""
    held = await stores.documents.collection(name)
    if held is None:  # the process was killed after the transaction
        return DeleteResult()
    report(Progress("delete", 0, held.documents))
    async with announce_vector_change(stores):
        await _drop_spaces(stores, held)
    await stores.adjacencies.sweep(name, ())
    await stores.documents.delete_collection(name, job)
    return DeleteResult(held.documents, held.chunks)


async def _drop_spaces(stores: Stores, collection: Collection) -> None:
    try:
        for space in await stores.vectors.spaces():
            if space.startswith(f"c{collection.number}-"):
                await stores.vectors.drop(space)
    except StoreUnreachable:
        raise
    except StoreUnusable as problem:
        logger.warning("The vector store is put aside: %s", problem)
        await stores.vectors.start_over()
