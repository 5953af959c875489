"""Select the sentences worth quoting for a cluster, by form: word lists are English; sentences of other languages pass them."""

import re
from collections.abc import Mapping
from functools import lru_cache

from leanrag_engine.core.text.language.sentences import find_turn
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.core.text.word_lists import read_pattern, read_words

from .naming import BRACKETS, DEFAULT, phrase_keys

_LEANING = read_words("language", "leaning")
_SPOKEN = frozenset(("i", "we", "you"))
_OWNING = frozenset(("his", "her", "its", "their", "him", "them"))
"""A sentence that opens so leans on the one before it."""

_IS = frozenset(["is", "are", "was", "were", "means", "refers", "denotes", "是", "とは", "は"])
_SPEECH_OPENS = re.compile(r"(?:^|[\s(—–-])['‘](?=\w)")
_SPEECH_CLOSES = re.compile(r"(?<=[.,!?—-])['’](?!\w)")
_QUOTE_CLOSES = re.compile(r"(?<=\w)['’](?![\w])")
_POINTING = read_pattern("phrases", "pointing")
"""It introduces what is not quoted with it, or follows what is not."""

_PRONOUNS = read_pattern("phrases", "pronouns")
_LABEL = re.compile(r"[^\W\d_a-z][^\s:]*(?: [^\s:]+){0,3}: |Note(?:,| that) ")
_PAGES = re.compile(r"[^\W\d_][^\s\d]* \d{1,3}(?:[-–]\d{1,3})? [\"“‘']?[^\W\d_a-z]")
"""A page between two entries of a table of contents."""

_SPLICED = re.compile(
    r":\s+(?:The|This|These|An?|If|In|It|When|For|On|There|They|We|You)\s"
    r"|[^\W_] (?:The|This|These|Those|If|When|Where|There|It) [^\W\d_A-Z]"
)
"""What introduced a list or an example, or headed a paragraph, with the sentence after that behind it."""


@lru_cache(maxsize=1 << 12)  # a sentence is asked about for each name and relation in it
def stands_alone(sentence: str) -> bool:
    """Return whether a sentence can be read without its surroundings and is no listing. Of a turn of a chat, what is
    said is judged; that it says *I* or *you* does no harm, for the speaker is named."""
    turn = find_turn(sentence)
    if turn is None:
        return not _leans(sentence) and not _is_listing(sentence)
    said = sentence[turn.said :]
    return not _leans(said, _LEANING - _SPOKEN) and not _is_listing(said)


def score_sentence(text: str, subject: str, weights: Mapping[str, float], centrality: float) -> float:
    """Return the weight of distinguishing phrases relative to length, times the centrality of the subject."""
    turn = find_turn(text)
    present = sorted(weights.keys() & phrase_keys(text))
    worth = centrality * sum(weights[key] for key in present) / (DEFAULT.terse + word_count(text))
    if is_speech(text):
        worth *= 0.5  # it says little about its subject
    if turn is None and _LABEL.match(text):
        worth *= DEFAULT.labelled
    worth *= DEFAULT.personal ** min(4, len(_PRONOUNS.findall(text)))
    return worth * DEFAULT.defining if _defines(text, subject) else worth


def is_speech(text: str) -> bool:
    """Return whether a sentence is direct speech, a question or an exclamation."""
    spoken = text[0] in "'‘“\"「『" and (_SPEECH_CLOSES.search(text) or text[-1] in '"”」』')
    return bool(spoken) or text.rstrip("\"'”’»)」』")[-1:] in {*"!?！？"}


def _defines(text: str, subject: str, *, soon: int = 24) -> bool:
    """Return whether a sentence begins with its subject and says what it is within ``soon`` characters."""
    opening = text.lower().lstrip("\"'“‘ ").removeprefix("the ").removeprefix("a ").removeprefix("an ")
    if not opening.startswith(subject.lower()):
        return False
    return not _IS.isdisjoint(opening[len(subject) : len(subject) + soon].split())


def _leans(sentence: str, leaning: frozenset[str] = _LEANING) -> bool:
    """Return whether a sentence depends on its neighbours."""
    unclosed = any(sentence.count(opening) != sentence.count(closing) for opening, closing in BRACKETS)
    if (
        _POINTING.search(sentence)
        or _SPLICED.search(sentence)
        or sentence.count('"') % 2
        or _half_spoken(sentence)
    ):
        return True
    if unclosed or "|" in sentence or sentence.endswith((":", ":.")) or sentence[0] in "([{":
        return True
    opening = [word.strip("\"'“‘(,").lower() for word in sentence.split(maxsplit=4)[:4]]
    return opening[0] in leaning or not _OWNING.isdisjoint(opening)


def _half_spoken(sentence: str) -> bool:
    """Return whether single quotation marks are unbalanced."""
    opened, closed = len(_SPEECH_OPENS.findall(sentence)), len(_SPEECH_CLOSES.findall(sentence))
    return closed > opened or opened > closed + len(_QUOTE_CLOSES.findall(sentence))


def _is_listing(sentence: str, *, capitals: float = 0.4) -> bool:
    """Return whether a sentence is a table of contents or a heading merged with its text: pages, that share of capital
    letters, or four consecutive words that occur twice."""
    letters = [*filter(str.isalpha, sentence)]
    if sum(map(str.isupper, letters)) >= capitals * max(1, len(letters)):
        return True
    if len(_PAGES.findall(sentence)) > 1:
        return True
    found = sentence.split()
    runs = [tuple(found[place : place + 4]) for place in range(len(found) - 3)]
    return len(set(runs)) < len(runs)
