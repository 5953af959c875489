"""Run transactions on worker threads: reads at the same time, writes of this process one after another."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from anyio import to_thread
from sqlalchemy import Connection

from leanrag_engine.core.runtime.threads import current_chain

from .opened import OpenedDatabase

P = ParamSpec("P")
T = TypeVar("T")


class Transactions:
    """Runs functions that take a connection, each in its own transaction on a worker thread."""

    def __init__(self, database: OpenedDatabase) -> None:
        self._database = database
        # The database admits one writer at a time, and the others poll or hold a connection. This lock makes the
        # writers of this process wait without either. It is a thread lock because an asynchronous one belongs to
        # one event loop.
        self._writing = threading.Lock()
        self._writing_row = self._writing if database.single_writer else nullcontext()

    async def read(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``work``, within a chain of reads in the transaction of the chain."""
        chain = current_chain()
        if chain is not None:
            with self._database.map_errors():
                return work(chain.share(self, self._begin_reading), *args, **kwargs)
        return await to_thread.run_sync(partial(self.read_now, work, *args, **kwargs))

    def read_now(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` in a transaction of its own on this thread, which waits."""
        with self._begin_reading() as connection:
            return work(connection, *args, **kwargs)

    @contextmanager
    def _begin_reading(self) -> Iterator[Connection]:
        with self._database.map_errors(), self._database.reader.begin() as connection:
            yield connection

    async def write(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def transaction() -> T:
            with self._writing, self._database.map_errors(), self._database.writer.begin() as connection:
                return work(connection, *args, **kwargs)

        return await to_thread.run_sync(transaction)

    async def write_row(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Write, without waiting for other writers where the database allows that: ``work`` changes one row."""

        def transaction() -> T:
            engine = self._database.row_writer
            with self._writing_row, self._database.map_errors(), engine.begin() as connection:
                return work(connection, *args, **kwargs)

        return await to_thread.run_sync(transaction)

    async def overwrite_deleted(self) -> None:
        """Remove deleted texts from the files too, as far as this can be asked for. Raises ``Busy`` if readers prevent it."""

        def overwrite() -> None:
            with self._database.map_errors():
                self._database.overwrite_deleted()

        await to_thread.run_sync(overwrite)

    async def check(self) -> None:
        await self.read(self._database.check)

    async def close(self) -> None:
        await to_thread.run_sync(self._database.reader.dispose)
