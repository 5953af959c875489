"""Recognize scripts: Chinese, Japanese and Korean characters, and Latin letters."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

from .word_lists import read_words

HAN = "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
KANA = "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
HANGUL = "\uac00-\ud7a3\u1100-\u11ff\u3130-\u318f"

CJK_RUN = re.compile(f"[{HAN}{KANA}]+")
KANA_CHARACTER = re.compile(f"[{KANA}]")
_HANGUL_CHARACTER = re.compile(f"[{HANGUL}]")
CJK_CHARACTER = re.compile(f"[{HAN}{KANA}{HANGUL}]")

_MARKED = re.compile("[\u0591-\u10ff\u1200-\u1cff\ua800-\uabff]")
"""Scripts in which vowels and tones are marks on letters, as in Hindi and Thai: ``re`` takes these for no part of a word."""

_LATIN = "A-Za-zªºÀ-ÖØ-öø-\u02af\u1e00-\u1eff"
_LATIN_RUN = re.compile(f"[{_LATIN}]+")
_ENGLISH = frozenset(["the", "and", "to", "that", "with", "this", "you", "by", "from", "are"])
FREQUENT_FOREIGN = read_words("language", "frequent_foreign")
_PROOF = 3  # Frequent foreign words more than English ones that a short text has by no chance
_SAMPLE = 2000  # Texts that are read of a large collection
_OTHER_RUN = re.compile(rf"(?:(?![{_LATIN}{HAN}{KANA}])[^\W\d_])+")


def read_marks(pattern: re.Pattern[str]) -> Callable[[str], re.Pattern[str]]:
    """Return which form of ``pattern`` reads a text: itself, or one in which what stands for a letter or figure may be a mark too,
    and what stands for a sign none."""

    @cache
    def compile_marked() -> re.Pattern[str]:
        found = map(chr, (*range(0x591, 0x1D00), *range(0xA800, 0xAC00)))
        marks = "".join(sign for sign in found if unicodedata.category(sign)[0] == "M")
        letters = pattern.pattern.replace(r"[^\W_]", "\0").replace(r"[\W_]", rf"(?:(?![{marks}])[\W_])")
        signs = letters.replace(r"(?![+#])\W", rf"(?![+#{marks}])\W")
        return re.compile(signs.replace("\0", rf"(?:[^\W_]|[{marks}])"))

    return lambda text: pattern if text.isascii() or _MARKED.search(text) is None else compile_marked()


def has_cjk(text: str) -> bool:
    """Return whether ``text`` contains a Chinese, Japanese or Korean character."""
    return not text.isascii() and CJK_CHARACTER.search(text) is not None


def has_kana(text: str) -> bool:
    """Return whether ``text`` contains hiragana or katakana."""
    return not text.isascii() and KANA_CHARACTER.search(text) is not None


def has_hangul(text: str) -> bool:
    """Return whether ``text`` contains Korean letters."""
    return not text.isascii() and _HANGUL_CHARACTER.search(text) is not None


def is_japanese(text: str) -> bool:
    """Return whether the Han and kana characters of ``text`` are Japanese rather than Chinese."""
    if text.isascii():
        return False
    kana = len(KANA_CHARACTER.findall(text))
    # At least 5 % kana: Chinese texts quote some.
    return kana > 0 and kana >= 0.05 * sum(map(len, CJK_RUN.findall(text)))


def is_mostly_latin(texts: Sequence[str]) -> bool:
    """Return whether most words of ``texts`` are in Latin letters; texts without words count as such. A sample is
    read if there are many texts. Chinese and Japanese have no spaces: two characters count as one word."""
    return sum(map(count_latin_excess, texts[:: max(len(texts) // _SAMPLE, 1)])) >= 0


def is_mostly_english(texts: Sequence[str], *, surely: bool = False) -> bool:
    """Return whether most words of ``texts`` are in Latin letters, and frequent words of other languages are at most 5 % more of
    all than English ones are: English texts name the Le Verriers and El Dorado. ``surely``: a few more are no proof of the other."""
    sample = texts[:: max(len(texts) // _SAMPLE, 1)]
    words = [word for text in sample for word in _LATIN_RUN.findall(text.lower())]
    excess = sum((word in FREQUENT_FOREIGN) - (word in _ENGLISH) for word in words)
    return is_mostly_latin(sample) and (20 * excess <= len(words) or (surely and excess < _PROOF))


def count_english(texts: Sequence[str]) -> float:
    """Return the share of ``texts`` that are mostly English, by a sample if there are many; 1 without any."""
    sample = texts[:: max(len(texts) // _SAMPLE, 1)]
    return sum(is_mostly_english([text], surely=True) for text in sample) / len(sample) if sample else 1.0


def count_latin_excess(text: str) -> float:
    """Return how many more words are in Latin letters than in others, counted as :func:`is_mostly_latin` does."""
    latin = len(_LATIN_RUN.findall(text))
    if text.isascii():
        return latin
    return latin - sum(map(len, CJK_RUN.findall(text))) / 2 - len(_OTHER_RUN.findall(text))
