"""Answer a query: one function per mode, from the searches to the context."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leanrag_engine.core.model import Chunk, Context, Hit, RankedChunk, Seed, Subgraph
from leanrag_engine.core.runtime.threads import is_over, run_chain
from leanrag_engine.core.text.language.words import find_whole_words
from leanrag_engine.retrieval.browse.entities import mark_namesakes

from .browse import load_ancestors
from .context.compose import ContextMaterial, compose_context, find_shown, keep_worth
from .context.explanation import explain_subgraph
from .context.rendering import Statement
from .context.statements import is_written
from .evidence.citations import Beneath, find_bearers, load_citations, sample_clusters
from .evidence.outline import find_named_document, keep_to_document, outline_document, outline_documents
from .evidence.passages import order_plain, put_anchors_first, rank_passages, rank_sources
from .evidence.pool import (
    leave_out_seen,
    list_statements,
    rank_chunk_windows,
    relations_between_named,
    state_relations,
    value_statements,
    value_windows,
    weigh_graph,
)
from .evidence.restriction import restrict_subgraph
from .evidence.run import QueryRun
from .evidence.seeds import find_allowed_beneath, select_seeds
from .evidence.summaries import select_summaries
from .evidence.turns import show_turns
from .evidence.written import asks_about_everything, has_sentences, wants_overview, widen_by_sentences
from .filters import open_scope
from .graph import subgraph
from .index import BuildState, IndexSnapshot
from .intent import asks_for_list, asks_for_order, asks_for_overview, asks_for_relation, find_newest_of
from .request import DEFAULT_TOP_K, Filters, Mode, Query, Ranking
from .search.dating import asks_for_newest, find_named_time
from .search.hits import SearchHits, embed_with_parts, search_windows
from .search.releases import asks_for_newest_release
from .search.relevance import RankedWindow, TextPlace
from .search.rows import choose_rows
from .search.seeds import sure_score

LEADING = 6  # Sentences on how two things are related that come first where that is asked


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a query. ``sources`` are the ranked passages, best first."""

    query: Query
    context: Context
    subgraph: Subgraph
    sources: tuple[RankedChunk, ...]
    warnings: tuple[str, ...]
    build: BuildState


async def answer_query(index: IndexSnapshot, query: Query, notes: Sequence[str] = ()) -> QueryResult:
    """Return the retrieved subgraph of a query and its context (paper eq. 6–10), which begins with ``notes``.
    Raises ``InvalidInput`` for an invalid value, or filters that exclude everything; ``NotFound`` and
    ``Ambiguous`` for an entity or document of unknown or ambiguous name; ``NotReady`` if there is no document."""
    query = query.check()
    index.check_documents()
    query = await _name_newest(index, query)
    # A service embeds on the event loop; what follows reads the stores alone.
    return await run_chain(_answer(await embed_with_parts(index, query.texts), query, notes))


async def _name_newest(index: IndexSnapshot, query: Query) -> Query:
    """Return the query; behind *the last meeting* stands the date of the newest of the documents that are called so."""
    asked = find_newest_of(query.text)
    if not asked or query.filters != Filters() or asks_for_newest_release(query.text):
        return query
    words = find_whole_words(asked["what"])
    for called in (words, words[1:], words[:1]):
        forms = [called, ["minutes" if each.startswith("meeting") else each for each in called]]
        for form in forms if called else ():
            if day := await index.documents.find_newest(index.collection.name, form):
                at = asked.end()
                return replace(query, text=f"{query.text[:at]} ({day}){query.text[at:]}")
    return query


async def _answer(index: IndexSnapshot, query: Query, notes: Sequence[str]) -> QueryResult:
    scope, undated = await open_scope(index.documents, index.collection.name, query.filters)
    run = QueryRun(index, query, scope, warnings=list(notes))
    run.warn_of_build()
    run.warn_of_undated(undated)
    run.warn_of_unused()
    if query.mode in (Mode.LCA, Mode.GLOBAL) and asks_about_everything(run) and not has_sentences(run):
        run.warnings.append(
            "No summaries were written here: an outline of the documents follows. Ask about one of its subjects, or call get_outline."
        )
        return _make_result(run, subgraph.EMPTY, (), (), ((),), (await outline_documents(run),))
    if query.mode == Mode.NAIVE or index.state is BuildState.MISSING:
        return await _answer_naive(run)
    if query.mode == Mode.LCA and wants_overview(run):
        # There is no subject whose paths could lead anywhere.
        run = replace(run, query=replace(query, mode=Mode.GLOBAL))
    return await _answer_global(run) if run.query.mode == Mode.GLOBAL else await _answer_seeds(run)


async def _answer_naive(run: QueryRun, found: Sequence[SearchHits] = ()) -> QueryResult:
    """Answer with passages alone, those ``found`` or as plain search finds them. Serves every mode before the first build."""
    found = found or await search_windows(run.index, run.scope, run.query.texts, run.query.search_options)
    run.warn_of_dense(found)
    if not run.query.include_sources:
        run.warnings.append("include_sources=false was ignored: passages are all that this answer has.")
    if run.query.ranking == Ranking.PAPER:
        windows = [await rank_chunk_windows(run, order_plain(run, each)[: run.query.top_k]) for each in found]
    else:
        windows = [await value_windows(run, each, ()) for each in found]
    return _make_result(run, subgraph.EMPTY, rank_sources(run, windows), found, windows)


async def _answer_seeds(run: QueryRun) -> QueryResult:
    """Answer with the seeds, what joins or surrounds them, and passages."""
    found, all_seeds = await select_seeds(run)
    if late := run.query.ranking != Ranking.PAPER and is_over(0.5):
        run.warnings.append("Late (see max_call_seconds): the graph was left out. Ask for less at once.")
    if late or not all_seeds:
        return await _answer_naive(run, found if late else ())
    seeds = all_seeds[: max(run.query.seeds, len(run.query.entities))]
    draw = _draw_neighbours if run.query.mode == Mode.LOCAL else _draw_paths
    graph, beneath = await draw(run, seeds)
    return await _answer_from(
        run, found, graph, beneath, await rank_passages(run, found, all_seeds), all_seeds
    )


async def _draw_paths(run: QueryRun, seeds: Sequence[Seed]) -> tuple[Subgraph, Beneath]:
    """Return the paths of the seeds to their lowest common ancestors, with the relations among them (eq. 6–10)."""
    nodes = await load_ancestors(run.index, [seed.entity for seed in seeds])
    relations = await run.index.generations.relations_among(run.index.generation.number, list(nodes))
    graph = subgraph.assemble_subgraph(seeds, nodes, relations)
    return graph, await find_bearers(run, graph)


async def _draw_neighbours(run: QueryRun, seeds: Sequence[Seed]) -> tuple[Subgraph, Beneath]:
    """Return the seeds, their strongest relations, and the entities at the other ends."""
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
    return Subgraph(tuple(seeds), (), None, path, base, above), await sample_clusters(run, path)


async def _answer_global(run: QueryRun) -> QueryResult:
    """Answer with summaries of the lowest layer whose ones about the question fit (see ``summaries``), then with passages."""
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
    found = await search_windows(run.index, run.scope, run.query.texts, run.query.search_options)
    return await _answer_from(run, found, graph, beneath, [order_plain(run, each) for each in found])


async def _answer_from(
    run: QueryRun,
    found: Sequence[SearchHits],
    graph: Subgraph,
    beneath: Beneath,
    rankings: Sequence[Sequence[Hit]],
    seeds: Sequence[Seed] = (),
) -> QueryResult:
    """Value the windows of passages and what is written about the subgraph, and compose the answer of both."""
    wider = graph
    if run.query.ranking != Ranking.PAPER and has_sentences(run) and not wants_overview(run):
        wider = await widen_by_sentences(run, found, graph)
        beneath = {**beneath, **await sample_clusters(run, wider.path[len(graph.path) :])}
    wider = await restrict_subgraph(run, wider, beneath)
    graph = await restrict_subgraph(run, graph, beneath)
    if run.query.ranking == Ranking.PAPER:
        windows = [await rank_chunk_windows(run, rankings[0])]
        found = found[:1]
    else:
        walked = [
            put_anchors_first(run, graph.seeds, each) if run.query.mode != Mode.GLOBAL else ()
            for each in rankings
        ]
        weight = weigh_graph(run, seeds)
        windows = [
            await value_windows(run, each, hits, weight) for each, hits in zip(found, walked, strict=True)
        ]
    sources = rank_sources(run, windows)
    if run.query.ranking != Ranking.PAPER:
        windows = await show_turns(run, windows, [each.text for each in found])
        windows = [choose_rows(ranking, each.text) for ranking, each in zip(windows, found, strict=True)]
    statements, leading = await _find_statements(run, found, graph, wider, beneath, sources)
    texts = [each.text for each in found] if run.query.ranking != Ranking.PAPER else []
    if len(texts) == 1 and (named := find_named_document(texts[0], windows[0])):
        windows = [keep_to_document(windows[0], named)]
        leading = leading or await outline_document(run, named)
    graph = await mark_namesakes(run.index, graph, run.scope.allows)
    return _make_result(run, graph, sources, found, windows, statements, leading)


async def _find_statements(
    run: QueryRun,
    found: Sequence[SearchHits],
    graph: Subgraph,
    wider: Subgraph,
    beneath: Beneath,
    sources: Sequence[RankedChunk],
) -> tuple[list[list[Statement]], list[Statement]]:
    """Return what is said of the ``wider`` subgraph, and what comes before all: how the things that the query names are related,
    if it asks that."""
    query = run.query
    between = []
    if query.include_relations and any(map(asks_for_relation, query.texts)):
        between = relations_between_named(graph, sure_score(query.search_options))
    listed = _lists_statements(query)
    everything = listed or query.mode == Mode.GLOBAL or not query.include_sources
    if not (everything or between or is_written([*wider.path, *wider.base_relations])):
        return [], []
    citations = await load_citations(run, wider, beneath, sources)
    leading = state_relations(graph, between, citations)[:LEADING]
    if listed:
        return list_statements(run, wider, citations), leading
    return [await value_statements(run, each, wider, citations) for each in found], leading


def _lists_statements(query: Query) -> bool:
    """Return whether a context holds what is said of the subgraph beside passages, each with its share, and is not chosen by value."""
    return query.ranking == Ranking.PAPER or query.mode == Mode.LOCAL


def _choose_cutoff(
    query: Query, windows: Sequence[Sequence[RankedWindow]], *, in_order: bool, broad: bool
) -> float:
    """Return how near evidence has to be, as a share of the nearest, where more than one thing is asked for."""
    options = query.context_options
    if query.mode == Mode.GLOBAL:
        return options.weaker
    if in_order and sum(each.exact for ranking in windows for each in ranking) >= options.series:
        return options.strong
    return options.broad if broad else options.cutoff


def _make_result(
    run: QueryRun,
    graph: Subgraph,
    sources: Sequence[RankedChunk],
    found: Sequence[SearchHits],
    windows: Sequence[Sequence[RankedWindow]],
    statements: Sequence[Sequence[Statement]] = (),
    leading: Sequence[Statement] = (),
) -> QueryResult:
    query, index = run.query, run.index
    listed = _lists_statements(query)
    overview = not listed and asks_about_everything(run) and any(statements)
    weak = query.ranking != Ranking.PAPER and not overview and run.warn_of_weakness(found, windows)
    if not overview:
        run.warn_of_absent()
        if not weak:
            run.warn_of_apart(windows)
    plain = graph is subgraph.EMPTY
    shown = windows if (query.include_sources and not overview) or plain else [[] for _ in windows]
    if query.top_k < DEFAULT_TOP_K:  # a context may have more passages than are asked for by default
        asked = {each.chunk.id for each in sources}
        shown = [[each for each in ranking if each.chunk.id in asked] for ranking in shown]
    said = statements or [[] for _ in windows]
    rankings: list[Sequence[RankedWindow | Statement]] = [leading] if leading else []
    if listed:
        rankings += [*shown, *said]
    else:
        both = zip(shown, said, strict=True)
        rankings += [sorted([*one, *other], key=lambda each: -each.value) for one, other in both]
    options = query.context_options
    seen = query.seen_passages
    in_order = any(asks_for_order(text) and len(find_named_time(text)) != 1 for text in query.texts)
    broad = any(asks_for_overview(text) or asks_for_list(text) for text in query.texts)
    # What was decided last in a conversation may be said shortly.
    broad |= any(map(asks_for_newest, query.texts)) and any(
        each.turns for found in windows for each in found[:1]
    )
    budget = query.token_budget
    if in_order or broad or query.mode == Mode.GLOBAL:  # what is asked for is breadth
        cutoff = _choose_cutoff(query, windows, in_order=in_order, broad=broad)
        options = replace(options, cutoff=cutoff, strong=options.cutoff)
    if seen:
        before, doubtful = find_shown(rankings, seen, budget, index.tokenizer, options)
        options = replace(options, cutoff=options.weaker)
        fresh, left_out = leave_out_seen(rankings, seen, options.cutoff, before)
        rankings = [*fresh]
        sources = [
            each for each in sources if each.chunk.citation not in seen or _has_unseen(each.chunk, before)
        ]
        run.warn_of_seen(left_out, doubtful, nothing_new=not any(rankings))
    # What may not be about the question is cheap to read.
    if weak and not query.entities and query.mode != Mode.GLOBAL:
        budget, options = min(budget, options.weak_tokens), replace(options, notes=0.6)
        run.warnings.append(
            "The nearest follow. For more: other words, names from search_entities, or search_text."
        )
        rankings = [ranking[: options.weak_excerpts] for ranking in rankings]
    elif found and run.doubtful.issuperset(each.text for each in found):
        budget = min(budget, 2 * options.weak_tokens)
    worth = (each for ranking in rankings for each in keep_worth(ranking, options.cutoff))
    files = dict.fromkeys(each.chunk.source for each in worth if isinstance(each, RankedWindow))
    material = ContextMaterial(
        rankings=tuple(tuple(each) for each in rankings),
        notes=tuple(dict.fromkeys(run.warnings)),
        explanation=explain_subgraph(graph) if query.detailed else (),
        by_date=in_order,
        newest_first=not in_order and any(map(asks_for_newest, query.texts)),
        graph="" if plain else index.generation.record.graph,
        is_weak=budget <= options.weak_tokens < query.token_budget,
        about=index.collection.describe_folders([*files]),
    )
    context = compose_context(material, budget, index.tokenizer, options)
    if not query.include_relations:
        graph = replace(graph, base_relations=(), inter_cluster_relations=())
    kept = sources if query.include_sources or plain else ()
    return QueryResult(query, context, graph, tuple(kept), tuple(dict.fromkeys(run.warnings)), index.state)


def _has_unseen(chunk: Chunk, shown: set[TextPlace]) -> bool:
    """Return whether replies have shown parts of a chunk, and not all of it."""
    places = {chunk.window_place(number) for number in range(len(chunk.windows))}
    return any(id_ == chunk.id for id_, _ in shown) and not places <= shown
