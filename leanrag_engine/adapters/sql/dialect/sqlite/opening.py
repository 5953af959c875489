"""Open the database file, and copy it: pragmas, start of transactions, schema check and migration. WAL: readers never wait for
a writer. ``synchronous=FULL``: what a client was told survives a power cut, for 0.3 ms a commit on an idle disk and 7 on a busy one."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from leanrag_engine.adapters.files.writer_lock import exclusive
from leanrag_engine.adapters.sql.dialect.transactions import OpenedDatabase, map_driver_errors
from leanrag_engine.adapters.sql.schema import migrations
from leanrag_engine.adapters.sql.schema.tables import REVISION
from leanrag_engine.core.errors import Busy, InvalidInput, LeanRAGError, NotReady, StoreUnusable
from leanrag_engine.core.runtime.threads import is_over

FILE = "graph.sqlite3"
BUSY_SECONDS = 30.0
"""How long SQLite waits for another process's write: a large publish takes seconds, and a tool call may take at most 45 s."""

_PRAGMAS = (
    "PRAGMA foreign_keys=ON",
    "PRAGMA synchronous=FULL",
    "PRAGMA cache_size=-16384",  # 16 MB per connection; measured, more does not make a publish faster
    "PRAGMA temp_store=MEMORY",
    "PRAGMA secure_delete=ON",  # overwrite deleted texts, which would otherwise stay in free pages
    "PRAGMA journal_size_limit=67108864",  # shorten the WAL after a large publish
)


def open_file(folder: Path, *, read_only: bool) -> OpenedDatabase:
    """Return the opened store in ``folder``. Raises as :func:`open_engine`."""
    try:
        engine = open_engine(folder, read_only=read_only)
    except PermissionError as problem:
        raise StoreUnusable(
            f"The data folder {folder} cannot be looked into: {problem.strerror}.",
            "Change its owner or permissions, or choose another data folder.",
        ) from problem
    writer = engine.execution_options(writes=True)
    path = folder / FILE
    return OpenedDatabase(
        reader=engine,
        writer=writer,
        row_writer=writer,
        single_writer=True,
        map_errors=partial(map_errors, path),
        overwrite_deleted=partial(empty_log, engine),
        check=partial(check_pages, path),
    )


def open_engine(folder: Path, *, read_only: bool) -> Engine:
    """Return an engine on the store in ``folder``, created or migrated unless ``read_only``. Raises
    ``StoreUnusable`` if it cannot be used, ``NotReady`` if there is nothing to open read-only."""
    path = folder / FILE
    if folder.is_file():
        raise StoreUnusable(f"{folder} is a file, not a folder.", "Choose another data folder.")
    _check_size(path)
    if read_only:
        if not path.exists():
            raise NotReady(f"The data folder {folder} contains no store yet.", "Ingest documents first.")
    else:
        _make_writable_folder(folder, path)
    with map_errors(path):
        engine = _engine(path, read_only=read_only)
        try:
            _check_schema(engine, path, read_only=read_only)
        except BaseException:
            engine.dispose()
            raise
    return engine


def _check_size(path: Path) -> None:
    """Raise ``StoreUnusable`` if the file has lost its content: a new store has no vectors and arrays beside it."""
    log = path.with_name(f"{path.name}-wal")
    is_empty = not any(each.exists() and each.stat().st_size for each in (path, log))
    if is_empty and any((path.parent / name).exists() for name in ("vectors", "arrays")):
        raise StoreUnusable(
            f"The database {path} is empty or missing, though there was a store here: its content is lost.",
            "Restore a backup into a new folder, or remove the folders vectors and arrays to begin an empty store here.",
        )


def _make_writable_folder(folder: Path, path: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise not_writable(folder, str(problem)) from problem
    for place in (folder, path):
        if place.exists() and not os.access(place, os.W_OK):
            raise not_writable(folder, f"no permission to write {place.name}")


def _engine(path: Path, *, read_only: bool) -> Engine:
    frozen = read_only and _is_frozen(path)
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=partial(_connect, path, read_only=read_only),
        # Whether the file is frozen is checked for each new connection: see _is_frozen.
        poolclass=NullPool if frozen else QueuePool,
        **({} if frozen else {"pool_size": 8, "max_overflow": -1}),
    )
    event.listen(engine, "begin", _begin)
    return engine


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    mode = "rwc" if not read_only else "ro&immutable=1" if _is_frozen(path) else "ro"
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions begin in _begin, not implicitly in the driver
        check_same_thread=False,  # the pool hands a connection to one thread at a time
    )
    connection.set_progress_handler(is_over, 100_000)  # instructions, which take a millisecond or two
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def empty_log(engine: Engine) -> None:
    """Write the WAL into the file and truncate it, unless a reader still uses it: deleted texts stay in it."""
    with engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")  # a checkpoint is not possible within a transaction
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def check_pages(path: Path, connection: Connection) -> None:
    """Read all pages of the file. Raises ``StoreUnusable`` if they do not fit together."""
    if (verdict := connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()) != "ok":
        raise make_damage_error(path, verdict)


def _is_frozen(path: Path) -> bool:
    """Return whether the file must be opened as immutable: in a read-only folder SQLite cannot coordinate
    readers and writers. With a WAL it must not: another process writes through another mount."""
    log = path.with_name(f"{path.name}-wal")
    return not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size)


def _begin(connection: Connection) -> None:
    # IMMEDIATE: a transaction that reads first and writes later would fail without waiting if another one wrote in
    # between.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_schema(engine: Engine, path: Path, *, read_only: bool) -> None:
    stored = read_revision(engine)
    if stored == REVISION:
        return
    if read_only:
        raise _place(path).make_schema_error(stored, read_only=True)
    migrate(engine, path)


def read_revision(engine: Engine) -> str | None:
    with engine.begin() as connection:
        return _read_revision(connection)


def _read_revision(connection: Connection) -> str | None:
    try:
        row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    except DBAPIError as problem:
        if "no such table" in str(problem.orig):
            return None
        raise
    return str(row[0]) if row else None


def migrate(engine: Engine, path: Path, steps: Path = migrations.FOLDER) -> None:
    """Create or upgrade the schema in one transaction, unless another process did. Raises as :meth:`StorePlace.check_revision`."""
    # The switch to WAL does not wait for other connections: without the lock, two processes that open a new
    # folder at the same time would both fail with "locked".
    with exclusive(path.with_name("schema.lock")):
        with engine.begin() as connection:
            stored = _read_revision(connection)
            _place(path).check_revision(connection, stored, migrations.list_revisions(steps))
        with closing(_connect(path, read_only=False)) as alone:
            alone.execute("PRAGMA journal_mode=WAL")
        with engine.execution_options(writes=True).begin() as connection:
            migrations.upgrade(connection, stored, steps)


def _place(path: Path) -> migrations.StorePlace:
    return migrations.StorePlace(
        "The graph store",
        str(path),
        "another data folder",
        "Choose another data folder, or move that file away.",
    )


def copy_file(folder: Path, target: Path, report: Callable[[int, int], None]) -> None:
    """Copy the database of ``folder`` into ``target`` as it is at one moment, while other processes read and write it;
    ``report`` gets the bytes done and all. Raises ``StoreUnusable``."""
    path = folder / FILE
    address = f"file:{quote(str(path))}?mode=ro"
    try:
        with (
            closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as source,
            closing(sqlite3.connect(target / FILE, isolation_level=None)) as copy,
        ):
            # One transaction from beginning to end: without it a writer would make the copying begin again.
            source.execute("BEGIN")
            (size,) = source.execute("PRAGMA page_size").fetchone()
            if source.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                raise StoreUnusable(f"{path} is empty.", "`leanrag doctor` says what is wrong.")
            # 4,096 pages, 16 MB, are copied between two reports.
            source.backup(
                copy, pages=4096, progress=lambda _, left, all_: report((all_ - left) * size, all_ * size)
            )
            (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as problem:
        is_full = problem.sqlite_errorcode == sqlite3.SQLITE_FULL
        raise StoreUnusable(
            f"{path} cannot be copied to {target}: {problem}.",
            "Make room, or name another place." if is_full else "`leanrag doctor` says what is wrong.",
        ) from problem
    if verdict != "ok":
        raise make_damage_error(path, verdict)


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
