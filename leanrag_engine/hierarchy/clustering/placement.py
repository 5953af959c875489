"""Place the new entities of a layer in the clusters of the previous build instead of clustering the layer again.

Clustering again moves most entities: one entity more among 4,000 leaves a seventh of the clusters with exactly their
members. Here every entity that was there stays where it was, so that only the clusters change that something joins
or leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leanrag_engine.core.model import Vectors

from .balancing import Labels, Points, SizeChoice, cluster_means, place_lone_members, renumber
from .joining import join_related
from .links import EdgeList
from .methods import ClusteringMethod, ClusteringOptions, measure_clusters, points_of
from .mixture import Clusters, check_vectors, cluster, reduce_dimensions

BLOCK = 4096
"""Entities scored against all clusters at once."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A partition, and for each cluster the number of the previous cluster that it continues, -1 for a new one."""

    clusters: Clusters
    origins: Labels


def place(
    vectors: Vectors,
    links: EdgeList,
    homes: Labels,
    sizes: SizeChoice,
    clustering: ClusteringOptions,
    *,
    pulse: Callable[[], None],
) -> Placement:
    """Return the clusters of a layer of which some entities have a cluster already.

    ``homes`` (n,) are the numbers of the previous clusters, -1 for new entities; at least one is known. A new entity
    joins the cluster of the highest likelihood, then the one that its relations pull it to. Clusters above the cap are
    split, empty ones vanish, and a lone member joins another cluster. Raises what
    :func:`leanrag_engine.hierarchy.clustering.methods.partition` raises.
    """
    check_vectors(vectors, sizes.mean, sizes.cap)
    points, weight = points_of(vectors, links, clustering)
    reduced = reduce_dimensions(points)
    previous, labels = np.unique(homes, return_inverse=True)
    labels = labels - np.count_nonzero(previous < 0)
    new = np.flatnonzero(homes < 0)
    labels[new] = _likeliest(reduced, labels, new)
    pulse()
    labels = _split_large(points, labels, sizes, pulse)
    if clustering.method is ClusteringMethod.LEIDEN:
        weight = 1.0  # relations decide, meaning only between equals
    labels = join_related(points, labels, links, weight=weight, cap=sizes.cap, movable=homes < 0, pulse=pulse)
    labels = renumber(place_lone_members(reduced, labels, sizes.cap))
    return Placement(
        measure_clusters(reduced, labels, links, clustering.method), _find_origins(labels, homes)
    )


def _likeliest(points: Points, labels: Labels, new: Labels) -> Labels:
    """Return the cluster of each of the rows ``new`` with the highest likelihood under Gaussians of one variance."""
    known = np.flatnonzero(labels >= 0)
    means = cluster_means(points[known], labels[known], int(labels.max()) + 1)
    halves = 0.5 * np.einsum("ij,ij->i", means, means)
    best = np.empty(len(new), dtype=np.intp)
    for start in range(0, len(new), BLOCK):
        rows = new[start : start + BLOCK]
        best[start : start + BLOCK] = (points[rows] @ means.T - halves).argmax(axis=1)
    return best


def _split_large(points: Vectors, labels: Labels, sizes: SizeChoice, pulse: Callable[[], None]) -> Labels:
    """Return the labels with each cluster above the cap divided by meaning into clusters of the mean size."""
    labels = labels.copy()
    for number in np.flatnonzero(np.bincount(labels) > sizes.cap).tolist():
        rows = np.flatnonzero(labels == number)
        parts = cluster(points[rows], mean_size=sizes.mean, cap=sizes.cap, pulse=pulse).labels
        labels[rows] = np.where(parts == 0, number, int(labels.max()) + parts)
    return labels


def _find_origins(labels: Labels, homes: Labels) -> Labels:
    """Return for each cluster the previous cluster that most of its known members come from, if that one is not
    continued by another cluster that holds more of its members; else -1."""
    count = int(labels.max()) + 1
    known = np.flatnonzero(homes >= 0)
    pairs, shared = np.unique(np.stack((labels[known], homes[known])), axis=1, return_counts=True)
    origins = np.full(count, -1, dtype=np.intp)
    taken: set[int] = set()
    for place in np.lexsort((pairs[1], pairs[0], -shared)).tolist():
        now, before = int(pairs[0, place]), int(pairs[1, place])
        if origins[now] < 0 and before not in taken:
            origins[now] = before
            taken.add(before)
    return origins
