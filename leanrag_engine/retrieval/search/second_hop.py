"""Move passages up that the first ones name: the second hop of a question that names only where it begins.
Pure: a ranking and its first passages come in, a ranking goes out."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from leanrag_engine.core.model import Chunk, Hit
from leanrag_engine.core.text.language.words import content_words, search_terms
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.retrieval.request import DEFAULT_RANKING, RankingOptions

from .seeds import best_first

_WORD = re.compile(r"[^\W_]+")
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")  # What tells titles apart: Mercury (planet)
_SHORTEST = 5  # Characters of a title with a space on both sides, up to which it may be a plain word


def raise_second_hops(
    ranking: Sequence[Hit],
    chunks: Mapping[str, Chunk],
    question: str,
    options: RankingOptions = DEFAULT_RANKING,
) -> list[Hit]:
    """Return ``ranking`` with passages raised whose title one of the first passages holds. Words of the question in a title
    do not count. A passage gains more, the more of its title the first one holds and the more of the question's words it
    holds that the first one lacks; it does not pass the one that names it. Only the passages in ``chunks`` take part."""
    known = [(hit, chunks[hit.id]) for hit in ranking if hit.id in chunks and hit.score > 0]
    terms = search_terms(question)
    asked = {*terms, *_WORD.findall(question.casefold())}
    distinct = {chunk.title for _, chunk in known}
    titles = {title: content_words(_QUALIFIER.sub("", title)) - asked for title in distinct}
    scores = {hit.id: hit.score for hit in ranking}
    for place, (first, named_by) in enumerate(known[: options.hop_sources]):
        source = _NamingPassage.of(named_by)
        missing = [term for term in terms if term not in source.text]
        shares = {title: source.hold(each) for title, each in titles.items() if title != named_by.title}
        for hit, chunk in known:
            if share := shares.get(chunk.title, 0.0):
                text = f"{chunk.title}\n{chunk.text}".casefold() if missing else ""
                answered = sum(term in text for term in missing) / max(len(missing), 1)
                gain = options.hop * share**2 * (options.hop_named + answered) / (1 + place / 2)
                scores[hit.id] = max(scores[hit.id], min(hit.score * math.exp(gain), first.score))
    return best_first(scores)


def choose_named(
    first: Chunk, chunks: Iterable[Chunk], linked: Collection[str], question: str, walk: Sequence[Hit]
) -> Chunk | None:
    """Return of ``chunks`` the one, first in the ``walk``, that is ``linked`` with the first passage by its title or whose title
    that one holds as it stands; not by a title that the question holds."""
    places = {hit.id: place for place, hit in enumerate(walk)}
    text, asked = _spell(f"{first.title}\n{first.text}"), _spell(question)
    named = [
        each
        for each in chunks
        if each.title != first.title
        and len(title := _spell(_QUALIFIER.sub("", each.title))) > _SHORTEST
        and title not in asked
        and (each.id in linked or title in text)
    ]
    return min(named, key=lambda each: places.get(each.id, len(places)), default=None)


def _spell(text: str) -> str:
    """Return the words of a text in lower case between spaces, so that whole ones are found."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


@dataclass(frozen=True, slots=True)
class _NamingPassage:
    """Title and text of a passage in lower case, and the words in it."""

    text: str
    words: frozenset[str]

    @classmethod
    def of(cls, chunk: Chunk) -> Self:
        text = f"{chunk.title}\n{chunk.text}".casefold()
        return cls(text, frozenset(_WORD.findall(text)))

    def hold(self, title: frozenset[str]) -> float:
        """Return the share of a title's words that the text holds; Chinese and Japanese ones wherever they stand."""
        held = len(self.words & title) + sum(
            has_cjk(each) and each in self.text for each in title - self.words
        )
        return held / len(title) if title else 0.0
