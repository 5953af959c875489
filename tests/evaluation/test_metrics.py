"""Measures against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from leanrag_engine.evaluation.metrics import (
    all_at,
    bootstrap_difference,
    mean,
    percentile,
    recall_at,
    reciprocal_rank,
)

RANKED = (7, 3, 9, 1, 4, 8)


@pytest.mark.parametrize(
    ("gold", "k", "recall"),
    [
        ((7,), 1, 1.0),
        ((3, 4), 2, 0.5),
        ((3, 4), 5, 1.0),
        ((3, 4, 100), 5, 2 / 3),
        ((100,), 10, 0.0),
        ((8,), 10, 1.0),
    ],
)
def test_recall_is_the_share_of_gold_among_the_first_k(gold: tuple[int, ...], k: int, recall: float) -> None:
    assert recall_at(RANKED, gold, k) == pytest.approx(recall)


def test_all_at_k_needs_the_whole_of_gold() -> None:
    assert all_at(RANKED, (7, 4), 5) == 1.0
    assert all_at(RANKED, (7, 8), 5) == 0.0


def test_the_reciprocal_rank_is_that_of_the_first_gold_passage() -> None:
    assert reciprocal_rank(RANKED, (9, 1)) == pytest.approx(1 / 3)
    assert reciprocal_rank(RANKED, (100,)) == 0.0
    assert reciprocal_rank((), (1,)) == 0.0


def test_percentiles_are_interpolated_and_nothing_gives_zero() -> None:
    assert percentile([10, 20, 30, 40], 50) == 25
    assert percentile([1, 2], 95) == pytest.approx(1.95)
    assert percentile([], 50) == mean([]) == 0.0


def test_a_bootstrap_of_one_constant_difference_has_no_width() -> None:
    found = bootstrap_difference([0.5, 1.0, 0.75], [0.25, 0.75, 0.5])
    assert (found.difference, found.low, found.high) == (0.25, 0.25, 0.25)
    assert found.low > 0 or found.high < 0


def test_a_bootstrap_interval_agrees_with_the_normal_one_and_is_the_same_each_time() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.random(200), rng.random(200)
    found = bootstrap_difference(one.tolist(), other.tolist())
    half = 1.96 * (one - other).std() / np.sqrt(200)
    assert found.low == pytest.approx(found.difference - half, abs=0.005)
    assert found.high == pytest.approx(found.difference + half, abs=0.005)
    assert found == bootstrap_difference(one.tolist(), other.tolist())
    even = bootstrap_difference([0, 1, 0, 1], [1, 0, 0, 1])
    assert even.low <= 0 <= even.high


def test_what_is_not_paired_is_no_input() -> None:
    with pytest.raises(ValueError, match="2 and 1"):
        bootstrap_difference([1, 2], [1])
