"""The two methods to cluster a layer, behind one call. Retrieval does not depend on the method.

``gmm``     by meaning (the paper): Gaussian mixtures; relations decide between equally good clusters.
``leiden``  by relations (course reader §4); meaning decides what they leave open. Layers are communities of G0 at falling
            resolutions (:mod:`.communities`), so that it takes all relations of G0, by :func:`select_links`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Vectors

from .balancing import SMALLEST, ClusterSizes, Coordinates, Labels, renumber
from .communities import find_communities, join_small_communities, leiden
from .joining import join_related
from .links import EdgeList, matrix_rows
from .mixture import Clusters, assign_clusters, check_vectors, cluster, measure_memberships, reduce_dimensions


class ClusteringMethod(StrEnum):
    GMM = "gmm"
    LEIDEN = "leiden"


@dataclass(frozen=True, slots=True)
class ClusteringOptions:
    """How layers are clustered. :mod:`.joining` has the objective in which the weights of relations count."""

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
    check_vectors(vectors, sizes.mean, sizes.cap)
    reduced = reduce_dimensions(vectors)
    if clustering.method is ClusteringMethod.LEIDEN:
        labels = find_communities(vectors, links, sizes, seed=seed, pulse=pulse)
        labels = split_until_enough(vectors, labels, links, sizes, split_by_relations, pulse)
        return measure_clusters(reduced, labels, links, clustering.method)
    labels = assign_clusters(reduced, mean_size=sizes.mean, cap=sizes.cap, seed=seed, pulse=pulse)
    pulse()
    labels = join_related(vectors, labels, links, weight=clustering.tie_weight, cap=sizes.cap, pulse=pulse)
    pulse()
    labels = split_until_enough(vectors, renumber(labels), links, sizes, split_by_meaning, pulse)
    return measure_clusters(reduced, labels, links, clustering.method)


def select_links(lower: Graph, base: Graph, ancestors: Labels, method: ClusteringMethod) -> EdgeList:
    """Return the relations by which the layer ``lower`` is clustered: its own, by λ; for Leiden those of G0 between and within
    the ``ancestors`` (base entities,) there."""
    if method is ClusteringMethod.LEIDEN:
        return EdgeList.of(base).contract(ancestors)
    return EdgeList.of(lower)


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
    rows = matrix_rows(near)
    cells, place = np.unique(rows * count + labels[near.indices], return_inverse=True)
    weights = np.bincount(place, weights=near.data)
    rows, clusters = cells // count, cells % count
    totals = np.bincount(rows, weights=weights, minlength=links.count)
    own = np.zeros(links.count)
    at_home = clusters == labels[rows]
    own[rows[at_home]] = weights[at_home]
    rows, clusters, weights = rows[~at_home], clusters[~at_home], weights[~at_home]
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
    parts = cluster(vectors, mean_size=size, cap=max(size, len(vectors) - SMALLEST)).labels
    if int(parts.max()) + 1 == wanted:
        return parts
    return np.arange(len(vectors)) * wanted // len(vectors)


def split_by_relations(vectors: Vectors, links: EdgeList, wanted: int) -> Labels:
    """Return ``wanted`` parts joined by relations and of similar size; by vectors if there are none."""
    size = fewest_clusters(len(vectors), wanted)
    for parts in (leiden(links, 2.0**step) for step in range(6)):
        if int(parts.max()) + 1 >= wanted:
            found = join_small_communities(links, parts, ClusterSizes(size, size + size // 2))
            if int(found.max()) + 1 == wanted and np.bincount(found).min() >= SMALLEST:
                return found
    return split_by_meaning(vectors, links, wanted)
