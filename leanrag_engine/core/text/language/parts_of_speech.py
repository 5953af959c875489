"""The parts of speech that English words can have."""

import re
from collections.abc import Mapping
from functools import cache

from leanrag_engine.core.text.word_lists import read_sections, read_words

NUMBER_WORDS = read_words("language", "number_words")
_PLAIN = read_words("language", "plain_english")
_ENDING = re.compile(r"(?:(?<=s)|(?<=x)|(?<=z)|(?<=ch)|(?<=sh)|(?<=o))es$|s$|e[dr]$|est$|ing$|ly$")


def parts_of_speech(word: str) -> str:
    """Return what a word in lower case can be, the most frequent first: letters of n(oun), v(erb), a(djective),
    adve(r)b, i(nterjection), o(ther). "" for a word that the lexicon does not have."""
    return _lexicon().get(word, "")


def is_english_word(word: str) -> bool:
    """Return whether a word in lower case is a number or a word of the lexicon, or a regular form of one: *stopped*, *busiest*."""
    stem = _ENDING.sub("", word) if len(word) > 3 else word  # noqa: PLR2004
    forms = {word, stem}
    if stem != word:
        forms |= {f"{stem}e", re.sub(r"(.)\1$", r"\1", stem), re.sub("i$", "y", stem)}
    return any(form in words for form in forms for words in (_lexicon(), _PLAIN, NUMBER_WORDS))


@cache
def _lexicon() -> Mapping[str, str]:
    # Read on first use: a server that only answers never needs it.
    return {word: letters for letters, words in read_sections("english").items() for word in words}
