"""In which order passages answer a query: the paper's rule, and spreading from the seeds. Pure:
everything that the stores know comes in, ids and scores go out."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import Chunk, Entity, Hit
from leanrag_engine.retrieval.graph.adjacency import Adjacency, EdgeKind
from leanrag_engine.retrieval.request import DEFAULT_RANKING, RankingOptions
from leanrag_engine.retrieval.search.seeds import fuse


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
        first = graph.offsets.take(active)
        count = graph.offsets.take(active + 1) - first
        large = (mass > tolerance * np.maximum(count, 1)).nonzero()[0]
        if not len(large):
            break
        active, mass = active.take(large), mass.take(large)
        shares[active] += (1 - walk.damping) * mass
        waiting[active] = 0.0
        edges = first.take(large), count.take(large)
        targets, passed = _pass_on(graph, edges, walk.damping * mass, kinds, walk.allowed)
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
    edges: tuple[NDArray[Any], NDArray[Any]],
    mass: NDArray[np.float64],
    kinds: NDArray[np.float64],
    allowed: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the neighbours of nodes, given by their first edge and the number of these, and what each gets of their ``mass``; it may be
    nothing."""
    # A walk has some twenty steps of a thousand edges: ``take`` needs half the time of indexing with brackets.
    first, count = edges
    row = np.arange(len(count)).repeat(count)
    edge = (first - count.cumsum() + count).take(row) + np.arange(len(row))
    target = graph.targets.take(edge)
    weight = kinds.take(graph.kinds.take(edge)) * graph.strengths.take(edge)
    if allowed is not None:
        chunk = target < len(graph.chunk_ids)
        weight[chunk] *= allowed[target[chunk]]
    total = np.bincount(row, weights=weight, minlength=len(count))
    share = mass / (total + (total == 0))  # without edges there is no weight
    return target, share.take(row) * weight


def _find_distinct(nodes: NDArray[Any], last: NDArray[np.int32]) -> NDArray[Any]:
    """Return the distinct ones of ``nodes``, which are places of ``last``; that is overwritten, and whatever it holds is
    right. Faster than ``np.unique``, which sorts."""
    places = np.arange(len(nodes), dtype=np.int32)
    last[nodes] = places
    return nodes.compress(last.take(nodes) == places)


def seed_counts(seeds: Sequence[Entity]) -> dict[str, int]:
    """Return for each chunk, the number of seeds in it; chunks in order of first appearance."""
    counts: dict[str, int] = {}
    for seed in seeds:
        for chunk_id in dict.fromkeys(seed.chunk_ids):
            counts[chunk_id] = counts.get(chunk_id, 0) + 1
    return counts


def contenders(counts: Mapping[str, int], limit: int) -> list[str]:
    """Return the chunks that may be among the ``limit`` first by count, all that tie for the last place included."""
    if len(counts) <= limit:
        return list(counts)
    least = sorted(counts.values(), reverse=True)[limit - 1]
    return [chunk_id for chunk_id, count in counts.items() if count >= least]


def rank_by_seed_count(
    counts: Mapping[str, int], similarity: Mapping[str, float], chunks: Sequence[Chunk], limit: int
) -> list[Hit]:
    """Return the paper's ranking of ``chunks``: number of seeds in them, then similarity to the query, then reading order."""
    order = sorted(
        chunks, key=lambda chunk: (-counts[chunk.id], -similarity.get(chunk.id, -1.0), chunk.place)
    )
    return [Hit(chunk.id, float(counts[chunk.id])) for chunk in order[:limit]]


@dataclass(frozen=True, slots=True)
class RankingInput:
    """What search gave for one text: the seeds that it anchors, and chunks, each best first."""

    seeds: Sequence[Hit]
    dense: Sequence[Hit]
    keyword: Sequence[Hit]


def rank_by_spreading(
    graph: Adjacency,
    searched: RankingInput,
    options: RankingOptions = DEFAULT_RANKING,
    allowed: NDArray[np.bool_] | None = None,
) -> list[Hit]:
    """Return the chunks that a walker from the evidence reaches, by its time in them. ``allowed`` marks the chunks that a filter
    lets in: the walker then goes by mentions in these alone, as relations may rest on what is excluded. A chunk that the graph
    does not know (it came in after the build, say) cannot be walked to: it keeps the place that search gives it."""
    edges = options.edges()
    if allowed is not None:
        edges = {kind: edges[kind] for kind in (EdgeKind.MENTION, EdgeKind.TITLE)}
    walk = WalkRules(edges, options.damping, allowed)
    shares = pagerank(graph, restart_weights(graph, searched, options), walk)
    return _insert_unknown(_rank_chunks(graph, shares, allowed), graph, searched)


def _rank_chunks(graph: Adjacency, shares: Shares, allowed: NDArray[np.bool_] | None) -> list[Hit]:
    """Return the chunks in which the walker spends most time, with its share of time in each."""
    reached = graph.is_known_chunk(shares.nodes) & (shares.values > 0)
    if allowed is not None and len(allowed):
        reached &= allowed[np.minimum(shares.nodes, len(allowed) - 1)]
    nodes, scores = shares.nodes[reached], shares.values[reached]
    # 400 are more than any query may ask for.
    best = np.argsort(-scores, kind="stable")[:400]
    return list(map(Hit, graph.chunks_at(nodes[best]), scores[best].tolist()))


def _insert_unknown(walked: Sequence[Hit], graph: Adjacency, searched: RankingInput) -> list[Hit]:
    """Return ``walked`` with the hits that the graph does not know in their places, and those it did not reach at the end."""
    found = fuse([[hit.id for hit in searched.dense], [hit.id for hit in searched.keyword]])
    known = graph.is_known_chunk(graph.chunk_nodes([hit.id for hit in found])).tolist()
    order = list(walked)
    for place, (hit, walkable) in enumerate(zip(found, known, strict=True)):
        if not walkable:
            score = order[min(place, len(order) - 1)].score if order else hit.score
            order.insert(place, Hit(hit.id, score))
    ranked = {hit.id for hit in order}
    return [*order, *(Hit(hit.id, 0.0) for hit in found if hit.id not in ranked)]


def restart_weights(graph: Adjacency, searched: RankingInput, options: RankingOptions) -> dict[int, float]:
    """Return where the walker starts anew: at seeds, a little at similar passages."""
    found: dict[int, float] = {}
    seeds = graph.entity_nodes([hit.id for hit in searched.seeds]).tolist()
    sharpened = [max(hit.score, 0.0) ** options.sharpness for hit in searched.seeds]
    _add(found, zip(seeds, sharpened, strict=True), 1.0)
    similar = graph.chunk_nodes([hit.id for hit in searched.dense]).tolist()
    _add(
        found, zip(similar, (max(hit.score, 0.0) for hit in searched.dense), strict=True), options.dense_mass
    )
    return found


def _add(found: dict[int, float], scores: Iterable[tuple[int, float]], mass: float) -> None:
    """Share ``mass`` out among the nodes of ``scores``; −1 is no node."""
    real = [(node, score) for node, score in scores if node >= 0]
    total = sum(score for _, score in real)
    for node, score in real:
        if total > 0:
            found[node] = found.get(node, 0.0) + mass * score / total
