"""The searches behind a query: dense and keyword hits for each of its texts, within the query's scope."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leanrag_engine.core.model import Hit, Vectors, VectorSpaces, parse_window_id, window_id
from leanrag_engine.core.runtime.threads import begin_beside
from leanrag_engine.retrieval.filters import ChunkScope
from leanrag_engine.retrieval.graph.adjacency import Adjacency
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.intent import leave_out_frame
from leanrag_engine.retrieval.request import DEFAULT_SEARCH, SearchOptions

from .decomposition import find_parts
from .seeds import best_first, match_names, name_spans, rank_entities


@dataclass(frozen=True, slots=True)
class SearchHits:
    """What the searches gave for one text. ``vector`` is None where dense search cannot serve."""

    text: str
    vector: Vectors | None = None
    dense_windows: tuple[Hit, ...] = ()
    keyword_windows: tuple[Hit, ...] = ()
    dense_entities: tuple[Hit, ...] = ()
    keyword_entities: tuple[Hit, ...] = ()
    names: tuple[Hit, ...] = ()
    options: SearchOptions = DEFAULT_SEARCH

    @property
    def dense_chunks(self) -> list[Hit]:
        """The chunks of the dense hits, each by its best window."""
        return best_chunks(self.dense_windows)[: self.options.chunk_hits]

    @property
    def keyword_chunks(self) -> list[Hit]:
        """The chunks of the keyword hits, likewise."""
        return best_chunks(self.keyword_windows)[: self.options.chunk_hits]

    def rank_entities(self, limit: int, *, paper: bool = False) -> list[Hit]:
        """Return the entities that this text is about, best first; by ``paper`` the nearest alone, with their similarity."""
        if paper and self.vector is not None:
            return list(self.dense_entities[:limit])
        dense = [hit.id for hit in self.dense_entities]
        keyword = [hit.id for hit in self.keyword_entities]
        return rank_entities(dense, keyword, self.names, limit, self.options)


async def embed_with_parts(index: IndexSnapshot, texts: Sequence[str]) -> IndexSnapshot:
    """Return the index with a vector for each text and for each part of it (see ``find_parts``), and with their tokens, those of what
    stands for the documents aside."""
    if index.embedder is None:
        return index
    wanted = list(dict.fromkeys([*texts, *(part for text in texts for part in find_parts(text))]))
    found = await index.embedder.embed_queries([leave_out_frame(each) for each in wanted])
    embedded = dict(zip(wanted, map(_none_if_zero, found.rows), strict=True))
    tokens = {text: each for text, each in zip(wanted, found.tokens, strict=False) if len(each.numbers)}
    return replace(index, embedded=embedded, tokens=tokens)


async def embed_texts(index: IndexSnapshot, texts: Sequence[str]) -> list[Vectors | None]:
    """Return a vector for each text; None without an embedder and for a text of which it knows no word."""
    if all(text in index.embedded for text in texts):
        return [index.embedded[text] for text in texts]
    if index.embedder is None:
        return [None] * len(texts)
    return [_none_if_zero(row) for row in (await index.embedder.embed_queries(texts)).rows]


def _none_if_zero(row: Vectors) -> Vectors | None:
    """Return the row of a text; None if the embedder knows no word of it."""
    return row if np.any(row) else None


async def search_windows(
    index: IndexSnapshot, scope: ChunkScope, texts: Sequence[str], options: SearchOptions = DEFAULT_SEARCH
) -> list[SearchHits]:
    """Search windows alone: what plain search gives for each text."""
    searcher = _Searcher(index, scope, options)
    vectors = await embed_texts(index, texts)
    return [await searcher.windows_of(text, vector) for text, vector in zip(texts, vectors, strict=True)]


async def search_all(
    index: IndexSnapshot,
    scope: ChunkScope,
    texts: Sequence[str],
    entities: int,
    options: SearchOptions = DEFAULT_SEARCH,
    *,
    paper: bool = False,
) -> list[SearchHits]:
    """Search windows, entities of layer 0 and names: everything that anchors a text; by ``paper`` the ``entities`` nearest
    by meaning alone (eq. 6). Needs a generation."""
    searcher = _Searcher(index, scope, options)
    find = searcher.nearest_entities_of if paper else searcher.everything_of
    wanted = entities if paper else max(options.entity_hits, 2 * entities)
    vectors = await embed_texts(index, texts)
    return [await find(text, vector, wanted) for text, vector in zip(texts, vectors, strict=True)]


@dataclass(frozen=True, slots=True)
class _Searcher:
    """The searches for one query: all take the same scope and options."""

    index: IndexSnapshot
    scope: ChunkScope
    options: SearchOptions

    async def windows_of(self, text: str, vector: Vectors | None) -> SearchHits:
        dense = begin_beside(self._dense_windows_of_parts(text, vector))
        keyword = await self._keyword_windows(text)
        return SearchHits(text, vector, tuple(await dense), tuple(keyword), options=self.options)

    async def everything_of(self, text: str, vector: Vectors | None, wanted: int) -> SearchHits:
        dense_windows = begin_beside(self._dense_windows_of_parts(text, vector))
        dense_entities = begin_beside(self._dense_entities(vector, wanted))
        keyword_windows = await self._keyword_windows(text)
        keyword_entities = await self._keyword_entities(text, wanted)
        names = await self._find_named_entities(text)
        return SearchHits(
            text=text,
            vector=vector,
            dense_windows=tuple(await dense_windows),
            keyword_windows=tuple(keyword_windows),
            dense_entities=tuple(await dense_entities),
            keyword_entities=tuple(keyword_entities),
            names=tuple(names),
            options=self.options,
        )

    async def nearest_entities_of(self, text: str, vector: Vectors | None, wanted: int) -> SearchHits:
        if vector is None:
            hits = await self._keyword_entities(text, wanted)
        else:
            hits = await self._dense_entities(vector, wanted)
        return SearchHits(text, vector, dense_entities=tuple(hits), options=self.options)

    # --- windows ---------------------------------------------------------------------------

    async def _dense_windows_of_parts(self, text: str, vector: Vectors | None) -> list[Hit]:
        """Search for a text and for each part of it."""
        whole = await self._dense_windows(vector)
        parts = await embed_texts(self.index, find_parts(text))
        found = [await self._dense_windows(each) for each in parts]
        return unite_parts(whole, found, self.options.asked_part)[: self.options.window_hits]

    async def _dense_windows(self, vector: Vectors | None) -> list[Hit]:
        index, allowed, most = self.index, self.scope.allowed, self.options.window_hits
        if vector is None or index.spaces is None:
            return []
        space = index.spaces.windows
        if allowed is not None and len(allowed) <= self.options.exact_scope:
            return (await rank_windows_by_similarity(index, space, sorted(allowed), vector))[:most]
        return await self._search_widening(
            lambda limit: index.vectors.search(space, vector, limit), self._select_windows, most
        )

    async def _keyword_windows(self, text: str) -> list[Hit]:
        documents, name, asked = self.index.documents, self.index.collection.name, leave_out_frame(text)
        return await self._search_widening(
            lambda limit: documents.search_windows(name, asked, limit),
            self._select_windows,
            self.options.window_hits,
        )

    def _select_windows(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the windows of chunks in scope."""
        everything = self.scope.everything
        return [hit for hit in hits if everything or self.scope.allows(parse_window_id(hit.id)[0])]

    async def _search_widening(
        self,
        search: Callable[[int], Awaitable[list[Hit]]],
        select: Callable[[list[Hit]], list[Hit]],
        wanted: int,
    ) -> list[Hit]:
        """Return the first ``wanted`` hits that ``select`` keeps; widen the search as long as too few are left."""
        limit = wanted
        while True:
            hits = await search(limit)
            kept = select(hits)
            if len(kept) >= wanted or len(hits) < limit or limit >= self.options.max_hits:
                return kept[:wanted]
            limit = min(limit * self.options.widening, self.options.max_hits)

    # --- entities --------------------------------------------------------------------------

    async def _dense_entities(self, vector: Vectors | None, wanted: int) -> list[Hit]:
        index, allowed = self.index, self.scope.allowed
        if vector is None or index.spaces is None:
            return []
        space = index.spaces.entities
        if allowed is not None and len(allowed) <= self.options.exact_scope:
            mentioned = adjacency_of(index).entities_in(sorted(allowed))
            return (await rank_by_similarity(index, space, mentioned, vector))[:wanted]
        return await self._search_widening(
            lambda limit: index.vectors.search(space, vector, limit), self._entity_filter(), wanted
        )

    async def _keyword_entities(self, text: str, wanted: int) -> list[Hit]:
        generations, number = self.index.generations, self.index.generation.number
        return await self._search_widening(
            lambda limit: generations.search_entities(number, text, limit, layer=0),
            self._entity_filter(),
            wanted,
        )

    def _entity_filter(self) -> Callable[[Sequence[Hit]], list[Hit]]:
        graph = adjacency_of(self.index)
        allowed = self.scope.mask(graph.chunk_ids)

        def select(hits: Sequence[Hit]) -> list[Hit]:
            """Return those of this generation's layer 0 that an allowed chunk mentions."""
            nodes = graph.base_nodes([hit.id for hit in hits], allowed).tolist()
            return [hit for hit, node in zip(hits, nodes, strict=True) if node >= 0]

        return select

    async def _find_named_entities(self, text: str) -> list[Hit]:
        """Find the layer-0 entities of which the text holds the name."""
        spans = name_spans(text, self.options)
        if not spans:
            return []
        generations, number = self.index.generations, self.index.generation.number
        found = await generations.entities_by_name(number, list(dict.fromkeys(span.key for span in spans)))
        bearers = [each for each in found if each.layer == 0 and self.scope.supports(each)]
        return match_names(spans, bearers, self.index.collection.chunks)


async def rank_windows_by_similarity(
    index: IndexSnapshot, space: str, chunk_ids: Sequence[str], vector: Vectors
) -> list[Hit]:
    """Return the windows of those chunks that the space holds, by cosine similarity to ``vector``."""
    scores: dict[str, float] = {}
    wanted, number = list(chunk_ids), 0
    while wanted:
        rows = await index.vectors.fetch(space, [window_id(id_, number) for id_ in wanted])
        scores |= {id_: float(row @ vector) for id_, row in rows.items()}
        wanted, number = [id_ for id_ in wanted if window_id(id_, number) in rows], number + 1
    return best_first(scores)


def unite_parts(whole: Sequence[Hit], parts: Sequence[Sequence[Hit]], weight: float) -> list[Hit]:
    """Return the hits for a text and for parts of it, best first: each with its score for the whole, or a
    better one for a part. The best hit for a part counts ``weight`` of the best one for the whole."""
    if not (parts and whole):
        return list(whole)
    best = {hit.id: hit.score for hit in whole}
    for part in filter(None, parts):
        scale = weight * whole[0].score / part[0].score if part[0].score > 0 else 0.0
        for hit in part:
            best[hit.id] = max(best.get(hit.id, 0.0), scale * hit.score)
    return best_first(best)


def best_chunks(windows: Sequence[Hit]) -> list[Hit]:
    """Return the chunks of windows, given best first, each once with the score of its best window."""
    best: dict[str, Hit] = {}
    for hit in windows:
        if (chunk_id := hit.id.partition("#")[0]) not in best:
            best[chunk_id] = Hit(chunk_id, hit.score)
    return list(best.values())


async def rank_by_similarity(
    index: IndexSnapshot, space: str, ids: Sequence[str], vector: Vectors
) -> list[Hit]:
    """Return those of ``ids`` that the space holds, by cosine similarity to ``vector``."""
    rows = await index.vectors.fetch(space, ids)
    return best_first({id_: float(rows[id_] @ vector) for id_ in ids if id_ in rows})


def adjacency_of(index: IndexSnapshot) -> Adjacency:
    """Return the arrays of a built index."""
    assert index.adjacency is not None, "the adjacency of a built index is loaded before it is asked"
    return index.adjacency


def spaces_of(index: IndexSnapshot) -> VectorSpaces:
    """Return the vector spaces of a built index."""
    assert index.spaces is not None, "a published generation records its vector spaces"
    return index.spaces
