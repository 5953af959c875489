"""Measure a hierarchy at the end of a build. Which figures deserve a warning, the status decides."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Graph, Hierarchy, find_parents
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
    """Return where sets of one entity and the ``SEEDS - 1`` most similar to it meet. The first entities of
    the ``seed_sets`` sets are spread evenly over G0."""
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
