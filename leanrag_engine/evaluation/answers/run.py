"""Run an evaluation of answers: open its questions, its two models and its collection."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from leanrag_engine.adapters.wiring import chat_model, same_service
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput, NotReady
from leanrag_engine.core.ports import ChatModel, ProgressReport
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.datasets import Question, QuestionSet, read_file_text, read_set
from leanrag_engine.evaluation.scratch import open_scratch

from .figures import JudgedQuestion
from .judge import Judgement, JudgingPlan, judge_answers

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


@asynccontextmanager
async def _open_collection(
    settings: Settings, questions: QuestionSet | None, report: ProgressReport
) -> AsyncIterator[tuple[LeanRAG, str]]:
    if questions is not None:
        async with open_scratch(settings, questions, None, report) as scratch:
            yield scratch.engine, scratch.collection
        return
    async with await LeanRAG.open(settings) as engine:
        name = settings.collection
        if (await engine.status(name)).collection.generation is None:
            raise NotReady(
                f"Collection {name!r} was never built: all strategies would give the same answer.",
                "Ingest documents and build it first.",
                "build",
            )
        yield engine, name


async def judge_set(
    settings: Settings,
    questions: QuestionSet | None,
    plan: JudgingPlan,
    report: ProgressReport,
    note: Callable[[JudgedQuestion], None] = lambda _: None,
) -> Judgement:
    """Judge on a scratch collection of the set's passages in ``settings.data_dir``; None: on the existing collection."""
    plan.check()
    # The models come first: a missing key is reported before minutes of building.
    async with open_models(settings) as models, _open_collection(settings, questions, report) as opened:
        return await judge_answers(*opened, *models, plan, report, note)
