"""Find what supports each sentence of a summary, finding, description or relation: characters of the documents."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from typing import Literal

from leanrag_engine.core.errors import NotFound
from leanrag_engine.core.graphs.texts import cut_description
from leanrag_engine.core.model import Chunk, Entity, Relation
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import content_words, words
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.retrieval.browse.entities import resolve
from leanrag_engine.retrieval.index import IndexSnapshot

Match = Literal["verbatim", "closest", "passage"]
"""How a quotation matches its sentence. ``verbatim``: word for word, white space and a full stop that was added aside;
``closest``: it shares most words with it; ``passage``: no sentence of the passage shares a word, so it is all of it."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """``text[start:end]`` of a passage and how it matches a sentence; ``likeness`` is 1 where it is verbatim."""

    start: int
    end: int
    match: Match
    likeness: float


def find_quotation(sentence: str, text: str) -> Quotation:
    """Return where ``text`` says ``sentence``: word for word, else the one to three sentences with most words in common."""
    # Making a summary adds the full stop to a clause or a line that has none.
    for wanted in dict.fromkeys((sentence, sentence.removesuffix("."))):
        found = _verbatim_pattern(wanted).search(text) if wanted.strip() else None
        if found:
            return Quotation(found.start(), found.end(), "verbatim", 1.0)
    likeness, start, end = _find_closest(_content_words(sentence), sentences(text), text)
    return Quotation(start, end, "closest", likeness) if likeness else Quotation(0, len(text), "passage", 0.0)


def _verbatim_pattern(wanted: str) -> re.Pattern[str]:
    pattern = r"\s+".join(map(re.escape, wanted.split()))
    if has_cjk(wanted):
        return re.compile(pattern)  # such words have no visible edges
    first, last = wanted.strip()[0], wanted.strip()[-1]
    before, after = (r"(?<!\w)" if first.isalnum() else ""), (r"(?!\w)" if last.isalnum() else "")
    return re.compile(f"{before}{pattern}{after}")


def _find_closest(
    mine: frozenset[str], spans: Sequence[tuple[int, int]], text: str
) -> tuple[float, int, int]:
    """Return the likeness, start and end of the run of sentences that is most like the words ``mine``, the first of several."""
    said = [_content_words(text[start:end]) for start, end in spans]
    best = (0.0, 0, 0)
    for first in range(len(spans)):
        theirs: frozenset[str] = frozenset()
        # One sentence may summarise three sentences of a passage.
        for last in range(first, min(first + 3, len(spans))):
            theirs |= said[last]
            likeness = len(mine & theirs) / sqrt(len(mine) * len(theirs)) if mine and theirs else 0.0
            if likeness > best[0]:
                best = (likeness, spans[first][0], spans[last][1])
    return best


def _content_words(text: str) -> frozenset[str]:
    return content_words(text) or frozenset(words(text))


@dataclass(frozen=True, slots=True)
class QuotedSupport:
    """``document.text[start:end]``, which is ``text``, in a chunk, and how it matches the sentence that it supports."""

    chunk: Chunk
    start: int
    end: int
    match: Match

    @property
    def text(self) -> str:
        return self.chunk.text[self.start - self.chunk.start : self.end - self.chunk.start]


@dataclass(frozen=True, slots=True)
class SupportedSentence:
    """A sentence of a description, or of a finding, and what supports it, the best first."""

    text: str
    finding: bool
    support: tuple[QuotedSupport, ...]


async def find_support(index: IndexSnapshot, item: Entity | Relation) -> list[SupportedSentence]:
    """Return the sentences of an entity or relation, each once, with what supports them in the documents as
    they are now. A sentence all of whose chunks are gone is left out."""
    ids = dict.fromkeys(id_ for _, _, named, _ in _list_sentences(item) for id_ in named)
    loaded = await index.documents.chunks(index.collection.name, list(ids))
    return match_support(item, {each.id: each for each in loaded})


def match_support(item: Entity | Relation, chunks: Mapping[str, Chunk]) -> list[SupportedSentence]:
    """Return the sentences of an entity or relation as ``find_support``, from the ``chunks`` by id."""
    return [
        SupportedSentence(text, finding, support)
        for text, finding, ids, exact in _list_sentences(item)
        if (support := _support_of(text, [chunks[id_] for id_ in ids if id_ in chunks], exact=exact))
    ]


def _list_sentences(item: Entity | Relation) -> Iterator[tuple[str, bool, tuple[str, ...], bool]]:
    """Yield each sentence, whether it is of a finding, its chunks, and whether it rests on each of them; else on one at least."""
    seen: set[str] = set()
    for each in cut_description(item):
        text = " ".join(item.description[each.start : each.end].split())
        if text not in seen:
            seen.add(text)
            # Where the evidence names no chunk, the best of the first 50 is looked for.
            ids = each.chunk_ids if each.exact else tuple(islice(each.chunk_ids, 50))
            yield text, False, ids, each.exact
    for finding in item.findings if isinstance(item, Entity) else ():
        # What heads a finding that was made without a model is a name, which states nothing.
        texts = (finding.summary, finding.explanation) if item.method.written else (finding.explanation,)
        for text in (each[start:end] for each in texts for start, end in sentences(each)):
            if text not in seen:
                seen.add(text)
                yield text, True, finding.chunk_ids, True


def _support_of(sentence: str, chunks: Sequence[Chunk], *, exact: bool) -> tuple[QuotedSupport, ...]:
    found = [(chunk, find_quotation(sentence, chunk.text)) for chunk in chunks]
    found.sort(key=lambda pair: -pair[1].likeness)
    return tuple(
        QuotedSupport(chunk, chunk.start + at.start, chunk.start + at.end, at.match)
        for chunk, at in (found if exact else found[:1])
    )


_BETWEEN = re.compile(r"\s+(?:—|–|--?)\s+")


async def resolve_item(index: IndexSnapshot, name: str) -> Entity | Relation:
    """Return the entity of that name or ref, or the relation of two, which are joined by a dash: ``A — B``.
    Raises ``NotFound`` or ``Ambiguous`` for a name, ``NotFound`` for two that no relation joins."""
    ends = _BETWEEN.split(name.strip())
    try:
        return await resolve(index, name)
    except NotFound:
        if len(ends) != 2:  # noqa: PLR2004
            raise
    near, far = [await resolve(index, end) for end in ends]
    among = await index.generations.relations_among(index.generation.number, [near.id, far.id])
    if not among:
        raise NotFound(
            f"No relation joins {near.name!r} and {far.name!r}.",
            "List the relations of one of them, or ask for the ancestors of both: clusters of one layer have relations.",
        )
    return among[0]
