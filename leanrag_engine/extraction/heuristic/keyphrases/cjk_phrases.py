"""Find names and terms of a Chinese, Japanese or Korean document: neighbours of a segmenter's words that
often occur together (a simplification of Frantzi and Ananiadou's C-value)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from leanrag_engine.core.text.word_lists import read_words

from .cjk_units import Run, Unit


class Compound(NamedTuple):
    """A term ``text[start:end]`` of a sentence. A proper one holds a name; a weak one occurs only once."""

    name: str
    type: str
    start: int
    end: int
    proper: bool
    weak: bool


_GENERIC = read_words("cjk", "generic_nouns")
_INSTITUTIONS = read_words("cjk", "institutions")
_AFTER_WORDS = frozenset("上中下内里外时后前间")
"""Characters of place and time, which a segmenter may leave on a noun."""
_TYPES = {"p": "person", "l": "place", "o": "organisation"}

_LONGEST, _LONGEST_CHARACTERS = 5, 14
_OFTEN = 2  # Neighbours that occur together so often in the document are a term
_OFTEN_ALONE = {"zh": 4, "ja": 3, "ko": 2}
"""How often a single common noun, which is unspecific, must occur to be a term."""


class Compounds:
    """Counts every sequence of up to five adjacent words in a document's runs and decides which are terms."""

    def __init__(self, found: Iterable[Run], language: str) -> None:
        self._language = language
        self._counts: Counter[str] = Counter()
        nouns: dict[str, None] = {}
        for run in found:
            nouns.update(dict.fromkeys(unit.text for unit in run if unit.role == "n"))
            for first in range(len(run)):
                for last in range(first + 1, min(first + _LONGEST, len(run)) + 1):
                    self._counts[_join(run[first:last])] += 1
        self._strong = self._salient(nouns)

    def _salient(self, nouns: Iterable[str]) -> set[str]:
        """Return the ten most frequent common nouns, which show what the document is about."""
        least = _OFTEN_ALONE[self._language]
        often = [
            noun for noun in nouns if len(noun) > 1 and self._counts[noun] >= least and noun not in _GENERIC
        ]
        return set(sorted(often, key=lambda noun: -self._counts[noun])[:10])

    def define(self, run: Run) -> str:
        """Register the run, which a remark explains, as a term; return its name, or "" if it is none."""
        first = next((rank for rank, unit in enumerate(run) if _opens(unit)), len(run))
        name = _join(run[first:])
        if name in _GENERIC or not 1 < len(name) <= _LONGEST_CHARACTERS:
            return ""
        self._strong.add(name)
        return name

    def of(self, run: Run) -> Iterator[Compound]:
        """Yield the terms of one run: from the left, the longest sequence that is a term."""
        first = 0
        while first < len(run):
            last = self._end(run, first)
            if last:
                units = run[first:last]
                name = _join(units)
                proper = any(unit.role in "plo" for unit in units)
                weak = not proper and name not in self._strong and self._counts[name] < _OFTEN
                yield Compound(name, _type(units), units[0].start, units[-1].end, proper, weak)
            first = last or first + 1

    def _end(self, run: Run, first: int) -> int:
        """Return the end of the term that begins with the unit ``first``; 0 if there is none."""
        person = _person_end(run, first) if self._language == "ja" else 0
        if person:
            return person
        for last in range(min(first + _LONGEST, len(run)), first, -1):
            units = run[first:last]
            if _join(units) in self._strong or self._is_term(units, whole=last - first == len(run)):
                return last
        return 0

    def _is_term(self, units: Sequence[Unit], *, whole: bool) -> bool:
        name = _join(units)
        if len(name) > _LONGEST_CHARACTERS or len(name) == 1 or not (_opens(units[0]) and _closes(units[-1])):
            return False
        if len(units) == 1:
            return units[0].role in "plo" and name not in _GENERIC
        if units[0].role in "plo" and units[-1].text in _INSTITUTIONS:
            return True
        # Sudachi's tags are reliable enough to accept a compound that occurs once.
        return (self._language == "ja" and whole) or (self._counts[name] >= _OFTEN and self._holds(units))

    def _holds(self, units: Sequence[Unit]) -> bool:
        """Return whether the words form a unit; a verb before or after its object does not."""
        count = self._counts[_join(units)]
        if not any(unit.role in "nplos" for unit in units):
            return count > _OFTEN
        opens = units[0].role in "vm" and len(units) > _OFTEN
        verb_first = opens and 3 * count < self._counts[_join(units[1:])]
        verb_last = units[-1].role == "v" and 3 * count < self._counts[_join(units[:-1])]
        return not (verb_first or verb_last)


def _join(units: Sequence[Unit]) -> str:
    """Join the units as in the text: Korean words keep the space between them."""
    if len(units) > 1 and units[0].end < units[1].start:
        return " ".join(unit.text for unit in units)
    return "".join(unit.text for unit in units)


def _opens(unit: Unit) -> bool:
    return unit.role not in "sx"


def _closes(unit: Unit) -> bool:
    return unit.role in "nplosv" and unit.text[-1] not in _AFTER_WORDS


def _person_end(run: Run, first: int) -> int:
    """Return the end of surname and given name; 0 if these do not begin at ``first``."""
    last = first
    while last < len(run) and run[last].role == "p":
        last += 1
    return last if last - first > 1 else 0


def _type(units: Sequence[Unit]) -> str:
    name = _join(units)
    if name.endswith(tuple(_INSTITUTIONS)) and name not in _INSTITUTIONS:
        return "organisation"
    roles = {unit.role for unit in units}
    return _TYPES.get(units[0].role, "") if len(roles) == 1 else ""
