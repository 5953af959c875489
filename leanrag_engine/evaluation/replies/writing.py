"""Have a model, or the calling agent by a worksheet, write questions on the documents of a reply set; check them and keep them in it."""

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.adapters.wiring import chat_model, compose
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import CapReached, InvalidInput, LeanRAGError, ReplyUnusable
from leanrag_engine.core.model import CheckedObject, Chunk, DocumentSource, JsonObject, content_id
from leanrag_engine.core.ports import ChatModel, ChatRequest, Progress, ProgressReport, Reply, Tokenizer
from leanrag_engine.core.runtime.replacement import write_output
from leanrag_engine.core.text.cleaning import fence
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import expand, load
from leanrag_engine.evaluation.datasets import read_file_text
from leanrag_engine.evaluation.scratch import open_existing
from leanrag_engine.llm.batching import Meter, Task, TaskKind, ask_each, for_each, quote
from leanrag_engine.llm.cache import Budget, Caps, ModelWrapper, TokenScale, Usage, count_prompt
from leanrag_engine.llm.item_schema import TEXT, find_faults, join_faults, object_schema
from leanrag_engine.llm.prompts import Prompts

from .reply_set import EXPECTED, QUESTIONS_FILE, find_documents, read_questions

# On which passages questions are written, and which facts count.
_PASSAGE_TOKENS = 600
_FEWEST_TOKENS = 30  # A shorter passage, such as a heading alone, gets no question
_COMMON = 0.1  # A fact that stands in more than this share of the passages, and in more than `_SEVERAL`, tells nothing
_SEVERAL = 3
_FACT_CHARACTERS = 200


QUESTION_SCHEMA = object_schema(
    {
        "question": TEXT | {"maxLength": 500},
        "answer": TEXT,
        "facts": {
            "type": "array",
            "items": TEXT | {"maxLength": _FACT_CHARACTERS},
            "minItems": 1,
            "maxItems": 5,
        },
        "queries": {"type": "array", "items": TEXT, "maxItems": 5},
    },
    optional=["queries"],
)
"""The form of one question."""


@dataclass(frozen=True, slots=True)
class SourcePassage:
    """A passage on which a question is written. ``id`` is made of its text."""

    id: str
    document: str
    text: str


@dataclass(frozen=True)
class SourceCorpus:
    """The passages of a set's documents, in order, and the documents that could not be read, each with the reason."""

    passages: tuple[SourcePassage, ...]
    failed: tuple[str, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, SourcePassage]:
        return {each.id: each for each in self.passages}

    @cached_property
    def lines(self) -> Sequence[str]:
        return [" ".join(each.text.split()) for each in self.passages]

    def in_even_order(self) -> list[SourcePassage]:
        """Return the passages in an order of which every beginning is spread evenly over the documents."""
        # Multiples of the golden ratio, without their whole parts, lie evenly however many there are.
        golden = (5**0.5 - 1) / 2
        order = sorted(range(len(self.passages)), key=lambda place: place * golden % 1)
        return [self.passages[place] for place in order]


@dataclass(frozen=True, slots=True)
class WrittenQuestion:
    """A question with the facts that its answer needs, all of them verbatim in ``passage``."""

    passage: SourcePassage
    text: str
    answer: str
    facts: tuple[str, ...]
    queries: tuple[str, ...] = ()

    def as_row(self, author: str) -> dict[str, object]:
        """Return the row of a reply set; what reply sets do not need is for people."""
        return {
            "id": self.passage.id,
            "question": self.text,
            "answer": self.answer,
            "facts": [{"any": [pattern_of(fact)], "evidence": fact} for fact in self.facts],
            "queries": list(self.queries),
            "document": self.passage.document,
            "author": author,
        }


@dataclass(slots=True)
class QuestionFile:
    """The questions of a reply set and what was rejected for it, stored after every change. Rows that others wrote stay as they are."""

    path: Path
    content: dict[str, Any]
    asked: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the file of a set; neither that nor its folder need exist. Raises ``InvalidInput`` if it is no reply set."""
        path = folder / QUESTIONS_FILE
        if not path.exists():
            return cls(path, {"questions": [], "rejected": []})
        questions, content = read_questions(path)
        if not isinstance(content.setdefault("rejected", []), list):
            raise InvalidInput(f'"rejected" in {path} is no list.', "Remove it.")
        return cls(path, content, {fold_case(each.text) for each in questions})

    @property
    def written(self) -> int:
        """The number of questions with facts."""
        return sum(bool(each["facts"]) for each in self.content["questions"])

    @property
    def done(self) -> set[str]:
        """The ids of the passages that have a question or whose question was rejected."""
        rows = [*self.content["questions"], *self.content["rejected"]]
        return {str(each.get("id", "")) for each in rows if isinstance(each, dict)}

    def add(self, question: WrittenQuestion, author: str) -> None:
        """Store a question. Raises ``ReplyUnusable`` if the set asks it already."""
        key = fold_case(question.text)
        if key in self.asked:
            raise ReplyUnusable(f"The set asks {quote(question.text)} already.")
        self.asked.add(key)
        self.content["questions"].append(question.as_row(author))
        self._store()

    def reject(self, passage: SourcePassage, reason: str) -> None:
        """Store that no usable question was written on a passage, so that it is not asked for again."""
        self.content["rejected"].append({"id": passage.id, "document": passage.document, "reason": reason})
        self._store()

    def _store(self) -> None:
        """Replace the file at once: a process that is killed leaves the old or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_output(self.path, json.dumps(self.content, ensure_ascii=False, indent=1).encode("utf-8"))


def read_corpus(folder: Path, settings: Settings) -> SourceCorpus:
    """Return the passages of a set's documents. Raises ``InvalidInput`` if there is none."""
    tokenizer, max_bytes = TiktokenTokenizer(), settings.max_document_mb * 2**20
    found: list[tuple[str, Chunk]] = []
    failed = []
    for path in expand(str(find_documents(folder)), allowed=None).files:
        try:
            document = load(DocumentSource(path=str(path)), allowed=None, max_bytes=max_bytes)
        except LeanRAGError as problem:
            failed.append(f"{path.name}: {problem.message}")
            continue
        passages = chunk(document, tokenizer=tokenizer, max_tokens=_PASSAGE_TOKENS, overlap=0)
        found += ((document.title, each) for each in passages)
    return _make_corpus(str(folder), found, failed)


async def read_collection(settings: Settings) -> SourceCorpus:
    """Return the passages of the collection of the settings as it has them. Raises as ``open_existing``, and ``InvalidInput``."""
    async with open_existing(settings, adapters := await compose(settings)) as held:
        chunks = await adapters.documents.all_chunks(held.collection)
    return _make_corpus(f"collection {settings.collection!r}", [(each.title, each) for each in chunks])


def _make_corpus(where: str, found: Iterable[tuple[str, Chunk]], failed: Sequence[str] = ()) -> SourceCorpus:
    passages = {
        id_: SourcePassage(id_, title, each.text)
        for title, each in found
        if each.tokens >= _FEWEST_TOKENS and (id_ := content_id("q", each.text))
    }
    if not passages:
        why = f" {'; '.join(failed)}" if failed else ""
        raise InvalidInput(
            f"No document of {where} has a passage of at least {_FEWEST_TOKENS} tokens.{why}", EXPECTED
        )
    return SourceCorpus(tuple(passages.values()), tuple(failed))


def read_question(corpus: SourceCorpus, passage: SourcePassage, item: JsonObject) -> WrittenQuestion:
    """Check one written question. Raises ``ReplyUnusable`` with everything that is wrong with it."""
    checked: CheckedObject = {key: each for key, each in item.items() if key in QUESTION_SCHEMA["properties"]}
    if faults := find_faults(QUESTION_SCHEMA, checked):
        raise ReplyUnusable(join_faults(faults))
    question = WrittenQuestion(
        passage,
        " ".join(checked["question"].split()),
        " ".join(checked["answer"].split()),
        tuple(" ".join(each.split()) for each in checked["facts"]),
        tuple(" ".join(each.split()) for each in checked.get("queries", [])),
    )
    problems = [
        f"facts[{place}] {quote(fact)} {problem}"
        for place, fact in enumerate(question.facts)
        if (problem := _find_problem(corpus, question, place))
    ]
    if problems:
        raise ReplyUnusable(join_faults(problems))
    return question


def _find_problem(corpus: SourceCorpus, question: WrittenQuestion, place: int) -> str:
    """Return what is wrong with a fact; "" if nothing is."""
    pattern = re.compile(pattern_of(question.facts[place]), re.IGNORECASE)
    if not pattern.search(" ".join(question.passage.text.split())):
        return "does not stand in the passage word for word"
    if pattern.search(question.text):
        return "stands in the question already"
    if any(pattern.search(other) for other in question.facts[:place]):
        return "is said by an earlier one already"
    count = sum(pattern.search(line) is not None for line in corpus.lines)
    if count > max(_SEVERAL, _COMMON * len(corpus.lines)):
        return f"stands in {count} of {len(corpus.lines)} passages; take a longer or rarer one"
    return ""


def pattern_of(fact: str) -> str:
    """Return an expression that matches the fact, as whole words where its script divides words."""
    line = " ".join(fact.split())
    before = r"\b" if line[0].isalnum() and not has_cjk(line[0]) else ""
    after = r"\b" if line[-1].isalnum() and not has_cjk(line[-1]) else ""
    return f"{before}{re.escape(line)}{after}"


# --- writing --------------------------------------------------------------------------------

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
    """Return a worksheet with a passage for each question that the set lacks of ``number``. Raises ``InvalidInput`` if there is none."""
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
    """Add a worksheet's filled results to the set, and say what is wrong with the others. Raises ``InvalidInput`` if it is no worksheet."""
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
