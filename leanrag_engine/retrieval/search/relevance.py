"""How much each window of the candidate passages is worth for one text. Pure: scores in, scores out."""

import math
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Self

from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Chunk, Hit, ScoreParts, is_code, window_id
from leanrag_engine.core.text.language.words import search_terms
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.retrieval.request import DEFAULT_RELEVANCE, RelevanceOptions

_NOTHING = re.compile("(?!)")


class QueryWords:
    """The words of a query, ready to be found. Stopwords do not count unless there is nothing else."""

    def __init__(self, texts: Sequence[str]) -> None:
        terms = dict.fromkeys(term for text in texts for term in search_terms(text))
        # Longest first: a pattern takes the first alternative that fits.
        self._pattern = _any_of(sorted(terms, key=len, reverse=True))
        self.count = len(terms)

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return for each text the sum over the query's words in it, a word counting more the fewer of ``texts`` hold it."""
        found = list(map(self.find, texts))
        holders = Counter(word for words in found for word in words)
        weight = {word: math.log1p(len(texts) / count) for word, count in holders.items()}
        return [sum(weight[word] for word in sorted(words)) for words in found]

    def share(self, texts: Sequence[str]) -> float:
        """Return the share of the query's words that ``texts`` hold."""
        return len(set().union(*map(self.find, texts))) / self.count if self.count else 0.0

    def find(self, text: str) -> set[str]:
        """Return the query's words that ``text`` holds."""
        return set(self._pattern.findall(text.casefold()))


def _any_of(terms: Sequence[str]) -> re.Pattern[str]:
    """Find whole words (an English plural counts as its singular), and CJK words wherever they stand."""
    whole = [re.escape(term) for term in terms if not has_cjk(term)]
    within = [re.escape(term) for term in terms if has_cjk(term)]
    words = f"(?<![^\\W_])(?:{'|'.join(whole)})(?=(?:e?s)?(?![^\\W_]))" if whole else ""
    pattern = "|".join(filter(None, [words, *within]))
    return re.compile(pattern) if pattern else _NOTHING


_MARKUP = re.compile(
    r"(?m)\[[^\[\]\n]{0,200}\]\([^()\s]{0,400}\)|https?://[^\s<>]{1,400}|</?[A-Za-z][^<>\n]{0,100}>"
    r"|^[ \t]+[\w.-]+(?:/[\w.-]+)+[ \t]*$|^[ \t]*(?:\.\. [\w-]+::.*|:[\w-]+:.*)$"
)
"""Links, addresses, tags, paths alone and directives: a window of little else, such as "See also", answers nothing."""
_LISTED = re.compile(
    r"^[ \t]*(?:(?:from\s+\S+\s+)?import\b|export\b.*\bfrom\b|(?:use|using|package)\s+[\w.:{]|#[ \t]*include\b|__all__\b"
    r"|[\"']?[\w.]+[\"']?,[ \t]*$).*",
    re.MULTILINE,
)
"""Lines of code that import or export names."""
_BULLETS = "*|•+-"
_FILLING = re.compile(rf"[\s{_BULLETS}]+")

NO_RECENCY: Mapping[str, float] = MappingProxyType({})

TextPlace = tuple[str, tuple[int, int]]
"""The id of a chunk, and start and end in its text."""


@dataclass(frozen=True, slots=True)
class RankedWindow:
    """Window ``number`` of a chunk and its value for a text; 1 is first in dense search alone. ``near`` is
    the value without the gains by the graph and by exact words. ``kept``: it is shown where there is room,
    however low its value; ``exact``: likewise and in its place, as it holds a rare word of the text, ``asked_alone`` if the text
    is that word; ``older``: the
    text asks for what holds now, and a newer window says as much. ``turns``: of a conversation, the parts of the chunk's
    text that are shown in its place. ``explain``
    returns what the value is made of; it is called for the few windows that are shown."""

    chunk: Chunk
    number: int
    value: float
    near: float = 0.0
    kept: bool = False
    exact: bool = False
    asked_alone: bool = False
    older: bool = False
    turns: tuple[tuple[int, int], ...] = ()
    explain: Callable[[], ScoreParts] = field(default=ScoreParts, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, int | str]:
        return self.chunk.id, str(self.turns) if self.turns else self.number

    @property
    def spans(self) -> set[TextPlace]:
        """The ``turns``, or the window, with their chunk."""
        return {(self.chunk.id, span) for span in self.turns} or {self.chunk.window_place(self.number)}

    @property
    def text(self) -> str:
        if self.turns:
            return "\n".join(self.chunk.text[start:end] for start, end in self.turns)
        return self.chunk.quote(self.chunk.windows[self.number])

    def add(self, part: str, gain: float) -> Self:
        """Return the window with a gain in value, explained as that part of it."""

        def explain() -> ScoreParts:
            parts = self.explain()
            return replace(parts, **{part: getattr(parts, part) + gain})

        return replace(self, value=self.value + gain, explain=explain)

    @property
    def indexed_text(self) -> str:
        """Return title, headings and text."""
        return f"{self.chunk.title}\n{self.heading}\n{self.text}"

    @property
    def heading(self) -> str:
        return self.chunk.windows[self.number].heading

    @property
    def day(self) -> str:
        """The day of a conversation, or else the date of the document; "" if it has none."""
        return (self.chunk.days(self.number) or [self.chunk.own_date])[0]


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """A rare word or phrase of the question, the ids of the windows that hold it, and what one gains by it. ``sought``:
    the question is hardly more than this, so that each of the windows gains; ``alone``: it has no other word than such."""

    word: str
    windows: tuple[str, ...]
    gain: float
    sought: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class SearchScores:
    """The ``total`` score of each window that search found, and the parts of it that are not similarity to the text."""

    total: Mapping[str, float]
    keyword: Mapping[str, float] = field(default_factory=dict)
    first: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, float] = field(default_factory=dict)

    def add_tokens(self, gains: Mapping[str, float]) -> Self:
        """Return the scores with what late interaction adds to some of them."""
        total = {id_: score + gains.get(id_, 0.0) for id_, score in self.total.items()}
        return replace(self, total=total, tokens=gains)

    def split(self, id_: str) -> ScoreParts:
        """Return what the score of a window that was found is made of."""
        keyword, first, tokens = (part.get(id_, 0.0) for part in (self.keyword, self.first, self.tokens))
        meaning = self.total[id_] - keyword - first - tokens
        return ScoreParts(meaning=meaning, keyword=keyword, first=first, tokens=tokens)


def fuse_scores(
    dense: Sequence[Hit],
    keyword: Sequence[Hit],
    options: RelevanceOptions,
    related: float = 0.0,
    unrelated: float = 0.0,
) -> SearchScores:
    """Return the score of each hit: its share of the best dense score, plus that of the best keyword score, weighted.
    What dense search did not find is no better than its last hit; the first of what it found gain by their rank.
    Where the best dense score is below ``related``, what answers reach, meaning weighs less: shares are of that. Scores are counted from
    as far below it as MiniLM's zero is by its distance from ``unrelated``: all of E5's are above 0.7."""
    zero = max(related - 2.5 * (related - unrelated), 0.0) if unrelated else 0.0
    dense = [Hit(hit.id, hit.score - zero) for hit in dense] if zero else dense
    by_meaning, floor = _relative(dense, related - zero)
    shares, _ = _relative(keyword)
    weight = options.keyword + options.keyword_peak * _find_peak(keyword)
    by_keyword = {id_: weight * share for id_, share in shares.items()}
    first = options.first * max(by_meaning.values(), default=0.0)
    by_rank = {
        hit.id: first * options.first_decay / (options.first_decay + rank)
        for rank, hit in enumerate(dense)
        if hit.id in by_meaning
    }
    total = {
        id_: by_meaning.get(id_, floor) + by_keyword.get(id_, 0.0) + by_rank.get(id_, 0.0)
        for id_ in dict.fromkeys([*by_meaning, *by_keyword])
    }
    return SearchScores(total, by_keyword, by_rank)


def _find_peak(hits: Sequence[Hit], beside: int = 10) -> float:
    """Return how far the hit at the place ``beside`` is below the best, as a share of that; 1 where there are fewer."""
    best = hits[0].score if hits else 0.0
    other = hits[beside - 1].score if len(hits) >= beside else 0.0
    return 1.0 - other / best if best > 0 else 0.0


def _relative(hits: Sequence[Hit], least: float = 0.0) -> tuple[dict[str, float], float]:
    """Return the scores as shares of the best one, or of ``least`` if that is more, and the last of them."""
    best = max((hit.score for hit in hits), default=0.0)
    if best <= 0:
        return {}, 0.0
    most = max(best, least)
    shares = {hit.id: max(hit.score, 0.0) / most for hit in hits}
    return shares, min(shares.values())


def rank_windows(
    scores: SearchScores,
    chunks: Sequence[Chunk],
    graph_ranks: Mapping[str, int],
    graph_weight: float = 0.0,
    exact: Sequence[ExactMatch] = (),
    recency: Mapping[str, float] = NO_RECENCY,
    options: RelevanceOptions = DEFAULT_RELEVANCE,
) -> list[RankedWindow]:
    """Return all windows of ``chunks``, best first; equal ones in reading order.

    ``scores`` are those of :func:`fuse_scores` by window, ``graph_ranks`` the places (from 0) that the walk over the
    graph gives to chunks. ``graph_weight`` is what the first of these places gains. The best of the windows of an ``exact``
    match gains what the match brings, each of them if it is ``sought``. ``recency`` is what chunks gain by their dates.
    """
    floor = min(scores.total.values(), default=0.0) / 2
    windows = [
        (chunk, number)
        for chunk in sorted(chunks, key=lambda each: each.place)
        for number in range(len(chunk.windows))
    ]
    ids = [window_id(chunk.id, number) for chunk, number in windows]
    own = [scores.total.get(id_, floor) for id_ in ids]
    best: dict[str, float] = {}
    for (chunk, _), score in zip(windows, own, strict=True):
        best[chunk.id] = max(score, best.get(chunk.id, score))
    beside = [options.neighbour * each for each in _best_neighbours(windows, own)]
    around = [options.section * each for each in _section_means(windows, own)]
    fullness = [_measure_fullness(chunk, number, options.stub_characters) for chunk, number in windows]
    sums = zip(own, beside, around, fullness, strict=True)
    plain = [(score + near + about) * full for score, near, about, full in sums]
    listing = {
        id_
        for id_, (chunk, number), full in zip(ids, windows, fullness, strict=True)
        if full < 1 and is_code(chunk.media_type) and _LISTED.search(chunk.quote(chunk.windows[number]))
    }
    gains = _exact_gains(exact, ids, plain, listing)
    alone = {id_ for match in exact if match.alone for id_ in match.windows}
    ranked = []
    rows = zip(ids, windows, own, beside, around, fullness, plain, strict=True)
    for id_, (chunk, number), score, near, about, full, value in rows:
        graph = 0.0
        if (rank := graph_ranks.get(chunk.id)) is not None:
            # Of a long passage the windows gain that speak of the question.
            share = score / best[chunk.id] if best[chunk.id] > 0 else 1.0
            graph = graph_weight * share * options.graph_decay / (options.graph_decay + rank)
        gain = gains.get(id_, 0.0)
        recent = recency.get(chunk.id, 0.0) * full
        explain = partial(_explain, scores, id_, score, full, (near, about, graph, gain, recent))
        total = value + graph * full + gain + recent
        ranked.append(
            RankedWindow(
                chunk, number, total, value, exact=gain > 0, asked_alone=id_ in alone, explain=explain
            )
        )
    ranked.sort(key=lambda each: -each.value)
    return _keep_first(ranked, graph_ranks, options.graph_kept) if graph_weight else ranked


def _measure_fullness(chunk: Chunk, number: int, enough: int) -> float:
    """Return 1 for a window of at least so many characters that say something, for others their share of that. Code that
    imports or exports says nothing."""
    text = chunk.quote(chunk.windows[number])
    text = _LISTED.sub("", text) if is_code(chunk.media_type) else text
    return min(1.0, _count_characters(text, enough) / enough)


def _exact_gains(
    exact: Sequence[ExactMatch], ids: Sequence[str], values: Sequence[float], listing: Container[str] = ()
) -> dict[str, float]:
    """Return what windows gain by the words that they hold: each the most of what its words bring; code that only lists names
    gains where no other window has the word."""
    places = {id_: place for place, id_ in enumerate(ids)}
    gains: dict[str, float] = {}
    for match in exact:
        held = [id_ for id_ in match.windows if id_ in places]
        held = [id_ for id_ in held if id_ not in listing] or held
        best = max(held, key=lambda id_: values[places[id_]], default=None)
        for id_ in held:
            if match.sought or id_ == best:
                gains[id_] = max(match.gain, gains.get(id_, 0.0))
    return gains


def _explain(
    scores: SearchScores, id_: str, own: float, fullness: float, gains: tuple[float, ...]
) -> ScoreParts:
    """Return the parts of a window's value: those of its ``own`` score and its ``gains``, each by its ``fullness``."""
    neighbour, section, graph, exact, recent = gains
    found = scores.split(id_) if id_ in scores.total else ScoreParts(unfound=own)
    parts = replace(found, neighbour=neighbour, section=section, graph=graph)
    return replace(parts.scale(fullness), exact=exact, recent=recent)


def _count_characters(text: str, enough: int) -> int:
    """Return the length of a text without links and tags, runs of spaces and bullets counted once. The result may
    be any number from ``enough`` on once that is reached: exact counts are expensive and most windows are prose."""
    least = 0
    for line in text.split("\n"):  # what matches ends on its line
        if not ("](" in line or "/" in line or "<" in line or "::" in line or line.lstrip().startswith(":")):
            part = line[: 3 * enough]
            least += len("".join(part.split())) - sum(map(part.count, _BULLETS))
            if least >= enough:
                return least
    return len(_FILLING.sub(" ", _MARKUP.sub("", text)))


def _keep_first(
    windows: Sequence[RankedWindow], graph_ranks: Mapping[str, int], most: int
) -> list[RankedWindow]:
    """Return the windows, the best one of each of the ``most`` passages that the graph ranks first marked as
    kept. What the graph alone finds, such as a second hop, shares no word with the question."""
    waiting = {id_ for id_, rank in graph_ranks.items() if rank < most}
    kept = [*windows]
    for place, window in enumerate(windows):
        if window.chunk.id in waiting:
            waiting.remove(window.chunk.id)
            kept[place] = replace(window, kept=True)
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
    keys = [(chunk.document_id, chunk.windows[number].heading) for chunk, number in windows]
    sections = group(zip(keys, scores, strict=True))
    means = {key: sum(sorted(each)[-2:]) / min(len(each), 2) for key, each in sections.items()}
    return [means[key] for key in keys]
