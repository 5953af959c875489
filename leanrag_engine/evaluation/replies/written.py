"""Check the questions that a model or an agent writes on documents, and keep them in a reply set."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from leanrag_engine.core.errors import InvalidInput, LeanRAGError, ReplyUnusable
from leanrag_engine.core.model import CheckedObject, DocumentSource, JsonObject, content_id
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.core.runtime.replacement import write_output
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import expand, load
from leanrag_engine.llm.batching import quote
from leanrag_engine.llm.item_schema import TEXT, find_faults, join_faults, object_schema

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
        """Open the file of a set, which need not exist. Raises ``InvalidInput`` if it is no reply set."""
        path = folder / QUESTIONS_FILE
        find_documents(folder)
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
        row = {"id": passage.id, "document": passage.document, "reason": reason}
        self.content["rejected"].append(row)
        self._store()

    def _store(self) -> None:
        """Replace the file at once: a process that is killed leaves the old or the new one."""
        write_output(self.path, json.dumps(self.content, ensure_ascii=False, indent=1).encode("utf-8"))


def read_corpus(folder: Path, tokenizer: Tokenizer, max_bytes: int) -> SourceCorpus:
    """Return the passages of a set's documents. Raises ``InvalidInput`` if there is none."""
    passages: dict[str, SourcePassage] = {}
    failed = []
    for path in expand(str(find_documents(folder)), allowed=None).files:
        try:
            document = load(DocumentSource(path=str(path)), allowed=None, max_bytes=max_bytes)
        except LeanRAGError as problem:
            failed.append(f"{path.name}: {problem.message}")
            continue
        for each in chunk(document, tokenizer=tokenizer, max_tokens=_PASSAGE_TOKENS, overlap=0):
            if each.tokens >= _FEWEST_TOKENS:
                id_ = content_id("q", each.text)
                passages.setdefault(id_, SourcePassage(id_, document.title, each.text))
    if not passages:
        why = f" {'; '.join(failed)}" if failed else ""
        raise InvalidInput(
            f"No document of {folder} has a passage of at least {_FEWEST_TOKENS} tokens.{why}", EXPECTED
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
    fact = question.facts[place]
    pattern = re.compile(pattern_of(fact), re.IGNORECASE)
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
