"""Merge extracts into G0: one entity per name, one relation per pair, every mention counted.

A pure function of the extracts in reading order and of corrections. Two mentions are the same entity iff :func:`name_key` gives both the
same key, or one is an acronym that the corpus defines for the other and for nothing else, or one is the other without
spaces (*MeiLin*). A name that many may have (*King*, *John*) is one entity in two documents only if its contexts agree.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as AnyCollection
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Flags, Graph
from leanrag_engine.core.graphs.rows import compose_rows, find_same, select_rows
from leanrag_engine.core.model import (
    Attribute,
    Correction,
    CorrectionEffects,
    Entity,
    Evidence,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    ExtractState,
    Method,
    Relation,
    content_id,
)
from leanrag_engine.core.ports import Progress, ProgressReport, ignore_progress
from leanrag_engine.core.text.language.sentences import ends_sentence, find_turn, sentences
from leanrag_engine.core.text.language.words import word_count

from .correcting import NameCorrections
from .heuristic.names.mentions import Kind
from .mentions import MentionIndex, MentionTable, Numbers, count_rows, find_first, select_segments
from .namesakes import find_namesakes

T = TypeVar("T")

DESCRIPTION_WORDS = 120  # Limit of a merged description; prompts name it too. Set by reading

_VAGUE_TYPES = frozenset(["", "concept", "name", "term", "unknown", "other", "entity", "misc", "object"])
"""Types without information: any specific type wins the vote against them."""


@dataclass(frozen=True, slots=True)
class LongDescription:
    """The pairs of text and chunk id by models and agents of an item that exceed the limit, in reading order;
    of a relation by importance."""

    id: str
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ExtractSource:
    """All extracts in reading order, by their ``states``; ``read`` gives the contents of those at some places. The collection
    has so many ``documents``; if 0, all is taken for one."""

    states: Sequence[ExtractState]
    read: Callable[[Sequence[int]], Sequence[Extract]]
    documents: int

    @classmethod
    def of(cls, extracts: Sequence[Extract], documents: Mapping[str, str] | None = None) -> "ExtractSource":
        """Return extracts that are at hand; ``documents`` maps the ids of their chunks to those of their documents."""
        documents = documents or {}
        ids = [documents.get(each.chunk_id, "") for each in extracts]
        numbers = {id_: number for number, id_ in enumerate(dict.fromkeys(ids))}
        states = [
            ExtractState(numbers[id_], row, 0, 0, each.chunk_id, id_)
            for row, (each, id_) in enumerate(zip(extracts, ids, strict=True))
        ]
        return cls(states, lambda rows: [extracts[row] for row in rows], len(set(documents.values())))


@dataclass(frozen=True, slots=True, eq=False)
class PreviousMerge:
    """G0 of the previous build, and the index that it was merged with, if that was kept."""

    graph: Graph
    index: MentionIndex | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MergedGraph:
    """G0, and the index of its mentions."""

    graph: Graph
    index: MentionIndex

    def mark_described(self, graph: Graph) -> "MergedGraph":
        """Return this with ``graph``, which has other descriptions: these are not merged from statements alone."""
        if graph is self.graph:
            return self
        long, pair_long = self.index.long.copy(), self.index.pair_long.copy()
        entities = find_same(self.graph.entities, graph.entities) < 0
        relations = find_same(self.graph.relations, graph.relations) < 0
        long[self.index.select_kept_keys()[entities]] = True
        pair_long[np.flatnonzero(self.index.pair_kept)[relations]] = True
        return MergedGraph(graph, replace(self.index, long=long, pair_long=pair_long))


def merge_source(
    source: ExtractSource,
    *,
    report: ProgressReport = ignore_progress,
    overlong: Callable[[LongDescription], None] = lambda _: None,
    corrections: Sequence[Correction] = (),
    note_effects: Callable[[CorrectionEffects], None] = lambda _: None,
    previous: PreviousMerge | None = None,
) -> MergedGraph:
    """Build G0 from extracts in reading order (by document number, then chunk number) and ``corrections``.

    Entities are ordered by first mention and have no parent yet; relations are ordered by first statement. Ids depend
    on the names alone, but for names that several entities share. Linear in the number of extracted entities and relations.
    ``report`` is called for the stage ``merge`` a few times a second; an exception that it raises ends the work. ``overlong``
    is called for each description that would lose much of what models wrote; see :mod:`leanrag_engine.extraction.by_model.describe`.
    ``note_effects`` is called once with the corrections that had an effect and those that had none. What is the same as in
    the ``previous`` build is taken from it, as the same objects; the result is equal without it. With its index only those
    extracts are read that changed or mention an entity which did."""
    return _Merge(source, corrections, previous, report, overlong).run(note_effects)


def _report_each(items: Sequence[T], report: ProgressReport, what: str) -> Iterator[T]:
    """Yield the items and report progress every 2,000 of them, which takes a fraction of a second."""
    for done, item in enumerate(items):
        if done % 2000 == 0:
            report(Progress("merge", done, len(items), what))
        yield item


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


def _index_merged_texts(items: Iterable[Entity | Relation]) -> _MergedTexts:
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

    def report_if_overlong(self, id_: str, overlong: Callable[[LongDescription], None]) -> None:
        """Call ``overlong`` if joining the texts of models loses several sentences. Quotations never justify a model call."""
        texts = self.from_models() if len(self.counts) > 1 else ()
        if sum(map(word_count, texts)) > DESCRIPTION_WORDS * 4 // 3:  # not tuned
            overlong(LongDescription(id_, tuple((text, self.chunks[text]) for text in texts)))

    def merge(self, names: Sequence[str], known: _MergedTexts) -> _MergedText:
        """Merge the best descriptions within the limit; the method is that of the first. Those by models and
        agents come first, then heuristic sentences: definitions, then by frequency."""
        if not self.counts:
            return _MergedText()
        first = next(iter(self.counts))
        if len(self.counts) == 1 and word_count(first) <= DESCRIPTION_WORDS:
            return _MergedText(first, (Evidence(0, len(first), self.chunks[first]),), self.methods[first])
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
            key=lambda sentence: (
                not ends_sentence(sentence) and find_turn(sentence) is None,
                -_defines(sentence, keys),
                -found[sentence],
            ),
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
    """An entity of G0 while its mentions are added."""

    surfaces: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    texts: _Statements = field(default_factory=_Statements)
    chunks: dict[str, None] = field(default_factory=dict)
    methods: dict[Method, int] = field(default_factory=dict)
    attributes: dict[tuple[str, str], Attribute] | None = None
    """By name and value, without case; few entities have any."""

    @classmethod
    def of(cls, mentions: Iterable[tuple[ExtractedEntity, Extract]]) -> "_EntityDraft":
        draft = cls()
        for entity, extract in mentions:
            draft.add(entity, extract)
        return draft

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
        self, id_: str, overlong: Callable[[LongDescription], None], known: _MergedTexts, title: str = ""
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
    """A relation of G0 while its statements are added."""

    texts: _Statements = field(default_factory=_Statements)
    chunks: dict[str, None] = field(default_factory=dict)
    methods: dict[Method, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)

    def add(self, relation: ExtractedRelation, extract: Extract) -> None:
        self.texts.add(relation.description, extract, relation.importance)
        self.chunks.setdefault(extract.chunk_id)
        _count(self.methods, extract.method)
        if relation.type:
            _count(self.types, relation.type)

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


def _ids(keys: Mapping[str, int]) -> dict[int, str]:
    """Return an id for each key, by its number. If two keys collide, the alphabetically later one is salted."""
    ids: dict[int, str] = {}
    taken: set[str] = set()
    for key in sorted(keys):
        id_, salt = content_id("e", key), 0
        while id_ in taken:
            salt += 1
            id_ = content_id("e", key, str(salt))
        taken.add(id_)
        ids[keys[key]] = id_
    return ids


# --- the merge -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """The pairs of a merge in the order of their first statements, as in :class:`MentionIndex`. ``known`` are the places of
    their relations in the previous G0, −1 for those to make anew."""

    ends: Numbers
    firsts: Numbers
    idle: Flags
    long: Flags
    kept: Flags
    known: NDArray[np.intp]


class _Merge:
    """One merge. Entities go by the numbers of their keys, relations by pairs of these."""

    def __init__(
        self,
        source: ExtractSource,
        corrections: Sequence[Correction],
        previous: PreviousMerge | None,
        report: ProgressReport,
        overlong: Callable[[LongDescription], None],
    ) -> None:
        self._source = source
        self._report = report
        self._overlong = overlong
        self._before = previous.index if previous else None
        self._previous = previous.graph if previous else Graph((), ())
        total = len(source.states)

        def note(row: int) -> None:
            if row % 2000 == 0:
                report(Progress("merge", row, total, "extracts"))

        self._table = MentionTable.of(source.states, source.read, self._before, note)
        self._forms = self._table.map_acronyms() | self._table.map_joined_names()
        documents = {each.chunk_id: each.document_id for each in source.states} if corrections else {}
        self._corrected = NameCorrections.of(corrections, self._forms, documents)
        self._meanings = self._find_meanings()
        self._keys = self._table.words.keys
        self._weak = self._extend("weak")
        # Where each is told, row and place in an extract: what is told is put together one at a time, as the dictionaries of a
        # million drafts take 6 GB.
        self._drafts: dict[int, list[tuple[int, int]]] = {}
        self._pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def _extend(self, name: str) -> Flags:
        """Return flags of the index before, one for each key that there is now."""
        found = np.zeros(len(self._keys), dtype=bool)
        if self._before is not None:
            held: Flags = getattr(self._before, name)
            found[: len(held)] = held
        return found

    def run(self, note_effects: Callable[[CorrectionEffects], None]) -> MergedGraph:
        """Merge; see :func:`merge_source`."""
        note_effects(self._corrected.effects(self._forms))
        changed, moved = self._find_changed()
        self._draft(changed, changed, lambda pair: _touches(pair, changed, moved))
        for key in self._drafts:
            self._weak[key] = self._keys[key] not in self._corrected.titles and _is_noise(self._mentions(key))
        kept = self._find_kept()
        pairs = self._list_pairs(changed, moved, kept)
        # What was noise and is none any more.
        late = set(np.flatnonzero(kept & ~self._extend("kept")).tolist()).difference(self._drafts)
        new = pairs.ends[pairs.kept & (pairs.known < 0)].tolist()
        late_pairs = {(first, second) for first, second in new}.difference(self._pairs)
        if late or late_pairs:
            ends = late.union(first for first, _ in late_pairs)
            self._draft(ends, late, lambda pair: pair in late_pairs or pair[::-1] in late_pairs)
        return self._build(kept, pairs)

    # --- what mentions mean ----------------------------------------------------------------

    def _find_meanings(self) -> Numbers:
        """Return the number of the key of the entity that each mention means, −1 for blank names."""
        table, words = self._table, self._table.words
        name_keys = table.map_names(self._corrected.forms)
        found = name_keys[table.mentions]
        if self._corrected.has_rules:
            rows = count_rows(table.starts).tolist()
            for place, (row, name) in enumerate(zip(rows, table.mentions.tolist(), strict=True)):
                key = words.name_keys[name]
                if key >= 0:
                    target = self._corrected.find(words.keys[key], table.states[row].chunk_id)
                    found[place] = words.add_key(target)
        if not self._source.documents:
            return found
        namesakes = find_namesakes(table, name_keys, self._source.documents, self._corrected.merged)
        documents = np.array([each.document for each in table.states], dtype=np.int64)
        for (document, key), target in namesakes.items():
            places = select_segments(table.starts, np.flatnonzero(documents == document))
            found[places[found[places] == words.key_numbers[key]]] = words.add_key(target)
        return found

    # --- what changed ----------------------------------------------------------------------

    def _find_changed(self) -> tuple[set[int], set[int]]:
        """Return the entities to merge anew, and those of them that a mention in an extract which is the same means now and
        did not, or the other way round."""
        before, same, starts = self._before, self._table.same, self._table.starts
        if before is None:
            return set(np.unique(self._meanings[self._meanings >= 0]).tolist()), set()
        kept = np.flatnonzero(same >= 0)
        gone = np.ones(len(before.states), dtype=bool)
        gone[same[kept]] = False
        then = before.meanings[select_segments(before.starts, same[kept])]
        now = self._meanings[select_segments(starts, kept)]
        moved = np.concatenate((then[then != now], now[then != now]))
        numbers = self._table.words.key_numbers
        titles = {*before.titles.items()} ^ {*self._corrected.titles.items()}
        changed = np.zeros(len(self._keys) + 1, dtype=bool)
        for each in (
            moved,
            before.meanings[select_segments(before.starts, np.flatnonzero(gone))],
            self._meanings[select_segments(starts, np.flatnonzero(same < 0))],
            np.flatnonzero(before.long),
            before.pair_ends[before.pair_long].ravel(),
            np.array([numbers[key] for key, _ in titles if key in numbers], dtype=np.intp),
        ):
            changed[each] = True
        return set(np.flatnonzero(changed[:-1]).tolist()), set(moved[moved >= 0].tolist())

    def _find_kept(self) -> Flags:
        """Return which keys are entities of G0: not weak terms that only one chunk mentions, unless it has nothing else."""
        present = find_first(self._meanings, len(self._keys)) >= 0
        weak = self._weak & present
        rows = count_rows(self._table.starts)[self._meanings >= 0]
        meant = self._meanings[self._meanings >= 0]
        total = np.bincount(rows, minlength=len(self._table.states))
        alone = (total > 0) & (np.bincount(rows[weak[meant]], minlength=len(total)) == total)
        for row in np.flatnonzero(alone).tolist():
            here = self._meanings[self._table.starts[row] : self._table.starts[row + 1]]
            here = here[here >= 0]
            if weak[here].all():
                weak[here] = False
        return np.asarray(present & ~weak)

    def _list_pairs(self, changed: set[int], moved: set[int], kept: Flags) -> _Pairs:
        """Return all pairs: those of the index before that nothing touches, and those that were drafted."""
        ends = np.array([*self._pairs], dtype=np.int32).reshape(-1, 2)
        firsts = np.array([each[0] for each in self._pairs.values()], dtype=np.int32).reshape(-1, 2)
        idle = np.array([_is_idle(self._statements(pair)) for pair in self._pairs], dtype=bool)
        known = np.full(len(ends), -1, dtype=np.intp)
        before = self._before
        if before is not None:
            flags = np.zeros((2, len(self._keys)), dtype=bool)
            flags[0, [*changed]] = flags[1, [*moved]] = True
            left = ~(flags[0][before.pair_ends].all(axis=1) | flags[1][before.pair_ends].any(axis=1))
            rows = np.full(len(before.states), -1, dtype=np.int32)
            same = self._table.same
            rows[same[same >= 0]] = np.flatnonzero(same >= 0)
            old_firsts = before.pair_firsts[left].copy()
            old_firsts[:, 0] = rows[old_firsts[:, 0]]
            places = np.where(before.pair_kept, np.cumsum(before.pair_kept) - 1, -1)
            ends = np.concatenate((before.pair_ends[left], ends))
            firsts = np.concatenate((old_firsts, firsts))
            idle = np.concatenate((before.pair_idle[left], idle))
            known = np.concatenate((places[left], known))
        order = np.lexsort((firsts[:, 1], firsts[:, 0]))
        ends, firsts, idle, known = ends[order], firsts[order], idle[order], known[order]
        return _Pairs(
            ends, firsts, idle, np.zeros(len(ends), dtype=bool), _select_pairs(ends, idle, kept), known
        )

    # --- drafts ----------------------------------------------------------------------------

    def _draft(
        self,
        mentioned: AnyCollection[int],
        entities: Container[int],
        is_wanted: Callable[[tuple[int, int]], bool],
    ) -> None:
        """Note where ``entities`` and the wanted pairs are told, in all extracts that mention any of the given entities."""
        table, find_key = self._table, self._table.words.find_key
        marked = np.zeros(len(self._keys) + 1, dtype=bool)
        marked[[*mentioned]] = True
        rows = np.unique(count_rows(table.starts)[marked[self._meanings]]).tolist()
        table.load(rows)
        for row in _report_each(rows, self._report, "statements"):
            extract = table.fresh[row]
            meant = self._meanings[table.starts[row] : table.starts[row + 1]].tolist()
            here: dict[int, int] = {}
            for place, (entity, target) in enumerate(zip(extract.entities, meant, strict=True)):
                if target >= 0:
                    here[find_key(entity.name)] = target
                    if target in entities:
                        self._drafts.setdefault(target, []).append((row, place))
            for place, relation in enumerate(extract.relations):
                pair = here.get(find_key(relation.source), -1), here.get(find_key(relation.target), -1)
                if -1 in pair or pair[0] == pair[1] or not is_wanted(pair):
                    continue
                pair = pair[::-1] if pair[::-1] in self._pairs else pair
                self._pairs.setdefault(pair, []).append((row, place))

    def _mentions(self, key: int) -> Iterator[tuple[ExtractedEntity, Extract]]:
        extracts = self._table.fresh
        return ((extracts[row].entities[place], extracts[row]) for row, place in self._drafts[key])

    def _statements(self, pair: tuple[int, int]) -> Iterator[tuple[ExtractedRelation, Extract]]:
        extracts = self._table.fresh
        return ((extracts[row].relations[place], extracts[row]) for row, place in self._pairs[pair])

    # --- the result ------------------------------------------------------------------------

    def _build(self, kept: Flags, pairs: _Pairs) -> MergedGraph:
        """Return the graph of these entities and pairs, and the index of the next merge."""
        order = np.flatnonzero(kept)
        order = order[np.argsort(find_first(self._meanings, len(kept))[order])]
        places = np.full(len(kept), -1, dtype=np.intp)
        if self._before is not None:
            places[self._before.select_kept_keys()] = np.arange(len(self._previous.entities))
        ids, salted = self._find_ids(order.tolist(), places)
        old = _PreviousItems.of(self._previous, self._before, self._drafts, self._pairs, places)
        long = np.zeros(len(kept), dtype=bool)
        found_long: set[str] = set()

        def note(each: LongDescription) -> None:
            found_long.add(each.id)
            self._overlong(each)

        titles = self._corrected.titles
        drafted = np.zeros(len(kept), dtype=bool)
        drafted[[*self._drafts]] = True
        held = np.where(drafted[order], -1, places[order])
        entities: dict[int, Entity] = {}
        for number in _report_each(np.flatnonzero(held < 0).tolist(), self._report, "entities"):
            key = int(order[number])
            id_ = ids(key)
            draft = _EntityDraft.of(self._mentions(key))
            made = draft.build(id_, note, old.texts, titles.get(self._keys[key], ""))
            before = old.entity(key, id_)
            if before is not None and _differs_in_parents_alone(before, made):
                made = before
                held[number] = places[key]
            if held[number] < 0:
                entities[number] = made
            long[key] = id_ in found_long
        rows = np.flatnonzero(pairs.kept)
        known = pairs.known[rows]
        relations: dict[int, Relation] = {}
        for number in _report_each(np.flatnonzero(known < 0).tolist(), self._report, "relations"):
            row = rows[number]
            source, target = pairs.ends[row].tolist()
            stated = _RelationDraft()
            for statement in self._statements((source, target)):
                stated.add(*statement)
            place, relation = old.relation((source, target), (ids(source), ids(target)))
            made_relation = stated.build(ids(source), ids(target), note, old.texts, relation)
            if made_relation is relation:
                known[number] = place
            if known[number] < 0:
                relations[number] = made_relation
            pairs.long[row] = made_relation.id in found_long
        graph = Graph(
            compose_rows(self._previous.entities, held, entities),
            compose_rows(self._previous.relations, known, relations),
        )
        return MergedGraph(graph, self._make_index(kept, long, pairs, lost=salted))

    def _find_ids(self, keys: Sequence[int], places: NDArray[np.intp]) -> tuple[Callable[[int], str], bool]:
        """Return what gives the ids of entities by key, and whether one of them depends on another entity."""
        if self._before is None:
            ids = _ids({self._keys[key]: key for key in keys})
            return ids.__getitem__, any(id_ != content_id("e", self._keys[key]) for key, id_ in ids.items())
        held = self._previous.nodes.ids

        def find_id(key: int) -> str:
            return str(held[places[key]], "utf-8") if places[key] >= 0 else content_id("e", self._keys[key])

        return find_id, False

    def _make_index(self, kept: Flags, long: Flags, pairs: _Pairs, *, lost: bool) -> MentionIndex:
        """Return the index of this merge; if it is ``lost``, one that matches no extract."""
        table, words = self._table, self._table.words
        states = np.array([each[:4] for each in table.states], dtype=np.int64).reshape(-1, 4)
        if lost:
            states[:, 3] = -1
        return MentionIndex(
            names=words.names,
            keys=words.keys,
            name_keys=table.name_keys,
            traits=table.traits,
            chunk_ids=[each.chunk_id for each in table.states],
            states=states,
            starts=table.starts,
            mentions=table.mentions,
            works=table.works,
            articles=table.articles,
            meanings=self._meanings,
            acronyms=table.acronyms,
            titles=self._corrected.titles,
            weak=self._weak,
            kept=kept,
            long=long,
            pair_ends=pairs.ends,
            pair_firsts=pairs.firsts,
            pair_idle=pairs.idle,
            pair_kept=pairs.kept,
            pair_long=pairs.long,
        ).without_unused()


def _touches(pair: tuple[int, int], changed: Container[int], moved: Container[int]) -> bool:
    first, second = pair
    return (first in changed and second in changed) or first in moved or second in moved


def _select_pairs(ends: Numbers, idle: Flags, entities: Flags) -> Flags:
    """Return which pairs, in the order of their first statements, are relations of G0. Of ``idle`` ones,
    about which nothing is stated, only the first that alone connects an entity."""
    found: Flags = np.asarray(entities[ends].all(axis=1))
    connected = np.zeros(len(entities), dtype=bool)
    connected[ends[found & ~idle]] = True
    doubtful = np.flatnonzero(found & idle)
    found[doubtful] = False
    for row in doubtful[~connected[ends[doubtful]].all(axis=1)].tolist():
        if not connected[ends[row]].all():
            connected[ends[row]] = found[row] = True
    return found


def _is_noise(mentions: Iterable[tuple[ExtractedEntity, Extract]]) -> bool:
    chunks, texts = set[str](), set[str]()
    for entity, extract in mentions:
        if extract.method is not Method.HEURISTIC or entity.type.strip().lower() != Kind.TERM.value:
            return False
        chunks.add(extract.chunk_id)
        texts.add(" ".join(entity.description.split()))
    return len(chunks) == 1 or len(texts - {""}) == 1  # chunks overlap: one sentence may be in two


def _is_idle(statements: Iterable[tuple[ExtractedRelation, Extract]]) -> bool:
    """Return whether the heuristic extractor alone found a relation and states nothing about it."""
    return all(
        extract.method is Method.HEURISTIC and not relation.description.strip()
        for relation, extract in statements
    )


def _differs_in_parents_alone(old: Entity, made: Entity) -> bool:
    """Return whether the entity of the previous G0 differs in its parents at most."""
    alone = replace(old, parent_id=None, second_parent_id=None, responsibility=1.0, second_responsibility=0.0)
    return alone == made


@dataclass(frozen=True, slots=True, eq=False)
class _PreviousItems:
    """What the previous G0 has of what is merged anew, relations with their places (−1: unknown), and merged
    descriptions to use again."""

    texts: _MergedTexts
    entities: Mapping[int, Entity]
    pairs: Mapping[tuple[int, int], tuple[int, Relation]]
    entities_by_id: Mapping[str, Entity]
    relations_by_ends: Mapping[tuple[str, str], Relation]

    @classmethod
    def of(
        cls,
        graph: Graph,
        index: MentionIndex | None,
        entities: Iterable[int],
        pairs: Iterable[tuple[int, int]],
        places: NDArray[np.intp],
    ) -> "_PreviousItems":
        """With the ``index``, by the keys whose ``places`` in the graph are given; without it, by ids."""
        if index is None:
            by_id = {each.id: each for each in graph.entities}
            by_ends = {(each.source_id, each.target_id): each for each in graph.relations}
            return cls(_index_merged_texts(chain(graph.entities, graph.relations)), {}, {}, by_id, by_ends)
        keys = [key for key in entities if places[key] >= 0]
        held = dict(zip(keys, select_rows(graph.entities, places[keys].tolist()), strict=True))
        ends = index.pair_ends[index.pair_kept].astype(np.int64)
        wanted = np.array([*pairs], dtype=np.int64).reshape(-1, 2)
        total = len(places)
        found = np.flatnonzero(np.isin(ends @ (total, 1), wanted @ (total, 1))).tolist()
        relations = select_rows(graph.relations, found)
        stated = dict(zip(map(tuple, ends[found].tolist()), zip(found, relations, strict=True), strict=True))
        return cls(_index_merged_texts(chain(held.values(), relations)), held, stated, {}, {})

    def entity(self, key: int, id_: str) -> Entity | None:
        return self.entities.get(key) or self.entities_by_id.get(id_)

    def relation(self, pair: tuple[int, int], ends: tuple[str, str]) -> tuple[int, Relation | None]:
        """Return a relation with its place."""
        return self.pairs.get(pair) or (-1, self.relations_by_ends.get(ends))


# --- descriptions --------------------------------------------------------------------------

_DEFINING = re.compile(r" (?:is|are|was|were|means|refers to) |, (?:an?|the) |是|は")
_SIGNS = "\"'“‘ "


def _defines(text: str, names: Sequence[str]) -> int:
    """Score whether the text defines the first (2) or another (1) of ``names``, with which it begins; −1 for questions and quotations."""
    opening = text.casefold().lstrip(_SIGNS)
    for article in ("the ", "an ", "a "):
        opening = opening.removeprefix(article)
    opening = opening.lstrip(_SIGNS)
    for rank, name in enumerate(names):
        if opening.startswith(name):
            rest = opening[len(name) :][:24]
            return (2 if rank == 0 else 1) if _DEFINING.search(rest) else 0
    return -1 if opening[-1:] == "?" or text[:1] in _SIGNS else 0


def select_fitting(found: Iterable[str], limit: int) -> list[str]:
    """Return the distinct whole sentences of ``found`` in order that fit into ``limit`` words, the first one always."""
    chosen: dict[str, None] = {}
    left = limit
    for sentence in found:
        if left <= 0 and chosen:
            break
        if sentence not in chosen and ((words := word_count(sentence)) <= left or not chosen):
            chosen[sentence] = None
            left -= words
    return list(chosen)


def _split(text: str) -> list[str]:
    if find_turn(text):  # its sentences would lose their speaker
        return [text]
    return [text[start:end] for start, end in sentences(text)]
