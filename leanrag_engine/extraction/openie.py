"""Read HippoRAG's OpenIE files: entities and (subject, predicate, object) triples that a model found in
passages. ``{"docs": [{"idx", "passage", "extracted_entities": [name, …], "extracted_triples": [[s, p, o],
…]}]}``. Malformed triples are left out and counted; they do not affect the others."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Chunk, Extract, ExtractedEntity, ExtractedRelation, JsonObject, Method
from leanrag_engine.core.text.cleaning import clean_line
from leanrag_engine.core.text.language.names import fold_case, name_key
from leanrag_engine.core.text.language.sentences import sentences

EXPECTED = (
    'Expected {"docs": [{"passage", "extracted_entities": [name, …], "extracted_triples": '
    "[[subject, predicate, object], …]}]}, as HippoRAG writes it."
)


@dataclass(frozen=True, slots=True)
class Triple:
    subject: str
    predicate: str
    object: str

    @property
    def statement(self) -> str:
        text = f"{self.subject} {self.predicate} {self.object}"
        return text if text.endswith((".", "!", "?")) else f"{text}."


@dataclass(frozen=True, slots=True)
class Entry:
    """The entities and triples of one passage. ``number`` is its ``idx`` if that is an integer."""

    text: str
    entities: tuple[str, ...]
    triples: tuple[Triple, ...]
    number: int | None = None


@dataclass(frozen=True, slots=True)
class OpenIE:
    """The content of a file. ``malformed`` counts left-out rows by kind; ``problems`` names the first ones."""

    entries: tuple[Entry, ...]
    malformed: Mapping[str, int]
    problems: tuple[str, ...]

    @property
    def triples(self) -> int:
        return sum(len(entry.triples) for entry in self.entries)

    def match(self, passages: Iterable[tuple[str, str]]) -> list[Entry | None]:
        """Return for each passage, as title and text, the entry with its text, else the one without text of its position."""
        by_text = {fold_case(entry.text): entry for entry in reversed(self.entries) if entry.text}
        by_number = {entry.number: entry for entry in self.entries if not entry.text}
        found = []
        for number, (title, text) in enumerate(passages):
            named = by_text.get(fold_case(f"{title}\n{text}")) or by_text.get(fold_case(text))
            found.append(named or by_number.get(number))
        return found


def read_openie(path: Path) -> OpenIE:
    """Read a file; raise ``InvalidInput`` if it cannot be read, is not JSON or has no list of documents."""
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as problem:
        raise InvalidInput(
            f"The OpenIE file {path} cannot be read: {problem.strerror}.", "Check the path."
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"The OpenIE file {path} is not JSON in UTF-8: {problem}.", EXPECTED) from problem
    rows = content.get("docs") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not rows:
        raise InvalidInput(f"The OpenIE file {path} holds no list of documents under 'docs'.", EXPECTED)
    reading = _OpenIEReader()
    entries = tuple(entry for number, row in enumerate(rows) for entry in reading.entry(row, number))
    if not entries:
        raise InvalidInput(
            f"No document of the OpenIE file {path} can be used. {reading.problems[0]}", EXPECTED
        )
    return OpenIE(entries, dict(reading.malformed), tuple(reading.problems))


@dataclass(slots=True)
class _OpenIEReader:
    """Checks the rows of a file and notes what is malformed."""

    malformed: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def leave_out(self, kind: str, place: str, value: object, expected: str, most_named: int = 3) -> None:
        self.malformed[kind] += 1
        if self.malformed[kind] <= most_named:
            self.problems.append(
                f"{place}: {json.dumps(value, ensure_ascii=False)[:120]}, expected {expected}."
            )

    def entry(self, row: object, number: int) -> Iterator[Entry]:
        place = f"document {number}"
        if not isinstance(row, dict):
            self.leave_out("documents", place, row, "an object")
            return
        text = _passage_of(row)
        index = row.get("idx") if type(row.get("idx")) is int else None
        if not text and index is None:
            self.leave_out("documents", place, sorted(row), "a passage, or an idx that counts passages")
            return
        entities = self._rows(row, "extracted_entities", "entities", place)
        triples = self._rows(row, "extracted_triples", "triples", place)
        yield Entry(
            text,
            tuple(dict.fromkeys(name for each in entities for name in self._name(each, place))),
            tuple(dict.fromkeys(triple for each in triples for triple in self._triple(each, place))),
            index,
        )

    def _rows(self, row: JsonObject, key: str, kind: str, place: str) -> list[Any]:
        value = row.get(key, [])
        if isinstance(value, list):
            return value
        self.leave_out(kind, f"{key} of {place}", value, "a list")
        return []

    def _name(self, value: object, place: str) -> Iterator[str]:
        if isinstance(value, str) and name_key(name := clean_line(value)):
            yield name
        else:
            self.leave_out("entities", f"entity of {place}", value, "a name")

    def _triple(self, value: object, place: str) -> Iterator[Triple]:
        if (
            isinstance(value, list)
            and len(value) == len(fields(Triple))
            and all(isinstance(part, str) and clean_line(part) for part in value)
        ):
            yield Triple(*map(clean_line, value))
        else:
            self.leave_out("triples", f"triple of {place}", value, "subject, predicate and object as strings")


def _passage_of(row: JsonObject) -> str:
    if isinstance(row.get("passage"), str):
        return str(row["passage"])
    parts = [row.get("title"), row.get("text")]
    return "\n".join(part for part in parts if isinstance(part, str)) if isinstance(parts[1], str) else ""


def extracts_from(entry: Entry, title: str, chunks: Sequence[Chunk]) -> list[Extract]:
    """Return one extract for each chunk: triples and entities whose names it contains; the rest goes to the first chunk."""
    texts = [fold_case(chunk.text) for chunk in chunks]
    triples = group(
        (place, each) for each in entry.triples for place in _places((each.subject, each.object), texts)
    )
    names = group((place, name) for name in entry.entities for place in _places((name,), texts))
    return [
        _extract(chunk, title if place == 0 else "", names[place], triples[place])
        for place, chunk in enumerate(chunks)
    ]


def _places(names: Sequence[str], texts: Sequence[str]) -> list[int]:
    if len(texts) == 1:
        return [0]
    wanted = [name.casefold() for name in names]
    return [place for place, text in enumerate(texts) if all(name in text for name in wanted)] or [0]


def _extract(chunk: Chunk, title: str, names: Sequence[str], triples: Sequence[Triple]) -> Extract:
    """Extract the entities and the ends of triples, and relate the title to at most 12 that no triple joins to it."""
    ends = [end for triple in triples for end in (triple.subject, triple.object)]
    known: dict[str, str] = {}
    for name in (*([title] if title else []), *names, *ends):
        known.setdefault(name_key(name), name)
    known.pop("", None)
    statements = _statements(triples)
    quotable = [chunk.text[start:end] for start, end in sentences(chunk.text)]
    descriptions = {
        key: " ".join(statements.get(key, ())) or _sentence_on(name, quotable) for key, name in known.items()
    }
    entities = tuple(ExtractedEntity(name, description=descriptions[key]) for key, name in known.items())
    relations = [ExtractedRelation(each.subject, each.object, each.statement) for each in triples]
    related = _neighbours(name_key(title), triples) if title else set()
    relations += [
        ExtractedRelation(title, name, descriptions[key])
        for key, name in known.items()
        if title and key not in related
    ][:12]
    return Extract(chunk.id, Method.IMPORTED, entities, tuple(relations))


def _statements(triples: Sequence[Triple]) -> dict[str, list[str]]:
    """Return for each end its first three statements; those with it as subject come first."""
    ends = [(each.subject, each) for each in triples] + [(each.object, each) for each in triples]
    statements = group((name_key(end), each.statement) for end, each in ends)
    return {key: list(dict.fromkeys(own))[:3] for key, own in statements.items()}


def _neighbours(key: str, triples: Sequence[Triple]) -> set[str]:
    """Return ``key`` and the keys that a triple joins to it."""
    pairs = [(name_key(triple.subject), name_key(triple.object)) for triple in triples]
    return {key, *(end for pair in pairs if key in pair for end in pair)}


def _sentence_on(name: str, quotable: Sequence[str]) -> str:
    """Return the first sentence that contains ``name``; "" if there is none."""
    wanted = fold_case(name)
    return next((sentence for sentence in quotable if wanted in fold_case(sentence)), "")
