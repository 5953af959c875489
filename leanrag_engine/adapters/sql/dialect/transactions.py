"""Run transactions on worker threads: reads at the same time, writes of this process one after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from anyio import to_thread
from sqlalchemy import Connection, Engine

from .sqlite import failures, opening

P = ParamSpec("P")
T = TypeVar("T")


class Transactions:
    """Runs functions that take a connection, each in its own transaction on a worker thread."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._writer = engine.execution_options(writes=True)
        self._path = path
        # SQLite admits one writer at a time, and the others poll. This lock makes the writers of this process
        # wait without polling. It is a thread lock because an asynchronous one belongs to one event loop.
        self._writing = threading.Lock()

    async def read(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def transaction() -> T:
            with failures.map_errors(self._path), self._engine.begin() as connection:
                return work(connection, *args, **kwargs)

        return await to_thread.run_sync(transaction)

    async def write(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def transaction() -> T:
            with self._writing, failures.map_errors(self._path), self._writer.begin() as connection:
                return work(connection, *args, **kwargs)

        return await to_thread.run_sync(transaction)

    async def empty_log(self) -> None:
        """Write the WAL into the file and truncate it. Raises ``Busy`` if readers prevent it."""

        def empty() -> None:
            with failures.map_errors(self._path):
                opening.empty_log(self._engine)

        await to_thread.run_sync(empty)

    async def close(self) -> None:
        await to_thread.run_sync(self._engine.dispose)
