"""Divide an English question into the questions within it, by rules for its words alone; no model takes part.
What is found are texts to search for, not sentences to read: a part may lack its verb."""

import re
from collections.abc import Iterator

from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import content_words

_QUESTION_WORD = r"(?:who|whom|whose|what|which|when|where|why|how)"
_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)"
_NAME = r"(?:the\s+)?[\"“'‘A-Z0-9][^,?;]*?"

_OPTIONS = re.compile(
    rf"^(?P<head>(?i:(?:\w+\s+){{0,3}}{_QUESTION_WORD})\b.*?)"
    rf"(?:[,:]\s+(?P<one>[^,?]+?)|\s+(?P<name>{_NAME})),?\s+or\s+(?P<two>[^,?]+)$"
)
"""Which is older, A or B?"""
_BOTH = re.compile(
    rf"^(?P<head>(?i:{_AUXILIARY}))\s+(?:both\s+)?(?P<one>{_NAME})\s+and\s+(?P<two>{_NAME})"
    r"\s+(?P<rest>(?:both|of the same|the same|located|known|born|from|in|members?|considered|used|based|\w+ed)\b.*)$"
)
"""Were A and B of the same nationality?"""
_COMPARED = (
    re.compile(
        r"\b(?:differences?|similarit(?:y|ies)|distance|relation(?:ship)?)\s+between\s+(?P<one>.+?)\s+and\s+(?P<two>.+)$",
        re.IGNORECASE,
    ),
    re.compile(
        r"\bdo(?:es)?\s+(?P<one>.+?)\s+(?:compare\s+(?:to|with)|differ\s+from)\s+(?P<two>.+)$", re.IGNORECASE
    ),
    re.compile(
        r"\bdo(?:es)?\s+(?P<one>.+?)\s+and\s+(?P<two>.+?)\s+(?:differ|compare|have in common|share)\b.*$",
        re.IGNORECASE,
    ),
    re.compile(
        r"^(?:compare\s+)?(?P<one>.+?)\s+(?:versus|vs\.?|compared (?:to|with))\s+(?P<two>.+)$", re.IGNORECASE
    ),
)
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


def find_parts(text: str, *, comparisons: bool = False) -> tuple[str, ...]:
    """Return what a question holds that can be searched for by itself, at most four texts. These are its questions if
    it asks several ("Who came, and what did he bring?"), and the innermost description in each ("the person who
    voices Z"). With ``comparisons`` also what is asked of each of two things that are compared."""
    whole = _read_question(text)
    asked = _split_questions(whole)
    found = [
        part for each in asked for part in ((comparisons and _split_comparison(each)) or _find_inner(each))
    ]
    distinct = dict.fromkeys(part.strip(" ,;:") for part in (*(asked if len(asked) > 1 else ()), *found))
    # Unlike these, "what is it" cannot be searched for alone.
    return tuple(part for part in distinct if part != whole and len(content_words(part)) > 1)[:4]


def _read_question(text: str) -> str:
    """Return the text as one line without its end; nothing of what is too long for a question."""
    longest = 1000  # the patterns take quadratic time
    line = " ".join(text.split()).rstrip("?. ")
    return line if len(line) <= longest else ""


def _split_questions(text: str) -> list[str]:
    """Return the questions that stand one after another."""
    return [
        part for start, end in sentences(text) for part in _NEXT_QUESTION.split(text[start:end].rstrip("?. "))
    ]


def _split_comparison(text: str) -> list[str]:
    """Return what is asked of each of two things that are compared."""
    if match := _OPTIONS.match(text):
        one = match["one"] or match["name"]
        return [f"{match['head']} {each}" for each in (one, match["two"])]
    if match := _BOTH.match(text):
        rest = re.sub(r"^(?:both|of the same|the same)\s+", "", match["rest"])
        return [f"{match[each]} {rest}" for each in ("one", "two")]
    for pattern in _COMPARED:
        if match := pattern.search(text):
            return [match["one"], match["two"]]
    return []


def _find_inner(text: str) -> Iterator[str]:
    """Yield what has to be known first: the innermost description in the question."""
    for pattern in (_CHAIN, _RELATIVE, _POSSESSIVE):
        match = pattern.search(text)
        if match and not _ASKS.search(match["inner"]):
            yield match["inner"]
            return
