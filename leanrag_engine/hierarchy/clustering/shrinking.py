"""Split large clusters where a layer would shrink too much: it has at least one cluster per mean size of entities."""

from collections.abc import Callable

import numpy as np

from leanrag_engine.core.model import Vectors

from .balancing import SMALLEST, ClusterSizes, Labels, renumber
from .communities import join_small_communities, leiden
from .links import EdgeList
from .mixture import cluster

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
