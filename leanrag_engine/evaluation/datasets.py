"""Read and check question sets: passages, and questions with their gold passages. Two formats are read. A
*question set* is one JSON object ``{"passages": [{"title", "text"}], "queries": [{"id", "question", "answer",
"aliases", "type", "gold": [passage index, …]}]}``. *UltraDomain* is JSON Lines, one question per line, with
the whole document that it refers to: ``{"input", "context", "answers", "meta"}``."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import JsonObject, content_id
from leanrag_engine.core.text.shortening import count_things, cut_end

FORMAT = (
    'Expected {"passages": [{"title", "text"}], "queries": [{"id", "question", "answer", "type", '
    '"gold": [passage index, …]}]}, or UltraDomain\'s JSON Lines with "input", "context" and "answers".'
)


@dataclass(frozen=True, slots=True)
class CorpusPassage:
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the forms of its answer and the indexes (``gold``) of the passages that it needs."""

    id: str
    text: str
    answers: tuple[str, ...] = ()
    type: str = ""
    gold: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Distinct passages and questions; ``repeated`` counts the passages of the file that equal an earlier one."""

    name: str
    passages: tuple[CorpusPassage, ...]
    questions: tuple[Question, ...]
    repeated: int = 0

    @property
    def digest(self) -> str:
        """Identifies the corpus, independent of the questions."""
        return content_id("", *(part for each in self.passages for part in (each.title, each.text)))

    def first(self, count: int | None) -> Self:
        """Return the set with its first ``count`` questions (all if None) and the whole corpus."""
        return self if count is None else replace(self, questions=self.questions[:count])


def read_set(path: Path) -> QuestionSet:
    """Read a set in either format. Raises ``InvalidInput`` with its first problems: figures over a part would not be comparable."""
    text = read_file_text(path)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return _check(path, _read_lines(path, text))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as problem:
        if _looks_like_lines(text):
            return _check(path, _read_lines(path, text))
        raise InvalidInput(f"The question set {path} is not JSON: {problem}.", FORMAT) from problem
    if isinstance(content, dict) and "context" in content and "passages" not in content:
        return _check(path, _read_lines(path, json.dumps(content)))
    return _check(path, _read_object(path, content))


def read_file_text(path: Path) -> str:
    """Return the text of a set's file. Raises ``InvalidInput`` if it cannot be read or is not UTF-8."""
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
    """Return whether the first line is a JSON object by itself."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


@dataclass(slots=True)
class SetProblems:
    """What is wrong with a set, as far as it was read."""

    problems: list[str] = field(default_factory=list)

    def report(self, place: str, value: object, expected: str) -> None:
        self.problems.append(f"{place}: {_format_value(value)}; expected {expected}.")

    def report_repeated(self, ids: Sequence[str], kind: str) -> None:
        """Report each id that an earlier one of ``ids`` equals."""
        seen: dict[str, int] = {}
        for number, id_ in enumerate(ids):
            if seen.setdefault(id_, number) != number:
                self.report(f"id of {kind} {number}", id_, f"one that differs from {kind} {seen[id_]}")

    def raise_any(self, path: Path, expected: str) -> None:
        """Raise ``InvalidInput`` with the first problems of the set, if there are any."""
        if not self.problems:
            return
        most_named = 5
        more = f" … and {len(self.problems) - most_named} more." if len(self.problems) > most_named else ""
        raise InvalidInput(
            f"The question set {path} has {count_things(len(self.problems), 'problem')}. {' '.join(self.problems[:most_named])}{more}",
            f"Correct it; counting starts at 0. {expected}",
        )


@dataclass(slots=True)
class _SetReader(SetProblems):
    """A set while it is read. Equal passages become one."""

    name: str = ""
    places: dict[CorpusPassage, int] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    read: int = 0

    def place_of(self, passage: CorpusPassage) -> int:
        self.read += 1
        return self.places.setdefault(passage, len(self.places))


def _format_value(value: object) -> str:
    if value is MISSING:
        return "it is missing"
    return f"it is {cut_end(json.dumps(value, ensure_ascii=False, default=repr), 60)}"


MISSING = object()  # Stands for a key that an object does not have


def _check(path: Path, reader: _SetReader) -> QuestionSet:
    reader.report_repeated([question.id for question in reader.questions], "query")
    reader.raise_any(path, FORMAT)
    repeated = reader.read - len(reader.places)
    return QuestionSet(reader.name, tuple(reader.places), tuple(reader.questions), repeated)


def read_string(reader: SetProblems, row: JsonObject, key: str, place: str, default: str | None) -> str:
    """Return ``row[key]`` if it is a non-blank string; ``default`` if it is missing and optional."""
    value = row.get(key, MISSING)
    if value in (MISSING, None) and default is not None:
        return default
    if isinstance(value, str) and (value.strip() or default is not None):
        return value
    reader.report(f"{key} of {place}", value, "a string" if default is not None else "a string, not blank")
    return ""


def _answers(reader: _SetReader, row: JsonObject, keys: Sequence[str], place: str) -> tuple[str, ...]:
    """Return the distinct strings under ``keys``, each of which may hold a string or a list of them or be missing."""
    found: list[str] = []
    for key in keys:
        value = row.get(key)
        several = value if isinstance(value, list) else [] if value is None else [value]
        texts = [each for each in several if isinstance(each, str)]
        if len(texts) < len(several):
            reader.report(f"{key} of {place}", value, "a string or a list of strings")
            continue
        found += (each for each in texts if each.strip())
    return tuple(dict.fromkeys(found))


def _read_object(path: Path, content: object) -> _SetReader:
    reader = _SetReader(name=path.stem)
    if not isinstance(content, dict):
        raise InvalidInput(f"The question set {path} holds {type(content).__name__}, not an object.", FORMAT)
    if isinstance(content.get("name"), str):
        reader.name = content["name"]
    rows = {key: content.get(key, MISSING) for key in ("passages", "queries")}
    for key, value in rows.items():
        if not isinstance(value, list) or not value:
            reader.report(key, value, "a list with at least one item")
    if not reader.problems:
        places = [_passage_place(reader, row, number) for number, row in enumerate(rows["passages"])]
        for number, row in enumerate(rows["queries"]):
            reader.questions += _question(reader, row, number, places)
    return reader


def _passage_place(reader: _SetReader, row: object, number: int) -> int:
    place = f"passage {number}"
    if not isinstance(row, dict):
        reader.report(place, row, "an object with title and text")
        return -1
    title = read_string(reader, row, "title", place, "")
    text = read_string(reader, row, "text", place, "" if title.strip() else None)
    return reader.place_of(CorpusPassage(title, text))


def _question(reader: _SetReader, row: object, number: int, places: Sequence[int]) -> Iterator[Question]:
    place = f"query {number}"
    if not isinstance(row, dict):
        reader.report(place, row, "an object with question and gold")
        return
    id_ = row.get("id", number)
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        reader.report(f"id of {place}", id_, "a string")
    yield Question(
        id=str(id_),
        text=read_string(reader, row, "question", place, None),
        answers=_answers(reader, row, ("answer", "answers", "aliases"), place),
        type=read_string(reader, row, "type", place, ""),
        gold=_gold(reader, row.get("gold", MISSING), place, places),
    )


def _gold(reader: _SetReader, value: object, place: str, places: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        reader.report(f"gold of {place}", value, "a list of at least one passage index")
        return ()
    wrong = [each for each in value if type(each) is not int or not 0 <= each < len(places)]
    if wrong:
        reader.report(f"gold of {place}", wrong[0], f"a passage index from 0 to {len(places) - 1}")
        return ()
    return tuple(dict.fromkeys(places[each] for each in value))


def _read_lines(path: Path, text: str) -> _SetReader:
    """Read UltraDomain: the document that a question refers to is its only gold passage."""
    reader = _SetReader(name=path.stem)
    # Not splitlines: a JSON string may contain any line separator except the line feed.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        reader.report("the file", "", "one JSON object per line")
    for number, line in lines:
        place = f"line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            reader.problems.append(f"{place}: it is not JSON ({problem}).")
            continue
        if isinstance(row, dict):
            reader.questions.append(_context_question(reader, row, place))
        else:
            reader.report(place, row, "an object with input, context and answers")
    return reader


def _context_question(reader: _SetReader, row: JsonObject, place: str) -> Question:
    meta = row.get("meta")
    title = meta.get("title", "") if isinstance(meta, dict) else ""
    passage = CorpusPassage(
        title if isinstance(title, str) else "", read_string(reader, row, "context", place, None)
    )
    return Question(
        id=str(row.get("_id") or row.get("id") or place),
        text=read_string(reader, row, "input", place, None),
        answers=_answers(reader, row, ("answers", "answer"), place),
        type=read_string(reader, row, "label", place, ""),
        gold=(reader.place_of(passage),),
    )
