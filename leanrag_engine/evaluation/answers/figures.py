"""Aggregate verdicts: means and spreads of scores, shares of wins, and the influence of the answers' order."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from leanrag_engine.evaluation.datasets import Question
from leanrag_engine.evaluation.metrics import bootstrap_difference, mean
from leanrag_engine.evaluation.retrieval.run import holds_any
from leanrag_engine.llm.answering import Answer

from .rubric import MEASURES, Choices, Scores


@dataclass(frozen=True, slots=True)
class Duel:
    """One vote on two answers in both orders: ``ahead`` has the first strategy's as Answer 1. A lost verdict is ``None``."""

    ahead: Choices | None
    behind: Choices | None

    def share(self, measure: str) -> float | None:
        """Return 1 if the first strategy won in both orders, 0 if in none, 0.5 if the order decided; ``None`` without a verdict."""
        if self.ahead is None or self.behind is None:
            return None
        return ((self.ahead[measure].winner == 1) + (self.behind[measure].winner == 2)) / 2  # noqa: PLR2004 - the places


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """The answers and verdicts on one question, by strategy; ``None`` for what is missing or lost. ``scores`` has one item per
    vote, ``duels`` are against the first strategy; strategies with ``same`` context as that have its answer and no duels."""

    question: Question
    tokens: dict[str, int]
    answers: dict[str, Answer | None]
    scores: dict[str, tuple[Scores | None, ...]]
    duels: dict[str, tuple[Duel, ...]]
    same: frozenset[str]


@dataclass(frozen=True, slots=True)
class Grade:
    """The score of a strategy for one measure: ``mean`` over questions of the mean over votes; ``spread``,
    the standard deviation between rounds of votes (the paper's ±); ``votes``, the number of scores."""

    mean: float
    spread: float | None
    votes: int


@dataclass(frozen=True, slots=True)
class Wins:
    """The first strategy's share of wins against another, in percent, with the bounds of 95 % of resamples. ``flips`` is
    the share of votes whose winner changed with the order, ``first`` the share of verdicts for the answer in first place
    (50 is fair), ``votes`` the number of votes with both verdicts. Questions with equal contexts have no share in it."""

    share: float
    low: float
    high: float
    flips: float | None
    first: float | None
    votes: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Figures of one strategy's answers that need no judge. Shares in percent. ``cited``: answers with
    citations; ``unfounded``: citations that are not in the context; ``found``: answers with the set's own
    one; ``declined``: answers that call the evidence insufficient, which are not ``found``."""

    answers: int
    context_tokens: float
    cited: float
    unfounded: float
    found: float | None
    declined: float = 0.0


def grades(results: Sequence[JudgedQuestion], strategy: str) -> dict[str, Grade]:
    """Return the grades by measure, without those that have no vote."""
    scores = [result.scores.get(strategy, ()) for result in results]
    return {measure: grade for measure in MEASURES if (grade := _grade(scores, measure))}


def _grade(scores: Sequence[Sequence[Scores | None]], measure: str) -> Grade | None:
    by_question = [[vote[measure].value for vote in votes if vote is not None] for votes in scores]
    means = [mean(values) for values in by_question if values]
    if not means:
        return None
    rounds = _rounds(scores, measure)
    spread = statistics.stdev(rounds) if len(rounds) > 1 else None
    return Grade(mean(means), spread, sum(map(len, by_question)))


def _rounds(scores: Sequence[Sequence[Scores | None]], measure: str) -> list[float]:
    """Return for each round of votes the mean over the questions with all votes, or if there is none, over all."""
    most = max(map(len, scores), default=0)
    complete = [votes for votes in scores if len(votes) == most and None not in votes] or scores
    rounds = [
        [
            vote[measure].value
            for votes in complete
            if place < len(votes) and (vote := votes[place]) is not None
        ]
        for place in range(most)
    ]
    return [mean(values) for values in rounds if values]


def wins(results: Sequence[JudgedQuestion], strategy: str) -> dict[str, Wins]:
    """Return the first strategy's wins against ``strategy`` by measure."""
    return {measure: found for measure in MEASURES if (found := _wins(results, strategy, measure))}


def _wins(results: Sequence[JudgedQuestion], strategy: str, measure: str) -> Wins | None:
    shares, votes = [], []
    even = 0.5  # the share of a tie
    for result in results:
        duels = result.duels.get(strategy, ())
        decided = [share for duel in duels if (share := duel.share(measure)) is not None]
        votes += decided
        if decided:
            shares.append(mean(decided))
    if not shares:
        return None
    interval = bootstrap_difference(shares, [even] * len(shares))
    firsts = [first for result in results for first in _firsts(result.duels.get(strategy, ()), measure)]
    return Wins(
        share=100 * mean(shares),
        low=100 * (even + interval.low),
        high=100 * (even + interval.high),
        flips=100 * mean([share == even for share in votes]) if votes else None,
        first=100 * mean(firsts) if firsts else None,
        votes=len(votes),
    )


def _firsts(duels: Sequence[Duel], measure: str) -> list[bool]:
    """Return for each verdict of a complete vote whether the answer in first place won."""
    whole = [(duel.ahead, duel.behind) for duel in duels]
    return [each[measure].winner == 1 for pair in whole if None not in pair for each in pair if each]


def overview(results: Sequence[JudgedQuestion], strategy: str) -> Overview:
    answered = [
        (result, answer) for result in results if (answer := result.answers.get(strategy)) is not None
    ]
    answers = [answer for _, answer in answered]
    citations = sum(len(each.cited) + len(each.unfounded) for each in answers)
    right = [
        not answer.declined and holds_any(answer.text, result.question.answers)
        for result, answer in answered
        if result.question.answers
    ]
    return Overview(
        answers=len(answers),
        context_tokens=mean([result.tokens[strategy] for result in results if strategy in result.tokens]),
        cited=100 * mean([bool(each.cited) for each in answers]),
        unfounded=100 * sum(len(each.unfounded) for each in answers) / citations if citations else 0.0,
        found=100 * mean(right) if right else None,
        declined=100 * mean([answer.declined for answer in answers]),
    )
