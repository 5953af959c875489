"""Choose the turns of a conversation that answer. Much of a conversation is thanks and encouragement, which is near to any question
about what its speakers do, and turns that answer share few words with it. So a window is shown as its best turns."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache

from leanrag_engine.core.model import Chunk
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.turns import find_turn, is_conversation, without_shared
from leanrag_engine.core.text.language.words import STOPWORDS, words
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
    """What a turn gains, as shares of the value of the best window."""

    speaker: float = 0.3
    """If the question names its speaker, and not all speakers."""
    when: float = 0.3
    """If it says when something was or will be, where the question asks for an order or overview."""
    content: float = 0.3
    """If its words are rare among all turns; less of it, the more of them are common ones."""
    asked: float = 0.3
    """If it has all words of the question that turns have, by their weight."""
    full: float = 60.0
    """Sum of the weights of a turn's words from which on it gains all of ``content``; a word of one in a thousand turns weighs 7."""
    beside: float = 0.2
    """How far the value of a turn may be below that of the best one of its window."""
    small_talk: float = 16.0
    """Weight of a sentence below which it is left out at the beginning and end of a turn."""
    most: int = 2
    """Turns of a window that are shown where the question asks for many things."""


TURNS = TurnOptions()


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """``chunk.text[start:end]``: a turn with its speaker. ``said`` is where its words begin, ``shared`` where what is described
    at its end does; ``parts`` are its sentences, each with the words of it that count."""

    start: int
    said: int
    shared: int
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
    starts = [0, *(gap.end() for gap in _BLANK.finditer(text) if find_turn(text[gap.end() : gap.end() + 80]))]
    turns = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        body = text[start:end].rstrip()
        turn = find_turn(body)
        spoken = without_shared(body)
        if turn or (start == 0 and not body.startswith("#")):
            said = start + (turn.said if turn else 0)
            shared = start + len(spoken)
            parts = tuple(
                (said + first, said + last, frozenset(words(text[said + first : said + last])) - STOPWORDS)
                for first, last in sentences(text[said:shared])
            )
            turns.append(
                SpokenTurn(start, said, shared, start + len(body), turn.speaker if turn else "", parts)
            )
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
    speakers = {turn.speaker for turn in turns}
    return [
        _TurnChoice.of(text, weights, speakers).apply(ranking)
        for text, ranking in zip(texts, rankings, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _TurnChoice:
    """What the turns for one text are chosen by. ``several``: it asks for many things."""

    asked: QueryWords
    total: float
    weights: Mapping[str, float]
    named: AbstractSet[str]
    dated: bool
    several: bool

    @classmethod
    def of(cls, text: str, weights: Mapping[str, float], speakers: AbstractSet[str]) -> "_TurnChoice":
        asked = QueryWords([text])
        said = set(words(text))
        named = {each for each in speakers if said & set(words(each))}
        dated = asks_for_order(text) or asks_for_overview(text)
        return cls(
            asked,
            sum(weights.get(word, 0.0) for word in asked.find(text)) or 1.0,
            weights,
            named if len(named) < len(speakers - {""}) else frozenset(),
            dated,
            dated or asks_for_list(text),
        )

    def apply(self, ranking: Sequence[RankedWindow]) -> list[RankedWindow]:
        best = max((each.value for each in ranking), default=0.0)
        chosen = [shown for each in ranking if (shown := self._choose(each, best))]
        return sorted(chosen, key=lambda each: -each.value)

    def _choose(self, window: RankedWindow, best: float) -> RankedWindow | None:
        """Return the window as its best turns; None if it has no part of any."""
        chunk, place = window.chunk, window.chunk.windows[window.number]
        turns = cut_turns(chunk.text)
        if not turns:
            return window
        start, end = place.start - chunk.start, place.end - chunk.start
        values = {
            turn: self._value(turn, chunk.text) for turn in turns if turn.start < end and turn.end > start
        }
        if not values:
            return None
        ranked = sorted(values, key=lambda turn: -values[turn])
        gain = values[ranked[0]]
        if self.several:
            ranked = [turn for turn in ranked[: TURNS.most] if values[turn] >= gain - TURNS.beside]
        shown = tuple(sorted(span for turn in ranked for span in self._show(turn)))
        return replace(window, turns=shown, value=window.value + best * gain * self.several)

    def _value(self, turn: SpokenTurn, text: str) -> float:
        spoken = text[turn.start : turn.shared]
        asked = sum(self.weights.get(word, 0.0) for word in self.asked.find(spoken))
        return (
            TURNS.speaker * (turn.speaker in self.named)
            + TURNS.when * (self.dated and _WHEN.search(spoken) is not None)
            + TURNS.content * min(self._content(turn) / TURNS.full, 1.0)
            + TURNS.asked * asked / self.total
        )

    def _content(self, turn: SpokenTurn) -> float:
        return self._weigh(turn.words)

    def _weigh(self, words: AbstractSet[str]) -> float:
        return sum(self.weights.get(word, 0.0) for word in words)

    def _show(self, turn: SpokenTurn) -> list[tuple[int, int]]:
        """Return what is shown of a turn: not what it shares if it says enough without that, and where the question asks for many
        things, no greeting before and no small talk after what it says."""
        if self._content(turn) < TURNS.full / 2:
            return [(turn.start, turn.end)]
        kept = [place for place, part in enumerate(turn.parts) if self._weigh(part[2]) >= TURNS.small_talk]
        if not (self.several and kept):
            return [(turn.start, turn.shared)]
        first, last = turn.parts[kept[0]][0], turn.parts[kept[-1]][1]
        return [(turn.start, last)] if first == turn.said else [(turn.start, turn.said - 1), (first, last)]
