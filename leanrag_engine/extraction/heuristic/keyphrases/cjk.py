"""Find names and terms of a Chinese, Japanese or Korean document: neighbours of a segmenter's words that
often occur together (a simplification of Frantzi and Ananiadou's C-value)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from leanrag_engine.core.text.language.segmentation import has_japanese, japanese_morphemes, tag_chinese
from leanrag_engine.core.text.scripts import has_hangul, is_japanese
from leanrag_engine.core.text.word_lists import read_words


class Unit(NamedTuple):
    """One word of a run. ``role`` is (n)oun, name of a (p)erson, a p(l)ace or an (o)rganisation, (s)uffix, (v)erb or
    (m)odifier that may open a term, or a light word (x), which combines with any noun and occurs only within a term."""

    text: str
    role: str
    start: int
    end: int


Run = list[Unit]


_LIGHT = read_words("cjk", "light")
_BREAKS = read_words("cjk", "breaks")  # Verbs that are never part of a term
_CHINESE_ROLES = {
    **dict.fromkeys(("n", "nz", "vn", "an", "j"), "n"),
    **dict.fromkeys(("nr", "nrt", "nrfg"), "p"),
    "ns": "l",
    "nt": "o",
}
_CHINESE_MODIFIERS = frozenset(["v", "a", "b", "ad", "ag", "vg", "zg", "ng", "g"])
_SUFFIX_PARTS = read_words("cjk", "suffix_parts")
_PREFIXES = frozenset("多跨超非")
_NO_PREFIXES_AFTER = frozenset("更很最较太许")
"""Characters after which a prefix is a word of its own: *更多*, more."""
_POINTING = frozenset("其该此")
"""Characters that point at something and begin no term; the segmenter may join them to the next one."""
_SURNAMES = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾萧田董潘袁蔡蒋余于杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范廖贾夏韦付邹孟熊秦邱江尹薛闫段侯龙史陶黎贺顾毛郝龚邵钱严"
)
_LONG_SURNAMES = ("欧阳", "司马", "诸葛", "上官", "司徒", "夏侯", "皇甫", "慕容", "令狐")
_TITLES = read_words("cjk", "titles_after_names")
"""Titles that follow a Japanese name and are not part of it."""


def language_of(text: str) -> str:
    """Return ``ja``, ``ko`` or ``zh`` for a text with CJK characters."""
    if is_japanese(text):
        return "ja"
    return "ko" if has_hangul(text) else "zh"


def runs(text: str, language: str) -> list[Run]:
    """Return the sequences of words in one sentence that terms can consist of."""
    if language == "ja":
        return _stretches(_japanese_units(text), gap=0)
    if language == "ko":
        return _stretches(_korean_units(text), gap=1)
    return _stretches(_chinese_units(text), gap=0)


def _stretches(units: Iterable[Unit], gap: int) -> list[Run]:
    """Split at units without a role and at gaps of more than ``gap`` characters."""
    found: list[Run] = [[]]
    for unit in units:
        if not unit.role or (found[-1] and unit.start > found[-1][-1].end + gap):
            found.append([])
        if unit.role:
            found[-1].append(unit)
    return [run for run in found if run]


def _chinese_units(text: str) -> Iterator[Unit]:
    position = 0
    for word, tag in tag_chinese(text):
        start = text.index(word, position)
        position = start + len(word)
        prefix = word in _PREFIXES and text[start - 1 : start] not in _NO_PREFIXES_AFTER
        yield Unit(word, "m" if prefix else _chinese_role(word, tag), start, position)


def _chinese_role(word: str, tag: str) -> str:
    if not ("\u3400" <= word[0] <= "\u9fff") or word in _BREAKS or word[0] in _POINTING or word[-1] == "地":
        return ""
    if len(word) == 1:
        return "s" if word in _SUFFIX_PARTS and tag[0] in "nkgqz" else ""
    if word in _LIGHT:
        return "x"
    role = _CHINESE_ROLES.get(tag, "v" if tag in _CHINESE_MODIFIERS else "")
    person = word[0] in _SURNAMES or word.startswith(_LONG_SURNAMES)
    abstract = word[-1] in "度性率" or (len(word) > len("宣化") and word[-1] in "化文")
    return "n" if (role == "p" and not person) or (role in "lo" and abstract) else role


def _japanese_units(text: str) -> Iterator[Unit]:
    if not has_japanese():
        return
    for morpheme in japanese_morphemes(text):
        word = morpheme.surface()
        yield Unit(word, _japanese_role(word, morpheme.part_of_speech()), morpheme.begin(), morpheme.end())


def _japanese_role(word: str, tags: Sequence[str]) -> str:
    major, minor, third = tags[:3]
    if word.isascii() or word.isspace() or word in _TITLES:
        return ""
    if major == "名詞" and minor == "固有名詞":
        return {"人名": "p", "地名": "l"}.get(third, "o")
    if major == "名詞":
        adverbial = third in {"副詞可能", "助数詞可能"} and len(word) == 1
        return "n" if minor == "普通名詞" and not adverbial else ""
    if major == "接尾辞":
        return "s" if minor == "名詞的" or word == "的" else ""
    return "m" if major in {"接頭辞", "形状詞"} and minor not in {"助動詞語幹", "タリ"} else ""


_KOREAN_WORD = re.compile("[가-힣]+")
_KOREAN_NOMINAL = re.compile(
    "([가-힣]{2,}?)(?:은|는|이|가|을|를|의|에|에서|에게|으로|로|와|과|도|이다|입니다)"
)


_INSTITUTIONS = read_words("cjk", "institutions")
_INSTITUTION_ENDS = tuple(_INSTITUTIONS)
_KOREAN_TITLES = read_words("cjk", "korean_titles")
_KOREAN_SURNAMES = read_words("cjk", "korean_surnames")
_KOREAN_PLACES = read_words("cjk", "korean_places")


def _korean_units(text: str) -> Iterator[Unit]:
    """Yield the words: one with a noun's particle ends a run and loses the particle; others may open a run."""
    words = list(_KOREAN_WORD.finditer(text))
    for place, match in enumerate(words):
        word, start = match[0], match.start()
        nominal = _KOREAN_NOMINAL.fullmatch(word)
        stem = nominal[1] if nominal else word
        after = "".join(each[0] for each in words[place + 1 : place + 2] if each.start() <= match.end() + 1)
        role = _korean_role(stem, after) or ("n" if nominal else "m" if len(word) > 1 else "")
        yield Unit(stem, role, start, start + len(stem))
        if nominal or role == "p":
            yield Unit("", "", match.end(), match.end())


def _korean_role(word: str, after: str) -> str:
    """Return the role of a name: a person before a title, a known place, an institution by its last word; else ""."""
    if word in _KOREAN_PLACES:
        return "l"
    if word.endswith(_INSTITUTION_ENDS) and word not in _INSTITUTIONS:
        return "o"
    person = len("김민수") <= len(word) <= len("남궁민수") and word[0] in _KOREAN_SURNAMES
    return "p" if after.startswith(tuple(_KOREAN_TITLES)) and person else ""


class Compound(NamedTuple):
    """A term ``text[start:end]`` of a sentence. A proper one holds a name; a weak one occurs only once."""

    name: str
    type: str
    start: int
    end: int
    proper: bool
    weak: bool


_GENERIC = read_words("cjk", "generic_nouns")
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
    if name.endswith(_INSTITUTION_ENDS) and name not in _INSTITUTIONS:
        return "organisation"
    return _TYPES.get(units[0].role, "") if len({unit.role for unit in units}) == 1 else ""
