"""Arithmetic on rows of vectors, (n, d)."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Float = TypeVar("_Float", np.float32, np.float64)


def unit_rows(rows: NDArray[_Float], *, out: NDArray[_Float] | None = None) -> NDArray[_Float]:
    """Return the rows (n, d) scaled to length 1, in their own precision and perhaps in place (``out``); rows of zeros stay zero."""
    lengths = np.ones((len(rows), 1), dtype=rows.dtype)
    for first in range(0, len(rows), 4096):  # the squares of a million rows take as much memory as the rows
        found = np.linalg.norm(rows[first : first + 4096], axis=1, keepdims=True)
        lengths[first : first + 4096] = np.where(found > 0, found, 1)
    return np.divide(rows, lengths, out=out)


def find_infinite(rows: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    """Return the numbers of the rows (n, d) with values that are not finite, at once if their sum is."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(rows.sum()):
            return np.empty(0, dtype=np.intp)
    return np.flatnonzero(~np.isfinite(rows).all(axis=1))


def one_thread() -> AbstractContextManager[object]:
    """Keep linear algebra to one thread inside the block: results differ in their last bits by the number of threads."""
    limited: AbstractContextManager[object] = _thread_pools(len(sys.modules)).limit(limits=1)
    return limited


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> Any:  # noqa: ARG001 - libraries come with modules: with more of them it looks again
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - most processes do no linear algebra

    return ThreadpoolController()
