"""How much each window of the candidate passages is worth for one text. Pure: scores in, scores out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leanrag_engine.core.model import Chunk, Hit, window_id
from leanrag_engine.core.text.citation import NO_CITATIONS, CitationSet
from leanrag_engine.retrieval.request import DEFAULT_RELEVANCE, RelevanceOptions

_MARKUP = re.compile(
    r"\[[^\[\]\n]{0,200}\]\([^()\s]{0,400}\)|https?://[^\s<>]{1,400}|</?[A-Za-z][^<>\n]{0,100}>"
)
"""Links, addresses and tags: a window of little else, such as "See also", answers nothing."""
_BULLETS = "*|•+-"
_FILLING = re.compile(rf"[\s{_BULLETS}]+")


@dataclass(frozen=True, slots=True)
class RankedWindow:
    """Window ``number`` of a chunk and its value for a text; 1 is first in dense search alone.

    ``kept``: it is shown where there is room, however low its value.
    """

    chunk: Chunk
    number: int
    value: float
    kept: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return self.chunk.id, self.number

    @property
    def text(self) -> str:
        return self.chunk.quote(self.chunk.windows[self.number])

    @property
    def indexed_text(self) -> str:
        """Return title, headings and text."""
        return f"{self.chunk.title}\n{self.heading}\n{self.text}"

    @property
    def heading(self) -> str:
        return self.chunk.windows[self.number].heading


def fuse_scores(dense: Sequence[Hit], keyword: Sequence[Hit], options: RelevanceOptions) -> dict[str, float]:
    """Return the score of each hit: its share of the best dense score, plus that of the best keyword score, weighted.

    What dense search did not find is no better than its last hit; the first of what it found gain by their rank.
    """
    by_meaning, floor = _relative(dense)
    by_keyword, _ = _relative(keyword)
    scores = {
        id_: by_meaning.get(id_, floor) + options.keyword * by_keyword.get(id_, 0.0)
        for id_ in dict.fromkeys([*by_meaning, *by_keyword])
    }
    for rank, hit in enumerate(dense):
        if hit.id in by_meaning:
            scores[hit.id] += options.first * options.first_decay / (options.first_decay + rank)
    return scores


def _relative(hits: Sequence[Hit]) -> tuple[dict[str, float], float]:
    """Return the scores as shares of the best one, and the last of them."""
    most = max((hit.score for hit in hits), default=0.0)
    if most <= 0:
        return {}, 0.0
    shares = {hit.id: max(hit.score, 0.0) / most for hit in hits}
    return shares, min(shares.values())


def rank_windows(
    scores: Mapping[str, float],
    chunks: Sequence[Chunk],
    graph_ranks: Mapping[str, int],
    graph_weight: float = 1.0,
    seats: int = 0,
    options: RelevanceOptions = DEFAULT_RELEVANCE,
    seen: CitationSet = NO_CITATIONS,
) -> list[RankedWindow]:
    """Return all windows of ``chunks``, best first; equal ones in reading order.

    ``scores`` are those of :func:`fuse_scores` by window, ``graph_ranks`` the places (from 0) that the walk over the
    graph gives to chunks. ``graph_weight`` is what the first of these places gains,
    and so do the first ``seats`` windows of plain search, not counting those of ``seen`` chunks, which gain too.
    """
    floor = min(scores.values(), default=0.0) / 2
    windows = [
        (chunk, number)
        for chunk in sorted(chunks, key=lambda each: each.place)
        for number in range(len(chunk.windows))
    ]
    own = [scores.get(window_id(chunk.id, number), floor) for chunk, number in windows]
    best: dict[str, float] = {}
    for (chunk, _), score in zip(windows, own, strict=True):
        best[chunk.id] = max(score, best.get(chunk.id, score))
    beside = _best_neighbours(windows, own)
    around = _section_means(windows, own)
    fullness = [
        min(
            1.0,
            _count_characters(chunk.quote(chunk.windows[number]), options.stub_characters)
            / options.stub_characters,
        )
        for chunk, number in windows
    ]
    plain = [
        (own[place] + options.neighbour * beside[place] + options.section * around[place]) * fullness[place]
        for place in range(len(windows))
    ]
    seated: set[int] = set()
    for place in sorted(range(len(windows)), key=lambda place: -plain[place]):
        if seats <= 0:
            break
        seated.add(place)
        seats -= windows[place][0].citation not in seen
    ranked = []
    for place, (chunk, number) in enumerate(windows):
        gain = 1.0 if place in seated else 0.0
        if not gain and (rank := graph_ranks.get(chunk.id)) is not None:
            # Of a long passage the windows gain that speak of the question.
            share = own[place] / best[chunk.id] if best[chunk.id] > 0 else 1.0
            gain = share * options.graph_decay / (options.graph_decay + rank)
        ranked.append(RankedWindow(chunk, number, plain[place] + graph_weight * gain * fullness[place]))
    return _keep_first(sorted(ranked, key=lambda each: -each.value), graph_ranks, options.graph_kept)


def _count_characters(text: str, enough: int) -> int:
    """Return the length of a text without links and tags, runs of spaces and bullets counted once.

    Of a text that has ``enough`` in any case, some number not below it: counting is dear and most windows are prose.
    """
    least = 0
    for line in text.split("\n"):  # what matches ends on its line
        if not ("](" in line or "://" in line or "<" in line):  # one of them stands in all that matches
            part = line[: 3 * enough]
            least += sum(map(len, part.split())) - sum(map(part.count, _BULLETS))
            if least >= enough:
                return least
    return len(_FILLING.sub(" ", _MARKUP.sub("", text)))


def _keep_first(
    windows: Sequence[RankedWindow], graph_ranks: Mapping[str, int], most: int
) -> list[RankedWindow]:
    """Return the windows, the best one of each of the ``most`` passages that the graph ranks first marked as kept.

    What the graph alone finds, such as a second hop, shares no word with the question.
    """
    waiting = {id_ for id_, rank in graph_ranks.items() if rank < most}
    kept = []
    for window in windows:
        spared = window.chunk.id in waiting
        waiting.discard(window.chunk.id)
        kept.append(replace(window, kept=True) if spared else window)
    return kept


def _best_neighbours(windows: Sequence[tuple[Chunk, int]], scores: Sequence[float]) -> list[float]:
    """Return for each window the score of the better one of those that touch it, 0 where there is none."""
    best = [0.0] * len(windows)
    for place in range(1, len(windows)):
        if _touch(windows[place - 1], windows[place]):
            best[place] = max(best[place], scores[place - 1])
            best[place - 1] = max(best[place - 1], scores[place])
    return best


def _touch(first: tuple[Chunk, int], second: tuple[Chunk, int]) -> bool:
    (chunk, number), (after, following) = first, second
    if chunk.document_id != after.document_id:
        return False
    if chunk.number == after.number:
        return number + 1 == following
    return chunk.number + 1 == after.number and number + 1 == len(chunk.windows) and following == 0


def _section_means(windows: Sequence[tuple[Chunk, int]], scores: Sequence[float]) -> list[float]:
    """Return for each window the mean of the two best scores in its section."""
    sections: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    keys = [(chunk.document_id, chunk.windows[number].heading) for chunk, number in windows]
    for key, score in zip(keys, scores, strict=True):
        sections[key].append(score)
    means = {key: sum(sorted(each)[-2:]) / min(len(each), 2) for key, each in sections.items()}
    return [means[key] for key in keys]
