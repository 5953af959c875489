"""Personalised PageRank by local push, against networkx; what a filter shuts is not walked."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Chunk, Entity, Relation
from leanrag_engine.retrieval.graph.adjacency import Adjacency, EdgeKind
from leanrag_engine.retrieval.graph.adjacency_cache import make_adjacency
from leanrag_engine.retrieval.search import ranking as module
from leanrag_engine.retrieval.search.ranking import WalkRules, pagerank

NAMES = "abcdefgh"
WEIGHTS = {EdgeKind.MENTION: 1.0, EdgeKind.TITLE: 5.0, EdgeKind.RELATION: 0.7}

pairs = st.sets(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda pair: pair[0] < pair[1])
)
mentions = st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from("123")), max_size=8)
starts = st.dictionaries(st.sampled_from(NAMES), st.floats(0.1, 3.0), min_size=1, max_size=8)


def chunk(number: str, title: str = "") -> Chunk:
    return Chunk(f"k{number}", f"doc{number}", 1, "text", 0, 4, 1, title=title)


def layers(pairs: set[tuple[str, str]], mentions: dict[str, set[str]]) -> list[Graph]:
    """Entities a … h below one root, to which no edge of the walk leads."""
    base = tuple(
        Entity(
            f"e{name}",
            name,
            parent_id="eroot",
            chunk_ids=tuple(f"k{number}" for number in sorted(mentions.get(name, ()))),
        )
        for name in NAMES
    )
    relations = tuple(
        Relation(f"r{one}{other}", f"e{one}", f"e{other}", weight=2) for one, other in sorted(pairs)
    )
    return [Graph(base, relations), Graph((Entity("eroot", "Root", layer=1),), ())]


@given(pairs, mentions, starts, st.sampled_from([0.3, 0.5, 0.85]))
def test_the_shares_are_those_of_networkx(
    pairs: set[tuple[str, str]], mentions: dict[str, set[str]], starts: dict[str, float], damping: float
) -> None:
    graph = make_adjacency(layers(pairs, mentions), [chunk("1", "a"), chunk("2"), chunk("3")])
    oracle = nx.Graph()
    oracle.add_nodes_from([f"e{name}" for name in starts])
    for name in NAMES:
        for number in mentions.get(name, ()):
            oracle.add_edge(f"e{name}", f"k{number}", weight=5.0 if (name, number) == ("a", "1") else 1.0)
    for one, other in pairs:
        oracle.add_edge(f"e{one}", f"e{other}", weight=0.7 * (1 + np.log(2)))
    start = {f"e{name}": weight for name, weight in starts.items()}
    expected = nx.pagerank(oracle, alpha=damping, personalization=start, tol=1e-12, max_iter=500)
    nodes = graph.entity_nodes(list(start)).tolist()
    found = shares(graph, dict(zip(nodes, start.values(), strict=True)), WalkRules(WEIGHTS, damping), 1e-12)
    assert {name_of(graph, node): share for node, share in found.items()} == pytest.approx(
        {node: share for node, share in expected.items() if share > 1e-9}, abs=1e-6
    )
    assert sum(found.values()) == pytest.approx(1.0)


def shares(
    graph: Adjacency, start: dict[int, float], walk: WalkRules, tolerance: float = 3e-5
) -> dict[int, float]:
    found = pagerank(graph, start, walk, tolerance)
    return dict(zip(found.nodes.tolist(), found.values.tolist(), strict=True))


def name_of(graph: Adjacency, node: int) -> str:
    if node < len(graph.chunk_ids):
        return str(graph.chunk_ids[node], "ascii")
    return str(graph.entity_ids[node - len(graph.chunk_ids)], "ascii")


def test_walks_after_and_beside_others_on_larger_and_smaller_graphs_find_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = {(one, other) for one in NAMES for other in NAMES if one < other}
    large = make_adjacency(layers(pairs, {"a": {"1"}, "b": {"1", "2"}}), [chunk("1"), chunk("2"), chunk("3")])
    small = make_adjacency(layers({("a", "b")}, {}), [])
    walk = WalkRules(WEIGHTS, 0.5)
    cases = [(graph, {node: 1.0, 0: 0.5}) for graph in (large, small) for node in range(graph.nodes)]

    def walk_alone(case: tuple[Adjacency, dict[int, float]]) -> dict[int, float]:
        monkeypatch.setattr(module, "_spare", deque(maxlen=0))
        return shares(*case, walk)

    alone = [walk_alone(case) for case in cases]
    monkeypatch.setattr(module, "_spare", deque(maxlen=4))
    with ThreadPoolExecutor(6) as threads:
        beside = list(threads.map(lambda case: shares(*case, walk), cases * 20))
    assert beside == alone * 20
    assert 0 < len(module._spare) <= 4


def test_without_a_start_nobody_walks() -> None:
    graph = make_adjacency(layers({("a", "b")}, {}), [])
    assert shares(graph, {}, WalkRules(WEIGHTS, 0.5)) == {}
    assert shares(graph, {0: 0.0}, WalkRules(WEIGHTS, 0.5)) == {}


def test_a_chunk_that_is_not_allowed_is_not_walked_through() -> None:
    """A – chunk 1 – b – chunk 2: with chunk 1 shut, the walker from a stays where it is."""
    mentioned = {"a": {"1"}, "b": {"1", "2"}}
    graph = make_adjacency(layers(set(), mentioned), [chunk("1"), chunk("2")])
    start = {int(graph.entity_nodes(["ea"])[0]): 1.0}
    walk = WalkRules({EdgeKind.MENTION: 1.0}, 0.5)
    assert len(shares(graph, start, walk)) == 4
    shut = replace(walk, allowed=np.array([False, True]))
    assert shares(graph, start, shut) == {next(iter(start)): 1.0}


def test_a_coarser_tolerance_reaches_less_of_the_graph_and_keeps_the_order_at_the_top() -> None:
    ring = [(NAMES[place], NAMES[(place + 1) % 8]) for place in range(8)]
    graph = make_adjacency(layers({(min(pair), max(pair)) for pair in ring}, {}), [])
    start = {int(graph.entity_nodes(["ea"])[0]): 1.0}
    walk = WalkRules({EdgeKind.RELATION: 1.0}, 0.5)
    coarse = shares(graph, start, walk, 0.05)
    fine = shares(graph, start, walk, 1e-9)
    assert len(coarse) < len(fine) == 8
    assert max(coarse, key=coarse.__getitem__) == max(fine, key=fine.__getitem__) == next(iter(start))
