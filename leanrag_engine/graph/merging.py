"""From extracts to G0: one entity for each name, one relation for each pair, every mention kept.

A pure function of the extracts in reading order. Two mentions are one entity iff :func:`name_key` gives the
same key, or one is the acronym that the corpus defines for the other and for nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from leanrag_engine.language import name_key, sentences, word_count
from leanrag_engine.model import (
    Entity,
    Evidence,
    Extract,
    ExtractedEntity,
    Graph,
    Method,
    Relation,
    content_id,
)

from .mentions import Kind

_DESCRIPTION_WORDS = 120
_ALIASES = 8
_VAGUE_TYPES = frozenset(["", "concept", "name", "term", "unknown", "other", "entity", "misc", "object"])
"""Types that say nothing: any other wins the vote against them."""
_TELLING = 0.3
"""A type must have this share of the votes."""
_ACRONYM_LENGTHS = range(2, 9)


def merge(extracts: Sequence[Extract]) -> Graph:
    """G0 of ``extracts`` given in reading order (documents by number, chunks by number).

    Entities come in the order of their first mention and have no parent yet; relations in the order of their first
    statement. Ids depend on the names alone. Linear in the number of extracted entities and relations.
    """
    canonical = _acronyms(extracts)
    entities: dict[str, _Entity] = {}
    relations: dict[tuple[str, str], _Relation] = {}
    for extract in extracts:
        keys = _read_entities(extract, canonical, entities)
        _read_relations(extract, keys, relations)
    kept = _without_noise(extracts, canonical, entities)
    ids = _ids(kept)
    return Graph(
        tuple(entities[key].finished(ids[key]) for key in kept),
        tuple(
            relation.finished(ids[source], ids[target])
            for (source, target), relation in relations.items()
            if source in ids and target in ids
        ),
    )


# --- one entity, one relation --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Description:
    """A description, where its sentences come from, and how the first of them was made."""

    text: str = ""
    evidence: tuple[Evidence, ...] = ()
    method: Method | None = None


@dataclass(slots=True)
class _Texts:
    """Distinct descriptions in the order they came, with the methods that made them and the chunks they stand for."""

    counts: Counter[str] = field(default_factory=Counter)
    methods: dict[str, Method] = field(default_factory=dict)
    chunks: dict[str, str] = field(default_factory=dict)

    def add(self, text: str, extract: Extract) -> None:
        text = " ".join(text.split())
        if text:
            self.counts[text] += 1
            self.methods.setdefault(text, extract.method)
            self.chunks.setdefault(text, extract.chunk_id)

    def joined(self, names: Sequence[str]) -> _Description:
        """The most telling descriptions within the bound; the method is that of the first of them.

        A model's or an agent's come first and whole; of heuristic ones each sentence counts for itself, definitions
        before others, then what comes most often. What several chunks say is the first one's.
        """
        if not self.counts:
            return _Description()
        first = next(iter(self.counts))
        if len(self.counts) == 1 and word_count(first) <= _DESCRIPTION_WORDS:
            chosen, method = [first], self.methods[first]
        else:
            given = [text for text in self.counts if self.methods[text] is not Method.HEURISTIC]
            chosen = fitting([*_sentences(given), *self._ranked(names)], _DESCRIPTION_WORDS)
            method = self.methods[given[0]] if given else Method.HEURISTIC
        return _Description(" ".join(chosen), self._evidence(chosen), method)

    def _ranked(self, names: Sequence[str]) -> list[str]:
        """The sentences of heuristic descriptions."""
        found: Counter[str] = Counter()
        for text, count in self.counts.items():
            if self.methods[text] is Method.HEURISTIC:
                found.update(dict.fromkeys(_sentences([text]), count))
        keys = [name.casefold() for name in names]
        ranked = sorted(
            enumerate(found), key=lambda item: (-_defines(item[1], keys), -found[item[1]], item[0])
        )
        return [text for _, text in ranked]

    def _evidence(self, chosen: Sequence[str]) -> tuple[Evidence, ...]:
        """Of sentences that stand in a row with single spaces between them; neighbours of one chunk are one."""
        if len(self.counts) == 1:
            return (Evidence(0, len(" ".join(chosen)), next(iter(self.chunks.values()))),)
        origins = dict(self.chunks)
        for text, chunk_id in self.chunks.items():
            for sentence in _sentences([text]):
                origins.setdefault(sentence, chunk_id)
        found: list[Evidence] = []
        start = 0
        for sentence in chosen:
            end, chunk_id = start + len(sentence), origins[sentence]
            if found and found[-1].chunk_id == chunk_id:
                found[-1] = Evidence(found[-1].start, end, chunk_id)
            else:
                found.append(Evidence(start, end, chunk_id))
            start = end + 1
        return tuple(found)


@dataclass(slots=True)
class _Entity:
    surfaces: Counter[str] = field(default_factory=Counter)
    aliases: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    texts: _Texts = field(default_factory=_Texts)
    chunks: dict[str, None] = field(default_factory=dict)
    methods: Counter[Method] = field(default_factory=Counter)

    def add(self, entity: ExtractedEntity, extract: Extract) -> None:
        self.surfaces[" ".join(entity.name.split())] += 1
        self.aliases.update(" ".join(alias.split()) for alias in entity.aliases)
        self.types[entity.type.strip().lower()] += 1
        self.texts.add(entity.description, extract)
        self.chunks.setdefault(extract.chunk_id)
        self.methods[extract.method] += 1

    @property
    def name(self) -> str:
        """The form that comes most often; the first seen of equals."""
        return self.surfaces.most_common(1)[0][0]

    @property
    def type(self) -> str:
        telling = Counter(
            {
                type_: count
                for type_, count in self.types.items()
                if type_ not in _VAGUE_TYPES and count >= _TELLING * self.types.total()
            }
        )
        return (telling or self.types).most_common(1)[0][0] or "concept"

    def finished(self, id_: str) -> Entity:
        name = self.name
        others = [
            form
            for form, _ in (self.surfaces + self.aliases).most_common()
            if form and form.casefold() != name.casefold()
        ]
        aliases = tuple({form.casefold(): form for form in reversed(others)}.values())[::-1][:_ALIASES]
        told = self.texts.joined([name, *aliases])
        return Entity(
            id=id_,
            name=name,
            type=self.type,
            description=told.text,
            method=told.method or self.methods.most_common(1)[0][0],
            mentions=len(self.chunks),
            aliases=aliases,
            chunk_ids=tuple(self.chunks),
            evidence=told.evidence,
        )


@dataclass(slots=True)
class _Relation:
    texts: _Texts = field(default_factory=_Texts)
    chunks: dict[str, None] = field(default_factory=dict)
    methods: Counter[Method] = field(default_factory=Counter)

    def finished(self, source_id: str, target_id: str) -> Relation:
        told = self.texts.joined(())
        return Relation(
            id=content_id("r", *sorted((source_id, target_id))),
            source_id=source_id,
            target_id=target_id,
            description=told.text,
            method=told.method or self.methods.most_common(1)[0][0],
            weight=self.methods.total(),
            chunk_ids=tuple(self.chunks),
            evidence=told.evidence,
        )


def _read_entities(
    extract: Extract, canonical: dict[str, str], entities: dict[str, _Entity]
) -> dict[str, str]:
    """Add the entities of one extract; what each name of it stands for."""
    keys: dict[str, str] = {}
    for entity in extract.entities:
        key = name_key(entity.name)
        if key:
            keys[key] = canonical.get(key, key)
            entities.setdefault(keys[key], _Entity()).add(entity, extract)
    return keys


def _read_relations(
    extract: Extract, keys: dict[str, str], relations: dict[tuple[str, str], _Relation]
) -> None:
    """Add the relations of one extract whose ends are entities of it; a pair is one whichever end comes first."""
    for relation in extract.relations:
        source, target = keys.get(name_key(relation.source)), keys.get(name_key(relation.target))
        if source is None or target is None or source == target:
            continue
        pair = (target, source) if (target, source) in relations else (source, target)
        found = relations.setdefault(pair, _Relation())
        found.texts.add(relation.description, extract)
        found.chunks.setdefault(extract.chunk_id)
        found.methods[extract.method] += 1


def _ids(keys: Iterable[str]) -> dict[str, str]:
    """An id for each key. Should two keys ever share one, the later in order of the alphabet takes a longer digest."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for key in sorted(keys):
        id_, salt = content_id("e", key), 0
        while id_ in taken:
            salt += 1
            id_ = content_id("e", key, str(salt))
        taken.add(id_)
        ids[key] = id_
    return ids


# --- acronyms ------------------------------------------------------------------------------


def _acronyms(extracts: Sequence[Extract]) -> dict[str, str]:
    """Key of an acronym → key of its long form, where the corpus gives it exactly one.

    Other aliases (a surname, a title without its remark) may mean someone else in the next document.
    """
    longs: dict[str, set[str]] = {}
    for extract in extracts:
        for entity in extract.entities:
            key = name_key(entity.name)
            for alias in entity.aliases:
                short = name_key(alias)
                if key and short != key and _is_acronym(alias, entity):
                    longs.setdefault(short, set()).add(key)
    single = {short: next(iter(found)) for short, found in longs.items() if len(found) == 1}
    return {short: long for short, long in single.items() if long not in single}


def _is_acronym(alias: str, entity: ExtractedEntity) -> bool:
    """Capitals that the initials of the name, or of another alias of it, spell."""
    letters = [letter.lower() for letter in alias.removesuffix("s") if letter.isalpha()]
    if len(alias) not in _ACRONYM_LENGTHS or sum(letter.isupper() for letter in alias) < 2 or " " in alias:  # noqa: PLR2004
        return False
    for form in (entity.name, *entity.aliases):
        initials = [word[0].lower() for word in form.replace("-", " ").split() if word[:1].isalnum()]
        if form != alias and len(initials) > 1 and _within(letters, initials):
            return True
    return False


def _within(letters: Sequence[str], initials: Sequence[str]) -> bool:
    """Whether ``letters`` are the initials, some of which (of small words) may be left out."""
    rest = iter(initials)
    return (
        letters[0] == initials[0]
        and len(initials) <= 2 * len(letters)
        and all(letter in rest for letter in letters)
    )


# --- noise ---------------------------------------------------------------------------------


def _without_noise(
    extracts: Sequence[Extract], canonical: dict[str, str], entities: dict[str, _Entity]
) -> list[str]:
    """The keys that stay, in order of first mention.

    A weak term (nothing but its shape spoke for it, type ``term``) that only one chunk mentions joins nothing. It goes,
    unless it is all that its chunk has. What a model or an agent found always stays.
    """
    weak = {key for key, entity in entities.items() if _is_noise(entity)}
    for extract in extracts:
        keys = [canonical.get(key, key) for entity in extract.entities if (key := name_key(entity.name))]
        if keys and weak.issuperset(keys):
            weak.difference_update(keys)
    return [key for key in entities if key not in weak]


def _is_noise(entity: _Entity) -> bool:
    return (
        len(entity.chunks) == 1
        and set(entity.methods) == {Method.HEURISTIC}
        and set(entity.types) == {Kind.TERM.value}
    )


# --- descriptions --------------------------------------------------------------------------

_DEFINING = (
    " is ",
    " are ",
    " was ",
    " were ",
    " means ",
    " refers to ",
    ", a ",
    ", an ",
    ", the ",
    "是",
    "とは",
    "は",
)
_NEAR = 24
_SIGNS = "\"'“‘ "


def _defines(text: str, names: Sequence[str]) -> int:
    """Whether the text begins with a name and says what it is: 2 for the first of ``names``, 1 for another, 0 if not."""
    opening = text.casefold().lstrip(_SIGNS)
    for article in ("the ", "an ", "a "):
        opening = opening.removeprefix(article)
    opening = opening.lstrip(_SIGNS)
    for rank, name in enumerate(names):
        if opening.startswith(name):
            rest = opening[len(name) : len(name) + _NEAR]
            return (2 if rank == 0 else 1) if any(sign in rest for sign in _DEFINING) else 0
    return -1 if opening[-1:] == "?" or text[:1] in _SIGNS else 0


def fitting(found: Iterable[str], limit: int) -> list[str]:
    """The sentences ``found`` in order, none twice, at most ``limit`` words; the first one always.

    A sentence is never cut; one that is too long for what is left is passed over.
    """
    chosen: dict[str, None] = {}
    left = limit
    for sentence in found:
        if left <= 0 and chosen:
            break
        if sentence not in chosen and ((words := word_count(sentence)) <= left or not chosen):
            chosen[sentence] = None
            left -= words
    return list(chosen)


def _sentences(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from _split(text)


@lru_cache(maxsize=1 << 12)
def _split(text: str) -> tuple[str, ...]:
    """The sentences of a text; cached, for one entity's texts are looked at several times in a row."""
    return tuple(text[start:end] for start, end in sentences(text))
