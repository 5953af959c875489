"""Personalised PageRank against networkx."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.retrieval.spreading import Edge, personalised_pagerank

nodes = st.sampled_from("abcdefgh")
edges = st.lists(st.builds(Edge, nodes, nodes, st.floats(0.1, 5.0)), max_size=20)
starts = st.dictionaries(nodes, st.floats(0.1, 3.0), min_size=1, max_size=8)


@given(edges, starts, st.sampled_from([0.3, 0.5, 0.85]))
def test_the_shares_are_those_of_networkx(
    edges: list[Edge], starts: dict[str, float], damping: float
) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(starts)
    for edge in edges:
        if edge.source == edge.target:
            continue
        known = graph.get_edge_data(edge.source, edge.target, {"weight": 0.0})
        graph.add_edge(edge.source, edge.target, weight=known["weight"] + edge.weight)
    expected = nx.pagerank(graph, alpha=damping, personalization=starts, tol=1e-12, max_iter=500)
    found = personalised_pagerank(edges, starts, damping)
    assert found == pytest.approx(expected, abs=1e-8)
    assert sum(found.values()) == pytest.approx(1.0)


def test_without_a_start_nobody_walks() -> None:
    assert personalised_pagerank([Edge("a", "b")], {}, 0.5) == {}
    assert personalised_pagerank([Edge("a", "b")], {"a": 0.0}, 0.5) == {}


def test_what_no_start_reaches_has_no_share() -> None:
    found = personalised_pagerank([Edge("a", "b"), Edge("c", "d")], {"a": 1.0}, 0.5)
    assert found["c"] == found["d"] == 0.0
    assert found["a"] > found["b"] > 0.0
