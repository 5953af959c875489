"""Answer a query: one function per mode, from the searches to the context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leanrag_engine.core.model import (
    Chunk,
    Context,
    RankedChunk,
    Relation,
    Subgraph,
)

from .browse import load_ancestors
from .context import lines
from .context.compose import GLOBAL_SHARES, LOCAL_SHARES, SHARES, ContextMaterial, compose_context
from .evidence.beneath import Beneath, find_bearers, sample_clusters
from .evidence.citations import load_citations, select_cited
from .evidence.passages import load_ranked, order_plain, rank_passages
from .evidence.restriction import restrict_subgraph
from .evidence.run import QueryRun
from .evidence.seeds import find_allowed_beneath, select_seeds
from .evidence.summaries import select_summaries
from .filters import EVERYTHING, ChunkScope, select_documents
from .graph import subgraph
from .index import BuildState, IndexSnapshot
from .request import Filters, Mode, Query
from .search import ranking
from .search.hits import search_chunks
from .search.seeds import unite


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a query. ``sources`` are the ranked passages, those that the context cites first."""

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
    """Return the retrieved subgraph of a query and its context (paper eq. 6–10).

    Raises ``InvalidInput`` for an invalid value, or filters that exclude everything; ``NotFound`` and
    ``Ambiguous`` for an entity or document of unknown or ambiguous name; ``NotReady`` if there is no document.
    """
    query = query.check()
    index.check_documents()
    run = QueryRun(index, query, await _open_scope(index, query.filters))
    run.warn_of_build()
    run.warn_of_unused()
    if query.mode == Mode.NAIVE or index.state is BuildState.MISSING:
        return await _answer_naive(run)
    if query.mode == Mode.GLOBAL:
        return await _answer_global(run)
    return await _answer_local(run) if query.mode == Mode.LOCAL else await _answer_lca(run)


async def _open_scope(index: IndexSnapshot, filters: Filters) -> ChunkScope:
    if not filters.active:
        return EVERYTHING
    documents = select_documents(await index.documents.find_all(index.collection.name), filters)
    ids = await index.documents.chunk_ids(index.collection.name, [document.id for document in documents])
    return ChunkScope(frozenset(ids))


# --- modes ---------------------------------------------------------------------------------


async def _answer_naive(run: QueryRun) -> QueryResult:
    """Answer with passages alone, as plain search finds them. Serves every mode before the first build."""
    found = await search_chunks(run.index, run.scope, run.query.texts, run.query.search_options)
    run.warn_of_dense(found)
    if not run.query.include_sources:
        run.warnings.append("include_sources=false was ignored: passages are all that this answer has.")
    hits = unite([order_plain(run, each) for each in found], 2 * run.query.top_k)
    sources = await load_ranked(run, hits)
    return _make_result(run, subgraph.EMPTY, sources, ContextMaterial(passages=_chunks(sources)), {})


async def _answer_lca(run: QueryRun) -> QueryResult:
    """Answer with the seeds, the paths to their lowest common ancestors, relations and passages (eq. 6–10)."""
    found, seeds = await select_seeds(run)
    if not seeds:
        return await _answer_naive(run)
    nodes = await load_ancestors(run.index, [seed.entity for seed in seeds])
    relations = await run.index.generations.relations_among(run.index.generation.number, list(nodes))
    graph = subgraph.assemble_subgraph(seeds, nodes, relations)
    beneath = await find_bearers(run, graph)
    sources = await rank_passages(run, found, seeds)
    graph = await restrict_subgraph(run, graph, beneath)
    citations = await load_citations(run, graph, beneath, sources)
    return _make_result(run, graph, sources, _make_material(run, graph, sources, beneath, citations), SHARES)


async def _answer_local(run: QueryRun) -> QueryResult:
    """Answer with the seeds, their strongest relations, and the entities at the other ends."""
    found, seeds = await select_seeds(run)
    if not seeds:
        return await _answer_naive(run)
    number, ids = run.index.generation.number, [seed.entity.id for seed in seeds]
    neighbours = run.query.evidence_options.neighbours
    relations = await run.index.generations.relations_of(number, ids, neighbours)
    ends = [end for each in relations for end in (each.source_id, each.target_id)]
    near = await run.index.generations.entities(number, list(dict.fromkeys([*ids, *ends])))
    path = tuple(each for each in near if each.layer > 0 or run.scope.supports(each))
    known = {entity.id for entity in path}
    kept = [each for each in relations if {each.source_id, each.target_id} <= known]
    base = tuple(each for each in kept if each.layer == 0)
    above = tuple(each for each in kept if each.layer > 0)
    graph = Subgraph(tuple(seeds), (), None, path, base, above)
    beneath = await sample_clusters(run, path)
    sources = await rank_passages(run, found, seeds)
    graph = await restrict_subgraph(run, graph, beneath)
    citations = await load_citations(run, graph, beneath, sources)
    return _make_result(
        run, graph, sources, _make_material(run, graph, sources, beneath, citations), LOCAL_SHARES
    )


async def _answer_global(run: QueryRun) -> QueryResult:
    """Answer with the best summaries of the highest layer that has several, and the relations between them."""
    beneath = {} if run.scope.everything else await find_allowed_beneath(run)
    summaries = await select_summaries(run, None if run.scope.everything else set(beneath))
    if not summaries:
        return await _answer_naive(run)
    nodes = tuple(seed.entity for seed in summaries)
    if run.scope.everything:
        beneath = await sample_clusters(run, nodes)
    ids = [node.id for node in nodes]
    relations = await run.index.generations.relations_among(run.index.generation.number, ids)
    graph = Subgraph(tuple(summaries), (), None, nodes, (), tuple(relations))
    graph = await restrict_subgraph(run, graph, beneath)
    citations = await load_citations(run, graph, beneath, ())
    sources = select_cited(run, [node.id for node in graph.path], citations)
    return _make_result(
        run, graph, sources, _make_material(run, graph, (), beneath, citations), GLOBAL_SHARES
    )


# --- what is said --------------------------------------------------------------------------


def _make_material(
    run: QueryRun,
    graph: Subgraph,
    sources: Sequence[RankedChunk],
    beneath: Beneath,
    citations: lines.LineCitations,
) -> ContextMaterial:
    query = run.query
    names = {node.id: node.name for node in graph.path}
    relations = _order_by_match(query, [*graph.base_relations, *graph.inter_cluster_relations], names)
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


def _order_by_match(query: Query, relations: Sequence[Relation], names: Mapping[str, str]) -> list[Relation]:
    """Relations that share most with the query first, the strongest between equals."""
    scores: dict[str, float] = {}
    for text in query.texts:
        for id_, score in ranking.score_relations(relations, names, text).items():
            scores[id_] = max(score, scores.get(id_, 0.0))
    return sorted(relations, key=lambda each: -scores.get(each.id, 0.0))


def _chunks(sources: Sequence[RankedChunk]) -> tuple[Chunk, ...]:
    return tuple(ranked.chunk for ranked in sources)


def _make_result(
    run: QueryRun,
    graph: Subgraph,
    sources: Sequence[RankedChunk],
    material: ContextMaterial,
    shares: Mapping[str, float],
) -> QueryResult:
    query, index = run.query, run.index
    context = compose_context(
        material,
        query.texts,
        query.token_budget,
        index.tokenizer,
        shares=shares,
        detailed=query.detailed,
        options=query.context_options,
    )
    if not query.include_relations:
        graph = replace(graph, base_relations=(), inter_cluster_relations=())
    naive = not shares
    kept = sources if query.include_sources or naive else ()
    shown = set(context.cited)
    ordered = sorted(kept, key=lambda ranked: ranked.chunk.citation not in shown)
    return QueryResult(query, context, graph, tuple(ordered), tuple(dict.fromkeys(run.warnings)), index.state)
