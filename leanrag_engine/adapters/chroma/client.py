"""Call Chroma: the client of a folder, shared within the process, and the operations on its spaces.

Measured with chromadb 1.5.9, with the consequences here:

- Closing a client stops every other one of the same folder in the process, so all stores of a folder
  share one. Importing chromadb takes a second, so the client is opened at first use.
- Rows of one insert are indexed in parallel and in no fixed order, so two builds have different HNSW graphs.
  Settings that make the search exact in practice, and ties broken by id, make results reproducible all the same
  (``HNSW``; measured by tests/programs/benchmarks/vectors.py).
- After each write and at each opening, Chroma reads from its log what was not yet synchronised with the index
  files. Our writes are large batches, and each is synchronised at once.
- The distance is ``ip`` on normalised rows, which equals their cosine and is also defined for zero rows.
- A process that is killed while it writes may leave its space broken (3 of 28 trials): see ``marks``.
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

from . import marks

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
"""Settings of the HNSW index. A wider search while building (32 neighbours, 200 candidates) took a third to twice more
time without better recall@10: 1.000 either way on 16,000 entities with vectors of MiniLM and of the fitted
embedder, 0.996 against 0.995 on 100,000 facts made from a few templates. Half as many neighbours had less
recall there (0.986). 2 is the smallest ``sync_threshold`` that Chroma accepts."""


# --- operations ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Index:
    """Operations on the spaces of an open client; all of them block."""

    folder: Path
    client: Client

    def upsert(self, space: str, ids: list[str], rows: Vectors) -> None:
        dimension = rows.shape[1]
        collection = self._whole(space, dimension)
        with marks.writing(self.folder, space):
            if collection is None:
                collection = self._create(space, dimension)
            collection.upsert(ids=ids, embeddings=rows)

    def search(self, space: str, query: Vectors, limit: int) -> list[Hit]:
        """Return the ``limit`` best hits for ``query``, a ``(1, d)`` array, best first, ties by id."""
        collection = self._whole(space, query.shape[1])
        if collection is None:
            return []
        # More hits than needed, so that ids decide between equal scores at the cut, not the order of the index.
        found = collection.query(query_embeddings=query, n_results=limit + 32, include=["distances"])
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
            with marks.writing(self.folder, space):
                collection.delete(ids=ids)

    def count(self, space: str) -> int:
        collection = self._whole(space)
        return collection.count() if collection else 0

    def ids(self, space: str) -> list[str]:
        collection = self._whole(space)
        return list(collection.get(include=[])["ids"]) if collection else []

    def spaces(self) -> list[str]:
        return sorted(collection.name for collection in self.client.list_collections())

    def drop(self, space: str) -> None:
        if self._find_collection(space) is not None:
            with marks.writing(self.folder, space):
                self.client.delete_collection(space)

    def _create(self, space: str, dimension: int) -> Collection:
        return self.client.create_collection(
            space,
            embedding_function=None,
            configuration={"hnsw": HNSW},
            metadata={"dimension": dimension},
        )

    def _whole(self, space: str, dimension: int | None = None) -> Collection | None:
        """Return the Chroma collection of a space, ``None`` if there is none.

        Raises ``StoreUnusable`` if its writer was killed, ``InvalidInput`` if its vectors have another dimension.
        """
        collection = self._find_collection(space)
        if collection is None:
            return None
        if marks.is_broken(self.folder, space):
            raise StoreUnusable(
                f"The process that wrote the vector space {space!r} was killed before it had finished.",
                "Rebuild the vector index from the graph store; no data is lost.",
            )
        expected = (collection.metadata or {}).get("dimension")
        if dimension is not None and dimension != expected:
            raise InvalidInput(
                f"The vector space {space!r} contains vectors of {expected} numbers, not of {dimension}.",
                "Use the embedder that it was built with, or rebuild the vector index.",
            )
        return collection

    def _find_collection(self, space: str) -> Collection | None:
        from chromadb.errors import NotFoundError  # noqa: PLC0415 - already imported: the client is open

        try:
            return self.client.get_collection(space, embedding_function=None)
        except NotFoundError:
            return None


# --- one client for each folder and process ------------------------------------------------


class SharedClient:
    """The client of one folder: opened at the first call, closed only while no call is running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores = 0
        self._client: Client | None = None
        self._calls = 0
        self._changed = threading.Condition()

    def run(self, work: Callable[[Index], T]) -> T:
        """Run ``work`` on the open index. Chroma's exceptions become ``StoreUnusable``."""
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
        """Move the folder aside, whatever it contains, and return its new path."""
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
"""The clients of this process by folder, with a count of the stores that use each."""
_shared_lock = threading.Lock()


def acquire_client(folder: Path) -> SharedClient:
    """Return the client of ``folder`` and count one more store that uses it."""
    with _shared_lock:
        place = folder.absolute()
        client = _shared.setdefault(place, SharedClient(place))
        client.stores += 1
        return client


def release_client(client: SharedClient) -> None:
    """Count one store less, and close the client after the last one."""
    with _shared_lock:
        client.stores -= 1
        if not client.stores:
            del _shared[client.folder]
            client.close()


def _new_client(folder: Path) -> Client:
    # Imported here because it takes a second, and keyword search and browsing do not need it.
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
    assert isinstance(client, Client)  # this class can be closed
    return client


@contextmanager
def _map_errors(folder: Path) -> Iterator[None]:
    from chromadb.errors import ChromaError  # noqa: PLC0415 - as in _new_client

    try:
        yield
    except (ChromaError, OSError) as problem:
        raise StoreUnusable(
            f"The vector index in {folder} cannot be used ({problem}).",
            "Check that the folder can be written to. If it is damaged, rebuild the vector index from the graph "
            "store; no data is lost.",
        ) from problem
