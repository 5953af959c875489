"""Apostrophes: one form for analysis, and contractions, which are never names."""

import re

from leanrag_engine.core.text.word_lists import read_words

_SIGNS = "’‘ʼʹ′＇´ʻ｀"
_TYPOGRAPHIC = re.compile(f"(?<=[^\\W_])[{_SIGNS}](?=[^\\W_])|(?<=s)’(?=\\s)")
_CONTRACTION = re.compile(r"[^\W\d_]+(?:'?n't|'(?:ll|ve|re|m|d))(?:'[a-z]+)?", re.IGNORECASE)
_WITH_IS = read_words("language", "before_is")
_OTHERS = read_words("language", "contractions")


def plain_apostrophes(text: str) -> str:
    """Return ``text`` of the same length in which every apostrophe within a word is ``'``. Word files,
    e-books and web pages write ``’``. For analysis only: quotations keep what the document has."""
    return text if text.isascii() else _TYPOGRAPHIC.sub("'", text)


def is_contraction(word: str) -> bool:
    """Return whether a word with plain apostrophes is a contraction: *I'll*, *can't*, *it's*; not the owner in *Tim's*."""
    if "'" not in word:
        return False
    small = word.lower()
    return (
        _CONTRACTION.fullmatch(small) is not None
        or small in _OTHERS
        or (small.endswith("'s") and small[:-2] in _WITH_IS)
    )
