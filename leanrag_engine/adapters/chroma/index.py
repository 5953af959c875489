"""Operations on vector spaces, the same for a folder and for a server: dimensions, ties, and writes that reads see at once."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from leanrag_engine.core.errors import InvalidInput, StoreUnusable
from leanrag_engine.core.model import Hit, Vectors

CONFIGURATION: dict[str, Any] = {
    "hnsw": {
        "space": "ip",
        "max_neighbors": 24,
        "ef_construction": 128,
        "ef_search": 400,
        "sync_threshold": 2,
    },
    "embedding_function": {"type": "legacy"},
}
"""Settings of a Chroma collection. A wider search while building (32 neighbours, 200 candidates) took a third to twice more
time without better recall@10: 1.000 either way on 16,000 entities with vectors of MiniLM and of the fitted
embedder, 0.996 against 0.995 on 100,000 facts made from a few templates. Half as many neighbours had less
recall there (0.986). 2 is the smallest ``sync_threshold`` that Chroma accepts."""


def is_full(message: str) -> bool:
    """Return whether an error says that the disk is full: then nothing is damaged."""
    return "disk is full" in message or "No space left on device" in message


@dataclass(frozen=True, slots=True)
class Space:
    """A vector space: Chroma's id of it, and how many numbers its vectors have."""

    id: str
    dimension: int


class ChromaClient(Protocol):
    """What Chroma offers, in a folder or on a server; all of it blocks."""

    def list_names(self) -> set[str]: ...

    def find(self, space: str) -> Space | None: ...

    def recall(self, space: str) -> Space | None:
        """Return a space that was found before, without asking whether it is still there; None if it is not known."""

    def create(self, space: str, dimension: int) -> Space: ...

    def drop(self, space: str) -> None: ...

    def is_broken(self, space: str) -> bool:
        """Return whether the space, which was just found, must not be read: its writer was killed, or a file of it is damaged."""

    def reading(self, space: str) -> AbstractContextManager[None]:
        """Enclose what reads the index of the space: no process writes to it meanwhile."""

    def writing(self, space: str) -> AbstractContextManager[None]:
        """Enclose what writes to the space: no other process reads or writes it meanwhile."""

    def upsert(self, space: Space, ids: Sequence[str], rows: Vectors) -> None: ...

    def find_nearest(self, space: Space, query: Vectors, limit: int) -> list[tuple[str, float]]:
        """Return ids and distances for a ``(1, d)`` array."""

    def fetch(self, space: Space, ids: Sequence[str]) -> tuple[list[str], Vectors]:
        """Return the ids that the space contains, and their rows in that order."""

    def list_ids(self, space: Space, ids: Sequence[str] | None = None) -> list[str]:
        """Return all ids of the space, or those of ``ids`` that it contains."""

    def delete(self, space: Space, ids: Sequence[str]) -> None: ...

    def count(self, space: Space) -> int: ...


@dataclass(frozen=True, slots=True)
class Index:
    """Operations on the spaces of an open client; all of them block."""

    client: ChromaClient

    def upsert(self, space: str, ids: Sequence[str], rows: Vectors) -> None:
        dimension = rows.shape[1]
        found = self._whole(space, dimension)
        with self.client.writing(space):
            place = found or self.client.create(space, dimension)
            # A single row is below the least ``sync_threshold``: it would stay in Chroma's log alone, and reads at the
            # same time then find what it replaced, or fail. Written twice, it is synchronised.
            for _ in range(2 if len(ids) == 1 else 1):
                self.client.upsert(place, ids, rows)

    def search(self, space: str, query: Vectors, limit: int) -> list[Hit]:
        """Return the ``limit`` best hits for ``query``, a ``(1, d)`` array, best first, ties by id."""
        with self.client.reading(space):
            # To ask Chroma for a space takes a tenth of a search.
            place = self._whole(space, query.shape[1], self.client.recall(space))
            if place is None:
                return []
            # More hits than needed, so that ids decide between equal scores at the cut, not the order of the index.
            found = self.client.find_nearest(place, query, limit + 32)
        hits = [Hit(id_, 1.0 - distance) for id_, distance in found]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    def fetch(self, space: str, ids: Sequence[str]) -> dict[str, Vectors]:
        with self.client.reading(space):
            place = self._whole(space)
            return dict(zip(*self.client.fetch(place, ids), strict=True)) if place else {}

    def delete(self, space: str, ids: Sequence[str]) -> None:
        with self.client.reading(space):
            place = self._whole(space)
            # Chroma warns about unknown ids.
            held = self.client.list_ids(place, ids) if place else ()
        if place is None or not held:
            return
        with self.client.writing(space):
            if len(held) == 1:  # see `upsert`
                self.client.upsert(place, *self.client.fetch(place, held))
            self.client.delete(place, held)

    def count(self, space: str) -> int:
        with self.client.reading(space):
            place = self._whole(space)
            return self.client.count(place) if place else 0

    def ids(self, space: str) -> list[str]:
        with self.client.reading(space):
            place = self._whole(space)
            return self.client.list_ids(place) if place else []

    def spaces(self) -> list[str]:
        return sorted(self.client.list_names())

    def drop(self, space: str) -> None:
        if self.client.find(space) is not None:
            with self.client.writing(space):
                self.client.drop(space)

    def _whole(self, space: str, dimension: int | None = None, known: Space | None = None) -> Space | None:
        """Return the space, perhaps ``known``, or ``None``. Raises ``StoreUnusable`` if it is broken, ``InvalidInput`` for another dimension."""
        found = known or self.client.find(space)
        if found is None:
            return None
        if self.client.is_broken(space):
            raise StoreUnusable(
                f"The vector space {space!r} is incomplete or damaged: a file of it is not what was written, or its writer was killed.",
                "Rebuild the vector index from the graph store; no data is lost.",
            )
        if dimension is not None and dimension != found.dimension:
            raise InvalidInput(
                f"The vector space {space!r} contains vectors of {found.dimension} numbers, not of {dimension}.",
                "Use the embedder that it was built with, or rebuild the vector index.",
            )
        return found
