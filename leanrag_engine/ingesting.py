"""How documents get in: each is loaded, chunked, read heuristically, and stored in one transaction.

Everything here runs inside a job, under the writer lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread

from .errors import DocumentUnreadable, LeanRAGError
from .graph.chunking import chunk
from .graph.heuristics import extract
from .graph.loading import expand, load
from .indexing import Spaces, Workshop, published, restored, texts_of, upsert, vectors_changing, windows_of
from .model import Chunk, DocumentSource, Extract, LoadedDocument
from .ports import ProgressReport


async def extract_heuristically(
    document: LoadedDocument, chunks: Sequence[Chunk], pulse: Callable[[], None]
) -> list[Extract]:
    """The extractor that needs no model."""
    return await anyio.to_thread.run_sync(partial(extract, chunks, document.title, pulse=pulse))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one document: ``added``, ``replaced``, ``unchanged``, ``skipped`` or ``failed``."""

    id: str
    title: str
    status: str
    chunks: int = 0
    error: str = ""


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
