"""What the first passages name moves up: the order by hand, and what never changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.model import Chunk, Hit
from leanrag_engine.retrieval.request import DEFAULT_RANKING
from leanrag_engine.retrieval.search.second_hop import choose_named, raise_second_hops

PASSAGES = {
    "Harlan Airport": "Harlan Airport is two miles from a lake in Iowa.",
    "Sioux Airport": "Sioux Airport is the largest one of all.",
    "Windy Hill": "Windy Hill has a fence.",
    "Iowa": "The state became a member of the Union in 1846.",
    "History of Iowa": "Its towns grew.",
}
QUESTION = "When did the state where Harlan Airport is located become a member of the Union?"


def make_chunks(passages: Mapping[str, str]) -> list[Chunk]:
    return [Chunk(title, title, 1, text, 0, len(text), 9, title=title) for title, text in passages.items()]


def raise_in(passages: Mapping[str, str], question: str, scores: Sequence[float]) -> list[Hit]:
    chunks = {each.id: each for each in make_chunks(passages)}
    ranking = [Hit(title, score) for title, score in zip(passages, scores, strict=True)]
    return raise_second_hops(ranking, chunks, question)


def test_the_passage_about_what_the_first_one_names_moves_up_by_what_it_answers() -> None:
    hits = raise_in(PASSAGES, QUESTION, (1.0, 0.4, 0.3, 0.2, 0.1))
    assert [hit.id for hit in hits] == [
        "Harlan Airport",
        "Iowa",
        "Sioux Airport",
        "Windy Hill",
        "History of Iowa",
    ]
    scores = {hit.id: hit.score for hit in hits}
    # Of "state", "located", "become", "member" and "union", which the first passage lacks, Iowa's holds three.
    assert scores["Iowa"] == pytest.approx(min(1.0, 0.2 * math.exp(2.5 * (3 / 5 + 0.4))))
    # Half of its title is named, and it answers nothing.
    assert scores["History of Iowa"] == pytest.approx(0.1 * math.exp(2.5 * 0.25 * 0.4))


def test_of_what_the_first_passage_names_that_is_chosen_where_the_walk_was_longest() -> None:
    passages = PASSAGES | {"Two (band)": "A band.", "Cedar Rapids": "A town."}
    first, *others = make_chunks(passages)
    walk = [Hit(title, 1.0) for title in ("Cedar Rapids", "Two (band)", "Iowa")]

    def choose(question: str, linked: Sequence[str] = ()) -> str | None:
        chosen = choose_named(first, others, linked, question, walk)
        return chosen and chosen.title

    assert choose("Who joined?") == "Iowa", "Two is a plain word, Cedar Rapids not named"
    assert choose("Who joined?", ["Cedar Rapids"]) == "Cedar Rapids", "the graph knows its other names"
    assert choose("When did Iowa join?") is None


def test_what_the_question_names_itself_is_no_second_hop() -> None:
    scores = (1.0, 0.4, 0.3, 0.2, 0.1)
    hits = raise_in(PASSAGES, "How far is Harlan Airport from Iowa?", scores)
    assert [hit.score for hit in hits if hit.id == "Iowa"] == [0.2]


def test_a_passage_does_not_pass_the_one_that_names_it() -> None:
    hits = raise_in(PASSAGES, QUESTION, (1.0, 0.99, 0.98, 0.97, 0.96))
    assert hits[0].id == "Harlan Airport"
    assert hits[1] == Hit("Iowa", 1.0)


def test_passages_of_one_title_do_not_raise_each_other() -> None:
    ranking = [Hit("one", 1.0), Hit("other", 0.5), Hit("third", 0.4)]
    chunks = {hit.id: Chunk(hit.id, "doc", 1, "a lake in Iowa", 0, 9, 9, title="Iowa") for hit in ranking}
    assert raise_second_hops(ranking, chunks, "Where is the lake?") == ranking


def test_a_qualifier_in_brackets_is_no_part_of_a_title_and_chinese_titles_are_found_within_runs() -> None:
    passages = {
        "机场": "机场位于爱荷华州，靠近一个湖。",
        "高山": "高山很大。",
        "爱荷华州 (州)": "1846年加入联邦。",
    }
    hits = raise_in(passages, "机场在哪里？", (1.0, 0.5, 0.45))
    assert [hit.id for hit in hits] == ["机场", "爱荷华州 (州)", "高山"]


def test_zero_switches_it_off_and_what_was_not_loaded_keeps_its_score() -> None:
    ranking = [Hit("Harlan Airport", 1.0), Hit("gone", 0.5), Hit("Iowa", 0.2)]
    chunks = {
        title: Chunk(title, title, 1, text, 0, len(text), 9, title=title) for title, text in PASSAGES.items()
    }
    assert raise_second_hops(ranking, chunks, QUESTION, replace(DEFAULT_RANKING, hop=0.0)) == ranking
    assert raise_second_hops(ranking, chunks, QUESTION)[1:] == [Hit("Iowa", 1.0), Hit("gone", 0.5)]


titles = st.text("ab ()湖", max_size=8)


@given(st.lists(st.tuples(titles, titles, st.floats(0, 1)), max_size=8), titles)
def test_no_score_falls_no_passage_is_lost_and_the_first_score_is_the_highest(
    passages: list[tuple[str, str, float]], question: str
) -> None:
    ranking = sorted(
        (Hit(str(number), score) for number, (_, _, score) in enumerate(passages)), key=lambda hit: -hit.score
    )
    chunks = {
        str(number): Chunk(str(number), "doc", 1, text, 0, len(text), 1, title=title)
        for number, (title, text, _) in enumerate(passages)
    }
    before = {hit.id: hit.score for hit in ranking}
    hits = raise_second_hops(ranking, chunks, question)
    after = {hit.id: hit.score for hit in hits}
    assert after.keys() == before.keys()
    assert all(after[id_] >= before[id_] for id_ in before)
    assert [hit.score for hit in hits] == sorted(after.values(), reverse=True)
    assert max(after.values(), default=0) == max(before.values(), default=0)
