"""Allow one writer at a time on a database: an advisory lock of a connection of its own.

The server releases the lock when the connection ends, however its process ends. The last statement of the connection is a
note that says who holds the lock and what for.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import anyio
from anyio import to_thread
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from leanrag_engine.adapters.files.writer_lock import REPORT_SECONDS
from leanrag_engine.core.ports import LockHolder

from . import failures, server
from .address import hide_password, parse_address

POLL_SECONDS = 0.25

_NOTE = re.compile(r"^SELECT /\* leanrag (\{.*\}) \*/ 1$")
_HOLDER = text(
    "SELECT activity.query FROM pg_locks AS held JOIN pg_stat_activity AS activity USING (pid)"
    " WHERE held.locktype = 'advisory' AND held.granted AND held.database = (SELECT oid FROM pg_database"
    " WHERE datname = current_database()) AND held.classid = :lock"
    " AND held.objid::bigint = hashtext(current_schema())::bigint & 4294967295"
)


class PostgresWriterLock:
    """A :class:`leanrag_engine.core.ports.WriterLock` on a database. Tasks of one process exclude each other too."""

    def __init__(self, address: str) -> None:
        url = parse_address(address)
        self._name = hide_password(url)
        self._engine: Engine = create_engine(
            url,
            connect_args=server.CONNECTION | dict(url.query),
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
        )

    @asynccontextmanager
    async def hold(
        self, purpose: str, *, waiting: Callable[[LockHolder | None], None]
    ) -> AsyncIterator[None]:
        """Wait for the lock, then hold it, as :class:`leanrag_engine.core.ports.WriterLock` specifies."""
        connection = await to_thread.run_sync(self._connect)
        try:
            last_report = -REPORT_SECONDS
            while not await to_thread.run_sync(self._try, connection, purpose):
                if time.monotonic() - last_report >= REPORT_SECONDS:
                    waiting(await self.holder())
                    last_report = time.monotonic()
                await anyio.sleep(POLL_SECONDS)
            yield
        finally:
            with anyio.CancelScope(shield=True), suppress(SQLAlchemyError):
                await to_thread.run_sync(connection.close)

    async def holder(self) -> LockHolder | None:
        """Return the present holder of the lock, ``None`` if it is free or unknown."""
        return await to_thread.run_sync(self._find_holder)

    def _connect(self) -> Connection:
        with failures.map_errors(self._name):
            return self._engine.connect()

    def _try(self, connection: Connection, purpose: str) -> bool:
        with failures.map_errors(self._name):
            taken = connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({server.KEY % server.WRITER})")
            if not taken.scalar_one():
                return False
            note = {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "purpose": purpose,
                "since": datetime.now(UTC).isoformat(),
            }
            written = json.dumps(note).replace("*/", "").replace("%", "")
            connection.exec_driver_sql(f"SELECT /* leanrag {written} */ 1")
            return True

    def _find_holder(self) -> LockHolder | None:
        with failures.map_errors(self._name), self._engine.connect() as connection:
            query = connection.execute(_HOLDER, {"lock": server.WRITER}).scalar()
        found = _NOTE.match(query or "")
        if found is None:  # free, of another user, or not noted yet
            return None
        note = json.loads(found[1])
        return LockHolder(note["pid"], note["host"], note["purpose"], datetime.fromisoformat(note["since"]))
