"""Leiden's communities at several resolutions, with networkx's modularity as the oracle."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes
from leanrag_engine.hierarchy.clustering.communities import find_communities, find_level, leiden
from leanrag_engine.hierarchy.clustering.links import EdgeList, Labels


def nested(seed: int = 0) -> tuple[nx.Graph, EdgeList, Labels, Labels]:
    """16 groups of 20 within four regions: the graph, its links, and the number of each entity's group and region."""
    groups, size = np.repeat(np.arange(16), 20), 320
    rng = np.random.default_rng(seed)
    same, near = groups[:, None] == groups, groups[:, None] // 4 == groups // 4
    chances = np.where(same, 0.6, np.where(near, 0.06, 0.002))
    graph = nx.from_numpy_array(np.triu(rng.random((size, size)) < chances, 1).astype(int))
    ends = np.array(graph.edges, dtype=np.intp)
    return graph, EdgeList(size, ends, np.ones(len(ends))), groups, groups // 4


def modularity(graph: nx.Graph, labels: Labels, resolution: float = 1.0) -> float:
    parts = [set(np.flatnonzero(labels == number).tolist()) for number in np.unique(labels)]
    return float(nx.community.modularity(graph, parts, resolution=resolution))


def silent() -> None:
    pass


def test_high_resolutions_find_the_groups_and_low_ones_the_regions() -> None:
    graph, links, groups, regions = nested()
    fine, broad = leiden(links, 2.0), leiden(links, 0.5)
    assert adjusted_rand_score(groups, fine) == 1.0
    assert adjusted_rand_score(regions, broad) == 1.0
    for labels in (fine, broad):
        assert links.modularity(labels) == pytest.approx(modularity(graph, labels))


def test_the_graph_of_communities_has_the_modularity_of_the_graph_below() -> None:
    graph, links, groups, regions = nested()
    upper = links.contract(groups)
    above = np.arange(16) // 4
    assert upper.modularity(above) == pytest.approx(modularity(graph, regions))
    assert upper.total == links.total
    assert upper.contract(above).modularity(np.arange(4)) == pytest.approx(modularity(graph, regions))


@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0, 4.0])
def test_communities_of_communities_are_about_as_good_as_communities_of_the_graph_itself(
    resolution: float,
) -> None:
    graph, links, _, _ = nested()
    small = leiden(links, 16.0)
    assert len(np.unique(small)) > 16
    found = leiden(links.contract(small), resolution)[small]
    direct = modularity(graph, leiden(links, resolution), resolution)
    assert modularity(graph, found, resolution) > direct - 0.05


def test_a_level_has_the_lowest_resolution_with_enough_communities() -> None:
    _, links, groups, regions = nested()
    for mean_size, expected in ((80, regions), (20, groups)):
        resolution, labels = find_level(links, mean_size, 0, silent)
        assert adjusted_rand_score(expected, labels) == 1.0
        assert len(np.unique(leiden(links, resolution / 2))) < 320 / mean_size


def test_layers_nest() -> None:
    graph, links, groups, regions = nested()
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((320, 8)).astype(np.float32)
    first = find_communities(vectors, links, ClusterSizes(20, 30), pulse=silent)
    assert adjusted_rand_score(groups, first) == 1.0
    upper = links.contract(first)
    means = np.stack([vectors[first == number].mean(axis=0) for number in range(16)])
    second = find_communities(means, upper, ClusterSizes(4, 6), pulse=silent)
    assert adjusted_rand_score(regions, second[first]) == 1.0
    assert upper.modularity(second) == pytest.approx(modularity(graph, second[first]))
