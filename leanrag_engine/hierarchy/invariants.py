"""Check the invariants of a hierarchy; every build runs this before it returns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.graphs.layers import find_misfit

from .health import parent_places

Places = NDArray[np.intp]


def check_hierarchy(hierarchy: Hierarchy, cap: int) -> None:
    """Raise :class:`LeanRAGError` if the hierarchy is not well-formed. Linear in its size.

    Every entity but the root has one parent one layer up, and its runner-up, if any, is another entity of that layer.
    Each layer is smaller than the one below, and the last is the root alone. No cluster exceeds ``cap``; ``members``
    and ``mentions`` are correct; ids are unique. There is one relation for exactly the pairs of clusters that a
    relation of the layer below joins; its strength is the number of these, its support that of the base relations.
    """
    _check_layers(hierarchy, cap)
    base = hierarchy.layers[0]
    lifted = np.arange(len(base.entities))
    for lower, upper in pairwise(hierarchy.layers):
        parents = parent_places(lower.entities, upper.entities)
        lifted = parents[lifted]
        _check_members(parents, lifted, upper)
        count = len(upper.entities)
        _check_relations(
            upper, _count_joining(lower.ends, parents, count), _count_joining(base.ends, lifted, count)
        )


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


def _check_members(parents: Places, lifted: Places, upper: Graph) -> None:
    count = len(upper.entities)
    members, mentions = (np.bincount(places, minlength=count).tolist() for places in (parents, lifted))
    for entity, own, beneath in zip(upper.entities, members, mentions, strict=True):
        _require(entity.members == own, f"{entity.id} has {own} members, not {entity.members}")
        _require(
            entity.mentions == beneath,
            f"{entity.id} has {beneath} base entities beneath, not {entity.mentions}",
        )


def _number_pairs(pairs: NDArray[np.intp], count: int) -> Places:
    """Return one number for each unordered pair of different places below ``count``; others are left out."""
    ordered = np.sort(pairs, axis=1)
    return np.asarray((ordered[:, 0] * count + ordered[:, 1])[ordered[:, 0] != ordered[:, 1]], dtype=np.intp)


def _count_joining(ends: NDArray[np.intp], parents: Places, count: int) -> tuple[Places, Places]:
    """Return the pairs of parents that relations with these ends join, as numbers, and how many join each."""
    numbers, found = np.unique(_number_pairs(parents[ends], count), return_counts=True)
    return np.asarray(numbers, dtype=np.intp), np.asarray(found, dtype=np.intp)


def _check_relations(upper: Graph, joined: tuple[Places, Places], supported: tuple[Places, Places]) -> None:
    own = _number_pairs(upper.ends, len(upper.entities))
    _require(len(own) == len(upper.relations), "a relation joins an entity with itself")
    strengths, supports = (_look_up(own, *each).tolist() for each in (joined, supported))
    for relation, strength, support in zip(upper.relations, strengths, supports, strict=True):
        _require(
            strength == relation.strength,
            f"{relation.id} rests on {strength} relations, not on {relation.strength}",
        )
        _require(
            support == relation.support,
            f"{relation.id} rests on {support} base relations, not on {relation.support}",
        )
    missing = np.setdiff1d(joined[0], own)
    _require(not len(missing), f"{len(missing)} pairs of clusters lack their relation")
    _require(len(np.unique(own)) == len(own), "two relations join the same pair")


def _look_up(wanted: Places, numbers: Places, values: Places) -> Places:
    """Return the value of each wanted number, 0 for those that are not among the sorted ``numbers``."""
    if not len(numbers):
        return np.zeros(len(wanted), dtype=np.intp)
    places = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[places] == wanted, values[places], 0)
