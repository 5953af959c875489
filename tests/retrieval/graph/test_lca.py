"""LCA and paths against networkx and brute force on random trees."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.retrieval.graph.subgraph import branches, climb, lowest_common_ancestor, path_to

Chain = tuple[str, ...]


@st.composite
def trees(draw: st.DrawFn) -> list[Chain]:
    """The chains of some leaves of a random tree in which every leaf is equally far from the root."""
    depth = draw(st.integers(1, 5))
    leaves = draw(st.integers(1, 12))
    chains: list[list[str]] = [[f"n0.{leaf}"] for leaf in range(leaves)]
    row = list(range(leaves))
    for layer in range(1, depth + 1):
        width = 1 if layer == depth else draw(st.integers(1, max(len(set(row)), 1)))
        parents = {node: draw(st.integers(0, width - 1)) for node in sorted(set(row))}
        row = [parents[node] for node in row]
        for chain, node in zip(chains, row, strict=True):
            chain.append(f"n{layer}.{node}")
    return [tuple(chain) for chain in chains]


def graph_of(chains: list[Chain]) -> nx.DiGraph:
    return nx.DiGraph((parent, child) for chain in chains for child, parent in pairwise(chain))


@given(trees())
def test_the_lca_is_what_networkx_says(chains: list[Chain]) -> None:
    graph = graph_of(chains)
    nodes = [chain[0] for chain in chains]
    if len(nodes) == 1:
        assert lowest_common_ancestor(chains) == chains[0][1]
    else:
        expected = reduce(lambda one, other: nx.lowest_common_ancestor(graph, one, other), nodes)
        assert lowest_common_ancestor(chains) == expected


@given(trees())
def test_the_path_is_the_union_of_all_shortest_paths_between_the_nodes(chains: list[Chain]) -> None:
    """The paper's pairwise definition and the single union give the same subtree."""
    tree = graph_of(chains).to_undirected()
    nodes = [chain[0] for chain in chains]
    lca = lowest_common_ancestor(chains)
    to_lca = {node for start in nodes for node in nx.shortest_path(tree, start, lca)}
    path = path_to(chains, lca)
    assert set(path) == to_lca
    assert len(path) == len(set(path))
    if len(nodes) > 1:
        pairs = {node for a in nodes for b in nodes if a != b for node in nx.shortest_path(tree, a, b)}
        assert set(path) == pairs


@given(trees())
def test_a_path_goes_upwards_layer_by_layer(chains: list[Chain]) -> None:
    layers = [int(node[1]) for node in path_to(chains, lowest_common_ancestor(chains))]
    assert layers == sorted(layers)


@given(trees())
def test_branches_part_the_nodes_and_each_has_its_own_lca(chains: list[Chain]) -> None:
    found = branches(chains)
    by_node = {chain[0]: chain for chain in chains}
    seeds = [seed for branch in found for seed in branch.seeds]
    assert sorted(seeds) == sorted(by_node)
    root = chains[0][-1]
    for branch in found:
        own = [by_node[seed] for seed in branch.seeds]
        assert branch.lca == lowest_common_ancestor(own)
        assert branch.path == path_to(own, branch.lca)
        assert branch.lca != root or len(found) == 1


@given(trees())
def test_nodes_share_a_branch_exactly_if_they_meet_below_the_root(chains: list[Chain]) -> None:
    found = branches(chains)
    root = chains[0][-1]
    branch_of = {seed: number for number, branch in enumerate(found) for seed in branch.seeds}
    if lowest_common_ancestor(chains) != root or len(chains[0]) == 2:
        assert len(found) == 1
        return
    for one in chains:
        for other in chains:
            meet = one == other or lowest_common_ancestor([one, other]) != root
            assert (branch_of[one[0]] == branch_of[other[0]]) == meet


def test_seeds_that_meet_only_at_the_root_are_grouped_by_branch() -> None:
    chains = [
        ("ada", "people", "science", "root"),
        ("loom", "machines", "science", "root"),
        ("rye", "grain", "food", "root"),
    ]
    science, food = branches(chains)
    assert (science.lca, science.seeds) == ("science", ("ada", "loom"))
    assert science.path == ("ada", "loom", "people", "machines", "science")
    assert (food.lca, food.seeds, food.path) == ("grain", ("rye",), ("rye", "grain"))


def test_with_the_root_alone_above_the_base_all_seeds_are_one_group() -> None:
    (only,) = branches([("a", "root"), ("b", "root")])
    assert (only.lca, only.seeds) == ("root", ("a", "b"))


def test_a_cluster_and_an_entity_beneath_it_meet_in_the_cluster() -> None:
    chains = [("people", "science", "root"), ("ada", "people", "science", "root")]
    assert lowest_common_ancestor(chains) == "people"
    (branch,) = branches(chains)
    assert branch.path == ("ada", "people")


def test_a_cluster_right_below_the_root_is_its_own_branch() -> None:
    chains = [("science", "root"), ("rye", "grain", "food", "root")]
    assert [branch.lca for branch in branches(chains)] == ["science", "grain"]


def test_no_nodes_have_no_branches() -> None:
    assert branches([]) == ()


def test_chains_of_two_trees_are_refused() -> None:
    with pytest.raises(ValueError, match="one tree"):
        lowest_common_ancestor([("a", "x"), ("b", "y")])
    with pytest.raises(ValueError, match="no chains"):
        lowest_common_ancestor([])


def test_climbing_ends_at_the_top() -> None:
    assert climb(("a", "b", "c"), "b") == ("a", "b")
