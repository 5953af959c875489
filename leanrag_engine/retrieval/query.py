"""From a query to its evidence: where searches, graph, ranking and context come together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leanrag_engine.core.model import (
    Chunk,
    Context,
    Entity,
    Hit,
    LayerCount,
    RankedChunk,
    Relation,
    Seed,
    Subgraph,
)

from . import filters as scope
from .browse import resolve, sample_beneath, with_ancestors
from .context import lines
from .context.compose import GLOBAL_SHARES, LOCAL_SHARES, SHARES, Material, compose
from .filters import EVERYTHING, Scope
from .graph import subgraph
from .index import BuildState, Index, Spaces
from .request import Filters, Mode, Query, Ranking
from .restrict import restricted
from .run import Call
from .search import hits as searching
from .search import ranking
from .search.hits import Found
from .search.seeds import anchor, fuse, unite

__all__ = ["BuildState", "Filters", "Index", "Mode", "Query", "QueryResult", "Ranking", "Spaces", "answer"]

NEIGHBOURS = 40
"""Strongest relations of the seeds that mode ``local`` looks at."""

SUPPORT = 4
"""Chunks looked up for the citations of one line: some may have gone with their document."""

LIVING = 40
"""Chunks of a seed that are looked up after documents went, to see whether any is left."""

STAND_INS = 10
"""Layer-0 entities that stand for a cluster where chunks are ranked by their seeds."""

Beneath = Mapping[str, Sequence[Entity]]
"""For the id of a node, layer-0 entities beneath it, best first."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query brings. ``sources`` are the ranked passages, those that stand in the context first."""

    query: Query
    context: Context
    subgraph: Subgraph
    sources: tuple[RankedChunk, ...]
    warnings: tuple[str, ...]
    build: BuildState

    @property
    def needs_build(self) -> bool:
        """Whether a build would make the next answer better: there is none, or it is stale."""
        return self.build is not BuildState.READY


async def answer(index: Index, query: Query) -> QueryResult:
    """The retrieved subgraph of a query and its context (paper eq. 6–10).

    Raises ``InvalidInput`` for a value that cannot be, or filters that exclude everything; ``NotFound`` and
    ``Ambiguous`` for an entity or document that is not one; ``NotReady`` if there is no document.
    """
    query = query.check()
    index.check_documents()
    call = Call(index, query, await _scope(index, query.filters))
    call.warn_of_build()
    call.warn_of_unused()
    if query.mode == Mode.NAIVE or index.state is BuildState.MISSING:
        return await _naive(call)
    if query.mode == Mode.GLOBAL:
        return await _global(call)
    return await _local(call) if query.mode == Mode.LOCAL else await _lca(call)


async def _scope(index: Index, filters: Filters) -> Scope:
    if not filters.active:
        return EVERYTHING
    documents = scope.matching_documents(await index.graph.documents(index.collection.name), filters)
    ids = await index.graph.chunk_ids(index.collection.name, [document.id for document in documents])
    return Scope(frozenset(ids))


# --- modes ---------------------------------------------------------------------------------


async def _naive(call: Call) -> QueryResult:
    """Passages alone: what plain search finds. Also what answers before any build."""
    found = await searching.find_chunks(call.index, call.scope, call.query.texts)
    call.warn_of_dense(found)
    if not call.query.include_sources:
        call.warnings.append("include_sources=false was ignored: passages are all that this answer has.")
    hits = unite([_plain_order(call, each) for each in found], 2 * call.query.top_k)
    sources = await _loaded(call, hits)
    return _result(call, subgraph.EMPTY, sources, Material(passages=_chunks(sources)), {})


def _plain_order(call: Call, found: Found) -> list[Hit]:
    """Dense and keyword ranks fused; for ``paper``, whose NaiveRAG is dense, the dense rank alone."""
    if call.query.ranking == Ranking.PAPER and found.dense_chunks:
        return list(found.dense_chunks)
    return fuse([[hit.id for hit in found.dense_chunks], [hit.id for hit in found.keyword_chunks]])


async def _lca(call: Call) -> QueryResult:
    found, seeds = await _anchored(call)
    if not seeds:
        return await _naive(call)
    nodes = await with_ancestors(call.index, [seed.entity for seed in seeds])
    relations = await call.index.graph.relations_among(call.index.generation.number, list(nodes))
    graph = subgraph.assemble(seeds, nodes, relations)
    beneath = await _bearers(call, graph)
    sources = await _ranked(call, found, seeds)
    graph = await restricted(call, graph, beneath)
    citations = await _citations(call, graph, beneath, sources)
    return _result(call, graph, sources, _material(call, graph, sources, beneath, citations), SHARES)


async def _bearers(call: Call, graph: Subgraph) -> dict[str, tuple[Entity, ...]]:
    """For each cluster on the paths the seeds beneath it, or where it is itself a seed, some of its entities."""
    found = subgraph.beneath(graph.seeds, graph.path)
    base = {id_: tuple(each for each in seeds if each.layer == 0) for id_, seeds in found.items()}
    for seed in graph.seeds:
        if seed.entity.layer > 0:
            samples = await sample_beneath(call.index, seed.entity, STAND_INS)
            kept = tuple(each for each in samples if call.scope.supports(each))
            base |= {id_: base[id_] or kept for id_, seeds in found.items() if seed.entity in seeds}
    return base


async def _local(call: Call) -> QueryResult:
    """Seeds, their strongest relations, and the entities at the other end."""
    found, seeds = await _anchored(call)
    if not seeds:
        return await _naive(call)
    number, ids = call.index.generation.number, [seed.entity.id for seed in seeds]
    relations = await call.index.graph.relations_of(number, ids, NEIGHBOURS)
    ends = [end for each in relations for end in (each.source_id, each.target_id)]
    near = await call.index.graph.entities(number, list(dict.fromkeys([*ids, *ends])))
    path = tuple(each for each in near if each.layer > 0 or call.scope.supports(each))
    known = {entity.id for entity in path}
    kept = [each for each in relations if {each.source_id, each.target_id} <= known]
    base = tuple(each for each in kept if each.layer == 0)
    above = tuple(each for each in kept if each.layer > 0)
    graph = Subgraph(tuple(seeds), (), None, path, base, above)
    beneath = await _samples(call, path)
    sources = await _ranked(call, found, seeds)
    graph = await restricted(call, graph, beneath)
    citations = await _citations(call, graph, beneath, sources)
    return _result(call, graph, sources, _material(call, graph, sources, beneath, citations), LOCAL_SHARES)


async def _global(call: Call) -> QueryResult:
    """The best summaries of the highest layer that has several, and the relations between them."""
    beneath = {} if call.scope.everything else await _allowed_beneath(call)
    summaries = await _best_summaries(call, None if call.scope.everything else set(beneath))
    if not summaries:
        return await _naive(call)
    nodes = tuple(seed.entity for seed in summaries)
    if call.scope.everything:
        beneath = await _samples(call, nodes)
    ids = [node.id for node in nodes]
    relations = await call.index.graph.relations_among(call.index.generation.number, ids)
    graph = Subgraph(tuple(summaries), (), None, nodes, (), tuple(relations))
    graph = await restricted(call, graph, beneath)
    citations = await _citations(call, graph, beneath, ())
    sources = _cited_sources(call, [node.id for node in graph.path], citations)
    return _result(call, graph, sources, _material(call, graph, (), beneath, citations), GLOBAL_SHARES)


async def _samples(call: Call, nodes: Iterable[Entity]) -> dict[str, tuple[Entity, ...]]:
    """For each cluster some layer-0 entities beneath it that are in scope."""
    found = {}
    for node in nodes:
        if node.layer > 0:
            samples = await sample_beneath(call.index, node, STAND_INS)
            found[node.id] = tuple(each for each in samples if call.scope.supports(each))
    return found


def _cited_sources(call: Call, ids: Sequence[str], citations: lines.Citations) -> list[RankedChunk]:
    """The passages that the lines of these nodes cite."""
    chunks = {chunk.citation: chunk for chunk in call.chunks.values()}
    cited = dict.fromkeys(each for id_ in ids for each in citations.of(id_))
    return [RankedChunk(chunks[citation], 0.0) for citation in cited][: call.query.top_k]


# --- anchoring -----------------------------------------------------------------------------


async def _anchored(call: Call) -> tuple[list[Found], list[Seed]]:
    """What the searches found, and the seeds: those that the query names, then the best of each text in turns (eq. 6)."""
    query, paper = call.query, call.query.ranking == Ranking.PAPER
    named = await _named(call)
    find = searching.find_dense_entities if paper else searching.find_all
    found = await find(call.index, call.scope, query.texts, query.seeds)
    call.warn_of_dense(found)
    if not query.weights.keywords:
        found = [each.without_keywords() for each in found]
    hits = unite([each.anchors(2 * query.seeds, paper=paper) for each in found], 2 * query.seeds)
    entities = await call.index.graph.entities(call.index.generation.number, [hit.id for hit in hits])
    scores = {hit.id: hit.score for hit in hits}
    seeds = {entity.id: Seed(entity, 1.0) for entity in named}
    for entity in entities:
        seeds.setdefault(entity.id, Seed(entity, scores[entity.id]))
    kept = (await _alive(call, list(seeds.values())))[: max(query.seeds, len(named))]
    if not kept:
        call.warnings.append("No entity of the graph matches the query: passages alone answer.")
    return found, sorted(kept, key=lambda seed: -seed.score)


async def _named(call: Call) -> list[Entity]:
    """The entities that the query names outright; one that the filters exclude is left out with a warning."""
    found = {each.id: each for each in [await resolve(call.index, name) for name in call.query.entities]}
    excluded = [each.name for each in found.values() if each.layer == 0 and not call.scope.supports(each)]
    if excluded:
        call.warnings.append(f"The filters exclude every passage on {', '.join(excluded)}.")
    return [each for each in found.values() if each.layer > 0 or call.scope.supports(each)]


async def _alive(call: Call, seeds: list[Seed]) -> list[Seed]:
    """Without the seeds all of whose passages went since the build."""
    if call.index.state is BuildState.READY:
        return seeds
    await call.load(id_ for seed in seeds for id_ in seed.entity.chunk_ids[:LIVING])
    return [
        seed
        for seed in seeds
        if seed.entity.layer > 0 or any(id_ in call.chunks for id_ in seed.entity.chunk_ids[:LIVING])
    ]


async def _allowed_beneath(call: Call) -> dict[str, tuple[Entity, ...]]:
    """For each ancestor of the seeds that the filters allow, those seeds: what may be said of it."""
    _, seeds = await _anchored(call)
    nodes = await with_ancestors(call.index, [seed.entity for seed in seeds])
    return subgraph.beneath(seeds, nodes.values())


async def _best_summaries(call: Call, among: set[str] | None) -> list[Seed]:
    """Summaries of the overview layer, best by meaning and keyword first, then the largest."""
    generation = call.index.generation
    layer = _overview_layer(generation.layers, call.query.seeds)
    # Such a layer is small by construction: at most a cluster's size times the few nodes above it.
    nodes = {each.id: each for each in await call.index.graph.layer(generation.number, layer)}
    ids = [id_ for id_ in nodes if among is None or id_ in among]
    vectors = await searching.embedded(call.index, call.query.texts)
    ranked = []
    for text, vector in zip(call.query.texts, vectors, strict=True):
        space = searching.spaces_of(call.index).aggregates
        dense = [] if vector is None else await searching.nearest(call.index, space, ids, vector)
        keyword = await call.index.graph.search_entities(generation.number, text, len(nodes), layer)
        by_meaning = [hit.id for hit in dense if hit.score > 0]
        ranked.append(anchor(by_meaning, [hit.id for hit in keyword if hit.id in ids], (), len(ids)))
    scores = {hit.id: hit.score for hit in unite(ranked, len(ids))}
    largest = sorted(ids, key=lambda id_: -nodes[id_].mentions)
    order = list(dict.fromkeys([*scores, *largest]))[: call.query.seeds]
    return [Seed(nodes[id_], scores.get(id_, 0.0)) for id_ in order]


def _overview_layer(layers: Sequence[LayerCount], wanted: int) -> int:
    """The highest layer with at least half as many summaries as are wanted; layer 1 if there is none."""
    return max((each.layer for each in layers if each.layer and 2 * each.entities >= wanted), default=1)


# --- ranking -------------------------------------------------------------------------------


async def _ranked(call: Call, found: Sequence[Found], seeds: Sequence[Seed]) -> list[RankedChunk]:
    """The best passages, in the order of the query's ranking."""
    grounded = await _grounded(call, seeds)
    if call.query.ranking == Ranking.PAPER:
        return await _by_seed_count(call, found, [seed.entity for seed in grounded])
    searched = [_searched(call, each, grounded) for each in found]
    if call.query.ranking == Ranking.FUSED:
        by_text = [ranking.fused(each, grounded) for each in searched]
    else:
        graph = searching.adjacency_of(call.index)
        allowed = call.scope.mask(graph.chunk_ids)
        by_text = [ranking.spread(graph, each, call.query.weights, allowed) for each in searched]
    return await _loaded(call, unite(by_text, 2 * call.query.top_k))


async def _grounded(call: Call, seeds: Sequence[Seed]) -> list[Seed]:
    """Seeds of layer 0 as they are in scope; a cluster is stood for by entities beneath it."""
    below = await _samples(call, [seed.entity for seed in seeds])
    plain = [
        each for seed in seeds for each in (seed.entity, *below.get(seed.entity.id, ())) if each.layer == 0
    ]
    scores: dict[str, float] = {}
    for seed in seeds:
        for each in (seed.entity, *below.get(seed.entity.id, ())):
            scores[each.id] = max(seed.score, scores.get(each.id, 0.0))
    unique = {each.id: replace(each, chunk_ids=call.scope.kept(each.chunk_ids)) for each in plain}
    return [Seed(each, scores[id_]) for id_, each in unique.items()]


def _searched(call: Call, found: Found, seeds: Sequence[Seed]) -> ranking.Searched:
    """One text with those of the seeds that are its own; the seeds that the query names are every text's."""
    own = {hit.id: hit.score for hit in found.anchors(2 * call.query.seeds)}
    hits = [
        Hit(seed.entity.id, own.get(seed.entity.id, seed.score))
        for seed in seeds
        if seed.entity.id in own or seed.score >= 1.0
    ]
    return ranking.Searched(
        hits, found.dense_chunks, found.keyword_chunks, found.dense_facts, found.keyword_facts
    )


async def _by_seed_count(call: Call, found: Sequence[Found], seeds: Sequence[Entity]) -> list[RankedChunk]:
    """The paper's rule, exact: every chunk that ties for the last place is compared."""
    counts = ranking.seed_counts(seeds)
    wanted = call.query.top_k
    while True:
        ids = ranking.contenders(counts, wanted)
        await call.load(ids)
        chunks = [call.chunks[id_] for id_ in ids if id_ in call.chunks]
        if len(chunks) >= call.query.top_k or len(ids) == len(counts):
            break
        wanted *= 2  # some went with their documents
    similarity: dict[str, float] = {}
    space = searching.spaces_of(call.index).chunks
    for vector in (each.vector for each in found if each.vector is not None):
        for hit in await searching.nearest_chunks(call.index, space, [chunk.id for chunk in chunks], vector):
            similarity[hit.id] = max(hit.score, similarity.get(hit.id, hit.score))
    return await _loaded(call, ranking.by_seed_count(counts, similarity, chunks, call.query.top_k))


async def _loaded(call: Call, hits: Sequence[Hit]) -> list[RankedChunk]:
    """The first ``top_k`` of ``hits`` that still exist."""
    await call.load(hit.id for hit in hits)
    found = [RankedChunk(call.chunks[hit.id], hit.score) for hit in hits if hit.id in call.chunks]
    return found[: call.query.top_k]


# --- what is said --------------------------------------------------------------------------


async def _citations(
    call: Call, graph: Subgraph, beneath: Beneath, sources: Sequence[RankedChunk]
) -> lines.Citations:
    """For each node and relation the passages that its words were taken from; where that is not known those that
    support it: ranked ones first, then in reading order."""
    place = {ranked.chunk.id: number for number, ranked in enumerate(sources)}
    stated: list[Entity | Relation] = [*graph.path, *graph.base_relations]
    support = {each.id: each.chunk_ids for each in stated if each.layer == 0}
    support |= {node.id: _in_turns(beneath.get(node.id, ())) for node in graph.path if node.layer > 0}
    for relation in graph.inter_cluster_relations:
        ends = (beneath.get(relation.source_id, ()), beneath.get(relation.target_id, ()))
        support[relation.id] = _in_turns([seeds[0] for seeds in ends if seeds])
    chosen = {
        id_: sorted(call.scope.kept(ids), key=lambda each: place.get(each, len(place)))[:SUPPORT]
        for id_, ids in support.items()
    }
    items = [*stated, *graph.inter_cluster_relations]
    evidence = {each.id: each.evidence[:SUPPORT] for each in items if each.evidence}
    origins = (part.chunk_id for parts in evidence.values() for part in parts)
    await call.load([*(chunk_id for ids in chosen.values() for chunk_id in ids), *origins])
    citation = {id_: chunk.citation for id_, chunk in call.chunks.items()}
    return lines.Citations(
        {id_: tuple(citation[each] for each in ids if each in citation) for id_, ids in chosen.items()},
        {
            id_: tuple(
                (part.start, part.end, citation[part.chunk_id]) for part in parts if part.chunk_id in citation
            )
            for id_, parts in evidence.items()
        },
    )


def _in_turns(entities: Sequence[Entity]) -> tuple[str, ...]:
    """The first chunk of each of the entities, then the second of each, …"""
    first = [entity.chunk_ids[:SUPPORT] for entity in entities[:SUPPORT]]
    return tuple(dict.fromkeys(ids[place] for place in range(SUPPORT) for ids in first if place < len(ids)))


def _material(
    call: Call, graph: Subgraph, sources: Sequence[RankedChunk], beneath: Beneath, citations: lines.Citations
) -> Material:
    query = call.query
    names = {node.id: node.name for node in graph.path}
    relations = _by_match(query, [*graph.base_relations, *graph.inter_cluster_relations], names)
    seeds = [seed.entity for seed in graph.seeds if seed.entity.layer == 0]
    known = {seed.id for seed in seeds}
    # Only on LCA paths do the entities beneath a cluster say how the query's seeds belong together.
    joined = beneath if graph.groups else {}
    others = [node for node in graph.path if node.layer == 0 and node.id not in known]
    return Material(
        passages=_chunks(sources) if query.include_sources else (),
        relations=lines.relation_lines(relations, names, citations) if query.include_relations else (),
        summaries=lines.summary_lines(
            lines.summaries_of(graph, joined), joined, citations, detailed=query.detailed
        )
        if query.include_summaries
        else (),
        entities=lines.entity_lines([*seeds, *others], citations),
    )


def _by_match(query: Query, relations: Sequence[Relation], names: Mapping[str, str]) -> list[Relation]:
    """Relations that share most with the query first, the strongest between equals."""
    scores: dict[str, float] = {}
    for text in query.texts:
        for id_, score in ranking.matches(relations, names, text).items():
            scores[id_] = max(score, scores.get(id_, 0.0))
    return sorted(relations, key=lambda each: -scores.get(each.id, 0.0))


def _chunks(sources: Sequence[RankedChunk]) -> tuple[Chunk, ...]:
    return tuple(ranked.chunk for ranked in sources)


def _result(
    call: Call,
    graph: Subgraph,
    sources: Sequence[RankedChunk],
    material: Material,
    shares: Mapping[str, float],
) -> QueryResult:
    query, index = call.query, call.index
    context = compose(
        material, query.texts, query.token_budget, index.tokenizer, shares=shares, detailed=query.detailed
    )
    if not query.include_relations:
        graph = replace(graph, base_relations=(), inter_cluster_relations=())
    naive = not shares
    kept = sources if query.include_sources or naive else ()
    shown = set(context.cited)
    ordered = sorted(kept, key=lambda ranked: ranked.chunk.citation not in shown)
    return QueryResult(
        query, context, graph, tuple(ordered), tuple(dict.fromkeys(call.warnings)), index.state
    )
