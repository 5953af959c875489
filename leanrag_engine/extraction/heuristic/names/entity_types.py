"""Recognise what a name stands for by the words in it or next to it: coarse types, and entries of a bibliography."""

import re

from leanrag_engine.extraction.heuristic.words import vocabulary as known
from leanrag_engine.extraction.heuristic.words.tokens import Sentence

from .mentions import Kind, Mention

_PLACE_BEFORE = re.compile(
    r"\b(?:city|town|village|county|state|province|district|island|capital|republic|municipality) of $|\bborn in $",
    re.IGNORECASE,
)
_PERSON_AFTER = re.compile(
    r"\s*\((?:born|b\.|c\.|\d{1,2} \w+ \d{4}|\w+ \d{1,2}, \d{4})"
    r"|,? (?:was|is) (?:born|married|an? (?:\S+ ){0,4}(?:actor|actress|singer|writer|author|politician|player|director|poet"
    r"|musician|composer|artist|scientist|physicist|historian|lawyer|king|queen|clerk))\b"
)
_WORK_NEAR = re.compile(
    r"\b(?:film|movie|album|novel|song|series|book|magazine|journal|newspaper|poem|musical|documentary|sitcom|opera)s?\b",
    re.IGNORECASE,
)
_PLACE_OPENINGS = frozenset(["lake", "mount", "river", "cape", "fort", "port"])


def coarse_type(mention: Mention, text: str) -> str:
    """Return person, event, organisation, place or work; "" without a cue. ``text`` is the sentence."""
    if mention.kind not in {Kind.NAME, Kind.WORK, Kind.CONCEPT} or not mention.name[:1].isupper():
        return ""
    words = [word.strip(".,'’") for word in mention.name.lower().split()]
    before, after = (text[max(0, mention.start - 24) : mention.start], text[mention.end : mention.end + 60])
    if (
        words[0] in known.PERSON_TITLES
        or before.lower().rstrip(". ").rsplit(" ", 1)[-1] in known.PERSON_TITLES
        or _PERSON_AFTER.match(after)
    ):
        return "person"
    if (
        len(words) > 1
        and mention.name.rsplit(None, 1)[-1][:1].isupper()
        and (type_ := _type_of_words(words, mention.kind))
    ):
        return type_
    if _PLACE_BEFORE.search(before):
        return "place"
    return "work" if mention.kind is Kind.WORK and _WORK_NEAR.search(f"{before} {after}") else ""


def _type_of_words(words: list[str], kind: Kind) -> str:
    first, last = words[0], words[-1]
    if last in known.EVENT_WORDS:
        return "event"
    head = words[words.index("of") - 1] if "of" in words[1:] else last
    if not known.ORGANISATION_WORDS.isdisjoint((first, head, last)):
        return "organisation"
    if last in known.PLACE_WORDS or first in _PLACE_OPENINGS:
        return "place"
    return "person" if kind is Kind.NAME and first in known.FIRST_NAMES else ""


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
    """Return whether a sentence without a verb has three signs of a bibliography's entry (not tuned); two persons are two."""
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
