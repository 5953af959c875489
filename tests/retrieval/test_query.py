"""Whole queries over a corpus whose facts are known, in every mode and ranking."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest

from leanrag_engine.core.errors import Ambiguous, InvalidInput, NotFound, NotReady
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Entity, Evidence, Method, VectorSpaces
from leanrag_engine.hierarchy.texts.attribution import cite_summaries
from leanrag_engine.retrieval.context.rendering import STATEMENTS
from leanrag_engine.retrieval.filters import EVERYTHING
from leanrag_engine.retrieval.index import BuildState, IndexSnapshot
from leanrag_engine.retrieval.query import QueryResult, answer_query
from leanrag_engine.retrieval.request import (
    DEFAULT_RANKING,
    DEFAULT_RELEVANCE,
    DEFAULT_SEARCH,
    Filters,
    Query,
    RelevanceOptions,
    SearchOptions,
)
from leanrag_engine.retrieval.search.hits import search_all, search_windows

if TYPE_CHECKING:
    from conftest import CallCounter, Corpus

pytestmark = pytest.mark.anyio

MODES = ["lca", "local", "global", "naive"]
RANKINGS = ["spread", "paper"]

TRUSTING = replace(DEFAULT_RELEVANCE, graph=20.0, graph_from=-1.0, graph_full=0.0)
"""With these the walk always decides the order."""


async def ask(corpus: Corpus, text: str, **options: Any) -> QueryResult:
    return await answer_query(await corpus.index(), Query(text, **options))


def count_store_calls(
    index: IndexSnapshot, count_calls: type[CallCounter]
) -> tuple[IndexSnapshot, Counter[str]]:
    """The index, with the calls of its documents and generations counted."""
    calls: Counter[str] = Counter()
    documents: Any = count_calls(index.documents, calls)
    generations: Any = count_calls(index.generations, calls)
    return replace(index, documents=documents, generations=generations), calls


# --- evidence ------------------------------------------------------------------------------


async def test_a_question_of_two_hops_finds_both_passages(corpus: Corpus) -> None:
    result = await ask(corpus, "Where did the sister of the man who found Uranus live?")
    assert "William Herschel found Uranus in 1781." in result.context.text
    assert "Caroline Herschel lived in Slough." in result.context.text
    assert result.build is BuildState.READY
    assert result.warnings == ()


async def test_the_passage_about_what_the_first_one_names_comes_before_others_of_its_kind(
    make_corpus: partial[Corpus],
) -> None:
    texts = {
        "Caroline Herschel": "She swept the sky from Slough.",
        "Bath": "The town of Bath has ten thousand people. Caroline Herschel sang there.",
        "York": "The town of York has twenty thousand people. Caroline Herschel passed through.",
        "Slough": "Slough has many people, and more of them with every year that has passed.",
    }
    root = Entity("root", "All", layer=1, description="All there is.", members=2, mentions=6)
    names = {"Caroline Herschel": (1, 2, 3), "Slough": (1, 4), "Bath": (2,), "York": (3,)}
    entities = tuple(
        Entity(name, name, parent_id="root", chunk_ids=tuple(f"chunk-{number}" for number in numbers))
        for name, numbers in names.items()
    )
    index = await make_corpus(texts, Hierarchy((Graph(entities, ()), Graph((root,), ())))).index()
    query = Query("How many people has the town where Caroline Herschel swept the sky?")
    places = {}
    for hop in (0.0, DEFAULT_RANKING.hop):
        options = replace(DEFAULT_RANKING, hop=hop)
        result = await answer_query(
            index, replace(query, ranking_options=options, relevance_options=TRUSTING)
        )
        ranked = sorted(result.sources, key=lambda each: -each.score)
        places[hop] = [each.chunk.title for each in ranked]
    assert places[0.0] == ["Caroline Herschel", "Bath", "York", "Slough"]
    assert places[DEFAULT_RANKING.hop] == ["Caroline Herschel", "Slough", "Bath", "York"]


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("mode", MODES)
async def test_every_mode_and_ranking_answers_within_the_budget_with_real_citations(
    corpus: Corpus, mode: str, ranking: str
) -> None:
    result = await ask(corpus, "Caroline Herschel", mode=mode, ranking=ranking, token_budget=150)
    assert 0 < result.context.tokens <= 150
    real = {chunk.citation for chunk in corpus.chunks}
    assert result.context.cited
    assert set(result.context.cited) <= real
    assert {ranked.chunk.citation for ranked in result.sources} <= real


async def test_sources_that_stand_in_the_context_come_first(corpus: Corpus) -> None:
    result = await ask(corpus, "Herschel", token_budget=120)
    shown = [ranked.chunk.citation in result.context.cited for ranked in result.sources]
    assert shown == sorted(shown, reverse=True)
    assert any(shown)


def has_nothing_new(result: QueryResult) -> bool:
    """Return whether all evidence that is worth showing was seen before."""
    return bool(result.query.seen) and not (result.context.cited or result.context.truncated)


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("mode", MODES)
async def test_what_was_seen_is_not_shown_again_until_nothing_is_new(
    corpus: Corpus, mode: str, ranking: str
) -> None:
    text = "Where did Caroline Herschel, who discovered comets, live?"
    first = await ask(corpus, text, mode=mode, ranking=ranking, token_budget=120)
    seen = list(first.context.cited)
    assert seen
    for _ in range(len(corpus.chunks) + 1):
        result = await ask(corpus, text, mode=mode, ranking=ranking, token_budget=300, seen=tuple(seen))
        lines = [line for line in result.context.text.splitlines() if line.startswith("[d")]
        assert not [line for line in lines if line[1:].partition("]")[0] in seen]
        assert not {each.chunk.citation for each in result.sources} & set(seen)
        if has_nothing_new(result):
            break
        seen += [each for each in result.context.cited if each not in seen]
    assert has_nothing_new(result)
    assert "Nothing new" in result.context.text
    assert "left out as seen" in result.context.text


async def test_the_budget_goes_to_what_is_new(corpus: Corpus) -> None:
    text = "Herschel telescope comet yeast"
    first = await ask(corpus, text, token_budget=120)
    seen = first.context.cited[:2]
    second = await ask(corpus, text, token_budget=120, seen=seen)
    assert second.context.cited
    assert not set(second.context.cited) & set(seen)
    count = len(seen)
    assert f"{count} passage{'s were' if count > 1 else ' was'} left out as seen." in second.warnings
    assert not has_nothing_new(first)
    assert not has_nothing_new(second)


async def test_a_document_and_a_range_may_be_seen(corpus: Corpus) -> None:
    text = "Herschel telescope comet yeast"
    first = await ask(corpus, text)
    document = first.context.cited[0].partition(":")[0]
    for seen in (document, f"[{document}:c1]", f"{document}:c1-c9"):
        result = await ask(corpus, text, seen=(seen, "d999"))
        assert result.context.cited
        assert document not in {each.partition(":")[0] for each in result.context.cited}


async def test_top_k_bounds_the_passages_and_seeds_the_seeds(corpus: Corpus) -> None:
    result = await ask(corpus, "Herschel telescope comet Paris yeast", seeds=3, top_k=2)
    assert len(result.subgraph.seeds) == 3
    assert len(result.sources) == 2


async def test_seeds_come_best_first_with_scores_between_0_and_1(corpus: Corpus) -> None:
    scores = [seed.score for seed in (await ask(corpus, "Who was Charles Messier?")).subgraph.seeds]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


async def test_a_name_in_the_query_is_the_first_seed(corpus: Corpus) -> None:
    result = await ask(corpus, "What had Edmond Halley to do with Paris?")
    assert {seed.entity.name for seed in result.subgraph.seeds[:2]} == {"Edmond Halley", "Paris"}


# --- the subgraph --------------------------------------------------------------------------


async def test_the_path_is_the_subtree_that_joins_the_seeds(corpus: Corpus) -> None:
    """Oracle: the union of networkx's shortest paths from each seed to the LCA over the whole hierarchy."""
    assert corpus.hierarchy is not None
    tree = nx.Graph(
        (each.id, each.parent_id)
        for layer in corpus.hierarchy.layers
        for each in layer.entities
        if each.parent_id is not None
    )
    for text in ("Caroline Herschel and Paris", "yeast and Slough", "wort and beer"):
        subgraph = (await ask(corpus, text, seeds=4)).subgraph
        assert subgraph.lca is not None
        expected = {
            node
            for seed in subgraph.seeds
            for node in nx.shortest_path(tree, seed.entity.id, subgraph.lca.id)
        }
        assert {node.id for node in subgraph.path} == expected


async def test_seeds_that_meet_only_at_the_root_are_grouped(corpus: Corpus) -> None:
    result = await ask(corpus, "x", entities=("Uranus", "Paris", "yeast", "wort"), seeds=4)
    groups = {group.lca.name: {seed.name for seed in group.seeds} for group in result.subgraph.groups}
    assert groups == {"Astronomy": {"Uranus", "Paris"}, "Fermentation": {"yeast", "wort"}}
    assert result.subgraph.lca is not None
    assert result.subgraph.lca.name == "Knowledge"


async def test_relations_are_those_among_seeds_and_between_path_entities_of_one_layer(corpus: Corpus) -> None:
    subgraph = (await ask(corpus, "x", entities=("Caroline Herschel", "comet", "yeast"), seeds=3)).subgraph
    ids = {node.id for node in subgraph.path}
    assert corpus.hierarchy is not None
    expected = {
        relation.id
        for layer in corpus.hierarchy.layers
        for relation in layer.relations
        if {relation.source_id, relation.target_id} <= ids
    }
    assert {each.id for each in (*subgraph.base_relations, *subgraph.inter_cluster_relations)} == expected
    assert {each.layer for each in subgraph.base_relations} == {0}
    assert {each.layer for each in subgraph.inter_cluster_relations} == {1, 2}


async def test_a_detailed_context_explains_groups_and_relations_within_the_budget(corpus: Corpus) -> None:
    options: dict[str, Any] = {"entities": ("Uranus", "Paris", "yeast", "wort"), "seeds": 4}
    result = await ask(corpus, "x", **options, detailed=True)
    explained = result.context.text.split("### How the evidence is connected")[1]
    assert "joined by Astronomy (e-astronomy, layer 2)" in explained
    assert "All seeds meet in Knowledge (e-knowledge, layer 3, root)." in explained
    assert "yeast — wort: The brewers of Slough pitch yeast into wort." in explained
    for budget in (100, 150, 300):
        small = await ask(corpus, "x", **options, detailed=True, token_budget=budget)
        assert small.context.tokens <= budget
    plain = await ask(corpus, "x", **options)
    assert "How the evidence is connected" not in plain.context.text


async def test_a_description_cites_the_passage_of_each_of_its_sentences(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    """Each sentence of what a model wrote cites the passage it was taken from, whatever its place."""
    assert corpus.hierarchy is not None
    base, *above = corpus.hierarchy.layers
    parts = (
        ("The comet was seen by Caroline.", "chunk-1"),
        ("A telescope showed it.", "chunk-2"),
        ("Its orbit was computed.", "chunk-7"),
    )
    evidence = []
    start = 0
    for sentence, chunk_id in parts:
        evidence.append(Evidence(start, start + len(sentence), chunk_id))
        start += len(sentence) + 1
    told = " ".join(sentence for sentence, _ in parts)
    entities = tuple(
        replace(each, description=told, evidence=tuple(evidence), method=Method.MODEL)
        if each.name == "comet"
        else each
        for each in base.entities
    )
    cited = make_corpus(corpus.texts, Hierarchy((Graph(entities, base.relations), *above)))
    result = await ask(cited, "x", entities=("comet",), seeds=1, include_sources=False)
    cites = ("d1:c1", "d2:c1", "d7:c1")
    said = " ".join(f"{sentence} [{cite}]" for (sentence, _), cite in zip(parts, cites, strict=True))
    assert f"- {said}\n" in result.context.text
    everything = await ask(cited, "Whose orbit was computed?", entities=("comet",))
    assert "Its orbit was computed. [d7:c1]" in everything.context.text


async def test_a_written_sentence_is_found_by_its_own_words_in_whatever_branch_it_stands(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    """What a model wrote of yeast answers a question whose one anchor is far from it, sentence by sentence."""
    assert corpus.hierarchy is not None
    base, *above = corpus.hierarchy.layers
    told = "Yeast lives in barrels. Smoke drove the accountants of Mercia away."
    entities = tuple(
        replace(each, description=told, method=Method.MODEL) if each.name == "yeast" else each
        for each in base.entities
    )
    made = make_corpus(corpus.texts, Hierarchy((Graph(entities, base.relations), *above)))
    result = await ask(made, "Which accountants did smoke drive away?", entities=("comet",), seeds=1)
    assert "yeast" not in {node.name for node in result.subgraph.path}
    assert "yeast: Smoke drove the accountants of Mercia away. [d6:c1]" in result.context.text
    naive = await ask(made, "Which accountants did smoke drive away?", mode="naive")
    assert "accountants of Mercia" not in naive.context.text


@pytest.mark.parametrize(("day", "first"), [(1, "Caroline"), (7, "William")])
async def test_what_was_written_of_passages_near_a_date_that_is_asked_for_comes_first(
    corpus: Corpus, make_corpus: partial[Corpus], day: int, first: str
) -> None:
    """Document N is of the Nth of January."""
    assert corpus.hierarchy is not None
    base, *above = corpus.hierarchy.layers
    told = [f"The comet was weighed by {name}." for name in ("Caroline", "William")]
    start = len(told[0]) + 1
    evidence = (Evidence(0, start - 1, "chunk-1"), Evidence(start, start + len(told[1]), "chunk-7"))
    entities = tuple(
        replace(each, description=" ".join(told), evidence=evidence, method=Method.MODEL)
        if each.name == "comet"
        else each
        for each in base.entities
    )
    made = make_corpus(corpus.texts, Hierarchy((Graph(entities, base.relations), *above)))
    result = await ask(made, f"Who weighed the comet on 2026-01-0{day}?", entities=("comet",))
    weighed = {each.text: each.parts.total for each in result.context.lines if each.subject == "comet"}
    assert max(weighed, key=weighed.__getitem__) == f"The comet was weighed by {first}."


@pytest.mark.parametrize(
    ("spoken", "share"), [(False, 1.0), (True, 1.0 + DEFAULT_RELEVANCE.statement_spoken)]
)
async def test_where_passages_are_turns_of_conversations_a_written_sentence_counts_more(
    corpus: Corpus, make_corpus: partial[Corpus], spoken: bool, share: float
) -> None:
    assert corpus.hierarchy is not None
    base, *above = corpus.hierarchy.layers
    entities = tuple(
        replace(each, description="Smoke drove the comet away from the telescope.", method=Method.MODEL)
        if each.name == "yeast"
        else each
        for each in base.entities
    )
    texts = {
        title: f"Ann: {text}\n\nBob: Thanks, Ann!\n\nAnn: You are welcome.\n\nBob: See you!"
        if spoken
        else text
        for title, text in corpus.texts.items()
    }
    made = make_corpus(texts, Hierarchy((Graph(entities, base.relations), *above)))

    async def weigh(options: RelevanceOptions) -> float:
        result = await ask(
            made, "Which comet did smoke drive away from the telescope?", relevance_options=options
        )
        (line,) = [each for each in result.context.lines if each.subject == "yeast"]
        return line.parts.meaning

    plain = await weigh(replace(DEFAULT_RELEVANCE, statement_spoken=0.0))
    assert await weigh(DEFAULT_RELEVANCE) == pytest.approx(share * plain)


@pytest.mark.parametrize("layer", [0, 1])
async def test_what_is_said_of_conversations_counts_more_only_where_the_graph_itself_was_written(
    corpus: Corpus, make_corpus: partial[Corpus], layer: int
) -> None:
    assert corpus.hierarchy is not None
    said = "Smoke drove the comet away."
    origin = Evidence(0, len(said), corpus.hierarchy.layers[0].entities[0].chunk_ids[0])
    layers = [*corpus.hierarchy.layers]
    entities = [
        replace(each, description=said, method=Method.MODEL, evidence=(origin,) if layer else each.evidence)
        for each in layers[layer].entities
    ]
    layers[layer] = Graph(tuple(entities), layers[layer].relations)
    texts = {
        title: f"Ann: {text}\n\nBob: Thanks, Ann!\n\nAnn: You are welcome.\n\nBob: See you!"
        for title, text in corpus.texts.items()
    }
    made = make_corpus(texts, Hierarchy(tuple(layers)))
    values = []
    for gain in (0.0, 0.6):
        options = replace(DEFAULT_RELEVANCE, statement_spoken=gain)
        result = await ask(made, "Which comet did smoke drive away?", relevance_options=options)
        values.append(
            max(
                each.parts.meaning
                for each in result.context.lines
                if each.kind in ("summary", "entity description")
            )
        )
    assert (values[1] > values[0]) is (layer == 0)


@pytest.mark.parametrize("mode", ["lca", "global"])
@pytest.mark.parametrize("built", [True, False])
async def test_without_summaries_a_question_for_an_overview_gets_an_outline_of_the_documents(
    corpus: Corpus, make_corpus: partial[Corpus], mode: str, built: bool
) -> None:
    made = corpus if built else make_corpus(corpus.texts, None)
    result = await ask(made, "What are the main themes?", mode=mode)
    first, *lines = result.context.lines
    assert first.text == f"{len(corpus.texts)}."
    if built:
        assert lines.pop(0).subject == "Topics"
    assert [line.citations for line in lines] == [(chunk.citation,) for chunk in corpus.chunks]
    assert all(line.text in corpus.texts[line.subject.split(" (")[0]] for line in lines)
    assert any("No summaries were written" in warning for warning in result.warnings)
    assert not any("No document has" in warning for warning in result.warnings)
    chosen = Filters(documents=("Halley", "Comets"))
    narrow = await ask(made, "What are the main themes?", mode=mode, filters=chosen)
    assert set(narrow.context.cited) == {"d1:c1", "d7:c1"}


async def test_a_question_for_an_overview_gets_summaries_before_descriptions(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    assert corpus.hierarchy is not None
    layers = [
        Graph(
            tuple(
                replace(each, method=Method.MODEL, description=f"{each.name} is one of the topics here.")
                for each in layer.entities
            ),
            layer.relations,
        )
        for layer in corpus.hierarchy.layers
    ]
    made = make_corpus(corpus.texts, cite_summaries(Hierarchy(tuple(layers))))
    overview = (await ask(made, "What are the main topics here?")).context.lines
    assert {line.kind for line in overview[:4]} == {"summary"}
    assert [line.kind for line in overview if line.kind == "excerpt"] == []
    assert overview[0].subject == layers[-1].entities[0].name, "the whole comes before its parts"
    about = await ask(made, "What are the main topics about yeast?")
    assert about.query.mode == "lca", "it names a subject"
    single = (await ask(made, "Is yeast one of the topics here?")).context.lines
    described = [line.kind for line in single if line.kind != "excerpt"]
    assert described[0] == "entity description"


# --- the paper's ranking -------------------------------------------------------------------


async def test_paper_ranking_counts_the_nearest_entities_and_nothing_else(corpus: Corpus) -> None:
    """Eq. 6 and appendix B.4 by brute force: dense seeds of G0 alone, chunks by seed count, ties by similarity."""
    question = "Which telescope did William Herschel build in Slough?"
    index = await corpus.index()
    assert corpus.hierarchy is not None
    base = corpus.hierarchy.layers[0].entities
    assert index.embedder is not None
    rows = await index.embedder.embed([question, *(entity.indexed_text for entity in base)])
    nearest = sorted(base, key=lambda entity: -float(rows[1 + base.index(entity)] @ rows[0]))[:4]
    counts = Counter(chunk_id for entity in nearest for chunk_id in entity.chunk_ids)
    chunks = corpus.chunks
    texts = await index.embedder.embed([question, *(chunk.indexed_text for chunk in chunks)])
    similarity = {chunk.id: float(row @ texts[0]) for chunk, row in zip(chunks, texts[1:], strict=True)}
    expected = sorted(counts, key=lambda id_: (-counts[id_], -similarity[id_]))[:3]

    result = await answer_query(index, Query(question, ranking="paper", seeds=4, top_k=3, token_budget=4000))
    assert {seed.entity.id for seed in result.subgraph.seeds} == {entity.id for entity in nearest}
    assert [ranked.chunk.id for ranked in result.sources] == expected
    assert [ranked.score for ranked in result.sources] == [counts[id_] for id_ in expected]


async def test_passages_with_as_many_seeds_come_in_order_of_similarity_not_of_reading(corpus: Corpus) -> None:
    result = await ask(
        corpus, "Uranus the seventh planet telescope", ranking="paper", seeds=3, token_budget=4000
    )
    assert [(each.chunk.citation, each.score) for each in result.sources] == [("d3:c1", 2), ("d2:c1", 2)]


async def test_paper_ranking_matches_no_names_and_no_keywords(
    corpus: Corpus, count_calls: type[CallCounter]
) -> None:
    index, calls = count_store_calls(await corpus.index(), count_calls)
    await answer_query(index, Query("Who was Edmond Halley?", ranking="paper"))
    assert calls
    assert not {"entities_by_name", "search_windows", "search_entities"} & set(calls)


async def test_a_question_how_two_are_related_is_answered_by_their_relation_first(corpus: Corpus) -> None:
    related = await ask(corpus, "How are William Herschel and Caroline Herschel related?")
    first = related.context.lines[0]
    assert (first.kind, first.subject) == ("relation", "William Herschel — Caroline Herschel")
    told = await ask(corpus, "What did William Herschel and Caroline Herschel find?")
    assert {line.kind for line in told.context.lines} == {"excerpt"}, (
        "without a model relations quote passages"
    )
    apart = await ask(corpus, "How are yeast and Uranus related?")
    assert apart.context.lines[0].subject.endswith("(λ 1)") or apart.context.lines[0].kind == "excerpt"


async def test_local_tells_of_the_entity_its_relations_and_its_neighbours(corpus: Corpus) -> None:
    result = await ask(corpus, "Caroline Herschel", mode="local", seeds=1)
    lines = result.context.lines
    assert {line.kind for line in lines} >= {"entity description", "relation", "excerpt"}
    ends = [line.subject for line in lines if line.kind == "relation"]
    assert all("Caroline Herschel" in each for each in ends)
    described = [line.subject for line in lines if line.kind == "entity description"]
    assert described[0] == "Caroline Herschel"
    assert set(described) <= {node.name for node in result.subgraph.path}


@pytest.mark.parametrize(("relations", "budget"), [(True, 4000), (False, 4000), (True, 200)])
async def test_the_context_of_the_paper_holds_entities_clusters_relations_with_lambda_and_passages(
    corpus: Corpus, relations: bool, budget: int
) -> None:
    """``G_ret`` in words: descriptions of the path's nodes, relations between its clusters, then the top passages."""
    result = await ask(
        corpus,
        "What did William Herschel brew?",
        ranking="paper",
        seeds=10,
        include_relations=relations,
        token_budget=budget,
    )
    kinds = {line.kind for line in result.context.lines}
    assert {"entity description", "excerpt"} <= kinds
    assert ("summary" in kinds) is (budget == 4000)
    assert ("relation" in kinds) is relations
    assert ("(λ " in result.context.text) is relations
    assert result.context.tokens <= budget
    graph, passages = result.context.text.split("\n### ", 2)[1:]
    assert graph.startswith(STATEMENTS)
    assert passages


async def test_the_relations_of_the_papers_context_have_their_lambda_and_come_strongest_first(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    """Each relation has another λ, and a weight that is none of them."""
    layers = [
        replace(
            layer,
            relations=tuple(
                replace(each, strength=place, weight=place + 100)
                for place, each in enumerate(layer.relations, start=2)
            ),
        )
        if number
        else layer
        for number, layer in enumerate(corpus.hierarchy.layers)
    ]
    other = make_corpus(corpus.texts, Hierarchy(tuple(layers)))
    result = await ask(other, "What did William Herschel brew?", ranking="paper", seeds=10, token_budget=4000)
    strengths = {each.strength for each in result.subgraph.inter_cluster_relations}
    shown = [int(number) for number in re.findall(r"\(λ (\d+)\)", result.context.text)]
    assert len(set(shown) & strengths) == len(shown) > 1
    assert shown == sorted(shown, reverse=True)


# --- facts ---------------------------------------------------------------------------------


async def test_the_walk_adds_less_the_more_passages_a_document_has(corpus: Corpus) -> None:
    index = await corpus.index()
    chunks = index.collection.chunks

    async def gains(documents: float) -> dict[tuple[str, ...], float]:
        collection = replace(index.collection, documents=documents)
        query = Query("Who found Uranus in 1781?", relevance_options=TRUSTING)
        lines = (await answer_query(replace(index, collection=collection), query)).context.lines
        return {each.citations: each.parts.graph for each in lines if each.parts.graph}

    alone, several = await gains(chunks), await gains(chunks / 3)
    common = alone.keys() & several.keys()
    assert common
    for each in common:
        assert several[each] == pytest.approx(alone[each] / 2)


async def test_vectors_that_a_killed_update_left_take_the_place_of_no_hit(corpus: Corpus) -> None:
    index = await corpus.index()
    assert index.spaces
    question = "Who computed an orbit?"
    (before,) = await search_all(index, EVERYTHING, [question], 10)
    assert before.dense_entities
    assert before.vector is not None
    left = [f"left{number}" for number in range(300)]
    await index.vectors.upsert(index.spaces.entities, left, np.tile(before.vector, (300, 1)))
    (after,) = await search_all(index, EVERYTHING, [question], 10)
    assert after.dense_entities == before.dense_entities


# --- entities, sub-queries, options --------------------------------------------------------


async def test_a_text_is_searched_by_meaning_as_a_whole_and_by_its_parts(corpus: Corpus) -> None:
    index = await corpus.index()
    assert index.embedder is not None
    assert index.spaces is not None
    question = "Who found Uranus in 1781, and where did Caroline Herschel live?"
    parts = ["Who found Uranus in 1781", "where did Caroline Herschel live"]
    (found,) = await search_windows(index, EVERYTHING, [question])
    rows = await index.vectors.fetch(index.spaces.windows, await index.vectors.ids(index.spaces.windows))
    whole, *others = [
        {id_: float(row @ vector) for id_, row in rows.items()}
        for vector in (await index.embedder.embed_queries([question, *parts])).rows
    ]
    share = DEFAULT_SEARCH.asked_part * max(whole.values())
    expected = {
        id_: max(whole[id_], *(share * each[id_] / max(each.values()) for each in others)) for id_ in rows
    }
    scores = {hit.id: hit.score for hit in found.dense_windows}
    assert scores == pytest.approx({id_: expected[id_] for id_ in scores}, abs=1e-6)
    assert max(scores.values()) == scores[found.dense_windows[0].id]
    assert any(scores[id_] > whole[id_] + 0.1 for id_ in scores)
    (again,) = await search_windows(index, EVERYTHING, [question], SearchOptions(asked_part=0.0))
    assert {hit.id: hit.score for hit in again.dense_windows} == pytest.approx(
        {id_: whole[id_] for id_ in scores}, abs=1e-6
    )


async def test_a_named_entity_anchors_and_counts_most(corpus: Corpus) -> None:
    result = await ask(corpus, "What ferments?", entities=("Charles Messier",))
    assert result.subgraph.seeds[0].entity.name == "Charles Messier"
    assert result.subgraph.seeds[0].score == 1.0
    assert "Charles Messier catalogued nebulae in Paris." in result.context.text


async def test_an_entity_may_be_given_by_ref(corpus: Corpus) -> None:
    result = await ask(corpus, "x", entities=("e-uranus",))
    assert result.subgraph.seeds[0].entity.name == "Uranus"


async def test_a_cluster_may_be_an_anchor(corpus: Corpus) -> None:
    for ranking in RANKINGS:
        result = await ask(corpus, "x", entities=("Fermentation",), seeds=1, ranking=ranking)
        assert [seed.entity.name for seed in result.subgraph.seeds] == ["Fermentation"]
        assert "yeast into wort" in result.context.text


async def test_a_heuristic_description_is_no_statement_beside_the_passages_that_it_quotes(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    query: dict[str, Any] = {"entities": ("Fermentation",), "seeds": 1}
    assert "brings together" not in (await ask(corpus, "Fermentation", **query)).context.text
    assert corpus.hierarchy is not None
    layers = [
        Graph(tuple(replace(each, method=Method.MODEL) for each in layer.entities), layer.relations)
        for layer in corpus.hierarchy.layers
    ]
    written = await ask(
        make_corpus(corpus.texts, cite_summaries(Hierarchy(tuple(layers)))), "Fermentation", **query
    )
    assert "- Fermentation brings together" in written.context.text
    without = Query("Fermentation", **query, include_summaries=False)
    index = await make_corpus(corpus.texts, cite_summaries(Hierarchy(tuple(layers)))).index()
    assert "brings together" not in (await answer_query(index, without)).context.text


async def test_an_unknown_entity_is_an_error_that_lists_the_nearest(corpus: Corpus) -> None:
    with pytest.raises(NotFound, match="No entity is called 'Carolyn Hershel'") as caught:
        await ask(corpus, "x", entities=("Carolyn Hershel",))
    assert "Caroline Herschel" in [candidate.name for candidate in caught.value.candidates]


async def test_sub_queries_unite_their_evidence(corpus: Corpus) -> None:
    result = await ask(
        corpus,
        "What do these have in common?",
        sub_queries=("Who found Uranus?", "What does a starter hold?"),
        top_k=4,
    )
    assert "William Herschel found Uranus" in result.context.text
    assert "The starter holds wild yeast." in result.context.text
    names = {seed.entity.name for seed in result.subgraph.seeds}
    assert {"Uranus", "starter"} <= names


async def test_relations_and_passages_can_be_left_out(corpus: Corpus) -> None:
    bare = await ask(corpus, "Caroline Herschel", include_relations=False)
    assert "Written about these documents" not in bare.context.text
    assert bare.subgraph.base_relations == bare.subgraph.inter_cluster_relations == ()
    graph = await ask(corpus, "Caroline Herschel", include_sources=False)
    assert not re.search(r"^\[d\d+:c\d+\] ", graph.context.text, re.MULTILINE)
    assert "Caroline Herschel lived in Slough. [d1:c1]" in graph.context.text
    assert graph.sources == ()
    assert graph.context.cited


async def test_naive_has_passages_alone_and_says_so_if_asked_to_leave_them_out(corpus: Corpus) -> None:
    result = await ask(corpus, "Caroline Herschel", mode="naive", include_sources=False)
    assert "Written about these documents" not in result.context.text
    assert "[d1:c1] Caroline Herschel discovered" in result.context.text
    assert result.subgraph.seeds == ()
    assert result.sources
    assert any("include_sources" in warning for warning in result.warnings)


async def test_local_tells_of_the_seeds_neighbours(corpus: Corpus) -> None:
    result = await ask(
        corpus, "x", mode="local", entities=("Charles Messier",), seeds=1, include_sources=False
    )
    assert {node.name for node in result.subgraph.path} == {"Charles Messier", "nebula", "Paris"}
    # The same sentence describes both relations and the entity: it is said once.
    assert result.context.text.count("Charles Messier catalogued nebulae in Paris. [d4:c1]") == 1


async def test_global_tells_of_the_lowest_layer_whose_summaries_about_the_question_fit(
    corpus: Corpus,
) -> None:
    general = await ask(corpus, "Is it good?", mode="global", seeds=4, token_budget=110)
    assert {node.name for node in general.subgraph.path} == {"Astronomy", "Food"}
    assert [each.layer for each in general.subgraph.inter_cluster_relations] == [2]
    assert "- Astronomy brings together" in general.context.text
    assert {ranked.chunk.citation for ranked in general.sources} <= {f"d{n}:c1" for n in range(1, 8)}
    # With more room all four clusters below fit.
    roomy = await ask(corpus, "Is it good?", mode="global", seeds=4, token_budget=2000)
    assert {node.name for node in roomy.subgraph.path} == {
        "Sky watchers",
        "Heavenly bodies",
        "Towns",
        "Fermentation",
    }
    # A narrow question is about one of them, which fits where four do not.
    narrow = await ask(corpus, "fermentation of wort into beer", mode="global", seeds=4, token_budget=110)
    assert {node.layer for node in narrow.subgraph.path} == {1}
    assert narrow.subgraph.path[0].name == "Fermentation"
    # The caller may want more summaries than a high layer has.
    finer = await ask(corpus, "Is it good?", mode="global", seeds=8, token_budget=110)
    assert {node.layer for node in finer.subgraph.path} == {1}


async def test_a_detailed_context_tells_findings(corpus: Corpus) -> None:
    assert corpus.hierarchy is not None
    result = await ask(corpus, "Caroline Herschel", detailed=True, token_budget=4000)
    plain = await ask(corpus, "Caroline Herschel", token_budget=4000)
    assert result.context.tokens >= plain.context.tokens


# --- what is degraded ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_before_a_build_keywords_answer_and_say_so(unbuilt: Corpus, mode: str) -> None:
    result = await ask(unbuilt, "Who found Uranus?", mode=mode)
    assert "William Herschel found Uranus in 1781." in result.context.text
    assert result.build is BuildState.MISSING
    assert any("never built" in warning for warning in result.warnings)


async def test_before_any_document_it_is_not_ready(make_corpus: partial[Corpus]) -> None:
    with pytest.raises(NotReady, match="holds no document") as caught:
        await ask(make_corpus({}), "Who?")
    assert caught.value.needs == "documents"


async def test_a_query_of_unknown_words_is_served_by_keywords_and_says_so(corpus: Corpus) -> None:
    result = await ask(corpus, "zzz qqq")
    assert any("knows no word of 'zzz qqq'" in warning for warning in result.warnings)
    assert any("No entity" in warning for warning in result.warnings)
    assert result.sources == ()


@pytest.mark.parametrize("mode", ["naive", "global"])
async def test_a_mode_that_starts_from_no_entity_says_so(corpus: Corpus, mode: str) -> None:
    result = await ask(corpus, "stars", mode=mode, entities=("Uranus",))
    assert any(f"mode {mode} starts from none" in warning for warning in result.warnings)


@pytest.mark.parametrize("ranking", RANKINGS)
async def test_without_a_seed_plain_search_answers(corpus: Corpus, ranking: str) -> None:
    """The word stands in a passage, and in nothing that the graph says."""
    result = await ask(corpus, "seventh", ranking=ranking, filters=Filters(documents=("Uranus",)))
    assert "Uranus is the seventh planet." in result.context.text


async def test_documents_newer_than_the_build_are_found_and_said_to_be_pending(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    texts = {**corpus.texts, "News": "A new comet, named Zwicky, was seen over Slough by Caroline Herschel."}
    newer = make_corpus(texts, corpus.hierarchy, pending=1)
    result = await ask(newer, "Who saw the comet Zwicky?")
    assert "A new comet, named Zwicky" in result.context.text
    assert result.build is BuildState.STALE
    assert any("1 document is newer" in warning and "pending" in warning for warning in result.warnings)


async def test_entities_whose_passages_are_gone_are_no_seeds(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    fewer = make_corpus(dict(list(corpus.texts.items())[:4]), corpus.hierarchy, pending=1)
    result = await ask(fewer, "yeast starter wort beer sourdough bread Uranus")
    assert result.subgraph.seeds[0].entity.name == "Uranus"
    assert {"Sourdough", "Brewing"}.isdisjoint(fewer.texts)
    gone = {"yeast", "starter", "wort", "beer", "sourdough bread", "Edmond Halley"}
    assert gone.isdisjoint(seed.entity.name for seed in result.subgraph.seeds)


async def test_vectors_of_other_generations_are_no_entities(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    index = await make_corpus(corpus.texts, corpus.hierarchy).index()
    assert index.embedder is not None
    assert index.spaces is not None
    old = [f"old-{number}" for number in range(100)]
    rows = await index.embedder.embed(["Uranus William Herschel"] * len(old))
    await index.vectors.upsert(index.spaces.entities, old, rows)
    result = await answer_query(index, Query("Uranus William Herschel", seeds=2, ranking="paper"))
    assert {seed.entity.name for seed in result.subgraph.seeds} == {"Uranus", "William Herschel"}


async def test_a_missing_vector_index_is_said(corpus: Corpus) -> None:
    index = replace(await corpus.index(), spaces=VectorSpaces("none-a", "none-b", "none-c", "none-d"))
    result = await answer_query(index, Query("Who found Uranus?"))
    assert "William Herschel found Uranus" in result.context.text
    assert any("vector index" in warning for warning in result.warnings)


async def test_a_collection_of_one_entity_answers(make_corpus: partial[Corpus]) -> None:
    root = Entity("root", "All", layer=1, description="All there is.", members=1, mentions=1)
    only = Entity("e", "Uranus", parent_id="root", chunk_ids=("chunk-1",), description="A planet.")
    hierarchy = Hierarchy((Graph((only,), ()), Graph((root,), ())))
    corpus = make_corpus({"Uranus": "Uranus is the seventh planet."}, hierarchy)
    for mode in MODES:
        result = await ask(corpus, "Uranus", mode=mode)
        assert result.context.cited == ("d1:c1",)


# --- filters -------------------------------------------------------------------------------

FOOD_WORDS = re.compile("sourdough|yeast|starter|wort|beer|ferment|food|brew", re.IGNORECASE)


def everything_said(result: QueryResult) -> str:
    """All texts of a result that a caller may show."""
    subgraph = result.subgraph
    nodes = [*subgraph.path, *(seed.entity for seed in subgraph.seeds)]
    nodes += [node for group in subgraph.groups for node in (group.lca, *group.path, *group.seeds)]
    nodes += [subgraph.lca] if subgraph.lca else []
    texts = [text for node in nodes for text in (node.name, node.description, *node.aliases)]
    texts += [each.description for each in (*subgraph.base_relations, *subgraph.inter_cluster_relations)]
    texts += [ranked.chunk.text for ranked in result.sources]
    return "\n".join([result.context.text, *texts])


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "filters",
    [
        Filters(metadata={"field": "astronomy"}),
        Filters(documents=("Comets", "d2", "doc-3", "nebulae", "d7")),
        Filters(documents=("d1", "d2", "d3", "d4", "d5", "d6"), until="2026-01-04"),
    ],
)
async def test_nothing_of_an_excluded_document_is_said(
    corpus: Corpus, mode: str, ranking: str, filters: Filters
) -> None:
    result = await ask(
        corpus, "Slough and what is made of stars", mode=mode, ranking=ranking, filters=filters, seeds=15
    )
    assert not FOOD_WORDS.search(everything_said(result))
    assert result.context.cited
    assert not set(result.context.cited) & {"d5:c1", "d6:c1"}


async def test_a_description_shrinks_to_what_allowed_passages_say(corpus: Corpus) -> None:
    result = await ask(corpus, "Caroline Herschel", filters=Filters(documents=("Comets",)), seeds=1)
    (seed,) = result.subgraph.seeds
    assert (
        seed.entity.description
        == "Caroline Herschel discovered eight comets. Caroline Herschel lived in Slough."
    )
    assert seed.entity.chunk_ids == ("chunk-1",)


async def test_a_summary_with_any_excluded_support_gives_way_to_its_allowed_members(corpus: Corpus) -> None:
    result = await ask(
        corpus, "x", entities=("Uranus", "Charles Messier"), filters=Filters(documents=("d3", "d4")), seeds=2
    )
    assert result.subgraph.lca is not None
    assert result.subgraph.lca.name == "Cluster of Uranus, Charles Messier"
    assert "brings together" not in everything_said(result)
    assert result.subgraph.lca.description == ""


async def test_a_relation_between_clusters_with_excluded_support_is_left_out(corpus: Corpus) -> None:
    asked: dict[str, Any] = {"entities": ("Caroline Herschel", "comet", "yeast"), "seeds": 3}
    assert (await ask(corpus, "x", **asked)).subgraph.inter_cluster_relations
    allowed = Filters(documents=("Comets", "Sourdough"))
    assert not (await ask(corpus, "x", **asked, filters=allowed)).subgraph.inter_cluster_relations


async def test_a_line_cites_no_excluded_passage(corpus: Corpus) -> None:
    everything, narrow = [
        await ask(corpus, "x", entities=("Uranus", "comet"), seeds=2, mode="local", filters=filters)
        for filters in (Filters(), Filters(documents=("d3",)))
    ]
    assert {each.partition(":")[0] for each in everything.context.cited} > {"d3"}
    assert {each.partition(":")[0] for each in narrow.context.cited} == {"d3"}


async def test_a_summary_whose_support_is_all_allowed_stays(corpus: Corpus) -> None:
    result = await ask(
        corpus, "x", entities=("yeast", "wort"), filters=Filters(documents=("Sourdough", "Brewing")), seeds=2
    )
    assert "Fermentation brings together" in everything_said(result)


async def test_a_large_scope_is_searched_by_widening(corpus: Corpus) -> None:
    options = SearchOptions(exact_scope=0, window_hits=1, chunk_hits=1, entity_hits=1)
    query = "Caroline Herschel discovered eight comets and lived in Slough"
    filters = Filters(documents=("Nebulae",))
    result = await ask(corpus, query, filters=filters, seeds=1, top_k=1, search_options=options)
    assert [ranked.chunk.citation for ranked in result.sources] == ["d4:c1"]


async def test_an_entity_that_the_filters_exclude_is_left_out_with_a_warning(corpus: Corpus) -> None:
    result = await ask(corpus, "stars", entities=("yeast",), filters=Filters(documents=("Nebulae",)))
    assert "yeast" not in {seed.entity.name for seed in result.subgraph.seeds}
    assert any("exclude every passage on yeast" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (Filters(metadata={"field": "cooking"}), ["field=cooking", "all 7 documents", "astronomy, food"]),
        (Filters(metadata={"colour": "red"}), ["No document has metadata 'colour'"]),
        (Filters(since="2027-01-01"), ["since=2027-01-01", "from 2026-01-01 to 2026-01-07"]),
    ],
)
async def test_filters_that_exclude_everything_say_what_exists(
    corpus: Corpus, filters: Filters, said: list[str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await ask(corpus, "x", filters=filters)
    for part in said:
        assert part in str(caught.value)


async def test_an_unknown_document_is_an_error_that_lists_the_nearest(corpus: Corpus) -> None:
    with pytest.raises(NotFound, match="No document is called 'Nebula'") as caught:
        await ask(corpus, "x", filters=Filters(documents=("Comets", "Nebula")))
    assert caught.value.candidates[0].name == "Nebulae"


# --- bounds --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_a_query_makes_a_bounded_number_of_calls(
    corpus: Corpus, count_calls: type[CallCounter], mode: str
) -> None:
    index, calls = count_store_calls(await corpus.index(), count_calls)
    await answer_query(index, Query("Caroline Herschel and yeast in Paris", mode=mode))
    assert 0 < calls.total() < 40


async def test_an_ambiguous_entity_is_an_error_that_tells_its_bearers_apart(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    assert corpus.hierarchy is not None
    base, *above = corpus.hierarchy.layers
    twin = replace(base.entities[0], id="e-twin", name="Uranus", parent_id="e-towns", description="A town.")
    twice = Hierarchy((Graph((*base.entities, twin), base.relations), *above))
    with pytest.raises(Ambiguous) as caught:
        await ask(make_corpus(corpus.texts, twice), "x", entities=("uranus",))
    hints = {candidate.ref: candidate.hint for candidate in caught.value.candidates}
    assert set(hints) == {"e-uranus", "e-twin"}
    assert "in Heavenly bodies" in hints["e-uranus"]
    assert "in Towns" in hints["e-twin"]
    assert "A town." in hints["e-twin"]
