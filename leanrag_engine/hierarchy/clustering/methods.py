"""The two methods to cluster a layer, behind one call. Retrieval does not depend on the method.

``gmm``     by meaning (the paper): Gaussian mixtures; relations decide between equally good clusters.
``leiden``  by relations (course reader §4); meaning decides what they leave open. Layers are communities of G0 at falling
            resolutions (:mod:`.communities`), so that it takes all relations of G0, by :func:`select_links`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Vectors

from .balancing import SMALLEST, ClusterSizes, Coordinates, Labels, Points, cap_for, cluster_means, renumber
from .communities import find_communities, join_small_communities, leiden
from .links import EdgeList, matrix_rows, weigh_relations
from .mixture import Clusters, assign_clusters, check_vectors, cluster, measure_memberships, reduce_dimensions


class ClusteringMethod(StrEnum):
    GMM = "gmm"
    LEIDEN = "leiden"


@dataclass(frozen=True, slots=True)
class ClusteringOptions:
    """How layers are clustered. :func:`join_related` has the objective in which the weights of relations count."""

    method: ClusteringMethod = ClusteringMethod.GMM
    tie_weight: float = 0.05
    """Weight of relations for ``gmm``. On real vectors it costs at most 0.1 % of the tightness and keeps 1.2 to 1.9 times
    as many relations inside clusters (tests/programs/benchmarks/tightness.py)."""


def partition(
    vectors: Vectors,
    links: EdgeList,
    sizes: ClusterSizes,
    clustering: ClusteringOptions,
    *,
    seed: int = 0,
    pulse: Callable[[], None],
) -> Clusters:
    """Cluster the entities with the unit ``vectors`` (n, d) and the relations ``links`` into clusters of 2 to ``sizes.cap``.
    Raises :class:`InvalidInput` for values that are not finite, contradicting sizes, and what ``pulse`` raises."""
    check_vectors(vectors, sizes)
    reduced = reduce_dimensions(vectors)
    if clustering.method is ClusteringMethod.LEIDEN:
        labels = find_communities(vectors, links, sizes, seed=seed, pulse=pulse)
        labels = split_until_enough(vectors, labels, links, sizes, split_by_relations, pulse)
        return measure_clusters(reduced, labels, links, clustering.method)
    labels = assign_clusters(reduced, sizes, seed=seed, pulse=pulse)
    pulse()
    labels = join_related(vectors, labels, links, weight=clustering.tie_weight, cap=sizes.cap, pulse=pulse)
    pulse()
    labels = split_until_enough(vectors, renumber(labels), links, sizes, split_by_meaning, pulse)
    return measure_clusters(reduced, labels, links, clustering.method)


def select_links(lower: Graph, base: Graph, ancestors: Labels, method: ClusteringMethod) -> EdgeList:
    """Return the relations by which the layer ``lower`` is clustered: its own, by λ; for Leiden those of G0 between and within
    the ``ancestors`` (base entities,) there."""
    return EdgeList.of(base).contract(ancestors) if method is ClusteringMethod.LEIDEN else EdgeList.of(lower)


def measure_clusters(
    reduced: Coordinates, labels: Labels, links: EdgeList, method: ClusteringMethod
) -> Clusters:
    """Return how strongly entities belong to their clusters: by vectors, or by their relations with Leiden."""
    found = measure_memberships(reduced, labels)
    return _relation_responsibilities(links, labels, found) if method is ClusteringMethod.LEIDEN else found


def _relation_responsibilities(links: EdgeList, labels: Labels, found: Clusters) -> Clusters:
    """Return the shares of each entity's relations in its cluster and in the next best; where these say
    nothing, what ``found`` by vectors says."""
    count = found.count
    near = links.neighbours()
    rows, clusters, weights, own = weigh_relations(near, matrix_rows(near), labels, count)
    totals = own + np.bincount(rows, weights=weights, minlength=links.count)
    order = np.lexsort((clusters, -weights, rows))
    related, first = np.unique(rows[order], return_index=True)
    best = order[first]
    linked = totals > 0
    responsibility = np.where(linked, own / np.where(linked, totals, 1.0), found.responsibility)
    runner_up = np.where(linked, 0.0, found.second_responsibility)
    second = found.second.copy()
    second[related] = clusters[best]
    runner_up[related] = weights[best] / totals[related]
    return Clusters(count, labels, responsibility, second, runner_up)


Divide = Callable[[Vectors, EdgeList, int], Labels]
"""Divides entities, given by vectors and relations, into the wanted number of parts of at least two."""


def fewest_clusters(entities: int, mean_size: int) -> int:
    """Return the least number of clusters of a layer, so that the average is at most ``mean_size`` entities."""
    return -(-entities // mean_size)


def split_until_enough(
    vectors: Vectors,
    labels: Labels,
    links: EdgeList,
    sizes: ClusterSizes,
    divide: Divide,
    pulse: Callable[[], None],
) -> Labels:
    """Return ``labels`` (n,) with the largest clusters divided until there are :func:`fewest_clusters`."""
    while (missing := fewest_clusters(len(labels), sizes.mean) - int(labels.max()) - 1) > 0:
        pulse()
        chosen = _select_largest(labels, sizes.mean, missing)
        if not (chosen >= 0).any():
            break  # every cluster is a pair
        labels = labels.copy()
        free = int(labels.max()) + 1
        for rows, inner in links.within(chosen):
            wanted = min(missing + 1, max(2, fewest_clusters(len(rows), sizes.mean)))
            parts = divide(vectors[rows], inner, wanted)
            labels[rows] = np.where(parts == 0, labels[rows], free - 1 + parts)
            free += int(parts.max())
            missing -= int(parts.max())
            if missing <= 0:
                break
    return renumber(labels)


def _select_largest(labels: Labels, mean_size: int, most: int) -> Labels:
    """Return 0, 1, … for members of the ``most`` largest clusters that can be split in two; -1 elsewhere."""
    counts = np.bincount(labels)
    order = np.argsort(-counts, kind="stable")[:most]
    order = order[counts[order] >= min(2 * SMALLEST, mean_size + 1)]
    places = np.full(len(counts), -1, dtype=np.intp)
    places[order] = np.arange(len(order))
    return places[labels]


def split_by_meaning(vectors: Vectors, _: EdgeList, wanted: int) -> Labels:
    """Return ``wanted`` parts of similar entities; equal slices where all are equal."""
    size = max(SMALLEST, fewest_clusters(len(vectors), wanted))
    parts = cluster(vectors, ClusterSizes(size, max(size, len(vectors) - SMALLEST))).labels
    return parts if int(parts.max()) + 1 == wanted else np.arange(len(vectors)) * wanted // len(vectors)


def split_by_relations(vectors: Vectors, links: EdgeList, wanted: int) -> Labels:
    """Return ``wanted`` parts joined by relations and of similar size; by vectors if there are none."""
    size = fewest_clusters(len(vectors), wanted)
    for parts in (leiden(links, 2.0**step) for step in range(6)):
        if int(parts.max()) + 1 >= wanted:
            found = join_small_communities(links, parts, ClusterSizes(size, cap_for(size)))
            if int(found.max()) + 1 == wanted and np.bincount(found).min() >= SMALLEST:
                return found
    return split_by_meaning(vectors, links, wanted)


TINY = 1e-9  # A gain below this is rounding


def join_related(
    vectors: NDArray[np.float32],
    labels: Labels,
    links: EdgeList,
    *,
    weight: float,
    cap: int,
    pulse: Callable[[], None],
    movable: NDArray[np.bool_] | None = None,
    means: Points | None = None,
    passes: int = 8,
    enough: float = 1e-3,
) -> Labels:
    """Return better labels (n,) for unit ``vectors`` (n, d): as many clusters, of 2 to ``cap`` members. The
    pass that moves at most the share ``enough`` is the last. Only ``movable`` (n,) may move; ``means`` are
    those of the clusters, if known. ``pulse`` is called before each pass and may raise."""
    if not weight or not links.total or int(labels.max()) == 0:
        return labels
    state = _PartitionState(vectors, labels, links, weight, cap, movable, means)
    for _ in range(passes):
        pulse()
        if state.improve() <= enough * len(labels):
            break
    return state.labels


class _PartitionState:
    """A partition during improvement: labels, sizes, and the sum of each cluster's vectors."""

    def __init__(
        self,
        vectors: NDArray[np.float32],
        labels: Labels,
        links: EdgeList,
        weight: float,
        cap: int,
        movable: NDArray[np.bool_] | None,
        means: Points | None,
    ) -> None:
        count = int(labels.max()) + 1
        self.labels = labels.copy()
        self._vectors = vectors
        self._near = links.neighbours()
        self._rows = matrix_rows(self._near)
        self._worth = weight * len(labels) / links.total
        self._cap = cap
        self._movable = np.ones(len(labels), dtype=bool) if movable is None else movable
        self._sizes = np.bincount(labels, minlength=count)
        held = cluster_means(vectors, labels, count) if means is None else means
        self._sums: Points = held * self._sizes[:, None]
        self._norms = np.linalg.norm(self._sums, axis=1)

    def improve(self) -> int:
        """Make one pass and return how many entities moved."""
        return sum(self._try(row, target) for row, target in self._promising())

    def _promising(self) -> list[tuple[int, int]]:
        """Return entities and for each the best cluster of its neighbours if it would gain there, the most promising first."""
        rows, targets, related, own = weigh_relations(self._near, self._rows, self.labels, len(self._sizes))
        free = self._movable[rows] & (self._sizes[targets] < self._cap)
        rows, targets, related = rows[free], targets[free], related[free]
        gains = self._worth * (related - own[rows])
        block = 1 << 13  # moves whose vectors are in memory at once
        for start in range(0, len(rows), block):
            part = slice(start, start + block)
            gains[part] += self._tightness_gains(rows[part], targets[part])
        good = np.flatnonzero(gains > TINY)
        order = good[np.lexsort((targets[good], rows[good], -gains[good]))]
        _, first = np.unique(rows[order], return_index=True)
        order = order[np.sort(first)]
        return list(zip(rows[order].tolist(), targets[order].tolist(), strict=True))

    def _tightness_gains(self, rows: Labels, targets: Labels) -> Points:
        """Return the gain in the sum of all cosines to the own mean, which is the sum of the lengths of the sums."""
        sources = self.labels[rows]
        vectors = self._vectors[rows]
        squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        out = np.einsum("ij,ij->i", vectors, self._sums[sources])
        into = np.einsum("ij,ij->i", vectors, self._sums[targets])
        left = np.sqrt(np.maximum(self._norms[sources] ** 2 - 2.0 * out + squares, 0.0))
        grown = np.sqrt(np.maximum(self._norms[targets] ** 2 + 2.0 * into + squares, 0.0))
        return np.asarray(left - self._norms[sources] + grown - self._norms[targets])

    def _try(self, row: int, target: int) -> bool:
        """Move if it still gains after the moves before it."""
        source = int(self.labels[row])
        if self._sizes[target] >= self._cap or self._sizes[source] <= SMALLEST:
            return False
        part = slice(self._near.indptr[row], self._near.indptr[row + 1])
        clusters, weights = self.labels[self._near.indices[part]], self._near.data[part]
        related = weights[clusters == target].sum() - weights[clusters == source].sum()
        vector = self._vectors[row].astype(np.float64)
        left, grown = self._sums[source] - vector, self._sums[target] + vector
        norms = np.sqrt(left @ left), np.sqrt(grown @ grown)
        gain = self._worth * related + norms[0] + norms[1] - self._norms[source] - self._norms[target]
        if gain <= TINY:
            return False
        self._sums[source], self._sums[target] = left, grown
        self._norms[source], self._norms[target] = norms
        self._sizes[source] -= 1
        self._sizes[target] += 1
        self.labels[row] = target
        return True
