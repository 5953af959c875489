"""Open a PostgreSQL database: start of transactions, schema check and migration, and the errors of SQLAlchemy and psycopg."""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from typing import Any

import psycopg
from psycopg.types.string import StrBinaryDumper, StrDumper
from sqlalchemy import URL, Connection, Engine, event, text
from sqlalchemy.pool import QueuePool

from leanrag_engine.adapters.sql.dialect.transactions import OpenedDatabase, map_driver_errors
from leanrag_engine.adapters.sql.schema import migrations
from leanrag_engine.adapters.sql.schema.tables import REVISION
from leanrag_engine.core.errors import (
    Busy,
    InvalidInput,
    LeanRAGError,
    LockLost,
    NotFound,
    NotReady,
    StoreUnusable,
)

from . import connecting
from .address import hide_password, parse_address

OLDEST = 14  # The oldest version of PostgreSQL that its makers still mend

LOCK_SECONDS = 30
"""How long a write waits for another process's: a large publish takes seconds, and a tool call may take at most 45 s."""

WRITER, TRANSACTION, SCHEMA = range(0x4C52, 0x4C55)
"""Advisory locks: of the job that writes, of a transaction that writes, and of a change of the schema. The second half of
their key is the schema, so that two in one database do not wait for each other."""
KEY = "%d, hashtext(current_schema())"

holding: ContextVar[int] = ContextVar("holding", default=0)
"""The server's process of the connection that holds the writer lock for the present task; 0: none."""


def open_server(address: str, *, read_only: bool) -> OpenedDatabase:
    """Return the opened database after checking server and schema, which is created or migrated unless ``read_only``."""
    url = parse_address(address)
    name = hide_password(url)
    engine = _engine(url)
    with map_errors(name):
        try:
            _check_server(engine, name)
            if read_only:
                engine = engine.execution_options(postgresql_readonly=True)
            _check_schema(engine, name, read_only=read_only)
        except BaseException:
            engine.dispose()
            raise
    return OpenedDatabase(
        reader=engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True),
        writer=engine.execution_options(lock=TRANSACTION),
        row_writer=engine,
        single_writer=False,
        map_errors=partial(map_errors, name),
        overwrite_deleted=lambda: None,  # the server does it when it vacuums
    )


def _engine(url: URL) -> Engine:
    engine = connecting.open_engine(
        url,
        poolclass=QueuePool,
        pool_size=8,
        max_overflow=8,
        # After a restart of the server the connections of the pool are dead.
        pool_pre_ping=True,
    )
    event.listen(engine, "connect", _drop_nul)
    event.listen(engine, "begin", _begin)
    return engine


class _TextDumper(StrDumper):  # type: ignore[misc] # mypy skips the package, which may not be installed
    """PostgreSQL's texts cannot contain NUL. Those of documents never do; what a model or a client gives may."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", ""))


class _BinaryTextDumper(StrBinaryDumper):  # type: ignore[misc] # as above
    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", ""))


def _drop_nul(connection: Any, _: object) -> None:
    for dumper in (_BinaryTextDumper, _TextDumper):
        connection.adapters.register_dumper(str, dumper)


def _begin(connection: Connection) -> None:
    if lock := connection.get_execution_options().get("lock"):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({KEY % lock})")
        holder = holding.get()
        if lock != TRANSACTION or not holder:
            return
        held = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %d AND pid = %d"
        if connection.exec_driver_sql(held % (WRITER, holder)).first() is None:
            raise lost_lock()


def lost_lock() -> LockLost:
    return LockLost(
        "The connection that held the writer lock was lost; another process may write now.",
        "See whether the database or a proxy before it ends idle connections, then try again.",
    )


def _check_server(engine: Engine, name: str) -> None:
    with engine.connect() as connection:
        version, encoding = connection.execute(
            text("SELECT current_setting('server_version_num')::int, current_setting('server_encoding')")
        ).one()
    if version < OLDEST * 10_000:
        raise StoreUnusable(
            f"The server of {name} is PostgreSQL {version // 10_000}; {OLDEST} is the oldest that works.",
            "Upgrade the server, or name another one.",
        )
    if encoding != "UTF8":
        raise StoreUnusable(
            f"The database {name} has the encoding {encoding}, which cannot hold every text.",
            "Create it anew: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.",
        )


def _check_schema(engine: Engine, name: str, *, read_only: bool) -> None:
    place = migrations.StorePlace(
        "The database", name, "another database", "Create a database of its own for LeanRAG."
    )
    with engine.begin() as connection:
        stored = _read_revision(connection)
    if stored == REVISION:
        return
    if read_only and stored is None:
        raise NotReady(f"The database {name} contains no store yet.", "Ingest documents first.")
    if read_only:
        raise place.make_schema_error(stored, read_only=True)
    with engine.execution_options(lock=SCHEMA).begin() as connection:
        stored = _read_revision(connection)
        place.check_revision(connection, stored, migrations.list_revisions())
        migrations.upgrade(connection, stored)


def _read_revision(connection: Connection) -> str | None:
    if connection.execute(text("SELECT to_regclass('alembic_version')")).scalar() is None:
        return None
    stored = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return str(stored) if stored else None


_CHECK = "Check the address, user and password in --database-url or LEANRAG_DATABASE_URL, and that the server runs."
_AGAIN = "Try again in a minute."


def map_errors(address: str) -> AbstractContextManager[None]:
    """Turn what the database library raises inside into a :class:`LeanRAGError` about ``address``, which has no password."""
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
