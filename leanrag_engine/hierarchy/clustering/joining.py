"""Move entities to clusters that they are related to, as far as their vectors allow, by ``tightness + weight
* inside``: the mean cosine to the own cluster's mean, and the share of relations within a cluster."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .balancing import SMALLEST, Labels, cluster_means
from .links import EdgeList, matrix_rows

Rows = NDArray[np.float64]

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
    means: Rows | None = None,
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
        means: Rows | None,
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
        self._sums: Rows = held * self._sizes[:, None]
        self._norms = np.linalg.norm(self._sums, axis=1)

    def improve(self) -> int:
        """Make one pass and return how many entities moved."""
        return sum(self._try(row, target) for row, target in self._promising())

    def _promising(self) -> list[tuple[int, int]]:
        """Return entities and for each the best cluster of its neighbours if it would gain there, the most promising first."""
        rows, targets, related = self._relation_weights()
        own = np.zeros(len(self.labels))
        at_home = targets == self.labels[rows]
        own[rows[at_home]] = related[at_home]
        away = ~at_home & self._movable[rows] & (self._sizes[targets] < self._cap)
        rows, targets, related = rows[away], targets[away], related[away]
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

    def _relation_weights(self) -> tuple[Labels, Labels, Rows]:
        """Return entities, clusters that they have relations into, and the weight of these relations."""
        count = len(self._sizes)
        keys = self._rows * count + self.labels[self._near.indices]
        cells, place = np.unique(keys, return_inverse=True)
        weights = np.bincount(place, weights=self._near.data)
        return cells // count, cells % count, np.asarray(weights, dtype=np.float64)

    def _tightness_gains(self, rows: Labels, targets: Labels) -> Rows:
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
