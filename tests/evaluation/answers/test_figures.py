"""What verdicts come to, against figures worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from leanrag_engine.evaluation.answers.figures import Duel, JudgedQuestion, grades, overview, wins
from leanrag_engine.evaluation.answers.rubric import MEASURES, Choice, Choices, Score, Scores
from leanrag_engine.evaluation.datasets import Question
from leanrag_engine.evaluation.retrieval.run import holds_any
from leanrag_engine.llm.answering import Answer


def make_scores(value: float | None) -> Scores | None:
    return None if value is None else {measure: Score(value, "r") for measure in MEASURES}


def make_choices(winner: int) -> Choices:
    return {measure: Choice(winner, "r") for measure in MEASURES}


def make_question(
    number: int,
    votes: Sequence[float | None] = (),
    duels: Sequence[Duel] = (),
    same: frozenset[str] = frozenset(),
    answer: Answer | None = None,
    gold: tuple[str, ...] = (),
) -> JudgedQuestion:
    return JudgedQuestion(
        Question(f"q{number}", "?", gold),
        tokens={"lca": 100 * number},
        answers={"lca": answer},
        scores={"lca": tuple(map(make_scores, votes))},
        duels={"naive": tuple(duels)},
        same=same,
    )


def test_known_scores_give_the_known_mean_and_spread() -> None:
    # Rounds of votes: (8 + 6) / 2 = 7, (9 + 7) / 2 = 8, (7 + 5) / 2 = 6; their mean 7, their deviation 1.
    grade = grades([make_question(1, [8, 9, 7]), make_question(2, [6, 7, 5])], "lca")["overall"]
    assert (grade.mean, grade.spread, grade.votes) == (7, 1, 6)


def test_one_question_has_the_deviation_of_its_votes() -> None:
    grade = grades([make_question(1, [7, 8, 9, 8, 8])], "lca")["overall"]
    assert grade.mean == 8
    assert grade.spread == pytest.approx(math.sqrt(0.5))


def test_one_vote_has_no_spread_and_equal_votes_have_none() -> None:
    assert grades([make_question(1, [7])], "lca")["overall"].spread is None
    assert grades([make_question(1, [7, 7, 7])], "lca")["overall"].spread == 0


def test_a_lost_vote_weighs_nothing() -> None:
    # Question 1 keeps its mean over the votes that came; questions weigh the same whatever they lost.
    grade = grades([make_question(1, [4, None, None]), make_question(2, [8, 8, 8])], "lca")["overall"]
    assert (grade.mean, grade.votes) == (6, 4)
    # Rounds are compared over the questions that have all of them.
    assert grade.spread == 0


def test_no_vote_at_all_gives_no_grade() -> None:
    assert grades([make_question(1, [None, None]), make_question(2, [])], "lca") == {}


def test_a_judge_that_always_takes_the_first_side_decides_nothing() -> None:
    found = wins(
        [make_question(number, duels=[Duel(make_choices(1), make_choices(1))] * 5) for number in range(4)],
        "naive",
    )
    for each in found.values():
        assert (each.share, each.flips, each.first, each.votes) == (50, 100, 100, 20)
        assert (each.low, each.high) == (50, 50)


def test_a_judge_that_takes_the_last_side_decides_nothing_either() -> None:
    each = wins([make_question(1, duels=[Duel(make_choices(2), make_choices(2))])], "naive")["overall"]
    assert (each.share, each.flips, each.first) == (50, 100, 0)


def test_a_judge_that_means_it_flips_never() -> None:
    always = Duel(make_choices(1), make_choices(2))  # the first strategy wins, wherever it stands
    never = Duel(make_choices(2), make_choices(1))
    each = wins([make_question(1, duels=[always, always]), make_question(2, duels=[always, never])], "naive")[
        "overall"
    ]
    assert (each.share, each.flips, each.first, each.votes) == (75, 0, 50, 4)


def test_a_vote_with_one_lost_verdict_counts_in_neither_order() -> None:
    half = Duel(make_choices(1), None)
    assert wins([make_question(1, duels=[half, Duel(None, None)])], "naive") == {}
    each = wins([make_question(1, duels=[half, Duel(make_choices(2), make_choices(1))])], "naive")["overall"]
    assert (each.share, each.votes, each.first) == (0, 1, 50)


def test_equal_contexts_are_no_comparison() -> None:
    each = wins(
        [
            make_question(1, duels=[Duel(make_choices(1), make_choices(2))]),
            make_question(2, same=frozenset({"naive"})),
        ],
        "naive",
    )
    assert each["overall"].share == 100
    assert each["overall"].votes == 1
    assert not wins([make_question(1, same=frozenset({"naive"}))], "naive")


def test_the_overview_counts_citations_and_answers_that_are_right() -> None:
    results = [
        make_question(
            1, answer=Answer("It was Ada Lovelace.", ("d1:c1", "d2:c1"), ("d9:c9",)), gold=("Ada Lovelace",)
        ),
        make_question(2, answer=Answer("Nobody knows.", (), ("d7:c1",)), gold=("Babbage",)),
        make_question(3, answer=None, gold=("x",)),
    ]
    found = overview(results, "lca")
    assert (found.answers, found.cited, found.unfounded, found.found) == (2, 50, 50, 50)
    assert found.context_tokens == 200
    assert overview([make_question(1, answer=Answer("x", (), ()))], "lca").found is None


@pytest.mark.parametrize(
    ("text", "gold", "expected"),
    [
        ("In 1844, it was lit.", "1844", True),
        ("the BELL-ROCK lighthouse", "Bell Rock", True),
        ("category theory", "cat", False),
        ("東京 です", "東京", True),
        ("anything", "", False),
        ("anything", "...", False),
    ],
)
def test_an_answer_is_right_if_it_contains_the_set_s_answer_as_words(
    text: str, gold: str, expected: bool
) -> None:
    assert holds_any(text, [gold]) is expected
