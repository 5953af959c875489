"""Call Chroma in a folder: a client that all stores of a process share.

Measured with chromadb 1.5.9, with the consequences here:

- ``import chromadb`` takes 1.1 s of processor time, nearly all for parts that a local index does not use (telemetry,
  embedding functions, HTTP). So we call what its own local client calls: the compiled ``chromadb_rust_bindings``,
  which import in 30 ms; a query then takes 7 ms for 11, and writing 2,500 rows 1.0 s for 1.7. They are not a documented
  interface: pyproject.toml holds the minor version, and the tests of the vector store run every call.
- A client caches open indexes, so all stores of a folder share one.
- Rows of one insert are indexed in parallel and in no fixed order, so two builds have different HNSW graphs.
  Settings that make the search exact in practice, and ties broken by id, make results reproducible all the same
  (``index.CONFIGURATION``; measured by tests/programs/benchmarks/vectors.py).
- After each write and at each opening, Chroma reads from its log what was not yet synchronised with the index
  files, and reads at the same time may miss it: a replaced row, a deleted one, or the error "Nothing found on disk". So
  each write of ours is synchronised at once, single rows too (``Index.upsert``).
- The distance is ``ip`` on normalised rows, which equals their cosine and is also defined for zero rows.
- A process that is killed while it writes may leave its space broken (3 of 28 trials): see ``locks``.
- It ends the process that opens an index whose rows or header are cut or overwritten. So each write is followed by a
  checksum beside the files, which is compared when they have changed since this process last looked.
- A process that reads a space while another one writes it may crash, as the files are changed in place: see ``locks``.
"""

import json
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leanrag_engine.core.errors import LeanRAGError, StoreUnreachable, StoreUnusable
from leanrag_engine.core.model import Vectors
from leanrag_engine.core.runtime.checksums import checksum_of

from . import locks
from .index import CONFIGURATION, Index, Space, is_full

T = TypeVar("T")

HEADER = struct.Struct("<i6Qii3QdQ")
"""The header of an HNSW index: its version, an offset, the rows that there is room for, those that there are, their size ..."""

FILES = ("header.bin", "data_level0.bin", "length.bin", "link_lists.bin", "index_metadata.pickle")
"""The files of an index."""
CHECKSUM = "checksum"  # The file beside them, which goes with their folder

PLACE = ("default_tenant", "default_database")
"""Where all our spaces are; Chroma makes this tenant and database itself."""


class ChromaFolder:
    """A :class:`.index.ChromaClient` of an open folder; ``calls`` are Chroma's own."""

    def __init__(self, folder: Path) -> None:
        # Imported here because keyword search and browsing need no vector index.
        from chromadb_rust_bindings import Bindings, MigrationHash, MigrationMode, SqliteDBConfig  # noqa: PLC0415

        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.calls: Any = Bindings(
            allow_reset=False,
            sqlite_db_config=SqliteDBConfig(
                hash_type=MigrationHash.MD5,
                migration_mode=MigrationMode.Apply,
                url=str(folder / "chroma.sqlite3"),
            ),
            hnsw_cache_size=50,  # each index has five files, and some systems allow a process 256
            persist_path=str(folder),
        )
        # Looked up here first: to ask Chroma for a space that it does not have costs a second, in which it imports
        # the package that defines the error.
        self._names = self.list_names()
        self._recent: dict[str, Space] = {}
        self._folders: dict[str, Path] = {}
        """The folders of the indexes, by the id of their space."""
        self._checked: dict[str, list[tuple[int, ...]]] = {}
        """Size, time and place of the files of an index that was whole, by the id of its space."""

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
            if _is_not_found(problem):
                return None
            raise
        place = self._recent[space] = Space(str(found.id), found.metadata["dimension"])
        return place

    def recall(self, space: str) -> Space | None:
        return self._recent.get(space)

    def create(self, space: str, dimension: int) -> Space:
        metadata = {"dimension": dimension}
        made = self.calls.create_collection(space, json.dumps(CONFIGURATION), None, metadata, False, *PLACE)
        self._names.add(space)
        return Space(str(made.id), dimension)

    def drop(self, space: str) -> None:
        self._recent.pop(space, None)
        self.calls.delete_collection(space, *PLACE)
        self._names.discard(space)

    def is_broken(self, space: str) -> bool:
        return locks.is_broken(self.folder, space) or self._is_damaged(self._recent[space])

    def _is_damaged(self, place: Space) -> bool:
        """Return whether a file of the index is not what was written, or, without a checksum, shorter than its header
        says, or one is missing though there are rows."""
        try:
            folder = self._find_folder(place)
            if not all((folder / name).exists() for name in FILES):  # Chroma begins it anew, without the rows
                return folder != self.folder and self.count(place) > 0
            states = [_state_of(folder / name) for name in FILES]
            if self._checked.get(place.id) == states:
                return False
            header = (folder / "header.bin").read_bytes()
            if len(header) != HEADER.size:
                return True
            _, _, _, count, size, *_ = HEADER.unpack(header)
            rows, links = ((folder / name).stat().st_size for name in ("data_level0.bin", "link_lists.bin"))
            kept = folder / CHECKSUM
            if (
                rows < count * size
                or links < count * 4
                or (kept.exists() and kept.read_bytes() != _sum(folder))
            ):
                return True
        except (sqlite3.Error, OSError):
            return False
        self._checked[place.id] = states
        return False

    def _find_folder(self, place: Space) -> Path:
        """Return the folder of an index, that of all if it has none."""
        if place.id in self._folders:
            return self._folders[place.id]
        database = (self.folder / "chroma.sqlite3").absolute().as_uri()
        asked = "SELECT id FROM segments WHERE collection = ? AND scope = 'VECTOR'"
        with closing(sqlite3.connect(f"{database}?mode=ro", uri=True)) as opened:
            (name,) = opened.execute(asked, [place.id]).fetchone() or ("",)
        return self._folders.setdefault(place.id, self.folder / str(name)) if name else self.folder

    def reading(self, space: str) -> AbstractContextManager[None]:
        return locks.hold_shared(self.folder, space)

    @contextmanager
    def writing(self, space: str) -> Iterator[None]:
        with locks.hold_exclusive(self.folder, space), locks.writing(self.folder, space):
            yield
            place = self.find(space)
            # There is no index if the space was dropped.
            with suppress(sqlite3.Error, FileNotFoundError):
                if place and (folder := self._find_folder(place)) != self.folder:
                    (folder / CHECKSUM).write_bytes(_sum(folder))
                    self._checked[place.id] = [_state_of(folder / name) for name in FILES]

    def upsert(self, space: Space, ids: Sequence[str], rows: Vectors) -> None:
        self.calls.upsert(space.id, ids, rows.tolist(), None, None, None, *PLACE)

    def find_nearest(self, space: Space, query: Vectors, limit: int) -> list[tuple[str, float]]:
        try:
            found = self.calls.query(space.id, None, query.tolist(), limit, None, None, ["distances"], *PLACE)
        except Exception as problem:
            if not _is_not_found(problem):
                raise
            self._recent.clear()  # another process has dropped it
            return []
        return list(zip(found.ids[0], found.distances[0], strict=True))

    def fetch(self, space: Space, ids: Sequence[str]) -> tuple[list[str], Vectors]:
        found = self.calls.get(space.id, ids, None, None, 0, None, ["embeddings"], *PLACE)
        return list(found.ids), np.asarray(found.embeddings, dtype=np.float32)

    def list_ids(self, space: Space, ids: Sequence[str] | None = None) -> list[str]:
        return list(self.calls.get(space.id, ids, None, None, 0, None, [], *PLACE).ids)

    def delete(self, space: Space, ids: Sequence[str]) -> None:
        self.calls.delete(space.id, ids, None, None, None, *PLACE)

    def count(self, space: Space) -> int:
        return int(self.calls.count(space.id, *PLACE))


def _state_of(file: Path) -> tuple[int, ...]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


def _sum(folder: Path) -> bytes:
    """Return a checksum of the files of an index."""
    return b"%08x" % checksum_of(*(folder / name for name in FILES))


def _is_not_found(problem: Exception) -> bool:
    from chromadb.errors import NotFoundError  # noqa: PLC0415 - already imported where it was raised

    return isinstance(problem, NotFoundError)


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
            return work(Index(client))

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

    def refresh(self) -> None:
        """Close the client, once no call is running; the next call opens it again."""
        with self._changed:
            self._close_client()

    def _close_client(self) -> None:
        self._changed.wait_for(lambda: not self._calls)
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        """Count one store less, and close the client after the last one."""
        with _shared_lock:
            self.stores -= 1
            if not self.stores:
                del _shared[self.folder]
                self.refresh()

    def start_over(self) -> None:
        """Move the folder aside, whatever it contains: nothing is deleted."""
        with self._changed:
            self._close_client()
            aside = next(
                place
                for place in (self.folder.with_name(f"{self.folder.name}.damaged-{n}") for n in count(1))
                if not place.exists()
            )
            with _map_errors(self.folder):
                self.folder.rename(aside)


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
        if is_full(str(problem)):
            raise StoreUnreachable(
                f"The vector index in {folder} cannot be written: the disk is full ({problem}).",
                "Make room, then try again; no data is lost.",
            ) from problem
        raise StoreUnusable(
            f"The vector index in {folder} cannot be used ({problem}).",
            "Check that the folder can be written to. If it is damaged, rebuild the vector index from the graph "
            "store; no data is lost.",
        ) from problem
