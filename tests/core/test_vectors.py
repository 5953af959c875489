"""Arithmetic on vectors: threads of linear algebra."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - brings thread pools of its own
import threadpoolctl
from threadpoolctl import ThreadpoolController, threadpool_info

from leanrag_engine.core.vectors import one_thread


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
