"""Read the lists of words in ``data/``, and the parts of speech that English words can have. A file has
sections: a line ``[name]``, then words separated by white space. Lines that start with ``# `` are
comments."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("data")


def read_words(file: str, section: str) -> frozenset[str]:
    """Return the words of one section of ``data/<file>.txt``."""
    return read_sections(file)[section]


@cache
def read_sections(file: str) -> Mapping[str, frozenset[str]]:
    """Return the words of ``data/<file>.txt`` by section."""
    found: dict[str, set[str]] = {}
    words: set[str] = set()
    for line in (_FOLDER / f"{file}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            words = found.setdefault(line[1:-1], set())
        elif not line.startswith("# "):
            words.update(line.split())
    return {name: frozenset(words) for name, words in found.items()}


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
