"""Check the invariants of a hierarchy; every build runs this before it returns."""

from itertools import pairwise, zip_longest

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.core.graphs.graph import Graph, Hierarchy, collect_ids, find_misfit, find_parents
from leanrag_engine.core.graphs.ids import Places, decode_ids, has_twins
from leanrag_engine.core.graphs.rows import select_rows


def check_hierarchy(hierarchy: Hierarchy, cap: int) -> None:
    """Raise :class:`LeanRAGError` if the hierarchy is not well-formed, in O(n log n). Beside what
    ``graph.find_misfit`` says: layers shrink, the last is the root alone, no cluster exceeds ``cap``, counts
    are correct, and one relation stands for exactly the pairs of clusters that a relation beneath joins."""
    _check_layers(hierarchy, cap)
    lifted = np.arange(len(hierarchy.layers[0].entities))
    supported = None
    for lower, upper in pairwise(hierarchy.layers):
        parents = find_parents(lower, upper)
        lifted = parents[lifted]
        _check_members(parents, lifted, upper)
        below, count = len(lower.entities), len(upper.entities)
        joined = np.unique(_number_pairs(parents[lower.ends], count), return_counts=True)
        supported = _lift_pairs(supported, below, parents, count) if supported else joined
        _check_relations(upper, joined, supported)


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
    _require(not has_twins(collect_ids(hierarchy)), "two entities have the same id")
    fault = find_misfit(hierarchy)
    _require(fault is None, fault or "")
    for number, (layer, above) in enumerate(zip_longest(hierarchy.layers, hierarchy.layers[1:])):
        _require(not has_twins(layer.edges.ids), f"two relations of layer {number} have the same id")
        astray = decode_ids(layer.nodes.ids[_find_astray(layer, above)][:1])
        _require(not astray, f"the second parent of {astray} of layer {number} is not another one layer up")
        crowded = decode_ids(layer.nodes.ids[layer.nodes.members > cap][:1])
        _require(not crowded, f"{crowded} of layer {number} has more than {cap} members")


def _find_astray(layer: Graph, above: Graph | None) -> NDArray[np.bool_]:
    """Return which entities have a second parent that is their parent or not in the layer ``above``."""
    seconds = layer.nodes.second_parents
    given = seconds != b""
    if above is None:
        return np.asarray(given)
    return np.asarray(given & ((above.find_places(seconds) < 0) | (seconds == layer.nodes.parents)))


def _check_members(parents: Places, lifted: Places, upper: Graph) -> None:
    count = len(upper.entities)
    members, mentions = (np.bincount(places, minlength=count) for places in (parents, lifted))
    wrong = np.flatnonzero((members != upper.nodes.members) | (mentions != upper.nodes.mentions))[:1].tolist()
    for number, entity in zip(wrong, select_rows(upper.entities, wrong), strict=True):
        own, beneath = members[number], mentions[number]
        _require(entity.members == own, f"{entity.id} has {own} members, not {entity.members}")
        _require(
            entity.mentions == beneath,
            f"{entity.id} has {beneath} base entities beneath, not {entity.mentions}",
        )


def _number_pairs(pairs: NDArray[np.intp], count: int) -> Places:
    """Return one number for each unordered pair of different places below ``count``; others are left out."""
    ordered = np.sort(pairs, axis=1)
    return np.asarray((ordered[:, 0] * count + ordered[:, 1])[ordered[:, 0] != ordered[:, 1]], dtype=np.intp)


def _lift_pairs(
    pairs: tuple[Places, Places], count: int, parents: Places, above: int
) -> tuple[Places, Places]:
    """Return the pairs among ``above`` parents for pairs among ``count`` places, and the sums of what joins them."""
    numbers, found = pairs
    ends = parents[np.stack(np.divmod(numbers, count), axis=1)]
    apart = ends[:, 0] != ends[:, 1]
    lifted, place = np.unique(_number_pairs(ends, above), return_inverse=True)
    sums = np.zeros(len(lifted), dtype=np.intp)
    np.add.at(sums, place, found[apart])
    return np.asarray(lifted, dtype=np.intp), sums


def _check_relations(upper: Graph, joined: tuple[Places, Places], supported: tuple[Places, Places]) -> None:
    own = _number_pairs(upper.ends, len(upper.entities))
    _require(len(own) == len(upper.relations), "a relation joins an entity with itself")
    strengths, supports = (_look_up(own, *each) for each in (joined, supported))
    wrong = (strengths != upper.edges.strengths) | (supports != upper.edges.supports)
    first = np.flatnonzero(wrong)[:1].tolist()
    for number, relation in zip(first, select_rows(upper.relations, first), strict=True):
        strength, support = strengths[number], supports[number]
        _require(
            strength == relation.strength,
            f"{relation.id} rests on {strength} relations, not on {relation.strength}",
        )
        _require(
            support == relation.support,
            f"{relation.id} rests on {support} base relations, not on {relation.support}",
        )
    own.sort()
    apart = np.ones(len(own), dtype=bool)
    np.not_equal(own[1:], own[:-1], out=apart[1:])
    distinct = own[apart]
    missing = len(joined[0]) - np.count_nonzero(_look_up(distinct, *joined))
    _require(not missing, f"{missing} pairs of clusters lack their relation")
    _require(len(distinct) == len(own), "two relations join the same pair")


def _look_up(wanted: Places, numbers: Places, values: Places) -> Places:
    """Return the value of each wanted number, 0 for those that are not among the sorted ``numbers``."""
    if not len(numbers):
        return np.zeros(len(wanted), dtype=np.intp)
    places = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[places] == wanted, values[places], 0)
