"""Check the invariants of a hierarchy; every build runs this before it returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.core.graphs.layers import find_misfit
from leanrag_engine.core.model import Graph, Hierarchy

Pair = tuple[str, str]


def check_hierarchy(hierarchy: Hierarchy, cap: int) -> None:
    """Raise :class:`LeanRAGError` if the hierarchy is not well-formed. Linear in its size.

    Every entity but the root has one parent one layer up, and its runner-up, if any, is another entity of that layer.
    Each layer is smaller than the one below, and the last is the root alone. No cluster exceeds ``cap``; ``members``
    and ``mentions`` are correct; ids are unique. There is one relation for exactly the pairs of clusters that a
    relation of the layer below joins; its strength is the number of these, its support that of the base relations.
    """
    _check_layers(hierarchy, cap)
    lifted = {entity.id: entity.id for entity in hierarchy.layers[0].entities}
    base = [(relation.source_id, relation.target_id) for relation in hierarchy.layers[0].relations]
    for lower, upper in pairwise(hierarchy.layers):
        parents = {entity.id: entity.parent_id or "" for entity in lower.entities}
        lifted = {ground: parents[ancestor] for ground, ancestor in lifted.items()}
        _check_members(parents, lifted, upper)
        joined = _count_joining(((one.source_id, one.target_id) for one in lower.relations), parents)
        _check_relations(upper, joined, _count_joining(base, lifted))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise LeanRAGError(
            f"The hierarchy is not well-formed: {what}.",
            "This is a defect of this program, please report it; what was published before is unharmed.",
        )


def _check_layers(hierarchy: Hierarchy, cap: int) -> None:
    sizes = hierarchy.sizes
    _require(
        len(sizes) > 1 and sizes[-1] == 1, f"its layers have {sizes} entities, the last one must be the root"
    )
    # A single entity has a root, too.
    shrinks = all(above < below for below, above in pairwise(sizes)) or sizes == (1, 1)
    _require(shrinks, f"its layers have {sizes} entities, each must be smaller than the one below")
    ids = [entity.id for layer in hierarchy.layers for entity in layer.entities]
    _require(len(set(ids)) == len(ids), "two entities have the same id")
    fault = find_misfit(hierarchy)
    _require(fault is None, fault or "")
    for number, layer in enumerate(hierarchy.layers):
        relation_ids = {relation.id for relation in layer.relations}
        _require(
            len(relation_ids) == len(layer.relations), f"two relations of layer {number} have the same id"
        )
        above = hierarchy.layers[number + 1].entities if number + 1 < len(sizes) else ()
        known = {entity.id for entity in above}
        astray = [
            entity.id
            for entity in layer.entities
            if entity.second_parent_id is not None
            and (entity.second_parent_id == entity.parent_id or entity.second_parent_id not in known)
        ]
        _require(
            not astray, f"the second parent of {astray[:1]} of layer {number} is not another one layer up"
        )
        crowded = [entity.id for entity in layer.entities if entity.members > cap]
        _require(not crowded, f"{crowded[:1]} of layer {number} has more than {cap} members")


def _check_members(parents: Mapping[str, str], lifted: Mapping[str, str], upper: Graph) -> None:
    members, mentions = Counter(parents.values()), Counter(lifted.values())
    for entity in upper.entities:
        _require(
            entity.members == members[entity.id],
            f"{entity.id} has {members[entity.id]} members, not {entity.members}",
        )
        _require(
            entity.mentions == mentions[entity.id],
            f"{entity.id} has {mentions[entity.id]} base entities beneath, not {entity.mentions}",
        )


def _count_joining(ends: Iterable[Pair], parents: Mapping[str, str]) -> Counter[Pair]:
    """Count the relations with these ends that join each unordered pair of parents."""
    pairs = ((parents[source], parents[target]) for source, target in ends)
    return Counter((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1])


def _check_relations(upper: Graph, joined: Mapping[Pair, int], supported: Mapping[Pair, int]) -> None:
    seen = set()
    for relation in upper.relations:
        pair = (min(relation.source_id, relation.target_id), max(relation.source_id, relation.target_id))
        seen.add(pair)
        strength, support = joined.get(pair, 0), supported.get(pair, 0)
        _require(
            strength == relation.strength,
            f"{relation.id} rests on {strength} relations, not on {relation.strength}",
        )
        _require(
            support == relation.support,
            f"{relation.id} rests on {support} base relations, not on {relation.support}",
        )
    _require(seen == set(joined), f"{len(set(joined) - seen)} pairs of clusters lack their relation")
    _require(len(seen) == len(upper.relations), "two relations join the same pair")
