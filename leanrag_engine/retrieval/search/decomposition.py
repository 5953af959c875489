"""Divide an English question into the questions within it, by rules for its words alone; no model takes part.
What is found are texts to search for, not sentences to read: a part may lack its verb."""

import re
from collections.abc import Iterator

from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import content_words
from leanrag_engine.core.text.word_lists import read_pattern

_NEXT_QUESTION = read_pattern("questions", "next")
_CHAIN = read_pattern("questions", "chain")
_RELATIVE = read_pattern("questions", "relative")
_ASKS = read_pattern("questions", "asks_itself")
_POSSESSIVE = re.compile(r"(?P<inner>(?:[A-Z][\w.-]*\s+)*[A-Z][\w.-]*['’]s?\s+[\w-]+)['’]s?\s+\w+")
"""Z's Y's X."""


def find_parts(text: str) -> tuple[str, ...]:
    """Return what a question holds that can be searched for by itself, at most four texts. These are its questions if
    it asks several ("Who came, and what did he bring?"), and the innermost description in each ("the person who
    voices Z")."""
    whole = _read_question(text)
    told = (whole[start:end].rstrip("?. ") for start, end in sentences(whole))
    asked = [part for each in told for part in _NEXT_QUESTION.split(each)]
    found = [part for each in asked for part in _find_inner(each)]
    distinct = dict.fromkeys(part.strip(" ,;:") for part in (*(asked if len(asked) > 1 else ()), *found))
    # Unlike these, "what is it" cannot be searched for alone.
    return tuple(part for part in distinct if part != whole and len(content_words(part)) > 1)[:4]


def _read_question(text: str) -> str:
    """Return the text as one line without its end; nothing of what is too long for a question."""
    longest = 1000  # the patterns take quadratic time
    line = " ".join(text.split()).rstrip("?. ")
    return line if len(line) <= longest else ""


def _find_inner(text: str) -> Iterator[str]:
    """Yield what has to be known first: the innermost description in the question."""
    for pattern in (_CHAIN, _RELATIVE, _POSSESSIVE):
        match = pattern.search(text)
        if match and not _ASKS.search(match["inner"]):
            yield match["inner"]
            return
