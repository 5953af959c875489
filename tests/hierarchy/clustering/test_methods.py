"""The two ways to cluster: one contract for all, and what is particular to each."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Vectors
from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes
from leanrag_engine.hierarchy.clustering.links import EdgeList
from leanrag_engine.hierarchy.clustering.methods import (
    ClusteringMethod,
    ClusteringOptions,
    join_related,
    partition,
)
from leanrag_engine.hierarchy.clustering.mixture import cluster

MakeVectors = Callable[[str, int, int], Vectors]
KINDS = ("spread", "clustered", "duplicated", "equal", "zero", "mixed")
SHAPES = ("none", "random", "giant and crumbs", "star", "clique", "chain")
USUAL = ClusterSizes(20, 30)


def links_of(shape: str, count: int, seed: int = 0) -> EdgeList:
    """Relations of one shape among ``count`` entities."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, count, (2 * count, 2))
    if shape == "none":
        drawn = drawn[:0]
    elif shape == "giant and crumbs":
        drawn = np.concatenate((rng.integers(0, max(1, count // 2), (2 * count, 2)), drawn[: count // 8]))
    elif shape == "star":
        drawn = np.stack((np.zeros(count, dtype=np.intp), np.arange(count)), axis=1)
    elif shape == "clique":
        drawn = np.argwhere(np.tri(min(count, 60), k=-1) > 0)
    elif shape == "chain":
        drawn = np.stack((np.arange(count - 1), np.arange(1, count)), axis=1)
    drawn = np.unique(np.sort(drawn, axis=1), axis=0)
    drawn = drawn[drawn[:, 0] != drawn[:, 1]].astype(np.intp)
    return EdgeList(count, drawn, rng.integers(1, 5, len(drawn)).astype(np.float64))


def silent() -> None:
    pass


@settings(max_examples=40, deadline=None)
@given(
    method=st.sampled_from(list(ClusteringMethod)),
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from(SHAPES),
    rows=st.one_of(st.sampled_from([1, 2, 19, 20, 21, 31, 41]), st.integers(1, 300)),
    sizes=st.sampled_from([(20, 30), (20, 20), (5, 7), (2, 2), (2, 3), (10, 200)]),
    weight=st.sampled_from([0.0, 0.3, 5.0]),
)
def test_every_method_keeps_the_cap_leaves_no_lone_member_and_numbers_by_first_members(
    some_vectors: MakeVectors,
    method: ClusteringMethod,
    kind: str,
    shape: str,
    rows: int,
    sizes: tuple[int, int],
    weight: float,
) -> None:
    mean, cap = sizes
    vectors, links = some_vectors(kind, rows, 1), links_of(shape, rows)
    found = partition(
        vectors, links, ClusterSizes(mean, cap), ClusteringOptions(method, weight), pulse=silent
    )
    counted = np.bincount(found.labels, minlength=found.count)
    assert found.labels.shape == (rows,)
    assert counted.min() > 0
    assert counted.max() <= cap
    assert counted.min() >= 2 or rows == 1 or (cap == 2 and rows % 2) or cap == 3
    firsts = [int(np.flatnonzero(found.labels == number)[0]) for number in range(found.count)]
    assert firsts == sorted(firsts)
    shares = np.stack([found.responsibility, found.second_responsibility])
    assert np.isfinite(shares).all()
    assert shares.min() >= 0
    assert shares.sum(axis=0).max() <= 1 + 1e-9
    if found.count > 1:
        assert (found.second != found.labels).all()
        assert 0 <= found.second.min() <= found.second.max() < found.count
    with threadpool_limits(1):
        again = partition(
            vectors, links, ClusterSizes(mean, cap), ClusteringOptions(method, weight), pulse=silent
        )
    for one, other in zip(
        (found.labels, found.responsibility, found.second), (again.labels, again.responsibility, again.second),
        strict=True,
    ):  # fmt: skip
        assert np.array_equal(one, other)


@pytest.mark.parametrize("method", list(ClusteringMethod))
@pytest.mark.parametrize("shape", [*SHAPES, "groups of 27", "groups of 7"])
@pytest.mark.parametrize("rows", [21, 22, 41, 333, 1404])
def test_a_layer_of_more_than_20_shrinks_to_between_a_tenth_and_a_twentieth(
    some_vectors: MakeVectors, method: ClusteringMethod, shape: str, rows: int
) -> None:
    links = links_of(shape, rows) if shape in SHAPES else groups_of(int(shape.rsplit(maxsplit=1)[-1]), rows)
    for kind in ("spread", "duplicated", "equal") if rows < 1000 else ("clustered",):
        found = partition(some_vectors(kind, rows, 1), links, USUAL, ClusteringOptions(method), pulse=silent)
        assert 10 <= rows / found.count <= 20


def test_a_layer_of_20000_shrinks_to_a_twentieth(some_vectors: MakeVectors) -> None:
    # Once, as it takes seconds.
    found = partition(
        some_vectors("clustered", 20_000, 1), groups_of(27, 20_000), USUAL, ClusteringOptions(), pulse=silent
    )
    assert 1000 <= found.count <= 2000


def groups_of(size: int, rows: int) -> EdgeList:
    """Cliques of ``size`` that a chain joins."""
    place = np.arange(rows)
    chain = np.stack((place[:-1], place[1:]), axis=1)
    inner = [
        np.stack((place[:-step], place[step:]), axis=1)[(place[:-step] // size) == (place[step:] // size)]
        for step in range(2, min(size, rows))
    ]
    ends = np.concatenate((chain, *inner))
    return EdgeList(rows, ends, np.ones(len(ends)))


@pytest.mark.parametrize("shape", ["random", "groups of 27"])
def test_clusters_that_are_too_large_are_divided_along_relations(
    some_vectors: MakeVectors, shape: str
) -> None:
    links = links_of(shape, 600) if shape in SHAPES else groups_of(27, 600)
    found = partition(
        some_vectors("spread", 600, 1), links, USUAL, ClusteringOptions(ClusteringMethod.LEIDEN), pulse=silent
    )
    graph = nx.Graph(links.ends.tolist())
    graph.add_nodes_from(range(600))
    single = [each for each in nx.connected_components(graph) if len(each) < 5]
    loose = {row for each in single for row in each}
    for number in range(found.count):
        members = set(np.flatnonzero(found.labels == number).tolist())
        assert members & loose or nx.is_connected(graph.subgraph(members))


def planted(count: int = 12, size: int = 20, seed: int = 0) -> tuple[Vectors, EdgeList, np.ndarray]:
    """Groups that are densely related within and hardly without; what their members mean says nothing."""
    rng = np.random.default_rng(seed)
    graph = nx.random_partition_graph([size] * count, 0.5, 0.003, seed=seed)
    ends = np.array(graph.edges, dtype=np.intp)
    vectors = rng.standard_normal((count * size, 24))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    links = EdgeList(len(vectors), ends, np.ones(len(ends)))
    return vectors.astype(np.float32), links, np.repeat(np.arange(count), size)


def test_leiden_finds_what_only_relations_show_and_gmm_does_not() -> None:
    vectors, links, truth = planted()
    agreement = {
        method: adjusted_rand_score(
            truth, partition(vectors, links, USUAL, ClusteringOptions(method), pulse=silent).labels
        )
        for method in ClusteringMethod
    }
    assert agreement[ClusteringMethod.LEIDEN] == 1.0
    assert agreement[ClusteringMethod.GMM] < 0.5


def test_communities_of_leiden_are_connected_where_nothing_forces_them_apart() -> None:
    vectors, links, _ = planted()
    found = partition(vectors, links, USUAL, ClusteringOptions(ClusteringMethod.LEIDEN), pulse=silent)
    graph = nx.Graph(links.ends.tolist())
    for number in range(found.count):
        assert nx.is_connected(graph.subgraph(np.flatnonzero(found.labels == number).tolist()))


def test_without_relations_every_method_clusters_by_meaning(
    labelled_mixture: Callable[..., tuple[Vectors, np.ndarray]],
) -> None:
    vectors, truth = labelled_mixture(600, spread=0.6)
    for method in ClusteringMethod:
        found = partition(vectors, links_of("none", 600), USUAL, ClusteringOptions(method), pulse=silent)
        assert adjusted_rand_score(truth, found.labels) >= 0.85


def test_the_weight_trades_tightness_for_relations_inside(some_vectors: MakeVectors) -> None:
    vectors, links = some_vectors("clustered", 600, 0), links_of("random", 600)
    inside = [
        links.inside(
            partition(vectors, links, USUAL, ClusteringOptions(tie_weight=weight), pulse=silent).labels
        )
        for weight in (0.0, 0.2, 2.0)
    ]
    assert inside == sorted(inside)
    assert inside[2] > 1.5 * inside[0]


# --- joining -------------------------------------------------------------------------------


def objective(vectors: Vectors, labels: np.ndarray, links: EdgeList, weight: float) -> float:
    """Mean cosine to the own mean, and the weighted share of relations inside, member by member."""
    cosines = []
    for number in np.unique(labels):
        members = vectors[labels == number].astype(np.float64)
        mean = members.mean(axis=0)
        cosines += (members @ mean / np.linalg.norm(mean)).tolist()
    kept = sum(
        share for (first, second), share in zip(links.ends.tolist(), links.weights.tolist(), strict=True)
        if labels[first] == labels[second]
    )  # fmt: skip
    return float(np.mean(cosines)) + weight * kept / links.total


@settings(max_examples=15, deadline=None)
@given(
    kind=st.sampled_from(("spread", "clustered")),
    weight=st.sampled_from([0.05, 0.5, 3.0]),
    seed=st.integers(0, 50),
)
def test_joining_never_lowers_its_objective(
    some_vectors: MakeVectors, kind: str, weight: float, seed: int
) -> None:
    vectors, links = some_vectors(kind, 120, seed), links_of("random", 120, seed)
    labels = cluster(vectors, ClusterSizes(10, 15)).labels
    joined = join_related(vectors, labels, links, weight=weight, cap=15, pulse=silent)
    before, after = (objective(vectors, each, links, weight) for each in (labels, joined))
    assert after >= before - 1e-6
    assert np.bincount(joined).max() <= 15
    assert np.bincount(joined).min() >= 2


def test_an_entity_between_two_clusters_goes_where_its_relations_are() -> None:
    rng = np.random.default_rng(0)
    left = np.array([1.0, 0, 0]) + 0.05 * rng.standard_normal((10, 3))
    right = np.array([0, 1.0, 0]) + 0.05 * rng.standard_normal((10, 3))
    between = np.array([[0.72, 0.69, 0]])
    vectors = np.vstack([left, right, between])
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    labels = np.array([0] * 10 + [1] * 10 + [0])
    ends = np.array([[20, number] for number in range(10, 15)])
    moved = join_related(vectors, labels, EdgeList(21, ends, np.ones(5)), weight=0.1, cap=15, pulse=silent)
    assert moved.tolist() == [0] * 10 + [1] * 10 + [1]


@pytest.mark.parametrize("method", list(ClusteringMethod))
def test_every_method_refuses_values_that_are_not_finite(method: ClusteringMethod) -> None:
    vectors = np.ones((50, 3), dtype=np.float32)
    vectors[7, 1] = np.nan
    with pytest.raises(InvalidInput, match="row 7"):
        partition(vectors, links_of("chain", 50), USUAL, ClusteringOptions(method), pulse=silent)


@pytest.mark.parametrize("method", list(ClusteringMethod))
def test_every_method_can_be_stopped(some_vectors: MakeVectors, method: ClusteringMethod) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        partition(
            some_vectors("spread", 200, 0),
            links_of("random", 200),
            USUAL,
            ClusteringOptions(method),
            pulse=stop,
        )
