"""Arithmetic on vectors: threads of linear algebra, and where large arrays lie."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - brings thread pools of its own
import threadpoolctl
from threadpoolctl import ThreadpoolController, threadpool_info

from leanrag_engine.core.vectors import MAPPED, allocate, one_thread


def pools() -> list[int]:
    assert np.ones(2) @ np.ones(2) == 2
    return [each["num_threads"] for each in threadpool_info()]


def test_linear_algebra_has_one_thread_inside_the_block_and_what_it_had_after_it() -> None:
    before = pools()
    assert before
    for _ in range(2):
        with one_thread():
            assert set(pools()) == {1}
        assert pools() == before


def test_a_library_that_was_loaded_meanwhile_is_looked_for_again_and_only_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[ThreadpoolController] = []

    def search() -> ThreadpoolController:
        searches.append(ThreadpoolController())
        return searches[-1]

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", search)
    for module, searched in (("leanrag_one", 1), ("leanrag_one", 1), ("leanrag_other", 2)):
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
        with one_thread():
            assert len(searches) == searched


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere room on the disk cannot be reserved, or its maps not be read"
)
def test_a_large_array_lies_in_a_file_without_a_name_if_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_file() -> bool:
        return f"{tmp_path}/" in Path("/proc/self/maps").read_text()

    rows = MAPPED // 4 // 384 + 1
    small = allocate(10, 384, tmp_path)
    assert small.shape == (10, 384)
    assert not in_file()
    large = allocate(rows, 384, tmp_path)
    large[:] = 0.5
    assert large.shape == (rows, 384)
    assert large.sum(dtype=np.float64) == rows * 192
    assert in_file()
    assert not [*tmp_path.iterdir()]
    del large
    assert not in_file()  # nor is its file open any longer

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert allocate(rows, 384, tmp_path).shape == (rows, 384)
    assert not in_file()
