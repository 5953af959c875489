"""The extractor that needs no model: what each chunk of one document names, and which sentences join two names.

Names come first (capitalised phrases, titles, headings, identifiers): on MuSiQue they and their sentences carry
graph retrieval as well as a model's triples. Terms written small must earn their place by how often they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import log2

from leanrag_engine.language import PieceKind, name_key
from leanrag_engine.model import Chunk, Extract, ExtractedEntity, ExtractedRelation, Method

from . import vocabulary as known
from .definitions import definitions, mentions_in_code
from .descriptions import Describer
from .entity_types import coarse_type
from .evidence import Evidence
from .lexicon import Lexicon, acronyms, link_persons, without_remark
from .mentions import Kind, Mention, longest, names
from .passages import Passage, read, without_overlap
from .terms import find_terms
from .tokens import Sentence
from .topics import Topics

_TOKENS_PER_ENTITY = 20
_TOKENS_PER_NAME = 8
_FEWEST, _MOST = 12, 26
_PAIRS_PER_SENTENCE = 6
_ALL_PAIRS = 4
"""Up to so many names in a sentence, every two of them are related."""
_TITLE_RELATIONS = 12
_HEADING_RELATIONS = 5
_SHORT_DOCUMENT = 6
"""In a document of so many chunks, the title is an entity of each."""
_WINDOW = 1_000


def extract(chunks: Sequence[Chunk], title: str) -> list[Extract]:
    """What each chunk of one document says, in the order of ``chunks``; ``title`` is the document's.

    A pure function of its arguments: statistics are taken over the document alone, of a very long one over each
    thousand chunks, so that memory stays bounded. Time is linear in the text.
    """
    return [
        found
        for start in range(0, len(chunks), _WINDOW)
        for found in _extract(chunks[start : start + _WINDOW], title, short=len(chunks) <= _SHORT_DOCUMENT)
    ]


def _extract(chunks: Sequence[Chunk], title: str, *, short: bool) -> list[Extract]:
    passages = read(chunks)
    fresh = without_overlap(passages)
    evidence = Evidence.of(fresh)
    topics = Topics.of(title, passages)
    lexicon = Lexicon()
    _find_names(passages, topics, evidence, lexicon)
    find_terms(passages, fresh, evidence, lexicon)
    link_persons(lexicon, _names_in_order(passages))
    return [_extract_of(passage, topics, lexicon, short=short) for passage in passages]


def _names_in_order(passages: Sequence[Passage]) -> list[str]:
    mentions = (pair for passage in passages for found in passage.mentions for pair in found)
    return [key for key, mention in mentions if mention.kind is Kind.NAME]


# --- names ---------------------------------------------------------------------------------


def _find_names(passages: Sequence[Passage], topics: Topics, evidence: Evidence, lexicon: Lexicon) -> None:
    """Fill in the mentions of names, identifiers and topics, sentence by sentence."""
    defined = definitions(passages)
    for passage in passages:
        heading = name_key(topics.of_path(passage.chunk.heading))
        for sentence in passage.sentences:
            found: list[Mention] = []
            if sentence.kind is PieceKind.HEADING:
                topic = topics.headings.get(sentence.text, "")
                heading = name_key(topic) or heading
                found = [Mention(topic, Kind.CONCEPT, 0, len(sentence.text))] if topic else []
            elif sentence.kind is PieceKind.PROSE:
                found = _names_in(sentence, topics, evidence, lexicon)
            else:
                found = list(mentions_in_code(sentence.text, defined))
            keyed = [
                (lexicon.add(mention, coarse_type(mention, sentence.text)), mention) for mention in found
            ]
            passage.mentions.append([(key, mention) for key, mention in keyed if key])
            passage.headings.append(heading)
    for name in topics.headings.values():
        lexicon.know(name)
    if topics.title:
        lexicon.prefer(topics.title)
        lexicon.define(without_remark(topics.title), topics.title)


def _names_in(sentence: Sentence, topics: Topics, evidence: Evidence, lexicon: Lexicon) -> list[Mention]:
    found = list(names(sentence.tokens, sentence.text, evidence))
    for mention in found:
        before = sentence.text[max(0, mention.start - 6) : mention.start].lower()
        if before.rstrip(". ").rsplit(" ", 1)[-1] in known.FORMS_OF_ADDRESS:
            lexicon.addressed.add(name_key(mention.name))
    for short, mention in acronyms(sentence.tokens, sentence.text):
        found.append(mention)
        lexicon.define(short, mention.name)
    found += topics.mentions(sentence.text)
    return longest(found)


# --- one chunk -----------------------------------------------------------------------------

_WEIGHTS = {Kind.NAME: 3.0, Kind.WORK: 3.0, Kind.CODE: 2.4, Kind.CONCEPT: 2.6, Kind.TERM: 1.0}


@dataclass(slots=True)
class _Found:
    """One entity in one chunk: the sentences that mention it, each with the first mention there."""

    key: str
    kind: Kind
    places: dict[int, Mention] = field(default_factory=dict)


def _extract_of(passage: Passage, topics: Topics, lexicon: Lexicon, *, short: bool) -> Extract:
    found = _gather(passage, lexicon)
    title = lexicon.resolve(name_key(topics.title)) if topics.title else ""
    if title and (title in found or short or passage.chunk.number == 1):
        found.setdefault(title, _Found(title, Kind.CONCEPT))
    headings = {lexicon.resolve(key) for key in passage.headings if key}
    for key in sorted(headings - found.keys()):
        found[key] = _Found(key, Kind.CONCEPT)
    kept = _selected(found, {title} | headings, passage.chunk.tokens, lexicon)
    describe = Describer(passage)
    entities = tuple(_entity(found[key], describe, lexicon) for key in kept)
    relations = tuple(_relations(passage, kept, found, title, describe, lexicon))
    return Extract(passage.chunk.id, Method.HEURISTIC, entities, relations)


def _gather(passage: Passage, lexicon: Lexicon) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for position, mentions in enumerate(passage.mentions):
        for short, mention in mentions:
            key = lexicon.resolve(short)
            kind = Kind.TERM if mention.weak else mention.kind
            entity = found.setdefault(key, _Found(key, kind))
            entity.places.setdefault(position, mention)
            if _WEIGHTS[kind] > _WEIGHTS[entity.kind]:
                entity.kind = kind
    return found


def _selected(found: dict[str, _Found], topics: set[str], tokens: int, lexicon: Lexicon) -> list[str]:
    """The keys that stay, in reading order: topics, then the weightiest within a bound that grows with the chunk."""
    limit = min(_MOST, max(_FEWEST, tokens // _TOKENS_PER_ENTITY))

    def weight(key: str) -> float:
        entity = found[key]
        return _WEIGHTS[entity.kind] * (1 + log2(1 + lexicon.count(key)) / 4) + 0.3 * len(entity.places)

    order = {key: rank for rank, key in enumerate(found)}
    ranked = sorted((key for key in found if key not in topics), key=lambda key: (-weight(key), order[key]))
    certain = [key for key in ranked if found[key].kind in {Kind.NAME, Kind.WORK}][
        : max(2 * limit, tokens // _TOKENS_PER_NAME)
    ]
    chosen = {*certain, *ranked[: max(0, limit - len(certain))]} | (topics & found.keys())
    return sorted(chosen, key=lambda key: order[key])


def _entity(entity: _Found, describe: Describer, lexicon: Lexicon) -> ExtractedEntity:
    return ExtractedEntity(
        lexicon.name(entity.key),
        lexicon.type(entity.key),
        describe.entity(entity.key, entity.places),
        lexicon.aliases(entity.key),
    )


# --- relations -----------------------------------------------------------------------------


def _relations(
    passage: Passage,
    kept: Sequence[str],
    found: dict[str, _Found],
    title: str,
    describe: Describer,
    lexicon: Lexicon,
) -> Iterator[ExtractedRelation]:
    """Sentences that join two entities; then the title and headings with what stands beneath them."""
    chosen = set(kept)
    names_of = {key: lexicon.name(key) for key in kept}
    related: set[frozenset[str]] = set()
    for position, mentions in enumerate(passage.mentions):
        if passage.sentences[position].kind is PieceKind.HEADING:
            continue
        present: dict[str, Mention] = {}
        for short, mention in mentions:
            key = lexicon.resolve(short)
            if key in chosen:
                present.setdefault(key, mention)
        for one, other in _pairs(list(present)):
            related.add(frozenset((one, other)))
            text = describe.clause(position, present[one], present[other])
            yield ExtractedRelation(names_of[one], names_of[other], text)
    for topic, keys in _beneath(passage, kept, found, title, lexicon):
        for key in keys:
            if frozenset((topic, key)) not in related:
                related.add(frozenset((topic, key)))
                yield ExtractedRelation(
                    names_of[topic], names_of[key], describe.entity(key, found[key].places)
                )


def _pairs(keys: Sequence[str]) -> list[tuple[str, str]]:
    """Every two of a few; of many, each with its neighbour and the first with the rest, within a bound."""
    if len(keys) <= _ALL_PAIRS:
        return list(combinations(keys, 2))
    chain = list(pairwise(keys))
    return list(dict.fromkeys([*chain, *((keys[0], key) for key in keys[2:])]))[
        : max(_PAIRS_PER_SENTENCE, len(chain))
    ]


def _beneath(
    passage: Passage, kept: Sequence[str], found: dict[str, _Found], title: str, lexicon: Lexicon
) -> Iterator[tuple[str, list[str]]]:
    """Topics of the chunk, each with the weightiest entities that stand under it."""
    chosen = set(kept)
    ranked = sorted(
        kept, key=lambda key: (-_WEIGHTS[found[key].kind] * (1 + len(found[key].places)), kept.index(key))
    )
    sections = list(dict.fromkeys(lexicon.resolve(key) for key in passage.headings if key))
    for heading in sections:
        if heading in chosen and heading != title:
            positions = {
                p for p, key in enumerate(passage.headings) if key and lexicon.resolve(key) == heading
            }
            under = [
                key for key in ranked if key not in {heading, title} and positions & found[key].places.keys()
            ]
            yield heading, under[:_HEADING_RELATIONS]
    if title in chosen:
        rest = [key for key in ranked if key != title and key not in sections]
        yield title, [*(key for key in sections if key != title and key in chosen), *rest][:_TITLE_RELATIONS]
