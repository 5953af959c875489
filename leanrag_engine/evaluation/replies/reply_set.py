"""Read and check reply sets: a folder of documents, and questions with the facts that their answers need.

A set is a folder with ``docs/`` and ``questions.json``: ``{"questions": [{"id", "question", "facts": [{"any": [regular
expression, …], "loose": [[regular expression, …], …]}], "queries": [sub-query, …]}]}``. ``any`` are the documents' own words;
``loose`` says the fact in other words too: all expressions of one list, within some sentences. Other keys, such as an answer or the evidence of a fact, are for people.
"""

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import JsonObject
from leanrag_engine.evaluation.datasets import MISSING, SetProblems, read_file_text, read_string

QUESTIONS_FILE, DOCUMENTS_FOLDER = "questions.json", "docs"

TOGETHER = 320  # Characters within which all expressions of a loose group must match: two or three sentences
_PLAIN = str.maketrans("’‘“”–—‑\u00a0", "''\"\"--- ")
_CITATION = re.compile(r"\[d\d+:c\d+\]")
_HEADING = re.compile(r"\n(?=#{2,} )")

EXPECTED = (
    'Expected a folder with docs/ and questions.json: {"questions": [{"id", "question", '
    '"facts": [{"any": [regular expression, …], "loose": [[regular expression, …], …]}], "queries": [sub-query, …]}]}; '
    '"loose" and "queries" may be left out.'
)


@dataclass(frozen=True, slots=True)
class NeededFact:
    """A fact that an answer needs: expressions for where the documents state it, any one of which suffices, and ``loose`` ones
    for any wording, of which all of one group must stand close together."""

    patterns: tuple[re.Pattern[str], ...]
    loose: tuple[tuple[re.Pattern[str], ...], ...] = ()

    def is_in(self, text: str) -> bool:
        """Return whether ``text`` states the fact, whatever its case and white space."""
        line = " ".join(text.split())
        if any(pattern.search(line) for pattern in self.patterns):
            return True
        excerpts = _plain_excerpts(text) if self.loose else ()
        return any(_stand_together(group, each) for each in excerpts for group in self.loose)


@lru_cache(maxsize=1 << 6)  # one reply is asked for many facts
def _plain_excerpts(text: str) -> tuple[str, ...]:
    """Return the parts of a reply, each from one heading to the next and on one line, with plain quotes and dashes and without citations."""
    parts = _HEADING.split(_CITATION.sub(" ", text.translate(_PLAIN)))
    return tuple(" ".join(part.split()) for part in parts if part.strip())


def _stand_together(group: Sequence[re.Pattern[str]], text: str) -> bool:
    starts = {found.start() for pattern in group for found in pattern.finditer(text)}
    return any(all(each.search(text[start : start + TOGETHER]) for each in group) for start in starts)


@dataclass(frozen=True, slots=True)
class ReplyQuestion:
    """A question with the facts that its answer needs, and its decomposition if the set has one."""

    id: str
    text: str
    facts: tuple[NeededFact, ...]
    sub_queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplySet:
    """A folder of documents, None for those of a collection, and the questions on them that need facts. ``unanswerable``
    counts the questions without facts, which are left out: no reply can be right for them."""

    name: str
    documents: Path | None
    questions: tuple[ReplyQuestion, ...]
    unanswerable: int = 0

    def first(self, count: int | None) -> Self:
        """Return the set with its first ``count`` questions, all if None."""
        return replace(self, questions=self.questions[:count])


def read_reply_set(folder: Path, *, with_documents: bool = True) -> ReplySet:
    """Read a set. Raises ``InvalidInput`` with its first problems, each with place, value and expectation."""
    folder = folder.resolve()
    path = folder / QUESTIONS_FILE
    if not path.exists():
        raise InvalidInput(f"The reply set {folder} has no file {QUESTIONS_FILE}.", EXPECTED)
    documents = find_documents(folder) if with_documents else None
    questions, _ = read_questions(path)
    if not any(question.facts for question in questions):
        raise InvalidInput(f"No question of {path} has a fact.", EXPECTED)
    asked = tuple(question for question in questions if question.facts)
    return ReplySet(folder.name, documents, asked, len(questions) - len(asked))


def read_questions(path: Path) -> tuple[list[ReplyQuestion], dict[str, Any]]:
    """Return the questions of a set's file, which may be none, and the whole content of the file. Raises
    ``InvalidInput`` with its first problems."""
    try:
        content = json.loads(read_file_text(path))
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"The question set {path} is not JSON: {problem}.", EXPECTED) from problem
    rows = content.get("questions", MISSING) if isinstance(content, dict) else content
    problems = SetProblems()
    questions: list[ReplyQuestion] = []
    if not isinstance(content, dict):
        problems.report("the file", content, "an object with questions")
    elif not isinstance(rows, list):
        problems.report("questions", rows, "a list")
    else:
        questions = [_read_question(problems, row, number) for number, row in enumerate(rows)]
        problems.report_repeated([question.id for question in questions], "question")
    problems.raise_any(path, EXPECTED)
    return questions, content


def find_documents(folder: Path) -> Path:
    """Return the folder of a set's documents. Raises ``InvalidInput`` if there is none."""
    documents = folder / DOCUMENTS_FOLDER
    if not documents.is_dir():
        raise InvalidInput(f"The reply set {folder} has no folder {DOCUMENTS_FOLDER}.", EXPECTED)
    return documents


def _read_question(problems: SetProblems, row: object, number: int) -> ReplyQuestion:
    place = f"question {number}"
    if not isinstance(row, dict):
        problems.report(place, row, "an object with question and facts")
        return ReplyQuestion(place, "", ())
    id_ = row.get("id", number)
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        problems.report(f"id of {place}", id_, "a string")
    facts = row.get("facts", MISSING)
    if not isinstance(facts, list):
        problems.report(f"facts of {place}", facts, "a list, empty if the documents do not answer it")
        facts = []
    return ReplyQuestion(
        str(id_),
        read_string(problems, row, "question", place, None),
        tuple(_read_fact(problems, fact, f"fact {at} of {place}") for at, fact in enumerate(facts)),
        tuple(_read_strings(problems, row, "queries", place)),
    )


def _read_fact(problems: SetProblems, row: object, place: str) -> NeededFact:
    if not isinstance(row, dict) or not row.get("any"):
        problems.report(place, row, 'an object with "any": [regular expression, …]')
        return NeededFact(())
    loose = row.get("loose", [])
    if not isinstance(loose, list) or not all(isinstance(each, list) and each for each in loose):
        problems.report(f"loose of {place}", loose, "a list of lists of regular expressions")
        loose = []
    groups = [_read_strings(problems, {"loose": each}, "loose", place) for each in loose]
    return NeededFact(
        tuple(_compile_all(problems, _read_strings(problems, row, "any", place), place)),
        tuple(tuple(_compile_all(problems, each, place)) for each in groups),
    )


def _compile_all(problems: SetProblems, texts: Sequence[str], place: str) -> Iterator[re.Pattern[str]]:
    for text in texts:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # what another Python may read otherwise
                pattern = re.compile(text, re.IGNORECASE | re.DOTALL)
        except re.error as problem:
            problems.report(f"any of {place}", text, f"a regular expression ({problem})")
            continue
        if pattern.search(""):
            problems.report(f"any of {place}", text, "an expression that an empty text does not match")
        yield pattern


def _read_strings(problems: SetProblems, row: JsonObject, key: str, place: str) -> list[str]:
    value = row.get(key, [])
    if isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value):
        return value
    problems.report(f"{key} of {place}", value, "a list of strings, none blank")
    return []
