"""In which order passages answer a query: the paper's rule, and spreading from the seeds. Pure:
everything that the stores know comes in, ids and scores go out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import Chunk, Entity, Hit
from leanrag_engine.retrieval.graph.adjacency import Adjacency, EdgeKind
from leanrag_engine.retrieval.graph.pagerank import Shares, WalkRules, pagerank
from leanrag_engine.retrieval.request import DEFAULT_RANKING, RankingOptions

from .seeds import fuse


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
