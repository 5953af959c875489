"""Judge answers by a model, as the paper does (appendix D.3, D.4): four measures from 1 to 10, and
comparisons of two answers, here in both orders, which cancels a judge's position bias."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Self, TypeVar

from leanrag_engine.adapters.wiring import chat_model, compose, same_service
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput, ModelUnavailable, ReplyUnusable
from leanrag_engine.core.model import Context
from leanrag_engine.core.ports import ChatModel, ChatRequest, Progress, ProgressReport
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.datasets import Question, QuestionSet, read_file_text, read_set
from leanrag_engine.evaluation.retrieval.run import Strategy, parse_strategies
from leanrag_engine.evaluation.scratch import open_existing, open_scratch
from leanrag_engine.llm.answering import Answer, Answerer, answer
from leanrag_engine.llm.batching import Meter, ask, for_each
from leanrag_engine.llm.prompts import Prompts
from leanrag_engine.retrieval.request import Mode, Query, Ranking

from .figures import Duel, Grade, JudgedQuestion, Overview, Wins, grades, overview, wins
from .rubric import Choices, Scores, choice_request, read_choices, read_scores, score_request

T = TypeVar("T")

FAILURES = 8  # Consecutive unanswered calls, each after its retries, that end the evaluation

ABLATIONS = (
    Strategy("without-relations", Query("any", include_relations=False)),
    Strategy("without-chunks", Query("any", include_sources=False)),
)
"""The paper's ablations (tables 2 and 3)."""

# Tokens for the forecast: prompts with a question of usual length, and usual replies.
ANSWER_PROMPT, SCORES_PROMPT, PAIR_PROMPT = 270, 470, 390
USUAL_ANSWER, USUAL_VERDICT = 400, 250


def strategies(compare: Sequence[str]) -> tuple[Strategy, ...]:
    """Return ``lca``, and the named strategies, each once. Raises ``InvalidInput`` for other names."""
    names = [Mode.LCA.value, *compare]
    # The default ranking of the default mode is ``lca`` itself.
    return tuple(each for each in parse_strategies(names, ABLATIONS) if each.name != Ranking.SPREAD)


@dataclass(frozen=True, slots=True)
class JudgingPlan:
    """What is to be judged. The others are compared with the first strategy."""

    questions: tuple[Question, ...]
    strategies: tuple[Strategy, ...]
    votes: int = 5  # As in the paper
    budget: int = 4000
    grades: bool = True
    duels: bool = True
    open_mode: bool = False  # Whether the answerer may use what it knows; else it may decline
    temperature: float = 0.7  # Of the judge. At 0 all votes would be equal

    @property
    def answers(self) -> int:
        return len(self.questions) * len(self.strategies)

    @property
    def scores(self) -> int:
        return self.answers * self.votes if self.grades else 0

    @property
    def comparisons(self) -> int:
        """The number of comparisons: each vote takes two, one per order."""
        return len(self.questions) * (len(self.strategies) - 1) * self.votes * 2 if self.duels else 0

    @property
    def calls(self) -> int:
        return self.answers + self.scores + self.comparisons

    @property
    def input_tokens(self) -> int:
        """The estimated input tokens if contexts fill their budget and answers have the usual length."""
        return (
            self.answers * (ANSWER_PROMPT + self.budget)
            + self.scores * (SCORES_PROMPT + USUAL_ANSWER)
            + self.comparisons * (PAIR_PROMPT + 2 * USUAL_ANSWER)
        )

    @property
    def output_tokens(self) -> int:
        return self.answers * USUAL_ANSWER + (self.scores + self.comparisons) * USUAL_VERDICT

    def check(self) -> Self:
        """Return the plan. Raises ``InvalidInput`` for an invalid number and if there is nothing to judge."""
        if self.votes < 1:
            raise InvalidInput(f"{self.votes} votes judge nothing.", "Give at least 1; the paper has 5.")
        if not self.questions:
            raise InvalidInput(
                "There is no question to ask.", "Give a set with at least one question, and no limit of 0."
            )
        if not self.grades and not (self.duels and len(self.strategies) > 1):
            raise InvalidInput(
                "There is nothing to judge: no scores are wanted and nothing is compared.",
                "Ask for scores, or name what to compare.",
            )
        for question in self.questions:
            for each in self.strategies:
                each.query_for(question, self.budget).check()
        return self


@dataclass(frozen=True, slots=True)
class LostCall:
    """A call without a usable result. ``kind`` is answer, score or comparison."""

    kind: str
    question: str
    strategy: str
    reason: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of an evaluation on a ``graph``. ``answering`` and ``judging`` are the usage of the two models."""

    plan: JudgingPlan
    results: tuple[JudgedQuestion, ...]
    losses: tuple[LostCall, ...]
    answering: Meter
    judging: Meter
    graph: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.plan.strategies)

    @property
    def grades(self) -> Mapping[str, Mapping[str, Grade]]:
        """The grades by strategy, then by measure."""
        return {name: found for name in self.names if (found := grades(self.results, name))}

    @property
    def wins(self) -> Mapping[str, Mapping[str, Wins]]:
        """The first strategy's wins by the other strategy, then by measure."""
        if not self.plan.duels:
            return {}
        return {name: found for name in self.names[1:] if (found := wins(self.results, name))}

    @property
    def equal(self) -> Mapping[str, int]:
        """The number of questions for which a strategy gave the context of the first one, which is no comparison."""
        same = Counter(name for each in self.results for name in each.same)
        return {name: same[name] for name in self.names if same[name]}

    @property
    def overviews(self) -> Mapping[str, Overview]:
        return {name: overview(self.results, name) for name in self.names}

    def count_lost(self, kind: str) -> int:
        return sum(each.kind == kind for each in self.losses)


@dataclass(slots=True)
class JudgingRun:
    """An evaluation in progress: its models, their usage, and the lost calls."""

    engine: LeanRAG
    collection: str
    answerer: Answerer
    judge: ChatModel
    plan: JudgingPlan
    report: ProgressReport
    done: int = 0
    unanswered: int = 0
    judging: Meter = field(default_factory=Meter)
    losses: list[LostCall] = field(default_factory=list)

    def count(self, calls: int) -> None:
        """Count calls of the plan as done or unnecessary."""
        self.done += calls
        self.report(Progress("judge", self.done, self.plan.calls))


async def judge_answers(run: JudgingRun, note: Callable[[JudgedQuestion], None]) -> Judgement:
    """Ask every question of the collection with every strategy, and judge the answers. ``note`` is called for each finished
    question. An unusable reply loses only its own vote. Raises ``InvalidInput`` if every call would fail, ``ModelUnavailable`` if
    a service does not answer, ``ReplyUnusable`` if there is no verdict."""
    plan = run.plan

    async def judge_and_note(question: Question) -> JudgedQuestion:
        result = await judge_question(run, question)
        note(result)
        return result

    # The models limit the concurrent calls.
    results = await run_together([partial(judge_and_note, each) for each in plan.questions], 16)
    graph = (await run.engine.status(run.collection)).graph
    # In the order of the questions, not of the replies.
    place = {question.id: number for number, question in enumerate(plan.questions)}
    losses = sorted(
        run.losses, key=lambda each: (place[each.question], each.kind, each.strategy, each.reason)
    )
    found = Judgement(plan, tuple(results), tuple(losses), run.answerer.meter, run.judging, graph)
    if not found.grades and not any(each.votes for wins in found.wins.values() for each in wins.values()):
        if not losses:
            raise InvalidInput(
                "There was nothing to compare: every strategy gave the same context for every question.",
                "Compare other strategies, ask for scores, or give a larger budget.",
            )
        raise ReplyUnusable(
            f"No verdict was received; {len(losses)} calls were lost. The first: {losses[0].reason}",
            "Try the model on its own, or judge with a stronger one.",
        )
    return found


async def judge_question(run: JudgingRun, question: Question) -> JudgedQuestion:
    """Answer and judge one question. Equal contexts share one answer, which is written and graded once."""
    plan = run.plan
    contexts: dict[str, Context] = {}
    for each in plan.strategies:
        found = await run.engine.query(each.query_for(question, plan.budget), collection=run.collection)
        contexts[each.name] = found.context
    twins = first_alike({name: context.text for name, context in contexts.items()})
    own = list(dict.fromkeys(twins.values()))
    texts = await run_together([partial(_write_answer, run, question, name, contexts[name]) for name in own])
    answers = dict(zip(own, texts, strict=True))
    written = {name: given for name, given in answers.items() if given is not None}
    graded = await _grade_answers(run, question, written) if plan.grades else {}
    duels = await _compare_answers(run, question, written, own[0]) if plan.duels else {}
    # Calls that turned out to be unnecessary.
    run.count(plan.calls // len(plan.questions) - len(own) - plan.votes * (len(graded) + 2 * len(duels)))
    return JudgedQuestion(
        question,
        tokens={name: context.tokens for name, context in contexts.items()},
        answers={name: answers[twin] for name, twin in twins.items()},
        scores={name: graded[twin] for name, twin in twins.items() if twin in graded},
        duels={name: duels[twin] for name, twin in twins.items() if twin in duels},
        same=frozenset(name for name, twin in twins.items() if twin == own[0] != name),
    )


def first_alike(texts: Mapping[str, str]) -> dict[str, str]:
    """Map each name to the first one with the same text."""
    firsts: dict[str, str] = {}
    return {name: firsts.setdefault(text, name) for name, text in texts.items()}


async def _write_answer(run: JudgingRun, question: Question, name: str, context: Context) -> Answer | None:
    asking = partial(answer, run.answerer, question.text, context)
    return await _call_or_note_loss(run, ("answer", question.id, name), asking)


async def _grade_answers(
    run: JudgingRun, question: Question, answers: Mapping[str, Answer]
) -> dict[str, tuple[Scores | None, ...]]:
    async def vote(name: str, number: int) -> Scores | None:
        request = score_request(question.text, answers[name].text, run.engine.prompts)
        return await _ask_judge(run, ("score", question.id, name), request, number, read_scores)

    votes = range(run.plan.votes)
    found = await run_together([partial(vote, name, number) for name in answers for number in votes])
    return {name: tuple(each) for name, each in zip(answers, _in_rows(found, len(votes)), strict=True)}


async def _compare_answers(
    run: JudgingRun, question: Question, answers: Mapping[str, Answer], first: str
) -> dict[str, tuple[Duel, ...]]:
    """Compare the first strategy's answer with that of each other strategy that has one."""

    async def verdict(name: str, number: int, *, ahead: bool) -> Choices | None:
        sides = (answers[first].text, answers[name].text)
        request = choice_request(question.text, *(sides if ahead else sides[::-1]), run.engine.prompts)
        return await _ask_judge(run, ("comparison", question.id, name), request, number, read_choices)

    others = [name for name in answers if name != first and first in answers]
    votes = range(run.plan.votes)
    asked = product(others, votes, (True, False))
    found = await run_together([partial(verdict, name, number, ahead=ahead) for name, number, ahead in asked])
    duels = [Duel(ahead, behind) for ahead, behind in _in_rows(found, 2)]
    return {name: tuple(each) for name, each in zip(others, _in_rows(duels, len(votes)), strict=True)}


def _in_rows(items: Sequence[T], width: int) -> list[Sequence[T]]:
    return [items[start : start + width] for start in range(0, len(items), width)]


# --- calls ---------------------------------------------------------------------------------


async def _ask_judge(
    run: JudgingRun, what: tuple[str, str, str], request: ChatRequest, seed: int, read: Callable[[str], T]
) -> T | None:
    request = replace(request, temperature=run.plan.temperature, seed=seed)
    asking = partial(ask, run.judge, request, read, run.judging, run.engine.prompts)
    return await _call_or_note_loss(run, what, asking)


async def _call_or_note_loss(
    run: JudgingRun, what: tuple[str, str, str], call: Callable[[], Awaitable[T]]
) -> T | None:
    """Return the call's result, or ``None`` and note the loss; raise after ``FAILURES`` calls in a row without an answer."""
    try:
        found = await call()
    except (ReplyUnusable, ModelUnavailable) as problem:
        run.unanswered = run.unanswered + 1 if isinstance(problem, ModelUnavailable) else 0
        if run.unanswered >= FAILURES:
            raise
        run.losses.append(LostCall(*what, reason=problem.message))
        return None
    else:
        run.unanswered = 0
        return found
    finally:
        run.count(1)


async def run_together(works: Sequence[Callable[[], Awaitable[T]]], at_once: int | None = None) -> list[T]:
    """Return all results in order, running at most ``at_once`` at a time. The first error cancels the rest."""
    results: dict[int, T] = {}

    async def run(item: tuple[int, Callable[[], Awaitable[T]]]) -> None:
        number, work = item
        results[number] = await work()

    await for_each(enumerate(works), run, places=at_once or max(1, len(works)))
    return [results[number] for number in range(len(works))]


SET_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})


def read_questions(path: Path) -> tuple[Question, ...]:
    """Read the questions of a set, or of a text file's lines but blank ones and ``#``. Raises ``InvalidInput`` for none."""
    if path.suffix.lower() in SET_SUFFIXES:
        return read_set(path).questions
    asked = [(number, line.strip()) for number, line in enumerate(read_file_text(path).splitlines(), start=1)]
    found = [Question(f"line {number}", text) for number, text in asked if text and not text.startswith("#")]
    if not found:
        raise InvalidInput(f"The file {path} holds no question.", "Write one question on each line.")
    return tuple(found)


@asynccontextmanager
async def open_models(settings: Settings) -> AsyncIterator[tuple[ChatModel, ChatModel]]:
    """Open the model that answers and the one that judges, perhaps the same. Raises ``InvalidInput`` if one is missing."""
    if not settings.llm_model:
        raise InvalidInput(
            "No model is set to write the answers.",
            "Set llm_model to a litellm name, such as openai/gpt-4o-mini or ollama_chat/llama3.1.",
        )
    async with AsyncExitStack() as stack:
        answerer = judge = await chat_model(settings, settings.llm_model, settings.llm_api_base)
        stack.push_async_callback(answerer.close)
        name, address = settings.judge_model or settings.llm_model, settings.judge_api_base
        if (name, address or settings.llm_api_base) != (settings.llm_model, settings.llm_api_base):
            judge = await chat_model(settings, name, address or same_service(settings, name))
            stack.push_async_callback(judge.close)
        yield answerer, judge


async def judge_set(
    settings: Settings,
    questions: QuestionSet | None,
    plan: JudgingPlan,
    report: ProgressReport,
    note: Callable[[JudgedQuestion], None] = lambda _: None,
) -> Judgement:
    """Judge on a scratch collection of the set's passages in ``settings.data_dir``; None: on the existing collection."""
    plan.check()
    prompts = Prompts.open(settings.prompts_dir)
    # The models come first: a missing key is reported before minutes of building.
    async with (
        open_models(settings) as (model, judge),
        open_scratch(settings, questions, None, report)
        if questions
        else open_existing(settings, await compose(settings)) as held,
    ):
        answerer = Answerer(model, prompts=prompts, open_mode=plan.open_mode)
        run = JudgingRun(held.engine, held.collection, answerer, judge, plan, report)
        return await judge_answers(run, note)
