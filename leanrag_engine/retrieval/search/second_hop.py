"""Move passages up that the first ones name: the second hop of a question that names only where it begins.
Pure: a ranking and its first passages come in, a ranking goes out."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from leanrag_engine.core.model import Chunk, Hit
from leanrag_engine.core.text.language.words import content_words, search_terms
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.retrieval.request import DEFAULT_RANKING, RankingOptions

from .seeds import best_first

_WORD = re.compile(r"[^\W_]+")
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")
"""What tells titles apart: Mercury (planet)."""


def raise_second_hops(
    ranking: Sequence[Hit],
    chunks: Mapping[str, Chunk],
    question: str,
    options: RankingOptions = DEFAULT_RANKING,
) -> list[Hit]:
    """Return ``ranking`` with passages raised whose title one of the first passages holds. Words of the
    question in a title do not count. A passage gains more, the more of its title the first one holds and the
    more of the question's words it holds that the first one lacks; it does not pass the one that names it.
    Only the passages in ``chunks`` take part."""
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
                text = f"{chunk.title}\n{chunk.text}".casefold()
                answered = sum(term in text for term in missing) / max(len(missing), 1)
                gain = options.hop * share**2 * (options.hop_named + answered) / (1 + place / 2)
                scores[hit.id] = max(scores[hit.id], min(hit.score * math.exp(gain), first.score))
    return best_first(scores)


@dataclass(frozen=True, slots=True)
class _NamingPassage:
    """Title and text of a passage in lower case, and the words in it."""

    text: str
    words: Collection[str]

    @classmethod
    def of(cls, chunk: Chunk) -> Self:
        text = f"{chunk.title}\n{chunk.text}".casefold()
        return cls(text, set(_WORD.findall(text)))

    def hold(self, title: Collection[str]) -> float:
        """Return the share of a title's words that the text holds; Chinese and Japanese ones wherever they stand."""
        held = sum(word in self.words or (has_cjk(word) and word in self.text) for word in title)
        return held / len(title) if title else 0.0
