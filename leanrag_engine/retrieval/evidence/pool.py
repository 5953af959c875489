"""Value the windows of candidate passages and the statements of the graph for each text of a query."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from leanrag_engine.core.graphs.texts import name_subject
from leanrag_engine.core.model import (
    Chunk,
    Entity,
    Hit,
    Method,
    Relation,
    ScoreParts,
    Seed,
    Subgraph,
    parse_window_id,
)
from leanrag_engine.core.runtime.threads import is_over
from leanrag_engine.core.text.citation import CitationSet
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.shortening import shorten
from leanrag_engine.retrieval.context.compose import keep_worth
from leanrag_engine.retrieval.context.rendering import Statement
from leanrag_engine.retrieval.context.statements import LineCitations, entity_statements, relation_statements
from leanrag_engine.retrieval.intent import asks_for_overview, asks_for_uses
from leanrag_engine.retrieval.request import Mode, RelevanceOptions
from leanrag_engine.retrieval.search.dating import (
    find_named_dates,
    nearness,
    put_newer_first,
    put_other_dates_back,
    weigh_dates,
)
from leanrag_engine.retrieval.search.hits import SearchHits, adjacency_of, spaces_of
from leanrag_engine.retrieval.search.late_interaction import compare_tokens, spread_similarities
from leanrag_engine.retrieval.search.releases import (
    asks_for_newest_release,
    find_changelogs,
    put_newest_release_first,
    raise_releases,
)
from leanrag_engine.retrieval.search.relevance import (
    ExactMatch,
    QueryWords,
    RankedWindow,
    TextPlace,
    fuse_scores,
    rank_windows,
)
from leanrag_engine.retrieval.search.second_hop import choose_named
from leanrag_engine.retrieval.search.seeds import rarity
from leanrag_engine.retrieval.search.turns import cut_turns

from .exact import find_definitions, find_exact_words, find_named_sections, put_uses_first, read_window
from .run import QueryRun
from .written import wants_overview

_NAMING = 10  # First windows in which the names of constants are looked for
_CHANGELOGS = 4  # of which both ends are read

USUAL = 20
"""Windows from which on they tell what similarity is usual, so that late interaction counts in full."""


async def value_windows(
    run: QueryRun, found: SearchHits, graph: Sequence[Hit], graph_weight: float = 0.0
) -> list[RankedWindow]:
    """Return the windows of the passages that search or the ``graph``'s ranking of chunks puts first, best first."""
    if is_over(0.7):
        run.warnings.append(f"Late (see max_call_seconds): {shorten(found.text, 80)!r} was searched alone.")
        return await rank_chunk_windows(run, (found.dense_chunks or found.keyword_chunks)[: run.query.top_k])
    options = run.query.relevance_options
    embedder = run.index.embedder
    measured = [each or 0.0 for each in (embedder.related, embedder.unrelated)] if embedder else []
    scores = fuse_scores(found.dense_windows, found.keyword_windows, options, *measured)
    seen = run.query.seen_passages
    # Seen windows would fill the pool: with them, all that search found is valued.
    most = None if seen else max(options.pool, 3 * run.query.top_k)
    best = sorted(scores.total, key=lambda each: -scores.total[each])[:most]
    ranked = graph[: options.graph_passages]
    exact = await find_exact_words(run, found.text)
    exact += await find_definitions(run, found.text, best[:_NAMING])
    windows = [*best, *(id_ for match in exact for id_ in match.windows)]
    ids = list(dict.fromkeys([*(parse_window_id(each)[0] for each in windows), *(hit.id for hit in ranked)]))
    await run.load(ids)
    chunks = [run.chunks[id_] for id_ in ids if id_ in run.chunks]
    dates = find_named_dates(found.text)
    exact = [match if match.word in dates else _narrow(match, run.chunks) for match in exact]
    exact = (put_uses_first if asks_for_uses(found.text) else find_named_sections)(exact, chunks)
    if run.query.mode != Mode.NAIVE and run.index.tokens:
        scores = scores.add_tokens(await _compare_tokens(run, found.text, best[: options.compared]))
    places = {hit.id: place for place, hit in enumerate(ranked)}
    recency = weigh_dates(found.text, chunks, options.recent, options.dated)
    valued = rank_windows(scores, chunks, places, graph_weight, exact, recency, options)
    valued = put_other_dates_back(valued, found.text)
    dated = put_newer_first(await _seat_named(run, found.text, valued) if graph else valued, found.text)
    return raise_releases(await _seat_newest_release(run, found.text, dated), found.text)


async def _seat_newest_release(run: QueryRun, text: str, windows: list[RankedWindow]) -> list[RankedWindow]:
    """Return the windows; where ``text`` asks for the newest release, its entry stands first. Both ends of changelogs are read for it."""
    if not asks_for_newest_release(text):
        return windows
    known = {each.key for each in windows}
    for id_ in find_changelogs(windows, text)[:_CHANGELOGS]:
        ids = await run.index.documents.chunk_ids(run.index.collection.name, [id_])
        ends = dict.fromkeys([*ids[:2], *ids[-2:]])
        await run.load(ends)
        chunks = [run.chunks[each] for each in ends if each in run.chunks]
        added = [RankedWindow(each, number, 0.0) for each in chunks for number in range(len(each.windows))]
        windows += [each for each in added if each.key not in known]
    return put_newest_release_first(windows, text)


async def _seat_named(run: QueryRun, text: str, windows: list[RankedWindow]) -> list[RankedWindow]:
    """Return the windows. Where documents are short, the passage whose title the first one names (``choose_named``) stands at least
    at ``named_place``: what a question asks of *the director of the film* often stands there."""
    options, held = run.query.relevance_options, run.index.collection
    walk = run.walks.get(text)
    if not (walk and windows) or options.graph_alone * held.documents < held.chunks:
        return windows
    first = windows[0].chunk
    linked = adjacency_of(run.index).find_named_by(first.id)
    common = {id_ for id_, mentions in linked.items() if rarity(mentions, held.chunks) < options.named_rarity}
    await run.load(linked.keys() - common)
    known = [each for id_, each in run.chunks.items() if id_ not in common]
    named = choose_named(first, known, linked, text, walk)
    passages = [*dict.fromkeys(window.chunk.id for window in windows)]
    if named is None or named.id in passages[: options.named_place]:
        return windows
    starts = {window.chunk.id: place for place, window in reversed([*enumerate(windows)])}
    seat = starts[passages[options.named_place - 1]] if len(passages) >= options.named_place else len(windows)
    value = windows[min(seat, len(windows) - 1)].value
    seated = windows.pop(starts[named.id]) if named.id in starts else RankedWindow(named, 0, 0.0)
    windows.insert(seat, replace(seated.add("seat", value - seated.value), kept=True))
    return windows


def _narrow(match: ExactMatch, chunks: Mapping[str, Chunk]) -> ExactMatch:
    """Return the match with the windows that hold the word itself, if one does: search finds its parts in the rows of a table."""
    word = match.word.casefold()
    held = (id_ for id_ in match.windows if word in read_window(id_, chunks).casefold())
    return replace(match, windows=tuple(held) or match.windows)


async def _compare_tokens(run: QueryRun, text: str, windows: Sequence[str]) -> dict[str, float]:
    """Return what windows gain by late interaction with the question; nothing without tokens of either."""
    question, embedder = run.index.tokens.get(text), run.index.embedder
    if question is None or embedder is None or not run.query.relevance_options.tokens:
        return {}
    places = [parse_window_id(each) for each in windows]
    chunk_ids = list(dict.fromkeys(chunk for chunk, _ in places))
    kept = await run.index.documents.token_vectors(run.index.collection.name, embedder.identity, chunk_ids)
    known = [
        (id_, kept[chunk][number])
        for id_, (chunk, number) in zip(windows, places, strict=True)
        if number < len(kept.get(chunk, ()))
    ]
    if not known:
        return {}
    near, strange = compare_tokens(question, [packed for _, packed in known])
    run.strange[text], run.likeness[text] = strange, float(near.max())
    run.sure.update([text] * (len(known) >= run.query.relevance_options.compared))
    near = spread_similarities(near)
    few = min(len(known) / USUAL, 1.0)
    gains = run.query.relevance_options.tokens * few * (near - near.min())
    return {id_: gain for (id_, _), gain in zip(known, gains.tolist(), strict=True)}


def weigh_graph(run: QueryRun, seeds: Sequence[Seed]) -> float:
    """Return the weight of the walk from the seeds: all of it if the question surely names a rare entity, else 0.

    A walk from a hub reaches everything, one from a guess anything. Documents of several passages lower it.
    """
    chunks, options = run.index.collection.chunks, run.query.relevance_options
    mentions = Counter[str]()  # of a name, by all who bear it
    for seed in seeds:
        mentions[name_key(seed.entity.name)] += seed.entity.mentions
    trusts = (
        min(seed.score, 1.0) * rarity(min(mentions[name_key(seed.entity.name)], chunks), chunks)
        for seed in seeds[: run.query.seeds]
        if seed.entity.layer == 0
    )
    trust = max(trusts, default=0.0)
    share = (trust - options.graph_from) / (options.graph_full - options.graph_from)
    alone = options.graph_alone * run.index.collection.documents / max(chunks, 1)
    return options.graph * min(max(share, 0.0), 1.0) * min(alone, 1.0)


async def rank_chunk_windows(run: QueryRun, ranking: Sequence[Hit]) -> list[RankedWindow]:
    """Return all windows of the chunks in the order of ``ranking``: what a rule for whole passages chooses."""
    await run.load(hit.id for hit in ranking)
    return [
        RankedWindow(run.chunks[hit.id], number, hit.score, 1.0, explain=partial(ScoreParts, fixed=hit.score))
        for hit in ranking
        if hit.id in run.chunks
        for number in range(len(run.chunks[hit.id].windows))
    ]


async def value_statements(
    run: QueryRun, found: SearchHits, graph: Subgraph, citations: LineCitations
) -> list[Statement]:
    """Return what a model or agent wrote about the subgraph, valued like windows; unsorted.

    In mode ``global`` summaries count whether or not a model wrote them, and come first. Without sources everything counts.
    """
    query, options = run.query, run.query.relevance_options
    summaries, anyway = query.mode == Mode.GLOBAL, not query.include_sources
    nodes, relations = _select_described(run, graph)
    names = {node.id: node.name for node in graph.path}
    said: list[tuple[str, Statement]] = [
        (node.id, each) for node in nodes for each in entity_statements(node, citations)
    ]
    said += [(each.id, line) for each in relations for line in relation_statements(each, names, citations)]
    if not said:
        return []
    # Summaries that come first are measured with windows, which gain from their neighbours and section.
    high = 1.0 + options.neighbour + options.section
    if summaries and wants_overview(run):
        order = {seed.entity.id: high * (1.0 + seed.score) for seed in graph.seeds}
        return [
            replace(each, value=order[id_], parts=ScoreParts(summary=order[id_]), kept=True)
            for id_, each in said
            if id_ in order
        ]
    dense = await _dense_shares(run, found, nodes, relations, said)
    words = QueryWords([found.text])
    shared = words.score([name_subject(each.subject.split(" — "), each.text) for _, each in said])
    most = max(shared, default=0.0) or 1.0
    beside = options.statement_tokens if found.text in run.index.tokens and options.tokens else 1.0
    beside *= _weigh_together([*dense.values()], options)
    nearest = [run.chunks.get(parse_window_id(hit.id)[0]) for hit in found.dense_windows[:10]]
    spoken = sum(each is not None and bool(cut_turns(each.text)) for each in nearest) / max(len(nearest), 1)
    # Summaries of what heuristics found in conversations say less than what was read there.
    read = bool(run.index.generation.record.base_methods - {Method.HEURISTIC})
    weight = options.statement * (1.0 + options.statement_spoken * spoken * read)
    overview = bool(asks_for_overview(found.text))
    first = {node.id for node in nodes if summaries and node.layer > 0}
    dates = find_named_dates(found.text)

    held = [dense.get(each.id, dense.get(id_)) for id_, each in said]

    def score(id_: str, statement: Statement, share: float, known: float | None) -> Statement:
        closeness = share / most if known is None else known
        parts = ScoreParts(
            meaning=(high if id_ in first else beside * weight * closeness) * closeness,
            keyword=(high if id_ in first else beside) * options.statement_keyword * share / most,
            summary=high * (id_ in first or (overview and statement.kind in ("summary", "finding"))),
            recent=options.dated * nearness(statement.date, dates),
        )
        near = parts.meaning + parts.keyword >= options.statement_kept
        return replace(statement, value=parts.total, parts=parts, kept=anyway or id_ in first or near)

    return [
        score(id_, each, share, known) for (id_, each), share, known in zip(said, shared, held, strict=True)
    ]


def _weigh_together(shares: Sequence[float], options: RelevanceOptions) -> float:
    """Return how much sentences count beside windows by how near the ten nearest are together; 1 where no nearness is known."""
    if not shares:
        return 1.0
    nearest = sorted(shares)[-10:]
    gain = options.statement_together * (sum(nearest) / len(nearest) - 1.0)
    return min(max(0.7 + gain, 0.65), 1.1)


def _select_described(run: QueryRun, graph: Subgraph) -> tuple[list[Entity], list[Relation]]:
    """Return the entities, clusters and relations of which a context may tell what is written about them."""
    query, anyway = run.query, not run.query.include_sources
    nodes = [each for each in graph.path if each.layer == 0 or query.include_summaries]
    first = query.mode == Mode.GLOBAL
    relations = (*graph.base_relations, *graph.inter_cluster_relations) if query.include_relations else ()
    told = [each for each in nodes if anyway or each.method.written or (first and each.layer > 0)]
    return told, [each for each in relations if anyway or each.method.written]


async def _dense_shares(
    run: QueryRun,
    found: SearchHits,
    nodes: Sequence[Entity],
    relations: Sequence[Relation],
    said: Sequence[tuple[str, Statement]],
) -> dict[str, float]:
    """Return the similarity of sentences to the text as a share of that of the best window; where one has no vector, that of its
    node or relation."""
    most = max((hit.score for hit in found.dense_windows), default=0.0)
    if found.vector is None or most <= 0:
        return {}
    spaces, vectors = spaces_of(run.index), run.index.vectors
    ids = [each.id for _, each in said if each.id]
    rows = await vectors.fetch(spaces.sentences, ids) if spaces.sentences else {}
    bare = {id_ for id_, each in said if each.id not in rows}
    wanted = {
        spaces.entities: [each.id for each in nodes if each.layer == 0 and each.id in bare],
        spaces.aggregates: [each.id for each in nodes if each.layer > 0 and each.id in bare],
        spaces.facts: [each.id for each in relations if each.layer == 0 and each.id in bare],
    }
    for space, ids in wanted.items():
        if space and ids:
            rows |= await vectors.fetch(space, ids)
    return {id_: max(float(row @ found.vector), 0.0) / most for id_, row in rows.items()}


def list_statements(run: QueryRun, graph: Subgraph, citations: LineCitations) -> list[list[Statement]]:
    """Return all that is said about the subgraph, as the paper's context prints it: first seeds, then what else is on its
    paths from the lowest layer up, then relations with their λ, the strongest first."""
    query = run.query
    seeds = {seed.entity.id for seed in graph.seeds}
    nodes = [
        each
        for node in sorted(graph.path, key=lambda node: (node.layer, node.id not in seeds))
        if node.layer == 0 or query.include_summaries
        for each in entity_statements(node, citations)
    ]
    relations = (*graph.inter_cluster_relations, *graph.base_relations) if query.include_relations else ()
    return [_fix(nodes), state_relations(graph, relations, citations)]


def state_relations(
    graph: Subgraph, relations: Sequence[Relation], citations: LineCitations
) -> list[Statement]:
    """Return what is said about the relations, with their λ, the strongest first."""
    names = {node.id: node.name for node in graph.path}
    return _fix(
        replace(each, subject=f"{each.subject} (λ {relation.strength})") if relation.layer else each
        for relation in sorted(relations, key=lambda each: -each.strength)
        for each in relation_statements(relation, names, citations)
    )


def _fix(said: Iterable[Statement]) -> list[Statement]:
    fixed = ScoreParts(fixed=1.0)
    return [replace(each, value=1.0, parts=fixed, kept=True) for each in said]


def relations_between_named(graph: Subgraph, sure: float) -> list[Relation]:
    """Return the relations between seeds that the query names (of a score above ``sure``), else the strongest two of clusters on
    the paths between them."""
    named = {seed.entity.id for seed in graph.seeds if seed.score > sure}
    between = [each for each in graph.base_relations if {each.source_id, each.target_id} <= named]
    clusters = sorted(graph.inter_cluster_relations, key=lambda each: -each.strength)[:2]
    return (between or clusters) if len(named) > 1 else []


def leave_out_seen(
    rankings: Sequence[Sequence[RankedWindow | Statement]],
    seen: CitationSet,
    cutoff: float,
    shown: set[TextPlace],
) -> tuple[list[list[RankedWindow | Statement]], int]:
    """Return the rankings without what was seen, and how many seen passages would have been worth showing.

    Of passages of which parts were ``shown``, only those were seen. A statement was seen if all that it cites was. What
    remains is as good as it was beside the seen evidence: at least ``cutoff`` of the best of both, or kept.
    """
    partly = {id_ for id_, _ in shown}
    fresh: list[list[RankedWindow | Statement]] = []
    left_out: set[str] = set()
    for ranking in rankings:
        worth = keep_worth(ranking, cutoff)
        cited = {each.chunk.citation for each in worth if isinstance(each, RankedWindow)}
        left_out |= {each for each in cited if each in seen}
        fresh.append([each for each in worth if not _was_seen(each, seen, shown, partly)])
    return fresh, len(left_out)


def _was_seen(
    evidence: RankedWindow | Statement, seen: CitationSet, shown: set[TextPlace], partly: set[str]
) -> bool:
    if isinstance(evidence, RankedWindow):
        known = evidence.chunk.id not in partly or evidence.spans <= shown
        return known and evidence.chunk.citation in seen
    return bool(evidence.citations) and all(citation in seen for citation in evidence.citations)
