"""Ask every question of a set and measure recall, coverage, tokens and latency."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.ports import Progress, ProgressReport, ignore_progress
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.evaluation.datasets import Question, QuestionSet
from leanrag_engine.evaluation.metrics import all_at, mean, percentile, recall_at, reciprocal_rank
from leanrag_engine.evaluation.scratch import GivenGraph, ScratchCollection, open_scratch, place_of
from leanrag_engine.retrieval.context.rendering import sanitise
from leanrag_engine.retrieval.query import QueryResult
from leanrag_engine.retrieval.request import Mode, Query, Ranking

DEPTHS = (2, 5, 10)  # The ranks at which recall is reported

BUDGETS = (500, 1000, 2000, 4000)

WIDEST_BUDGET = 32_000
"""Room for all sources: the context omits nothing, so that the order of sources is that of the ranking."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named way to answer: a query without its text and budget."""

    name: str
    query: Query

    def query_for(self, question: Question, budget: int) -> Query:
        return replace(self.query, text=question.text, token_budget=budget)


def strategy(mode: str = Mode.LCA, ranking: str = Ranking.SPREAD) -> Strategy:
    """Return the strategy of a mode and a ranking. Raises ``InvalidInput`` if one of them does not exist."""
    query = Query("any", mode=mode, ranking=ranking).check()
    name = query.mode if query.ranking == Ranking.SPREAD else f"{query.mode}, {query.ranking}"
    return Strategy(str(name), query)


def parse_strategies(names: Sequence[str], more: Sequence[Strategy] = ()) -> list[Strategy]:
    """Return the strategies by name, each once: modes, rankings of mode ``lca``, ``more``. Raises ``InvalidInput`` for others."""
    known = (
        {each.value: strategy(mode=each) for each in Mode}
        | {each.value: strategy(ranking=each) for each in Ranking}
        | {each.name: each for each in more}
    )
    found = []
    for name in dict.fromkeys(filter(None, (each.strip() for each in names))):
        if name not in known:
            raise InvalidInput(f"There is no {name!r} to compare.", f"Use some of: {', '.join(known)}.")
        found.append(replace(known[name], name=name))
    if not found:
        raise InvalidInput("There is nothing to compare.", f"Name some of: {', '.join(known)}.")
    return found


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The result of one strategy for one question: ``ranked`` places of passages; ``coverage`` of gold
    passages and ``tokens`` by budget; ``seconds`` without embedding."""

    question: Question
    ranked: tuple[int, ...]
    coverage: Mapping[int, float]
    tokens: Mapping[int, int]
    seconds: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrievalFigures:
    """Means over questions. Shares are in percent, ``mrr`` from 0 to 1, latencies in milliseconds."""

    questions: int
    recall: Mapping[int, float]
    all_at_5: float
    mrr: float
    coverage: Mapping[int, float]
    tokens: Mapping[int, float]
    latency_ms_p50: float
    latency_ms_p95: float
    build_s: float

    def as_json(self) -> dict[str, object]:
        """Return the JSON object for programs, with exactly these keys."""
        return {
            **{f"recall@{depth}": round(value, 2) for depth, value in self.recall.items()},
            "all@5": round(self.all_at_5, 2),
            "mrr": round(self.mrr, 4),
            "coverage": {str(budget): round(value, 2) for budget, value in self.coverage.items()},
            "tokens": {str(budget): round(value, 1) for budget, value in self.tokens.items()},
            "latency_ms_p50": round(self.latency_ms_p50, 2),
            "latency_ms_p95": round(self.latency_ms_p95, 2),
            "build_s": round(self.build_s, 2),
        }


def check_queries(way: Strategy, budgets: Sequence[int], asked: Mapping[str, Query]) -> None:
    """Raise ``InvalidInput`` if a budget is invalid or a query, which is named by its question's id, or there is none."""
    if not asked:
        raise InvalidInput("There is no question to ask.", "Take at least one.")
    for budget in budgets:
        replace(way.query, token_budget=budget).check()
    for question, query in asked.items():
        try:
            query.check()
        except InvalidInput as problem:
            message = f"Question {question!r} cannot be asked. {problem.message}"
            raise InvalidInput(message, problem.next_step) from problem


async def ask_all(
    scratch: ScratchCollection,
    questions: QuestionSet,
    way: Strategy,
    budgets: Sequence[int] = BUDGETS,
    report: ProgressReport = ignore_progress,
) -> list[QuestionResult]:
    """Ask every question once per budget, and once with room for all sources, which gives the ranking."""
    # The latency of a query's default budget is reported, or that of the largest.
    usual = 4000
    timed = usual if usual in budgets or not budgets else max(budgets)
    # The first query opens files and caches that stay open; users wait for that only once.
    await _time_query(scratch, way.query_for(questions.questions[-1], timed))
    answered = []
    for number, question in enumerate(questions.questions):
        report(Progress(f"ask {way.name}", number, len(questions.questions)))
        answered.append(await _ask_question(scratch, questions, question, way, budgets, timed))
    report(Progress(f"ask {way.name}", len(questions.questions), len(questions.questions)))
    return answered


async def _ask_question(
    scratch: ScratchCollection,
    questions: QuestionSet,
    question: Question,
    way: Strategy,
    budgets: Sequence[int],
    timed: int,
) -> QuestionResult:
    # The timed query comes first: later ones find their rows in the caches.
    first, seconds = await _time_query(scratch, way.query_for(question, timed))
    results = {timed: first}
    for budget in budgets:
        if budget not in results:
            results[budget], _ = await _time_query(scratch, way.query_for(question, budget))
    widest, _ = await _time_query(scratch, way.query_for(question, WIDEST_BUDGET))
    texts = [questions.passages[place].text or questions.passages[place].title for place in question.gold]
    contexts = {budget: results[budget].context for budget in sorted(budgets)}
    return QuestionResult(
        question=question,
        ranked=ranking_of(widest),
        coverage={b: share_covered(each.text, texts, question.answers) for b, each in contexts.items()},
        tokens={budget: each.tokens for budget, each in contexts.items()},
        seconds=seconds,
        warnings=first.warnings,
    )


async def _time_query(scratch: ScratchCollection, query: Query) -> tuple[QueryResult, float]:
    """Return the result and the seconds that the query took without the embedding of its text."""
    scratch.watch.take()
    started = time.perf_counter()
    result = await scratch.engine.query(query, collection=scratch.collection)
    return result, time.perf_counter() - started - scratch.watch.take()


def ranking_of(result: QueryResult) -> tuple[int, ...]:
    """Return the distinct passages by the scores of their chunks; ties keep the order of the sources: the context's first."""
    ordered = sorted(result.sources, key=lambda ranked: -ranked.score)
    return tuple(dict.fromkeys(place_of(ranked.chunk.document_id) for ranked in ordered))


def figures_of(answered: Sequence[QuestionResult], build_s: float) -> RetrievalFigures:
    """Return the figures as means over the questions, all with equal weight."""
    budgets = sorted({budget for each in answered for budget in each.coverage})
    ranked = [(each.ranked, each.question.gold) for each in answered]
    milliseconds = [1000 * each.seconds for each in answered]
    return RetrievalFigures(
        questions=len(answered),
        recall={depth: 100 * mean([recall_at(*each, depth) for each in ranked]) for depth in DEPTHS},
        all_at_5=100 * mean([all_at(*each, 5) for each in ranked]),
        mrr=mean([reciprocal_rank(*each) for each in ranked]),
        coverage={budget: 100 * mean([each.coverage[budget] for each in answered]) for budget in budgets},
        tokens={budget: mean([each.tokens[budget] for each in answered]) for budget in budgets},
        latency_ms_p50=percentile(milliseconds, 50),
        latency_ms_p95=percentile(milliseconds, 95),
        build_s=build_s,
    )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of each strategy on one collection, by the strategy's name; ``scratch`` is already closed."""

    scratch: ScratchCollection
    answered: Mapping[str, Sequence[QuestionResult]]

    @property
    def figures(self) -> dict[str, RetrievalFigures]:
        return {name: figures_of(each, self.scratch.build_s) for name, each in self.answered.items()}


async def evaluate(
    settings: Settings,
    questions: QuestionSet,
    given: GivenGraph | None,
    ways: Sequence[Strategy],
    budgets: Sequence[int] = BUDGETS,
    report: ProgressReport = ignore_progress,
) -> Evaluation:
    """Build a set's collection in ``settings.data_dir`` and ask every question by each strategy. Raises ``InvalidInput`` before any work."""
    for way in ways:
        asked = {each.id: way.query_for(each, WIDEST_BUDGET) for each in questions.questions}
        check_queries(way, budgets, asked)
    async with open_scratch(settings, questions, given, report) as scratch:
        answered = {way.name: await ask_all(scratch, questions, way, budgets, report) for way in ways}
    return Evaluation(scratch, answered)


_WORDLESS = re.compile(r"[^\w]+")
_VERDICTS = frozenset(["yes", "no"])  # Answers that are not quotations from a passage


def holds_passage(context: str, text: str, answers: Iterable[str]) -> bool:
    """Return whether ``context`` holds the passage ``text`` as evidence for a question with these ``answers``: its full text
    or, if it is trimmed, the sentence with the answer. White space is ignored, and what rendering removes for safety. If no
    sentence of the passage holds the answer, only the full text counts, whose sentences may be apart from each other."""
    shown = plain(context)
    if plain(text) in shown:
        return True
    safe = sanitise(text)
    spoken = [" ".join(safe[start:end].split()) for start, end in sentences(safe)]
    telling = [sentence for sentence in spoken if holds_answer(sentence, answers)]
    return any(each in shown for each in telling) or (bool(spoken) and all(each in shown for each in spoken))


def plain(text: str) -> str:
    """Return ``text`` as a context quotes it, with single spaces."""
    return " ".join(sanitise(text).split())


def holds_answer(sentence: str, answers: Iterable[str]) -> bool:
    """Return whether the sentence has one of the answers that are quotations; see :func:`holds_any`."""
    return holds_any(sentence, (each for each in answers if _bare(each) not in _VERDICTS))


def holds_any(text: str, answers: Iterable[str]) -> bool:
    """Return whether ``text`` has one of the answers as whole words, regardless of case and punctuation."""
    words = _bare(text)
    return any(
        f" {wanted} " in f" {words} " or (has_cjk(wanted) and wanted in words)
        for wanted in filter(None, map(_bare, answers))
    )


def _bare(text: str) -> str:
    return _WORDLESS.sub(" ", clean(text).casefold()).strip()


def share_covered(context: str, texts: Sequence[str], answers: Iterable[str]) -> float:
    """Return the share of the gold ``texts`` that ``context`` holds."""
    known = tuple(answers)
    return sum(holds_passage(context, text, known) for text in texts) / len(texts)
