"""The health record: every figure against a count by hand or by networkx, on hierarchies small enough to see."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import anyio
import networkx as nx
import numpy as np
import pytest

from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Entity
from leanrag_engine.core.ports import Embedder
from leanrag_engine.core.vectors import unit_rows
from leanrag_engine.hierarchy.build import BuiltHierarchy, HierarchyOptions, build
from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions
from leanrag_engine.hierarchy.health import SEEDS, find_nearest, measure_hierarchy

Maker = Callable[..., tuple[Graph, Embedder]]


def build_case(graph: Graph, embedder: Embedder, plan: HierarchyOptions | None = None) -> BuiltHierarchy:
    async def run() -> BuiltHierarchy:
        return await build(graph, embedder, plan or HierarchyOptions(), progress=lambda _: None)

    return anyio.run(run)


@pytest.fixture(scope="module", params=list(ClusteringMethod))
def one(request: pytest.FixtureRequest, random_case: Maker) -> BuiltHierarchy:
    graph, embedder = random_case(420, kind="clustered", density=1.5, seed=3)
    return build_case(graph, embedder, HierarchyOptions(8, 12, clustering=ClusteringOptions(request.param)))


def test_counts_sizes_and_shares_are_what_a_recount_gives(one: BuiltHierarchy) -> None:
    layers = one.hierarchy.layers
    assert [each.layer for each in one.health.layers] == list(range(len(layers)))
    for layer_health, (lower, upper) in zip(one.health.layers, pairwise(layers), strict=False):
        ends = {end for relation in lower.relations for end in (relation.source_id, relation.target_id)}
        assert layer_health.entities == len(lower.entities)
        assert layer_health.joined == pytest.approx(len(ends) / len(lower.entities), abs=1e-4)
        sizes = [entity.members for entity in upper.entities]
        assert layer_health.sizes is not None
        assert (layer_health.clusters, layer_health.sizes.least, layer_health.sizes.most) == (
            len(sizes),
            min(sizes),
            max(sizes),
        )
        assert layer_health.sizes.mean == pytest.approx(float(np.mean(sizes)), abs=1e-3)
    top = one.health.layers[-1]
    assert (top.entities, top.clusters, top.sizes) == (1, 0, None)


def test_inside_is_what_a_recount_gives(one: BuiltHierarchy) -> None:
    for layer_health, lower in zip(one.health.layers, one.hierarchy.layers[:-1], strict=False):
        parent = {entity.id: entity.parent_id for entity in lower.entities}
        inside = total = 0
        for relation in lower.relations:
            total += relation.strength
            if parent[relation.source_id] == parent[relation.target_id]:
                inside += relation.strength
        assert layer_health.inside == pytest.approx(inside / max(1, total), abs=1e-4)


def test_modularity_of_each_layer_is_what_networkx_gives_for_the_relations_of_g0(one: BuiltHierarchy) -> None:
    base = one.hierarchy.layers[0]
    graph = nx.Graph()
    graph.add_nodes_from(each.id for each in base.entities)
    for relation in base.relations:
        graph.add_edge(relation.source_id, relation.target_id, weight=relation.strength)
    above = {entity.id: entity.id for entity in base.entities}
    for layer_health, lower in zip(one.health.layers, one.hierarchy.layers[:-1], strict=False):
        parents = {entity.id: entity.parent_id for entity in lower.entities}
        above = {id_: parents[ancestor] for id_, ancestor in above.items()}
        members: dict[str, set[str]] = {ancestor: set() for ancestor in above.values()}
        for id_, ancestor in above.items():
            members[ancestor].add(id_)
        expected = nx.community.modularity(graph, members.values()) if base.relations else 0.0
        assert layer_health.modularity == pytest.approx(expected, abs=1e-4)


def test_tightness_is_the_mean_cosine_to_the_mean_of_the_cluster(one: BuiltHierarchy) -> None:
    for layer_health, rows, lower in zip(
        one.health.layers[:-1], one.vectors, one.hierarchy.layers, strict=False
    ):
        parents = np.array([entity.parent_id for entity in lower.entities])
        cosines = []
        for parent in set(parents.tolist()):
            members = rows[parents == parent].astype(np.float64)
            mean = members.mean(axis=0)
            cosines += (members @ mean / max(1e-12, float(np.linalg.norm(mean)))).tolist()
        assert layer_health.tightness == pytest.approx(float(np.mean(cosines)), abs=1e-3)


def test_no_cluster_with_a_relation_leaving_it_is_an_island(one: BuiltHierarchy) -> None:
    assert [each.islands for each in one.health.layers] == [0] * len(one.health.layers)


def test_a_cluster_that_relations_leave_and_no_relation_above_joins_is_an_island(one: BuiltHierarchy) -> None:
    """A hierarchy whose relations between clusters were lost: every cluster that had one is cut off."""
    layers = one.hierarchy.layers
    base, first, *above = layers
    lost = Hierarchy((base, Graph(first.entities, ()), *above))
    found = measure_hierarchy(
        lost,
        one.vectors,
        clustering=ClusteringOptions(ClusteringMethod(one.health.clustering)),
        sizes=ClusterSizes(8, 12),
        thresholds=[3] * (len(layers) - 1),
    )
    parent = {entity.id: entity.parent_id for entity in base.entities}
    ends = [(parent[each.source_id], parent[each.target_id]) for each in base.relations]
    left = {end for near, far in ends if near != far for end in (near, far)}
    assert found.layers[0].islands == len(left) > 1


def test_relations_decide_which_entities_share_a_cluster(one: BuiltHierarchy, random_case: Maker) -> None:
    """In every way of clustering more relations lie inside clusters than if the clusters knew none of them."""
    graph, embedder = random_case(420, kind="clustered", density=1.5, seed=3)
    blind = build_case(
        Graph(graph.entities, ()),
        embedder,
        HierarchyOptions(8, 12, clustering=ClusteringOptions(ClusteringMethod(one.health.clustering))),
    )
    parent = {entity.id: entity.parent_id for entity in blind.hierarchy.layers[0].entities}
    total = sum(each.strength for each in graph.relations)
    inside = sum(
        each.strength for each in graph.relations if parent[each.source_id] == parent[each.target_id]
    )
    assert one.health.layers[0].inside > 1.2 * inside / total


def test_each_aggregate_that_a_base_relation_leaves_has_a_relation_of_its_own(one: BuiltHierarchy) -> None:
    layers = one.hierarchy.layers
    above = {entity.id: entity.id for entity in layers[0].entities}
    for lower, upper in pairwise(layers):
        parent = {entity.id: entity.parent_id for entity in lower.entities}
        above = {base: parent[ancestor] for base, ancestor in above.items()}
        ends = [(above[each.source_id], above[each.target_id]) for each in layers[0].relations]
        left = {end for near, far in ends if near != far for end in (near, far)}
        related = {end for each in upper.relations for end in (each.source_id, each.target_id)}
        assert left == related
        assert len(left) > 1 or len(upper.entities) == 1


def test_seeds_meet_where_the_tree_says(one: BuiltHierarchy) -> None:
    hierarchy, rows = one.hierarchy, one.vectors[0]
    everyone = {entity.id: entity for layer in hierarchy.layers for entity in layer.entities}

    def chain(entity: Entity) -> list[str]:
        found = [entity.id]
        while (parent := everyone[found[-1]].parent_id) is not None:
            found.append(parent)
        return found

    chosen = np.unique(np.linspace(0, len(rows) - 1, 200).astype(int))
    met = {"pairs": [], "sets": []}
    for place in chosen:
        near = sorted(range(len(rows)), key=lambda other: (other != place, -float(rows[place] @ rows[other])))
        for kind, count in (("pairs", 2), ("sets", SEEDS)):
            chains = [chain(hierarchy.layers[0].entities[seed]) for seed in near[:count]]
            common = next(id_ for id_ in chains[0] if all(id_ in other for other in chains[1:]))
            met[kind].append(everyone[common].layer)
    for kind, found in (("pairs", one.health.meetings.pairs), ("sets", one.health.meetings.sets)):
        expected = {layer: met[kind].count(layer) / len(chosen) for layer in set(met[kind])}
        assert found == pytest.approx(expected, abs=0.02)  # float32 products may rank near ties otherwise


@pytest.mark.parametrize("block", [7, 64, 1000])
@pytest.mark.parametrize("order", [1, -1])
def test_the_nearest_are_found_in_blocks_as_by_sorting_all(block: int, order: int) -> None:
    """Rows by their nearness to one of them: the best are in the first block, or each block has better ones."""
    vectors = unit_rows(np.random.default_rng(1).normal(size=(300, 4)).astype(np.float32))
    vectors = vectors[np.argsort(vectors @ vectors[0])[::order]]
    chosen = np.array([0, 150, 299])
    expected = np.argsort(-(vectors[chosen] @ vectors.T), axis=1)[:, :5]
    assert find_nearest(vectors, chosen, 5, block).tolist() == expected.tolist()
    alike = np.ones((50, 1), dtype=np.float32)
    assert find_nearest(alike, np.array([30]), 3, block)[0, 0] == 30


def test_the_record_holds_the_options_of_the_build(one: BuiltHierarchy) -> None:
    assert one.health.clustering in ("gmm", "leiden")
    assert (one.health.cluster_size, one.health.cluster_cap) == (8, 12)


def test_a_single_entity_has_a_record_too(random_case: Maker) -> None:
    health = build_case(*random_case(1)).health
    assert health.meetings.pairs == {}
    assert [each.entities for each in health.layers] == [1, 1]
