"""Back up the data folder, and restore it: the database as it is at one moment, the vectors that belong to
it, and ``backup.json`` with the size and hash of each file. A backup gets its name when it is whole. What is
restored becomes a store when the database, the last file, gets its name."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

from anyio import to_thread

from leanrag_engine.adapters.files.writer_lock import FileWriterLock
from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.sql.dialect.sqlite.opening import FILE, copy_file
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput, NotReady, StoreUnusable
from leanrag_engine.core.ports import Progress, ProgressReport, report_holder
from leanrag_engine.core.runtime.replacement import sync, sync_folder

MANIFEST, VECTORS, STAGING = "backup.json", "vectors", "restoring"


class ManifestFile(TypedDict):
    """Size and hash of one file of a backup."""

    bytes: int
    sha256: str


class Manifest(TypedDict):
    """What ``backup.json`` holds. ``collections`` has the number of documents of each, ``files`` the paths in the backup."""

    made_by: str
    created_at: str
    collections: dict[str, int]
    files: dict[str, ManifestFile]


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds: the number of documents of each collection, its bytes, and whether the vectors are in it."""

    folder: Path
    created_at: str
    collections: dict[str, int]
    size: int
    vectors: bool


async def back_up(settings: Settings, target: Path, report: ProgressReport) -> Backup:
    """Write a backup to the folder ``target``, which must not exist. Servers go on answering, and jobs wait until it is
    done. Raises ``InvalidInput`` for a target that exists or lies in the data folder, and for documents in PostgreSQL;
    ``NotReady`` if there is nothing to back up; ``StoreUnusable`` if the database is damaged or there is no room."""
    folder = _check_kept_here(settings)
    target = _check_target(target, folder)
    beside = target.with_name(f".{target.name}.partial")

    def copy() -> None:
        shutil.rmtree(beside, ignore_errors=True)  # of a backup that was killed
        beside.mkdir(parents=True)
        copy_file(folder, beside, lambda done, total: report(Progress("copy database", done, total)))
        # A Chroma server keeps its vectors itself.
        if not settings.chroma_url and (folder / VECTORS).is_dir():
            _copy_vectors(folder / VECTORS, beside / VECTORS, report)

    try:
        async with FileWriterLock(folder).hold("backup", waiting=partial(report_holder, report)):
            await to_thread.run_sync(copy)
        manifest = {
            "made_by": f"leanrag-mcp {version('leanrag-mcp')}",
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "collections": await _count_documents(beside),
        }
        await to_thread.run_sync(_seal, beside, manifest)
        beside.rename(target)
        sync_folder(target.parent)
    except OSError as problem:
        raise StoreUnusable(
            f"The backup cannot be written to {target}: {problem}.", "Make room, or name another place."
        ) from problem
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return _summarise(target, _read_manifest(target))


async def restore(settings: Settings, source: Path, report: ProgressReport) -> Backup:
    """Make the data folder what the backup in ``source`` holds, after every file of it was compared with its
    hash. Raises ``InvalidInput`` if ``source`` is no backup or the data folder holds a store already,
    ``StoreUnusable`` if a file of the backup is missing or damaged, or it is of a newer version."""
    folder = _check_kept_here(settings)
    if any(folder.glob(f"{FILE}*")):
        raise InvalidInput(
            f"The data folder {folder} holds a store already.",
            "Name another folder with --data-dir, or move that one away: nothing is overwritten.",
        )
    manifest = _read_manifest(source)
    staging = folder / STAGING

    def stage() -> None:
        shutil.rmtree(staging, ignore_errors=True)  # of a restore that was killed
        staging.mkdir(parents=True)
        total = sum(entry["bytes"] for entry in manifest["files"].values())
        done = 0
        for name, entry in manifest["files"].items():
            report(Progress("copy and compare", done, total))
            _copy_checked(source, staging, name, entry)
            done += entry["bytes"]
        report(Progress("copy and compare", total, total))

    def place() -> None:
        shutil.rmtree(folder / VECTORS, ignore_errors=True)  # without a database they are of no use
        if (staging / VECTORS).exists():
            (staging / VECTORS).rename(folder / VECTORS)
        (staging / FILE).rename(folder / FILE)
        sync_folder(folder)

    try:
        async with FileWriterLock(folder).hold("restore", waiting=partial(report_holder, report)):
            await to_thread.run_sync(stage)
            found = await _count_documents(staging, renew=True)
            if found != manifest["collections"]:
                raise StoreUnusable(
                    f"The backup {source} should hold {manifest['collections']}, and holds {found}.",
                    "Use another backup.",
                )
            await to_thread.run_sync(place)
    except OSError as problem:
        raise StoreUnusable(
            f"The backup cannot be restored to {folder}: {problem}.", "Make room, or name another folder."
        ) from problem
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return _summarise(source, manifest)


def _check_kept_here(settings: Settings) -> Path:
    if settings.database_url:
        raise InvalidInput(
            "The documents are in PostgreSQL, which has its own backup.",
            "Use pg_dump and pg_restore on the database; then `leanrag reindex` writes the vectors of each collection anew.",
        )
    return settings.data_dir.expanduser().absolute()


def _check_target(target: Path, folder: Path) -> Path:
    target = target.expanduser().absolute()
    if not (folder / FILE).exists():
        raise NotReady(f"The data folder {folder} contains no store yet.", "Ingest documents first.")
    if target.exists():
        raise InvalidInput(
            f"{target} exists already.", "Name a folder that does not exist: no backup is overwritten."
        )
    if target.is_relative_to(folder):
        raise InvalidInput(f"{target} lies in the data folder {folder}.", "Name a place outside of it.")
    return target


async def _count_documents(folder: Path, *, renew: bool = False) -> dict[str, int]:
    """Return the number of documents of each collection. Raises ``StoreUnusable`` for a database of another version. ``renew``: what
    it was copied from may have vectors on a server, which are found by its name."""
    database = await SqlDatabase.open(folder, read_only=not renew)
    try:
        if renew:
            await database.renew_identity()
        return {each.name: each.documents for each in await database.documents.collections()}
    finally:
        await database.close()


def _files_of(folder: Path) -> Iterator[Path]:
    return (each for each in sorted(folder.rglob("*")) if each.is_file())


def _seal(folder: Path, manifest: Mapping[str, object]) -> None:
    """Write the manifest with the size and hash of each file."""
    for name in (f"{FILE}-wal", f"{FILE}-shm"):  # what counting left
        (folder / name).unlink(missing_ok=True)
    files = {
        each.relative_to(folder).as_posix(): {"bytes": each.stat().st_size, "sha256": _hash(each)}
        for each in _files_of(folder)
    }
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump({**manifest, "files": files}, file, indent=1)
        sync(file)
    sync_folder(folder)


def _read_manifest(folder: Path) -> Manifest:
    """Read ``backup.json``. Raises ``InvalidInput`` if there is none, or it names files outside the folder."""
    try:
        manifest: Manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        names = [Path(name) for name in manifest["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        names = []
    if Path(FILE) not in names or any(each.is_absolute() or ".." in each.parts for each in names):
        raise InvalidInput(
            f"{folder} is no backup: its {MANIFEST} is missing or unreadable.",
            "Name a folder that `leanrag backup` has written.",
        )
    return manifest


def _summarise(folder: Path, manifest: Manifest) -> Backup:
    files = manifest["files"]
    return Backup(
        folder,
        manifest["created_at"],
        manifest["collections"],
        sum(entry["bytes"] for entry in files.values()),
        any(VECTORS in Path(each).parts for each in files),
    )


def _copy_vectors(source: Path, target: Path, report: ProgressReport) -> None:
    files = list(_files_of(source))
    total = sum(each.stat().st_size for each in files)
    done = 0
    for each in files:
        report(Progress("copy vectors", done, total))
        done += _copy(each, target / each.relative_to(source))[0]
    report(Progress("copy vectors", done, total))


def _copy_checked(source: Path, target: Path, name: str, entry: ManifestFile) -> None:
    try:
        found = _copy(source / name, target / name)
    except FileNotFoundError as problem:
        raise StoreUnusable(f"{source / name} of the backup is missing.", "Use another backup.") from problem
    if found != (entry["bytes"], entry["sha256"]):
        raise StoreUnusable(
            f"{source / name} is not what was backed up: it is damaged.", "Use another backup."
        )


def _copy(source: Path, target: Path) -> tuple[int, str]:
    """Copy a file to the disk itself; return its size and hash."""
    target.parent.mkdir(parents=True, exist_ok=True)
    size, digest = 0, hashlib.sha256()
    with source.open("rb") as reading, target.open("wb") as writing:
        while block := reading.read(1 << 20):
            size += writing.write(block)
            digest.update(block)
        sync(writing)
    return size, digest.hexdigest()


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
