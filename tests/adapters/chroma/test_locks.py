"""Who may use the files of a vector space at the same time: many readers, or one writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from leanrag_engine.adapters.chroma import locks
from leanrag_engine.adapters.chroma.client import ChromaFolder
from leanrag_engine.adapters.chroma.index import Index
from leanrag_engine.core.errors import StoreUnusable

ROWS = np.eye(4, dtype=np.float32)
IDS = ["north", "east", "south", "west"]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    client = ChromaFolder(tmp_path)
    made = Index(client)
    made.upsert("compass", IDS, ROWS)
    yield made
    client.close()


READS: dict[str, Callable[[Index], object]] = {
    "search": lambda index: [hit.id for hit in index.search("compass", ROWS[1:2], 1)],
    "fetch": lambda index: [*index.fetch("compass", ["south"])],
    "count": lambda index: index.count("compass"),
    "ids": lambda index: sorted(index.ids("compass")),
}


@pytest.mark.parametrize(
    ("name", "expected"), [("search", ["east"]), ("fetch", ["south"]), ("count", 4), ("ids", sorted(IDS))]
)
def test_what_reads_a_space_waits_for_its_writer(
    index: Index, tmp_path: Path, name: str, expected: object
) -> None:
    # A reader that opened the files while they were being changed crashed its process.
    found: list[object] = []
    with locks.hold_exclusive(tmp_path, "compass"):
        thread = threading.Thread(target=lambda: found.append(READS[name](index)), daemon=True)
        thread.start()
        thread.join(0.2)
        assert not found
    thread.join(30)
    assert found == [expected]


def test_a_writer_waits_for_what_reads_the_space(index: Index, tmp_path: Path) -> None:
    with locks.hold_shared(tmp_path, "compass"):
        thread = threading.Thread(target=lambda: index.delete("compass", ["west"]), daemon=True)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(30)
    assert index.count("compass") == 3


def test_spaces_are_locked_apart_and_readers_share_a_lock(index: Index, tmp_path: Path) -> None:
    with locks.hold_exclusive(tmp_path, "another"), locks.hold_shared(tmp_path, "compass"):
        assert index.count("compass") == 4


def test_readers_who_overlap_do_not_keep_a_writer_out(tmp_path: Path) -> None:
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            with locks.hold_shared(tmp_path, "compass"):
                ended.wait(0.01)

    threads = [threading.Thread(target=read, daemon=True) for _ in range(8)]
    for each in threads:
        each.start()
    try:
        with locks.hold_exclusive(tmp_path, "compass"):
            pass
    finally:
        ended.set()
        for each in threads:
            each.join(30)


def test_a_lock_that_is_never_released_is_an_error(tmp_path: Path) -> None:
    with (
        locks.hold_exclusive(tmp_path, "compass"),
        pytest.raises(StoreUnusable, match="Another process"),
        locks.hold_shared(tmp_path, "compass", seconds=0),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_read_without_a_lock(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("no folder")
    with locks.hold_shared(tmp_path, "compass"):
        pass
    with pytest.raises(OSError, match="locks"), locks.hold_exclusive(tmp_path, "compass"):
        pass
