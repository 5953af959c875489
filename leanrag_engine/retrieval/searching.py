"""The searches behind a query: dense and keyword hits for each of its texts, within the query's scope."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leanrag_engine.model import Entity, Hit, Vectors

from .anchoring import anchor, bearing_part, best_first, name_parts, name_spans, named
from .index import Index, Spaces
from .scope import Scope

CHUNK_HITS = 60
"""Chunks that each search gives."""

ENTITY_HITS = 40
"""Entities that each search gives, at least."""

PART_HITS = 20
"""Entities that are looked at for a word that may be part of a name."""

WIDENING = 8
WIDEST = 4096
"""A search whose hits are mostly out of scope is repeated for so many times as many, up to so many."""

SMALL = 500
"""A scope of at most so many chunks is searched exactly, vector by vector."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the searches gave for one text. ``vector`` is None where dense search cannot serve.

    ``entities`` holds every entity that one of the rankings names.
    """

    text: str
    vector: Vectors | None = None
    dense_chunks: tuple[Hit, ...] = ()
    keyword_chunks: tuple[Hit, ...] = ()
    dense_entities: tuple[Hit, ...] = ()
    keyword_entities: tuple[Hit, ...] = ()
    names: tuple[Hit, ...] = ()
    entities: Mapping[str, Entity] = field(default_factory=dict)

    def anchors(self, limit: int, *, paper: bool = False) -> list[Hit]:
        """The entities that this text is about, best first; by ``paper`` the nearest alone, with their similarity."""
        if paper and self.vector is not None:
            return list(self.dense_entities[:limit])
        dense = [hit.id for hit in self.dense_entities]
        return anchor(dense, [hit.id for hit in self.keyword_entities], self.names, limit)


async def embedded(index: Index, texts: Sequence[str]) -> list[Vectors | None]:
    """A vector for each text; None without an embedder and for a text of which it knows no word."""
    if index.embedder is None:
        return [None] * len(texts)
    rows = await index.embedder.embed(texts)
    return [row if np.any(row) else None for row in rows]


async def find_chunks(index: Index, scope: Scope, texts: Sequence[str]) -> list[Found]:
    """Chunks alone: what plain search gives for each text."""
    vectors = await embedded(index, texts)
    return [await _chunks_of(index, scope, text, vector) for text, vector in zip(texts, vectors, strict=True)]


async def find_all(index: Index, scope: Scope, texts: Sequence[str], entities: int) -> list[Found]:
    """Chunks, entities of layer 0 and names: everything that anchors a text. Needs a generation."""
    vectors = await embedded(index, texts)
    wanted = max(ENTITY_HITS, 2 * entities)
    return [
        await _everything_of(index, scope, text, vector, wanted)
        for text, vector in zip(texts, vectors, strict=True)
    ]


async def find_dense_entities(index: Index, scope: Scope, texts: Sequence[str], entities: int) -> list[Found]:
    """The paper's anchoring (eq. 6): the ``entities`` nearest of layer 0 by meaning, and nothing else."""
    vectors = await embedded(index, texts)
    return [
        await _dense_only(index, scope, text, vector, entities)
        for text, vector in zip(texts, vectors, strict=True)
    ]


async def _chunks_of(index: Index, scope: Scope, text: str, vector: Vectors | None) -> Found:
    dense, keyword = await asyncio.gather(
        _dense_chunks(index, scope, vector), _keyword_chunks(index, scope, text)
    )
    return Found(text, vector, tuple(dense), tuple(keyword))


async def _everything_of(index: Index, scope: Scope, text: str, vector: Vectors | None, wanted: int) -> Found:
    plain, dense, keyword, names = await asyncio.gather(
        _chunks_of(index, scope, text, vector),
        _dense_entities(index, scope, vector, wanted),
        _keyword_entities(index, scope, text, wanted),
        _named_entities(index, scope, text),
    )
    entities = {**dense.entities, **keyword.entities, **names.entities}
    return Found(
        text, vector, plain.dense_chunks, plain.keyword_chunks, dense.hits, keyword.hits, names.hits, entities
    )


async def _dense_only(index: Index, scope: Scope, text: str, vector: Vectors | None, wanted: int) -> Found:
    kept = await _dense_entities(index, scope, vector, wanted)
    if vector is None:
        kept = await _keyword_entities(index, scope, text, wanted)
    return Found(text, vector, dense_entities=kept.hits, entities=kept.entities)


# --- chunks --------------------------------------------------------------------------------


async def _dense_chunks(index: Index, scope: Scope, vector: Vectors | None) -> list[Hit]:
    if vector is None or index.spaces is None:
        return []
    space = index.spaces.chunks
    if scope.allowed is not None and len(scope.allowed) <= SMALL:
        return (await nearest(index, space, sorted(scope.allowed), vector))[:CHUNK_HITS]
    return await _widening(
        lambda limit: index.vectors.search(space, vector, limit), _in_scope(scope), CHUNK_HITS
    )


async def _keyword_chunks(index: Index, scope: Scope, text: str) -> list[Hit]:
    name = index.collection.name
    return await _widening(
        lambda limit: index.graph.search_chunks(name, text, limit), _in_scope(scope), CHUNK_HITS
    )


def _in_scope(scope: Scope) -> Callable[[list[Hit]], Awaitable[list[Hit]]]:
    async def keep(hits: list[Hit]) -> list[Hit]:
        return [hit for hit in hits if scope.allows(hit.id)]

    return keep


async def nearest(index: Index, space: str, ids: Sequence[str], vector: Vectors) -> list[Hit]:
    """Those of ``ids`` that the space holds, by cosine similarity to ``vector``."""
    rows = await index.vectors.fetch(space, ids)
    return best_first({id_: float(rows[id_] @ vector) for id_ in ids if id_ in rows})


async def _widening(
    search: Callable[[int], Awaitable[list[Hit]]],
    keep: Callable[[list[Hit]], Awaitable[list[Hit]]],
    wanted: int,
) -> list[Hit]:
    """The first ``wanted`` hits that ``keep`` keeps; the search is widened as long as too few are left."""
    limit = wanted
    while True:
        hits = await search(limit)
        kept = await keep(hits)
        if len(kept) >= wanted or len(hits) < limit or limit >= WIDEST:
            return kept[:wanted]
        limit = min(limit * WIDENING, WIDEST)


# --- entities ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    """Hits that belong to the generation and are in scope, and their entities."""

    hits: tuple[Hit, ...]
    entities: Mapping[str, Entity]


async def _dense_entities(index: Index, scope: Scope, vector: Vectors | None, wanted: int) -> _Kept:
    if vector is None or index.spaces is None:
        return _Kept((), {})
    space = index.spaces.entities
    if scope.allowed is not None and len(scope.allowed) <= SMALL:
        mentions = await index.graph.entities_in_chunks(index.generation.number, sorted(scope.allowed))
        ids = list(dict.fromkeys(id_ for entity_ids in mentions.values() for id_ in entity_ids))
        hits = (await nearest(index, space, ids, vector))[:wanted]
        return await _existing(index, scope, hits)
    return await _entities(index, scope, lambda limit: index.vectors.search(space, vector, limit), wanted)


async def _keyword_entities(index: Index, scope: Scope, text: str, wanted: int) -> _Kept:
    number = index.generation.number
    return await _entities(
        index, scope, lambda limit: index.graph.search_entities(number, text, limit, layer=0), wanted
    )


async def _entities(
    index: Index, scope: Scope, search: Callable[[int], Awaitable[list[Hit]]], wanted: int
) -> _Kept:
    seen: dict[str, Entity] = {}

    async def keep(hits: list[Hit]) -> list[Hit]:
        kept = await _existing(index, scope, [hit for hit in hits if hit.id not in seen])
        seen.update(kept.entities)
        return [hit for hit in hits if hit.id in seen]

    hits = await _widening(search, keep, wanted)
    return _Kept(tuple(hits), {hit.id: seen[hit.id] for hit in hits})


async def _existing(index: Index, scope: Scope, hits: Sequence[Hit]) -> _Kept:
    """A space may hold entities of other generations: those are dropped here."""
    entities = await index.graph.entities(index.generation.number, [hit.id for hit in hits])
    kept = {each.id: each for each in entities if each.layer == 0 and scope.supports(each)}
    return _Kept(tuple(hit for hit in hits if hit.id in kept), kept)


async def _named_entities(index: Index, scope: Scope, text: str) -> _Kept:
    """The layer-0 entities whose name, or part of whose name, stands in the text."""
    spans = name_spans(text)
    if not spans:
        return _Kept((), {})
    number = index.generation.number
    found = await index.graph.entities_named(number, list(dict.fromkeys(span.key for span in spans)))
    bearers = [each for each in found if each.layer == 0 and scope.supports(each)]
    hits = {hit.id: hit for hit in named(spans, bearers, index.collection.chunks)}
    entities = {each.id: each for each in bearers}
    for part in name_parts(spans, found):
        near = await _keyword_entities(index, scope, part, PART_HITS)
        entities |= near.entities
        for hit in bearing_part(part, list(near.entities.values())):
            hits.setdefault(hit.id, hit)
    return _Kept(tuple(hits.values()), {id_: entities[id_] for id_ in hits})


def spaces_of(index: Index) -> Spaces:
    """The vector spaces of a built index."""
    assert index.spaces is not None, "a published generation records its vector spaces"
    return index.spaces
