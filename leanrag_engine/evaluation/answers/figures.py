"""What the verdicts come to: means and spreads of scores, shares of wins, and how far the order of sides decided."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from leanrag_engine.evaluation.datasets import Question
from leanrag_engine.evaluation.metrics import bootstrap_difference, mean
from leanrag_engine.llm.answering import Answer

from .rubric import MEASURES, Choices, Scores

EVEN = 0.5


@dataclass(frozen=True, slots=True)
class Duel:
    """One vote on two answers, asked in both orders: ``ahead`` with the first strategy's answer as Answer 1.

    An order whose verdict was lost is ``None``.
    """

    ahead: Choices | None
    behind: Choices | None

    def share(self, measure: str) -> float | None:
        """1 if the first strategy won in both orders, 0 if in none, a half if the order decided;
        ``None`` without both verdicts."""
        if self.ahead is None or self.behind is None:
            return None
        return ((self.ahead[measure].winner == 1) + (self.behind[measure].winner == 2)) / 2  # noqa: PLR2004 - the places


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """All that was written and judged on one question, by strategy.

    ``answers`` are ``None`` where none came. ``scores`` has one item for each vote, in their order, ``None``
    where it was lost. ``duels`` are against the first strategy, for each vote; of strategies whose context was
    the same as the first one's (``same``) there are none, as their answer is the same too.
    """

    question: Question
    tokens: dict[str, int]
    answers: dict[str, Answer | None]
    scores: dict[str, tuple[Scores | None, ...]]
    duels: dict[str, tuple[Duel, ...]]
    same: frozenset[str]


@dataclass(frozen=True, slots=True)
class Grade:
    """``mean`` over questions of the mean over votes. ``spread`` is the standard deviation between votes: of
    the means over questions that each round of votes gives (the paper's ±), with n - 1; ``None`` for one round.
    ``votes`` is the number of scores that came."""

    mean: float
    spread: float | None
    votes: int


@dataclass(frozen=True, slots=True)
class Wins:
    """How the first strategy does against another, in percent, with the bounds of 95 % of resamples over questions.

    ``flips`` is the share of votes whose winner changed with the sides, ``first`` the share of verdicts
    for the answer that stood first: 50 is fair. ``votes`` is the number of votes with both verdicts.
    """

    share: float
    low: float
    high: float
    flips: float | None
    first: float | None
    votes: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What one strategy's answers are like without any judge. Shares in percent.

    ``cited`` answers cite their context; ``unfounded`` is the share of citations that do not stand in it;
    ``found`` the share of answers that hold the set's own answer, ``None`` where the set has none.
    """

    answers: int
    context_tokens: float
    cited: float
    unfounded: float
    found: float | None


def grades(sittings: Sequence[JudgedQuestion], strategy: str) -> dict[str, Grade]:
    """By measure; without those that no vote came for."""
    held = [sitting.scores.get(strategy, ()) for sitting in sittings]
    return {measure: grade for measure in MEASURES if (grade := _grade(held, measure))}


def _grade(held: Sequence[Sequence[Scores | None]], measure: str) -> Grade | None:
    by_question = [[vote[measure].value for vote in votes if vote is not None] for votes in held]
    means = [mean(values) for values in by_question if values]
    if not means:
        return None
    rounds = _rounds(held, measure)
    spread = statistics.stdev(rounds) if len(rounds) > 1 else None
    return Grade(mean(means), spread, sum(map(len, by_question)))


def _rounds(held: Sequence[Sequence[Scores | None]], measure: str) -> list[float]:
    """For each round of votes the mean over the questions that have all their votes, so that rounds compare;
    over whatever came where no question has all."""
    most = max(map(len, held), default=0)
    complete = [votes for votes in held if len(votes) == most and None not in votes] or held
    rounds = [
        [
            vote[measure].value
            for votes in complete
            if place < len(votes) and (vote := votes[place]) is not None
        ]
        for place in range(most)
    ]
    return [mean(values) for values in rounds if values]


def wins(sittings: Sequence[JudgedQuestion], strategy: str) -> dict[str, Wins]:
    """The first strategy against ``strategy``, by measure; equal contexts count as even. Empty if nothing came."""
    return {measure: found for measure in MEASURES if (found := _wins(sittings, strategy, measure))}


def _wins(sittings: Sequence[JudgedQuestion], strategy: str, measure: str) -> Wins | None:
    shares, votes = [], []
    for sitting in sittings:
        duels = sitting.duels.get(strategy, ())
        decided = [share for duel in duels if (share := duel.share(measure)) is not None]
        votes += decided
        if strategy in sitting.same or decided:
            shares.append(mean(decided) if decided else EVEN)
    if not shares:
        return None
    interval = bootstrap_difference(shares, [EVEN] * len(shares))
    firsts = [first for sitting in sittings for first in _firsts(sitting.duels.get(strategy, ()), measure)]
    return Wins(
        share=100 * mean(shares),
        low=100 * (EVEN + interval.low),
        high=100 * (EVEN + interval.high),
        flips=100 * mean([share == EVEN for share in votes]) if votes else None,
        first=100 * mean(firsts) if firsts else None,
        votes=len(votes),
    )


def _firsts(duels: Sequence[Duel], measure: str) -> list[bool]:
    """Of every verdict whether the answer that stood first won, of the votes with both orders."""
    whole = [(duel.ahead, duel.behind) for duel in duels]
    return [each[measure].winner == 1 for pair in whole if None not in pair for each in pair if each]


def overview(sittings: Sequence[JudgedQuestion], strategy: str) -> Overview:
    answered = [
        (sitting, answer) for sitting in sittings if (answer := sitting.answers.get(strategy)) is not None
    ]
    answers = [answer for _, answer in answered]
    citations = sum(len(each.cited) + len(each.unfounded) for each in answers)
    known = [(sitting, answer) for sitting, answer in answered if sitting.question.answers]
    return Overview(
        answers=len(answers),
        context_tokens=mean([sitting.tokens[strategy] for sitting in sittings if strategy in sitting.tokens]),
        cited=100 * mean([bool(each.cited) for each in answers]),
        unfounded=100 * sum(len(each.unfounded) for each in answers) / citations if citations else 0.0,
        found=100 * mean([holds(answer.text, sitting.question.answers) for sitting, answer in known])
        if known
        else None,
    )


def holds(text: str, answers: Sequence[str]) -> bool:
    """Whether one of ``answers`` stands in ``text`` as whole words, whatever the case and punctuation."""
    words = f" {_words(text)} "
    return any(f" {_words(each)} " in words for each in answers if _words(each))


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
