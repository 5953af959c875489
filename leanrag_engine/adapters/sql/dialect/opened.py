"""An opened database, whichever it is, and how the exceptions of its libraries become errors of the engine."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from leanrag_engine.adapters.sql.schema.tables import UnknownFields
from leanrag_engine.core.errors import InvalidInput, LeanRAGError, StoreUnusable


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
