"""What calls Chroma: the client of a folder, shared within the process, and the operations on its spaces.

What was measured with chromadb 1.5.9, and what follows from it here:

- Closing a client stops every other one of the same folder in the process, so all stores of a folder
  share one. Importing chromadb takes a second: it is opened at first use.
- Rows of one insert go into the index in parallel and in no fixed order, so two builds differ in their
  HNSW graph. Settings that make the search exact in practice, and ties broken by id, give same input,
  same output (``HNSW``; measured by tests/programs/benchmarks/vectors.py).
- After each write, Chroma reads again from its log whatever was not synchronised with the index's files
  yet, and does so at every opening too. Our writes are large batches, and each is synchronised at once.
- The space is ``ip`` on normalised rows, which is their cosine, and is defined for zero rows too.
- A process that is killed while it writes may leave its space broken (3 of 28 trials): ``chroma_marks``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from leanrag_engine.core.errors import InvalidInput, StoreUnusable
from leanrag_engine.core.model import Hit, Vectors

from . import marks as chroma_marks

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.collection_configuration import CreateHNSWConfiguration
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

HNSW: CreateHNSWConfiguration = {
    "space": "ip",
    "max_neighbors": 24,
    "ef_construction": 128,
    "ef_search": 400,
    "sync_threshold": 2,
}
"""How a space is indexed. Twice as wide a search while building (32 neighbours, 200 candidates) cost a third to
double the time and found no more: recall@10 was 1.000 either way on 16,000 entities in MiniLM's and in the
built-in embedder's vectors, 0.996 against 0.995 on 100,000 facts made from a few templates. Half as many
neighbours found less there (0.986). 2 is the least ``sync_threshold``."""

TIES = 32
"""Hits fetched beyond the limit, so that equal scores at the cut are ordered by id, not by the index."""


# --- operations ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Index:
    """An open client on ``folder``; its methods block."""

    folder: Path
    client: Client

    def upsert(self, space: str, ids: list[str], rows: Vectors) -> None:
        dimension = rows.shape[1]
        collection = self._whole(space, dimension)
        with chroma_marks.writing(self.folder, space):
            if collection is None:
                collection = self._create(space, dimension)
            collection.upsert(ids=ids, embeddings=rows)

    def search(self, space: str, query: Vectors, limit: int) -> list[Hit]:
        """``query`` is a ``(1, d)`` array."""
        collection = self._whole(space, query.shape[1])
        if collection is None:
            return []
        found = collection.query(query_embeddings=query, n_results=limit + TIES, include=["distances"])
        pairs = zip(found["ids"][0], (found["distances"] or [[]])[0], strict=True)
        hits = [Hit(id_, 1.0 - distance) for id_, distance in pairs]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    def fetch(self, space: str, ids: list[str]) -> dict[str, Vectors]:
        collection = self._whole(space)
        if collection is None:
            return {}
        found = collection.get(ids=ids, include=["embeddings"])
        return dict(zip(found["ids"], np.asarray(found["embeddings"], dtype=np.float32), strict=True))

    def delete(self, space: str, ids: list[str]) -> None:
        collection = self._whole(space)
        if collection is not None:
            with chroma_marks.writing(self.folder, space):
                collection.delete(ids=ids)

    def count(self, space: str) -> int:
        collection = self._whole(space)
        return collection.count() if collection else 0

    def spaces(self) -> list[str]:
        return sorted(collection.name for collection in self.client.list_collections())

    def drop(self, space: str) -> None:
        if self._find_collection(space) is not None:
            with chroma_marks.writing(self.folder, space):
                self.client.delete_collection(space)

    def _create(self, space: str, dimension: int) -> Collection:
        return self.client.create_collection(
            space,
            embedding_function=None,
            configuration={"hnsw": HNSW},
            metadata={"dimension": dimension},
        )

    def _whole(self, space: str, dimension: int | None = None) -> Collection | None:
        """The collection, unless it is broken or holds vectors of another dimension."""
        collection = self._find_collection(space)
        if collection is None:
            return None
        if chroma_marks.is_broken(self.folder, space):
            raise StoreUnusable(
                f"The process that wrote the vector space {space!r} ended before it was done.",
                "Rebuild the vector index: it is made from the graph store, nothing is lost.",
            )
        expected = (collection.metadata or {}).get("dimension")
        if dimension is not None and dimension != expected:
            raise InvalidInput(
                f"The vector space {space!r} holds vectors of {expected} numbers, not of {dimension}.",
                "Use the embedder that it was built with, or rebuild the vector index.",
            )
        return collection

    def _find_collection(self, space: str) -> Collection | None:
        from chromadb.errors import NotFoundError  # noqa: PLC0415 - loaded already: the client is open

        try:
            return self.client.get_collection(space, embedding_function=None)
        except NotFoundError:
            return None


# --- one client for each folder and process ------------------------------------------------


class SharedClient:
    """The client of one folder: opened when first needed, closed when no call is under way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores = 0
        self._client: Client | None = None
        self._calls = 0
        self._changed = threading.Condition()

    def run(self, work: Callable[[Index], T]) -> T:
        """``work`` on the open index. Chroma's exceptions become ``StoreUnusable``."""
        with _map_errors(self.folder), self._open() as client:
            return work(Index(self.folder, client))

    @contextmanager
    def _open(self) -> Iterator[Client]:
        with self._changed:
            client = self._client = self._client or _new_client(self.folder)
            self._calls += 1
        try:
            yield client
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._calls)
            if self._client is not None:
                self._client.close()
                self._client = None

    def start_over(self) -> Path:
        """Move the folder aside, whatever it holds; gives where it lies now."""
        with self._changed:
            self._changed.wait_for(lambda: not self._calls)
            if self._client is not None:
                self._client.close()
                self._client = None
            aside = next(
                place
                for place in (self.folder.with_name(f"{self.folder.name}.damaged-{n}") for n in count(1))
                if not place.exists()
            )
            with _map_errors(self.folder):
                self.folder.rename(aside)
            return aside


_shared: dict[Path, SharedClient] = {}
"""The clients of this process by folder: a cache that a store joins when it is made and leaves when closed."""
_shared_lock = threading.Lock()


def join(folder: Path) -> SharedClient:
    with _shared_lock:
        place = folder.absolute()
        client = _shared.setdefault(place, SharedClient(place))
        client.stores += 1
        return client


def leave(client: SharedClient) -> None:
    with _shared_lock:
        client.stores -= 1
        if not client.stores:
            del _shared[client.folder]
            client.close()


def _new_client(folder: Path) -> Client:
    # Here because it takes a second, and keyword search and browsing do without.
    from chromadb import PersistentClient  # noqa: PLC0415
    from chromadb.api.client import Client  # noqa: PLC0415
    from chromadb.config import Settings  # noqa: PLC0415
    from chromadb.errors import ChromaError  # noqa: PLC0415

    try:
        client = PersistentClient(folder, settings=Settings(anonymized_telemetry=False))
    except ChromaError:
        # Otherwise Chroma returns the half-made client from its cache at the next attempt.
        Client.clear_system_cache()
        raise
    assert isinstance(client, Client)  # the kind that can be closed
    return client


@contextmanager
def _map_errors(folder: Path) -> Iterator[None]:
    from chromadb.errors import ChromaError  # noqa: PLC0415 - as in _new_client

    try:
        yield
    except (ChromaError, OSError) as problem:
        raise StoreUnusable(
            f"The vector index in {folder} cannot be used ({problem}).",
            "Check that the folder can be written to. If it is damaged, rebuild the vector index: it is made "
            "from the graph store, nothing is lost.",
        ) from problem
