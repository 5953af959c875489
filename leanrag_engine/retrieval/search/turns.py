"""Choose the turns of a conversation that answer. Much of a conversation is thanks and encouragement, which is near to any question
about what its speakers do, and turns that answer share few words with it. So a window is shown as its best turns."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from leanrag_engine.core.model import Chunk
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.turns import find_turn, is_conversation, without_shared
from leanrag_engine.core.text.language.words import content_words, words
from leanrag_engine.documents.dates import DATE_WORDS

from .matching import QueryWords
from .relevance import RankedWindow, asks_for_list, asks_for_order, asks_for_overview

_BLANK = re.compile(r"\n[ \t]*\n\s*")
_WHEN = re.compile(
    rf"\b(?:yesterday|today|tonight|tomorrow|just|recently|lately|ago|{'|'.join(sorted(DATE_WORDS))}"
    r"|(?:last|next|this|past|few) (?:day|week|weekend|month|year|morning|night|spring|summer|autumn|fall|winter)s?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What chooses a turn. Each ``gain`` is a share of the best window's value; twice or half of one changed a point or two of ten lists and timelines."""

    gain: float = 0.3
    """Of a turn whose speaker the question names; that says when, for a timeline or overview; that has all words of the question; whose
    words weigh ``full``, each by how few turns have it: one in a thousand weighs 7. In part for a part of these."""
    full: float = 60.0
    beside: float = 0.2
    """How far below the best turn of its window a second one may be."""
    small_talk: float = 16.0
    """Weight of a sentence below which it is left out at both ends of a turn."""


TURNS = TurnOptions()


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """``text[start:end]`` of a passage. ``parts`` are its sentences, each with the words of it that count; what follows the
    last one is described."""

    start: int
    end: int
    speaker: str
    parts: tuple[tuple[int, int, frozenset[str]], ...]

    @property
    def words(self) -> frozenset[str]:
        return frozenset().union(*(each for _, _, each in self.parts))


@lru_cache(maxsize=1 << 11)
def cut_turns(text: str) -> tuple[SpokenTurn, ...]:
    """Return the turns of a passage; none if it is no conversation."""
    if not is_conversation(text):
        return ()
    gaps = (gap.end() for gap in _BLANK.finditer(text))
    starts = [0, *(at for at in gaps if text.startswith("#", at) or find_turn(text[at : at + 80]))]
    turns = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        body = text[start:end].rstrip()
        turn = find_turn(body)
        said = turn.said if turn else 0
        places = [
            (start + said + each[0], start + said + each[1])
            for each in sentences(without_shared(body)[said:])
        ]
        if places and not body.startswith("#"):
            parts = tuple((*each, content_words(text[slice(*each)])) for each in places)
            turns.append(SpokenTurn(start, start + len(body), turn.speaker if turn else "", parts))
    return tuple(turns)


def choose_turns(
    rankings: Sequence[Sequence[RankedWindow]], texts: Sequence[str], chunks: Iterable[Chunk]
) -> list[list[RankedWindow]]:
    """Return the windows found for each text, those of conversations with their best turns and the value of these, best first.
    ``chunks`` are all passages that were looked at: they tell which words are common."""
    turns = [turn for chunk in chunks for turn in cut_turns(chunk.text)]
    if not turns:
        return [list(each) for each in rankings]
    having = Counter(word for turn in turns for word in turn.words)
    weights = {word: math.log(len(turns) / count) for word, count in having.items()}
    speakers = {turn.speaker for turn in turns if turn.speaker}
    chosen = []
    for text, ranking in zip(texts, rankings, strict=True):
        choice = _TurnChoice(text, weights, speakers)
        best = max((each.value for each in ranking), default=0.0)
        shown = (choice.show(each, best) for each in ranking)
        chosen.append(sorted(shown, key=lambda each: -each.value))
    return chosen


class _TurnChoice:
    """Chooses the turns for one text: those of a list, timeline or overview by value, else all of a window."""

    def __init__(self, text: str, weights: Mapping[str, float], speakers: set[str]) -> None:
        self._asked, self._weights, said = QueryWords([text]), weights, set(words(text))
        named = {each for each in speakers if said & set(words(each))}
        self._named = named if named != speakers else set[str]()
        self._dated = asks_for_order(text) or asks_for_overview(text)
        self._several = self._dated or asks_for_list(text)
        self._total = self._weigh(self._asked.find(text)) or 1.0

    def show(self, window: RankedWindow, best: float) -> RankedWindow:
        """Return the window as its turns, as it is if it has no part of any."""
        chunk, place = window.chunk, window.chunk.windows[window.number]
        start, end = place.start - chunk.start, place.end - chunk.start
        within = [turn for turn in cut_turns(chunk.text) if turn.start < end and turn.end > start]
        value = window.value
        if within and self._several:
            values = {turn: self._value(turn, chunk.text) for turn in within}
            within = sorted(within, key=lambda turn: -values[turn])[:2]
            within = [turn for turn in within if values[turn] >= values[within[0]] - TURNS.beside]
            value += best * values[within[0]]
        shown = tuple(sorted(span for turn in within for span in self._cut(turn)))
        return replace(window, turns=shown, value=value)

    def _value(self, turn: SpokenTurn, text: str) -> float:
        spoken = text[turn.start : turn.parts[-1][1]]
        says_when = self._dated and _WHEN.search(spoken) is not None
        content = min(self._weigh(turn.words) / TURNS.full, 1.0)
        asked = self._weigh(self._asked.find(spoken)) / self._total
        return TURNS.gain * ((turn.speaker in self._named) + says_when + content + asked)

    def _weigh(self, found: Iterable[str]) -> float:
        return sum(self._weights.get(word, 0.0) for word in found)

    def _cut(self, turn: SpokenTurn) -> list[tuple[int, int]]:
        """Return what is shown of a turn: where it says enough, not what it describes, and of many turns no small talk around it."""
        if self._weigh(turn.words) < TURNS.full / 2:
            return [(turn.start, turn.end)]
        telling = [each for each in turn.parts if self._weigh(each[2]) >= TURNS.small_talk]
        if not (self._several and telling) or telling[0] is turn.parts[0]:
            return [(turn.start, (telling if self._several and telling else turn.parts)[-1][1])]
        return [(turn.start, turn.parts[0][0] - 1), (telling[0][0], telling[-1][1])]
