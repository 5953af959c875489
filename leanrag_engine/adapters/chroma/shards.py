"""Spread the rows of each space over several Chroma collections of a server, which are searched at the same
time, by a digest of their ids. The number of shards belongs to a space."""

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import chain
from typing import TypeVar

import numpy as np

from leanrag_engine.core.model import Vectors

from .index import ChromaClient, Space

T = TypeVar("T")

_MARK = ".shard"


class ShardedClient:
    """A :class:`.index.ChromaClient` whose new spaces have ``shards`` collections each; ``client`` calls Chroma."""

    def __init__(self, client: ChromaClient, shards: int) -> None:
        self._client = client
        self._shards = shards
        self._known: set[str] = (
            set()
        )  # spaces with shards: to look for a collection that is not there takes a request
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="chroma-shards")

    def close(self) -> None:
        self._pool.shutdown(wait=False)

    # --- spaces ---------------------------------------------------------------------------

    def list_names(self) -> set[str]:
        return {name.partition(_MARK)[0] for name in self._client.list_names()}

    def find(self, space: str) -> Space | None:
        """Return the space; None also if it lacks a shard, because its writer was killed while it made them."""
        if space not in self._known and (whole := self._client.find(space)) is not None:
            return whole
        first = self._client.find(_name_shard(space, 0))
        if first is None:
            return self._client.find(space) if space in self._known else None
        self._known.add(space)
        others = [self._client.find(_name_shard(space, number)) for number in range(1, first.shards)]
        parts = [first, *(each for each in others if each is not None)]
        return _unite(parts) if len(parts) == first.shards else None

    def recall(self, space: str) -> Space | None:  # noqa: ARG002 - of a folder only: another machine may write to a server
        return None

    def create(self, space: str, dimension: int, shards: int = 0) -> Space:
        """Make a space of ``shards`` collections, by default those of the setting."""
        wanted = shards or self._shards
        if wanted == 1:
            return self._client.create(space, dimension)
        self._known.add(space)
        return _unite(
            [self._client.create(_name_shard(space, number), dimension, wanted) for number in range(wanted)]
        )

    def drop(self, space: str) -> None:
        for name in sorted(self._client.list_names()):
            if name.partition(_MARK)[0] == space:
                self._client.drop(name)

    def is_broken(self, space: str) -> bool:
        return self._client.is_broken(space)

    def reading(self, space: str) -> AbstractContextManager[None]:
        return self._client.reading(space)

    def writing(self, space: str) -> AbstractContextManager[None]:
        return self._client.writing(space)

    # --- rows -----------------------------------------------------------------------------

    def upsert(self, space: Space, ids: Sequence[str], rows: Vectors) -> None:
        def write(part: Space, places: list[int]) -> None:
            for _ in range(2 if len(places) == 1 else 1):  # see `Index.upsert`
                self._client.upsert(part, [ids[place] for place in places], rows[places])

        self._of_each(write, space, ids)

    def find_nearest(self, space: Space, query: Vectors, limit: int) -> list[tuple[str, float]]:
        if not space.parts:
            return self._client.find_nearest(space, query, limit)
        found = self._pool.map(lambda part: self._client.find_nearest(part, query, limit), space.parts)
        return sorted(chain.from_iterable(found), key=lambda hit: hit[1])[:limit]

    def fetch(self, space: Space, ids: Sequence[str]) -> tuple[list[str], Vectors]:
        found = self._of_each(
            lambda part, places: self._client.fetch(part, [ids[place] for place in places]), space, ids
        )
        held = [row for _, row in found if len(row)]
        rows = np.concatenate(held) if held else np.zeros((0, space.dimension), dtype=np.float32)
        return [id_ for each, _ in found for id_ in each], rows

    def list_ids(self, space: Space, ids: Sequence[str] | None = None) -> list[str]:
        if ids is None:
            return [id_ for part in space.parts or [space] for id_ in self._client.list_ids(part)]
        found = self._of_each(
            lambda part, places: self._client.list_ids(part, [ids[place] for place in places]), space, ids
        )
        return list(chain.from_iterable(found))

    def delete(self, space: Space, ids: Sequence[str]) -> None:
        def remove(part: Space, places: list[int]) -> None:
            wanted = [ids[place] for place in places]
            if len(wanted) == 1:  # see `Index.upsert`
                self._client.upsert(part, *self._client.fetch(part, wanted))
            self._client.delete(part, wanted)

        self._of_each(remove, space, ids)

    def count(self, space: Space) -> int:
        return sum(map(self._client.count, space.parts or [space]))

    def _of_each(self, work: Callable[[Space, list[int]], T], space: Space, ids: Sequence[str]) -> list[T]:
        """Call ``work`` with each part of a space that has some of the ids, and with their places."""
        if not space.parts:
            return [work(space, list(range(len(ids))))]
        places: dict[int, list[int]] = {}
        for place, id_ in enumerate(ids):
            # The shard of an id is the same on every machine.
            places.setdefault(zlib.crc32(id_.encode()) % len(space.parts), []).append(place)
        return list(self._pool.map(lambda number: work(space.parts[number], places[number]), sorted(places)))


def _name_shard(space: str, number: int) -> str:
    return f"{space}{_MARK}{number}"


def _unite(parts: Sequence[Space]) -> Space:
    return Space(parts[0].id, parts[0].dimension, parts[0].shards, tuple(parts))
