"""Cut text into words, for counting, comparing and full-text search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from leanrag_engine.core.text.scripts import (
    CJK_RUN,
    HAN,
    HANGUL,
    KANA,
    KANA_CHARACTER,
    has_hangul,
    has_kana,
    is_japanese,
)
from leanrag_engine.core.text.word_lists import read_words

from .segmentation import segment

__all__ = ["STOPWORDS", "search_terms", "search_text", "word_count", "words"]

STOPWORDS = read_words("language", "stopwords")
"""Words without content of their own: English, Chinese and Japanese, in lower case."""

_WORD = re.compile(
    f"[{HAN}{KANA}]+"
    r"|[^\W\d_]+[+#]{1,2}(?![\w+#])"  # C++, C#
    r"|_*[^\W_]+(?:[_'’][^\W_]+|__[^\W_]+|(?<=\d)[.,](?=\d)[^\W_]+)*_*"
)
_POSSESSIVE = re.compile(r"['’]s?$")
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_CAMEL = re.compile(r"\b(?=\w*[a-z][A-Z]|\w*[A-Z]{2}[a-z]{2})[A-Za-z][A-Za-z\d]+\b")
_HUMP = re.compile("[A-Z](?:(?<=[a-z][A-Z])|[A-Z][a-z]{2})")
"""It looks from the capitals, of which there are few: four times as fast as from the small letters."""
_SIGN = re.compile(r"#|\+\+|\.[nN][eE][tT]")
_SIGNED = re.compile(r"(?<!\w)(?:[A-Za-z]\w{0,9}?(?:\+\+|#)(?![\w+#])|\.[nN][eE][tT]\b)")
_KOREAN_PARTICLE = re.compile(
    "(?<=[가-힣]{2})(?:은|는|이|가|을|를|의|에|에서|에게|으로|로|와|과|도|만|까지|부터|처럼|보다|이다|입니다|한다|하는)$"
)


def words(text: str) -> list[str]:
    """Return the words of ``text``, lower-cased and in order; Chinese and Japanese is cut into words.

    An identifier is followed by its parts (``read_file`` → ``read_file read file``); possessive
    endings are dropped; C++ and C# keep their signs.
    """
    japanese = is_japanese(text)
    found: list[str] = []
    for match in _WORD.finditer(text):
        token = match[0]
        if token.isascii():
            found += _latin_words(token)
        elif CJK_RUN.match(token):
            found += segment(token, japanese=japanese or has_kana(token), search=False)
        else:
            found.append(_POSSESSIVE.sub("", token.replace("’", "'")).lower())
    return found


def word_count(text: str) -> int:
    """Estimate the number of words of ``text`` without cutting it: two CJK characters count as one word."""
    if text.isascii():
        return len(text.split())
    cjk = sum(map(len, CJK_RUN.findall(text)))
    return len(CJK_RUN.sub(" ", text).split()) + (cjk + 1) // 2


def search_text(text: str) -> str:
    """Return the form of ``text`` for a full-text index whose tokenizer splits at punctuation.

    CJK is segmented, camel-case names are followed by their parts, and names such as C++ become words
    that such a tokenizer keeps. Plain text is returned unchanged.
    """
    if not text.isascii():
        text = _segment_text(text)
    # Searching for these names takes ten times as long as checking that a text can contain none.
    camels = _CAMEL.findall(text) if _HUMP.search(text) else []
    signs = _SIGNED.findall(text) if _SIGN.search(text) else []
    extra = [part for name in camels for part in _CAMEL_PART.findall(name)]
    extra += [_spell_signs(sign) for sign in signs]
    return f"{text}\n{' '.join(extra)}" if extra else text


def search_terms(text: str, limit: int = 32) -> list[str]:
    """Return the distinct terms of a query in order, at most ``limit``, for a search in :func:`search_text`.

    Stopwords are dropped unless nothing else remains. A term never contains a quote sign or white space.
    """
    found = dict.fromkeys(_query_words(text))
    content = [term for term in found if term not in STOPWORDS]
    return (content or list(found))[:limit]


def _query_words(text: str) -> Iterator[str]:
    japanese = is_japanese(text)
    for match in _WORD.finditer(text):
        token = match[0]
        if CJK_RUN.match(token):
            yield from _cjk_query_words(token, japanese=japanese or has_kana(token))
        elif _SIGNED.fullmatch(token):
            yield _spell_signs(token)
        elif has_hangul(token):
            yield from _korean_forms(token)
        else:
            yield from _latin_words(token)


def _cjk_query_words(run: str, *, japanese: bool) -> Iterator[str]:
    """Yield the words of a run in a query. Without kana it may be Chinese or Japanese: words of three characters and
    more are replaced by their pairs, which the index contains however its text was cut."""
    if japanese:
        yield from segment(run, japanese=True, search=True)
        return
    for word in segment(run, japanese=False, search=False):
        yield from [word] if len(word) <= 2 or word in STOPWORDS else _han_pairs(word)  # noqa: PLR2004


def _latin_words(token: str) -> list[str]:
    word = _POSSESSIVE.sub("", token.replace("’", "'"))
    if "_" in word:
        parts = [part for part in word.lower().split("_") if part]
        return [word.lower(), *parts] if parts != [word.lower()] else parts
    if not (word.islower() or word.isupper() or word[1:].islower()) and _CAMEL.fullmatch(word):
        return [word.lower(), *(part.lower() for part in _CAMEL_PART.findall(word))]
    return [word.lower()]


def _spell_signs(name: str) -> str:
    return name.lower().replace("++", "plusplus").replace("#", "sharp").replace(".net", "dotnet")


def _segment_text(text: str) -> str:
    japanese = is_japanese(text)

    def cut(run: re.Match[str]) -> str:
        in_japanese = japanese or has_kana(run[0])
        found = segment(run[0], japanese=in_japanese, search=True)
        return f" {' '.join([*found, *_find_other_pairs(run[0], found)])} "

    text = CJK_RUN.sub(cut, text)
    if has_hangul(text):
        return re.sub(f"[{HANGUL}]+", lambda word: " ".join(_korean_forms(word[0])), text)
    return text


def _find_other_pairs(run: str, found: list[str]) -> list[str]:
    """Return pairs of Han characters that are not words of the cut: a query may cut the same text differently."""
    words_ = set(found)
    return [pair for pair in dict.fromkeys(_han_pairs(run)) if pair not in words_]


def _han_pairs(run: str) -> list[str]:
    return [
        one + other
        for one, other in pairwise(run)
        if not KANA_CHARACTER.match(one) and not KANA_CHARACTER.match(other)
    ]


def _korean_forms(word: str) -> list[str]:
    """Return the word, and the word without its particle."""
    stem = _KOREAN_PARTICLE.sub("", word)
    return [word] if stem == word else [word, stem]
