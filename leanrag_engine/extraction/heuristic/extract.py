"""Extraction without a model: the names and frequent terms of each chunk, and the sentences that join two of
them. On MuSiQue, graph retrieval with them is as good as with a model's triples."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import log2

from leanrag_engine.core.model import Chunk, Extract, ExtractedEntity, ExtractedRelation, Method
from leanrag_engine.core.text.language.names import name_key, without_remark
from leanrag_engine.core.text.language.sentences import PieceKind, Turn, is_statement, sentences
from leanrag_engine.core.text.language.words import STOPWORDS, plain_apostrophes, words
from leanrag_engine.core.text.records import TABLE_ROW
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.documents.notices import is_licence

from .descriptions import Describer
from .keyphrases.terms import OPTIONS, find_terms
from .names.lexicon import (
    Lexicon,
    coarse_type,
    find_acronyms,
    find_nickname,
    is_author,
    is_reference,
    link_persons,
)
from .names.mentions import Kind, Mention, find_in_row, find_names, keep_longest
from .passages import ParsedChunk, parse_chunks, without_overlap
from .topics import Topics
from .words import vocabulary as known
from .words.tokens import Sentence, WordUsage

_DEFINITION = re.compile(
    r"\b(?:class|def|function|interface|struct|enum|trait|fn|func|module|namespace|type)\s+([A-Za-z_]\w{2,})"
    r"|\b(?:const|let|var)\s+([A-Za-z_]\w{2,})\s*=\s*(?:async\b|function\b|\([^)]*\)\s*=>)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,}")


def find_definitions(passages: Sequence[ParsedChunk]) -> frozenset[str]:
    """Return the names that are defined in a document of which more than half is code; else none."""
    sentences = [sentence for passage in passages for sentence in passage.sentences]
    code = [sentence.text for sentence in sentences if sentence.kind is PieceKind.CODE]
    if 2 * sum(map(len, code)) <= sum(len(sentence.text) for sentence in sentences):
        return frozenset()
    return frozenset(name for line in code for found in _DEFINITION.findall(line) for name in found if name)


def extract(
    chunks: Sequence[Chunk], title: str, *, pulse: Callable[[], None] = lambda: None
) -> list[Extract]:
    """Return one extract for each chunk of a document with this ``title``, in the order of ``chunks``. ``pulse`` is called every few
    milliseconds and may raise. Statistics are of the document, or of each thousand chunks of a very long one. Linear in the text.
    The text of a licence names nothing."""
    if is_licence(chunks):
        return [Extract(each.id, Method.HEURISTIC, (), ()) for each in chunks]
    short = len(chunks) <= OPTIONS.short_document
    window = 1_000  # chunks of which statistics are taken at once; it bounds the memory
    return [
        found
        for start in range(0, len(chunks), window)
        for found in _extract(chunks[start : start + window], title, short=short, pulse=pulse)
    ]


def _extract(chunks: Sequence[Chunk], title: str, *, short: bool, pulse: Callable[[], None]) -> list[Extract]:
    passages = parse_chunks(chunks)
    fresh = without_overlap(passages)
    usage = WordUsage.of(fresh)
    talk = any(sentence.turn for passage in passages for sentence in passage.sentences)
    # The title of a conversation only lists its speakers.
    topics = Topics.of("" if talk else title, passages)
    lexicon = Lexicon()
    few_rows = sum(_ROW.match(sentence.text) is not None for sentence in fresh) <= OPTIONS.most_rows
    _find_names(passages, topics, usage, lexicon, pulse, rows=few_rows)
    lexicon.join_humps()
    find_terms(passages, fresh, usage, lexicon)
    mentions = (pair for passage in passages for found in passage.mentions for pair in found)
    link_persons(lexicon, [key for key, mention in mentions if mention.kind is Kind.NAME])
    extracts = []
    for passage in passages:
        pulse()
        extracts.append(_ChunkReader(passage, topics, lexicon, short=short).extract())
    return extracts


_ROW = re.compile(TABLE_ROW)


# --- names ---------------------------------------------------------------------------------


def _find_names(
    passages: Sequence[ParsedChunk],
    topics: Topics,
    usage: WordUsage,
    lexicon: Lexicon,
    pulse: Callable[[], None],
    *,
    rows: bool,
) -> None:
    """Add the mentions of names, identifiers and topics to the passages and the lexicon, sentence by
    sentence. ``rows``: those in rows of tables too."""
    defined = find_definitions(passages)
    for passage in passages:
        pulse()
        heading = name_key(topics.headings.get(passage.chunk.heading.rpartition(" > ")[2], ""))
        for sentence in passage.sentences:
            found: list[Mention] = []
            if sentence.kind is PieceKind.HEADING:
                topic = topics.headings.get(sentence.text, "")
                heading = name_key(topic) or heading
                found = [Mention(topic, Kind.CONCEPT, 0, len(sentence.text))] if topic else []
            elif sentence.kind is PieceKind.PROSE:
                found = _names_in(sentence, topics, usage, lexicon)
            elif _ROW.match(sentence.text):
                found = list(find_in_row(sentence.text)) if rows else []
            else:
                named = (each for each in _IDENTIFIER.finditer(sentence.text) if each[0] in defined)
                found = [Mention(each[0], Kind.CODE, each.start(), each.end()) for each in named]
            keyed = [
                (lexicon.add(mention, coarse_type(mention, sentence.text)), mention) for mention in found
            ]
            if sentence.turn:
                keyed.insert(0, _add_speaker(sentence.turn, lexicon))
            passage.mentions.append([(key, mention) for key, mention in keyed if key])
            passage.headings.append(heading)
    for name in topics.headings.values():
        lexicon.know(name)
    if topics.title:
        lexicon.preferred[name_key(topics.title)] = topics.title
        lexicon.know(topics.title)
        lexicon.define(without_remark(topics.title), topics.title)


def _add_speaker(turn: Turn, lexicon: Lexicon) -> tuple[str, Mention]:
    mention = Mention(turn.speaker, Kind.NAME, turn.start, turn.end)
    key = lexicon.add(mention, "person")
    lexicon.speakers.add(key)
    return key, mention


def _names_in(sentence: Sentence, topics: Topics, usage: WordUsage, lexicon: Lexicon) -> list[Mention]:
    text = plain_apostrophes(sentence.text)
    found = list(find_names(sentence.tokens, text, usage))
    if is_reference(sentence):
        found = [each for each in found if is_author(each) or name_key(each.name) in lexicon.surfaces]
    for mention in found:
        before = text[: mention.start].lower().rsplit(None, 1)[-1:]
        if before and before[0].rstrip(".") in known.FORMS_OF_ADDRESS:
            lexicon.addressed.add(name_key(mention.name))
        if nickname := find_nickname(mention.name):
            lexicon.define(mention.name, nickname)
    for short, mention in find_acronyms(sentence.tokens, text):
        found.append(mention)
        lexicon.define(short, mention.name)
    found += topics.mentions(text)
    return keep_longest(found)


# --- one chunk -----------------------------------------------------------------------------

_WEIGHTS = {Kind.NAME: 3.0, Kind.WORK: 3.0, Kind.CODE: 2.4, Kind.CONCEPT: 2.6, Kind.TERM: 1.0}


@dataclass(slots=True)
class _ChunkEntity:
    """One entity in one chunk; ``places`` maps the positions of sentences to the first mention in each."""

    kind: Kind
    places: dict[int, Mention] = field(default_factory=dict)


class _ChunkReader:
    """Selects the entities and relations of one chunk once the whole document is read."""

    def __init__(self, passage: ParsedChunk, topics: Topics, lexicon: Lexicon, *, short: bool) -> None:
        self._passage = passage
        self._lexicon = lexicon
        self._describe = Describer(passage, OPTIONS.description_words)
        self._found = self._gather()
        self._title = lexicon.resolve(name_key(topics.title)) if topics.title else ""
        if self._title and (self._title in self._found or short or passage.chunk.number == 1):
            self._found.setdefault(self._title, _ChunkEntity(Kind.CONCEPT))
        self._above = [lexicon.resolve(key) if key else "" for key in passage.headings]
        """The key of the heading above each sentence."""
        self._sections = [key for key in dict.fromkeys(self._above) if key and key != self._title]
        for key in self._sections:
            self._found.setdefault(key, _ChunkEntity(Kind.CONCEPT))
        self._kept = self._select()

    def extract(self) -> Extract:
        entities = tuple(self._entity(key) for key in self._kept)
        relations = _without_idle([*self._sentence_relations()], [*self._topic_relations()])
        return Extract(self._passage.chunk.id, Method.HEURISTIC, entities, relations)

    def _gather(self) -> dict[str, _ChunkEntity]:
        found: dict[str, _ChunkEntity] = {}
        for position, mentions in enumerate(self._passage.mentions):
            for short, mention in mentions:
                kind = Kind.TERM if mention.weak else mention.kind
                entity = found.setdefault(self._lexicon.resolve(short), _ChunkEntity(kind))
                entity.places.setdefault(position, mention)
                if _WEIGHTS[kind] > _WEIGHTS[entity.kind]:
                    entity.kind = kind
        return found

    def _select(self) -> list[str]:
        """Return the keys to keep in reading order: topics, names, then the heaviest others within a bound."""
        tokens = self._passage.chunk.tokens
        limit = min(OPTIONS.most_entities, max(OPTIONS.fewest_entities, tokens // OPTIONS.tokens_per_entity))
        topics = {self._title, *self._sections}
        order = {key: rank for rank, key in enumerate(self._found)}
        ranked = sorted(self._found.keys() - topics, key=lambda key: (-self._weight(key), order[key]))
        names_ = [key for key in ranked if self._found[key].kind in {Kind.NAME, Kind.WORK}]
        names_ = names_[: max(2 * limit, tokens // OPTIONS.tokens_per_name)]
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
        """Yield a relation for each pair of entities in each sentence."""
        for position, present in self._joint_mentions():
            for one, other in _pairs(list(present)):
                stated = self._describe.statement(position, present[one], present[other])
                yield self._relation(one, other, stated)

    def _joint_mentions(self) -> Iterator[tuple[int, dict[str, Mention]]]:
        """Yield each sentence's position with the first mention of each selected entity in it."""
        kept = set(self._kept)
        for position, mentions in enumerate(self._passage.mentions):
            if self._passage.sentences[position].kind is not PieceKind.HEADING:
                present: dict[str, Mention] = {}
                for short, mention in mentions:
                    present.setdefault(self._lexicon.resolve(short), mention)
                yield position, {key: mention for key, mention in present.items() if key in kept}

    def _topic_relations(self) -> Iterator[ExtractedRelation]:
        """Relate the title and each heading to the entities beneath it, unless a sentence joins the two."""
        related = {frozenset(pair) for _, present in self._joint_mentions() for pair in _pairs(list(present))}
        for topic, keys, positions in self._beneath():
            for key in keys:
                if frozenset((topic, key)) not in related:
                    related.add(frozenset((topic, key)))
                    places = self._found[key].places
                    here = {place: places[place] for place in sorted(positions & places.keys())}
                    about = self._describe.entity(key, here)
                    stated = about if is_statement(about) else self._describe.best_statement(here)
                    yield self._relation(topic, key, stated)

    def _beneath(self) -> Iterator[tuple[str, list[str], set[int]]]:
        """Yield the topics of the chunk, each with the heaviest entities and the positions of the sentences beneath it."""
        ranked = sorted(
            self._kept, key=lambda key: -_WEIGHTS[self._found[key].kind] * (1 + len(self._found[key].places))
        )
        rest = [key for key in ranked if key != self._title and key not in self._sections]
        for heading in self._sections:
            positions = {position for position, key in enumerate(self._above) if key == heading}
            beneath = [key for key in rest if positions & self._found[key].places.keys()]
            yield heading, beneath[: OPTIONS.heading_relations], positions
        if self._title in self._kept:
            everywhere = set(range(len(self._above)))
            yield self._title, [*self._sections, *rest][: OPTIONS.title_relations], everywhere


def _pairs(keys: Sequence[str]) -> list[tuple[str, str]]:
    """Return every pair of a few keys; of many, the neighbours, then the first with others, within a bound."""
    if len(keys) <= OPTIONS.related_in_full:
        return list(combinations(keys, 2))
    chain = list(pairwise(keys))
    return [*chain, *[(keys[0], key) for key in keys[2:]]][: max(OPTIONS.pairs_per_sentence, len(chain))]


def _without_idle(
    joint: Sequence[ExtractedRelation], topical: Sequence[ExtractedRelation]
) -> tuple[ExtractedRelation, ...]:
    """Drop the relations that state nothing, but for one that alone connects an entity, best to the topic above it."""
    connected = {end for each in (*joint, *topical) if each.description for end in (each.source, each.target)}
    kept = set()
    for each in (*topical, *joint):
        ends = {each.source, each.target}
        if not each.description and not ends <= connected:
            connected |= ends
            kept.add(each)
    return tuple(each for each in (*joint, *topical) if each.description or each in kept)


def find_key_words(text: str, most: int = 3, longest_name: int = 60) -> tuple[ExtractedEntity, ...]:
    """Return something to name a text by that has no names and no terms: its ``most`` frequent words with content, each
    described by its first sentence; without any, its beginning."""
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for sentence in [text[start:end] for start, end in sentences(text)] or text.split("\n"):
        for word in words(sentence):
            if word not in STOPWORDS and word[0].isalpha() and len(word) > (1 if has_cjk(word) else 2):
                counts[word] += 1
                found.setdefault(word, " ".join(sentence.split()))
    best = sorted(found, key=lambda word: -counts[word])[:most]
    if not best and (opening := " ".join(text.split())):
        found, best = {opening[:longest_name].strip(): opening}, [opening[:longest_name].strip()]
    return tuple(ExtractedEntity(word, Kind.TERM.value, found[word]) for word in best)
