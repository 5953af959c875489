"""Arithmetic on rows of vectors, (n, d)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["unit_rows"]

_Float = TypeVar("_Float", np.float32, np.float64)


def unit_rows(rows: NDArray[_Float]) -> NDArray[_Float]:
    """Return the rows (n, d) scaled to length 1, in their own precision; rows of zeros stay zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=rows.dtype)
