"""Choose the turns of a conversation that answer. Much of a conversation is thanks and encouragement, which is near to any question
about what its speakers do, and turns that answer share few words with it. So a window is shown as its best turns."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from leanrag_engine.core.model import Chunk
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.turns import find_turn, is_conversation, without_shared
from leanrag_engine.core.text.language.words import content_words, words
from leanrag_engine.core.text.word_lists import read_words
from leanrag_engine.documents.dates import DATE_WORDS

from .matching import QueryWords
from .relevance import RankedWindow, asks_for_list, asks_for_order, asks_for_overview

_BLANK = re.compile(r"\n[ \t]*\n\s*")
_OF_SPEAKER = re.compile(
    rf"\b(?:{'|'.join(sorted(read_words('language', 'first_person')))})\b", re.IGNORECASE
)
_OF_OTHER = re.compile(rf"\b(?:{'|'.join(sorted(read_words('language', 'second_person')))})\b", re.IGNORECASE)
_WHEN = re.compile(
    rf"\b(?:yesterday|today|tonight|tomorrow|just|recently|lately|ago|{'|'.join(sorted(DATE_WORDS))}"
    r"|(?:last|next|this|past|few) (?:day|week|weekend|month|year|morning|night|spring|summer|autumn|fall|winter)s?)\b",
    re.IGNORECASE,
)


TurnNearness = Mapping[tuple[str, int], float]
"""How near turns are to a text, by the id of the chunk and the start in it: 1 the nearest, 0 half of them."""


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What chooses turns; gains are shares of the best window's value."""

    whole: int = 4
    """Best windows that are shown whole before single turns, where one thing is asked."""
    near: float = 0.8
    """Gain of the turn that is nearest to the question by late interaction; without that, of one with all of its words."""
    gain: float = 0.25
    """Of a turn whose speaker the question names; that says when, for a timeline or overview; that tells of its speaker and asks
    nothing; whose words weigh ``full``, each by how few turns have it: one in a thousand weighs 7. In part for a part of these."""
    full: float = 60.0
    praise: float = 16.0
    """Weight of a sentence on the one who is spoken to below which it is left out at both ends of a turn, and ``least`` of any other."""
    least: float = 5.0


TURNS = TurnOptions()


class SpokenSentence(NamedTuple):
    """``text[start:end]`` of a passage and its words that count; ``own`` and ``other`` are how many words speak of the speaker, and of the one who is spoken to."""

    start: int
    end: int
    words: frozenset[str]
    own: int
    other: int
    asks: bool


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """``text[start:end]`` of a passage and its sentences; what follows the last one is described. ``tells`` is higher the more
    of it is about its speaker and the less it asks, from -1 to 1."""

    start: int
    end: int
    speaker: str
    parts: tuple[SpokenSentence, ...]
    words: frozenset[str]
    says_when: bool
    tells: float


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
        parts = tuple(
            _read_sentence(text, start + said + first, start + said + last)
            for first, last in sentences(without_shared(body)[said:])
        )
        if parts and not body.startswith("#"):
            own, other = sum(each.own for each in parts), sum(each.other for each in parts)
            asking = sum(each.asks for each in parts) / len(parts)
            turns.append(
                SpokenTurn(
                    start=start,
                    end=start + len(body),
                    speaker=turn.speaker if turn else "",
                    parts=parts,
                    words=frozenset().union(*(each.words for each in parts)),
                    says_when=_WHEN.search(text, start, parts[-1].end) is not None,
                    tells=(own + 0.5) / (own + other + 1) - asking,
                )
            )
    return tuple(turns)


def _read_sentence(text: str, start: int, end: int) -> SpokenSentence:
    said = text[start:end]
    return SpokenSentence(
        start=start,
        end=end,
        words=content_words(said),
        own=len(_OF_SPEAKER.findall(said)),
        other=len(_OF_OTHER.findall(said)),
        asks=said[-1] in "?？",
    )


def asks_for_several(text: str) -> bool:
    """Return whether an English text asks for a list, timeline or overview."""
    return asks_for_list(text) or asks_for_order(text) or asks_for_overview(text)


def choose_turns(
    rankings: Sequence[Sequence[RankedWindow]],
    texts: Sequence[str],
    chunks: Iterable[Chunk],
    nearness: Sequence[TurnNearness],
) -> list[list[RankedWindow]]:
    """Return the windows found for each text, those of conversations with their best turns and the value of these, best first.
    ``chunks`` are all passages that were looked at: they tell which words are common. ``nearness`` is that of turns to each text."""
    turns = [turn for chunk in chunks for turn in cut_turns(chunk.text)]
    if not turns:
        return [list(each) for each in rankings]
    having = Counter(word for turn in turns for word in turn.words)
    weights = {word: math.log(len(turns) / count) for word, count in having.items()}
    speakers = {turn.speaker for turn in turns if turn.speaker}
    return [
        _TurnChoice(text, weights, speakers, near).choose(ranking)
        for text, ranking, near in zip(texts, rankings, nearness, strict=True)
    ]


class _TurnChoice:
    """Chooses the turns for one text."""

    def __init__(
        self, text: str, weights: Mapping[str, float], speakers: set[str], near: TurnNearness
    ) -> None:
        self._asked, self._weights, said = QueryWords([text]), weights, set(words(text))
        self._near = near
        named = {each for each in speakers if said & set(words(each))}
        self._named = named if named != speakers else set[str]()
        self._dated = asks_for_order(text) or asks_for_overview(text)
        self._several = asks_for_several(text)
        self._total = self._weigh(self._asked.find(text)) or 1.0

    def choose(self, ranking: Sequence[RankedWindow]) -> list[RankedWindow]:
        """Return the first windows whole, none if several things are asked, then single turns and what is no conversation, best first."""
        if not ranking:
            return []
        count = 0 if self._several else TURNS.whole
        first = [self._show_whole(each) for each in ranking[:count]]
        shown = {(each.chunk.id, start) for each in first for start, _ in each.turns}
        rest = [
            part
            for window in ranking[count:]
            for part in self._split(window, ranking[0].value)
            if not part.turns or (part.chunk.id, part.turns[0][0]) not in shown
        ]
        # Turns are on the scale of windows, after those that are whole.
        last = first[-1] if first else ranking[0]
        most = max((each.value for each in rest if each.turns), default=0.0) or 1.0
        scaled = (
            replace(each, value=last.value * each.value / most, near=last.near * each.value / most)
            if each.turns
            else each
            for each in rest
        )
        return [*first, *sorted(scaled, key=lambda each: -each.value)]

    def _show_whole(self, window: RankedWindow) -> RankedWindow:
        return replace(window, turns=tuple((turn.start, turn.parts[-1].end) for turn in turns_of(window)))

    def _split(self, window: RankedWindow, best: float) -> list[RankedWindow]:
        """Return a window for each turn, the window itself if it has no part of any."""
        values = [(turn, window.value + best * self._value(turn, window.chunk)) for turn in turns_of(window)]
        return [replace(window, turns=tuple(self._cut(turn)), value=value) for turn, value in values] or [
            window
        ]

    def _value(self, turn: SpokenTurn, chunk: Chunk) -> float:
        content = min(self._weigh(turn.words) / TURNS.full, 1.0)
        about = (turn.speaker in self._named) + (self._dated and turn.says_when)
        near = self._near.get((chunk.id, turn.start))
        if near is None:
            spoken = chunk.text[turn.start : turn.parts[-1].end]
            near = 0.0 if self._near else self._weigh(self._asked.find(spoken)) / self._total
        return TURNS.near * near + TURNS.gain * (about + content + turn.tells)

    def _weigh(self, found: Iterable[str]) -> float:
        return sum(self._weights.get(word, 0.0) for word in found)

    def _cut(self, turn: SpokenTurn) -> list[tuple[int, int]]:
        """Return what is shown of a turn: not what it describes and, if several things are asked, no small talk around what it tells."""
        telling = [each for each in turn.parts if self._tells(each)] if self._several else []
        if not telling or telling[0] is turn.parts[0]:
            return [(turn.start, (telling or turn.parts)[-1].end)]
        return [(turn.start, turn.parts[0].start - 1), (telling[0].start, telling[-1].end)]

    def _tells(self, part: SpokenSentence) -> bool:
        least = TURNS.praise if part.other > part.own else TURNS.least
        return not part.asks and self._weigh(part.words) >= least


def turns_of(window: RankedWindow) -> list[SpokenTurn]:
    """Return the turns of which a window has a part."""
    chunk, place = window.chunk, window.chunk.windows[window.number]
    start, end = place.start - chunk.start, place.end - chunk.start
    return [turn for turn in cut_turns(chunk.text) if turn.start < end and turn.end > start]
