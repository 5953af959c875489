"""Personalised PageRank by local push: where a walker who keeps starting anew at the evidence ends up. Only the part of the graph
that the walker reaches is ever read, so that the cost depends on the tolerance and not on the size of the graph. (PageRank: Page
et al. 1999; local push: Andersen, Chung and Lang 2006; as retrieval over a knowledge graph: Gutiérrez et al. 2024.)"""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .adjacency import Adjacency, EdgeKind


@dataclass(frozen=True, slots=True)
class WalkRules:
    """Where the walker may go: ``weights`` by kind of edge, and chunks that ``allowed`` marks (None: all).
    Under a filter, relations may rest on what is excluded: their weight should then be 0."""

    weights: Mapping[EdgeKind, float]
    damping: float
    allowed: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The share of time that a walker spends at each of ``nodes``, the ones that it reaches."""

    nodes: NDArray[np.intp]
    values: NDArray[np.float64]


def pagerank(
    graph: Adjacency, restart: Mapping[int, float], walk: WalkRules, tolerance: float = 3e-5
) -> Shares:
    """Compute the share of time that a random walker spends at each node that it reaches.

    At each step it follows an edge with probability ``walk.damping`` (chosen by weight), else it starts anew at
    a node drawn by ``restart`` (weights ≥ 0, any sum); from a node without edges it always starts anew. The
    shares sum to 1. Mass below ``tolerance`` for each edge of a node stays there; by default the shares left out
    are too small to move a passage among the first twenty. The result is empty if ``restart`` has no weight.
    """
    active = np.array([node for node, weight in restart.items() if weight > 0], dtype=np.intp)
    if not len(active):
        return Shares(np.empty(0, dtype=np.intp), np.empty(0))
    space = _take_workspace(graph.nodes)
    shares, waiting, last = space.shares, space.waiting, space.last
    start = np.array([restart[node] for node in active.tolist()], dtype=np.float64)
    waiting[active] = start / start.sum()
    kinds = np.array([walk.weights.get(kind, 0.0) for kind in EdgeKind])
    reached = [active]
    for _ in range(100):  # a bound: the tolerance ends the walk long before
        mass = waiting.take(active)
        degree = graph.offsets.take(active + 1) - graph.offsets.take(active)
        large = np.flatnonzero(mass > tolerance * np.maximum(degree, 1))
        if not len(large):
            break
        active, mass = active.take(large), mass.take(large)
        shares[active] += (1 - walk.damping) * mass
        waiting[active] = 0.0
        targets, passed = _pass_on(graph, active, walk.damping * mass, kinds, walk.allowed)
        np.add.at(waiting, targets, passed)
        active = _find_distinct(targets, last)
        reached.append(active)
    nodes = np.sort(_find_distinct(np.concatenate(reached), last))
    found = shares[nodes] + (1 - walk.damping) * waiting[nodes]
    shares[nodes] = waiting[nodes] = 0.0
    _spare.append(space)
    nodes, found = nodes[found > 0], found[found > 0]
    return Shares(nodes.astype(np.intp), found / found.sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Workspace:
    """What a walk notes of each node. ``shares`` and ``waiting`` are zero before and after it."""

    shares: NDArray[np.float64]
    waiting: NDArray[np.float64]
    last: NDArray[np.int32]


_spare: deque[_Workspace] = deque(maxlen=4)
"""The workspaces of walks that have ended. A thread returns memory of this size to the system each time: on 450,000 nodes new
memory took 6 ms of processor time, the walk itself 2."""


def _take_workspace(nodes: int) -> _Workspace:
    """Return a workspace for so many nodes or more, which no other walk has."""
    with suppress(IndexError):
        space = _spare.pop()
        if len(space.last) >= nodes:
            return space
    return _Workspace(np.zeros(nodes), np.zeros(nodes), np.empty(nodes, dtype=np.int32))


def _pass_on(
    graph: Adjacency,
    nodes: NDArray[Any],
    mass: NDArray[np.float64],
    kinds: NDArray[np.float64],
    allowed: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the neighbours of ``nodes``, and what each gets of their ``mass``; it may be nothing."""
    # A walk has some twenty steps of a thousand edges: ``take`` needs half the time of indexing with brackets.
    first = graph.offsets.take(nodes)
    count = graph.offsets.take(nodes + 1) - first
    row = np.repeat(np.arange(len(nodes)), count)
    edge = (first - np.cumsum(count) + count).take(row) + np.arange(len(row))
    target = graph.targets.take(edge)
    weight = kinds.take(graph.kinds.take(edge)) * graph.strengths.take(edge)
    if allowed is not None:
        chunk = target < len(graph.chunk_ids)
        weight[chunk] *= allowed[target[chunk]]
    total = np.bincount(row, weights=weight, minlength=len(nodes))
    share = np.divide(mass, total, out=np.zeros(len(nodes)), where=total > 0)
    return target, share.take(row) * weight


def _find_distinct(nodes: NDArray[Any], last: NDArray[np.int32]) -> NDArray[Any]:
    """Return the distinct ones of ``nodes``, which are places of ``last``; that is overwritten, and whatever it holds is
    right. Faster than ``np.unique``, which sorts."""
    places = np.arange(len(nodes), dtype=np.int32)
    last[nodes] = places
    return nodes.compress(last.take(nodes) == places)
