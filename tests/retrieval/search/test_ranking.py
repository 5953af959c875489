"""The paper's rule by hand, and what spreading promises."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Chunk, Entity, Hit, Relation
from leanrag_engine.retrieval.graph.adjacency_cache import make_adjacency
from leanrag_engine.retrieval.request import DEFAULT_RANKING, RankingOptions
from leanrag_engine.retrieval.search.ranking import (
    RankingInput,
    contenders,
    rank_by_seed_count,
    rank_by_spreading,
    restart_weights,
    seed_counts,
)
from leanrag_engine.retrieval.search.relevance import QueryWords


def chunk(id_: str, citation: str) -> Chunk:
    document, _, number = citation[1:].partition(":c")
    return Chunk(id_, f"doc{document}", int(number), "text", 0, 4, 1, citation=citation)


def seed(name: str, *chunk_ids: str) -> Entity:
    return Entity(name, name, chunk_ids=chunk_ids)


def test_the_papers_ranking_by_hand() -> None:
    """Counts: b 3, a and c 2, d and e 1. a is more similar than c, though c is read first; of d and e, whose
    similarity is unknown, d is read first."""
    seeds = [seed("x", "a", "b", "e"), seed("y", "b", "c", "d"), seed("z", "a", "b", "c")]
    chunks = [
        chunk("a", "d2:c1"),
        chunk("b", "d9:c9"),
        chunk("c", "d1:c4"),
        chunk("d", "d3:c2"),
        chunk("e", "d3:c10"),
    ]
    counts = seed_counts(seeds)
    assert counts == {"a": 2, "b": 3, "e": 1, "c": 2, "d": 1}
    ranked = rank_by_seed_count(counts, {"a": 0.7, "c": 0.1}, chunks, 5)
    assert [(hit.id, hit.score) for hit in ranked] == [("b", 3), ("a", 2), ("c", 2), ("d", 1), ("e", 1)]


@given(st.dictionaries(st.sampled_from("abcdefghij"), st.integers(1, 4)), st.integers(1, 6))
def test_contenders_are_all_that_could_be_among_the_first(counts: dict[str, int], limit: int) -> None:
    found = contenders(counts, limit)
    least = sorted(counts.values(), reverse=True)[:limit][-1] if counts else 0
    assert set(found) == {id_ for id_, count in counts.items() if count >= least}


def titled(id_: str, title: str) -> Chunk:
    return Chunk(id_, id_, 1, "text", 0, 4, 1, title=title)


BRIDGE = make_adjacency(
    [
        Graph(
            (
                Entity("e1", "Skerryvore", chunk_ids=("hop1",)),
                Entity("e2", "Alan Stevenson", chunk_ids=("hop1", "hop2")),
                Entity("e3", "Robert Stevenson", chunk_ids=("hop2",)),
                Entity("e4", "Paris", chunk_ids=("far",)),
            ),
            (
                Relation("r1", "e1", "e2", description="Alan Stevenson designed Skerryvore."),
                Relation("r2", "e2", "e3", description="Alan Stevenson was the son of Robert Stevenson."),
            ),
        )
    ],
    [
        titled("hop1", "Skerryvore"),
        titled("hop2", "Alan Stevenson"),
        titled("far", "Paris"),
        titled("new", "News"),
    ],
)


def walk(searched: RankingInput, options: RankingOptions = DEFAULT_RANKING) -> list[str]:
    return [hit.id for hit in rank_by_spreading(BRIDGE, searched, options)]


def test_spreading_reaches_the_second_hop_before_what_is_unrelated() -> None:
    order = walk(RankingInput((Hit("e1", 1.0),), (), ()))
    assert order[:2] == ["hop1", "hop2"]
    assert "far" not in order[:2]


def test_a_chunk_that_the_graph_does_not_know_keeps_the_place_that_search_gives_it() -> None:
    searched = RankingInput((Hit("e1", 1.0),), (Hit("new", 0.9), Hit("hop1", 0.2)), (Hit("new", 5.0),))
    assert walk(searched)[0] == "new"
    later = RankingInput((Hit("e1", 1.0),), (Hit("hop1", 0.9), Hit("new", 0.2)), ())
    assert walk(later) == ["hop1", "new", "hop2"]


def test_without_seeds_search_alone_orders_what_the_graph_knows() -> None:
    order = walk(RankingInput((), (Hit("far", 0.9), Hit("hop1", 0.3)), (Hit("far", 3.0),)))
    assert order[0] == "far"


def test_what_search_found_and_the_walk_did_not_reach_comes_last() -> None:
    assert walk(RankingInput((Hit("e1", 1.0),), (), (Hit("far", 1.0),)))[-1] == "far"


def test_what_is_nearer_comes_first_of_passages_that_the_walk_likes_equally() -> None:
    twins = make_adjacency(
        [Graph((Entity("e", "Skerryvore", chunk_ids=("one", "two")),), ())],
        [titled("one", "First"), titled("two", "Second")],
    )
    for best in ("one", "two"):
        unequal = tuple(Hit(id_, 0.9 if id_ == best else 0.3) for id_ in ("one", "two"))
        ranked = rank_by_spreading(twins, RankingInput((Hit("e", 1.0),), unequal, ()))
        assert ranked[0].id == best
        assert ranked[0].score > ranked[1].score


@pytest.mark.parametrize("sharpness", [1.0, 6.0])
def test_the_first_seeds_start_the_walk_by_a_power_of_their_scores(sharpness: float) -> None:
    unsure = RankingInput((Hit("e4", 0.8), Hit("e1", 0.4)), (), ())
    options = replace(DEFAULT_RANKING, sharpness=sharpness)
    strong, weak = restart_weights(BRIDGE, unsure, options).values()
    assert strong / weak == pytest.approx(2**sharpness)


def test_a_long_tail_of_weak_seeds_does_not_outweigh_the_best_one() -> None:
    tail = RankingInput((Hit("e4", 1.0), *(Hit(f"e{number}", 0.6) for number in (1, 2, 3))), (), ())
    assert walk(tail)[0] == "far"
    assert walk(tail, replace(DEFAULT_RANKING, sharpness=0.0))[0] != "far"


def test_a_title_entity_draws_more_to_its_passage_than_a_mention() -> None:
    about, mentions = titled("about", "Uranus"), titled("mentions", "Pluto")
    base = Graph((Entity("e", "Uranus", chunk_ids=("about", "mentions")),), ())
    hits = rank_by_spreading(
        make_adjacency([base], [about, mentions]), RankingInput((Hit("e", 1.0),), (), ())
    )
    assert [hit.id for hit in hits] == ["about", "mentions"]
    assert hits[0].score == pytest.approx(5 * hits[1].score, rel=1e-3)


def test_under_a_filter_the_walk_ends_only_in_what_is_allowed() -> None:
    allowed = np.array([id_ in (b"hop2", b"far") for id_ in BRIDGE.chunk_ids.tolist()])
    searched = RankingInput((Hit("e1", 1.0), Hit("e3", 0.5)), (), ())
    assert [hit.id for hit in rank_by_spreading(BRIDGE, searched, allowed=allowed)] == ["hop2"]
    # The relation that leads from e1 to hop2 may rest on hop1.
    assert not rank_by_spreading(BRIDGE, RankingInput((Hit("e1", 1.0),), (), ()), allowed=allowed)


words = st.lists(st.sampled_from(["lighthouse", "lens", "beam", "keeper", "oil"]), max_size=6)


@given(st.lists(words, min_size=1, max_size=6))
def test_shared_words_weigh_by_how_few_texts_hold_them(texts: list[list[str]]) -> None:
    """Brute force: sum of log(1 + n / holders) over the query's words in each text."""
    query = ["lighthouse", "lens", "beam"]
    holders = Counter(word for text in texts for word in set(text))
    expected = [
        sum(math.log1p(len(texts) / holders[word]) for word in sorted(set(text) & set(query)))
        for text in texts
    ]
    found = QueryWords([" ".join(query)]).score([" ".join(text) for text in texts])
    assert found == pytest.approx(expected)


def test_a_word_is_found_whole_or_in_its_plural_and_cjk_anywhere() -> None:
    assert [
        score > 0 for score in QueryWords(["lens"]).score(["Lens!", "lenses", "lensing", "lens_cap"])
    ] == [True, True, False, True]
    assert QueryWords(["孔乙己"]).score(["从前有个孔乙己的故事"])[0] > 0
    assert QueryWords(["?!"]).score(["anything"]) == [0]
