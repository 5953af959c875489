"""Choose the turns of a conversation that answer. Much of a conversation is thanks and encouragement, which is near to any question
about what its speakers do, and turns that answer share few words with it. So a window is shown as its best turns."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, starmap
from typing import NamedTuple

from leanrag_engine.core.model import Chunk
from leanrag_engine.core.text.language.sentences import find_turn, is_conversation, sentences, without_shared
from leanrag_engine.core.text.language.words import words
from leanrag_engine.core.text.word_lists import read_words
from leanrag_engine.documents.dates import DATE_WORDS
from leanrag_engine.retrieval.intent import asks_for_order, asks_for_overview, asks_for_several
from leanrag_engine.retrieval.search.relevance import QueryWords

from .relevance import RankedWindow

_BLANK = re.compile(r"\n[ \t]*\n\s*")
_OF_SPEAKER, _OF_OTHER = (
    re.compile(rf"\b(?:{'|'.join(sorted(each))})\b", re.IGNORECASE)
    for each in (read_words("language", "first_person"), read_words("language", "second_person"))
)
EMPTY = read_words("language", "acknowledgements")
_PLAIN = re.compile(r"\b(?![A-ZÀ-Þ])\w+")  # no name
_WHEN = re.compile(
    rf"\b(?:yesterday|today|tonight|tomorrow|just|recently|lately|ago|{'|'.join(sorted(DATE_WORDS))}"
    r"|(?:last|next|this|past|few) (?:day|week|weekend|month|year|morning|night|spring|summer|autumn|fall|winter)s?)\b",
    re.IGNORECASE,
)

GREETING = 15  # Characters up to which a sentence of names and words such as *hello* tells nothing

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
    """Of a turn whose speaker the question names; that tells of its speaker and asks nothing; that says when, for a timeline or overview."""


TURNS = TurnOptions()


class SpokenSentence(NamedTuple):
    """``text[start:end]`` of a passage; ``own`` and ``other`` are how many of its words speak of the speaker, and of the one who is
    spoken to; ``says``: it is more than a greeting."""

    start: int
    end: int
    own: int
    other: int
    asks: bool
    says: bool

    @property
    def tells(self) -> bool:
        """Whether it is no question, no greeting and not on the one who is spoken to, as praise is."""
        return not self.asks and self.other <= self.own and (self.own > 0 or self.says)


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """``text[start:end]`` of a passage and its sentences; what follows the last one is described. ``tells`` is higher the more
    of it is about its speaker and the less it asks, from -1 to 1."""

    start: int
    end: int
    speaker: str
    parts: tuple[SpokenSentence, ...]
    says_when: bool
    tells: float


@lru_cache(maxsize=1 << 11)
def cut_turns(text: str) -> tuple[SpokenTurn, ...]:
    """Return the turns of a passage but for thanks and assent that answer no question; none if it is no conversation."""
    if not is_conversation(text):
        return ()
    gaps = (gap.end() for gap in _BLANK.finditer(text))
    starts = [0, *(at for at in gaps if text.startswith("#", at) or find_turn(text[at : at + 80]))]
    bodies = [text[start:end].rstrip() for start, end in pairwise([*starts, len(text)])]
    heads = [each for each in zip(starts, bodies, strict=True) if not each[1].startswith("#")]
    turns = [turn for turn in starmap(_cut_turn, heads) if turn.parts]
    answers = [False, *(turn.parts[-1].asks for turn in turns)]
    return tuple(
        turn
        for turn, answer in zip(turns, answers, strict=False)
        if answer or not EMPTY.issuperset(words(text[turn.parts[0].start : turn.end]))
    )


def _cut_turn(start: int, body: str) -> SpokenTurn:
    label = find_turn(body)
    said = label.said if label else 0
    parts = tuple(
        SpokenSentence(
            start=start + said + first,
            end=start + said + last,
            own=len(_OF_SPEAKER.findall(body, said + first, said + last)),
            other=len(_OF_OTHER.findall(body, said + first, said + last)),
            asks=body[said + last - 1] in "?？",
            says=last - first > GREETING
            or not EMPTY.issuperset(_PLAIN.findall(body, said + first, said + last)),
        )
        for first, last in sentences(without_shared(body)[said:])
    )
    own, other = sum(each.own for each in parts), sum(each.other for each in parts)
    return SpokenTurn(
        start=start,
        end=start + len(body),
        speaker=label.speaker if label else "",
        parts=parts,
        says_when=_WHEN.search(without_shared(body), said) is not None,
        tells=(own + 0.5) / (own + other + 1) - sum(each.asks for each in parts) / max(len(parts), 1),
    )


def choose_turns(
    rankings: Sequence[Sequence[RankedWindow]],
    texts: Sequence[str],
    chunks: Iterable[Chunk],
    nearness: Sequence[TurnNearness],
) -> list[list[RankedWindow]]:
    """Return the windows found for each text, those of conversations with their best turns and the value of these, best first.
    ``chunks`` are all passages that were looked at: they tell who speaks. ``nearness`` is that of turns to each text."""
    turns = [turn for chunk in chunks for turn in cut_turns(chunk.text)]
    if not turns:
        return [[*ranking] for ranking in rankings]
    speakers = {turn.speaker for turn in turns} - {""}
    return [
        _TurnChoice(text, speakers, near).choose(ranking)
        for text, ranking, near in zip(texts, rankings, nearness, strict=True)
    ]


class _TurnChoice:
    """Chooses the turns for one text."""

    def __init__(self, text: str, speakers: set[str], near: TurnNearness) -> None:
        self._asked, self._near, said = QueryWords([text]), near, set(words(text))
        named = {each for each in speakers if said & set(words(each))}
        self._named = named if named != speakers else set[str]()
        self._of_speakers = self._asked.find("\n".join(speakers))
        self._titled = set[str]()
        self._dated = bool(asks_for_order(text) or asks_for_overview(text))
        self._several = asks_for_several(text)

    def choose(self, ranking: Sequence[RankedWindow]) -> list[RankedWindow]:
        """Return the first windows whole, none if several things are asked, then single turns and what is no conversation, best first."""
        self._titled = self._find_titled({each.chunk.title for each in ranking})
        talks = [place for place, each in enumerate(ranking) if turns_of(each)]
        if not talks:
            return [*ranking]
        count = 0 if self._several else TURNS.whole
        spans = (tuple((turn.start, turn.end) for turn in turns_of(each)) for each in ranking[:count])
        whole = [replace(each, turns=span) for each, span in zip(ranking, spans, strict=False)]
        parts = [
            (place, part) for place, each in enumerate(ranking) for part in self._split(each, ranking[0])
        ]
        # Turns are on the scale of windows of conversations, after those that are whole. Of one that does not fit a turn may.
        last = ranking[next((place for place in talks if place >= count - 1), talks[-1])]
        after = [part for place, part in parts if part.turns and place >= count]
        most = max((part.value for part in after), default=0.0) or 1.0
        nearest = max((part.near for part in after), default=0.0) or 1.0
        rest = (
            replace(
                part,
                value=last.value * min(part.value / most, 1.0),
                near=last.near * min(part.near / nearest, 1.0),
            )
            if part.turns
            else part
            for place, part in parts
            if part.turns or place >= count
        )
        return [*whole, *sorted(rest, key=lambda each: -each.value)]

    def _find_titled(self, titles: set[str]) -> set[str]:
        """Return those of the titles that hold a word of the text which most do not: the group or folder that is meant."""
        held = {title: self._asked.find(title) - self._of_speakers for title in titles}
        counts = Counter(word for words_ in held.values() for word in words_)
        rare = {word for word, count in counts.items() if 2 * count < len(titles)}
        return {title for title, words_ in held.items() if words_ & rare}

    def _split(self, window: RankedWindow, best: RankedWindow) -> list[RankedWindow]:
        """Return a window for each turn, the window itself if it has no part of any."""
        values = [(turn, self._value(turn, window.chunk)) for turn in turns_of(window)]
        return [
            replace(
                window,
                turns=tuple(self._cut(turn)),
                value=window.value + best.value * value,
                near=window.near + best.near * value,
            )
            for turn, value in values
        ] or [window]

    def _value(self, turn: SpokenTurn, chunk: Chunk) -> float:
        near = self._near.get((chunk.id, turn.start), 0.0)
        if not self._near:
            near = self._asked.share([chunk.text[turn.start : turn.end]])
        about = (turn.speaker in self._named) + (self._dated and turn.says_when)
        about += chunk.title in self._titled
        return TURNS.near * near + TURNS.gain * (about + turn.tells)

    def _cut(self, turn: SpokenTurn) -> list[tuple[int, int]]:
        """Return what is shown of a turn: if several things are asked, no small talk around what it tells, and no picture that it describes."""
        telling = [each for each in turn.parts if each.tells] if self._several else []
        if not telling:
            return [(turn.start, turn.end)]
        if telling[0] is turn.parts[0]:
            return [(turn.start, telling[-1].end)]
        return [(turn.start, turn.parts[0].start - 1), (telling[0].start, telling[-1].end)]


def turns_of(window: RankedWindow) -> list[SpokenTurn]:
    """Return the turns of which a window has a part."""
    chunk, place = window.chunk, window.chunk.windows[window.number]
    start, end = place.start - chunk.start, place.end - chunk.start
    return [turn for turn in cut_turns(chunk.text) if turn.start < end and turn.end > start]
