"""Whole hierarchies on random and degenerate graphs: the invariants, and the same bits on every run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import anyio
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leanrag_engine.core.errors import Cancelled, InvalidInput, NotReady
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Entity, Relation, Vectors
from leanrag_engine.core.ports import Embedder, Progress
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.hierarchy.build import HierarchyOptions, build
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions

Maker = Callable[..., tuple[Graph, Embedder]]
METHODS = tuple(each.value for each in ClusteringMethod)
KINDS = ("spread", "clustered", "duplicated", "equal", "zero", "mixed")


def silent(_: Progress) -> None:
    pass


def build_case(
    graph: Graph,
    embedder: Embedder,
    *,
    cluster_size: int = 20,
    cap: int | None = 30,
    tau: int = 3,
    method: str = "gmm",
) -> tuple[Hierarchy, list[Vectors]]:
    plan = HierarchyOptions(cluster_size, cap, tau, ClusteringOptions(ClusteringMethod(method)))

    async def run() -> tuple[Hierarchy, list[Vectors]]:
        found = await build(graph, embedder, plan, progress=silent)
        return found.hierarchy, found.vectors

    return anyio.run(run)


def as_given(entity: Entity) -> Entity:
    """A base entity without its place in the tree."""
    return replace(
        entity, parent_id=None, second_parent_id=None, responsibility=1.0, second_responsibility=0.0
    )


def pair(relation: Relation) -> frozenset[str]:
    return frozenset((relation.source_id, relation.target_id))


def assert_well_formed(base: Graph, hierarchy: Hierarchy, cluster_size: int, cap: int) -> None:
    """The invariants, by brute force and networkx, without the code that the engine checks them with."""
    layers = hierarchy.layers
    assert [as_given(entity) for entity in layers[0].entities] == list(base.entities)
    assert layers[0].relations == base.relations
    assert len(layers[-1].entities) == 1
    assert (
        all(len(upper.entities) < len(lower.entities) for lower, upper in pairwise(layers))
        or len(base.entities) == 1
    )
    assert all(len(layer.entities) > cluster_size for layer in layers[:-2])
    everyone = {entity.id: entity for layer in layers for entity in layer.entities}
    for lower, upper in pairwise(layers):
        above = {entity.id for entity in upper.entities}
        for entity in lower.entities:
            assert (entity.second_parent_id is None) == (len(above) == 1)
            assert entity.second_parent_id in above - {entity.parent_id} | {None}
            assert 0 <= entity.responsibility + entity.second_responsibility <= 1 + 1e-5
    assert len(everyone) == sum(hierarchy.sizes)

    tree = nx.DiGraph()
    tree.add_nodes_from(everyone)
    for entity in everyone.values():
        if entity.parent_id is not None:
            tree.add_edge(entity.parent_id, entity.id)
            assert everyone[entity.parent_id].layer == entity.layer + 1
    assert nx.is_arborescence(tree)
    assert hierarchy.root.parent_id is None
    for entity in everyone.values():
        children = list(tree.successors(entity.id))
        assert len(children) == entity.members <= cap
        if entity.layer:
            beneath = [other for other in nx.descendants(tree, entity.id) if everyone[other].layer == 0]
            assert len(beneath) == entity.mentions
            assert name_key(entity.name) not in {name_key(everyone[child].name) for child in children}
    for layer in layers[1:]:
        names = [name_key(entity.name) for entity in layer.entities]
        assert len(set(names)) == len(names)
    assert_relations_counted(hierarchy)


def assert_relations_counted(hierarchy: Hierarchy) -> None:
    ancestor = {entity.id: entity.id for entity in hierarchy.layers[0].entities}
    for lower, upper in pairwise(hierarchy.layers):
        parent = {entity.id: entity.parent_id or "" for entity in lower.entities}
        ancestor = {ground: parent[above] for ground, above in ancestor.items()}
        strengths = Counter(frozenset(parent[end] for end in pair(one)) for one in lower.relations)
        base = hierarchy.layers[0].relations
        supports = Counter(frozenset(ancestor[end] for end in pair(one)) for one in base)
        joined = {ends for ends in strengths if len(ends) == 2}
        assert {pair(one) for one in upper.relations} == joined
        assert len(upper.relations) == len(joined)
        for one in upper.relations:
            assert (one.strength, one.support) == (strengths[pair(one)], supports[pair(one)])
        assert len({one.id for one in upper.relations}) == len(upper.relations)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    count=st.one_of(st.sampled_from([1, 2, 19, 20, 21, 30, 31]), st.integers(1, 260)),
    density=st.sampled_from([0.0, 0.5, 3.0]),
    sizes=st.sampled_from([(20, 30), (20, 20), (4, 6), (2, 3)]),
    tau=st.integers(0, 4),
    method=st.sampled_from(METHODS),
    seed=st.integers(0, 9),
)
def test_every_hierarchy_is_a_tree_whose_relations_count_what_lies_beneath(
    random_case: Maker,
    kind: str,
    count: int,
    density: float,
    sizes: tuple[int, int],
    tau: int,
    method: str,
    seed: int,
) -> None:
    graph, embedder = random_case(count, kind=kind, density=density, seed=seed)
    hierarchy, vectors = build_case(
        graph, embedder, cluster_size=sizes[0], cap=sizes[1], tau=tau, method=method
    )
    assert_well_formed(graph, hierarchy, *sizes)
    assert [rows.shape for rows in vectors] == [(size, embedder.dimension) for size in hierarchy.sizes]


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, (1, 1)), (2, (2, 1)), (20, (20, 1)), (21, (21, 2, 1)), (400, (400, 20, 1))]
)
@pytest.mark.parametrize("method", METHODS)
def test_layers_are_stacked_until_one_root_holds_the_last(
    random_case: Maker, count: int, sizes: tuple[int, ...], method: str
) -> None:
    hierarchy, _ = build_case(*random_case(count), method=method)
    assert hierarchy.sizes == sizes
    assert hierarchy.root.type == "root"


@pytest.mark.parametrize("method", METHODS)
def test_a_giant_component_with_fragments_and_a_star_are_well_formed(random_case: Maker, method: str) -> None:
    graph, embedder = random_case(160)
    hub, *others = graph.entities
    ends = [(hub, other) for other in others[:90]]
    ends += list(pairwise(others[90:130]))
    ends += list(zip(others[130::2], others[131::2], strict=False))
    relations = tuple(
        Relation(f"r{number}", one.id, other.id, description=f"{one.name} holds {other.name}.")
        for number, (one, other) in enumerate(ends)
    )
    graph = Graph(graph.entities, relations)
    hierarchy, _ = build_case(graph, embedder, method=method)
    assert_well_formed(graph, hierarchy, 20, 30)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [21, 97, 430, 1404])
def test_layers_shrink_to_between_a_tenth_and_a_twentieth_but_for_the_root(
    random_case: Maker, count: int, method: str
) -> None:
    """A layer of 2 to 20 gets the root alone: what that divides it by is arithmetic's, not ours."""
    hierarchy, _ = build_case(*random_case(count, kind="clustered", density=1.5), method=method)
    for lower, upper in pairwise(hierarchy.sizes):
        assert upper == 1 if lower <= 20 else 10 <= lower / upper <= 20


def test_aggregates_are_clustered_by_their_members_too_when_their_texts_say_nothing(
    random_case: Maker,
) -> None:
    graph, embedder = random_case(256, kind="nested")  # an aggregate's text gets the mean of all vectors
    hierarchy, _ = build_case(graph, embedder, cluster_size=4, cap=6)
    everyone = {entity.id: entity for layer in hierarchy.layers for entity in layer.entities}
    regions: dict[str, set[int]] = {}
    for place, entity in enumerate(hierarchy.layers[0].entities):
        grandparent = everyone[everyone[entity.id].parent_id or ""].parent_id or ""
        regions.setdefault(grandparent, set()).add(place % 16)
    assert all(len(found) == 1 for found in regions.values())


@pytest.mark.parametrize("method", METHODS)
def test_a_build_is_the_same_on_every_run(random_case: Maker, method: str) -> None:
    case = random_case(300, kind="clustered", density=2.0, seed=4)
    digests = {digest(*build_case(*case, method=method)) for _ in range(2)}
    assert len(digests) == 1


def digest(hierarchy: Hierarchy, vectors: list[Vectors]) -> str:
    found = hashlib.sha256(repr(hierarchy).encode())
    for rows in vectors:
        found.update(rows.tobytes())
    return found.hexdigest()


WHOLE_BUILD = """
import anyio, hashlib
from leanrag_engine.adapters.embedders.fitted import FittedEmbedderSource
from leanrag_engine.hierarchy.build import HierarchyOptions, build
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Entity, Relation, content_id
words = "harbour river mill tower bridge market garden chapel library orchard lantern anchor".split()
entities = tuple(
    Entity(id=content_id("e", str(n)), name=f"{words[n % 12]} {words[n * 5 % 11]} {n}",
           description=f"The {words[n % 12]} of the {words[n * 7 % 12]} lies by the {words[n * 3 % 11]} number {n}.")
    for n in range(450)
)
relations = tuple(
    Relation(id=f"r{n}", source_id=entities[n].id, target_id=entities[n * 7 % 449].id, description=f"Road {n}.")
    for n in range(1, 449)
)
async def main():
    embedder, state = await FittedEmbedderSource().fit([entity.indexed_text for entity in entities])
    for method in ClusteringMethod:
        plan = HierarchyOptions(clustering=ClusteringOptions(method))
        built = await build(Graph(entities, relations), embedder, plan, progress=lambda _: None)
        digest = hashlib.sha256(repr((built.hierarchy, built.health)).encode() + state)
        for rows in built.vectors:
            digest.update(rows.tobytes())
        print(digest.hexdigest())
anyio.run(main)
"""


def test_threads_and_hash_seeds_change_no_bit_of_a_build() -> None:
    digests = set()
    for threads, seed in (("1", "0"), ("2", "17")):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, threads) | {"PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-P", "-c", WHOLE_BUILD],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_relations_does_not_change_the_tree(random_case: Maker, method: str) -> None:
    graph, embedder = random_case(150, kind="clustered", density=2.0)
    turned = Graph(graph.entities, tuple(reversed(graph.relations)))
    first, _ = build_case(graph, embedder, method=method)
    second, _ = build_case(turned, embedder, method=method)
    assert [layer.entities for layer in first.layers] == [layer.entities for layer in second.layers]
    assert [layer.relations for layer in first.layers[1:]] == [layer.relations for layer in second.layers[1:]]


@pytest.mark.parametrize("method", METHODS)
def test_a_build_without_entities_is_not_ready(random_case: Maker, method: str) -> None:
    _, embedder = random_case(1)
    with pytest.raises(NotReady, match="no entities"):
        build_case(Graph((), ()), embedder, method=method)


@pytest.mark.parametrize(("cluster_size", "cap"), [(20, 19), (1, 30)])
def test_sizes_that_contradict_each_other_are_refused(
    random_case: Maker, cluster_size: int, cap: int
) -> None:
    with pytest.raises(InvalidInput, match=f"{cluster_size}.*{cap}"):
        build_case(*random_case(3), cluster_size=cluster_size, cap=cap)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [8, 25])
def test_an_embedder_that_gives_nan_is_refused_with_the_text_that_caused_it(
    random_case: Maker, count: int, method: str
) -> None:
    graph, embedder = random_case(count, density=1.0, broken=7)
    with pytest.raises(InvalidInput, match=graph.entities[7].name):
        build_case(graph, embedder, method=method)


def test_a_build_stops_wherever_its_progress_says_so(random_case: Maker) -> None:
    graph, embedder = random_case(210, density=1.0)
    seen: list[str] = []

    async def run(stop_at: int) -> None:
        def progress(at: Progress) -> None:
            seen.append(at.stage)
            if len(seen) == stop_at:
                raise Cancelled("Stopped by the test.")

        await build(graph, embedder, HierarchyOptions(), progress=progress)

    anyio.run(run, 0)
    stages = list(seen)
    assert {"name", "embed", "cluster", "aggregate", "relate", "check"} <= set(stages)
    for stop_at in range(1, len(stages) + 1):
        seen.clear()
        with pytest.raises(Cancelled):
            anyio.run(run, stop_at)
        assert seen == stages[:stop_at]


def test_a_base_entity_keeps_its_place_and_only_gains_a_parent(random_case: Maker) -> None:
    graph, embedder = random_case(60, density=1.0)
    hierarchy, vectors = build_case(graph, embedder)
    assert [as_given(entity) for entity in hierarchy.layers[0].entities] == list(graph.entities)
    texts = [entity.indexed_text for entity in graph.entities]
    assert np.array_equal(vectors[0], anyio.run(embedder.embed, texts))
