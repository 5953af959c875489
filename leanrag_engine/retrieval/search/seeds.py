"""Which entities a text is about (paper eq. 6): search results and names in the text, fused. Pure: what the searches gave comes
in as rankings of ids. Rankings of unlike scores are fused by reciprocal rank (Cormack, Clarke and Büttcher 2009, k = 60)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Entity, Hit
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import STOPWORDS, search_terms, words
from leanrag_engine.core.text.scripts import has_cjk, has_hangul
from leanrag_engine.retrieval.request import DEFAULT_SEARCH, SearchOptions

RANK_CONSTANT = 60  # k of reciprocal rank fusion: how little the first places differ from those after them

_PUNCTUATION = ".,;:!?。，、；：？！…`\"'“”‘’«»"
_BRACKETS = f"()[]{{}}<>（）「」『』《》【】{_PUNCTUATION}"


def fuse(rankings: Sequence[Sequence[str]]) -> list[Hit]:
    """Return reciprocal rank fusion: each id scores the sum of ``1 / (k + rank)`` over the rankings.
    Best first; equal scores stay in the order in which the ids first appear."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(dict.fromkeys(ranking), start=1):
            scores[id_] = scores.get(id_, 0.0) + 1.0 / (RANK_CONSTANT + rank)
    return best_first(scores)


def best_first(scores: Mapping[str, float]) -> list[Hit]:
    """Return hits by score; equal ones in the mapping's own order."""
    return [Hit(id_, score) for id_, score in sorted(scores.items(), key=itemgetter(1), reverse=True)]


def unite(rankings: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Return one list of several, taken in turns so that each has its share; an id keeps its best score."""
    turns: dict[str, float] = {}
    for place in range(max(map(len, rankings), default=0)):
        if len(turns) >= limit:
            break
        turns.update(
            (ranking[place].id, ranking[place].score) for ranking in rankings if place < len(ranking)
        )
    for hit in (hit for ranking in rankings for hit in ranking):
        if hit.id in turns and hit.score > turns[hit.id]:
            turns[hit.id] = hit.score
    return [Hit(id_, score) for id_, score in list(turns.items())[:limit]]


@dataclass(frozen=True, slots=True)
class NameSpan:
    """Words ``start`` to ``end`` (exclusive) of a text, read as if they were a name. ``proper`` tells a name
    (a capital, a figure, several words, code) from a plain word."""

    start: int
    end: int
    key: str
    proper: bool


def name_spans(text: str, options: SearchOptions = DEFAULT_SEARCH) -> list[NameSpan]:
    """Return every run of up to ``options.name_length`` words of ``text`` that is more than stopwords, longest first."""
    pieces = _name_words(text)[: options.words]
    spans: list[NameSpan] = []
    for length in range(min(options.name_length, len(pieces)), 0, -1):
        for start in range(len(pieces) - length + 1):
            spans += _read_spans(pieces[start : start + length], start, options.cjk_name_length)
    return spans


@dataclass(frozen=True, slots=True)
class _SpanWord:
    """``glued``: it follows the word before without a space, as within a run of CJK text."""

    text: str
    glued: bool
    stopword: bool
    lower: bool


def _name_words(text: str) -> list[_SpanWord]:
    found: list[_SpanWord] = []
    for token in text.split():
        parts = words(token) if has_cjk(token) and not has_hangul(token) else [token]
        found += (
            _SpanWord(part, place > 0, name_key(part) in STOPWORDS, part.islower())
            for place, part in enumerate(parts)
        )
    return found


def _read_spans(pieces: Sequence[_SpanWord], start: int, cjk_name_length: int) -> Iterable[NameSpan]:
    """Return the pieces as a name, without the punctuation around them: "__init__?" would be another name."""
    if all(piece.stopword for piece in pieces):
        return
    text = pieces[0].text + "".join(piece.text if piece.glued else f" {piece.text}" for piece in pieces[1:])
    readings = [text.strip(_BRACKETS), text.strip(_PUNCTUATION)]
    if text.startswith("."):
        readings.append(text.rstrip(_PUNCTUATION))  # .NET
    if has_hangul(text) and len(pieces) == 1:
        readings += search_terms(text)  # a Korean name bears its particle
    lower = all(piece.lower for piece in pieces if not piece.stopword)
    for key in dict.fromkeys(map(name_key, dict.fromkeys(readings))):
        if key:
            # Chinese and Japanese have no capitals: there what is longer than most words is taken for a name.
            plain = key.isalpha() and (len(key) < cjk_name_length if has_cjk(key) else lower)
            proper = " " in key or not plain
            yield NameSpan(start, start + len(pieces), key, proper)


def match_names(spans: Sequence[NameSpan], entities: Sequence[Entity], chunks: int) -> list[Hit]:
    """Return those of ``entities`` whose name or alias is one of ``spans``, with the weight that the name
    deserves. A name within a longer one that matched does not count ("York" in "New York"), nor does a single
    plain word. A name weighs less the more of the corpus's ``chunks`` mention its bearers, down to a half."""
    bearers = _by_key(entities)
    matched = [span for span in spans if span.key in bearers]
    scores: dict[str, float] = {}
    for span in matched:
        if any(_within(span, longer) for longer in matched):
            continue
        if not span.proper:
            continue  # "go" is not the entity Go: searches find what a plain word means
        # Whatever number of namesakes share them: a name that is everywhere says little of each.
        mentions = min(sum(entity.mentions for entity in bearers[span.key]), chunks)
        weight = (1.0 + rarity(mentions, chunks)) / 2
        for entity in bearers[span.key]:
            scores[entity.id] = max(weight, scores.get(entity.id, 0.0))
    return best_first({id_: score for id_, score in scores.items() if score > 0})


def _by_key(entities: Iterable[Entity]) -> dict[str, list[Entity]]:
    return group(
        (key, entity)
        for entity in entities
        for key in dict.fromkeys(name_key(name) for name in (entity.name, *entity.aliases))
    )


def _within(inner: NameSpan, outer: NameSpan) -> bool:
    shorter = inner.end - inner.start < outer.end - outer.start
    return shorter and outer.start <= inner.start and inner.end <= outer.end


def rarity(mentions: int, chunks: int) -> float:
    """1 for what a single chunk mentions, towards 0 for what all mention."""
    return 1.0 if chunks <= 1 else max(0.0, 1.0 - math.log(max(mentions, 1)) / math.log(chunks))


def rank_entities(
    dense: Sequence[str],
    keyword: Sequence[str],
    names: Sequence[Hit],
    limit: int,
    options: SearchOptions = DEFAULT_SEARCH,
) -> list[Hit]:
    """Return the ``limit`` best entities for one text; scores lie in 0–1, 1 is first in everything. ``names``
    come with weights (see :func:`match_names`), each of which counts as a first place."""
    first = 1.0 / (RANK_CONSTANT + 1)
    scores = {hit.id: hit.score for hit in fuse([dense, keyword])}
    for name in names:
        scores[name.id] = scores.get(name.id, 0.0) + options.name_weight * name.score * first
    most = (2.0 + options.name_weight) * first
    return [Hit(hit.id, hit.score / most) for hit in best_first(scores)[:limit]]


def sure_score(options: SearchOptions) -> float:
    """Return the score of an entity that is first in both searches and not named: only names score more."""
    return 2.0 / (2.0 + options.name_weight)
