"""What a question asks for, told from its words."""

import re
from collections.abc import Callable, Sequence

from leanrag_engine.core.text.language.words import content_words
from leanrag_engine.core.text.word_lists import read_pattern, read_words

TextSearch = Callable[[str], re.Match[str] | None]

OVERVIEW = read_pattern("questions", "overview")
asks_for_overview: TextSearch = OVERVIEW.search
"""Says whether an English text asks what all is about."""
EVERYTHING = read_words("language", "everything")
"""Words that say of what an overview is wanted, where it is of all there is."""
asks_for_order: TextSearch = read_pattern("questions", "order").search
"""Says whether an English text asks how things came one after another."""
asks_for_list: TextSearch = read_pattern("questions", "list").search
"""Says whether a text asks for all of something."""
asks_for_relation: TextSearch = read_pattern("questions", "relation").search
"""Says whether an English text asks what things have to do with each other."""
NOW = read_pattern("questions", "now")
asks_for_now: TextSearch = NOW.search
"""Says whether a text asks for what holds now."""
find_newest_of: TextSearch = read_pattern("questions", "newest").search
"""Finds of what a text asks for the newest: *the last council meeting*."""
asks_for_uses: TextSearch = read_pattern("questions", "uses").search
"""Says whether a text asks what uses a thing, rather than what it is."""
_ONE = (
    (read_pattern("questions", "one"), read_pattern("questions", "more")),
    (read_pattern("questions", "one_foreign"), read_pattern("questions", "more_foreign")),
)
_DEFINED = read_pattern("questions", "defined")
_FRAME = read_pattern("questions", "frame")
_SENT = re.compile(
    r"\b(?i:(?:e-?)?mails?|messages?|letters?|posts?|notes?|news) (?i:(?:that )?(?:(?:sent |written )?(?:from|by)|of)) (?P<who>[A-Z][\w'-]*(?: [A-Z][\w'-]*){0,2})"
)


def leave_out_frame(text: str) -> str:
    """Return a question without the words that stand for the documents at hand, which none of them holds: *Where do these pages mention
    …*; as it is where hardly anything else is left."""
    rest = " ".join(_FRAME.sub(" ", text).split())
    return rest if len(content_words(rest)) > 1 else text


def find_defined(text: str) -> str:
    """Return the thing of which an English text asks what it is, and nothing else; "" for none. *The budget* is not asked for as such."""
    asked = _DEFINED.fullmatch(text)
    return asked["what"] if asked else ""


def find_sender(text: str) -> str:
    """Return who wrote the mails or messages that a text asks for; "" for nobody."""
    asked = _SENT.search(text)
    return asked["who"] if asked else ""


def asks_about_all(text: str) -> bool:
    """Return whether an English text asks what all is about and names no subject of its own."""
    rest, count = OVERVIEW.subn(r" \g<subject>", text)
    return count > 0 and not content_words(re.sub(r"\b[Tt]hese \w+s\b", " ", rest)) - EVERYTHING


def asks_for_several(text: str) -> bool:
    """Return whether an English text asks for a list, timeline or overview."""
    return any(asks(text) for asks in (asks_for_list, asks_for_order, asks_for_overview))


def asks_for_one(text: str) -> bool:
    """Return whether a question asks for one thing: a person, place, time, amount, kind or, in English, yes or no."""
    text = text.strip()
    if asks_for_uses(text) or asks_for_several(text):
        return False
    return any(one.match(text) and not more.search(text) for one, more in _ONE)


def choose_budget(texts: Sequence[str]) -> int:
    """Return the most tokens of a reply where the caller names none: what one thing needs, or more."""
    return 1200 if all(map(asks_for_one, texts)) else 2000
