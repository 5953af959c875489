"""Map the exceptions of SQLAlchemy and psycopg to errors of the engine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial

import psycopg

from leanrag_engine.adapters.sql.dialect.opened import map_driver_errors
from leanrag_engine.core.errors import Busy, InvalidInput, LeanRAGError, NotFound, StoreUnusable

_CHECK = "Check the address, user and password in --database-url or LEANRAG_DATABASE_URL, and that the server runs."
_AGAIN = "Try again in a minute."


def map_errors(address: str) -> AbstractContextManager[None]:
    """Turn every exception that the database library raises inside into a :class:`LeanRAGError` about ``address``,
    which has no password."""
    return map_driver_errors(psycopg.Error, partial(_map_error, address=address), address)


def _map_error(problem: BaseException | None, address: str) -> LeanRAGError:  # noqa: PLR0911 - a table of codes
    reason = str(problem).strip().split("\n")[0]
    match getattr(problem, "sqlstate", None) or "":
        case "53100":
            return StoreUnusable(
                f"The disk of the database {address} is full ({reason}); the change was not made.",
                "Free space on its disk, then try again.",
            )
        case "53300" | "55P03" | "40P01" | "40001" | "57014":
            return Busy(f"The database {address} is busy ({reason}).", _AGAIN)
        case "42501" | "25006":
            return StoreUnusable(
                f"The database {address} cannot be written to ({reason}).",
                "Give the user the right to create tables and to write, or open it read-only.",
            )
        case "42P01":
            return NotFound(
                f"What was asked for has just been deleted from {address} ({reason}).", "Repeat the query."
            )
        case code if code.startswith(("22", "23", "54")):
            return InvalidInput(
                f"The database {address} rejected a row ({reason}).",
                "Give every item a unique id of at most 2,000 characters, and every relation ends that exist.",
            )
        case code if code and not code.startswith(("08", "28", "3D", "57")):
            return StoreUnusable(
                f"The database {address} failed ({reason}).", "See the log of the PostgreSQL server."
            )
    if isinstance(problem, psycopg.DataError):  # found by the driver: a NUL
        return InvalidInput(f"A text cannot be stored ({reason}).", "Remove the character from it.")
    return StoreUnusable(f"The database {address} cannot be used ({reason}).", _CHECK)
