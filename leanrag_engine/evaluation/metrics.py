"""Measures of a ranking, as pure functions of ids, and the confidence interval of a difference. Rankings are
sequences of distinct ids, best first; ``gold`` are the ids that should be found. All shares are from 0 to 1."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np


def recall_at(ranked: Sequence[int], gold: Collection[int], k: int) -> float:
    """Return the share of ``gold`` among the first ``k``."""
    return len(set(ranked[:k]) & set(gold)) / len(set(gold))


def all_at(ranked: Sequence[int], gold: Collection[int], k: int) -> float:
    """Return 1 if all of ``gold`` are among the first ``k``, else 0."""
    return float(set(gold) <= set(ranked[:k]))


def reciprocal_rank(ranked: Sequence[int], gold: Collection[int]) -> float:
    """Return 1 / rank of the first of ``gold``; 0 if none is ranked."""
    return next((1.0 / rank for rank, each in enumerate(ranked, start=1) if each in gold), 0.0)


def mean(values: Collection[float]) -> float:
    """Return the mean; 0 for no values."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the interpolated percentile (``share`` in percent); 0 for no values."""
    return float(np.percentile(values, share)) if values else 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference with the bounds of 95 % of its resamples."""

    difference: float
    low: float
    high: float


def bootstrap_difference(
    one: Sequence[float], other: Sequence[float], *, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Return by how much ``one`` exceeds ``other`` on the same questions, in the same order. Uses the percentile bootstrap over questions
    (Efron 1979); resampling keeps each question's two values together. Raises ``ValueError`` if the lengths differ or are 0."""
    if len(one) != len(other) or not one:
        raise ValueError(f"{len(one)} and {len(other)} values cannot be paired")
    differences = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(differences), size=(resamples, len(differences)))
    low, high = np.percentile(differences[picks].mean(axis=1), [2.5, 97.5])
    return Interval(float(differences.mean()), float(low), float(high))
