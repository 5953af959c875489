"""The relations of one layer as arrays: which entities they join, by place, and how strongly."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from leanrag_engine.core.graphs.graph import Graph, Weights

from .balancing import Labels


@dataclass(frozen=True, slots=True)
class EdgeList:
    """The m relations among ``count`` entities, by the places ``ends`` (m, 2). One of an entity with itself
    stands for those beneath it: it counts in shares, and is no neighbour."""

    count: int
    ends: Labels
    weights: Weights

    @classmethod
    def of(cls, graph: Graph) -> "EdgeList":
        """Return the relations of ``graph``, weighted by λ: the relations of the layer below that each stands for, 1 in G0."""
        return cls(len(graph.entities), graph.ends, graph.edges.strengths.astype(np.float64))

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def inside(self, labels: Labels) -> float:
        """Return the share of all relations, by weight, whose ends are in one cluster; 0 without relations."""
        within = labels[self.ends[:, 0]] == labels[self.ends[:, 1]]
        return float(self.weights[within].sum() / self.total) if self.total else 0.0

    def modularity(self, labels: Labels) -> float:
        """Return by how much the share of relations within clusters exceeds that of random ends (Newman and Girvan 2004); 0 without any."""
        if not self.total:
            return 0.0
        volumes = np.bincount(labels[self.ends].ravel(), weights=np.repeat(self.weights, 2))
        return self.inside(labels) - float(np.square(volumes / (2 * self.total)).sum())

    def contract(self, labels: Labels) -> "EdgeList":
        """Return the relations among clusters 0, 1, … instead of their members, weights added up, those within a cluster
        as one of it with itself. Modularity stays the same (Leiden's aggregation, course reader §4.2.3)."""
        count = int(labels.max()) + 1
        first, second = np.sort(labels[self.ends], axis=1).T
        cells, place = np.unique(first * count + second, return_inverse=True)
        weights = np.bincount(place, weights=self.weights, minlength=len(cells)).astype(np.float64)
        return EdgeList(count, np.stack((cells // count, cells % count), axis=1), weights)

    def neighbours(self) -> csr_array:
        """Return the symmetric (count, count) matrix of the relations' weights, indices sorted by row."""
        away = self.ends[:, 0] != self.ends[:, 1]
        first, second = self.ends[away].T
        near, far = np.concatenate((first, second)), np.concatenate((second, first))
        weights = np.tile(self.weights[away], 2)
        return coo_array((weights, (near, far)), shape=(self.count, self.count)).tocsr()

    def within(self, parts: Labels) -> "Iterator[tuple[Labels, EdgeList]]":
        """Yield the renumbered rows of each part of ``parts`` (count,), -1 being none, with the relations among them."""
        total = int(parts.max(initial=-1)) + 1
        rows = np.argsort(parts, kind="stable")[np.count_nonzero(parts < 0) :]
        starts = np.concatenate(([0], np.cumsum(np.bincount(parts[rows], minlength=total))))
        place = np.empty(self.count, dtype=np.intp)
        place[rows] = np.arange(len(rows)) - starts[parts[rows]]
        near = parts[self.ends[:, 0]]
        inside = np.flatnonzero((near == parts[self.ends[:, 1]]) & (near >= 0))
        inside = inside[np.argsort(near[inside], kind="stable")]
        cuts = np.concatenate(([0], np.cumsum(np.bincount(near[inside], minlength=total))))
        for part in range(total):
            members, chosen = rows[starts[part] : starts[part + 1]], inside[cuts[part] : cuts[part + 1]]
            yield members, EdgeList(len(members), place[self.ends[chosen]], self.weights[chosen])


def weigh_relations(
    near: csr_array, rows: Labels, labels: Labels, count: int
) -> tuple[Labels, Labels, Weights, Weights]:
    """Return entities, the other ones of the ``count`` clusters that they have relations into, and the weight of these; then, (n,), the
    weight of each entity's relations within its own cluster. ``rows`` are those of ``near``, see :func:`matrix_rows`."""
    cells, place = np.unique(rows * count + labels[near.indices], return_inverse=True)
    weights = np.bincount(place, weights=near.data).astype(np.float64)
    entities, clusters = cells // count, cells % count
    away = clusters != labels[entities]
    own = np.zeros(len(labels))
    own[entities[~away]] = weights[~away]
    return entities[away], clusters[away], weights[away], own


def matrix_rows(matrix: csr_array) -> Labels:
    """Return the row of each stored value of ``matrix``."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
