"""The vector store on Chroma, in a folder or on a server: checks arguments and runs calls on worker threads;
``index`` says what they do, ``client`` and ``server`` call Chroma."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from anyio import to_thread

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Hit, Vectors
from leanrag_engine.core.runtime.threads import run_blocking

from .client import acquire_client
from .index import Index

if TYPE_CHECKING:
    from .server import ChromaServer

T = TypeVar("T")

SPACE_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]")


UPSERTED = 2500
"""Rows per upsert. Chroma accepts 5,461 at most and rewrites its map of all ids with each batch, so small batches
are slow. This many take about a second: searches run in between, and a cancelled build stops soon."""
IDS = 500  # Ids per fetch or delete: Chroma fails for very long lists of ids


class ChromaVectorStore:
    """A :class:`leanrag_engine.core.ports.VectorStore` in a folder, which is created at its first use, or on a
    server. Everything in it can be rebuilt from the database. At most one process may write at a time, and a reading
    process must ``refresh`` after another one has written. Every method may raise ``StoreUnusable``, those that take
    a space's name ``InvalidInput``."""

    def __init__(self, place: "Path | ChromaServer") -> None:
        # Either runs operations on its index; all of its methods block.
        self._connection = acquire_client(place) if isinstance(place, Path) else place

    async def upsert(self, space: str, ids: Sequence[str], vectors: Vectors) -> None:
        """Write ``vectors`` (n, d) under ``ids``, normalised; zero rows stay. Raises ``InvalidInput`` before any is written."""
        _check_name(space)
        rows = _normalise_rows(_check_rows(ids, vectors))
        for start in range(0, len(ids), UPSERTED):
            part = slice(start, start + UPSERTED)
            await self._run(partial(Index.upsert, space=space, ids=list(ids[part]), rows=rows[part]))

    async def search(self, space: str, vector: Vectors, limit: int) -> list[Hit]:
        """Return the ``limit`` ids of highest cosine to a (d,) vector, best first, ties by id; [] for a zero vector or no space."""
        _check_name(space)
        query = _normalise_rows(_check_rows(["of the query"], np.atleast_2d(vector)))
        if limit < 1 or not query.any():
            return []
        return await self._run(partial(Index.search, space=space, query=query, limit=limit))

    async def fetch(self, space: str, ids: Sequence[str]) -> dict[str, Vectors]:
        _check_name(space)
        wanted = list(dict.fromkeys(ids))
        found: dict[str, Vectors] = {}
        for start in range(0, len(wanted), IDS):
            found |= await self._run(partial(Index.fetch, space=space, ids=wanted[start : start + IDS]))
        return found

    async def delete(self, space: str, ids: Sequence[str]) -> None:
        """Remove the vectors of those of ``ids`` that the space holds."""
        _check_name(space)
        wanted = list(dict.fromkeys(ids))
        for start in range(0, len(wanted), IDS):
            await self._run(partial(Index.delete, space=space, ids=wanted[start : start + IDS]))

    async def count(self, space: str) -> int:
        _check_name(space)
        return await self._run(partial(Index.count, space=space))

    async def ids(self, space: str) -> list[str]:
        """Return the ids of all vectors in the space; [] if there is no such space."""
        _check_name(space)
        return await self._run(partial(Index.ids, space=space))

    async def spaces(self) -> list[str]:
        """Return the names of all spaces, sorted."""
        return await self._run(Index.spaces)

    async def drop(self, space: str) -> None:
        """Delete the space, even a damaged one; do nothing if it does not exist."""
        _check_name(space)
        await self._run(partial(Index.drop, space=space))

    async def start_over(self) -> None:
        """Begin with an empty index, where not even a space can be dropped: a folder is moved aside, because its content is unknown; a server's is deleted."""
        await to_thread.run_sync(self._connection.start_over)

    async def refresh(self) -> None:
        """Discard everything cached, since another process has written."""
        await run_blocking(self._connection.refresh)

    async def close(self) -> None:
        """Release the connection; the store must not be used afterwards."""
        await to_thread.run_sync(self._connection.close)

    async def _run(self, work: Callable[[Index], T]) -> T:
        return await run_blocking(self._connection.run, work)


def _check_name(space: str) -> None:
    if not SPACE_NAME.fullmatch(space):
        raise InvalidInput(
            f"A vector space cannot be called {space!r}.",
            "Use 3 to 512 letters, digits, dots, hyphens and underscores; begin and end with a letter or digit.",
        )


def _check_rows(ids: Sequence[str], vectors: Vectors) -> Vectors:
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.shape != (len(ids), rows.shape[-1]):
        raise InvalidInput(
            f"{len(ids)} ids came with vectors of shape {rows.shape}.", "Give one row for each id."
        )
    seen: set[str] = set()
    for id_ in ids:
        if not id_ or id_ in seen:
            raise InvalidInput(f"The id {id_!r} is empty or given twice.", "Give each row a unique id.")
        seen.add(id_)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise InvalidInput(
            f"The vector {ids[int(np.argmin(finite))]!r} contains a value that is not a finite number.",
            "Embed its text again.",
        )
    return rows


def _normalise_rows(rows: Vectors) -> Vectors:
    """Return the rows with length 1; zero rows and those of length 1 but for rounding stay unchanged to the bit."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    tolerance = 1e-5
    unchanged = (lengths == 0) | (np.abs(lengths - 1) < tolerance)
    return np.asarray(rows / np.where(unchanged, 1, lengths), dtype=np.float32)
