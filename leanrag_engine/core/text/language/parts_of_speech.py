"""The parts of speech that English words can have."""

from collections.abc import Mapping
from functools import cache

from leanrag_engine.core.text.word_lists import read_sections


def parts_of_speech(word: str) -> str:
    """Return what a word in lower case can be, the most frequent first: letters of n(oun), v(erb), a(djective),
    adve(r)b, i(nterjection), o(ther). "" for a word that the lexicon does not have."""
    return _lexicon().get(word, "")


def is_english_word(word: str) -> bool:
    """Return whether the lexicon has the word, which is in lower case, or its singular."""
    found = _lexicon()
    return word in found or (word.endswith("s") and word[:-1] in found)


@cache
def _lexicon() -> Mapping[str, str]:
    # Read on first use: a server that only answers never needs it.
    return {word: letters for letters, words in read_sections("english").items() for word in words}
