"""Place the new entities of a layer in the clusters of the previous build. Clustering again moves most
entities: one more among 4,000 leaves a seventh of the clusters as they were."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import Vectors

from .balancing import ClusterSizes, Labels, Points, cluster_means, place_lone_members, renumber
from .links import EdgeList
from .methods import (
    ClusteringMethod,
    ClusteringOptions,
    join_related,
    measure_clusters,
    split_by_meaning,
    split_by_relations,
    split_until_enough,
)
from .mixture import Clusters, check_vectors, measure_some, reduce_dimensions, split_above_cap


@dataclass(frozen=True, slots=True, eq=False)
class Memberships:
    """The memberships of the previous build for n entities: ``homes`` and runners-up ``seconds`` (n,), -1 for
    none; which entities ``changed`` (n,); and the ``sizes`` of the clusters."""

    homes: Labels
    seconds: Labels
    responsibility: NDArray[np.float64]
    second_responsibility: NDArray[np.float64]
    changed: NDArray[np.bool_]
    sizes: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Placement:
    """A partition, for each cluster the previous one that it continues, -1 for a new one, and the means of the clusters, (clusters, d)."""

    clusters: Clusters
    origins: Labels
    means: Points


def place(
    vectors: Vectors,
    links: EdgeList,
    before: Memberships,
    sizes: ClusterSizes,
    clustering: ClusteringOptions,
    *,
    pulse: Callable[[], None],
) -> Placement:
    """Return the clusters of a layer of which some entities have a cluster already, at least one. A new entity joins the likeliest
    cluster with room, then the one that its relations pull it to. The largest are split where there are too few; empty ones
    vanish; memberships in unchanged clusters stay. Raises as :func:`leanrag_engine.hierarchy.clustering.methods.partition`."""
    check_vectors(vectors, sizes)
    homes = before.homes
    previous, labels = np.unique(homes, return_inverse=True)
    labels = labels - np.count_nonzero(previous < 0)
    new = np.flatnonzero(homes < 0)
    # What has no cluster yet counts as one before the first.
    means = cluster_means(vectors, labels + 1, int(labels.max()) + 2)[1:]
    held = labels
    labels = _join_likeliest(vectors, labels, new, means, sizes.cap)
    pulse()
    labels = split_above_cap(vectors, labels, sizes, pulse)
    by_relations = clustering.method is ClusteringMethod.LEIDEN
    divide = split_by_relations if by_relations else split_by_meaning
    labels = split_until_enough(vectors, labels, links, sizes, divide, pulse)
    labels = join_related(
        vectors,
        labels,
        links,
        # With Leiden relations decide, meaning only between equals.
        weight=1.0 if by_relations else clustering.tie_weight,
        cap=sizes.cap,
        movable=homes < 0,
        means=_update_means(vectors, means, held, labels),
        pulse=pulse,
    )
    labels = renumber(place_lone_members(vectors, labels, sizes.cap))
    origins = _find_origins(labels, homes)
    means = _update_means(vectors, means, held, labels)
    measured = _measure(vectors, labels, means, origins, links, before, clustering.method)
    return Placement(measured, origins, means)


def _update_means(points: Vectors, means: Points, before: Labels, labels: Labels) -> Points:
    """Return the means of the clusters ``labels``, of which most have the members of one ``before``, whose means are given."""
    sizes, held = np.bincount(labels), np.bincount(before + 1)[1:]
    first = np.empty(len(sizes), dtype=np.intp)
    first[labels[::-1]] = before[::-1]
    mixed = np.bincount(labels, weights=before != first[labels]) > 0
    same = ~mixed & (first >= 0) & (held[first] == sizes)
    rows = np.flatnonzero(~same[labels])
    found = cluster_means(points[rows], labels[rows], len(sizes))
    found[same] = means[first[same]]
    return found


def _measure(
    points: Vectors,
    labels: Labels,
    means: Points,
    origins: Labels,
    links: EdgeList,
    before: Memberships,
    method: ClusteringMethod,
) -> Clusters:
    """Return the memberships of ``before`` where nothing changed in a cluster and the runner-up is still there, and else measure them."""
    continued = np.full(len(before.sizes) + 1, -1, dtype=np.intp)  # the last place is that of no cluster
    continued[origins] = np.where(origins >= 0, np.arange(len(origins)), -1)
    differs = (before.homes != origins[labels]) | before.changed
    intact = (origins >= 0) & (np.bincount(labels, weights=differs) == 0)
    intact &= np.bincount(labels) == np.append(before.sizes, -1)[origins]
    second = continued[before.seconds]
    kept = intact[labels] & (second >= 0) & (second != labels)
    rows = np.flatnonzero(~kept)
    if method is ClusteringMethod.LEIDEN:
        measured = measure_clusters(reduce_dimensions(points), labels, links, method)
        own, runner_up = measured.responsibility[rows], measured.second_responsibility[rows]
        second[rows] = measured.second[rows]
    else:
        measured = measure_some(points, labels, rows, means)
        own, runner_up = measured.responsibility, measured.second_responsibility
        second[rows] = measured.second
    responsibility, second_responsibility = before.responsibility.copy(), before.second_responsibility.copy()
    responsibility[rows], second_responsibility[rows] = own, runner_up
    return Clusters(measured.count, labels, responsibility, second, second_responsibility)


def _join_likeliest(
    points: Vectors, labels: Labels, new: Labels, means: Points, cap: int, *, most: int = 16
) -> Labels:
    """Return the labels with each of the rows ``new`` in its likeliest cluster around ``means`` that is not
    full, who has most to lose first. Where the ``most`` best are full, the best grows."""
    labels = labels.copy()
    count = int(labels.max()) + 1
    room = cap - np.bincount(labels + 1, minlength=count + 1)[1:]
    choices, losses = _rank_clusters(points[new], means, min(most, count))
    for place in np.argsort(-losses, kind="stable").tolist():
        ranked = choices[place]
        free = ranked[room[ranked] > 0]
        label = free[0] if len(free) else ranked[0]
        labels[new[place]] = label
        room[label] -= 1
    return labels


def _rank_clusters(points: Vectors, means: Points, most: int) -> tuple[Labels, Points]:
    """Return the best clusters of each point, (n, ``most``), and how much likelier the first is than the second."""
    halves = 0.5 * np.einsum("ij,ij->i", means, means)
    choices = np.empty((len(points), most), dtype=np.intp)
    losses = np.zeros(len(points))
    block = 4096  # entities scored against all clusters at once
    for start in range(0, len(points), block):
        scores = points[start : start + block] @ means.T - halves
        best = np.argsort(-scores, axis=1, kind="stable")[:, :most]
        choices[start : start + block] = best
        if most > 1:
            first, second = (np.take_along_axis(scores, best[:, [rank]], axis=1)[:, 0] for rank in (0, 1))
            losses[start : start + block] = first - second
    return choices, losses


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
