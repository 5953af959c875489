"""Ingest documents: load, chunk and extract each one, and store it in one transaction.

All of this runs inside a job, under the writer lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread

from leanrag_engine.core.errors import (
    Cancelled,
    DocumentUnreadable,
    InvalidInput,
    LeanRAGError,
    ModelUnavailable,
    StoreUnusable,
)
from leanrag_engine.core.jobs import IngestOutcome, IngestRequest
from leanrag_engine.core.model import Chunk, DocumentSource, Extract, LoadedDocument
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import expand, load
from leanrag_engine.extraction.heuristic.extract import extract

from .index import (
    Stores,
    announce_vector_change,
    embed_rows,
    find_published,
    restore_embedder,
    texts_of_windows,
    upsert,
)
from .jobs import JobProgress


async def extract_heuristically(
    document: LoadedDocument, chunks: Sequence[Chunk], pulse: Callable[[], None]
) -> list[Extract]:
    """Return one extract per chunk, made without a model."""
    return await anyio.to_thread.run_sync(partial(extract, chunks, document.title, pulse=pulse))


async def ingest_all(stores: Stores, collection: str, request: IngestRequest, progress: JobProgress) -> bool:
    """Ingest the documents of a request; return whether any was added or replaced.

    Raises ``LeanRAGError`` if every document failed.
    """
    folders = None if request.allowed is None else [Path(folder) for folder in request.allowed]
    sources, outcomes = expand_folders(request.documents, folders)
    statuses = [record_outcome(outcome, progress) for outcome in outcomes]
    for done, source in enumerate(sources):
        progress.report(Progress("ingest", done, len(sources), source.title or Path(source.path).name))
        outcome = await ingest_or_fail(stores, collection, source, folders, progress)
        statuses.append(record_outcome(outcome, progress))
    progress.report(Progress("ingest", len(sources), len(sources)))
    if "failed" in statuses and not {"added", "replaced", "unchanged"} & set(statuses):
        raise LeanRAGError("No document could be ingested.", "Each one's error says why.")
    changed = bool({"added", "replaced"} & set(statuses))
    if changed and not request.build:
        try:
            await index_pending(stores, collection, progress.report)
        except (StoreUnusable, ModelUnavailable, InvalidInput) as problem:
            progress.fail("vector index", str(problem))
    return changed


def record_outcome(outcome: IngestOutcome, progress: JobProgress) -> str:
    """Record what became of a document and return its status."""
    progress.record(outcome)
    if outcome.status == "failed":
        progress.fail(outcome.id, outcome.error)
    return outcome.status


def absolute_source(source: DocumentSource, *, anywhere: bool) -> DocumentSource:
    """Return a source as a job stores it.

    A path that may lie anywhere is made absolute, as the job may be resumed from another working directory; others may
    be relative to an allowed folder.
    """
    path = str(Path(source.path).expanduser().absolute()) if anywhere and source.path else source.path
    # A name that is not valid Unicode cannot be stored; written out, it fails alone, as a missing file.
    return replace(source, path=path.encode("utf-8", "backslashreplace").decode())


async def ingest_or_fail(
    stores: Stores,
    collection: str,
    source: DocumentSource,
    allowed: Sequence[Path] | None,
    progress: JobProgress,
) -> IngestOutcome:
    """Ingest one document. An error becomes its outcome, except ``StoreUnusable`` and ``Cancelled``."""
    try:
        return await ingest_one(stores, collection, source, allowed, progress.say)
    except (StoreUnusable, Cancelled):
        raise
    except LeanRAGError as problem:
        name = source.id or source.path or source.title
        return IngestOutcome(name, source.title, "failed", error=str(problem))


def expand_folders(
    sources: Iterable[DocumentSource], allowed: Sequence[Path] | None
) -> tuple[list[DocumentSource], list[IngestOutcome]]:
    """Replace each folder by its files; paths that hold no document become outcomes."""
    files: list[DocumentSource] = []
    outcomes: list[IngestOutcome] = []
    for source in sources:
        if not source.path or source.text is not None:
            files.append(source)
            continue
        try:
            found = expand(source.path, allowed=allowed)
        except LeanRAGError as problem:
            outcomes.append(
                IngestOutcome(source.id or source.path, source.title, "failed", error=str(problem))
            )
            continue
        single = len(found.files) == 1 and not Path(source.path).is_dir()
        files.extend(
            replace(
                source, path=str(path), id=source.id if single else "", title=source.title if single else ""
            )
            for path in found.files
        )
        outcomes.extend(
            IngestOutcome(str(path), path.name, "skipped", error=why) for path, why in found.skipped
        )
        if not found.files and not found.skipped:
            why = f"The folder {source.path} holds no file to ingest."
            outcomes.append(IngestOutcome(source.path, "", "failed", error=why))
    return files, outcomes


async def ingest_one(
    stores: Stores,
    collection: str,
    source: DocumentSource,
    allowed: Sequence[Path] | None,
    pulse: Callable[[str], None],
) -> IngestOutcome:
    """Load, chunk, extract and store one document. Raises a ``LeanRAGError`` if it cannot be ingested.

    ``pulse`` is called now and then with a message; an exception from it ends the work.
    """
    settings = stores.settings
    limit = settings.max_document_mb * 1024 * 1024
    document = await anyio.to_thread.run_sync(partial(load, source, allowed=allowed, max_bytes=limit))
    before = await stores.documents.find(collection, document.id)
    if before is not None and before.digest == document.digest:
        return IngestOutcome(document.id, document.title, "unchanged", before.chunks)
    chunks = await anyio.to_thread.run_sync(
        partial(
            chunk,
            document,
            tokenizer=stores.tokenizer,
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

    extracts = await stores.extractor(document, chunks, beat)
    held = frozenset(await stores.documents.chunk_ids(collection, [document.id]))
    await stores.documents.put(collection, document, chunks, extracts)
    return IngestOutcome(
        document.id,
        document.title,
        "added" if before is None else "replaced",
        len(chunks),
        kept=sum(each.id in held for each in chunks),
    )


async def index_pending(stores: Stores, collection: str, report: ProgressReport) -> None:
    """Embed the chunks ingested since the published build, so that search by meaning finds them."""
    generation = await find_published(stores.documents, collection)
    if generation is None:
        return
    pending = await stores.documents.pending_chunks(collection)
    if pending:
        embedder = await restore_embedder(stores, generation)
        rows = await embed_rows(embedder, texts_of_windows(pending), report)
        async with announce_vector_change(stores):
            await upsert(stores, generation.record.spaces.windows, rows, report)
