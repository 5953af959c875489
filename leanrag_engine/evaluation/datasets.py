"""Question sets, read and checked at the door: passages, and questions with their gold passages.

Two formats are read. A *question set* is one JSON object ``{"passages": [{"title", "text"}], "queries":
[{"id", "question", "answer", "aliases", "type", "gold": [passage index, …]}]}``. *UltraDomain* is JSON Lines,
one question a line, with the whole document it was asked of: ``{"input", "context", "answers", "meta"}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import content_id
from leanrag_engine.core.text.shortening import cut_end

SHOWN = 5
"""Problems of a set that its error names; of the rest only the number is told."""

SHOWN_VALUE = 60
"""Characters of a wrong value that are shown."""

FORMAT = (
    'Expected {"passages": [{"title", "text"}], "queries": [{"id", "question", "answer", "type", '
    '"gold": [passage index, …]}]}, or UltraDomain\'s JSON Lines with "input", "context" and "answers".'
)


@dataclass(frozen=True, slots=True)
class CorpusPassage:
    """A document of the corpus that is searched."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """``answers`` are the answer and its other forms; ``gold`` the indexes of the passages that it needs."""

    id: str
    text: str
    answers: tuple[str, ...] = ()
    type: str = ""
    gold: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Passages, each once, and questions. ``repeated`` passages of the file were the same as an earlier one."""

    name: str
    passages: tuple[CorpusPassage, ...]
    questions: tuple[Question, ...]
    repeated: int = 0

    @property
    def digest(self) -> str:
        """Equal digests mean the same corpus, whatever is asked of it."""
        return content_id("", *(part for each in self.passages for part in (each.title, each.text)))

    def first(self, count: int | None) -> QuestionSet:
        """The set with its first ``count`` questions (all: None); the corpus stays whole."""
        return self if count is None else replace(self, questions=self.questions[:count])


def read_set(path: Path) -> QuestionSet:
    """The set that a file holds, in either format.

    Raises ``InvalidInput`` naming the file and its first problems, each with the place, the value and
    what was expected. A set with any problem is refused: figures over half a set compare with nothing.
    """
    text = _text_of(path)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return _check(path, _read_lines(path, text))
    try:
        held = json.loads(text)
    except (ValueError, RecursionError) as problem:
        if _looks_like_lines(text):
            return _check(path, _read_lines(path, text))
        raise InvalidInput(f"The question set {path} is not JSON: {problem}.", FORMAT) from problem
    if isinstance(held, dict) and "context" in held and "passages" not in held:
        return _check(path, _read_lines(path, json.dumps(held)))
    return _check(path, _read_object(path, held))


# --- the file ------------------------------------------------------------------------------


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InvalidInput(
            f"The question set {path} is not UTF-8: byte {problem.start} is {problem.object[problem.start]:#04x}.",
            "Save it as UTF-8.",
        ) from problem
    except OSError as problem:
        raise InvalidInput(
            f"The question set {path} cannot be read: {problem.strerror}.", "Check the path."
        ) from problem


def _looks_like_lines(text: str) -> bool:
    """Whether the first line is a JSON object by itself."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


@dataclass(slots=True)
class _SetReader:
    """A set as it comes in, and what is wrong with it so far. Equal passages become one."""

    name: str
    places: dict[CorpusPassage, int] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    read: int = 0

    def place_of(self, passage: CorpusPassage) -> int:
        self.read += 1
        return self.places.setdefault(passage, len(self.places))

    def wrong(self, place: str, value: object, expected: str) -> None:
        self.problems.append(f"{place}: {_format_value(value)}; expected {expected}.")


def _format_value(value: object) -> str:
    if value is _MISSING:
        return "it is missing"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return f"it is {cut_end(text, SHOWN_VALUE)}"


_MISSING = object()


def _check(path: Path, reading: _SetReader) -> QuestionSet:
    seen: dict[str, int] = {}
    for number, question in enumerate(reading.questions):
        if seen.setdefault(question.id, number) != number:
            reading.wrong(f"id of query {number}", question.id, f"one that query {seen[question.id]} has not")
    problems = reading.problems
    if problems:
        more = f" … and {len(problems) - SHOWN} more." if len(problems) > SHOWN else ""
        many = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InvalidInput(
            f"The question set {path} has {many}. {' '.join(problems[:SHOWN])}{more}",
            f"Mend it; counting starts at 0. {FORMAT}",
        )
    repeated = reading.read - len(reading.places)
    return QuestionSet(reading.name, tuple(reading.places), tuple(reading.questions), repeated)


def _string(reading: _SetReader, row: Mapping[str, Any], key: str, place: str, default: str | None) -> str:
    """``row[key]`` if it is a string that says something; ``default`` where that may be left out."""
    value = row.get(key, _MISSING)
    if value in (_MISSING, None) and default is not None:
        return default
    if isinstance(value, str) and (value.strip() or default is not None):
        return value
    reading.wrong(f"{key} of {place}", value, "a string" if default is not None else "a string, not blank")
    return ""


def _answers(reading: _SetReader, row: Mapping[str, Any], keys: Sequence[str], place: str) -> tuple[str, ...]:
    """The strings under ``keys``, each of which may hold one or a list of them, or be left out."""
    found: list[str] = []
    for key in keys:
        value = row.get(key)
        several = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(each, str) for each in several):
            reading.wrong(f"{key} of {place}", value, "a string or a list of strings")
            continue
        found += (each for each in several if each.strip())
    return tuple(dict.fromkeys(found))


# --- question sets -------------------------------------------------------------------------


def _read_object(path: Path, held: object) -> _SetReader:
    reading = _SetReader(path.stem)
    if not isinstance(held, dict):
        raise InvalidInput(f"The question set {path} holds {type(held).__name__}, not an object.", FORMAT)
    if isinstance(held.get("name"), str):
        reading.name = held["name"]
    rows = {key: held.get(key, _MISSING) for key in ("passages", "queries")}
    for key, value in rows.items():
        if not isinstance(value, list) or not value:
            reading.wrong(key, value, "a list with at least one item")
    if not reading.problems:
        places = [_passage_place(reading, row, number) for number, row in enumerate(rows["passages"])]
        for number, row in enumerate(rows["queries"]):
            reading.questions += _question(reading, row, number, places)
    return reading


def _passage_place(reading: _SetReader, row: object, number: int) -> int:
    place = f"passage {number}"
    if not isinstance(row, dict):
        reading.wrong(place, row, "an object with title and text")
        return -1
    title = _string(reading, row, "title", place, "")
    text = _string(reading, row, "text", place, "" if title.strip() else None)
    return reading.place_of(CorpusPassage(title, text))


def _question(reading: _SetReader, row: object, number: int, places: Sequence[int]) -> Iterator[Question]:
    place = f"query {number}"
    if not isinstance(row, dict):
        reading.wrong(place, row, "an object with question and gold")
        return
    id_ = row.get("id", number)
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        reading.wrong(f"id of {place}", id_, "a string")
    yield Question(
        id=str(id_),
        text=_string(reading, row, "question", place, None),
        answers=_answers(reading, row, ("answer", "answers", "aliases"), place),
        type=_string(reading, row, "type", place, ""),
        gold=_gold(reading, row.get("gold", _MISSING), place, places),
    )


def _gold(reading: _SetReader, value: object, place: str, places: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        reading.wrong(f"gold of {place}", value, "a list of at least one passage index")
        return ()
    wrong = [
        each
        for each in value
        if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each < len(places)
    ]
    if wrong:
        reading.wrong(f"gold of {place}", wrong[0], f"a passage index from 0 to {len(places) - 1}")
        return ()
    return tuple(dict.fromkeys(places[each] for each in value))


# --- UltraDomain ---------------------------------------------------------------------------


def _read_lines(path: Path, text: str) -> _SetReader:
    """UltraDomain: the document that a question was asked of is its only gold passage."""
    reading = _SetReader(path.stem)
    # Not splitlines: a JSON string may hold any line separator but the line feed.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        reading.wrong("the file", "", "one JSON object a line")
    for number, line in lines:
        place = f"line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            reading.problems.append(f"{place}: it is not JSON ({problem}).")
            continue
        if isinstance(row, dict):
            reading.questions.append(_context_question(reading, row, place))
        else:
            reading.wrong(place, row, "an object with input, context and answers")
    return reading


def _context_question(reading: _SetReader, row: Mapping[str, Any], place: str) -> Question:
    meta = row.get("meta")
    title = meta.get("title", "") if isinstance(meta, dict) else ""
    passage = CorpusPassage(
        title if isinstance(title, str) else "", _string(reading, row, "context", place, None)
    )
    return Question(
        id=str(row.get("_id") or row.get("id") or place),
        text=_string(reading, row, "input", place, None),
        answers=_answers(reading, row, ("answers", "answer"), place),
        type=_string(reading, row, "label", place, ""),
        gold=(reading.place_of(passage),),
    )
