"""The relations of one layer as arrays: which entities they join, by place, and how strongly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import Graph

Labels = NDArray[np.intp]
Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EdgeList:
    """The m relations among ``count`` entities: relation ``i`` joins the places ``ends[i]`` (m, 2)."""

    count: int
    ends: Labels
    weights: Weights

    @classmethod
    def of(cls, graph: Graph) -> EdgeList:
        """Each relation weighs as much as relations of the layer below it stands for, 1 in G0."""
        place = {entity.id: number for number, entity in enumerate(graph.entities)}
        ends = [(place[one.source_id], place[one.target_id]) for one in graph.relations]
        strengths = [one.strength for one in graph.relations]
        return cls(
            len(graph.entities),
            np.array(ends, dtype=np.intp).reshape(-1, 2),
            np.array(strengths, dtype=np.float64),
        )

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def inside(self, labels: Labels) -> float:
        """The share of all relations, by weight, whose ends are in one cluster; 0 without relations."""
        within = labels[self.ends[:, 0]] == labels[self.ends[:, 1]]
        return float(self.weights[within].sum() / self.total) if self.total else 0.0

    def neighbours(self) -> Neighbours:
        """Every entity's relations, in either direction, by the neighbour's place."""
        near = np.concatenate((self.ends[:, 0], self.ends[:, 1]))
        far = np.concatenate((self.ends[:, 1], self.ends[:, 0]))
        order = np.lexsort((far, near))
        starts = np.concatenate(([0], np.cumsum(np.bincount(near, minlength=self.count))))
        return Neighbours(starts, far[order], np.concatenate((self.weights, self.weights))[order])

    def within(self, parts: Labels) -> Iterator[tuple[Labels, EdgeList]]:
        """The rows of each part 0, 1, … of ``parts`` (count,), which become 0, 1, … in their order, with the
        relations among them; -1 is no part. One pass for all parts, O(m log m)."""
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


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A symmetric sparse matrix by rows: row ``i`` has the columns ``places[starts[i]:starts[i + 1]]``, sorted."""

    starts: Labels
    places: Labels
    weights: Weights

    @property
    def rows(self) -> Labels:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


def components(links: EdgeList) -> Labels:
    """The connected component of each entity, (count,), numbered by their first members.

    Each round every tree of the forest hooks onto a smaller neighbour and is flattened: O(m log n).
    """
    roots = np.arange(links.count)
    first, second = links.ends[:, 0], links.ends[:, 1]
    while True:
        low = np.minimum(roots[first], roots[second])
        lowest = roots.copy()
        np.minimum.at(lowest, roots[first], low)
        np.minimum.at(lowest, roots[second], low)
        while not np.array_equal(flat := lowest[lowest], lowest):
            lowest = flat
        lowest = lowest[roots]
        if np.array_equal(lowest, roots):
            break
        roots = lowest
    return np.unique(roots, return_inverse=True)[1]
