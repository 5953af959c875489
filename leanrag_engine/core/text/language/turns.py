"""Turns of a conversation in the notation that the readers give it: ``[12:03] Li Hua: text``, the time if there is one."""

import re
from typing import NamedTuple

from leanrag_engine.core.text.word_lists import read_words

_TURN = re.compile(
    r"(?:\[(?P<time>\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?: ?[AaPp]\.?[Mm]\.?)?)\] )?(?P<speaker>[^\s:\[\]<>|][^:\n\[\]<>|]{0,39}): (?=\S)"
)
_LABELS = read_words("language", "labels_with_colon")
_SMALL_IN_NAMES = frozenset(["de", "da", "di", "del", "van", "von", "der", "den", "la", "le", "bin", "al", "el", "of", "the", "and"])  # fmt: skip
_NUMBERED = re.compile(r"\(?\d{1,3}[.)] ")
_TELEPHONE = re.compile(r"\+?[\d\s()-]{7,}")
_SHARED = re.compile(r"(?:\s*\[[^\[\]\n]*\])+$")
_BLANK = re.compile(r"\n[ \t]*\n")


class Turn(NamedTuple):
    """The label of a turn: the speaker is ``text[start:end]``, what is said begins at ``said``; "" is no time."""

    speaker: str
    time: str
    start: int
    end: int
    said: int


def find_turn(text: str) -> Turn | None:
    """Return the label that ``text`` begins with; None if it is no turn."""
    match = _TURN.match(text)
    if match is None or not is_speaker(match["speaker"]):
        return None
    return Turn(match["speaker"], match["time"] or "", *match.span("speaker"), match.end())


def is_speaker(label: str) -> bool:
    """Return whether the words before a colon can be a person: one to four capitalised words, a nickname, a number."""
    if _TELEPHONE.fullmatch(label):
        return True
    words = label.split()
    most_words = 4
    if not 0 < len(words) <= most_words or label.lower() in _LABELS or words[0].lower() in _LABELS:
        return False
    if _NUMBERED.match(label) or len(label) < 2 or label[-1] in "?!,;":  # noqa: PLR2004 - one letter is a variable or the A of Q and A
        return False
    return all(_is_name_word(word) for word in words) and any(letter.isalpha() for letter in label)


def _is_name_word(word: str) -> bool:
    first = word.lstrip("(@~\"'“‘")[:1]
    return (
        first.isupper()
        or first.isdigit()
        or word in _SMALL_IN_NAMES
        or (first.isalpha() and not first.islower())
    )


def is_conversation(text: str, *, share: float = 0.6, fewest: int = 3) -> bool:
    """Return whether most paragraphs of ``text`` are turns, and its speakers speak in turns. A list of fields
    (*Name: …*, *Age: …*) never repeats a label. Two turns suffice if both have a time."""
    paragraphs = _paragraphs(text)
    turns = [turn for part in paragraphs if (turn := find_turn(part))]
    if len(turns) < share * len(paragraphs):
        return False
    timed = all(turn.time for turn in turns)
    return len(turns) >= fewest - timed and (timed or len({turn.speaker for turn in turns}) < len(turns))


def without_shared(turn: str) -> str:
    """Return a turn without what it shares beside its words, such as a picture, as it is described at its end."""
    return _SHARED.sub("", turn)


def has_times(text: str) -> bool:
    """Return whether most turns of a conversation have a time: there a label without one (*March: …*) begins no turn."""
    turns = [turn for part in _paragraphs(text) if (turn := find_turn(part))]
    return 2 * sum(turn.time != "" for turn in turns) > len(turns)


def _paragraphs(text: str) -> list[str]:
    return [
        part.lstrip() for part in _BLANK.split(text) if part.strip() and not part.lstrip().startswith("#")
    ]
