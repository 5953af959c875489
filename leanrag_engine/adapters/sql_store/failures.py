"""What SQLAlchemy's and SQLite's exceptions mean to the caller: the one place where they are mapped."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from leanrag_engine.errors import Busy, InvalidInput, LeanRAGError, StoreUnusable

_CLASS = 0xFF
"""An extended result code keeps its class in its low byte."""


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Inside, every exception of the database library becomes a :class:`LeanRAGError` about ``path``."""
    try:
        yield
    except DBAPIError as problem:
        raise _meaning(problem.orig, path) from problem
    except sqlite3.Error as problem:
        raise _meaning(problem, path) from problem
    except SQLAlchemyError as problem:
        raise _unusable(path, f"failed: {problem}") from problem
    except UnicodeEncodeError as problem:
        raise InvalidInput(
            f"The text around {problem.object[max(0, problem.start - 20) : problem.end + 20]!r} "
            f"holds half a character (position {problem.start}) and cannot be kept.",
            "Read the document again with the right encoding.",
        ) from problem


def says_no_such_table(problem: DBAPIError) -> bool:
    return "no such table" in str(problem.orig)


def _meaning(problem: BaseException | None, path: Path) -> LeanRAGError:
    code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _CLASS
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreUnusable(
            f"The graph store {path} is damaged ({problem}).",
            "Put a backup of the file in its place, or move it away and ingest the documents again.",
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return not_writable(path.parent, str(problem))
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return StoreUnusable(
            f"The disk that holds {path} failed or is full ({problem}); the change was not made.",
            "Make room on the disk or check it, then try again.",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(
            f"Another process has been writing to {path} for too long ({problem}).", "Try again in a minute."
        )
    if code == sqlite3.SQLITE_CONSTRAINT:
        return InvalidInput(
            f"The graph store refused a row ({problem}).", "Give every item an id of its own, and known ends."
        )
    return _unusable(path, f"failed: {problem}")


def not_writable(folder: Path, reason: str) -> StoreUnusable:
    """The data folder cannot be written to (or, if not even that, opened)."""
    return StoreUnusable(
        f"The data folder {folder} cannot be written to ({reason}).",
        "Make it writable, choose another data folder, or open it read-only.",
    )


def _unusable(path: Path, why: str) -> StoreUnusable:
    return StoreUnusable(f"The graph store {path} {why}.", "Check the file, or put a backup in its place.")
