"""Whether the layers of a hierarchy fit together: the part of its invariants that every store relies on."""

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from leanrag_engine.core.model import Entity, Relation

from .graph import Graph, Hierarchy
from .ids import Ids, Places, decode_ids, has_twins, make_ids
from .rows import select_rows


def find_misfit(hierarchy: Hierarchy) -> str | None:
    """Return the first fault in how the layers fit together, or None: ids are unique, rows are in the layer that they
    say, parents one layer up, none in the last, and both ends of a relation in its layer. O(n log n)."""
    ids = collect_ids(hierarchy)
    if has_twins(ids):
        return f"{Counter(decode_ids(ids)).most_common(1)[0][0]!r} is not the unique id of an entity"
    layers = hierarchy.layers
    for number, (layer, above) in enumerate(zip_longest(layers, layers[1:])):
        fault = _find_fault(layer, number, above)
        if fault:
            return fault
    return None


def collect_ids(hierarchy: Hierarchy) -> Ids:
    """Return the ids of all entities."""
    return np.concatenate([make_ids(()), *(layer.nodes.ids for layer in hierarchy.layers)])


def find_parents(lower: Graph, upper: Graph) -> Places:
    """Return the place in ``upper`` of each entity's parent, −1 for those that have none there."""
    return upper.find_places(lower.nodes.parents)


def _find_fault(layer: Graph, number: int, above: Graph | None) -> str | None:
    astray = _find_other_layer(layer, number)
    if astray:
        item = astray[0]
        return f"layer {number} holds {item.id!r}, which says that it is of another layer, layer {item.layer}"
    alone = layer.nodes.parents != b"" if above is None else find_parents(layer, above) < 0
    orphans = np.flatnonzero(alone)
    if len(orphans):
        (first,) = select_rows(layer.entities, orphans[:1].tolist())
        return (
            f"{len(orphans)} entities of layer {number} lack a parent one layer up,"
            f" the first is {first.id!r} with the parent {first.parent_id!r}"
        )
    try:
        _ = layer.ends  # every step of a build needs them
    except KeyError:
        ids = {*decode_ids(layer.nodes.ids)}
        each = next(each for each in layer.relations if not {each.source_id, each.target_id} <= ids)
        names = f"{each.source_id!r} and {each.target_id!r}"
        return f"the ends of the relation {each.id!r}, {names}, are not in layer {number}"
    return None


def _find_other_layer(layer: Graph, number: int) -> Sequence[Entity] | Sequence[Relation]:
    """Return the first entity that says that it is of another layer, or else the first such relation, or nothing."""
    entities = np.flatnonzero(layer.nodes.layers != number)[:1].tolist()
    if entities:
        return select_rows(layer.entities, entities)
    return select_rows(layer.relations, np.flatnonzero(layer.edges.layers != number)[:1].tolist())
