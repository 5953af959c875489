"""Have a model, or the calling agent by a worksheet, write questions on the documents of a reply set."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.adapters.wiring import chat_model
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import CapReached, InvalidInput, LeanRAGError, ReplyUnusable
from leanrag_engine.core.model import JsonObject
from leanrag_engine.core.ports import ChatModel, ChatRequest, Progress, ProgressReport, Reply, Tokenizer
from leanrag_engine.core.text.fencing import fence
from leanrag_engine.evaluation.datasets import read_file_text
from leanrag_engine.llm.batching import Meter, Task, TaskKind, ask_each, for_each, quote
from leanrag_engine.llm.budget import Budget, Caps, TokenScale, Usage, count_prompt
from leanrag_engine.llm.cache import ModelWrapper
from leanrag_engine.llm.prompts import Prompts

from .written import (
    QUESTION_SCHEMA,
    QuestionFile,
    SourceCorpus,
    SourcePassage,
    WrittenQuestion,
    read_corpus,
    read_question,
)

AGENT = "agent"  # The author of what a worksheet brings


@dataclass(slots=True)
class WritingOutcome:
    """What one run added and rejected, the latter with document and reason, and what it used. ``capped``: the budget ended it."""

    added: int = 0
    rejected: list[tuple[str, str]] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)
    capped: bool = False


class CappedModel(ModelWrapper):
    """A chat model within a budget. Implements :class:`leanrag_engine.core.ports.ChatModel`."""

    def __init__(self, model: ChatModel, budget: Budget, tokenizer: Tokenizer) -> None:
        super().__init__(model)
        self._budget = budget
        self._tokenizer = tokenizer
        self._scale = TokenScale()

    async def complete(self, request: ChatRequest) -> Reply:
        """See :meth:`leanrag_engine.core.ports.ChatModel.complete`; also raises ``CapReached``, without a call."""
        counted = count_prompt(self._tokenizer, request)
        used = Usage(1, self._scale.upper_bound(counted) + request.max_tokens)
        number = await self._budget.reserve(used)
        try:
            reply = await self._model.complete(request)
            used = Usage(1, (reply.prompt_tokens or counted) + reply.completion_tokens)
            self._scale.note(counted, reply.prompt_tokens)
        finally:
            self._budget.settle(number, used)
        return reply


def open_corpus(folder: Path, settings: Settings) -> SourceCorpus:
    """Read the documents of a set. Raises ``InvalidInput`` if none has text."""
    return read_corpus(folder, TiktokenTokenizer(), settings.max_document_mb * 2**20)


@asynccontextmanager
async def open_writer(settings: Settings, tokens: int) -> AsyncIterator[ChatModel]:
    """Open the model of the settings, which may use ``tokens``. Raises ``InvalidInput`` if it cannot be called."""
    model = await chat_model(settings, settings.llm_model, settings.llm_api_base)
    try:
        yield CappedModel(model, Budget(Caps(tokens=tokens)), TiktokenTokenizer())
    finally:
        await model.close()


async def write_by_model(
    model: ChatModel,
    corpus: SourceCorpus,
    file: QuestionFile,
    number: int,
    report: ProgressReport,
    prompts: Prompts,
) -> WritingOutcome:
    """Have the model write until the set has ``number`` questions or every passage was tried. Every question is stored
    at once; a later run goes on with the passages that are left. Raises the errors of a model that cannot be called."""
    found = WritingOutcome()
    # Room for the thoughts of some models too.
    kind = TaskKind("write_question", prompts.fill("write_question"), QUESTION_SCHEMA, 1000, prompts=prompts)
    rest = [each for each in corpus.in_even_order() if each.id not in file.done]

    async def write(passage: SourcePassage) -> None:
        task = Task(
            passage.id, f"{passage.document}\n{fence(passage.text)}", partial(read_question, corpus, passage)
        )
        (answer,) = await ask_each(model, kind, [task], found.meter)
        try:
            if isinstance(answer, LeanRAGError):
                raise answer
            file.add(answer, model.name)
            found.added += 1
        except ReplyUnusable as problem:
            found.rejected.append((passage.document, problem.message))
            file.reject(passage, problem.message)
        except CapReached:
            found.capped = True
        report(Progress("write", file.written, number))

    while rest and (missing := number - file.written) > 0 and not found.capped:
        await for_each(rest[:missing], write, places=model.concurrency)
        del rest[:missing]
    return found


def make_worksheet(corpus: SourceCorpus, file: QuestionFile, number: int, prompts: Prompts) -> dict[str, Any]:
    """Return a worksheet with a passage for each question that the set lacks of ``number``. Raises
    ``InvalidInput`` if it lacks none, or every passage has one."""
    missing = number - file.written
    rest = [each for each in corpus.in_even_order() if each.id not in file.done]
    if missing <= 0 or not rest:
        raise InvalidInput(
            f"{file.path} has {file.written} questions, and {len(rest)} passages are left without one.",
            "Ask for more by --number, or add documents.",
        )
    return {
        "instructions": prompts.fill("write_question").partition("\n---\n")[0].strip()
        + "\n\nHere each passage has a result in place of a task's number: replace its null by an object of the schema. Leave "
        "null where a passage has no fact worth a question.",
        "schema": QUESTION_SCHEMA,
        "passages": [
            {"work_id": each.id, "document": each.document, "text": fence(each.text), "result": None}
            for each in rest[:missing]
        ],
    }


def take_worksheet(path: Path, corpus: SourceCorpus, file: QuestionFile) -> WritingOutcome:
    """Add the filled results of a worksheet to the set; what is wrong with the others is said and not stored.
    Raises ``InvalidInput`` if the file is no worksheet."""
    found = WritingOutcome()
    for row in _read_worksheet(path):
        id_, item = str(row.get("work_id", "")), row.get("result")
        if item is None or id_ in file.done:
            continue
        try:
            file.add(_read_result(corpus, id_, item), AGENT)
            found.added += 1
        except ReplyUnusable as problem:
            found.rejected.append((id_, problem.message))
    return found


def _read_result(corpus: SourceCorpus, work_id: str, item: object) -> WrittenQuestion:
    passage = corpus.by_id.get(work_id)
    if passage is None:
        raise ReplyUnusable(
            f"No passage has the work_id {work_id!r}: its document has changed, or it was made up."
        )
    if not isinstance(item, Mapping):
        raise ReplyUnusable(f"The result is {quote(json.dumps(item))}; expected an object.")
    return read_question(corpus, passage, item)


def _read_worksheet(path: Path) -> Sequence[JsonObject]:
    try:
        content = json.loads(read_file_text(path))
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(
            f"The worksheet {path} is not JSON: {problem}.", "Write it by --worksheet."
        ) from problem
    rows = content.get("passages") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
        raise InvalidInput(f"{path} is no worksheet: it has no list of passages.", "Write it by --worksheet.")
    return rows
