"""The part of the graph around the evidence, fetched in a few bounded calls: what spreading walks on.

Nothing here grows with the corpus: the seeds, the entities of the best passages, their strongest
relations, and the passages of all these, each up to a fixed number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from leanrag_engine.model import Entity, Relation

from .index import Index
from .ranking import Neighbourhood
from .scope import Scope
from .searching import Found

TOP_CHUNKS = 10
"""Best passages of each search whose entities take part."""

ANCHORS = 100
RELATIONS = 300
ENTITIES = 400
CHUNKS = 400
"""Larger neighbourhoods hold a little more of the evidence and rank it no better."""

CHUNKS_OF_ANCHOR = 40
CHUNKS_OF_NEIGHBOUR = 4


async def around(
    index: Index, scope: Scope, seeds: Sequence[Entity], found: Sequence[Found]
) -> Neighbourhood:
    """The neighbourhood of ``seeds`` and of the passages that the searches found."""
    generation = index.generation.number
    searches = [ranked for each in found for ranked in (each.dense_chunks, each.keyword_chunks)]
    top = first((hit.id for ranked in searches for hit in ranked[:TOP_CHUNKS]), CHUNKS)
    mentioned = await index.graph.entities_in_chunks(generation, top)
    anchors = first(
        [*(seed.id for seed in seeds), *(id_ for ids in mentioned.values() for id_ in ids)], ANCHORS
    )
    relations = [
        each
        for each in await index.graph.relations_of(generation, anchors, RELATIONS)
        if each.layer == 0 and scope.supports(each)
    ]
    ends = (end for each in relations for end in (each.source_id, each.target_id))
    entities = [
        each
        for each in await index.graph.entities(generation, first([*anchors, *ends], ENTITIES))
        if each.layer == 0 and scope.supports(each)
    ]
    share = max(TOP_CHUNKS, CHUNKS // (2 * max(len(searches), 1)))
    hits = (hit.id for ranked in searches for hit in ranked[:share])
    chunk_ids = first([*hits, *_chunk_ids(entities, set(anchors), relations, scope)], CHUNKS)
    parents = first((seed.parent_id for seed in seeds if seed.parent_id), ANCHORS)
    mentions, titles, between = await asyncio.gather(
        index.graph.entities_in_chunks(generation, chunk_ids),
        index.graph.titles(index.collection.name, chunk_ids),
        index.graph.relations_among(generation, parents),
    )
    return Neighbourhood(
        tuple(entities), (*relations, *between), {id_: mentions.get(id_, ()) for id_ in titles}, titles
    )


def _chunk_ids(
    entities: Sequence[Entity], anchors: set[str], relations: Sequence[Relation], scope: Scope
) -> Iterable[str]:
    for entity in entities:
        if entity.id in anchors:
            yield from scope.kept(entity.chunk_ids)[:CHUNKS_OF_ANCHOR]
    for relation in relations:
        yield from scope.kept(relation.chunk_ids)[:CHUNKS_OF_NEIGHBOUR]
    for entity in entities:
        if entity.id not in anchors:
            yield from scope.kept(entity.chunk_ids)[:CHUNKS_OF_NEIGHBOUR]


def first(ids: Iterable[str], limit: int) -> list[str]:
    """The first ``limit`` distinct ids."""
    return list(dict.fromkeys(ids))[:limit]
