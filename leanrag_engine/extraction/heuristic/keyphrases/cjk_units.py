"""Split Chinese, Japanese and Korean sentences into runs of words that terms can consist of, by the segmenters' tags."""

import re
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
    mistaken = (role == "p" and not person) or (role in "lo" and abstract)
    return "n" if mistaken else role


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


_INSTITUTIONS = tuple(read_words("cjk", "institutions"))
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
    if word.endswith(_INSTITUTIONS) and word not in _INSTITUTIONS:
        return "o"
    title = after.startswith(tuple(_KOREAN_TITLES))
    person = len("김민수") <= len(word) <= len("남궁민수") and word[0] in _KOREAN_SURNAMES
    return "p" if title and person else ""
