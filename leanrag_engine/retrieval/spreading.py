"""Personalised PageRank over a small graph: where a walker who keeps starting anew at the evidence ends up.

Power iteration on edge arrays, O(edges) a step. (Page et al. 1999; as retrieval over a knowledge
graph: Gutiérrez et al. 2024.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-10
MAX_STEPS = 200


@dataclass(frozen=True, slots=True)
class Edge:
    """An undirected edge between two nodes. Parallel edges add up; a loop is ignored."""

    source: str
    target: str
    weight: float = 1.0


def personalised_pagerank(
    edges: Iterable[Edge], restart: Mapping[str, float], damping: float
) -> dict[str, float]:
    """The share of time that the walker spends at each node that ``edges`` or ``restart`` name.

    At each step it follows an edge with probability ``damping`` (chosen by weight), else it starts
    anew at a node drawn by ``restart`` (weights ≥ 0, any sum); from a node without edges it always
    starts anew. The shares sum to 1; {} if ``restart`` has no weight.
    """
    real = [edge for edge in edges if edge.source != edge.target and edge.weight > 0]
    place = _places(real, restart)
    start = np.zeros(len(place))
    start[[place[node] for node in restart]] = list(restart.values())
    if start.sum() <= 0:
        return {}
    shares = _iterate(_transitions(real, place), start / start.sum(), damping)
    return dict(zip(place, shares.tolist(), strict=True))


def _places(edges: Sequence[Edge], restart: Mapping[str, float]) -> dict[str, int]:
    nodes = dict.fromkeys(restart)
    for edge in edges:
        nodes[edge.source] = nodes[edge.target] = None
    return {node: place for place, node in enumerate(nodes)}


@dataclass(frozen=True, slots=True)
class _Transitions:
    """Directed steps as three arrays of one length, and the nodes that no step leaves."""

    source: NDArray[np.intp]
    target: NDArray[np.intp]
    probability: NDArray[np.float64]
    dangling: NDArray[np.bool_]


def _transitions(edges: Sequence[Edge], place: Mapping[str, int]) -> _Transitions:
    one = np.fromiter((place[edge.source] for edge in edges), dtype=np.intp, count=len(edges))
    other = np.fromiter((place[edge.target] for edge in edges), dtype=np.intp, count=len(edges))
    weight = np.fromiter((edge.weight for edge in edges), dtype=np.float64, count=len(edges))
    source, target, both = np.concatenate([one, other]), np.concatenate([other, one]), np.tile(weight, 2)
    degree = np.bincount(source, weights=both, minlength=len(place))
    return _Transitions(source, target, both / degree[source], degree == 0)


def _iterate(steps: _Transitions, start: NDArray[np.float64], damping: float) -> NDArray[np.float64]:
    shares = start
    for _ in range(MAX_STEPS):
        flow = np.bincount(
            steps.target, weights=shares[steps.source] * steps.probability, minlength=len(start)
        )
        stranded = shares[steps.dangling].sum()
        following: NDArray[np.float64] = damping * (flow + stranded * start) + (1 - damping) * start
        if np.abs(following - shares).sum() < TOLERANCE:
            return following
        shares = following
    return shares
