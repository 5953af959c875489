"""Merge extracts into G0: one entity per name, one relation per pair, every mention counted.

A pure function of the extracts in reading order and of corrections. Two mentions are the same entity iff :func:`name_key` gives both the
same key, or one is an acronym that the corpus defines for the other and for nothing else, or one is the other without
spaces (*MeiLin*). A name that many may have (*King*, *John*) is one entity in two documents only if its contexts agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

from leanrag_engine.core.model import (
    Attribute,
    Correction,
    CorrectionEffects,
    Entity,
    Evidence,
    Extract,
    ExtractedEntity,
    Graph,
    Method,
    Relation,
    content_id,
)
from leanrag_engine.core.ports import Progress, ProgressReport, ignore_progress
from leanrag_engine.core.text.language.names import name_key, split_humps
from leanrag_engine.core.text.language.sentences import ends_sentence, sentences
from leanrag_engine.core.text.language.turns import find_turn
from leanrag_engine.core.text.language.words import word_count

from .correcting import NameCorrections
from .heuristic.names.mentions import Kind
from .namesakes import find_namesakes

T = TypeVar("T")

DESCRIPTION_WORDS = 120
"""Limit of a merged description; prompts name it too. Set by reading."""

_VAGUE_TYPES = frozenset(["", "concept", "name", "term", "unknown", "other", "entity", "misc", "object"])
"""Types without information: any specific type wins the vote against them."""
_ACRONYM_LENGTHS = range(2, 9)


@dataclass(frozen=True, slots=True)
class LongDescription:
    """The descriptions by models and agents of an entity or relation for which they exceed the limit.

    ``texts`` are pairs of text and chunk id, in reading order; those of a relation by descending importance.
    """

    id: str
    texts: tuple[tuple[str, str], ...]


def merge(
    extracts: Sequence[Extract],
    report: ProgressReport = ignore_progress,
    overlong: Callable[[LongDescription], None] = lambda _: None,
    documents: Mapping[str, str] | None = None,
    corrections: Sequence[Correction] = (),
    note_effects: Callable[[CorrectionEffects], None] = lambda _: None,
    previous: Graph | None = None,
) -> Graph:
    """Build G0 from ``extracts`` in reading order (by document number, then chunk number) and ``corrections``.

    Entities are ordered by first mention and have no parent yet; relations are ordered by first statement. Ids depend
    on the names alone, but for names that several entities share. ``documents`` maps chunk ids to document ids; without
    it all is taken for one document. Linear in the number of extracted entities and relations. ``report`` is called for the stage
    ``merge`` a few times a second; an exception that it raises ends the work. ``overlong`` is called for each
    description that would lose much of what models wrote; see :mod:`leanrag_engine.extraction.by_model.describe`.
    ``note_effects`` is called once with the corrections that had an effect and those that had none. Descriptions of the
    ``previous`` G0 are used again where they were merged from the same statements; the result is the same without it.
    """
    keys = _Keys()
    known = _index_merged_texts(previous)
    before = {(each.source_id, each.target_id): each for each in previous.relations} if previous else {}
    forms = _acronyms(extracts, keys) | _find_joined_names(extracts, keys)
    canonical = _CanonicalKeys(NameCorrections.of(corrections, forms, documents or {}))
    if documents:
        corrected = canonical.corrected
        canonical.shared = find_namesakes(extracts, keys, corrected.forms, documents, corrected.merged)
    entities: dict[str, _EntityDraft] = {}
    relations: dict[tuple[str, str], _RelationDraft] = {}
    for extract in _report_each(extracts, report, "extracts"):
        here = _read_entities(extract, keys, canonical, entities)
        _read_relations(extract, keys, here, relations)
    note_effects(canonical.corrected.effects(forms))
    kept = _without_noise(extracts, keys, canonical, entities)
    ids = _ids(kept)
    pairs = _without_idle([pair for pair in relations if pair[0] in ids and pair[1] in ids], relations)
    return Graph(
        tuple(
            entities.pop(key).build(ids[key], overlong, known, canonical.corrected.titles.get(key, ""))
            for key in _report_each(kept, report, "entities")
        ),
        tuple(
            relations.pop(pair).build(
                ids[pair[0]], ids[pair[1]], overlong, known, before.get((ids[pair[0]], ids[pair[1]]))
            )
            for pair in _report_each(pairs, report, "relations")
        ),
    )


def _report_each(items: Sequence[T], report: ProgressReport, what: str) -> Iterator[T]:
    """Yield the items and report progress every 2,000 of them, which takes a fraction of a second."""
    for done, item in enumerate(items):
        if done % 2000 == 0:
            report(Progress("merge", done, len(items), what))
        yield item


class _Keys(dict[str, str]):
    """A cache of name keys: each mention looks up its name several times."""

    def __missing__(self, name: str) -> str:
        key = self[name] = name_key(name)
        return key


def _count(counts: dict[T, int], item: T) -> None:
    """Count an item. Plain dictionaries: making a ``Counter`` takes ten times as long, and a build needs a million."""
    counts[item] = counts.get(item, 0) + 1


def _most_frequent(counts: Mapping[T, int]) -> T:
    """Return the item counted most often; the first one wins ties."""
    return max(counts, key=counts.__getitem__)


# --- one entity, one relation --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _MergedText:
    """A merged description with the origins of its sentences, the method of the first one, and the digest of the
    ``statements`` that it was merged from; "" if it is the only one as it stands."""

    text: str = ""
    evidence: tuple[Evidence, ...] = ()
    method: Method | None = None
    statements: str = ""


_MergedTexts = Mapping[str, _MergedText]
"""Descriptions by the digest of what they were merged from."""


def _index_merged_texts(previous: Graph | None) -> _MergedTexts:
    items: Iterable[Entity | Relation] = chain(previous.entities, previous.relations) if previous else ()
    return {
        each.statements: _MergedText(each.description, each.evidence, each.method, each.statements)
        for each in items
        if each.statements
    }


@dataclass(slots=True)
class _Statements:
    """Distinct descriptions in order of arrival, each with the method and the chunk of its first occurrence."""

    counts: dict[str, int] = field(default_factory=dict)
    methods: dict[str, Method] = field(default_factory=dict)
    chunks: dict[str, str] = field(default_factory=dict)
    importances: dict[str, float] | None = None
    """The importance of a relation's descriptions, where a model gave one."""

    def add(self, text: str, extract: Extract, importance: float = 0.0) -> None:
        text = " ".join(text.split())
        if text:
            _count(self.counts, text)
            self.methods.setdefault(text, extract.method)
            self.chunks.setdefault(text, extract.chunk_id)
            if importance:
                self.importances = self.importances or {}
                self.importances[text] = max(importance, self.importances.get(text, 0.0))

    def from_models(self) -> list[str]:
        """Return the texts of models and agents by descending importance, then by arrival."""
        found = [text for text in self.counts if self.methods[text] is not Method.HEURISTIC]
        importances = self.importances
        return sorted(found, key=lambda text: -importances.get(text, 0.0)) if importances else found

    def report_if_overlong(
        self, id_: str, overlong: Callable[[LongDescription], None], limit: int = 160
    ) -> None:
        """Call ``overlong`` if the texts of models have more than ``limit`` words: joining them loses several sentences.

        The limit is not tuned. Quotations from documents never justify a model call: enough good sentences are left, and each cites its
        passage exactly.
        """
        texts = self.from_models() if len(self.counts) > 1 else ()
        if sum(map(word_count, texts)) > limit:
            overlong(LongDescription(id_, tuple((text, self.chunks[text]) for text in texts)))

    def merge(self, names: Sequence[str], known: _MergedTexts) -> _MergedText:
        """Merge the best descriptions within the limit; the method is that of the first one.

        Descriptions by models and agents come first. Heuristic ones are ranked sentence by sentence: definitions
        first, then by frequency. A sentence that several chunks state is attributed to the first of them.
        """
        if not self.counts:
            return _MergedText()
        first = next(iter(self.counts))
        if len(self.counts) == 1 and word_count(first) <= DESCRIPTION_WORDS:
            evidence = Evidence(0, len(first), self.chunks[first])
            return _MergedText(first, (evidence,), self.methods[first])
        statements = self._digest(names)
        if statements in known:
            return known[statements]
        parts = {text: _split(text) for text in self.counts}
        written = self.from_models()
        ranked = chain(
            chain.from_iterable(parts[text] for text in written), self._rank_sentences(names, parts)
        )
        chosen = select_fitting(ranked, DESCRIPTION_WORDS)
        method = self.methods[written[0]] if written else Method.HEURISTIC
        return _MergedText(" ".join(chosen), self._evidence(chosen, parts), method, statements)

    def _digest(self, names: Sequence[str]) -> str:
        """Return a digest of all that :meth:`merge` depends on: cutting texts into sentences takes far longer."""
        said = (
            f"{count} {self.methods[text]} {self.chunks[text]} {(self.importances or {}).get(text, 0)} {text}"
            for text, count in self.counts.items()
        )
        return content_id("s", str(len(names)), *names, *said)

    def _rank_sentences(self, names: Sequence[str], parts: Mapping[str, Sequence[str]]) -> list[str]:
        """Rank the sentences of heuristic descriptions; ``parts`` maps each description to its sentences."""
        found: dict[str, int] = {}
        for text, count in self.counts.items():
            if self.methods[text] is Method.HEURISTIC:
                for sentence in dict.fromkeys(parts[text]):
                    found[sentence] = found.get(sentence, 0) + count
        keys = [name.casefold() for name in names]
        # A heading or a line of a table before a sentence would read as its beginning: it comes last. The sort is
        # stable: ties keep reading order.
        return sorted(
            found,
            key=lambda sentence: (not _is_complete(sentence), -_defines(sentence, keys), -found[sentence]),
        )

    def _evidence(self, chosen: Sequence[str], parts: Mapping[str, Sequence[str]]) -> tuple[Evidence, ...]:
        """Return the origins of ``chosen``, joined by single spaces; adjacent sentences of one chunk share a span."""
        if len(self.counts) == 1:
            return (Evidence(0, len(" ".join(chosen)), next(iter(self.chunks.values()))),)
        origins = {
            sentence: chunk_id for text, chunk_id in reversed(self.chunks.items()) for sentence in parts[text]
        } | self.chunks
        found: list[Evidence] = []
        start = 0
        for sentence in chosen:
            end, chunk_id = start + len(sentence), origins[sentence]
            if found and found[-1].chunk_id == chunk_id:
                found[-1] = Evidence(found[-1].start, end, chunk_id)
            else:
                found.append(Evidence(start, end, chunk_id))
            start = end + 1
        return tuple(found)


@dataclass(slots=True)
class _EntityDraft:
    """An entity of G0 while mentions are added."""

    surfaces: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    texts: _Statements = field(default_factory=_Statements)
    chunks: dict[str, None] = field(default_factory=dict)
    methods: dict[Method, int] = field(default_factory=dict)
    attributes: dict[tuple[str, str], Attribute] | None = None
    """By name and value, without case; few entities have any."""

    def add(self, entity: ExtractedEntity, extract: Extract) -> None:
        _count(self.surfaces, " ".join(entity.name.split()))
        for alias in entity.aliases:
            _count(self.aliases, " ".join(alias.split()))
        _count(self.types, entity.type.strip().lower())
        self.texts.add(entity.description, extract)
        self.chunks.setdefault(extract.chunk_id)
        _count(self.methods, extract.method)
        for given in entity.attributes:
            self.attributes = self.attributes or {}
            key = given.name, " ".join(given.value.split()).casefold()
            held = self.attributes.get(key) or Attribute(given.name, " ".join(given.value.split()), ())
            chunk_ids = dict.fromkeys((*held.chunk_ids, extract.chunk_id))
            self.attributes[key] = replace(held, chunk_ids=tuple(chunk_ids))

    @property
    def name(self) -> str:
        """The most frequent surface form; the first seen wins ties."""
        return _most_frequent(self.surfaces)

    @property
    def type(self) -> str:
        """The most frequent type; a specific type with at least 30 % of the votes (not tuned) beats vague ones."""
        if len(self.types) == 1:
            return next(iter(self.types)) or "concept"
        total = sum(self.types.values())
        specific = {
            type_: count
            for type_, count in self.types.items()
            if type_ not in _VAGUE_TYPES and count >= 0.3 * total
        }
        return _most_frequent(specific or self.types) or "concept"

    def _other_forms(self, name: str) -> tuple[str, ...]:
        """Return at most eight other forms than ``name``, the most frequent first."""
        if len(self.surfaces) == 1 and name in self.surfaces and not self.aliases:
            return ()
        others = [
            form
            for form, _ in (Counter(self.surfaces) + Counter(self.aliases)).most_common()
            if form and form.casefold() != name.casefold()
        ]
        return tuple({form.casefold(): form for form in reversed(others)}.values())[::-1][:8]

    def build(
        self,
        id_: str,
        overlong: Callable[[LongDescription], None],
        known: _MergedTexts,
        title: str = "",
    ) -> Entity:
        """Return the entity. It is called ``title``, which a correction gives, or by its most frequent form."""
        self.texts.report_if_overlong(id_, overlong)
        name = title or self.name
        aliases = self._other_forms(name)
        description = self.texts.merge([name, *aliases], known)
        return Entity(
            id=id_,
            name=name,
            type=self.type,
            description=description.text,
            method=description.method or _most_frequent(self.methods),
            mentions=len(self.chunks),
            aliases=aliases,
            chunk_ids=tuple(self.chunks),
            evidence=description.evidence,
            statements=description.statements,
            attributes=tuple(self.attributes.values()) if self.attributes else (),
        )


@dataclass(slots=True)
class _RelationDraft:
    """A relation of G0 while statements are added."""

    texts: _Statements = field(default_factory=_Statements)
    chunks: dict[str, None] = field(default_factory=dict)
    methods: dict[Method, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)

    def build(
        self,
        source_id: str,
        target_id: str,
        overlong: Callable[[LongDescription], None],
        known: _MergedTexts,
        before: Relation | None = None,
    ) -> Relation:
        """Return the relation: the one of ``before`` itself if it is equal, which most are and which takes far less time."""
        if before is not None and self._says_the_same(before):
            return before
        id_ = content_id("r", *sorted((source_id, target_id)))
        self.texts.report_if_overlong(id_, overlong)
        description = self.texts.merge((), known)
        return Relation(
            id=id_,
            source_id=source_id,
            target_id=target_id,
            description=description.text,
            method=description.method or _most_frequent(self.methods),
            weight=sum(self.methods.values()),
            chunk_ids=tuple(self.chunks),
            evidence=description.evidence,
            statements=description.statements,
            types=self._rank_types(),
        )

    def _rank_types(self) -> tuple[str, ...]:
        return tuple(sorted(self.types, key=lambda type_: -self.types[type_]))

    def _says_the_same(self, before: Relation) -> bool:
        """Return whether :meth:`build` would make an equal relation of a single statement that is not too long."""
        if len(self.texts.counts) != 1 or before.statements or before.stale or before.layer:
            return False
        text = next(iter(self.texts.counts))
        return (
            before.description == text
            and before.evidence == (Evidence(0, len(text), self.texts.chunks[text]),)
            and before.method is self.texts.methods[text]
            and before.weight == sum(self.methods.values())
            and before.chunk_ids == tuple(self.chunks)
            and before.types == self._rank_types()
            and (before.strength, before.support) == (1, 1)
            and word_count(text) <= DESCRIPTION_WORDS
        )


@dataclass(slots=True)
class _CanonicalKeys:
    """Which entity a name key means. ``corrected`` maps other forms of a name to its key and applies corrections;
    ``shared`` maps a chunk's id and a key that several entities share to the key of one of them."""

    corrected: NameCorrections
    shared: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def find(self, key: str, chunk_id: str) -> str:
        key = self.corrected.find(key, chunk_id)
        return self.shared.get((chunk_id, key), key) if self.shared else key


def _read_entities(
    extract: Extract, keys: _Keys, canonical: _CanonicalKeys, entities: dict[str, _EntityDraft]
) -> dict[str, str]:
    """Add the entities of one extract; return the entity key for each of its name keys."""
    here: dict[str, str] = {}
    for entity in extract.entities:
        key = keys[entity.name]
        if key:
            target = here[key] = canonical.find(key, extract.chunk_id)
            draft = entities.get(target)
            if draft is None:
                draft = entities[target] = _EntityDraft()
            draft.add(entity, extract)
    return here


def _read_relations(
    extract: Extract, keys: _Keys, here: Mapping[str, str], relations: dict[tuple[str, str], _RelationDraft]
) -> None:
    """Add the relations of one extract between entities of it; pairs are unordered."""
    for relation in extract.relations:
        source, target = here.get(keys[relation.source]), here.get(keys[relation.target])
        if source is None or target is None or source == target:
            continue
        pair = (target, source) if (target, source) in relations else (source, target)
        found = relations.get(pair)
        if found is None:
            found = relations[pair] = _RelationDraft()
        found.texts.add(relation.description, extract, relation.importance)
        found.chunks.setdefault(extract.chunk_id)
        _count(found.methods, extract.method)
        if relation.type:
            _count(found.types, relation.type)


def _ids(keys: Iterable[str]) -> dict[str, str]:
    """Return an id for each key. If two keys collide, the alphabetically later one is salted."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for key in sorted(keys):
        id_, salt = content_id("e", key), 0
        while id_ in taken:
            salt += 1
            id_ = content_id("e", key, str(salt))
        taken.add(id_)
        ids[key] = id_
    return ids


# --- acronyms ------------------------------------------------------------------------------


def _acronyms(extracts: Sequence[Extract], keys: _Keys) -> dict[str, str]:
    """Map the key of an acronym to the key of its long form, where the corpus defines exactly one.

    Other aliases (a surname, a title without its bracketed remark) may mean another entity in another document.
    """
    longs: dict[str, set[str]] = {}
    for extract in extracts:
        for entity in extract.entities:
            if not entity.aliases:
                continue
            key = keys[entity.name]
            for alias in entity.aliases:
                short = keys[alias]
                if key and short != key and _is_acronym(alias, entity):
                    longs.setdefault(short, set()).add(key)
    single = {short: next(iter(found)) for short, found in longs.items() if len(found) == 1}
    return {short: long for short, long in single.items() if long not in single}


def _find_joined_names(extracts: Sequence[Extract], keys: _Keys) -> dict[str, str]:
    """Map the key of a name without spaces (*MeiLin*) to that of the same name with them, if the corpus has both."""
    found: dict[str, str] = {}
    spelled: set[str] = set()
    for name in dict.fromkeys(entity.name for extract in extracts for entity in extract.entities):
        if spaced := split_humps(name):
            found[keys[name]] = keys[spaced]
        elif name.istitle():
            spelled.add(keys[name])
    return {joined: spaced for joined, spaced in found.items() if spaced in spelled and joined != spaced}


def _is_acronym(alias: str, entity: ExtractedEntity) -> bool:
    """Whether ``alias`` is one word of capitals that the initials of the name or of another alias spell."""
    letters = [letter.lower() for letter in alias.removesuffix("s") if letter.isalpha()]
    if len(alias) not in _ACRONYM_LENGTHS or sum(letter.isupper() for letter in alias) < 2 or " " in alias:  # noqa: PLR2004
        return False
    for form in (entity.name, *entity.aliases):
        initials = [word[0].lower() for word in form.replace("-", " ").split() if word[:1].isalnum()]
        if form != alias and len(initials) > 1 and _spells(letters, initials):
            return True
    return False


def _spells(letters: Sequence[str], initials: Sequence[str]) -> bool:
    """Whether ``letters`` are the initials, up to half of which (those of small words) may be left out."""
    rest = iter(initials)
    return (
        letters[0] == initials[0]
        and len(initials) <= 2 * len(letters)
        and all(letter in rest for letter in letters)
    )


# --- noise ---------------------------------------------------------------------------------


def _without_noise(
    extracts: Sequence[Extract],
    keys: _Keys,
    canonical: _CanonicalKeys,
    entities: Mapping[str, _EntityDraft],
) -> list[str]:
    """Return the keys to keep, in order of first mention.

    A weak term (type ``term``, found by its shape alone) that only one chunk mentions connects nothing. It is dropped
    unless its chunk has no other entity. Entities from a model or an agent are always kept.
    """
    weak = {
        key for key, entity in entities.items() if key not in canonical.corrected.titles and _is_noise(entity)
    }
    for extract in extracts if weak else ():
        here = [
            canonical.find(key, extract.chunk_id) for entity in extract.entities if (key := keys[entity.name])
        ]
        if here and weak.issuperset(here):
            weak.difference_update(here)
    return [key for key in entities if key not in weak]


def _is_noise(entity: _EntityDraft) -> bool:
    return (
        # Chunks overlap: one sentence may be in two.
        (len(entity.chunks) == 1 or len(entity.texts.counts) == 1)
        and set(entity.methods) == {Method.HEURISTIC}
        and set(entity.types) == {Kind.TERM.value}
    )


def _without_idle(
    pairs: Sequence[tuple[str, str]], relations: Mapping[tuple[str, str], _RelationDraft]
) -> list[tuple[str, str]]:
    """Drop the pairs that the heuristic extractor states nothing about, but for one that alone connects an entity: the
    first in the order of ``pairs``."""
    idle = {
        pair
        for pair in pairs
        if not relations[pair].texts.counts and set(relations[pair].methods) == {Method.HEURISTIC}
    }
    connected = {end for pair in pairs if pair not in idle for end in pair}
    kept = []
    for pair in pairs:
        if pair not in idle or not connected.issuperset(pair):
            connected.update(pair)
            kept.append(pair)
    return kept


# --- descriptions --------------------------------------------------------------------------

_DEFINING = (
    " is ",
    " are ",
    " was ",
    " were ",
    " means ",
    " refers to ",
    ", a ",
    ", an ",
    ", the ",
    "是",
    "とは",
    "は",
)
_SIGNS = "\"'“‘ "


def _defines(text: str, names: Sequence[str]) -> int:
    """Score whether the text begins with one of ``names`` and defines it.

    2 for the first name, 1 for another, 0 for no definition, -1 for a question or a quotation.
    """
    opening = text.casefold().lstrip(_SIGNS)
    for article in ("the ", "an ", "a "):
        opening = opening.removeprefix(article)
    opening = opening.lstrip(_SIGNS)
    for rank, name in enumerate(names):
        if opening.startswith(name):
            rest = opening[len(name) :][:24]
            return (2 if rank == 0 else 1) if any(sign in rest for sign in _DEFINING) else 0
    return -1 if opening[-1:] == "?" or text[:1] in _SIGNS else 0


def select_fitting(found: Iterable[str], limit: int) -> list[str]:
    """Return the distinct sentences of ``found`` in order that fit into ``limit`` words, the first one always.

    A sentence is never cut; one that is too long for the remaining room is skipped.
    """
    chosen: dict[str, None] = {}
    left = limit
    for sentence in found:
        if left <= 0 and chosen:
            break
        if sentence not in chosen and ((words := word_count(sentence)) <= left or not chosen):
            chosen[sentence] = None
            left -= words
    return list(chosen)


def _is_complete(sentence: str) -> bool:
    """Whether a text ends as a sentence or a turn of a chat does."""
    return ends_sentence(sentence) or find_turn(sentence) is not None


def _split(text: str) -> list[str]:
    if find_turn(text):  # its sentences would lose their speaker
        return [text]
    return [text[start:end] for start, end in sentences(text)]
