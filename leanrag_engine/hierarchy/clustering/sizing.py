"""Choose the cluster size from the data: the size at which members are most clearly nearer to their own cluster than
to the next.

Measured by the simplified silhouette (Hruschka et al. 2004), with each member left out of its own mean:
without that, the smallest clusters would always win. Whole regions of the layer are measured, because a sample
would hold smaller groups than the layer does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leanrag_engine.core.model import Vectors
from leanrag_engine.core.vectors import unit_rows

from .balancing import SMALLEST, Labels, SizeChoice, cluster_means
from .mixture import cluster

USUAL = 20
"""The paper's size (appendix B.4), used unless another is clearly better."""

CANDIDATES = (8, 12, 16, 20, 25, 30, 40)


def cap_for(mean: int) -> int:
    """Return the cap of a mean size: half as much again, 30 for 20."""
    return mean + mean // 2


def choose_size(
    vectors: Vectors, *, cap: int | None = None, pulse: Callable[[], None], margin: float = 0.01
) -> SizeChoice:
    """Return the mean size and cap for a layer with the unit ``vectors`` (n, d), with the reason in words.

    A given ``cap`` stays, and no larger size is tried. A size other than the usual one needs a silhouette that is
    higher by ``margin``. Clusters at most 6,000 rows once for each candidate. Raises whatever ``pulse`` raises.
    """
    sizes = [size for size in CANDIDATES if cap is None or size <= cap] or [max(SMALLEST, cap or 0)]
    usual = USUAL if USUAL in sizes else sizes[-1]
    # With fewer entities every size leaves a handful of clusters, and chance decides.
    if len(vectors) < 4 * max(CANDIDATES) or len(sizes) == 1:
        reason = f"{usual}, the usual size: {len(vectors)} entities are too few to tell a better one."
        return SizeChoice(usual, cap or cap_for(usual), reason)
    regions = _regions(vectors, pulse)
    scores = {size: _mean_silhouette(regions, size, cap, pulse) for size in sizes}
    best = max(sizes, key=lambda size: (scores[size], -abs(size - usual)))
    figures = ", ".join(f"{size}: {score:.3f}" for size, score in scores.items())
    if scores[best] < scores[usual] + margin:
        best, why = usual, "the usual size: no other gives clearly more distinct clusters"
    else:
        why = "the size that gives the most distinct clusters"
    return SizeChoice(best, cap or cap_for(best), f"{best}, {why} (silhouettes: {figures}).")


def _regions(
    vectors: Vectors, pulse: Callable[[], None], *, most: int = 2, size: int = 3000
) -> list[Vectors]:
    """Return the whole layer, or ``most`` of its coarse parts of ``size`` rows each."""
    if len(vectors) <= most * size:
        return [vectors]
    steps = np.linspace(0, len(vectors) - 1, most * size).astype(np.intp)
    coarse = cluster(vectors[steps], mean_size=size // 2, cap=size, pulse=pulse)
    means = cluster_means(vectors[steps], coarse.labels, coarse.count)
    chosen = np.linspace(0, coarse.count - 1, most).astype(np.intp)
    near = (vectors @ means[chosen].T.astype(np.float32)).T
    return [vectors[np.sort(np.argsort(-row, kind="stable")[:size])] for row in near]


def _mean_silhouette(regions: list[Vectors], size: int, cap: int | None, pulse: Callable[[], None]) -> float:
    scores = []
    for region in regions:
        labels = cluster(region, mean_size=size, cap=cap or cap_for(size), pulse=pulse).labels
        scores.append(silhouette(region, labels))
    return float(np.concatenate(scores).mean())


def silhouette(vectors: Vectors, labels: Labels) -> np.ndarray:
    """Return the simplified silhouette of each of n rows, (n,), -1 to 1, by cosine; 0 if there is one cluster."""
    counts = np.bincount(labels)
    if len(counts) == 1:
        return np.zeros(len(vectors))
    points = vectors.astype(np.float64)
    sums = cluster_means(points, labels, len(counts)) * counts[:, None]
    own = _cosines(points, sums[labels] - points)
    others = points @ unit_rows(sums).T
    others[np.arange(len(points)), labels] = -np.inf
    near, far = 1.0 - own, 1.0 - others.max(axis=1)
    return np.asarray((far - near) / np.maximum(np.maximum(far, near), 1e-12))


def _cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray(np.einsum("ij,ij->i", first, second) / np.where(lengths > 0, lengths, 1.0))
