"""Call Chroma: the client of a folder, shared within the process, and the operations on its spaces.

Measured with chromadb 1.5.9, with the consequences here:

- ``import chromadb`` takes 1.1 s of processor time, nearly all for parts that a local index does not use (telemetry,
  embedding functions, HTTP). So we call what its own local client calls: the compiled ``chromadb_rust_bindings``,
  which import in 30 ms; a query then takes 7 ms for 11, and writing 2,500 rows 1.0 s for 1.7. They are not a documented
  interface: pyproject.toml holds the minor version, and the tests of the vector store run every call.
- A client caches open indexes, so all stores of a folder share one.
- Rows of one insert are indexed in parallel and in no fixed order, so two builds have different HNSW graphs.
  Settings that make the search exact in practice, and ties broken by id, make results reproducible all the same
  (``HNSW``; measured by tests/programs/benchmarks/vectors.py).
- After each write and at each opening, Chroma reads from its log what was not yet synchronised with the index
  files, and reads at the same time may miss it: a replaced row, a deleted one, or the error "Nothing found on disk". So
  each write of ours is synchronised at once, single rows too (``Index._upsert``).
- The distance is ``ip`` on normalised rows, which equals their cosine and is also defined for zero rows.
- A process that is killed while it writes may leave its space broken (3 of 28 trials): see ``marks``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leanrag_engine.core.errors import InvalidInput, LeanRAGError, StoreUnusable
from leanrag_engine.core.model import Hit, Vectors

from . import marks

T = TypeVar("T")

HNSW = {
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
PLACE = ("default_tenant", "default_database")
"""Where all our spaces are; Chroma makes this tenant and database itself."""
OPEN_INDEXES = 50
"""Indexes that a client keeps open. Each has five files, and some systems allow a process 256."""


# --- operations ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Space:
    """A vector space: Chroma's id of it, and how many numbers its vectors have."""

    id: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Index:
    """Operations on the spaces of an open client; all of them block."""

    folder: Path
    client: ChromaFolder

    def upsert(self, space: str, ids: list[str], rows: Vectors) -> None:
        dimension = rows.shape[1]
        found = self._whole(space, dimension)
        with marks.writing(self.folder, space):
            place = found or self.client.create(space, dimension)
            self._upsert(place, ids, rows)

    def _upsert(self, place: Space, ids: list[str], rows: Vectors) -> None:
        # A single row is below the least ``sync_threshold``: it would stay in Chroma's log alone, and reads at the same
        # time then find what it replaced, or fail. Written twice, it is synchronised.
        for _ in range(2 if len(ids) == 1 else 1):
            self.client.calls.upsert(place.id, ids, rows.tolist(), None, None, None, *PLACE)

    def search(self, space: str, query: Vectors, limit: int) -> list[Hit]:
        """Return the ``limit`` best hits for ``query``, a ``(1, d)`` array, best first, ties by id."""
        place = self._whole(space, query.shape[1])
        if place is None:
            return []
        # More hits than needed, so that ids decide between equal scores at the cut, not the order of the index.
        most, answer = limit + 32, ["distances"]
        found = self.client.calls.query(place.id, None, query.tolist(), most, None, None, answer, *PLACE)
        pairs = zip(found.ids[0], found.distances[0], strict=True)
        hits = [Hit(id_, 1.0 - distance) for id_, distance in pairs]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    def fetch(self, space: str, ids: list[str]) -> dict[str, Vectors]:
        place = self._whole(space)
        if place is None:
            return {}
        found = self.client.calls.get(place.id, ids, None, None, 0, None, ["embeddings"], *PLACE)
        return dict(zip(found.ids, np.asarray(found.embeddings, dtype=np.float32), strict=True))

    def delete(self, space: str, ids: list[str]) -> None:
        place = self._whole(space)
        held = self.client.calls.get(place.id, ids, None, None, 0, None, [], *PLACE).ids if place else ()
        if place is None or not held:
            return
        with marks.writing(self.folder, space):
            if len(held) == 1:  # see `_upsert`
                found = self.client.calls.get(place.id, held, None, None, 0, None, ["embeddings"], *PLACE)
                self.client.calls.upsert(place.id, held, found.embeddings, None, None, None, *PLACE)
            self.client.calls.delete(place.id, held, None, None, None, *PLACE)

    def count(self, space: str) -> int:
        place = self._whole(space)
        return int(self.client.calls.count(place.id, *PLACE)) if place else 0

    def ids(self, space: str) -> list[str]:
        place = self._whole(space)
        return (
            list(self.client.calls.get(place.id, None, None, None, 0, None, [], *PLACE).ids) if place else []
        )

    def spaces(self) -> list[str]:
        return sorted(self.client.list_names())

    def drop(self, space: str) -> None:
        if self.client.find(space) is not None:
            with marks.writing(self.folder, space):
                self.client.drop(space)

    def _whole(self, space: str, dimension: int | None = None) -> Space | None:
        """Return the space, ``None`` if there is none.

        Raises ``StoreUnusable`` if its writer was killed, ``InvalidInput`` if its vectors have another dimension.
        """
        found = self.client.find(space)
        if found is None:
            return None
        if marks.is_broken(self.folder, space):
            raise StoreUnusable(
                f"The process that wrote the vector space {space!r} was killed before it had finished.",
                "Rebuild the vector index from the graph store; no data is lost.",
            )
        if dimension is not None and dimension != found.dimension:
            raise InvalidInput(
                f"The vector space {space!r} contains vectors of {found.dimension} numbers, not of {dimension}.",
                "Use the embedder that it was built with, or rebuild the vector index.",
            )
        return found


class ChromaFolder:
    """An open Chroma folder: ``calls`` are Chroma's own; spaces are found, made and dropped by name."""

    def __init__(self, folder: Path) -> None:
        # Imported here because keyword search and browsing need no vector index.
        from chromadb_rust_bindings import (  # noqa: PLC0415
            Bindings,
            MigrationHash,
            MigrationMode,
            SqliteDBConfig,
        )

        folder.mkdir(parents=True, exist_ok=True)
        self.calls: Any = Bindings(
            allow_reset=False,
            sqlite_db_config=SqliteDBConfig(
                hash_type=MigrationHash.MD5,
                migration_mode=MigrationMode.Apply,
                url=str(folder / "chroma.sqlite3"),
            ),
            hnsw_cache_size=OPEN_INDEXES,
            persist_path=str(folder),
        )
        # Looked up here first: to ask Chroma for a space that it does not have costs a second, in which it imports
        # the package that defines the error.
        self._names = self.list_names()

    def close(self) -> None:
        # An exception that is still being handled may refer to this object: it must not keep the files open.
        del self.calls

    def list_names(self) -> set[str]:
        return {each.name for each in self.calls.list_collections(None, None, *PLACE)}

    def find(self, space: str) -> Space | None:
        """Return a space; ``None`` if there is none, or another process made it after this client was opened."""
        if space not in self._names:
            return None
        try:
            found = self.calls.get_collection(space, *PLACE)
        except Exception as problem:
            from chromadb.errors import NotFoundError  # noqa: PLC0415 - already imported by whoever raised it

            if isinstance(problem, NotFoundError):
                return None
            raise
        return Space(str(found.id), found.metadata["dimension"])

    def create(self, space: str, dimension: int) -> Space:
        configuration = json.dumps({"hnsw": HNSW, "embedding_function": {"type": "legacy"}})
        metadata = {"dimension": dimension}
        made = self.calls.create_collection(space, configuration, None, metadata, False, *PLACE)
        self._names.add(space)
        return Space(str(made.id), dimension)

    def drop(self, space: str) -> None:
        self.calls.delete_collection(space, *PLACE)
        self._names.discard(space)


# --- one client for each folder and process ------------------------------------------------


class SharedClient:
    """The client of one folder: opened at the first call, closed only while no call is running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores = 0
        self._client: ChromaFolder | None = None
        self._calls = 0
        self._changed = threading.Condition()

    def run(self, work: Callable[[Index], T]) -> T:
        """Run ``work`` on the open index. Chroma's exceptions become ``StoreUnusable``."""
        with _map_errors(self.folder), self._open() as client:
            return work(Index(self.folder, client))

    @contextmanager
    def _open(self) -> Iterator[ChromaFolder]:
        with self._changed:
            client = self._client = self._client or ChromaFolder(self.folder)
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


@contextmanager
def _map_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except LeanRAGError:
        raise
    except Exception as problem:
        from chromadb.errors import ChromaError  # noqa: PLC0415 - takes a second unless Chroma has raised it

        if not isinstance(problem, (ChromaError, OSError)):
            raise
        raise StoreUnusable(
            f"The vector index in {folder} cannot be used ({problem}).",
            "Check that the folder can be written to. If it is damaged, rebuild the vector index from the graph "
            "store; no data is lost.",
        ) from problem
