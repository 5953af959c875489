"""Check the invariants of a hierarchy and measure it at the end of every build. Which figures deserve a warning, the status decides."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.core.graphs.graph import Graph, Hierarchy, collect_ids, find_misfit, find_parents
from leanrag_engine.core.graphs.rows import Places, decode_ids, has_twins, look_up, select_rows
from leanrag_engine.core.model import (
    METHODS,
    Distribution,
    HierarchyHealth,
    LayerHealth,
    Method,
    MethodCounts,
    SeedMeetings,
    Vectors,
)
from leanrag_engine.core.vectors import one_thread

from .clustering.balancing import ClusterSizes, Labels, cluster_sums
from .clustering.links import EdgeList
from .clustering.methods import ClusteringOptions

SEEDS = 10  # Seeds of a typical query (paper, appendix B.4)


def measure_hierarchy(
    hierarchy: Hierarchy,
    vectors: Sequence[Vectors],
    *,
    clustering: ClusteringOptions,
    sizes: ClusterSizes,
    thresholds: Sequence[int],
) -> HierarchyHealth:
    """Return the record of ``hierarchy``; ``vectors`` are (n, d) unit rows per layer, ``thresholds`` those above G0."""
    found = [
        _layer(lower, upper, rows, tau)
        for lower, upper, rows, tau in zip(
            hierarchy.layers, (*hierarchy.layers[1:], None), vectors, (None, *thresholds), strict=True
        )
    ]
    base = EdgeList.of(hierarchy.layers[0])
    ancestors = find_ancestors(hierarchy.layers)
    layers = [
        replace(each, modularity=round(base.modularity(places), 4))
        for each, places in zip(found[:-1], ancestors[1:], strict=True)
    ]
    return HierarchyHealth(
        clustering=clustering.method.value,
        cluster_size=sizes.mean,
        cluster_cap=sizes.cap,
        layers=(*layers, found[-1]),
        meetings=_measure_meetings(ancestors, vectors[0]),
    )


def _distribution(values: NDArray[Any]) -> Distribution:
    if not len(values):
        return Distribution(0.0, 0.0, 0.0, 0.0)
    found = (values.min(), np.median(values), values.mean(), values.max())
    return Distribution(*(round(float(value), 4) for value in found))


def _layer(lower: Graph, upper: Graph | None, vectors: Vectors, tau: int | None) -> LayerHealth:
    links = EdgeList.of(lower)
    methods = _by_method(lower.nodes.methods)
    made = methods.get(Method.HEURISTIC, 0) + methods.get(Method.JOINED, 0)
    plain = LayerHealth(
        layer=int(lower.nodes.layers[0]),
        entities=len(lower.entities),
        joined=_share(len(np.unique(links.ends)), links.count),
        strength=_distribution(lower.edges.strengths),
        heuristic_entities=_share(made, links.count),
        tau=tau,
    )
    if upper is None:
        return plain
    labels = find_parents(lower, upper)
    sizes = np.bincount(labels)
    return replace(
        plain,
        clusters=len(sizes),
        sizes=_distribution(sizes),
        tightness=round(tightness(vectors, labels), 4),
        inside=round(links.inside(labels), 4),
        islands=_islands(links, labels, upper),
    )


def tightness(vectors: Vectors, labels: Labels) -> float:
    """Return the mean cosine of the unit rows ``vectors`` (n, d) to the mean of their cluster."""
    # The cosines of a cluster's members to their mean add up to the length of the sum of their vectors.
    sums = cluster_sums(vectors, labels, int(labels.max()) + 1)
    return float(np.linalg.norm(sums, axis=1).sum(dtype=np.float64) / len(labels))


def _islands(links: EdgeList, labels: Labels, upper: Graph) -> int:
    ends = labels[links.ends]
    count = len(upper.entities)
    leaving = np.bincount(ends[ends[:, 0] != ends[:, 1]].ravel(), minlength=count) > 0
    joined = np.bincount(upper.ends.ravel(), minlength=count) > 0
    return int(np.count_nonzero(leaving & ~joined))


def _share(part: float, whole: float) -> float:
    return round(float(part) / float(whole), 4) if whole else 0.0


# --- where seeds meet ----------------------------------------------------------------------


def _measure_meetings(ancestors: Sequence[Labels], vectors: Vectors, seed_sets: int = 200) -> SeedMeetings:
    """Return where sets of an entity and the ``SEEDS - 1`` most similar to it meet; the first of the ``seed_sets`` are spread evenly over G0."""
    count = len(vectors)
    chosen = np.unique(np.linspace(0, count - 1, min(count, seed_sets)).astype(np.intp))
    if count == 1:
        return SeedMeetings({}, {})
    with one_thread():  # several wait for each other longer than they compute
        near = find_nearest(vectors, chosen, min(SEEDS, count))
    return SeedMeetings(
        _by_layer(meeting_layers(ancestors, near[:, :2])), _by_layer(meeting_layers(ancestors, near))
    )


def find_nearest(vectors: Vectors, chosen: Labels, wanted: int, block: int = 4096) -> Labels:
    """Return the places of the ``chosen`` unit rows and of the rows most similar to each, the best first,
    (sets, ``wanted``), in blocks whose scores stay in the processor's cache."""
    seeds = vectors[chosen]
    floors = np.full(len(chosen), -np.inf, dtype=vectors.dtype)
    found: list[tuple[Labels, Labels, NDArray[Any]]] = []
    for start in range(0, len(vectors), block):
        scores = seeds @ vectors[start : start + block].T
        own = np.flatnonzero((chosen >= start) & (chosen < start + block))
        scores[own, chosen[own] - start] = np.inf  # itself first, whatever equals it
        width = scores.shape[1]
        better = np.flatnonzero(scores > floors[:, None])
        if width > wanted and len(better) > max(wanted, width // 8) * len(chosen):  # partitioning is quicker
            best = np.argpartition(scores, width - wanted, axis=1)[:, width - wanted :]
            kept = np.take_along_axis(scores, best, axis=1)
            floors = np.maximum(floors, kept.min(axis=1))
            found.append((np.repeat(np.arange(len(chosen)), wanted), best.ravel() + start, kept.ravel()))
        else:
            rows, columns = np.divmod(better, width)
            found.append((rows, columns + start, scores[rows, columns]))
    rows, places, values = map(np.concatenate, zip(*found, strict=True))
    order = np.lexsort((places, -values, rows))
    starts = np.searchsorted(rows[order], np.arange(len(chosen)))
    return np.asarray(places[order][starts[:, None] + np.arange(wanted)])


def find_ancestors(layers: Sequence[Graph]) -> list[Labels]:
    """Return for each layer the place there of the ancestor of every base entity."""
    found = [np.arange(len(layers[0].entities))]
    for lower, upper in pairwise(layers):
        found.append(find_parents(lower, upper)[found[-1]])
    return found


def meeting_layers(ancestors: Sequence[Labels], sets: Labels) -> Labels:
    """Return the layer of the LCA of each row of ``sets``, which holds places of base entities."""
    met = np.stack([(places[sets] == places[sets[:, :1]]).all(axis=1) for places in ancestors])
    return np.asarray(met.argmax(axis=0))


def _by_layer(layers: Labels) -> dict[int, float]:
    return {
        layer: _share(int(total), len(layers)) for layer, total in sorted(Counter(layers.tolist()).items())
    }


# --- texts ---------------------------------------------------------------------------------


def count_methods(hierarchy: Hierarchy) -> tuple[MethodCounts, ...]:
    """Count the entities and relations of each layer by the method that made them."""
    return tuple(
        MethodCounts(number, _by_method(layer.nodes.methods), _by_method(layer.edges.methods))
        for number, layer in enumerate(hierarchy.layers)
    )


def _by_method(methods: NDArray[np.uint8]) -> dict[str, int]:
    """Return how often each method occurs of those that do, which are given as places in ``METHODS``."""
    counts = np.bincount(methods, minlength=len(METHODS)).tolist()
    return {name: count for name, count in sorted(zip(METHODS, counts, strict=True)) if count}


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
    strengths, supports = (look_up(own, *each, missing=0) for each in (joined, supported))
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
    missing = len(joined[0]) - np.count_nonzero(look_up(distinct, *joined, missing=0))
    _require(not missing, f"{missing} pairs of clusters lack their relation")
    _require(len(distinct) == len(own), "two relations join the same pair")
