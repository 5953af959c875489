"""Index the mentions of all extracts as arrays, so that G0 is merged again only where something changed.
Losing the index of a build only costs time."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntFlag
from itertools import compress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Flags
from leanrag_engine.core.model import Extract, ExtractedEntity, ExtractState
from leanrag_engine.core.text.language.names import name_key, split_humps
from leanrag_engine.core.text.language.parts_of_speech import parts_of_speech

from .heuristic.names.mentions import Kind
from .heuristic.words import vocabulary

Numbers = NDArray[np.int32]
Places = NDArray[np.int64]

_TEXTS = frozenset(["names", "keys", "chunk_ids", "titles"])


class Trait(IntFlag):
    """What can be told of a name alone."""

    JOINED = 1  # Of joined capitalised words: *MeiLin*
    TITLE = 2  # Each word begins with a capital letter, and they are not joined
    NOUN = 4  # One capitalised word, which is a noun of the language: *Lion*
    COMMON = 8  # One capitalised word that many bear: *John*, *King*


@dataclass(frozen=True, slots=True, eq=False)
class MentionIndex:
    """The mentions of all extracts, a row for each extract in reading order, and what was merged from them.

    ``names`` are all surface forms and ``keys`` all name keys, those of namesakes included; other arrays hold their
    numbers, −1 for none. ``name_keys`` is the key of each name, ``traits`` are its :class:`Trait`. ``states`` (x, 4) identify the extracts, see
    :class:`leanrag_engine.core.model.ExtractState`. The mentions of row ``r`` are ``mentions[starts[r]:starts[r + 1]]``, numbers of names; ``works`` says which are
    the titles of works, ``meanings`` the key of the entity that is meant, and ``articles`` (m, 2) how often the name stands
    without and with an article in what the chunk says of it, −1 where it was not counted. ``acronyms`` (a, 3) are a row and the keys of the short
    and the long form. ``titles`` are the names that corrections gave, by key.

    Of keys: ``weak`` ones may be noise, ``kept`` ones are entities of G0, in the order of their first mentions, and the
    descriptions of ``long`` ones were not merged from their statements alone. Likewise of pairs of keys, in the order of
    their first statements ``pair_firsts`` (p, 2), which are a row and a place in it; nothing is said about ``pair_idle`` ones.
    """

    names: Sequence[str]
    keys: Sequence[str]
    name_keys: Numbers
    traits: NDArray[np.uint8]
    chunk_ids: Sequence[str]
    states: Places
    starts: Places
    mentions: Numbers
    works: Flags
    articles: NDArray[np.int16]
    meanings: Numbers
    acronyms: Numbers
    titles: Mapping[str, str]
    weak: Flags
    kept: Flags
    long: Flags
    pair_ends: Numbers
    pair_firsts: Numbers
    pair_idle: Flags
    pair_kept: Flags
    pair_long: Flags

    def select_kept_keys(self) -> NDArray[np.intp]:
        """Return the keys of the entities of G0 in their order."""
        keys = np.flatnonzero(self.kept)
        return keys[np.argsort(find_first(self.meanings, len(self.kept))[keys])]

    def keys_by_name(self) -> dict[str, str]:
        pairs = zip(self.names, self.name_keys.tolist(), strict=True)
        return {name: self.keys[key] if key >= 0 else "" for name, key in pairs}

    def without_unused(self) -> Self:
        """Return the index without names and keys that no extract has any more."""
        names = np.zeros(len(self.names), dtype=bool)
        names[self.mentions] = True
        keys = np.zeros(len(self.keys) + 1, dtype=bool)
        for used in (self.name_keys[names], self.meanings, self.acronyms[:, 1:], self.pair_ends):
            keys[used] = True
        keys = keys[:-1]
        if names.all() and keys.all():
            return self
        new_names, new_keys = _renumber(names), _renumber(keys)
        acronyms = self.acronyms.copy()
        acronyms[:, 1:] = new_keys[acronyms[:, 1:]]
        return replace(
            self,
            names=_choose(self.names, names),
            keys=_choose(self.keys, keys),
            name_keys=new_keys[self.name_keys[names]],
            traits=self.traits[names],
            mentions=new_names[self.mentions],
            meanings=new_keys[self.meanings],
            acronyms=acronyms,
            weak=self.weak[keys],
            kept=self.kept[keys],
            long=self.long[keys],
            pair_ends=new_keys[self.pair_ends],
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all as arrays of numbers."""
        return {
            each.name: _encode_text(getattr(self, each.name))
            if each.name in _TEXTS
            else getattr(self, each.name)
            for each in fields(self)
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """Return what :meth:`arrays` gave; None if something is missing: another version wrote it."""
        names = [each.name for each in fields(cls)]
        if set(names) != set(arrays):
            return None
        values: dict[str, Any] = {
            name: json.loads(arrays[name].tobytes()) if name in _TEXTS else arrays[name] for name in names
        }
        return cls(**values)


def _renumber(used: Flags) -> Numbers:
    """Return the new number of each old one, −1 for those that are not used; and for −1 that itself."""
    return np.append(np.where(used, np.cumsum(used) - 1, -1), -1).astype(np.int32)


def _choose(texts: Sequence[str], chosen: Flags) -> list[str]:
    return list(compress(texts, chosen.tolist()))


def _encode_text(value: Sequence[str] | Mapping[str, str]) -> NDArray[np.uint8]:
    plain = dict(value) if isinstance(value, Mapping) else list(value)
    return np.frombuffer(json.dumps(plain).encode("ascii"), dtype=np.uint8)


def select_segments(starts: Places, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the places of all items of ``rows``, row by row; those of row r are ``starts[r]`` to ``starts[r + 1]``."""
    lengths = starts[rows + 1] - starts[rows]
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(starts[rows] - ends + lengths, lengths), dtype=np.intp)


def count_rows(starts: Places) -> NDArray[np.intp]:
    """Return the row of each item."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def find_first(numbers: Numbers, count: int) -> NDArray[np.intp]:
    """Return the place at which each of the numbers 0 to ``count`` − 1 stands first, −1 if it does not."""
    first = np.full(count + 1, -1, dtype=np.intp)
    # Of several assignments to one place the last one counts; −1 is the place that is left out.
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first[:-1]


@dataclass(slots=True)
class Vocabulary:
    """The names and name keys of a merge with their numbers; it grows."""

    names: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    name_keys: list[int] = field(default_factory=list)
    traits: list[int] = field(default_factory=list)
    name_numbers: dict[str, int] = field(default_factory=dict)
    key_numbers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, before: MentionIndex | None) -> Self:
        """Return the vocabulary of an index, or an empty one."""
        if before is None:
            return cls()
        names, keys = list(before.names), list(before.keys)
        return cls(
            names,
            keys,
            before.name_keys.tolist(),
            before.traits.tolist(),
            dict(zip(names, range(len(names)), strict=True)),
            dict(zip(keys, range(len(keys)), strict=True)),
        )

    def add_name(self, name: str) -> int:
        """Return the number of a name."""
        number = self.name_numbers.get(name)
        if number is None:
            number = self.name_numbers[name] = len(self.names)
            key = name_key(name)
            self.names.append(name)
            self.name_keys.append(self.add_key(key) if key else -1)
            self.traits.append(find_traits(key, name))
        return number

    def add_key(self, key: str) -> int:
        """Return the number of a key."""
        number = self.key_numbers.get(key)
        if number is None:
            number = self.key_numbers[key] = len(self.keys)
            self.keys.append(key)
        return number

    def find_key(self, name: str) -> int:
        """Return the number of a name's key, −1 if no mention has it."""
        number = self.name_numbers.get(name)
        return self.key_numbers.get(name_key(name), -1) if number is None else self.name_keys[number]


def find_traits(key: str, name: str) -> int:
    """Return the :class:`Trait` of a name with this key."""
    joined = bool(split_humps(name))
    found = Trait.JOINED if joined else Trait(0)
    if not joined and name.istitle():
        found |= Trait.TITLE
    if " " not in key and name[:1].isupper() and name[1:].islower():
        if parts_of_speech(key)[:1] == "n":
            found |= Trait.NOUN
        if key in vocabulary.HONORIFICS or key in vocabulary.FIRST_NAMES:
            found |= Trait.COMMON
    return int(found)


@dataclass(slots=True, eq=False)
class MentionTable:
    """The mentions of all extracts before they are merged; arrays as of :class:`MentionIndex`. ``same`` (x,) is the
    row of an extract in the index before, −1 for a new or changed one, whose content ``fresh`` has by row."""

    words: Vocabulary
    states: Sequence[ExtractState]
    same: NDArray[np.intp]
    fresh: dict[int, Extract]
    read: Callable[[Sequence[int]], Sequence[Extract]]
    starts: Places
    mentions: Numbers
    works: Flags
    articles: NDArray[np.int16]
    acronyms: Numbers

    @classmethod
    def of(
        cls,
        states: Sequence[ExtractState],
        read: Callable[[Sequence[int]], Sequence[Extract]],
        before: MentionIndex | None,
        note: Callable[[int], None],
    ) -> Self:
        """Index the extracts of these ``states``; ``note`` is called with the number of each row that is read."""
        words = Vocabulary.of(before)
        same = _match(states, before)
        rows = np.flatnonzero(same < 0).tolist()
        fresh = dict(zip(rows, read(rows), strict=True)) if rows else {}
        lengths = np.zeros(len(states), dtype=np.int64)
        kept = np.flatnonzero(same >= 0)
        if before is not None:
            lengths[kept] = np.diff(before.starts)[same[kept]]
        lengths[rows] = [len(fresh[row].entities) for row in rows]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        total = int(starts[-1])
        table = cls(
            words,
            states,
            same,
            fresh,
            read,
            starts,
            np.zeros(total, dtype=np.int32),
            np.zeros(total, dtype=bool),
            np.full((total, 2), -1, dtype=np.int16),
            np.empty((0, 3), dtype=np.int32),
        )
        if before is not None:
            there, here = select_segments(before.starts, same[kept]), select_segments(starts, kept)
            for mine, old in (
                (table.mentions, before.mentions),
                (table.works, before.works),
                (table.articles, before.articles),
            ):
                mine[here] = old[there]
        table._add_fresh(before, note)
        return table

    def _add_fresh(self, before: MentionIndex | None, note: Callable[[int], None]) -> None:
        words = self.words
        acronyms: list[tuple[int, int, int]] = []
        mentions: list[int] = []
        works: list[bool] = []
        for row, extract in self.fresh.items():
            note(row)
            for entity in extract.entities:
                number = words.add_name(entity.name)
                mentions.append(number)
                key = words.name_keys[number]
                works.append(entity.type == Kind.WORK.value and key >= 0 and _is_noun(words.keys[key]))
                acronyms.extend(
                    (row, words.add_key(short), key)
                    for alias in entity.aliases
                    if key >= 0
                    and is_acronym(alias, entity)
                    and (short := name_key(alias)) not in ("", words.keys[key])
                )
        places = select_segments(self.starts, np.fromiter(self.fresh, dtype=np.intp))
        self.mentions[places] = mentions
        self.works[places] = works
        self.acronyms = np.array(acronyms, dtype=np.int32).reshape(-1, 3)
        if before is not None and len(before.acronyms):
            moved = np.full(len(before.states), -1, dtype=np.int32)
            kept = np.flatnonzero(self.same >= 0)
            moved[self.same[kept]] = kept
            held = before.acronyms.copy()
            held[:, 0] = moved[held[:, 0]]
            self.acronyms = np.concatenate((held[held[:, 0] >= 0], self.acronyms))

    @property
    def name_keys(self) -> Numbers:
        return np.array(self.words.name_keys, dtype=np.int32)

    @property
    def traits(self) -> NDArray[np.uint8]:
        return np.array(self.words.traits, dtype=np.uint8)

    def load(self, rows: Sequence[int]) -> None:
        """Read the contents of rows into ``fresh``, where they are not there yet."""
        missing = [row for row in rows if row not in self.fresh]
        if missing:
            self.fresh |= zip(missing, self.read(missing), strict=True)

    def map_acronyms(self) -> dict[str, str]:
        """Map the key of an acronym to that of its long form, where the corpus defines exactly one. Other
        aliases may mean another entity in another document."""
        longs: dict[int, set[int]] = {}
        for short, long in self.acronyms[:, 1:].tolist():
            longs.setdefault(short, set()).add(long)
        single = {short: next(iter(found)) for short, found in longs.items() if len(found) == 1}
        keys = self.words.keys
        return {keys[short]: keys[long] for short, long in single.items() if long not in single}

    def map_joined_names(self) -> dict[str, str]:
        """Map the key of a name without spaces (*MeiLin*) to that of the spaced name (*Mei Lin*), where the corpus has both."""
        words, traits, name_keys = self.words, self.traits, self.name_keys
        first = find_first(self.mentions, len(words.names))
        present = first >= 0
        joined = np.flatnonzero(present & ((traits & Trait.JOINED) > 0))
        if not len(joined):
            return {}
        spelled = set(name_keys[present & ((traits & Trait.TITLE) > 0)].tolist())
        found: dict[str, str] = {}
        for number in joined[np.argsort(first[joined])].tolist():
            key = words.name_keys[number]
            found[words.keys[key] if key >= 0 else ""] = name_key(split_humps(words.names[number]))
        return {
            key: spaced
            for key, spaced in found.items()
            if key != spaced and words.key_numbers.get(spaced, -2) in spelled
        }

    def map_names(self, forms: Mapping[str, str]) -> Numbers:
        """Return the number of the key that each name has after ``forms`` are applied, −1 for blank names."""
        form_of = self.words
        changed = {form_of.add_key(form): form_of.add_key(key) for form, key in forms.items()}
        numbers = np.arange(len(form_of.keys) + 1, dtype=np.int32)
        numbers[-1] = -1
        numbers[list(changed)] = list(changed.values())
        return np.asarray(numbers[self.name_keys])


def _match(states: Sequence[ExtractState], before: MentionIndex | None) -> NDArray[np.intp]:
    """Return the row of each extract in the index ``before``, −1 where that has not the same."""
    if before is None:
        return np.full(len(states), -1, dtype=np.intp)
    rows = zip(*before.states.T.tolist(), before.chunk_ids, strict=True)
    known = {key: row for row, key in enumerate(rows)}
    same = np.array([known.get(each[:5], -1) for each in states], dtype=np.intp)
    # In another order everything may be merged in other words.
    return same if (np.diff(same[same >= 0]) > 0).all() else np.full(len(states), -1, dtype=np.intp)


def _is_noun(key: str) -> bool:
    return " " not in key and parts_of_speech(key)[:1] == "n"


def is_acronym(alias: str, entity: ExtractedEntity) -> bool:
    """Return whether ``alias`` is one word of 2 to 8 signs, mostly capitals, that the initials of the name or of another alias spell."""
    letters = [letter.lower() for letter in alias.removesuffix("s") if letter.isalpha()]
    if len(alias) not in range(2, 9) or sum(letter.isupper() for letter in alias) < 2 or " " in alias:  # noqa: PLR2004
        return False
    for form in (entity.name, *entity.aliases):
        initials = [word[0].lower() for word in form.replace("-", " ").split() if word[:1].isalnum()]
        if form != alias and len(initials) > 1 and _spells(letters, initials):
            return True
    return False


def _spells(letters: Sequence[str], initials: Sequence[str]) -> bool:
    """Return whether ``letters`` are the initials, up to half of which (those of small words) may be left out."""
    rest = iter(initials)
    return (
        letters[0] == initials[0]
        and len(initials) <= 2 * len(letters)
        and all(letter in rest for letter in letters)
    )
