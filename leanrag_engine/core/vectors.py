"""Arithmetic on rows of vectors, (n, d)."""

import os
import sys
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Float = TypeVar("_Float", np.float32, np.float64)


MAPPED = 32 * 2**20
"""Bytes of an array from which on it lies in a file: 20,000 rows of 384 dimensions."""


def allocate(rows: int, dimension: int, folder: Path | None) -> NDArray[np.float32]:
    """Return an array (rows, dimension) to be filled. A large one lies in a file without a name in ``folder``, if that has room
    for it: the system can then write it out when memory becomes scarce."""
    shape, size = (rows, dimension), 4 * rows * dimension
    if folder is not None and size >= MAPPED and hasattr(os, "posix_fallocate"):
        with suppress(OSError), TemporaryFile(dir=folder) as file:
            # Without this, a page for which the disk has no room would end the process.
            os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, np.float32, "r+", shape=shape).view(np.ndarray)
    return np.empty(shape, dtype=np.float32)


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
