"""Dual perception: the number of communities, the score, and merging, each beside the published formula."""

from __future__ import annotations

from itertools import permutations

import networkx as nx
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from leanrag_engine.core.model import Vectors
from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes
from leanrag_engine.hierarchy.clustering.links import EdgeList
from leanrag_engine.hierarchy.clustering.perception import (
    Perception,
    detect,
    encode_neighbourhoods,
    merge_communities,
    partition_count,
    representative_losses,
)

WIDE = ClusterSizes(20, 1000)


def random_case(count: int = 60, seed: int = 0) -> tuple[nx.Graph, Perception, np.ndarray]:
    """A graph with a loop at each entity (Jaccard then compares closed neighbourhoods), how it is perceived, labels."""
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(count, 0.1, seed=seed)
    vectors = rng.standard_normal((count, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    links = links_of(graph)
    graph.add_edges_from((node, node) for node in range(count))
    labels = np.concatenate((np.arange(6), rng.integers(0, 6, count - 6)))
    return graph, Perception.of(vectors.astype(np.float32), links, 0.3), labels


def links_of(graph: nx.Graph) -> EdgeList:
    ends = np.array(graph.edges, dtype=np.intp).reshape(-1, 2)
    return EdgeList(len(graph), ends, np.ones(len(ends)))


@pytest.mark.parametrize(
    ("entities", "beta", "expected"),
    [(2, 10, 2), (19, 10, 2), (31, 10, 3), (1999, 10, 199), (2000, 10, 200), (50_000, 10, 200), (30, 3, 10)],
)
def test_the_number_of_communities_is_that_of_the_formula(entities: int, beta: int, expected: int) -> None:
    assert partition_count(entities, beta) == expected


def test_an_entity_is_encoded_as_the_mean_of_its_triples() -> None:
    vectors = np.eye(4, dtype=np.float32)
    links = EdgeList(4, np.array([[0, 1], [0, 2]]), np.array([1.0, 3.0]))
    found = encode_neighbourhoods(vectors, links)
    expected = np.array([1.0, 1 / np.sqrt(10), 3 / np.sqrt(10), 0])
    assert np.allclose(found[0], expected / np.linalg.norm(expected), atol=1e-6)
    assert np.allclose(found[3], vectors[3])
    assert np.allclose(np.linalg.norm(found, axis=1), 1)


def test_the_score_with_a_community_of_one_is_the_jaccard_coefficient_and_the_cosine() -> None:
    graph, perceived, _ = random_case()
    found = perceived.score(np.arange(60), np.arange(60))
    for one, other in permutations(range(60), 2):
        jaccard = len(set(graph[one]) & set(graph[other])) / len(set(graph[one]) | set(graph[other]))
        cosine = float(perceived.encodings[one] @ perceived.encodings[other])
        assert found[one, other] == pytest.approx(0.3 * jaccard + 0.7 * cosine, abs=1e-5)
    assert np.all(np.diag(found) == 0), "no one else is in its own community"


def test_the_score_compares_an_entity_with_the_mean_of_the_other_members() -> None:
    graph, perceived, labels = random_case()
    near = nx.to_numpy_array(graph)
    found = perceived.score(np.arange(60), labels)
    for one in range(60):
        for community in range(6):
            members = np.flatnonzero((labels == community) & (np.arange(60) != one))
            mean, meaning = near[members].mean(axis=0), perceived.encodings[members].mean(axis=0)
            common = near[one] @ mean
            structure = common / (near[one] @ near[one] + mean @ mean - common)
            cosine = perceived.encodings[one] @ meaning / np.linalg.norm(meaning)
            assert found[one, community] == pytest.approx(0.3 * structure + 0.7 * cosine, abs=1e-5)


def test_representatives_are_the_members_of_the_highest_score_and_lose_what_the_scores_differ_by() -> None:
    _, perceived, labels = random_case()
    scores = perceived.score(np.arange(60), labels)
    own = scores[np.arange(60), labels]
    best = [max(np.flatnonzero(labels == number), key=lambda row: own[row]) for number in range(6)]
    found = representative_losses(perceived, labels)
    for one in range(6):
        for other in range(6):
            there = own[best[one]] - scores[best[one], other]
            back = own[best[other]] - scores[best[other], one]
            assert found[one, other] == pytest.approx((there + back) / 2, abs=1e-9)


def test_communities_merge_below_epsilon_within_the_cap_and_no_further_than_the_mean_size() -> None:
    _, perceived, labels = random_case()
    losses = representative_losses(perceived, labels)
    least = float(losses[np.triu_indices(6, 1)].min())
    sizes = ClusterSizes(20, 60)

    def merged(sizes: ClusterSizes, epsilon: float) -> np.ndarray:
        return merge_communities(perceived, labels, sizes, epsilon=epsilon, pulse=lambda: None)

    assert np.array_equal(merged(sizes, least), labels), "none differs by less"
    once = merged(sizes, least + 1e-6)
    first, second = np.argwhere(np.triu(losses == least, 1))[0]
    assert len(set(once[np.isin(labels, (first, second))].tolist())) == 1
    assert int(once.max()) + 1 < 6
    assert int(merged(sizes, 10.0).max()) + 1 == 3, "three clusters of 20 on average"
    assert np.bincount(merged(ClusterSizes(12, 18), 10.0)).max() <= max(18, np.bincount(labels).max())


def planted(meaning: bool) -> tuple[Vectors, EdgeList, np.ndarray]:
    """Eight groups of 20: related within, or similar within, never both; few relations lead out."""
    rng = np.random.default_rng(1)
    within, out = (0.0, 0.0005) if meaning else (0.5, 0.002)
    graph = nx.random_partition_graph([20] * 8, within, out, seed=1)
    truth = np.repeat(np.arange(8), 20)
    vectors = rng.standard_normal((160, 24)) * (0.05 if meaning else 1.0)
    if meaning:
        vectors += np.eye(24)[truth]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32), links_of(graph), truth


@pytest.mark.parametrize("meaning", [True, False])
def test_groups_are_found_that_either_structure_or_meaning_shows(meaning: bool) -> None:
    vectors, links, truth = planted(meaning)
    perceived = Perception.of(encode_neighbourhoods(vectors, links), links, 0.5)
    found = detect(perceived, WIDE, pulse=lambda: None)
    assert adjusted_rand_score(truth, found) > 0.9
