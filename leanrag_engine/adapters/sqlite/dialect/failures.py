"""What SQLAlchemy's and SQLite's exceptions mean to the caller: the one place where they are mapped."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from leanrag_engine.core.errors import Busy, InvalidInput, LeanRAGError, StoreUnusable

_CLASS = 0xFF
"""An extended result code keeps its class in its low byte."""


@contextmanager
def map_errors(path: Path) -> Iterator[None]:
    """Inside, every exception of the database library becomes a :class:`LeanRAGError` about ``path``."""
    try:
        yield
    except DBAPIError as problem:
        raise _meaning(problem.orig, path) from problem
    except sqlite3.Error as problem:
        raise _meaning(problem, path) from problem
    except SQLAlchemyError as problem:
        raise _meaning(problem, path) from problem
    except UnicodeEncodeError as problem:
        raise InvalidInput(
            f"The text around {problem.object[max(0, problem.start - 20) : problem.end + 20]!r} "
            f"holds half a character (position {problem.start}) and cannot be kept.",
            "Read the document again with the right encoding.",
        ) from problem


def says_no_such_table(problem: DBAPIError) -> bool:
    return "no such table" in str(problem.orig)


def not_writable(folder: Path, reason: str) -> StoreUnusable:
    return StoreUnusable(
        f"The data folder {folder} cannot be written to ({reason}).",
        "Make it writable, choose another data folder, or open it read-only.",
    )


@dataclass(frozen=True, slots=True)
class _Meaning:
    error: type[LeanRAGError]
    message: str
    """With places for ``path`` and SQLite's own ``reason``."""
    next_step: str


_DAMAGED = _Meaning(
    StoreUnusable,
    "The graph store {path} is damaged ({reason}).",
    "Put a backup of the file in its place, or move it away and ingest the documents again.",
)
_DISK = _Meaning(
    StoreUnusable,
    "The disk that holds {path} is full or failed ({reason}); the change was not made.",
    "Make room on the disk or check it, then try again.",
)
_BUSY = _Meaning(
    Busy, "Another process has been writing to {path} for too long ({reason}).", "Try again in a minute."
)
_UNKNOWN = _Meaning(
    StoreUnusable,
    "The graph store {path} failed ({reason}).",
    "Check the file, or put a backup in its place.",
)
_MEANINGS = {
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: _DISK,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CANTOPEN: _Meaning(
        StoreUnusable,
        "The graph store {path} cannot be opened ({reason}).",
        "Check that you may read it. One that a crash left behind must be opened for writing once.",
    ),
    sqlite3.SQLITE_CONSTRAINT: _Meaning(
        InvalidInput,
        "The graph store {path} refused a row ({reason}).",
        "Give every item an id of its own, and known ends.",
    ),
}


def _meaning(problem: BaseException | None, path: Path) -> LeanRAGError:
    code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _CLASS
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return not_writable(path.parent, str(problem))
    found = _MEANINGS.get(code, _UNKNOWN)
    return found.error(found.message.format(path=path, reason=problem), found.next_step)
