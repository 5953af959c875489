"""Delete documents, and everything that only they support, or a whole collection, within a job. Vectors go first, then the database in one
transaction: a resumed job finds the documents again. Heuristic summaries that used them are hidden until the next build."""

import logging
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import anyio.to_thread
import numpy as np

from leanrag_engine.core.errors import (
    Candidate,
    InvalidInput,
    LeanRAGError,
    ModelUnavailable,
    StoreUnreachable,
    StoreUnusable,
)
from leanrag_engine.core.graphs.graph import GenerationContent, Hierarchy, PublishedLayers
from leanrag_engine.core.graphs.rows import decode_ids
from leanrag_engine.core.graphs.texts import EmbeddedTexts
from leanrag_engine.core.grouping import group
from leanrag_engine.core.history import GraphChanges, Publication
from leanrag_engine.core.jobs import DeleteResult, IngestRequest, Job
from leanrag_engine.core.model import BuildRecord, Chunk, Document, DocumentSource, Generation
from leanrag_engine.core.ports import Embedder, Progress, ProgressReport, ignore_progress
from leanrag_engine.core.text.citation import format_document, parse_citation
from leanrag_engine.core.text.shortening import count_things
from leanrag_engine.documents.loading import expand, identify, load, printable_path
from leanrag_engine.hierarchy.changes.comparing import compare, count_stale
from leanrag_engine.hierarchy.changes.removal import RemainingChunks, remove_chunks
from leanrag_engine.retrieval.filters import nearest_documents

from .building.embedding_reuse import ReusingEmbedder
from .index import (
    Stores,
    announce_vector_change,
    drop_unused_spaces,
    embed_rows,
    read_hierarchy,
    start_over_if_damaged,
    texts_by_kind,
    texts_of_windows,
    upsert,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemainingBuild:
    """A published build, what remains of it, and the embedder of the remainder."""

    before: Generation
    old: Hierarchy
    hierarchy: Hierarchy | None
    embedder: Embedder | None
    """``None`` if it is unavailable now: changed texts are then found by keywords only."""
    identity: str
    state: bytes


@dataclass(frozen=True, slots=True)
class DocumentLookup:
    """The documents that given ids name, and the nearest documents for each unknown id."""

    documents: tuple[tuple[str, Document], ...]
    unknown: tuple[tuple[str, tuple[Candidate, ...]], ...]


def look_up_documents(documents: Sequence[Document], ids: Sequence[str]) -> DocumentLookup:
    """Look up documents by id or number (``d3``), not by title: two documents may share a title."""
    known = {format_document(each.number): each for each in documents} | {each.id: each for each in documents}
    given = list(dict.fromkeys(ids))
    return DocumentLookup(
        tuple((id_, known[id_]) for id_ in given if id_ in known),
        tuple((id_, _suggest(id_, documents)) for id_ in given if id_ not in known),
    )


def _suggest(given: str, documents: Sequence[Document]) -> tuple[Candidate, ...]:
    nearest = nearest_documents(given, documents, 3)
    return tuple(Candidate(each.id, each.title, format_document(each.number)) for each in nearest)


async def delete_documents(
    stores: Stores,
    collection: str,
    document_ids: Sequence[str],
    report: ProgressReport,
    asked: datetime | None = None,
) -> DeleteResult:
    """Delete those of the documents that the collection holds, and their texts in requests from before the deletion was
    ``asked`` for that have not ended; return how many documents and chunks were deleted. Raises ``StoreUnusable`` if the database cannot be used, ``StoreUnreachable`` if the server of
    the vectors cannot be reached, before any document is deleted; an unusable vector space is dropped."""
    started = datetime.now(UTC)
    held = await stores.documents.collection(collection)
    documents = await stores.documents.find_all(collection) if held else []
    wanted = {each.id for each in documents} & set(document_ids)
    if held is None or not wanted:
        if held is not None:
            # A run that was killed may have left the spaces of older generations.
            await drop_unused_spaces(stores, held)
        return DeleteResult()
    report(Progress("read", 0, len(wanted)))
    chunks = await stores.documents.all_chunks(collection)
    gone = [each for each in chunks if each.document_id in wanted]
    kept = [each for each in chunks if each.document_id not in wanted]
    remains = None
    if held.generation:
        built = held.generation.revision
        replaced = any(each.added <= built < each.revision for each in documents if each.id in wanted)
        remains = await _compute_remaining(stores, held.generation, gone, kept, replaced=replaced)
    report(Progress("delete", 0, len(wanted)))
    record = await _update_vectors(stores, remains, gone, kept) if remains else BuildRecord()
    history = replace(
        record.history,
        mode="deletion",
        reason=f"{count_things(len(wanted), 'document was', 'documents were')} deleted",
        restored=0,
    )
    content, changes, previous = None, GraphChanges(), None
    if remains and remains.hierarchy:
        sizes = [len(each.layers[0].entities) for each in (remains.old, remains.hierarchy)]
        history = replace(history, moved=history.moved + sizes[0] - sizes[1])
        content = GenerationContent(
            remains.hierarchy,
            remains.identity,
            remains.before.dimension,
            remains.state,
            replace(record, history=history),
        )
        changes = compare(remains.old, remains.hierarchy)
        # Without the embedder its state goes, which rows that are shared would keep.
        previous = PublishedLayers(remains.before.number, remains.old) if remains.embedder else None
    since = remains.before.revision if remains else -1
    publication = Publication(started, changes, since=since, removed=len(wanted))
    left = await _withdraw(stores, collection, wanted, asked) if asked else {}
    generation = await stores.documents.delete(
        collection, sorted(wanted), content, publication, left, previous
    )
    if remains and remains.hierarchy and generation:
        await stores.adjacencies.keep(generation, remains.hierarchy.layers, kept)
    await drop_unused_spaces(stores, held)
    return DeleteResult(len(wanted), len(gone))


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


async def _withdraw(
    stores: Stores, collection: str, wanted: Collection[str], asked: datetime
) -> dict[str, IngestRequest]:
    """Return what is left of the requests that name deleted documents, or a folder with their files, by job. A sync stays
    as it is: the next one would add a file that is still there too."""
    left = {}
    for job in await stores.jobs.find_unfinished():
        if job.collection == collection and job.created_at < asked and isinstance(job.request, IngestRequest):
            kept, notes = await anyio.to_thread.run_sync(
                _keep_others, job.request, wanted, stores.settings.data_dir
            )
            if kept != job.request.documents:
                left[job.id] = replace(job.request, documents=kept)
            if notes and (held := await stores.documents.collection(collection)):
                await stores.documents.put_notes(collection, {**held.notes, **notes})
    return left


def _keep_others(
    request: IngestRequest, wanted: Collection[str], data_dir: Path
) -> tuple[tuple[DocumentSource, ...], dict[str, str]]:
    """Return the documents of a request that are not ``wanted``, a folder with such files replaced by its other ones, and
    the notes of such folders."""
    kept: list[DocumentSource] = []
    notes: dict[str, str] = {}
    allowed = None if request.allowed is None else [Path(each) for each in request.allowed]
    for source in request.documents:
        id_ = _id_of(source)
        if id_ in wanted:
            continue
        inside = source.text is None and any(each.startswith(f"{id_}{os.sep}") for each in wanted)
        if not inside or request.sync:
            kept.append(source)
            continue
        with suppress(LeanRAGError):  # a folder that is gone has no other files
            found = expand(source.path, allowed=allowed, data_dir=data_dir)
            notes |= found.notes
            others = (each for each in found.files if printable_path(each) not in wanted)
            kept += (replace(source, path=str(each), id="", title="") for each in others)
    return tuple(kept), notes


def _id_of(source: DocumentSource) -> str:
    """Return the id that a document of a request will have, or nothing if it cannot be read."""
    with suppress(LeanRAGError):
        if source.text is None:
            return identify(source, allowed=None)[0]
        return source.id.strip() or load(source, allowed=(), max_bytes=sys.maxsize).id
    return ""


async def _compute_remaining(
    stores: Stores, generation: Generation, gone: Sequence[Chunk], kept: Sequence[Chunk], *, replaced: bool
) -> RemainingBuild:
    """Return what remains of a build; ``replaced``: it was built from other versions of the deleted documents."""
    old = await read_hierarchy(stores, generation)
    left = {each.id: each for each in kept}
    cut = [each.chunk_ids for each in old.layers[0].entities if not left.keys() >= {*each.chunk_ids}]
    cited = (parse_citation(left[id_].citation) for id_ in {*chain.from_iterable(cut)} if id_ in left)
    read = await stores.documents.extracts_at(generation.collection, list(filter(None, cited)))
    said = group((each.chunk_id, each) for _, each in read)
    living = RemainingChunks(left, said, {each.id: each for each in gone}, has_unknown_texts=replaced)
    hierarchy = await anyio.to_thread.run_sync(remove_chunks, old, living) if old.layers[0].entities else None
    return RemainingBuild(generation, old, hierarchy, *await _remaining_embedder(stores, generation, kept))


async def _remaining_embedder(
    stores: Stores, generation: Generation, kept: Sequence[Chunk]
) -> tuple[Embedder | None, str, bytes]:
    """Return the embedder with only the words of the chunks ``kept``, its identity and state, which is deleted if that is unavailable."""
    try:
        if await stores.embedders.gave(generation.embedder):
            state = await stores.generations.embedder_state(generation.number)
            texts = [text for _, text in texts_of_windows(kept)]
            identity, state = await stores.embedders.restrict(generation.embedder, state, texts)
            return await stores.embedders.restore(identity, state), identity, state
    except (InvalidInput, ModelUnavailable, StoreUnusable) as problem:
        logger.warning("The deletion goes on without the embedder: %s", problem)
    return None, generation.embedder, b""


async def _update_vectors(
    stores: Stores, remains: RemainingBuild, gone: Sequence[Chunk], kept: Sequence[Chunk]
) -> BuildRecord:
    """Delete the vectors of deleted texts, write those of changed ones; return the record of the remainder."""
    spaces = remains.before.record.spaces.by_kind()
    before = texts_by_kind(EmbeddedTexts.of_pairs(texts_of_windows([*gone, *kept])), remains.old.layers)
    left = EmbeddedTexts.of_pairs(texts_of_windows(kept))
    after = texts_by_kind(left, remains.hierarchy.layers) if remains.hierarchy else {}
    counts = {}
    nothing = EmbeddedTexts.of_pairs(())
    embedder = ReusingEmbedder(remains.embedder, stores.vectors, left) if remains.embedder else None
    async with announce_vector_change(stores):
        for kind, space in spaces.items():
            try:
                await _update_space(stores, space, before[kind], after.get(kind, nothing), embedder)
                counts[kind] = await stores.vectors.count(space)
            except StoreUnreachable:
                raise
            except StoreUnusable as problem:
                logger.warning("The vector space %s is dropped: %s", space, problem)
                async with start_over_if_damaged(stores):
                    await stores.vectors.drop(space)
    # A space that was dropped counts as it was: status then says that the index is incomplete.
    record = remains.before.record
    stale = count_stale(remains.hierarchy) if remains.hierarchy else 0
    anew, reused = (embedder.embedded, embedder.reused) if embedder else (0, 0)
    embedded = replace(record.embedded, anew=anew, reused=reused)
    return replace(record, vectors={**record.vectors, **counts}, embedded=embedded, stale=stale)


async def _update_space(
    stores: Stores, space: str, before: EmbeddedTexts, after: EmbeddedTexts, embedder: Embedder | None
) -> None:
    old, left = (
        dict(zip(decode_ids(each.ids), each.digests.tolist(), strict=True)) for each in (before, after)
    )
    doubtful = await stores.generations.find_unsettled(space)
    stale = [id_ for id_, digest in old.items() if left.get(id_) != digest]
    changed = [
        place for place, (id_, digest) in enumerate(left.items()) if id_ in doubtful or old.get(id_) != digest
    ]
    reworded = after.choose(np.array(changed, dtype=np.intp)).pairs()
    await stores.vectors.delete(space, [*stale, *doubtful.difference(stale)])
    if embedder is None or not reworded:
        return
    try:
        # Work is not interrupted between the first deleted vector and the transaction of the database.
        rows = await embed_rows(embedder, reworded, ignore_progress)
    except (InvalidInput, ModelUnavailable) as problem:
        logger.warning("What was reworded is found by its words alone until the next build: %s", problem)
        return
    await upsert(stores, space, rows, ignore_progress)
    await stores.generations.settle(space)
