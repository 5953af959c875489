"""Run transactions on worker threads: reads at the same time, writes of this process one after another."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from anyio import to_thread
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from leanrag_engine.adapters.sql.schema.tables import UnknownFields
from leanrag_engine.core.errors import InvalidInput, LeanRAGError, StoreUnusable
from leanrag_engine.core.runtime.threads import check_time, current_chain


@dataclass(frozen=True, slots=True)
class OpenedDatabase:
    """Engines that begin transactions of three sorts, and what else differs between databases."""

    reader: Engine
    """Each transaction sees the database as it was when it began."""
    writer: Engine
    """A transaction waits until the one before it has ended, and sees what that wrote."""
    row_writer: Engine
    """For changes of single rows, which need no order. SQLite admits one writer of any sort."""
    single_writer: bool
    """Whether ``row_writer`` waits as ``writer`` does."""
    map_errors: Callable[[], AbstractContextManager[None]]
    """Turn exceptions inside the block into a :class:`LeanRAGError`."""
    overwrite_deleted: Callable[[], None]
    """Remove deleted texts from the files too, as far as this can be asked for. Raises ``Busy`` if readers prevent it."""
    check: Callable[[Connection], None] = lambda _: None
    """Read everything. Raises ``StoreUnusable`` if it is damaged."""


@contextmanager
def map_driver_errors(
    driver_error: type[Exception], map_error: Callable[[BaseException | None], LeanRAGError], place: str
) -> Iterator[None]:
    """Turn what SQLAlchemy and the driver raise inside into what ``map_error`` makes of it; messages name the ``place``."""
    try:
        yield
    except DBAPIError as problem:
        check_time()  # SQLite was interrupted, perhaps
        raise map_error(problem.orig) from problem
    except (driver_error, SQLAlchemyError) as problem:
        raise map_error(problem) from problem
    except UnknownFields as problem:
        raise StoreUnusable(
            f"The graph store {place} holds records of another version of LeanRAG ({problem}).",
            "Choose another data folder or database and index the documents again, or use the version that wrote it.",
        ) from problem
    except UnicodeEncodeError as problem:
        raise InvalidInput(
            f"The text around {problem.object[max(0, problem.start - 20) : problem.end + 20]!r} "
            f"contains half a character (position {problem.start}) and cannot be stored.",
            "Read the document again with the right encoding.",
        ) from problem


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
        """Run ``work``, within a chain of reads in the transaction of the chain. Raises ``OutOfTime``."""
        check_time()
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
