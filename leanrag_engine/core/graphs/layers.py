"""Whether the layers of a hierarchy fit together: the part of its invariants that every store relies on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from collections.abc import Set as AbstractSet

from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Entity, Relation


def find_misfit(hierarchy: Hierarchy) -> str | None:
    """Return the first fault in how the layers fit together, in words, or None.

    An entity has an id of its own. An entity or relation is in the layer that it says. A parent is one layer up; the last layer has none. Both ends of
    a relation are in its layer. Linear in the size of the hierarchy.
    """
    ids = [{entity.id for entity in layer.entities} for layer in hierarchy.layers]
    if len(set().union(*ids)) < sum(hierarchy.sizes):
        counts = Counter(entity.id for layer in hierarchy.layers for entity in layer.entities)
        return f"{counts.most_common(1)[0][0]!r} is not the unique id of an entity"
    parents: list[Collection[str | None]] = [*ids[1:], {None}]
    for number, layer in enumerate(hierarchy.layers):
        fault = _find_fault(layer, number, ids[number], parents[number])
        if fault:
            return fault
    return None


def _find_fault(
    layer: Graph, number: int, ids: AbstractSet[str], parents: Collection[str | None]
) -> str | None:
    items: list[Entity | Relation] = [*layer.entities, *layer.relations]
    if {item.layer for item in items} - {number}:
        item = next(item for item in items if item.layer != number)
        return f"layer {number} holds {item.id!r}, which says that it is of another layer, layer {item.layer}"
    orphans = [entity for entity in layer.entities if entity.parent_id not in parents]
    if orphans:
        first = orphans[0]
        return (
            f"{len(orphans)} entities of layer {number} lack a parent one layer up,"
            f" the first is {first.id!r} with the parent {first.parent_id!r}"
        )
    try:
        _ = layer.ends  # every step of a build needs them
    except KeyError:
        each = next(each for each in layer.relations if not {each.source_id, each.target_id} <= ids)
        names = f"{each.source_id!r} and {each.target_id!r}"
        return f"the ends of the relation {each.id!r}, {names}, are not in layer {number}"
    return None
