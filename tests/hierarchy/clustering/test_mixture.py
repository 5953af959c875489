"""Clusters of a layer: sizes, sameness on every run, agreement with known groups and other implementations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Vectors
from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes, balance
from leanrag_engine.hierarchy.clustering.mixture import (
    assign_clusters,
    cluster,
    measure_memberships,
    reduce_dimensions,
)

KINDS = ("spread", "clustered", "duplicated", "equal", "zero", "mixed")
EDGE_SIZES = (1, 2, 3, 19, 20, 21, 30, 31, 40, 41, 60, 61)


MakeVectors = Callable[[str, int, int], Vectors]


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    rows=st.one_of(st.sampled_from(EDGE_SIZES), st.integers(1, 400)),
    sizes=st.sampled_from([(20, 30), (20, 20), (5, 7), (2, 2), (3, 4), (10, 400)]),
    seed=st.integers(0, 5),
)
def test_every_row_is_in_one_cluster_of_two_to_cap_members(
    some_vectors: MakeVectors, kind: str, rows: int, sizes: tuple[int, int], seed: int
) -> None:
    mean_size, cap = sizes
    found = cluster(some_vectors(kind, rows, seed), ClusterSizes(mean_size, cap), seed=seed)
    counted = np.bincount(found.labels, minlength=found.count)
    assert found.labels.shape == (rows,)
    assert counted.min() > 0
    assert counted.max() <= cap
    assert found.count <= -(-rows // mean_size)
    no_choice = rows == 1 or (cap == 2 and rows % 2 == 1)
    assert counted.min() >= 2 or no_choice
    firsts = [int(np.flatnonzero(found.labels == number)[0]) for number in range(found.count)]
    assert firsts == sorted(firsts), "clusters are numbered by their first members"


@settings(max_examples=20, deadline=None)
@given(kind=st.sampled_from(KINDS), rows=st.integers(1, 300), seed=st.integers(0, 3))
def test_the_runner_up_is_another_cluster_and_the_two_shares_are_probabilities(
    some_vectors: MakeVectors, kind: str, rows: int, seed: int
) -> None:
    found = cluster(some_vectors(kind, rows, seed), ClusterSizes(20, 30))
    shares = np.stack([found.responsibility, found.second_responsibility])
    assert np.isfinite(shares).all()
    assert shares.min() >= 0
    assert shares.sum(axis=0).max() <= 1 + 1e-9
    if found.count == 1:
        assert (found.second == -1).all()
    else:
        assert (found.second != found.labels).all()
        assert found.second.min() >= 0
        assert found.second.max() < found.count


def test_a_point_between_two_clusters_belongs_to_both_by_halves() -> None:
    rng = np.random.default_rng(0)
    left = np.array([1.0, 0, 0]) + 0.15 * rng.standard_normal((20, 3))
    right = np.array([0, 1.0, 0]) + 0.15 * rng.standard_normal((20, 3))
    points = np.vstack([left, right, [[0.5, 0.5, 0.0]]]).astype(np.float32)
    found = cluster(points, ClusterSizes(21, 30))
    assert adjusted_rand_score([0] * 20 + [1] * 20, found.labels[:40]) == 1
    assert {int(found.labels[40]), int(found.second[40])} == {0, 1}
    assert 0.1 < found.second_responsibility[40] < 0.9
    assert np.median(found.second_responsibility[:40]) < 0.01


@pytest.mark.parametrize(("rows", "spread"), [(300, 0.5), (1200, 0.8), (1200, 1.0)])
def test_natural_groups_of_ten_to_thirty_are_found(
    labelled_mixture: Callable[..., tuple[Vectors, np.ndarray]], rows: int, spread: float
) -> None:
    vectors, truth = labelled_mixture(rows, spread=spread)
    found = cluster(vectors, ClusterSizes(20, 30))
    assert adjusted_rand_score(truth, found.labels) >= 0.9


def test_clusters_under_a_cap_are_nearly_as_tight_as_those_of_kmeans_without_one() -> None:
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((25, 48))
    vectors = centres[rng.integers(0, 25, 800)] + 1.5 * rng.standard_normal((800, 48))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    ours = cluster(vectors, ClusterSizes(20, 30)).labels
    theirs = KMeans(40, n_init=1, random_state=0).fit(vectors).labels_
    assert np.bincount(ours).max() <= 30
    assert tightness(vectors, ours) >= 0.98 * tightness(vectors, theirs)


def tightness(vectors: Vectors, labels: np.ndarray) -> float:
    """Mean cosine between the rows and the means of their clusters."""
    means = np.stack([vectors[labels == number].mean(axis=0) for number in range(labels.max() + 1)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return float(np.einsum("ij,ij->i", vectors, means[labels]).mean())


def test_one_giant_group_is_cut_under_the_cap_and_small_groups_stay_whole() -> None:
    rng = np.random.default_rng(0)
    centres = np.eye(6)
    truth = np.repeat(np.arange(6), [150, 10, 10, 10, 10, 10])
    vectors = (centres[truth] + 0.03 * rng.standard_normal((200, 6))).astype(np.float32)
    labels = cluster(vectors, ClusterSizes(20, 30)).labels
    assert np.bincount(labels).max() <= 30
    for group in range(1, 6):
        assert len(set(labels[truth == group])) == 1
        assert set(labels[truth == group]).isdisjoint(labels[truth == 0])


def test_more_clusters_than_a_shortlist_are_evened_out_by_regions(
    labelled_mixture: Callable[..., tuple[Vectors, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leanrag_engine.hierarchy.clustering.balancing.SHORTLIST", 24)
    vectors, truth = labelled_mixture(2000, spread=0.6)
    found = cluster(vectors, ClusterSizes(20, 30))
    assert np.bincount(found.labels).max() <= 30
    assert adjusted_rand_score(truth, found.labels) >= 0.85


def test_a_start_that_breaks_the_cap_everywhere_is_brought_under_it() -> None:
    rng = np.random.default_rng(1)
    points = rng.standard_normal((90, 4))
    labels = balance(points, np.repeat([0, 1, 2], [88, 1, 1]), ClusterSizes(30, 30), pulse=lambda: None)
    assert np.bincount(labels).tolist() == [30, 30, 30]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_refused_by_its_row(bad: float) -> None:
    vectors = np.ones((5, 3), dtype=np.float32)
    vectors[3, 1] = bad
    with pytest.raises(InvalidInput, match="row 3"):
        cluster(vectors, ClusterSizes(20, 30))


@pytest.mark.parametrize(("mean_size", "cap"), [(20, 19), (1, 30), (0, 0)])
def test_sizes_that_contradict_each_other_are_refused(mean_size: int, cap: int) -> None:
    with pytest.raises(InvalidInput, match=f"{mean_size}.*{cap}"):
        cluster(np.ones((5, 3), dtype=np.float32), ClusterSizes(mean_size, cap))


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (4,)])
def test_vectors_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="shape"):
        cluster(np.zeros(shape, dtype=np.float32), ClusterSizes(20, 30))


def test_the_number_of_threads_changes_no_bit() -> None:
    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((1500, 300)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    digests = set()
    for threads in (1, 2):
        with threadpool_limits(threads):
            found = cluster(vectors, ClusterSizes(20, 30))
        arrays = (found.labels, found.responsibility, found.second, found.second_responsibility)
        digests.add(b"".join(array.tobytes() for array in arrays))
    assert len(digests) == 1


def test_clustering_can_be_stopped_between_its_steps() -> None:
    vectors = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)

    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        cluster(vectors, ClusterSizes(20, 30), pulse=stop)


def test_a_large_layer_in_single_precision_is_clustered_as_in_double() -> None:
    vectors = np.random.default_rng(3).standard_normal((4_500, 48)).astype(np.float32)
    vectors[:, :8] += np.repeat(np.random.default_rng(4).standard_normal((225, 8)) * 6, 20, axis=0)
    exact, by_blocks = reduce_dimensions(vectors), reduce_dimensions(vectors, few=400)
    assert by_blocks.dtype == np.float32
    axes = [np.abs(reduce_dimensions(vectors, most=16, few=few)) for few in (1 << 16, 400)]
    np.testing.assert_allclose(*axes, atol=1e-3)  # an axis has no sign
    np.testing.assert_allclose(pdist(by_blocks[:300]), pdist(exact[:300]), rtol=1e-3)
    found = [
        assign_clusters(reduced, ClusterSizes(20, 30), pulse=lambda: None) for reduced in (exact, by_blocks)
    ]
    assert adjusted_rand_score(*found) > 0.9
    one, other = (measure_memberships(reduced, found[0]) for reduced in (exact, by_blocks))
    np.testing.assert_allclose(one.responsibility, other.responsibility, atol=1e-3)
