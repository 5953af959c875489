"""The vector store on embedded Chroma: one Chroma collection for each space.

Here is the port: checks at the door and the hop to a thread. What calls Chroma is in ``chroma_client``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from anyio import to_thread

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Hit, Vectors

from . import client as chroma_client
from .client import Index

T = TypeVar("T")

SPACE_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]")
UPSERT_BATCH = 2500
"""Chroma takes 5,461 rows at most and writes its map of all ids anew with each batch, so that small ones cost more.
This many take about a second: searches get in between, and a cancelled build stops soon."""
UNIT = 1e-5
"""How far from 1 a length may be for its row to count as normalised: a few roundings of float32."""
FETCH_BATCH = 500
"""Chroma fails for very long lists of ids."""


class ChromaVectorStore:
    """A :class:`leanrag_engine.core.ports.VectorStore` in ``folder``, which is made at its first use.

    At most one process may write at a time, and one that reads must ``refresh`` after another has
    written. Every method may raise ``StoreUnusable``, those that take a space's name ``InvalidInput``.
    """

    def __init__(self, folder: Path) -> None:
        self._shared = chroma_client.join(folder)

    async def upsert(self, space: str, ids: Sequence[str], vectors: Vectors) -> None:
        """Write ``vectors``, an ``(n, d)`` array, under ``ids``. Rows are normalised; zero rows are kept.

        Raises ``InvalidInput`` if an id, a number, the shape or the dimension is wrong; nothing is
        written then.
        """
        _check_name(space)
        rows = _normalise_rows(_check_rows(ids, vectors))
        for start in range(0, len(ids), UPSERT_BATCH):
            part = slice(start, start + UPSERT_BATCH)
            await self._hop(partial(Index.upsert, space=space, ids=list(ids[part]), rows=rows[part]))

    async def search(self, space: str, vector: Vectors, limit: int) -> list[Hit]:
        """The ``limit`` nearest ids to one ``(d,)`` vector by cosine similarity, best first, ties by id.

        [] if there is no such space, or if the vector is zero: it is near nothing.
        """
        _check_name(space)
        query = _normalise_rows(_check_rows(["of the query"], np.atleast_2d(vector)))
        if limit < 1 or not query.any():
            return []
        return await self._hop(partial(Index.search, space=space, query=query, limit=limit))

    async def fetch(self, space: str, ids: Sequence[str]) -> dict[str, Vectors]:
        """The ``(d,)`` vectors of those of ``ids`` that the space holds."""
        _check_name(space)
        wanted = list(dict.fromkeys(ids))
        found: dict[str, Vectors] = {}
        for start in range(0, len(wanted), FETCH_BATCH):
            batch = wanted[start : start + FETCH_BATCH]
            found |= await self._hop(partial(Index.fetch, space=space, ids=batch))
        return found

    async def delete(self, space: str, ids: Sequence[str]) -> None:
        """Remove the vectors of those of ``ids`` that the space holds. Nothing happens if there is no such space."""
        _check_name(space)
        # Chroma warns of ids that are not there.
        held = list(await self.fetch(space, ids))
        for start in range(0, len(held), FETCH_BATCH):
            await self._hop(partial(Index.delete, space=space, ids=held[start : start + FETCH_BATCH]))

    async def count(self, space: str) -> int:
        """How many vectors the space holds; 0 if there is none."""
        _check_name(space)
        return await self._hop(partial(Index.count, space=space))

    async def spaces(self) -> list[str]:
        """By name."""
        return await self._hop(Index.spaces)

    async def drop(self, space: str) -> None:
        """Remove the space, also one that is damaged. Nothing happens if there is none."""
        _check_name(space)
        await self._hop(partial(Index.drop, space=space))

    async def start_over(self) -> None:
        """Begin with an empty folder; the one before is moved aside, as nobody knows what is left in it."""
        await to_thread.run_sync(self._shared.start_over)

    async def refresh(self) -> None:
        """Close the client: another process has written. The next call opens it again."""
        await to_thread.run_sync(self._shared.close)

    async def close(self) -> None:
        """The store must not be used after this."""
        await to_thread.run_sync(chroma_client.leave, self._shared)

    async def _hop(self, work: Callable[[Index], T]) -> T:
        return await to_thread.run_sync(self._shared.run, work)


def _check_name(space: str) -> None:
    if not SPACE_NAME.fullmatch(space):
        raise InvalidInput(
            f"A vector space cannot be called {space!r}.",
            "Use 3 to 512 letters, digits, dots, hyphens and underscores, with a letter or digit at both ends.",
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
            raise InvalidInput(f"The id {id_!r} is empty or given twice.", "Give each row an id of its own.")
        seen.add(id_)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise InvalidInput(
            f"The vector {ids[int(np.argmin(finite))]!r} holds a value that is not a finite number.",
            "Embed its text again.",
        )
    return rows


def _normalise_rows(rows: Vectors) -> Vectors:
    """Rows of length 1 stay as they are, to the bit: what is fetched is what was embedded."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    kept = (lengths == 0) | (np.abs(lengths - 1) < UNIT)
    return np.asarray(rows / np.where(kept, 1, lengths), dtype=np.float32)
