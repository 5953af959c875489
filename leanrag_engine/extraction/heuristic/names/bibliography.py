"""Recognise an entry of a bibliography, whose capitals name titles, series and offices rather than what the text is about."""

from __future__ import annotations

import re

from leanrag_engine.extraction.heuristic.words import vocabulary as known
from leanrag_engine.extraction.heuristic.words.tokens import Sentence

from .mentions import Kind, Mention

_SIGNS = (
    re.compile(r"\b[A-Z]\.\s?(?:[A-Z]\.\s?)*[A-Z][a-z]+|[A-Z][a-z]+, (?:[A-Z]\.\s?)+"),
    re.compile(r"\b(?:1[6-9]|20)\d\d[a-z]?\b"),
    re.compile(r"\((?:1[6-9]|20)\d\d[a-z]?\)"),
    re.compile(r"\bpp?\.\s?\d|\bpages? \d|\d[-–]\d+\b"),
    re.compile(r"\b(?:vol(?:ume)?|no|iss(?:ue)?)\b\.?\s*\d|\d+\s?\(\d+\)", re.IGNORECASE),
    re.compile(
        r"\b(?:Proc|Trans|Conf|Rep|Tech|Univ|Dept|Inst|Symp|eds?|Press|Journal|Review|Letters|Proceedings|Transactions"
        r"|Annals|arXiv|doi|ISBN)\b"
    ),
)
"""Initials beside a surname, a year, a year in brackets, pages, a volume or number, a word of bibliographies."""


def is_reference(sentence: Sentence) -> bool:
    """Return whether a sentence without a verb has three signs of a bibliography's entry (not tuned); two
    persons are two."""
    if any(token.kind == "w" and token.lower in known.VERB_FORMS | known.BE for token in sentence.tokens):
        return False
    several = len(_SIGNS[0].findall(sentence.text)) > 1
    enough = 3
    return several + sum(sign.search(sentence.text) is not None for sign in _SIGNS) >= enough


def is_author(mention: Mention) -> bool:
    """Return whether a mention in an entry of a bibliography is a person with initials or a first name, or a title in quotes."""
    words = mention.name.split()
    person = len(words) > 1 and (words[0].endswith(".") or words[0].lower() in known.FIRST_NAMES)
    return person or mention.kind is not Kind.NAME
