"""In which order passages answer a query: the paper's rule, fused search, and spreading from the seeds.

Pure: everything that the stores know comes in, ids and scores go out. The weights of spreading are round
numbers on a plateau, chosen by looking at two question sets at once; no third set has confirmed them yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from leanrag_engine import language
from leanrag_engine.model import Chunk, Entity, Hit, Relation, Seed

from .anchoring import best_first, fuse
from .matching import QueryWords
from .spreading import Edge, personalised_pagerank

DAMPING = 0.5
"""The walker takes one step on average between two fresh starts: evidence is seldom further than two hops."""

SEED_MASS = 1.0
FACT_MASS = 1.0
DENSE_MASS = 0.1
"""Shares of the fresh starts. Much mass on similar passages would keep the walker from the second hop."""

SHARPNESS = 3
"""Seeds start the walk by this power of their score: the first few carry it, a long tail does not blur it."""

FACTS = 5
"""Relations whose words match best start the walk as well."""

TITLE_EDGE = 5.0
"""A passage's edge to the entity that its document is named after, beside 1 for a mere mention."""

RELATION_EDGE = 0.5
PARENT_EDGE = 0.3
"""An entity's edge to its cluster: a way between entities that no passage joins."""

INTER_CLUSTER_EDGE = 0.1


# --- the paper's rule ----------------------------------------------------------------------


def seed_counts(seeds: Sequence[Entity]) -> dict[str, int]:
    """For each chunk, the number of seeds in it; chunks in order of first appearance."""
    counts: dict[str, int] = {}
    for seed in seeds:
        for chunk_id in dict.fromkeys(seed.chunk_ids):
            counts[chunk_id] = counts.get(chunk_id, 0) + 1
    return counts


def contenders(counts: Mapping[str, int], limit: int) -> list[str]:
    """The chunks that may be among the ``limit`` first by count, all that tie for the last place included."""
    if len(counts) <= limit:
        return list(counts)
    least = sorted(counts.values(), reverse=True)[limit - 1]
    return [chunk_id for chunk_id, count in counts.items() if count >= least]


def by_seed_count(
    counts: Mapping[str, int], similarity: Mapping[str, float], chunks: Sequence[Chunk], limit: int
) -> list[Hit]:
    """The paper's ranking of ``chunks``: number of seeds in them, then similarity to the query, then reading order."""
    order = sorted(
        chunks, key=lambda chunk: (-counts[chunk.id], -similarity.get(chunk.id, -1.0), reading_order(chunk))
    )
    return [Hit(chunk.id, float(counts[chunk.id])) for chunk in order[:limit]]


def reading_order(chunk: Chunk) -> tuple[int, int]:
    """Sorts chunks by document number, then by place in the document."""
    document = chunk.citation.partition(":")[0].lstrip("d")
    return (int(document) if document.isdigit() else 0, chunk.number)


# --- fused search --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Searched:
    """What search gave for one text: its words, the seeds that it anchors, and the chunk hits, best first."""

    text: str
    seeds: Sequence[Hit]
    dense: Sequence[Hit]
    keyword: Sequence[Hit]


def fused(searched: Searched, seeds: Sequence[Seed]) -> list[Hit]:
    """Dense rank, keyword rank and the rank by seeds (the sum of the scores of those in a chunk), fused."""
    evidence: dict[str, float] = {}
    for seed in seeds:
        for chunk_id in seed.entity.chunk_ids:
            evidence[chunk_id] = evidence.get(chunk_id, 0.0) + seed.score
    rankings = [searched.dense, searched.keyword, best_first(evidence)]
    return fuse([[hit.id for hit in each] for each in rankings])


# --- spreading -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The part of the graph around the evidence in which the walker walks.

    ``mentions`` says for each chunk which entities it mentions, ``titles`` after what its document is named.
    ``entities`` are of layer 0 and know their parents; ``relations`` may be of any layer.
    """

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    mentions: Mapping[str, Sequence[str]]
    titles: Mapping[str, str] = field(default_factory=dict)


def spread(near: Neighbourhood, edges: Sequence[Edge], searched: Searched) -> list[Hit]:
    """The chunks of ``near`` by the time that a walker from the evidence spends in them, times how well search likes them.

    A chunk in which the graph knows no entity (it came in after the build, say) cannot be walked to: it
    keeps the place that search gives it.
    """
    shares = personalised_pagerank(edges, starts(near, searched), DAMPING)
    dense, keyword = _relative(searched.dense), _relative(searched.keyword)
    scores = {
        chunk_id: shares.get(_node(chunk_id), 0.0) * math.exp(dense(chunk_id) + keyword(chunk_id))
        for chunk_id, entity_ids in near.mentions.items()
        if entity_ids
    }
    walked = [hit for hit in best_first(scores) if hit.score > 0]
    return _with_unknown(walked, near, searched)


def _node(chunk_id: str) -> str:
    return f"chunk {chunk_id}"


def _relative(hits: Sequence[Hit]) -> Callable[[str], float]:
    """A hit's score as a share of the best one's; for what is no hit, the last one's share."""
    most = max((hit.score for hit in hits), default=0.0)
    shares = {hit.id: max(hit.score, 0.0) / most for hit in hits} if most > 0 else {}
    floor = min(shares.values(), default=0.0)
    return lambda chunk_id: shares.get(chunk_id, floor)


def _with_unknown(walked: Sequence[Hit], near: Neighbourhood, searched: Searched) -> list[Hit]:
    """``walked`` with the hits that the graph does not know in their places, and those it did not reach at the end."""
    found = fuse([[hit.id for hit in searched.dense], [hit.id for hit in searched.keyword]])
    order = list(walked)
    for place, hit in enumerate(found):
        if hit.id in near.mentions and not near.mentions[hit.id]:
            score = order[min(place, len(order) - 1)].score if order else hit.score
            order.insert(place, Hit(hit.id, score))
    ranked = {hit.id for hit in order}
    return [*order, *(Hit(hit.id, 0.0) for hit in found if hit.id not in ranked)]


def edges_of(near: Neighbourhood) -> list[Edge]:
    """Mentions, relations, the hierarchy's edges and inter-cluster relations as one undirected graph."""
    keys = {entity.id: language.name_key(entity.name) for entity in near.entities}
    titles = {chunk_id: language.name_key(title) for chunk_id, title in near.titles.items()}
    mentions = [
        Edge(_node(chunk_id), entity_id, TITLE_EDGE if keys[entity_id] == titles.get(chunk_id) else 1.0)
        for chunk_id, entity_ids in near.mentions.items()
        for entity_id in entity_ids
        if entity_id in keys
    ]
    relations = [Edge(each.source_id, each.target_id, _relation_weight(each)) for each in near.relations]
    hierarchy = [Edge(each.id, each.parent_id, PARENT_EDGE) for each in near.entities if each.parent_id]
    return [*mentions, *relations, *hierarchy]


def _relation_weight(relation: Relation) -> float:
    if relation.layer:
        return INTER_CLUSTER_EDGE * math.log1p(relation.strength)
    return RELATION_EDGE * (1.0 + math.log(max(relation.weight, 1)))


def starts(near: Neighbourhood, searched: Searched) -> dict[str, float]:
    """Where the walker starts anew: at seeds, at both ends of matching facts, a little at similar passages."""
    ends = {relation.id: (relation.source_id, relation.target_id) for relation in near.relations}
    fact_ends: dict[str, float] = {}
    for fact in facts(near, searched.text):
        for end in ends[fact.id]:
            fact_ends[end] = fact_ends.get(end, 0.0) + fact.score
    found: dict[str, float] = {}
    _add(found, {hit.id: hit.score**SHARPNESS for hit in searched.seeds}, SEED_MASS)
    _add(found, fact_ends, FACT_MASS)
    _add(found, {_node(hit.id): max(hit.score, 0.0) for hit in searched.dense}, DENSE_MASS)
    return found


def _add(found: dict[str, float], scores: Mapping[str, float], mass: float) -> None:
    """Share ``mass`` out among the nodes of ``scores``."""
    total = sum(scores.values())
    for node, score in scores.items():
        if total > 0:
            found[node] = found.get(node, 0.0) + mass * score / total


def facts(near: Neighbourhood, text: str) -> list[Hit]:
    """The ``FACTS`` base relations that match ``text`` best."""
    base = [each for each in near.relations if each.layer == 0]
    names = {entity.id: entity.name for entity in near.entities}
    return best_first(matches(base, names, text))[:FACTS]


def matches(relations: Sequence[Relation], names: Mapping[str, str], text: str) -> dict[str, float]:
    """How much the ends and the description of each relation share with ``text``; those that share nothing are left out."""
    shared = QueryWords([text]).shared([_spoken(each, names) for each in relations])
    return {each.id: score for each, score in zip(relations, shared, strict=True) if score > 0}


def _spoken(relation: Relation, names: Mapping[str, str]) -> str:
    ends = f"{names.get(relation.source_id, '')} {names.get(relation.target_id, '')}"
    return f"{ends} {relation.description}"
