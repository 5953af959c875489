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

from .browse import load_ancestors, resolve, sample_beneath
from .context import lines
from .context.compose import GLOBAL_SHARES, LOCAL_SHARES, SHARES, ContextMaterial, compose_context
from .filters import EVERYTHING, ChunkScope, select_documents
from .graph import subgraph
from .index import BuildState, IndexSnapshot
from .request import Filters, Mode, Query, Ranking
from .restrict import restricted
from .run import QueryRun
from .search import ranking
from .search.hits import (
    SearchHits,
    adjacency_of,
    embed_texts,
    rank_by_similarity,
    rank_chunks_by_similarity,
    search_all,
    search_chunks,
    search_dense_entities,
    spaces_of,
)
from .search.seeds import fuse, rank_entities, unite

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


async def answer_query(index: IndexSnapshot, query: Query) -> QueryResult:
    """The retrieved subgraph of a query and its context (paper eq. 6–10).

    Raises ``InvalidInput`` for a value that cannot be, or filters that exclude everything; ``NotFound`` and
    ``Ambiguous`` for an entity or document that is not one; ``NotReady`` if there is no document.
    """
    query = query.check()
    index.check_documents()
    run = QueryRun(index, query, await _scope(index, query.filters))
    run.warn_of_build()
    run.warn_of_unused()
    if query.mode == Mode.NAIVE or index.state is BuildState.MISSING:
        return await _naive(run)
    if query.mode == Mode.GLOBAL:
        return await _global(run)
    return await _local(run) if query.mode == Mode.LOCAL else await _lca(run)


async def _scope(index: IndexSnapshot, filters: Filters) -> ChunkScope:
    if not filters.active:
        return EVERYTHING
    documents = select_documents(await index.documents.find_all(index.collection.name), filters)
    ids = await index.documents.chunk_ids(index.collection.name, [document.id for document in documents])
    return ChunkScope(frozenset(ids))


# --- modes ---------------------------------------------------------------------------------


async def _naive(run: QueryRun) -> QueryResult:
    """Passages alone: what plain search finds. Also what answers before any build."""
    found = await search_chunks(run.index, run.scope, run.query.texts)
    run.warn_of_dense(found)
    if not run.query.include_sources:
        run.warnings.append("include_sources=false was ignored: passages are all that this answer has.")
    hits = unite([_plain_order(run, each) for each in found], 2 * run.query.top_k)
    sources = await _loaded(run, hits)
    return _result(run, subgraph.EMPTY, sources, ContextMaterial(passages=_chunks(sources)), {})


def _plain_order(run: QueryRun, found: SearchHits) -> list[Hit]:
    """Dense and keyword ranks fused; for ``paper``, whose NaiveRAG is dense, the dense rank alone."""
    if run.query.ranking == Ranking.PAPER and found.dense_chunks:
        return list(found.dense_chunks)
    return fuse([[hit.id for hit in found.dense_chunks], [hit.id for hit in found.keyword_chunks]])


async def _lca(run: QueryRun) -> QueryResult:
    found, seeds = await _anchored(run)
    if not seeds:
        return await _naive(run)
    nodes = await load_ancestors(run.index, [seed.entity for seed in seeds])
    relations = await run.index.generations.relations_among(run.index.generation.number, list(nodes))
    graph = subgraph.assemble_subgraph(seeds, nodes, relations)
    beneath = await _bearers(run, graph)
    sources = await _ranked(run, found, seeds)
    graph = await restricted(run, graph, beneath)
    citations = await _citations(run, graph, beneath, sources)
    return _result(run, graph, sources, _material(run, graph, sources, beneath, citations), SHARES)


async def _bearers(run: QueryRun, graph: Subgraph) -> dict[str, tuple[Entity, ...]]:
    """For each cluster on the paths the seeds beneath it, or where it is itself a seed, some of its entities."""
    found = subgraph.seeds_beneath(graph.seeds, graph.path)
    base = {id_: tuple(each for each in seeds if each.layer == 0) for id_, seeds in found.items()}
    for seed in graph.seeds:
        if seed.entity.layer > 0:
            samples = await sample_beneath(run.index, seed.entity, STAND_INS)
            kept = tuple(each for each in samples if run.scope.supports(each))
            base |= {id_: base[id_] or kept for id_, seeds in found.items() if seed.entity in seeds}
    return base


async def _local(run: QueryRun) -> QueryResult:
    """Seeds, their strongest relations, and the entities at the other end."""
    found, seeds = await _anchored(run)
    if not seeds:
        return await _naive(run)
    number, ids = run.index.generation.number, [seed.entity.id for seed in seeds]
    relations = await run.index.generations.relations_of(number, ids, NEIGHBOURS)
    ends = [end for each in relations for end in (each.source_id, each.target_id)]
    near = await run.index.generations.entities(number, list(dict.fromkeys([*ids, *ends])))
    path = tuple(each for each in near if each.layer > 0 or run.scope.supports(each))
    known = {entity.id for entity in path}
    kept = [each for each in relations if {each.source_id, each.target_id} <= known]
    base = tuple(each for each in kept if each.layer == 0)
    above = tuple(each for each in kept if each.layer > 0)
    graph = Subgraph(tuple(seeds), (), None, path, base, above)
    beneath = await _samples(run, path)
    sources = await _ranked(run, found, seeds)
    graph = await restricted(run, graph, beneath)
    citations = await _citations(run, graph, beneath, sources)
    return _result(run, graph, sources, _material(run, graph, sources, beneath, citations), LOCAL_SHARES)


async def _global(run: QueryRun) -> QueryResult:
    """The best summaries of the highest layer that has several, and the relations between them."""
    beneath = {} if run.scope.everything else await _allowed_beneath(run)
    summaries = await _best_summaries(run, None if run.scope.everything else set(beneath))
    if not summaries:
        return await _naive(run)
    nodes = tuple(seed.entity for seed in summaries)
    if run.scope.everything:
        beneath = await _samples(run, nodes)
    ids = [node.id for node in nodes]
    relations = await run.index.generations.relations_among(run.index.generation.number, ids)
    graph = Subgraph(tuple(summaries), (), None, nodes, (), tuple(relations))
    graph = await restricted(run, graph, beneath)
    citations = await _citations(run, graph, beneath, ())
    sources = _cited_sources(run, [node.id for node in graph.path], citations)
    return _result(run, graph, sources, _material(run, graph, (), beneath, citations), GLOBAL_SHARES)


async def _samples(run: QueryRun, nodes: Iterable[Entity]) -> dict[str, tuple[Entity, ...]]:
    """For each cluster some layer-0 entities beneath it that are in scope."""
    found = {}
    for node in nodes:
        if node.layer > 0:
            samples = await sample_beneath(run.index, node, STAND_INS)
            found[node.id] = tuple(each for each in samples if run.scope.supports(each))
    return found


def _cited_sources(run: QueryRun, ids: Sequence[str], citations: lines.LineCitations) -> list[RankedChunk]:
    """The passages that the lines of these nodes cite."""
    chunks = {chunk.citation: chunk for chunk in run.chunks.values()}
    cited = dict.fromkeys(each for id_ in ids for each in citations.of(id_))
    return [RankedChunk(chunks[citation], 0.0) for citation in cited][: run.query.top_k]


# --- anchoring -----------------------------------------------------------------------------


async def _anchored(run: QueryRun) -> tuple[list[SearchHits], list[Seed]]:
    """What the searches found, and the seeds: those that the query names, then the best of each text in turns (eq. 6)."""
    query, paper = run.query, run.query.ranking == Ranking.PAPER
    named = await _named(run)
    find = search_dense_entities if paper else search_all
    found = await find(run.index, run.scope, query.texts, query.seeds)
    run.warn_of_dense(found)
    if not query.ranking_options.keywords:
        found = [each.without_keywords() for each in found]
    hits = unite([each.rank_entities(2 * query.seeds, paper=paper) for each in found], 2 * query.seeds)
    entities = await run.index.generations.entities(run.index.generation.number, [hit.id for hit in hits])
    scores = {hit.id: hit.score for hit in hits}
    seeds = {entity.id: Seed(entity, 1.0) for entity in named}
    for entity in entities:
        seeds.setdefault(entity.id, Seed(entity, scores[entity.id]))
    kept = (await _alive(run, list(seeds.values())))[: max(query.seeds, len(named))]
    if not kept:
        run.warnings.append("No entity of the graph matches the query: passages alone answer.")
    return found, sorted(kept, key=lambda seed: -seed.score)


async def _named(run: QueryRun) -> list[Entity]:
    """The entities that the query names outright; one that the filters exclude is left out with a warning."""
    found = {each.id: each for each in [await resolve(run.index, name) for name in run.query.entities]}
    excluded = [each.name for each in found.values() if each.layer == 0 and not run.scope.supports(each)]
    if excluded:
        run.warnings.append(f"The filters exclude every passage on {', '.join(excluded)}.")
    return [each for each in found.values() if each.layer > 0 or run.scope.supports(each)]


async def _alive(run: QueryRun, seeds: list[Seed]) -> list[Seed]:
    """Without the seeds all of whose passages went since the build."""
    if run.index.state is BuildState.READY:
        return seeds
    await run.load(id_ for seed in seeds for id_ in seed.entity.chunk_ids[:LIVING])
    return [
        seed
        for seed in seeds
        if seed.entity.layer > 0 or any(id_ in run.chunks for id_ in seed.entity.chunk_ids[:LIVING])
    ]


async def _allowed_beneath(run: QueryRun) -> dict[str, tuple[Entity, ...]]:
    """For each ancestor of the seeds that the filters allow, those seeds: what may be said of it."""
    _, seeds = await _anchored(run)
    nodes = await load_ancestors(run.index, [seed.entity for seed in seeds])
    return subgraph.seeds_beneath(seeds, nodes.values())


async def _best_summaries(run: QueryRun, among: set[str] | None) -> list[Seed]:
    """Summaries of the overview layer, best by meaning and keyword first, then the largest."""
    generation = run.index.generation
    layer = _overview_layer(generation.layers, run.query.seeds)
    # Such a layer is small by construction: at most a cluster's size times the few nodes above it.
    nodes = {each.id: each for each in await run.index.generations.layer(generation.number, layer)}
    ids = [id_ for id_ in nodes if among is None or id_ in among]
    vectors = await embed_texts(run.index, run.query.texts)
    ranked = []
    for text, vector in zip(run.query.texts, vectors, strict=True):
        space = spaces_of(run.index).aggregates
        dense = [] if vector is None else await rank_by_similarity(run.index, space, ids, vector)
        keyword = await run.index.generations.search_entities(generation.number, text, len(nodes), layer)
        by_meaning = [hit.id for hit in dense if hit.score > 0]
        ranked.append(rank_entities(by_meaning, [hit.id for hit in keyword if hit.id in ids], (), len(ids)))
    scores = {hit.id: hit.score for hit in unite(ranked, len(ids))}
    largest = sorted(ids, key=lambda id_: -nodes[id_].mentions)
    order = list(dict.fromkeys([*scores, *largest]))[: run.query.seeds]
    return [Seed(nodes[id_], scores.get(id_, 0.0)) for id_ in order]


def _overview_layer(layers: Sequence[LayerCount], wanted: int) -> int:
    """The highest layer with at least half as many summaries as are wanted; layer 1 if there is none."""
    return max((each.layer for each in layers if each.layer and 2 * each.entities >= wanted), default=1)


# --- ranking -------------------------------------------------------------------------------


async def _ranked(run: QueryRun, found: Sequence[SearchHits], seeds: Sequence[Seed]) -> list[RankedChunk]:
    """The best passages, in the order of the query's ranking."""
    grounded = await _grounded(run, seeds)
    if run.query.ranking == Ranking.PAPER:
        return await _by_seed_count(run, found, [seed.entity for seed in grounded])
    searched = [_searched(run, each, grounded) for each in found]
    if run.query.ranking == Ranking.FUSED:
        by_text = [ranking.rank_by_fusion(each, grounded) for each in searched]
    else:
        graph = adjacency_of(run.index)
        allowed = run.scope.mask(graph.chunk_ids)
        by_text = [
            ranking.rank_by_spreading(graph, each, run.query.ranking_options, allowed) for each in searched
        ]
    return await _loaded(run, unite(by_text, 2 * run.query.top_k))


async def _grounded(run: QueryRun, seeds: Sequence[Seed]) -> list[Seed]:
    """Seeds of layer 0 as they are in scope; a cluster is stood for by entities beneath it."""
    below = await _samples(run, [seed.entity for seed in seeds])
    plain = [
        each for seed in seeds for each in (seed.entity, *below.get(seed.entity.id, ())) if each.layer == 0
    ]
    scores: dict[str, float] = {}
    for seed in seeds:
        for each in (seed.entity, *below.get(seed.entity.id, ())):
            scores[each.id] = max(seed.score, scores.get(each.id, 0.0))
    unique = {each.id: replace(each, chunk_ids=run.scope.select(each.chunk_ids)) for each in plain}
    return [Seed(each, scores[id_]) for id_, each in unique.items()]


def _searched(run: QueryRun, found: SearchHits, seeds: Sequence[Seed]) -> ranking.RankingInput:
    """One text with those of the seeds that are its own; the seeds that the query names are every text's."""
    own = {hit.id: hit.score for hit in found.rank_entities(2 * run.query.seeds)}
    hits = [
        Hit(seed.entity.id, own.get(seed.entity.id, seed.score))
        for seed in seeds
        if seed.entity.id in own or seed.score >= 1.0
    ]
    return ranking.RankingInput(
        hits, found.dense_chunks, found.keyword_chunks, found.dense_facts, found.keyword_facts
    )


async def _by_seed_count(
    run: QueryRun, found: Sequence[SearchHits], seeds: Sequence[Entity]
) -> list[RankedChunk]:
    """The paper's rule, exact: every chunk that ties for the last place is compared."""
    counts = ranking.seed_counts(seeds)
    wanted = run.query.top_k
    while True:
        ids = ranking.contenders(counts, wanted)
        await run.load(ids)
        chunks = [run.chunks[id_] for id_ in ids if id_ in run.chunks]
        if len(chunks) >= run.query.top_k or len(ids) == len(counts):
            break
        wanted *= 2  # some went with their documents
    similarity: dict[str, float] = {}
    space = spaces_of(run.index).chunks
    for vector in (each.vector for each in found if each.vector is not None):
        for hit in await rank_chunks_by_similarity(run.index, space, [chunk.id for chunk in chunks], vector):
            similarity[hit.id] = max(hit.score, similarity.get(hit.id, hit.score))
    return await _loaded(run, ranking.rank_by_seed_count(counts, similarity, chunks, run.query.top_k))


async def _loaded(run: QueryRun, hits: Sequence[Hit]) -> list[RankedChunk]:
    """The first ``top_k`` of ``hits`` that still exist."""
    await run.load(hit.id for hit in hits)
    found = [RankedChunk(run.chunks[hit.id], hit.score) for hit in hits if hit.id in run.chunks]
    return found[: run.query.top_k]


# --- what is said --------------------------------------------------------------------------


async def _citations(
    run: QueryRun, graph: Subgraph, beneath: Beneath, sources: Sequence[RankedChunk]
) -> lines.LineCitations:
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
        id_: sorted(run.scope.select(ids), key=lambda each: place.get(each, len(place)))[:SUPPORT]
        for id_, ids in support.items()
    }
    items = [*stated, *graph.inter_cluster_relations]
    evidence = {each.id: each.evidence[:SUPPORT] for each in items if each.evidence}
    origins = (part.chunk_id for parts in evidence.values() for part in parts)
    await run.load([*(chunk_id for ids in chosen.values() for chunk_id in ids), *origins])
    citation = {id_: chunk.citation for id_, chunk in run.chunks.items()}
    return lines.LineCitations(
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
    run: QueryRun,
    graph: Subgraph,
    sources: Sequence[RankedChunk],
    beneath: Beneath,
    citations: lines.LineCitations,
) -> ContextMaterial:
    query = run.query
    names = {node.id: node.name for node in graph.path}
    relations = _by_match(query, [*graph.base_relations, *graph.inter_cluster_relations], names)
    seeds = [seed.entity for seed in graph.seeds if seed.entity.layer == 0]
    known = {seed.id for seed in seeds}
    # Only on LCA paths do the entities beneath a cluster say how the query's seeds belong together.
    joined = beneath if graph.groups else {}
    others = [node for node in graph.path if node.layer == 0 and node.id not in known]
    return ContextMaterial(
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
        for id_, score in ranking.score_relations(relations, names, text).items():
            scores[id_] = max(score, scores.get(id_, 0.0))
    return sorted(relations, key=lambda each: -scores.get(each.id, 0.0))


def _chunks(sources: Sequence[RankedChunk]) -> tuple[Chunk, ...]:
    return tuple(ranked.chunk for ranked in sources)


def _result(
    run: QueryRun,
    graph: Subgraph,
    sources: Sequence[RankedChunk],
    material: ContextMaterial,
    shares: Mapping[str, float],
) -> QueryResult:
    query, index = run.query, run.index
    context = compose_context(
        material, query.texts, query.token_budget, index.tokenizer, shares=shares, detailed=query.detailed
    )
    if not query.include_relations:
        graph = replace(graph, base_relations=(), inter_cluster_relations=())
    naive = not shares
    kept = sources if query.include_sources or naive else ()
    shown = set(context.cited)
    ordered = sorted(kept, key=lambda ranked: ranked.chunk.citation not in shown)
    return QueryResult(query, context, graph, tuple(ordered), tuple(dict.fromkeys(run.warnings)), index.state)
