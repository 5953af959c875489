"""The size of clusters, where the data choose it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples

from leanrag_engine.core.model import Vectors
from leanrag_engine.hierarchy.clustering.sizing import CANDIDATES, cap_for, choose_size, silhouette


def silent() -> None:
    pass


def mixture(low: int, high: int, rows: int = 900, seed: int = 0) -> Vectors:
    """Unit vectors in natural groups of ``low`` to ``high``."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(rows), rng.integers(low, high + 1, rows))[:rows]
    centres = rng.standard_normal((int(labels.max()) + 1, 64))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    points = centres[labels] + 0.8 * rng.standard_normal((rows, 64)) / 8
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("low", "high", "size"), [(6, 10, 8), (14, 18, 16), (10, 30, 20), (35, 45, 40)])
def test_natural_groups_of_a_size_are_recognised(low: int, high: int, size: int) -> None:
    found = choose_size(mixture(low, high), pulse=silent)
    assert (found.mean, found.cap) == (size, cap_for(size))
    assert str(size) in found.reason


@pytest.mark.parametrize("kind", ["equal", "zero"])
def test_where_no_size_is_better_the_usual_one_stays(
    some_vectors: Callable[[str, int, int], Vectors], kind: str
) -> None:
    assert choose_size(some_vectors(kind, 400, 0), pulse=silent).mean == 20


@pytest.mark.parametrize("rows", [1, 20, 100])
def test_few_entities_get_the_usual_size_and_the_reason_says_so(rows: int) -> None:
    found = choose_size(mixture(5, 9, rows), pulse=silent)
    assert (found.mean, found.cap) == (20, 30)
    assert f"{rows} entities are too few" in found.reason


@pytest.mark.parametrize("cap", [2, 10, 25])
def test_a_cap_that_is_set_stays(cap: int) -> None:
    found = choose_size(mixture(35, 45), cap=cap, pulse=silent)
    assert found.cap == cap
    assert 2 <= found.mean <= cap


def test_the_silhouette_ranks_partitions_as_scikit_learns_full_one_does() -> None:
    vectors = mixture(14, 18, 320)
    rng = np.random.default_rng(0)
    good = np.repeat(np.arange(20), 16)
    worse = np.where(rng.random(320) < 0.3, rng.integers(0, 20, 320), good)
    ours = [float(silhouette(vectors, labels).mean()) for labels in (good, worse)]
    theirs = [float(silhouette_samples(vectors, labels, metric="cosine").mean()) for labels in (good, worse)]
    assert ours[0] > ours[1]
    assert theirs[0] > theirs[1]
    assert set(CANDIDATES) >= {8, 20, 40}
