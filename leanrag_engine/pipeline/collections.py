"""Copy a collection into a new one, and delete one with everything in it. Both run inside a job, under the writer lock."""

from dataclasses import replace

from leanrag_engine.core.jobs import CopyResult, DeleteResult, Job
from leanrag_engine.core.model import NO_CORRECTIONS, Collection
from leanrag_engine.core.ports import Progress, ProgressReport

from .building.publishing import publish_again
from .index import Stores, announce_vector_change, start_over_if_damaged


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


async def delete_collection(stores: Stores, name: str, job: Job, report: ProgressReport) -> DeleteResult:
    """Delete a collection with all that belongs to it but ``job``; the database last, so that a resumed job repeats the work."""
    held = await stores.documents.collection(name)
    # The process was killed after the transaction; another collection may have the name since.
    if held is None or held.created_at > job.created_at:
        return DeleteResult()
    report(Progress("delete", 0, held.documents))
    async with announce_vector_change(stores), start_over_if_damaged(stores):
        for space in await stores.vectors.spaces():
            if space.startswith(f"c{held.number}-"):
                await stores.vectors.drop(space)
    await stores.adjacencies.sweep(name, ())
    await stores.documents.delete_collection(name, job.id)
    return DeleteResult(held.documents, held.chunks)
