"""The extractor that needs no model: what each chunk of one document names, and which sentences join two names.

Names come first (capitalised phrases, titles, headings, identifiers): on MuSiQue they and their sentences carry
graph retrieval as well as a model's triples. Terms written small must earn their place by how often they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import log2

from leanrag_engine.core.model import Chunk, Extract, ExtractedEntity, ExtractedRelation, Method
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.sentences import PieceKind

from .definitions import find_definitions, find_in_code
from .descriptions import Describer
from .keyphrases.terms import find_terms
from .names.entity_types import coarse_type
from .names.lexicon import Lexicon, find_acronyms, link_persons, without_remark
from .names.mentions import Kind, Mention, find_names, keep_longest
from .passages import ParsedChunk, parse_chunks, without_overlap
from .topics import Topics
from .words import vocabulary as known
from .words.tokens import Sentence
from .words.usage import WordUsage

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


def extract(
    chunks: Sequence[Chunk], title: str, *, pulse: Callable[[], None] = lambda: None
) -> list[Extract]:
    """What each chunk of one document says, in the order of ``chunks``; ``title`` is the document's.

    ``pulse`` is called every few milliseconds of work; what it raises ends the work. A pure function of its arguments: statistics are taken over the document alone, of a very long one over each
    thousand chunks, so that memory stays bounded. Time is linear in the text.
    """
    return [
        found
        for start in range(0, len(chunks), _WINDOW)
        for found in _extract(
            chunks[start : start + _WINDOW], title, short=len(chunks) <= _SHORT_DOCUMENT, pulse=pulse
        )
    ]


def _extract(chunks: Sequence[Chunk], title: str, *, short: bool, pulse: Callable[[], None]) -> list[Extract]:
    passages = parse_chunks(chunks)
    fresh = without_overlap(passages)
    usage = WordUsage.of(fresh)
    topics = Topics.of(title, passages)
    lexicon = Lexicon()
    _find_names(passages, topics, usage, lexicon, pulse)
    find_terms(passages, fresh, usage, lexicon)
    link_persons(lexicon, _names_in_order(passages))
    said = []
    for passage in passages:
        pulse()
        said.append(_ChunkReader(passage, topics, lexicon, short=short).extract())
    return said


def _names_in_order(passages: Sequence[ParsedChunk]) -> list[str]:
    mentions = (pair for passage in passages for found in passage.mentions for pair in found)
    return [key for key, mention in mentions if mention.kind is Kind.NAME]


# --- names ---------------------------------------------------------------------------------


def _find_names(
    passages: Sequence[ParsedChunk],
    topics: Topics,
    usage: WordUsage,
    lexicon: Lexicon,
    pulse: Callable[[], None],
) -> None:
    """Fill in the mentions of names, identifiers and topics, sentence by sentence."""
    defined = find_definitions(passages)
    for passage in passages:
        pulse()
        heading = name_key(topics.of_path(passage.chunk.heading))
        for sentence in passage.sentences:
            found: list[Mention] = []
            if sentence.kind is PieceKind.HEADING:
                topic = topics.headings.get(sentence.text, "")
                heading = name_key(topic) or heading
                found = [Mention(topic, Kind.CONCEPT, 0, len(sentence.text))] if topic else []
            elif sentence.kind is PieceKind.PROSE:
                found = _names_in(sentence, topics, usage, lexicon)
            else:
                found = list(find_in_code(sentence.text, defined))
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


def _names_in(sentence: Sentence, topics: Topics, usage: WordUsage, lexicon: Lexicon) -> list[Mention]:
    found = list(find_names(sentence.tokens, sentence.text, usage))
    for mention in found:
        before = sentence.text[: mention.start].lower().rsplit(None, 1)[-1:]
        if before and before[0].rstrip(".") in known.FORMS_OF_ADDRESS:
            lexicon.addressed.add(name_key(mention.name))
    for short, mention in find_acronyms(sentence.tokens, sentence.text):
        found.append(mention)
        lexicon.define(short, mention.name)
    found += topics.mentions(sentence.text)
    return keep_longest(found)


# --- one chunk -----------------------------------------------------------------------------

_WEIGHTS = {Kind.NAME: 3.0, Kind.WORK: 3.0, Kind.CODE: 2.4, Kind.CONCEPT: 2.6, Kind.TERM: 1.0}


@dataclass(slots=True)
class _ChunkEntity:
    """One entity in one chunk: the sentences that mention it, each with the first mention there."""

    key: str
    kind: Kind
    places: dict[int, Mention] = field(default_factory=dict)


class _ChunkReader:
    """Chooses what to say of one chunk of a document that has been read whole."""

    def __init__(self, passage: ParsedChunk, topics: Topics, lexicon: Lexicon, *, short: bool) -> None:
        self._passage = passage
        self._lexicon = lexicon
        self._describe = Describer(passage)
        self._found = self._gather()
        self._title = lexicon.resolve(name_key(topics.title)) if topics.title else ""
        if self._title and (self._title in self._found or short or passage.chunk.number == 1):
            self._found.setdefault(self._title, _ChunkEntity(self._title, Kind.CONCEPT))
        self._above = [lexicon.resolve(key) if key else "" for key in passage.headings]
        """The heading above each sentence."""
        self._sections = [key for key in dict.fromkeys(self._above) if key and key != self._title]
        for key in self._sections:
            self._found.setdefault(key, _ChunkEntity(key, Kind.CONCEPT))
        self._kept = self._select()

    def extract(self) -> Extract:
        entities = tuple(self._entity(key) for key in self._kept)
        relations = (*self._sentence_relations(), *self._topic_relations())
        return Extract(self._passage.chunk.id, Method.HEURISTIC, entities, relations)

    def _gather(self) -> dict[str, _ChunkEntity]:
        found: dict[str, _ChunkEntity] = {}
        for position, mentions in enumerate(self._passage.mentions):
            for short, mention in mentions:
                key = self._lexicon.resolve(short)
                kind = Kind.TERM if mention.weak else mention.kind
                entity = found.setdefault(key, _ChunkEntity(key, kind))
                entity.places.setdefault(position, mention)
                if _WEIGHTS[kind] > _WEIGHTS[entity.kind]:
                    entity.kind = kind
        return found

    def _select(self) -> list[str]:
        """The keys that stay, in reading order: topics, names, then the weightiest of the rest within a bound."""
        tokens = self._passage.chunk.tokens
        limit = min(_MOST, max(_FEWEST, tokens // _TOKENS_PER_ENTITY))
        topics = {self._title, *self._sections}
        order = {key: rank for rank, key in enumerate(self._found)}
        ranked = sorted(self._found.keys() - topics, key=lambda key: (-self._weight(key), order[key]))
        names_ = [key for key in ranked if self._found[key].kind in {Kind.NAME, Kind.WORK}]
        names_ = names_[: max(2 * limit, tokens // _TOKENS_PER_NAME)]
        chosen = topics.union(names_) & self._found.keys()
        rest = [key for key in ranked if key not in chosen]
        chosen.update(rest[: max(0, limit - len(chosen))])
        return sorted(chosen, key=lambda key: order[key])

    def _weight(self, key: str) -> float:
        entity = self._found[key]
        return _WEIGHTS[entity.kind] * (1 + log2(1 + self._lexicon.count(key)) / 4) + 0.3 * len(entity.places)

    def _entity(self, key: str) -> ExtractedEntity:
        lexicon = self._lexicon
        description = self._describe.entity(key, self._found[key].places)
        return ExtractedEntity(lexicon.name(key), lexicon.type(key), description, lexicon.aliases(key))

    # relations

    def _relation(self, source: str, target: str, description: str) -> ExtractedRelation:
        return ExtractedRelation(self._lexicon.name(source), self._lexicon.name(target), description)

    def _sentence_relations(self) -> Iterator[ExtractedRelation]:
        """Sentences that join two entities."""
        for position, present in self._joint_mentions():
            for one, other in _pairs(list(present)):
                yield self._relation(
                    one, other, self._describe.clause(position, present[one], present[other])
                )

    def _joint_mentions(self) -> Iterator[tuple[int, dict[str, Mention]]]:
        """Each sentence's position, with the first mention there of each entity that stays."""
        kept = set(self._kept)
        for position, mentions in enumerate(self._passage.mentions):
            if self._passage.sentences[position].kind is not PieceKind.HEADING:
                present: dict[str, Mention] = {}
                for short, mention in mentions:
                    present.setdefault(self._lexicon.resolve(short), mention)
                yield position, {key: mention for key, mention in present.items() if key in kept}

    def _topic_relations(self) -> Iterator[ExtractedRelation]:
        """The title and the headings with what stands beneath them, unless a sentence joins the two."""
        related = {frozenset(pair) for _, present in self._joint_mentions() for pair in _pairs(list(present))}
        for topic, keys in self._beneath():
            for key in keys:
                if frozenset((topic, key)) not in related:
                    related.add(frozenset((topic, key)))
                    yield self._relation(topic, key, self._describe.entity(key, self._found[key].places))

    def _beneath(self) -> Iterator[tuple[str, list[str]]]:
        """Topics of the chunk, each with the weightiest entities that stand under it."""
        ranked = sorted(
            self._kept, key=lambda key: -_WEIGHTS[self._found[key].kind] * (1 + len(self._found[key].places))
        )
        rest = [key for key in ranked if key != self._title and key not in self._sections]
        for heading in self._sections:
            positions = {position for position, key in enumerate(self._above) if key == heading}
            yield (
                heading,
                [key for key in rest if positions & self._found[key].places.keys()][:_HEADING_RELATIONS],
            )
        if self._title in self._kept:
            yield self._title, [*self._sections, *rest][:_TITLE_RELATIONS]


def _pairs(keys: Sequence[str]) -> list[tuple[str, str]]:
    """Every two of a few; of many, each with its neighbour and the first with the rest, within a bound."""
    if len(keys) <= _ALL_PAIRS:
        return list(combinations(keys, 2))
    chain = list(pairwise(keys))
    fan = [(keys[0], key) for key in keys[2:]]
    return [*chain, *fan][: max(_PAIRS_PER_SENTENCE, len(chain))]
