"""Map the exceptions of SQLAlchemy and SQLite to errors of the engine."""

import sqlite3
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leanrag_engine.adapters.sql.dialect.opened import map_driver_errors
from leanrag_engine.core.errors import Busy, InvalidInput, LeanRAGError, StoreUnusable


def map_errors(path: Path) -> AbstractContextManager[None]:
    """Turn every exception that the database library raises inside into a :class:`LeanRAGError` about ``path``."""
    return map_driver_errors(sqlite3.Error, partial(_map_error, path=path), str(path))


def not_writable(folder: Path, reason: str) -> StoreUnusable:
    return StoreUnusable(
        f"The data folder {folder} cannot be written to ({reason}).",
        "Make it writable, choose another data folder, or open it read-only.",
    )


@dataclass(frozen=True, slots=True)
class _MappedError:
    """The error of one result code of SQLite."""

    error: type[LeanRAGError]
    message: str
    """A template with the fields ``path`` and ``reason``, which is SQLite's own message."""
    next_step: str


_DAMAGED = _MappedError(
    StoreUnusable,
    "The graph store {path} is damaged ({reason}).",
    "Move the data folder away, then run leanrag restore BACKUP, or ingest the documents again.",
)
_DISK = _MappedError(
    StoreUnusable,
    "The disk that holds {path} is full or failed ({reason}); the change was not made.",
    "Free space on the disk or check it, then try again.",
)
_BUSY = _MappedError(
    Busy, "Another process has been writing to {path} for too long ({reason}).", "Try again in a minute."
)
_UNKNOWN = _MappedError(
    StoreUnusable, "The graph store {path} failed ({reason}).", "Check the file, or replace it by a backup."
)
_FAILURES = {
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: _DISK,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CANTOPEN: _MappedError(
        StoreUnusable,
        "The graph store {path} cannot be opened ({reason}).",
        "Check the permission to read it. After a crash it must be opened for writing once.",
    ),
    sqlite3.SQLITE_CONSTRAINT: _MappedError(
        InvalidInput,
        "The graph store {path} rejected a row ({reason}).",
        "Give every item a unique id, and every relation ends that exist.",
    ),
}


def make_damage_error(path: Path, reason: str) -> LeanRAGError:
    return _DAMAGED.error(_DAMAGED.message.format(path=path, reason=reason), _DAMAGED.next_step)


def _map_error(problem: BaseException | None, path: Path) -> LeanRAGError:
    # The low byte of an extended result code is its primary result code.
    code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return not_writable(path.parent, str(problem))
    failure = _FAILURES.get(code, _UNKNOWN)
    return failure.error(failure.message.format(path=path, reason=problem), failure.next_step)
