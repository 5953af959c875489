"""Allow one writer at a time on a database: an advisory lock of a connection of its own. The server releases the lock when the
connection ends, however its process ends. The last statement of the connection is a note that says who holds the lock and what for."""

import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
from anyio import to_thread
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from leanrag_engine.adapters.files.writer_lock import REPORT_SECONDS, read_note, write_note
from leanrag_engine.core.errors import StoreUnusable, first_error
from leanrag_engine.core.ports import LockHolder

from . import connecting, server
from .address import hide_password, parse_address

POLL_SECONDS = 0.25
WATCH_SECONDS = 2.0
"""How long a lost lock may be held on to; writes to the database are refused at once (see ``server.holding``)."""
PATIENCE_SECONDS = 60.0

_NOTE = re.compile(r"^SELECT /\* leanrag (\{.*\}) \*/ 1$")
_HOLDER = text(
    "SELECT activity.query FROM pg_locks AS held JOIN pg_stat_activity AS activity USING (pid)"
    " WHERE held.locktype = 'advisory' AND held.granted AND held.database = (SELECT oid FROM pg_database"
    " WHERE datname = current_database()) AND held.classid = :lock"
    " AND held.objid::bigint = hashtext(current_schema())::bigint & 4294967295"
)


@dataclass(frozen=True, slots=True)
class _Session:
    """A connection that holds the lock, the server's process for it, and the note, which stays its last statement."""

    connection: Connection
    process: int
    note: str
    _one: threading.Lock = field(default_factory=threading.Lock)

    def is_alive(self) -> bool:
        """Return whether the connection, and so the lock, is still there."""
        try:
            with self._one:
                self.connection.exec_driver_sql(self.note)
        except SQLAlchemyError:
            return False
        return True

    def close(self) -> None:
        """Release the lock at once: the server would do so only some time after the connection ended."""
        with self._one, self.connection:
            self.connection.exec_driver_sql(f"SELECT pg_advisory_unlock({server.KEY % server.WRITER})")


class PostgresWriterLock:
    """A :class:`leanrag_engine.core.ports.WriterLock` on a database. Tasks of one process exclude each other too."""

    def __init__(self, address: str) -> None:
        url = parse_address(address)
        self._name = hide_password(url)
        self._engine = connecting.open_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    @asynccontextmanager
    async def hold(
        self, purpose: str, *, waiting: Callable[[LockHolder | None], None]
    ) -> AsyncIterator[None]:
        """Wait for the lock, then hold it, as :class:`leanrag_engine.core.ports.WriterLock` specifies. A wait
        goes on if the server is away for less than a minute."""
        last_report, seen = -REPORT_SECONDS, time.monotonic()
        while True:
            try:
                with anyio.CancelScope(shield=True):  # else a cancelled wait would leave a lock behind
                    session = await to_thread.run_sync(self._take, purpose)
                if session is not None:
                    break
                holder = await self.holder()
                seen = time.monotonic()
            except StoreUnusable:
                if time.monotonic() - seen > PATIENCE_SECONDS:
                    raise
                holder = None
            if time.monotonic() - last_report >= REPORT_SECONDS:
                waiting(holder)
                last_report = time.monotonic()
            await anyio.sleep(POLL_SECONDS)
        token = server.holding.set(session.process)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, session)
                yield
                group.cancel_scope.cancel()
        except BaseExceptionGroup as problems:
            problem = first_error(problems)
            # What failed while the server was away failed because of that.
            if isinstance(problem, StoreUnusable) and not await to_thread.run_sync(session.is_alive):
                raise server.lost_lock() from problem
            raise problem from None
        finally:
            server.holding.reset(token)
            with anyio.CancelScope(shield=True), suppress(SQLAlchemyError):
                await to_thread.run_sync(session.close)

    @staticmethod
    async def _watch(session: _Session) -> None:
        """Raise ``LockLost`` once the connection is lost. A proxy does not see it idle."""
        while await to_thread.run_sync(session.is_alive):  # noqa: ASYNC110 - the server tells it when asked alone
            await anyio.sleep(WATCH_SECONDS)
        raise server.lost_lock()

    async def holder(self) -> LockHolder | None:
        """Return the present holder of the lock, ``None`` if it is free or unknown."""
        return await to_thread.run_sync(self._find_holder)

    def _take(self, purpose: str) -> _Session | None:
        """Return a connection that holds the lock; None if another one does."""
        with server.map_errors(self._name), ExitStack() as opened:
            connection = opened.enter_context(self._engine.connect())
            taken = connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({server.KEY % server.WRITER})")
            if not taken.scalar_one():
                return None
            written = write_note(purpose).replace("*/", "").replace("%", "")
            process = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            session = _Session(connection, process, f"SELECT /* leanrag {written} */ 1")
            connection.exec_driver_sql(session.note)
            opened.pop_all()
            return session

    def _find_holder(self) -> LockHolder | None:
        with server.map_errors(self._name), self._engine.connect() as connection:
            query = connection.execute(_HOLDER, {"lock": server.WRITER}).scalar()
        found = _NOTE.match(query or "")
        return read_note(found[1]) if found else None  # free, of another user, or not noted yet
