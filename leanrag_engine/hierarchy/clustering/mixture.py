"""Cluster the entities of a layer by recursive Gaussian mixtures on their vectors.

Paper, "Recursive Semantic Clustering" and appendix B.2. One mixture with n / 20 components costs
O(n²) and leaves clusters of any size, so a few components at a time split what is left (about
O(n log n)), each in the principal subspace of what it splits; :mod:`.balancing` then evens the
clusters out under a hard cap. One seed and one thread: equal input gives equal bits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Vectors
from leanrag_engine.core.vectors import find_infinite, one_thread

from .balancing import (
    SMALLEST,
    ClusterSizes,
    Coordinates,
    Labels,
    Points,
    balance,
    cluster_means,
    find_candidates,
    renumber,
)


@dataclass(frozen=True, slots=True)
class Clusters:
    """A partition of n points, and how strongly each belongs to its cluster and to the runner-up. ``labels`` and ``second`` are
    (n,) cluster numbers, clusters being numbered by their first members; ``second`` is -1 where there is one cluster alone. The
    responsibilities (n,) are posterior probabilities; the runner-up's may be the higher where the cap kept a point out."""

    count: int
    labels: Labels
    responsibility: NDArray[np.float64]
    second: Labels
    second_responsibility: NDArray[np.float64]


def cluster(
    vectors: Vectors, sizes: ClusterSizes, *, seed: int = 0, pulse: Callable[[], None] = lambda: None
) -> Clusters:
    """Cluster the rows of ``vectors`` (n, d) into ceil(n / ``sizes.mean``) clusters of 2 to ``sizes.cap`` members. Raises
    :class:`InvalidInput` for another shape, values that are not finite, contradicting sizes, and what ``pulse`` raises."""
    check_vectors(vectors, sizes)
    reduced = reduce_dimensions(vectors)
    return measure_memberships(reduced, assign_clusters(reduced, sizes, seed=seed, pulse=pulse))


def split_above_cap(
    vectors: Vectors, labels: Labels, sizes: ClusterSizes, pulse: Callable[[], None], seed: int = 0
) -> Labels:
    """Return the labels with each cluster above the cap divided by meaning into clusters of the mean size."""
    labels = labels.copy()
    for number in np.flatnonzero(np.bincount(labels) > sizes.cap).tolist():
        rows = np.flatnonzero(labels == number)
        parts = cluster(vectors[rows], sizes, seed=seed, pulse=pulse).labels
        labels[rows] = np.where(parts == 0, number, int(labels.max()) + parts)
    return labels


def reduce_dimensions(vectors: Vectors, *, most: int = 512, few: int = 1 << 16) -> Coordinates:
    """Return the rows of ``vectors`` (n, d) along their first principal axes, (n, at most ``most``). Above a ``few`` they are in
    single precision, those that are short enough as they are: all that counts are distances."""
    with one_thread():
        if len(vectors) <= few:
            return _principal(np.array(vectors, dtype=np.float64), most)
        return vectors if vectors.shape[1] <= most else _principal_by_blocks(vectors, most)


def assign_clusters(
    reduced: Coordinates, sizes: ClusterSizes, *, seed: int = 0, pulse: Callable[[], None]
) -> Labels:
    """Return the labels (n,) of :func:`cluster` for coordinates that are reduced already."""
    with one_thread():
        count = _count(len(reduced), sizes)
        # The layer is split in its first 128 principal axes, and evened out in all of ``reduced``.
        exact = reduced.dtype == np.float64
        leading = reduced[:, -128:] if exact else _principal_by_blocks(reduced, 128)
        return balance(reduced, _partition(leading, count, seed, pulse), sizes, pulse)


def measure_memberships(reduced: Coordinates, labels: Labels) -> Clusters:
    """Return how strongly the rows of ``reduced`` (n, d) belong to their clusters, numbered by first members, and to the runners-up."""
    with one_thread():
        return _posteriors(reduced, labels, cluster_means(reduced, labels, int(labels.max()) + 1))


def measure_some(
    vectors: Vectors, labels: Labels, rows: Labels, means: Points, *, sample: int = 2_000
) -> Clusters:
    """Return how strongly ``rows`` belong to their clusters, which have these ``means``, and to the
    runners-up; the variance is that of these rows and an even sample of so many others."""
    with one_thread():
        count = int(labels.max()) + 1
        others = np.setdiff1d(np.arange(0, len(labels), max(1, len(labels) // sample)), rows)
        chosen = np.concatenate((rows, others))
        found = _posteriors(vectors[chosen].astype(np.float64), labels[chosen], means)
    part = slice(len(rows))
    return Clusters(
        count, labels[rows], found.responsibility[part], found.second[part], found.second_responsibility[part]
    )


def check_sizes(sizes: ClusterSizes) -> None:
    """Raise :class:`InvalidInput` unless 2 <= mean size <= cap."""
    if not SMALLEST <= sizes.mean <= sizes.cap:
        raise InvalidInput(
            f"A mean cluster size of {sizes.mean} and a cap of {sizes.cap} contradict each other:"
            f" expected {SMALLEST} <= mean size <= cap.",
            "Raise the cap or lower the cluster size.",
        )


def check_vectors(vectors: Vectors, sizes: ClusterSizes) -> None:
    """Raise :class:`InvalidInput` for another shape than (n, d), values that are not finite, or sizes that contradict each other."""
    points = np.asarray(vectors)
    if points.ndim != 2 or not points.size:  # noqa: PLR2004 - rows and columns
        raise InvalidInput(
            f"Vectors of shape {points.shape} cannot be clustered: expected (n, d), both above 0."
        )
    broken = find_infinite(points)
    if len(broken):
        raise InvalidInput(
            f"{len(broken)} of {len(points)} vectors hold values that are not finite, the first in row {broken[0]}.",
            "Check the embedder on the text of that row.",
        )
    check_sizes(sizes)


def _count(points: int, sizes: ClusterSizes) -> int:
    """Return ceil(n / mean size), but no more than leaves two members each if the cap allows."""
    wanted = math.ceil(points / sizes.mean)
    pairs = max(1, points // 2)
    return min(wanted, pairs) if pairs * sizes.cap >= points else wanted


def _partition(points: Coordinates, count: int, seed: int, pulse: Callable[[], None]) -> Labels:
    """Return ``count`` clusters of any size by recursive splitting; neighbours in the tree get neighbouring numbers."""
    labels = np.zeros(len(points), dtype=np.intp)
    stack = [(np.arange(len(points)), count)]
    number = 0
    while stack:
        rows, wanted = stack.pop()
        if wanted == 1:
            labels[rows] = number
            number += 1
            continue
        pulse()
        most = 16  # parts: all at once if they are few, else as many as fill the last level
        branches = wanted if wanted <= most else min(most, math.ceil(wanted / most))
        parts = _split(np.asarray(points[rows], dtype=np.float64), branches, seed)
        sizes = np.bincount(parts)
        shares = _share_out(wanted, sizes)
        stack.extend((rows[parts == part], shares[part]) for part in reversed(range(len(sizes))))
    return labels


def _split(points: Points, branches: int, seed: int, *, dimensions: int = 32) -> Labels:
    """Return parts 0, 1, … (at least two, none empty) by a mixture in the first principal axes of ``points``; equal points in slices."""
    parts = renumber(_mixture(_principal(points, dimensions), branches, seed))
    if parts.max() == 0:
        parts = np.arange(len(points)) * branches // len(points)
    return parts


def _principal(points: Points, dimensions: int) -> Points:
    """Return coordinates (m, <= dimensions) along the first principal axes, from the smaller Gram matrix; ``points`` are centred."""
    centred = np.subtract(points, points.mean(axis=0), out=points)
    if len(centred) <= centred.shape[1]:
        values, axes = np.linalg.eigh(centred @ centred.T)
        return np.asarray(axes[:, -dimensions:] * np.sqrt(np.maximum(values[-dimensions:], 0.0)))
    return np.asarray(centred @ np.linalg.eigh(centred.T @ centred)[1][:, -dimensions:])


def _principal_by_blocks(
    vectors: NDArray[Any], dimensions: int, *, block: int = 1 << 12
) -> NDArray[np.float32]:
    """Return what :func:`_principal` does for more rows than columns, in single precision."""
    parts = [slice(start, start + block) for start in range(0, len(vectors), block)]
    mean = vectors.mean(axis=0, dtype=np.float64)
    gram = np.zeros((len(mean), len(mean)))
    for part in parts:
        centred = vectors[part] - mean
        gram += centred.T @ centred
    axes = np.linalg.eigh(gram)[1][:, -dimensions:]
    reduced = np.empty((len(vectors), axes.shape[1]), dtype=np.float32)
    for part in parts:
        reduced[part] = (vectors[part] - mean) @ axes
    return reduced


def _mixture(points: Points, components: int, seed: int, *, most: int = 4096) -> Labels:
    """Return the most probable of ``components`` spherical Gaussians, fitted on at most ``most`` points, for each."""
    # Both take a second to import: an update that divides no cluster does without.
    from sklearn.cluster import kmeans_plusplus  # noqa: PLC0415
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    sample = points[np.linspace(0, len(points) - 1, min(len(points), most)).astype(np.intp)]
    centres, _ = kmeans_plusplus(sample, components, random_state=seed)
    spread = ((sample[:, None, :] - centres[None]) ** 2).sum(axis=2).min(axis=1).mean() / points.shape[1]
    floor = 1e-3 * max(spread, 1e-9)
    model = GaussianMixture(
        components,
        covariance_type="spherical",
        tol=1e-2,
        max_iter=1000,  # the likelihood would have to rise by 10 nats a point to get there
        reg_covar=floor,
        weights_init=np.full(components, 1.0 / components),
        means_init=centres,
        precisions_init=np.full(components, 1.0 / max(spread, floor)),
        random_state=seed,
    )
    return np.asarray(model.fit(sample).predict(points), dtype=np.intp)


def _share_out(wanted: int, sizes: NDArray[np.intp]) -> list[int]:
    """Return the clusters of each part: one at least, the rest by size (Sainte-Laguë)."""
    shares = np.ones(len(sizes), dtype=np.intp)
    for _ in range(wanted - len(sizes)):
        shares[np.argmax(sizes / (2 * shares + 1))] += 1
    return [int(share) for share in shares]


def _posteriors(points: Coordinates, labels: Labels, means: Points) -> Clusters:
    """Return posterior probabilities under Gaussians of one variance around ``means``, measured along the line between the
    two likeliest clusters: that direction decides between them."""
    count = len(means)
    found = find_candidates(points, labels, means)
    if count == 1:
        ones = np.ones(len(points))
        return Clusters(1, labels, ones, np.full(len(points), -1, dtype=np.intp), 0.0 * ones)
    place = (found.ids[:, 0] == labels).astype(np.intp)
    everyone = np.arange(len(points))
    second = found.ids[everyone, place]
    variance = _variance_between(points, means, labels, second)
    top = found.scores[:, 0]
    evidence = np.exp((found.scores - top[:, None]) / variance)
    missing = ~(found.ids == labels[:, None]).any(axis=1)
    own = np.exp((found.own - top) / variance)
    total = evidence.sum(axis=1) + np.where(missing, own, 0.0)
    return Clusters(count, labels, own / total, second, evidence[everyone, place] / total)


def _variance_between(
    points: Coordinates, means: Points, labels: Labels, second: Labels, *, block: int = 1 << 12
) -> float:
    """Return the mean squared deviation from the own mean along the line to the runner-up's mean."""
    deviations = np.empty(len(points))
    for start in range(0, len(points), block):  # a few arrays of this many rows instead of all
        part = slice(start, start + block)
        own = means[labels[part]]
        lines = means[second[part]] - own
        squares = np.einsum("ij,ij->i", lines, lines)
        along = np.einsum("ij,ij->i", points[part] - own, lines) ** 2
        deviations[part] = along / np.maximum(squares, 1e-12)
    return max(float(np.mean(deviations)), 1e-9)
