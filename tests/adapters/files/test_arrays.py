"""Arrays in files: several processes may compute and store the same ones."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from leanrag_engine.adapters.files.arrays import ArrayFiles

pytestmark = pytest.mark.anyio


def test_stores_that_write_the_same_arrays_at_once_do_not_disturb_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stores = [ArrayFiles(tmp_path, read_only=False) for _ in range(12)]
    together = Barrier(len(stores))
    arrays = {"ends": np.arange(5_000), "weights": np.ones(5_000)}

    def write(store: ArrayFiles, key: str) -> bool:
        together.wait()
        store._save(key, arrays)
        return store._load(key) is not None

    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(len(stores)) as threads:
        for number in range(40):
            assert all(threads.map(write, stores, [f"graph-{number}"] * len(stores)))
    assert not caplog.records
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"graph-{each}" for each in range(40))


@pytest.mark.parametrize("size", [60, 60_000])
@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:0],
        lambda whole: whole[:10],
        lambda whole: whole[: len(whole) // 2],
        lambda whole: bytes(len(whole)),
        lambda whole: b"PK\x03\x04" + whole[4:],
        lambda whole: whole[:12] + b"\xff" * 50 + whole[62:],
        lambda whole: whole.replace(b"0,)", b"0" * 9 + b",)"),
        lambda whole: whole.replace(b"0,)", b"0" * 30 + b",)"),
    ],
    ids=["empty", "cut", "half", "zeros", "zip", "header", "longer", "too long"],
)
def test_a_damaged_file_counts_as_lost_and_is_written_anew(
    tmp_path: Path, damage: Callable[[bytes], bytes], size: int
) -> None:
    store, arrays = ArrayFiles(tmp_path, read_only=False), {"ends": np.arange(size), "none": np.empty((0, 4))}
    store._save("graph", arrays)
    file = tmp_path / "graph" / "ends.npy"
    file.write_bytes(damage(file.read_bytes()))
    assert store._load("graph") is None
    store._save("graph", arrays)
    found = store._load("graph")
    assert found is not None
    assert {name: each.tolist() for name, each in found.items()} == {
        name: each.tolist() for name, each in arrays.items()
    }


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names open files by /proc")
def test_arrays_are_on_the_disk_before_they_get_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
    )
    ArrayFiles(tmp_path, read_only=False)._save("graph", {"ends": np.arange(9)})
    *files, unfinished, folder = synced
    assert files == ["ends.npy", "checksums.json"]
    assert (unfinished.partition(".")[0], folder) == ("graph", tmp_path.name)


async def test_arrays_in_the_place_of_others_count_as_lost_and_are_named(tmp_path: Path) -> None:
    store = ArrayFiles(tmp_path, read_only=False)
    for key, first in (("graph-1", 0), ("graph-2", 1)):
        store._save(key, {"ends": np.arange(first, 9), "starts": np.arange(first, 9)})
    assert await store.examine("graph-") == {"graph-1": True, "graph-2": True}
    one, other = (tmp_path / f"graph-{number}" for number in (1, 2))
    (other / "ends.npy").write_bytes((other / "starts.npy").read_bytes())
    shutil.copy(one / "checksums.json", other)
    assert await store.load("graph-2") is None
    (one / "ends.npy").unlink()
    assert await store.load("graph-1") is None
    assert await store.examine("graph-") == {"graph-1": False, "graph-2": False}
