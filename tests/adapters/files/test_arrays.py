"""Arrays in files: several processes may compute and store the same ones."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from leanrag_engine.adapters.files.arrays import ArrayFiles


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
