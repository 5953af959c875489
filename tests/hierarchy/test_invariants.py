"""The check that every build passes: it must notice each way in which a hierarchy can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Entity, Relation
from leanrag_engine.hierarchy.health import check_hierarchy


def sound() -> Hierarchy:
    base = Graph(
        tuple(Entity(id=f"e{n}", name=f"E{n}", parent_id="c0" if n < 2 else "c1") for n in range(4)),
        (Relation("r0", "e0", "e2"), Relation("r1", "e3", "e1"), Relation("r2", "e0", "e1")),
    )
    upper = Graph(
        tuple(
            Entity(id=f"c{n}", name=f"C{n}", layer=1, parent_id="top", members=2, mentions=2)
            for n in range(2)
        ),
        (Relation("s0", "c1", "c0", layer=1, strength=2, support=2),),
    )
    root = Graph((Entity(id="top", name="Top", layer=2, members=2, mentions=4),), ())
    return Hierarchy((base, upper, root))


def with_entity(hierarchy: Hierarchy, layer: int, place: int, /, **values: object) -> Hierarchy:
    layers = list(hierarchy.layers)
    entities = list(layers[layer].entities)
    entities[place] = replace(entities[place], **values)  # type: ignore[arg-type]
    layers[layer] = Graph(tuple(entities), layers[layer].relations)
    return Hierarchy(tuple(layers))


def with_relations(hierarchy: Hierarchy, layer: int, *relations: Relation) -> Hierarchy:
    layers = list(hierarchy.layers)
    layers[layer] = Graph(layers[layer].entities, relations)
    return Hierarchy(tuple(layers))


RELATION = Relation("s0", "c1", "c0", layer=1, strength=2, support=2)

FAULTS: dict[str, tuple[Callable[[Hierarchy], Hierarchy], str]] = {
    "no root": (lambda one: Hierarchy(one.layers[:2]), "the last one must be the root"),
    "base alone": (lambda one: Hierarchy(one.layers[:1]), "the last one must be the root"),
    "a layer that does not shrink": (
        lambda one: Hierarchy((one.layers[0], *one.layers)),
        "smaller than the one below",
    ),
    "an orphan": (lambda one: with_entity(one, 0, 1, parent_id=None), "lack a parent one layer up"),
    "a parent two layers up": (
        lambda one: with_entity(one, 0, 1, parent_id="top"),
        "lack a parent one layer up",
    ),
    "a root with a parent": (lambda one: with_entity(one, 2, 0, parent_id="c0"), "lack a parent"),
    "one id twice": (lambda one: with_entity(one, 0, 1, id="e0"), "same id"),
    "a wrong layer": (lambda one: with_entity(one, 1, 0, layer=0), "another layer"),
    "a wrong number of members": (lambda one: with_entity(one, 1, 0, members=1), "2 members, not 1"),
    "a wrong number beneath": (
        lambda one: with_entity(one, 2, 0, mentions=3),
        "4 base entities beneath, not 3",
    ),
    "a second parent that is the parent": (
        lambda one: with_entity(one, 0, 1, second_parent_id="c0"),
        r"second parent of \['e1'\] of layer 0 is not another",
    ),
    "a second parent two layers up": (
        lambda one: with_entity(one, 0, 3, second_parent_id="top"),
        r"second parent of \['e3'\]",
    ),
    "a root with a second parent": (
        lambda one: with_entity(one, 2, 0, second_parent_id="c0"),
        r"second parent of \['top'\]",
    ),
    "a cluster over the cap": (lambda one: with_entity(one, 1, 0, members=31), "more than 30 members"),
    "a missing relation": (lambda one: with_relations(one, 1), "1 pairs of clusters lack their relation"),
    "a wrong strength": (
        lambda one: with_relations(one, 1, replace(RELATION, strength=3)),
        "rests on 2 relations, not on 3",
    ),
    "a wrong support": (
        lambda one: with_relations(one, 1, replace(RELATION, support=1)),
        "rests on 2 base relations, not on 1",
    ),
    "one pair twice": (
        lambda one: with_relations(
            one, 1, RELATION, replace(RELATION, id="s1", source_id="c0", target_id="c1")
        ),
        "two relations join the same pair",
    ),
    "one relation id twice": (
        lambda one: with_relations(one, 0, *one.layers[0].relations, Relation("r0", "e1", "e2")),
        "same id",
    ),
    "an end in another layer": (
        lambda one: with_relations(one, 1, replace(RELATION, target_id="e0")),
        "not in layer 1",
    ),
}


def test_a_sound_hierarchy_passes() -> None:
    check_hierarchy(sound(), 30)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_found_and_named(fault: str) -> None:
    spoil, message = FAULTS[fault]
    with pytest.raises(LeanRAGError, match=message):
        check_hierarchy(spoil(sound()), 30)
