"""Ingest documents within a job: find the files that changed, read each one, and store it in one transaction."""

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from leanrag_engine.adapters.wiring import choose_workers, open_processes
from leanrag_engine.core.errors import (
    Cancelled,
    DocumentUnreadable,
    LeanRAGError,
    StoreUnusable,
    open_task_group,
)
from leanrag_engine.core.jobs import IngestOutcome, IngestRequest, LeftOut
from leanrag_engine.core.model import Chunk, Document, DocumentSource, Extract, LoadedDocument, ReadDocument
from leanrag_engine.core.ports import Progress, Workers
from leanrag_engine.core.text.cleaning import clean_line
from leanrag_engine.documents.guarding import GuardedProcesses, ParsingLimits
from leanrag_engine.documents.loading import (
    Expansion,
    as_storable_path,
    expand,
    identify,
    load,
    make_stamp,
    printable_path,
    read_file,
)
from leanrag_engine.extraction.heuristic.extract import extract
from leanrag_engine.pipeline.index import Stores
from leanrag_engine.pipeline.job_runner import JobProgress
from leanrag_engine.pipeline.pending import PendingIndex

from .reading import ReadingTask, read_document
from .sync import GONE, plan_sync, remove_missing

logger = logging.getLogger(__name__)


async def extract_heuristically(
    document: LoadedDocument, chunks: Sequence[Chunk], pulse: Callable[[], None]
) -> list[Extract]:
    """Return one extract per chunk, made without a model."""
    return await anyio.to_thread.run_sync(partial(extract, chunks, document.title, pulse=pulse))


async def ingest_all(
    stores: Stores,
    collection: str,
    request: IngestRequest,
    progress: JobProgress,
    index: PendingIndex,
    later: frozenset[str] = frozenset(),
) -> bool:
    """Ingest the documents of a request; return whether any was added, replaced or removed. ``index`` makes search by
    meaning find them; ``later`` are the ids of documents that were asked for after these. A sync then removes the
    documents whose files vanished. Raises ``LeanRAGError`` if every document failed."""
    allowed = None if request.allowed is None else [Path(folder) for folder in request.allowed]
    held = await stores.documents.find_all(collection)
    progress.report(Progress("list", message="Looking for files that changed"))
    found = await anyio.to_thread.run_sync(list_files, request, held, allowed, stores.settings.data_dir)
    plan, sources = None, found.sources
    if request.sync:
        plan = await anyio.to_thread.run_sync(plan_sync, sources, found.folders, held, request)
        sources = plan.sources
    progress.skipped = group_skipped(found)
    statuses = [record_outcome(outcome, progress) for outcome in found.failed]
    due, unchanged = await anyio.to_thread.run_sync(split_unchanged, sources, held, allowed)
    statuses += [record_outcome(outcome, progress) for outcome in unchanged]
    # If a model reads the documents, or none is read, processes of our own have nothing to do.
    is_idle = stores.extractor is not None or request.dry_run
    size = await anyio.to_thread.run_sync(count_bytes, due)
    async with (
        aclosing(await choose_workers(stores.settings, 0 if is_idle else size)) as workers,
        open_processes(stores.settings.workers or os.cpu_count() or 1) as processes,
    ):
        known = frozenset(each.id for each in held)
        guard = GuardedProcesses(processes)
        ingestion = Ingestion(stores, collection, request, allowed, workers, guard, index, later, known)
        statuses += await ingestion.ingest(due, progress)
    if textless := tuple(sorted(ingestion.textless)):
        progress.skipped += (LeftOut("with pages that have no text layer", len(textless), textless),)
    progress.report(Progress("ingest", to_kilobytes(size), to_kilobytes(size)))
    if not request.dry_run:
        await stores.documents.put_file_stamps(collection, ingestion.stamps)
    if plan is not None:
        removed = await remove_missing(stores, collection, plan, progress, dry_run=request.dry_run)
        added = {each.id for each in progress.outcomes if each.status == "added"}
        places = {each.id: ingestion.arrived.get(each.file_digest, "") for each in held}
        for each in removed:
            place = places[each.id] if each.error == GONE else ""
            why = f"moved to {place}" if place in added else each.error
            statuses.append(record_outcome(replace(each, error=why), progress))
    if "failed" in statuses and set(statuses) == {"failed"}:
        raise LeanRAGError("No document could be ingested.", "Each one's error says why.")
    if not request.dry_run:
        await record_notes(stores, collection, found.folders)
    changed = bool({"added", "replaced", "removed"} & set(statuses))
    if changed and not request.build and not request.dry_run:
        await index.add_missing(collection, progress.report)
        if index.trouble:
            progress.fail("vector index", index.trouble)
    return changed


async def record_notes(stores: Stores, collection: str, folders: Sequence[Expansion]) -> None:
    """Record the notes on folders that were listed, and forget those that are gone."""
    held = await stores.documents.collection(collection)
    roots = tuple(f"{printable_path(each.root)}{os.sep}" for each in folders if each.root)
    known = held.notes if held else {}
    notes = {folder: note for folder, note in known.items() if not folder.startswith(roots)}
    for each in folders:
        notes |= each.notes
    if notes != known:
        await stores.documents.put_notes(collection, notes)


def record_outcome(outcome: IngestOutcome, progress: JobProgress) -> str:
    """Record what became of a document and return its status."""
    progress.outcomes.append(outcome)
    if outcome.status == "failed":
        progress.fail(outcome.id, outcome.error)
    return outcome.status


def absolute_source(source: DocumentSource, *, anywhere: bool) -> DocumentSource:
    """Return a source as a job stores it: a path that may lie ``anywhere`` is made absolute, others may be
    relative to an allowed folder."""
    path = str(Path(source.path).expanduser().absolute()) if anywhere and source.path else source.path
    return replace(source, path=as_storable_path(path))


def file_name_of(source: DocumentSource) -> str:
    """Return the name of a source's file as it can be shown and stored."""
    return clean_line(printable_path(Path(Path(source.path).name)))


# --- which files ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The documents of a request, its ``folders`` replaced by their files, paths that hold no document, and what was left out."""

    sources: tuple[DocumentSource, ...]
    failed: tuple[IngestOutcome, ...]
    folders: tuple[Expansion, ...]


def list_files(
    request: IngestRequest, held: Sequence[Document], allowed: Sequence[Path] | None, data_dir: Path
) -> FoundFiles:
    """Replace each folder of a request by its files. Raises ``LeanRAGError`` if a folder of a sync cannot be read."""
    stamps = {each.source: each.file_stamp for each in held if each.file_stamp}

    def is_known(path: Path, status: os.stat_result) -> bool:
        return stamps.get(printable_path(path)) == make_stamp(DocumentSource(), status)

    sources: list[DocumentSource] = []
    failed: list[IngestOutcome] = []
    folders: list[Expansion] = []
    for source in request.documents:
        if not source.path or source.text is not None:
            sources.append(source)
            continue
        try:
            found = expand(source.path, allowed=allowed, is_known=is_known, data_dir=data_dir)
        except LeanRAGError as problem:
            if request.sync:
                raise
            failed.append(IngestOutcome(source.id or source.path, source.title, "failed", error=str(problem)))
            continue
        if found.root is None:
            sources.append(replace(source, path=str(found.files[0])))
            continue
        folders.append(found)
        sources.extend(replace(source, path=str(path), id="", title="") for path in found.files)
        if not found.files and not found.skipped and not request.sync:
            why = f"The folder {source.path} holds no file to ingest."
            failed.append(IngestOutcome(source.path, "", "failed", error=why))
    return FoundFiles(tuple(sources), tuple(failed), tuple(folders))


_PACKED = frozenset({".pdf", ".docx", ".pptx", ".xlsx", ".epub", ".odt", ".ods", ".odp"})
_TEXT_SHARE = 0.1  # of the bytes of such a file, roughly: the rest are pictures, fonts and layout


def measure_due(request: IngestRequest, held: Sequence[Document], data_dir: Path) -> tuple[int, int]:
    """Return how many documents must be read, and about how many bytes of text. Raises as ``list_files`` and ``plan_sync``."""
    allowed = None if request.allowed is None else [Path(folder) for folder in request.allowed]
    found = list_files(request, held, allowed, data_dir)
    if request.sync and found.folders:
        plan_sync(found.sources, found.folders, held, request)
    due, _ = split_unchanged(found.sources, held, allowed)
    packed = [each for each in due if Path(each.path or "").suffix.lower() in _PACKED]
    return len(due), count_bytes(due) - round((1 - _TEXT_SHARE) * count_bytes(packed))


def group_skipped(found: FoundFiles, *, most: int = 200) -> tuple[LeftOut, ...]:
    """Count what was left out by reason, the most frequent one first, each with at most ``most`` examples."""
    paths: dict[str, list[str]] = {}
    for folder in found.folders:
        for each in folder.skipped:
            assert folder.root is not None
            inner = each.path.relative_to(folder.root) if each.path.is_relative_to(folder.root) else each.path
            paths.setdefault(each.reason, []).append(printable_path(inner))
    ordered = sorted(paths.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(LeftOut(reason, len(listed), tuple(listed[:most])) for reason, listed in ordered)


def split_unchanged(
    sources: Sequence[DocumentSource], held: Sequence[Document], allowed: Sequence[Path] | None
) -> tuple[list[DocumentSource], list[IngestOutcome]]:
    """Return the documents that must be read, and the outcomes of files that have the size and time of when they were read."""
    known = {each.id: each for each in held if each.file_stamp}
    due: list[DocumentSource] = []
    unchanged: list[IngestOutcome] = []
    for source in sources:
        document = _find_unchanged(source, known, allowed) if source.path and source.text is None else None
        if document is None:
            due.append(source)
        else:
            unchanged.append(IngestOutcome(document.id, document.title, "unchanged", document.chunks))
    return due, unchanged


def _find_unchanged(
    source: DocumentSource, known: Mapping[str, Document], allowed: Sequence[Path] | None
) -> Document | None:
    with suppress(LeanRAGError, OSError):  # reading it says what is wrong
        id_, path = identify(source, allowed=allowed)
        document = known.get(id_)
        if document is not None and document.file_stamp == make_stamp(source, path.stat()):
            return document
    return None


def count_bytes(sources: Sequence[DocumentSource]) -> int:
    """Return the size of all sources together, as far as it is known before they are read."""
    total = 0
    for source in sources:
        if source.text is not None or not source.path:
            total += len(source.text or "")
            continue
        with suppress(OSError):  # reading it says what is wrong
            total += Path(source.path).stat().st_size
    return total


def to_kilobytes(size: int) -> int:
    """Round a size up: the columns of a job's progress hold no bytes of two gigabytes."""
    return -(-size // 1000)


# --- documents -----------------------------------------------------------------------------


DOCUMENTS = 16
"""Documents that may be read and not stored, for each worker: while one transaction is written, the next one gathers."""
SIZE = 2_000_000  # Their bytes, for each worker; one document may have more
LONG_TEXT = 200_000
"""Characters from which on a document is cut and extracted in a process of its own, which ends at its limits."""
CHUNKS = 200  # Chunks that are stored in one transaction; one document may have more


@dataclass(slots=True, eq=False)
class QueuedDocument:
    """A document that is being read: its source, and what came of it once it is there."""

    source: DocumentSource
    size: int
    is_there: anyio.Event = field(default_factory=anyio.Event)
    result: ReadDocument | IngestOutcome | None = None


@dataclass(frozen=True)
class Ingestion:
    """One run over documents; ``known`` are the ids of those that were stored when it began. ``stamps`` collects those of
    files that turned out to be unchanged, by document, ``arrived`` the ids of new ones by the digest of their file, ``textless``
    those of which pages are pictures."""

    stores: Stores
    collection: str
    request: IngestRequest
    allowed: Sequence[Path] | None
    workers: Workers
    guard: GuardedProcesses
    index: PendingIndex
    later: frozenset[str]
    known: frozenset[str]
    stamps: dict[str, tuple[str, str]] = field(default_factory=dict)
    arrived: dict[str, str] = field(default_factory=dict)
    textless: list[str] = field(default_factory=list)

    async def ingest(self, sources: Sequence[DocumentSource], progress: JobProgress) -> list[str]:
        """Ingest documents and return their statuses: read beside each other, stored in order, several in a transaction."""
        waiting: deque[QueuedDocument] = deque()
        statuses: list[str] = []
        sizes = [count_bytes([source]) for source in sources]
        done, total = 0, sum(sizes)

        def show(source: DocumentSource) -> None:
            name = source.title or file_name_of(source)
            progress.report(Progress("ingest", to_kilobytes(done), to_kilobytes(total), name))

        def has_room(queued: QueuedDocument) -> bool:
            if not waiting:
                return True
            size = queued.size + sum(each.size for each in waiting)
            if len(waiting) >= DOCUMENTS * self.workers.width or size > SIZE * self.workers.width:
                return False
            # What is read depends on what is stored under the same id.
            return not queued.source.id or queued.source.id not in {each.source.id for each in waiting}

        async def store_next() -> None:
            show(waiting[0].source)
            await waiting[0].is_there.wait()
            together = take_together(waiting)
            outcomes = await self._store_or_fail(together, progress)
            nonlocal done
            done += sum(each.size for each in together)
            statuses.extend(record_outcome(each, progress) for each in outcomes)

        async with open_task_group() as group:
            for source, size in zip(sources, sizes, strict=True):
                queued = QueuedDocument(source, size)
                while not has_room(queued):
                    await store_next()
                show(source)
                waiting.append(queued)
                group.start_soon(self._read_or_fail, queued, progress.say)
            while waiting:
                await store_next()
        return statuses

    async def _read_or_fail(self, queued: QueuedDocument, say: Callable[[str], None]) -> None:
        """Read a document. An error becomes its outcome, that of a reader too, except ``StoreUnusable`` and ``Cancelled``."""
        try:
            queued.result = await self._read(queued.source, say)
        except (StoreUnusable, Cancelled):
            raise
        except LeanRAGError as problem:
            queued.result = failure_of(queued.source, problem)
        except Exception as bug:
            logger.exception("%s was not read", queued.source.path or queued.source.id)
            queued.result = failure_of(queued.source, f"Unexpected {type(bug).__name__}: {bug}")
        queued.is_there.set()

    async def _store_or_fail(
        self, queued: Sequence[QueuedDocument], progress: JobProgress
    ) -> list[IngestOutcome]:
        """Store documents in one transaction. If it fails, each gets one of its own, and its own error."""
        read = [each.result for each in queued if isinstance(each.result, ReadDocument)]
        try:
            stored = iter(await self._store(read, progress))
        except (StoreUnusable, Cancelled):
            raise
        except LeanRAGError as problem:
            if len(queued) > 1:
                return [outcome for each in queued for outcome in await self._store_or_fail([each], progress)]
            return [failure_of(queued[0].source, problem)]
        return [each.result if isinstance(each.result, IngestOutcome) else next(stored) for each in queued]

    async def _read(self, source: DocumentSource, say: Callable[[str], None]) -> ReadDocument | IngestOutcome:
        """Load, chunk and extract one document, unless it is stored as it is. Raises a ``LeanRAGError`` if it cannot
        be read. ``say`` is called now and then with a message; an exception from it ends the work."""
        stores, settings = self.stores, self.stores.settings
        limit = settings.max_document_mb * 1024 * 1024
        limits = ParsingLimits(settings.max_parse_seconds, settings.max_parse_mb)
        if source.text is None and source.path:
            id_, _ = identify(source, allowed=self.allowed)
            file = await anyio.to_thread.run_sync(
                partial(read_file, source, allowed=self.allowed, max_bytes=limit)
            )
            before = await self._find_known(id_)
            if before is not None and before.file_digest == file.digest:
                self.stamps[id_] = (file.stamp, file.digest)
                return IngestOutcome(before.id, before.title, "unchanged", before.chunks)
            if before is None:
                self.arrived[file.digest] = id_
            if self.request.dry_run:
                name = source.title or (before.title if before else file_name_of(source))
                return IngestOutcome(id_, name, "replaced" if before else "added")
            size = len(file.data)
            document = await self.guard.parse(source, file, limits)
        else:
            document = await anyio.to_thread.run_sync(
                partial(load, source, allowed=self.allowed, max_bytes=limit)
            )
            size = len(source.text or "")
            before = await self._find_known(document.id)
        self.textless.extend(_list_textless(document))
        if unchanged := self._find_unchanged(document, before):
            return unchanged
        if self.request.dry_run:
            return IngestOutcome(document.id, document.title, "replaced" if before else "added")
        if len(document.text) > (most := settings.max_text_characters):
            raise DocumentUnreadable(
                f"{document.source or document.id!r} holds {len(document.text):,} characters; at most {most:,} are cut and extracted.",
                "Split it, or raise the setting max_text_characters (LEANRAG_MAX_TEXT_CHARACTERS).",
            )
        task = ReadingTask(
            # A read-only mapping cannot be sent to a process.
            replace(document, metadata=dict(document.metadata)),
            stores.tokenizer,
            settings.chunk_tokens,
            settings.chunk_overlap,
            extracts=stores.extractor is None,
        )
        if len(document.text) < LONG_TEXT or settings.dask:
            chunks, extracts = await self.workers.run(read_document, task, say)
        else:
            say(f"{document.title}: reading {len(document.text):,} characters")
            left, name = limits.for_size(size), document.source or document.id
            chunks, extracts = await self.guard.run(read_document, task, left, name)
        if stores.extractor is not None:
            extracts = await stores.extractor(document, chunks, partial(say, document.title))
        return ReadDocument(document, chunks, extracts)

    async def _find_known(self, id_: str) -> Document | None:
        """Return the document of that id. One that was stored since this began is found when the new one is stored."""
        if id_ not in self.known:
            return None
        return (await self.stores.documents.find(self.collection, [id_])).get(id_)

    def _find_unchanged(self, document: LoadedDocument, before: Document | None) -> IngestOutcome | None:
        if before is None or before.digest != document.digest:
            return None
        self.stamps[document.id] = (document.file_stamp, document.file_digest)
        return IngestOutcome(document.id, document.title, "unchanged", before.chunks)

    async def _store(self, read: Sequence[ReadDocument], progress: JobProgress) -> list[IngestOutcome]:
        """Store documents of different ids, all or none, except those that are stored as they are."""
        documents = self.stores.documents
        outcomes: list[IngestOutcome] = []
        changed: list[ReadDocument] = []
        # Others of the same ids may have been stored since these were read.
        found = await documents.find(self.collection, [each.document.id for each in read])
        held = frozenset(await documents.chunk_ids(self.collection, [*found]) if found else ())
        for each in read:
            document = each.document
            before = found.get(document.id)
            if unchanged := self._find_unchanged(document, before):
                outcomes.append(unchanged)
                continue
            # A text that was given, unlike a file that is read now, is older than theirs.
            if before is not None and not document.source and document.id in self.later:
                outcomes.append(IngestOutcome(before.id, before.title, "unchanged", before.chunks))
                continue
            if before is not None and not self.request.replaces:
                told = "It would take the place of one with this id, whose text would be lost: that needs the right admin."
                outcomes.append(IngestOutcome(document.id, document.title, "failed", error=told))
                continue
            kept = sum(chunk.id in held for chunk in each.chunks)
            status: Literal["added", "replaced"] = "added" if before is None else "replaced"
            changed.append(each)
            outcomes.append(IngestOutcome(document.id, document.title, status, len(each.chunks), kept=kept))
        if changed:
            await self.index.put_all(self.collection, changed, lambda _: progress.check())
        return outcomes


def take_together(waiting: deque[QueuedDocument]) -> list[QueuedDocument]:
    """Remove and return the first document, which is there, and those after it that are and may be stored with it."""
    taken: list[QueuedDocument] = []
    ids: set[str] = set()
    chunks = 0
    while waiting and waiting[0].is_there.is_set():
        read = waiting[0].result
        if isinstance(read, ReadDocument):
            chunks += len(read.chunks)
            if taken and (read.document.id in ids or chunks > CHUNKS):
                break
            ids.add(read.document.id)
        taken.append(waiting.popleft())
    return taken


def failure_of(source: DocumentSource, problem: LeanRAGError | str) -> IngestOutcome:
    place = os.fsencode(source.path).decode("utf-8", "backslashreplace")
    return IngestOutcome(source.id or place or source.title, source.title, "failed", error=str(problem))


def _list_textless(document: LoadedDocument) -> list[str]:
    pages = document.metadata.get("pages_without_text")
    return [f"page {pages} of {file_name_of(DocumentSource(path=document.source))}"] if pages else []
