"""Make a collection equal to folders: which documents vanished with their files, and their deletion. A folder
that cannot be read must never look like an empty one: nothing is deleted unless the folder is there, is the
same one from the beginning to the end of the sync, and has files, or the caller allows it to be empty."""

import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from leanrag_engine.core.errors import DocumentUnreadable, InvalidInput
from leanrag_engine.core.grouping import group
from leanrag_engine.core.jobs import IngestOutcome, IngestRequest
from leanrag_engine.core.model import Document, DocumentSource
from leanrag_engine.core.text.paths import read_path
from leanrag_engine.documents.folders.walk import real_path
from leanrag_engine.documents.loading import Expansion, printable_path
from leanrag_engine.pipeline.delete import delete_documents
from leanrag_engine.pipeline.index import Stores
from leanrag_engine.pipeline.job_runner import JobProgress

GONE = "its file is gone"

FolderIdentity = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class MissingDocument:
    """A document that is to be deleted, with the reason: an ignore file, or what is at the path of its file."""

    document: Document
    reason: str
    ignored: bool


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The files to ingest, and the documents that have none any more; ``folders`` as they were when they were listed."""

    sources: tuple[DocumentSource, ...]
    missing: tuple[MissingDocument, ...]
    folders: tuple[tuple[Path, FolderIdentity], ...]


def plan_sync(
    sources: Sequence[DocumentSource],
    folders: Sequence[Expansion],
    held: Sequence[Document],
    request: IngestRequest,
) -> SyncPlan:
    """Return what makes the collection equal to the folders of the request; of ``held`` those from beneath them are
    concerned. A file ingested by an id of its own, or although such files are left out, stays, unless an ignore file
    names it. Raises ``InvalidInput`` for anything but folders, and for an unexpectedly empty one."""
    roots = [each.root for each in folders if each.root is not None]
    if len(roots) < len(request.documents):
        is_folder = os.path.isdir  # Path.is_dir raises where a folder is closed
        other = next(each for each in request.documents if each.text is not None or not is_folder(each.path))
        raise InvalidInput(
            f"Only folders can be synced; {other.path or other.title or 'a text'!r} is none.",
            "Give folders, or ingest it without sync.",
        )
    beneath = {
        root: [each for each in held if each.source and read_path(each.source).is_relative_to(root)]
        for root in roots
    }
    for folder in () if request.allow_empty else folders:
        if folder.root is not None and not folder.files and (beneath[folder.root] or not sources):
            raise _empty_folder(folder, len(beneath[folder.root]))
    documents = list({each.id: each for found in beneath.values() for each in found}.values())
    by_source = group((each.source, each) for each in documents)
    listed = [(printable_path(Path(each.path)), each) for each in sources]
    wanted = [
        again
        for place, source in listed
        for again in ([_name_as(each, source) for each in by_source.get(place, ())] or [source])
    ]
    missing: list[MissingDocument] = []
    there = {place for place, _ in listed}
    for document in documents:
        if document.source in there:
            continue
        rule = _find_ignore_rule(document, folders)
        if reason := rule or _find_absence(document):
            missing.append(MissingDocument(document, reason, bool(rule)))
        else:
            wanted.append(_name_as(document, DocumentSource(path=str(read_path(document.source)))))
    return SyncPlan(tuple(wanted), tuple(missing), tuple((root, _identify_folder(root)) for root in roots))


def _empty_folder(folder: Expansion, documents: int) -> InvalidInput:
    counts = Counter(each.reason for each in folder.skipped).most_common()
    left_out = f" Left out: {', '.join(f'{count} {reason}' for reason, count in counts)}." if counts else ""
    if not documents:
        return InvalidInput(
            f"The folder {str(folder.root)!r} holds no document that can be read.{left_out}",
            "Give the folder that holds your documents.",
        )
    return InvalidInput(
        f"The folder {str(folder.root)!r} holds no document, and the collection has documents from it ({documents}): "
        f"nothing was removed.{left_out}",
        "Check the path, and that its disk is there. If it is meant to be empty, sync with --allow-empty, or delete by id.",
    )


def _name_as(document: Document, source: DocumentSource) -> DocumentSource:
    """Return the source of a document that is held; one with an id of its own keeps title and metadata too."""
    if document.id == document.source:
        return source
    return replace(
        source, id=document.id, title=document.title, metadata={**document.metadata, **source.metadata}
    )


def _find_ignore_rule(document: Document, folders: Sequence[Expansion]) -> str:
    """Return which ignore file leaves out the file of a document, "" if none does."""
    path = read_path(document.source)
    skipped = (each for folder in folders for each in folder.skipped if each.ignored)
    return next((each.reason for each in skipped if path.is_relative_to(each.path)), "")


def _find_absence(document: Document) -> str:
    """Return why the document has no file any more; "" if it has one, or none can be looked for: what is unreadable is not gone."""
    path = read_path(document.source)
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    except OSError:
        return ""
    if real_path(path) != path:
        return "its path is a link now"
    if not stat.S_ISREG(status.st_mode):
        return "its path is no file any more"
    return "" if status.st_size else "its file is empty"


def _identify_folder(root: Path) -> FolderIdentity:
    """Return what tells a folder from another one at the same path. Raises ``DocumentUnreadable`` if it cannot be listed."""
    try:
        with os.scandir(root) as entries:
            next(entries, None)
        status = root.stat()
    except OSError as problem:
        raise _report_changed_folder(root, problem.strerror or str(problem)) from problem
    return status.st_dev, status.st_ino


def _report_changed_folder(root: Path, why: str) -> DocumentUnreadable:
    return DocumentUnreadable(
        f"The folder {str(root)!r} changed during the sync ({why}): nothing was removed.",
        "Check its disk, then sync again; what was read before is kept.",
    )


async def remove_missing(
    stores: Stores, collection: str, plan: SyncPlan, progress: JobProgress, *, dry_run: bool
) -> list[IngestOutcome]:
    """Delete the documents without a file and return their outcomes; ``dry_run``: only these. Raises
    ``DocumentUnreadable`` if a folder was replaced."""
    gone = await anyio.to_thread.run_sync(confirm_missing, plan)
    if gone and not dry_run:
        await delete_documents(stores, collection, [each.document.id for each in gone], progress.report)
    # Without the title: a private one would stay in the record of the job.
    return [
        IngestOutcome(each.document.id, "", "removed", each.document.chunks, error=each.reason)
        for each in gone
    ]


def confirm_missing(plan: SyncPlan) -> list[MissingDocument]:
    """Return the documents that still have no file. Raises ``DocumentUnreadable`` if a folder is not what it was."""
    if not plan.missing:
        return []
    _check_folders(plan)
    gone = [each for each in plan.missing if each.ignored or _find_absence(each.document)]
    _check_folders(plan)  # it may have vanished while its files were looked for
    return gone


def _check_folders(plan: SyncPlan) -> None:
    for root, identity in plan.folders:
        if _identify_folder(root) != identity:
            raise _report_changed_folder(root, "another one has taken its place")
