"""The subgraph of a query: which relations belong to it."""

from __future__ import annotations

from leanrag_engine.core.model import Entity, Relation, Seed
from leanrag_engine.retrieval.graph.subgraph import assemble_subgraph

PARENTS = {
    "ada": "people",
    "babbage": "people",
    "london": "towns",
    "turin": "towns",
    "people": "history",
    "towns": "history",
    "tools": "history",
    "history": None,
}
NODES = {
    name: Entity(
        name, name, layer=0 if parent in ("people", "towns") else 2 if parent is None else 1, parent_id=parent
    )
    for name, parent in PARENTS.items()
}


def relation(source: str, target: str) -> Relation:
    return Relation(f"{source}-{target}", source, target, NODES[source].layer)


RELATIONS = [
    relation("ada", "babbage"),
    relation("ada", "london"),
    relation("babbage", "turin"),
    relation("people", "towns"),
    relation("people", "tools"),
    relation("towns", "tools"),
]


def found(*seeds: str) -> tuple[set[str], set[str]]:
    """Ids of the relations of G0 and of those between clusters."""
    subgraph = assemble_subgraph([Seed(NODES[name], 1.0) for name in seeds], NODES, RELATIONS)
    base = {each.id for each in subgraph.base_relations}
    return base, {each.id for each in subgraph.inter_cluster_relations}


def test_of_g0_the_relations_between_seeds_belong_to_it_and_no_others() -> None:
    assert found("ada", "babbage")[0] == {"ada-babbage"}
    assert found("ada", "london")[0] == {"ada-london"}
    assert found("ada", "turin")[0] == set()


def test_of_the_layers_above_the_relations_between_clusters_on_the_paths_belong_to_it_and_no_others() -> None:
    assert found("ada", "london")[1] == {"people-towns"}
    assert found("ada", "babbage")[1] == set(), "both seeds are of one cluster: no path leads through another"
