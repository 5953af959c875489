"""Divide an English question into the questions within it, by rules for its words alone; no model takes part.
What is found are texts to search for, not sentences to read: a part may lack its verb."""

import re
from collections.abc import Iterator

from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import content_words

_QUESTION_WORD = r"(?:who|whom|whose|what|which|when|where|why|how)"
_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)"

_NEXT_QUESTION = re.compile(
    rf",?\s+(?:and|but)\s+(?=(?:(?:in|on|at|by|for|from|to|with|of)\s+)?{_QUESTION_WORD}\b)"
    rf"|,\s+and\s+(?={_AUXILIARY}\b)|,\s+(?=(?:what|how|why)\b)",
    re.IGNORECASE,
)
_CHAIN = re.compile(
    r"\b(?:the\s+)?(?P<outer>[\w'-]+(?:\s+[\w'-]+)?)\s+(?:of|in|for)\s+the\s+(?P<inner>(?:[\w'-]+\s+){1,3}(?:of|in|by|for|from)\s+.+)$",
    re.IGNORECASE,
)
"""The X of the Y of Z."""
_RELATIVE = re.compile(
    r"\b(?:the|an?)\s+(?P<inner>(?:(?!(?:of|in|for)\b)[\w'-]+\s+){1,4}?(?:(?:in|from|with|to|by|for|of|on)\s+)?"
    r"(?:who|whom|that|which|where|whose|when)\s+.+)$",
    re.IGNORECASE,
)
"""The person who voices Z."""
_ASKS = re.compile(r"\b(?:what|how|which\s+\w+\s*$)\b", re.IGNORECASE)
"""It asks itself: the series that runs on what station."""
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
