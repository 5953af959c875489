"""Tell sentences that state something from headings, fragments, calls and questions."""

import re
from functools import lru_cache

from leanrag_engine.core.text.language.parts_of_speech import parts_of_speech
from leanrag_engine.core.text.scripts import has_cjk

from .apostrophes import is_contraction, plain_apostrophes
from .sentences import ends_sentence
from .turns import find_turn
from .words import STOPWORDS, word_count

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_CLOSING = "\"'”’»)]}*_ 」』"
_FRAGMENT = re.compile(r"\([a-z][^()]*\)\s+(?:and|or|but|with|for|of|to|in|on|by)\b")
"""It goes on from a remark in brackets that a full stop cut off."""
_TABLE = re.compile(r"^\||\|\s*$|\s\|\s.*\s\|\s|^[-=+*#>]{2,}|^!!!|^===")


@lru_cache(maxsize=1 << 12)  # a sentence is asked about for each of its names
def is_statement(text: str) -> bool:
    """Return whether ``text`` is a whole sentence that states something: it ends as one, has a verb and some words, and
    is no question. A turn of a chat needs no full stop."""
    turn = find_turn(text)
    said = text[turn.said :] if turn else text
    bare = said.rstrip(_CLOSING)
    if not bare or bare[-1] in "?？:：;," or _TABLE.search(said) or _FRAGMENT.match(said):
        return False
    if has_cjk(said):
        return ends_sentence(said)
    fewest_words = 3
    return (turn is not None or ends_sentence(said)) and word_count(said) >= fewest_words and _has_verb(said)


def _has_verb(text: str) -> bool:
    """Return whether a word can be a verb, or is unknown to the lexicon and may be one of another language."""
    words = [word.lower() for word in _WORD.findall(plain_apostrophes(text))]
    if any(is_contraction(word) or "v" in parts_of_speech(word) for word in words):
        return True
    known = any(parts_of_speech(word) for word in words if word not in STOPWORDS)
    fewest_words = 5  # of a sentence of another language, whose verbs the lexicon does not know
    return len(words) >= fewest_words and not known
