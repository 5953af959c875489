"""Corpora of any size that look like real ones: the same on every run, made without a model.

Entities belong to groups, groups to themes, and each has words of its own; how often an entity is spoken of
follows Zipf's law, and most relations stay within a group or a theme. Every fact is a sentence of a chunk.
Benchmarks import this file by its path: ``from synthetic import corpus`` beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leanrag_engine.core.model import (
    Chunk,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    LoadedDocument,
    Method,
    Window,
    content_id,
)

GROUP = 20
"""Mean entities of a group."""

THEME = 15
"""Mean groups of a theme."""

WITHIN_GROUP, WITHIN_THEME = 0.7, 0.2
"""Shares of the relations that stay there; the rest join any two entities."""

FACTS = 9
"""Sentences of a chunk."""

CHUNKS = 12
"""Chunks of a document."""

WINDOW = 3
"""Sentences of a window: about 100 tokens, as in real documents."""

ONSETS = [
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "qu",
    "r",
    "s",
    "sk",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "z",
]
VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ie", "oa", "ou"]
CODAS = ["l", "m", "n", "r", "t", "d", "k", "nd", "rk", "lm", "rt", "nt", "th", "ld"]
KINDS = {
    "person": ("an engineer", "a botanist", "a printer", "an envoy", "a composer"),
    "place": ("a harbour town", "a valley", "a market town", "a border province"),
    "organisation": ("a guild", "a trading house", "an academy", "a stores"),
    "method": ("a method of measuring", "a way of casting", "a procedure for refining"),
    "work": ("a treatise on", "an opera about", "a chronicle of"),
}
VERBS = [
    "founded",
    "visited",
    "described",
    "financed",
    "rebuilt",
    "opposed",
    "supplied",
    "inspired",
    "measured",
    "translated",
    "employed",
]
SCENES = (
    "after the {} had failed twice in one winter",
    "although the {} was still disputed in the capital",
    "because the {} could not be kept dry",
    "which made the {} known far beyond the region",
    "and the accounts of the {} were closed that year",
    "while the older {} was slowly given up",
)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents, and for each its chunks and their extracts; and questions whose answers stand in one chunk each."""

    documents: tuple[LoadedDocument, ...]
    chunks: tuple[tuple[Chunk, ...], ...]
    extracts: tuple[tuple[Extract, ...], ...]
    queries: tuple[str, ...]

    @property
    def all_extracts(self) -> list[Extract]:
        return [extract for each in self.extracts for extract in each]


@dataclass(frozen=True, slots=True)
class _World:
    """Names, kinds, groups and themes of all entities; the words of each group and theme."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    groups: np.ndarray
    themes: np.ndarray
    group_words: tuple[tuple[str, ...], ...]
    theme_words: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class _Fact:
    """A sentence about one entity, or about two."""

    text: str
    entities: tuple[int, ...]


def corpus(entities: int = 100_000, relations: int = 300_000, seed: int = 0) -> Corpus:
    """So many entities and (but for rare doubles) so many relations between distinct pairs."""
    rng = np.random.default_rng(seed)
    world = _world(entities, rng)
    facts = [*_definitions(world, rng), *_relations(world, relations, rng)]
    by_group = sorted(range(len(facts)), key=lambda number: int(world.groups[facts[number].entities[0]]))
    return _written(world, [facts[number] for number in by_group], rng)


def _world(count: int, rng: np.random.Generator) -> _World:
    groups = np.sort(rng.integers(0, max(1, count // GROUP), count))
    themes = groups // THEME
    kinds = list(KINDS)
    words = _words(4 * (int(groups[-1]) + 1) + 8 * (int(themes[-1]) + 1), rng)
    split = 4 * (int(groups[-1]) + 1)
    return _World(
        names=_names(count, rng),
        kinds=tuple(kinds[number] for number in rng.integers(0, len(kinds), count).tolist()),
        groups=groups,
        themes=themes,
        group_words=tuple(tuple(words[start : start + 4]) for start in range(0, split, 4)),
        theme_words=tuple(tuple(words[start : start + 8]) for start in range(split, len(words), 8)),
    )


def _syllables(count: int, number: int, rng: np.random.Generator) -> list[str]:
    parts = [
        np.array(choice, dtype=object)[rng.integers(0, len(choice), (count, number))]
        for choice in (ONSETS, VOWELS)
    ]
    ends = np.array(CODAS, dtype=object)[rng.integers(0, len(CODAS), count)]
    return [
        "".join(row) + end for row, end in zip((parts[0] + parts[1]).tolist(), ends.tolist(), strict=True)
    ]


def _words(count: int, rng: np.random.Generator) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found |= dict.fromkeys(_syllables(count, 2, rng))
    return list(found)[:count]


def _names(count: int, rng: np.random.Generator) -> tuple[str, ...]:
    found: dict[str, None] = {}
    while len(found) < count:
        pairs = zip(_syllables(count, 2, rng), _syllables(count, 2, rng), strict=True)
        found |= dict.fromkeys(f"{first.title()} {second.title()}" for first, second in pairs)
    return tuple(list(found)[:count])


def _definitions(world: _World, rng: np.random.Generator) -> list[_Fact]:
    facts = []
    for number, (name, kind) in enumerate(zip(world.names, world.kinds, strict=True)):
        what = KINDS[kind][int(rng.integers(len(KINDS[kind])))]
        near, far = _topic(world, number, rng)
        facts.append(_Fact(f"{name} is {what} known for the {near} {far}.", (number,)))
    return facts


def _topic(world: _World, number: int, rng: np.random.Generator) -> tuple[str, str]:
    group, theme = world.group_words[world.groups[number]], world.theme_words[world.themes[number]]
    return group[int(rng.integers(len(group)))], theme[int(rng.integers(len(theme)))]


def _relations(world: _World, count: int, rng: np.random.Generator) -> list[_Fact]:
    facts = []
    for first, second in _pairs(world, count, rng):
        near, far = _topic(world, first, rng)
        scene = SCENES[int(rng.integers(len(SCENES)))].format(f"{near} {far}")
        verb, year = VERBS[int(rng.integers(len(VERBS)))], 1700 + int(rng.integers(300))
        facts.append(
            _Fact(f"In {year} {world.names[first]} {verb} {world.names[second]}, {scene}.", (first, second))
        )
    return facts


def _pairs(world: _World, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Distinct pairs; both ends are drawn by Zipf's law within the range that they are drawn from."""
    total = len(world.names)
    starts = {
        key: np.searchsorted(key_of, np.arange(key_of[-1] + 2)) for key, key_of in _ranges(world).items()
    }
    found: dict[tuple[int, int], None] = {}
    while len(found) < count:
        missing = max(1000, count - len(found))
        first = _zipf(np.zeros(missing, dtype=np.intp), np.full(missing, total), rng)
        where = rng.random(missing)
        low, high = np.zeros(missing, dtype=np.intp), np.full(missing, total)
        for key, chosen in (("group", where < WITHIN_GROUP), ("theme", _between(where))):
            of = _ranges(world)[key][first]
            low = np.where(chosen, starts[key][of], low)
            high = np.where(chosen, starts[key][of + 1], high)
        second = _zipf(low, high, rng)
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        known = {(min(pair), max(pair)) for pair in found}
        for pair in pairs:
            key = (min(pair), max(pair))
            if pair[0] != pair[1] and key not in known:
                known.add(key)
                found[pair] = None
    return list(found)[:count]


def _between(where: np.ndarray) -> np.ndarray:
    return (where >= WITHIN_GROUP) & (where < WITHIN_GROUP + WITHIN_THEME)


def _ranges(world: _World) -> dict[str, np.ndarray]:
    return {"group": world.groups, "theme": world.themes}


def _zipf(low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A place in each range [low, high), by Zipf's law with exponent 0.6 over places in shuffled order."""
    width = high - low
    drawn = np.minimum((width * rng.random(len(low)) ** 2.5).astype(np.intp), width - 1)
    return low + (drawn * 7919) % width


def _written(world: _World, facts: Sequence[_Fact], rng: np.random.Generator) -> Corpus:
    documents, chunks, extracts = [], [], []
    size = FACTS * CHUNKS
    for number, start in enumerate(range(0, len(facts), size)):
        document, parts, found = _document(world, number, facts[start : start + size])
        documents.append(document)
        chunks.append(parts)
        extracts.append(found)
    asked = rng.integers(0, len(facts), 200).tolist()
    queries = tuple(f"What is known of {_asked(world, facts[number])}?" for number in asked)
    return Corpus(tuple(documents), tuple(chunks), tuple(extracts), queries)


def _asked(world: _World, fact: _Fact) -> str:
    return " and ".join(world.names[each] for each in fact.entities)


def _document(
    world: _World, number: int, facts: Sequence[_Fact]
) -> tuple[LoadedDocument, tuple[Chunk, ...], tuple[Extract, ...]]:
    id_ = f"synthetic-{number:06d}"
    passages = [facts[start : start + FACTS] for start in range(0, len(facts), FACTS)]
    texts = [" ".join(fact.text for fact in passage) for passage in passages]
    chunks, start = [], 0
    for place, text in enumerate(texts, 1):
        chunk_id = content_id("k", id_, str(place))
        passage = passages[place - 1]
        windows = _windows(passage, start)
        chunks.append(
            Chunk(chunk_id, id_, place, text, start, start + len(text), len(text) // 5, windows=windows)
        )
        start += len(text) + 2
    title = f"Annals of {world.group_words[world.groups[facts[0].entities[0]]][0]}, volume {number}"
    document = LoadedDocument(id_, title, "\n\n".join(texts), "text/plain", source=f"{id_}.txt")
    found = tuple(_extract(world, chunk.id, passage) for chunk, passage in zip(chunks, passages, strict=True))
    return document, tuple(chunks), found


def _windows(passage: Sequence[_Fact], start: int) -> tuple[Window, ...]:
    """Return the windows of a passage that begins at ``start``; its sentences are joined by spaces."""
    windows = []
    for first in range(0, len(passage), WINDOW):
        end = start + len(" ".join(fact.text for fact in passage[first : first + WINDOW]))
        windows.append(Window(start, end))
        start = end + 1
    return tuple(windows)


def _extract(world: _World, chunk_id: str, facts: Sequence[_Fact]) -> Extract:
    told: dict[int, list[str]] = {}
    for fact in facts:
        for number in fact.entities:
            told.setdefault(number, []).append(fact.text)
    return Extract(
        chunk_id,
        Method.HEURISTIC,
        tuple(
            ExtractedEntity(world.names[number], world.kinds[number], " ".join(texts[:2]))
            for number, texts in told.items()
        ),
        tuple(
            ExtractedRelation(*(world.names[number] for number in fact.entities), fact.text)
            for fact in facts
            if len(fact.entities) > 1
        ),
    )
