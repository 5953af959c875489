"""Make the aggregated entity of a cluster without a model (paper eq. 4): all of its text is quoted from beneath."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Flags, Weights
from leanrag_engine.core.graphs.rows import decode_ids, read_rows, select_rows
from leanrag_engine.core.model import Entity, Finding, Method, Relation, Vectors, content_id
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.sentences import PieceKind, is_statement
from leanrag_engine.core.text.language.words import content_words, word_count
from leanrag_engine.core.vectors import unit_rows

from .clustering.balancing import cluster_means
from .relations import LayerStep, sort_by_id
from .texts.attribution import Quote, end_sentence, is_whole, join_quotes, quotes_of
from .texts.naming import CODE, ClusterPhrases, NameKeys, NameRegister, PhraseTable, choose_name, rank_phrases
from .texts.sentences import is_speech, score_sentence, stands_alone


@dataclass(frozen=True, slots=True)
class SummaryOptions:
    """Dials of heuristic summaries. No recorded measurement fixed any of them: set by reading."""

    words: int = 90  # Most words of a description
    findings: int = 5  # Most findings (paper, appendix D.1)
    tried: int = 12  # Central members, and best attested relations, whose sentences are candidates
    sentences: int = 2  # Sentences taken from one member or relation
    shortest: int = 6  # Words of the shortest sentence that is quoted
    longest: int = 60  # Words of the longest sentence that is quoted
    phrases: int = 60  # Phrases of a cluster that count for the score of a sentence
    fading: float = 0.8  # Factor of a member's second, third, … finding
    worthwhile: float = 0.3  # Share of the best sentence's score below which one is left out
    repeated: float = 0.65  # Share of the shorter one's words from which on two sentences are repetitions


DEFAULT = SummaryOptions()


@dataclass(frozen=True, slots=True)
class _ClusterMembers:
    """One cluster: its id, the number of members and of base entities beneath. Of one that gets a text also its members, the most
    central first, with how central each is, and the relations among them, the best attested first."""

    id: str
    size: int
    beneath: int
    members: Sequence[Entity]
    centrality: Sequence[float]
    relations: Sequence[Relation]


@dataclass(frozen=True, slots=True)
class _CandidateSentence:
    """A sentence, the member that it comes from, what it is about, and how much it says."""

    owner: str
    subject: str
    quote: Quote
    whole: bool
    score: float

    @property
    def text(self) -> str:
        return self.quote.text

    @property
    def finding(self) -> Finding:
        return Finding(self.subject, self.text, (self.quote.chunk_id,) if self.quote.chunk_id else ())


def aggregate(
    step: LayerStep,
    vectors: Vectors,
    terms: PhraseTable,
    taken: NameKeys,
    *,
    kind: str,
    kept: Mapping[int, Entity] = MappingProxyType({}),
    unchanged: Flags | None = None,
) -> Iterator[Entity]:
    """Yield one aggregated entity for each cluster 0, 1, … of ``step.labels``. ``vectors`` (n, d) are those of ``step.lower.entities``.
    No name is like another one or like any in ``taken`` (name keys), to which the new ones are added. Each sentence names the chunk
    that says it. The clusters of ``kept`` have the texts of these entities; ``unchanged`` ones, whose names are taken, are left out."""
    count = int(step.labels.max()) + 1
    groups = _groups(step, vectors, unchanged, kept)
    for entity in kept.values():
        taken.add(name_key(entity.name))
    names = NameRegister(taken)
    ranked = rank_phrases(terms, step.base_labels, _hubs(step), count)
    layer = step.lower.entities[0].layer + 1
    for number, group in groups.items():
        found = ranked[number]
        if number in kept:
            yield replace(
                kept[number],
                id=group.id,
                type=kind,
                layer=layer,
                parent_id=None,
                second_parent_id=None,
                mentions=group.beneath,
                members=group.size,
            )
            continue
        name = choose_name(
            terms, found, [member.name for member in group.members], names, _find_identifiers(group.members)
        )
        names.add(name)
        chosen = _central_sentences(group, _phrase_weights(terms, found))
        description, evidence = join_quotes(_summary(chosen))
        yield Entity(
            id=group.id,
            name=name,
            type=kind,
            layer=layer,
            description=description,
            method=Method.HEURISTIC,
            mentions=group.beneath,
            members=group.size,
            findings=tuple(candidate.finding for candidate in chosen),
            evidence=evidence,
        )


def _find_identifiers(members: Sequence[Entity]) -> frozenset[str]:
    """Return the keys of the names that are identifiers, unless half the members are such."""
    codes = frozenset(
        name_key(member.name) for member in members if member.type == CODE and " " not in member.name
    )
    return codes if 2 * len(codes) < len(members) else frozenset()


# --- members -------------------------------------------------------------------------------


def _groups(
    step: LayerStep, vectors: Vectors, unchanged: Flags | None, kept: Collection[int]
) -> dict[int, _ClusterMembers]:
    """Return the clusters but the ``unchanged`` ones. Those of ``kept`` need no texts: nothing of their members is read."""
    count = int(step.labels.max()) + 1
    numbers = [*range(count)] if unchanged is None else np.flatnonzero(~unchanged).tolist()
    due = np.zeros(count, dtype=bool)
    due[numbers] = True
    due[[*kept]] = False
    ends = step.lower.ends
    near, far = step.labels[ends[:, 0]], step.labels[ends[:, 1]]
    inside = np.flatnonzero((near == far) & due[near])
    central = _centrality(step, vectors, ends[inside], np.flatnonzero(due[step.labels]))
    order = np.lexsort((np.arange(len(central)), -central, step.labels))
    members = np.split(order, np.cumsum(np.bincount(step.labels, minlength=count))[:-1])
    inside = sort_by_id(step.lower, inside)
    by_weight = inside[np.lexsort((-step.lower.edges.weights[inside], near[inside]))]
    relations = np.split(by_weight, np.cumsum(np.bincount(near[inside], minlength=count))[:-1])
    beneath = np.bincount(step.base_labels, minlength=count)
    read_rows(step.lower.entities, np.flatnonzero(due[step.labels]).tolist())
    read_rows(step.lower.relations, inside.tolist())
    ids, layer = step.lower.nodes.ids, str(step.lower.entities[0].layer + 1)
    found = {}
    for number in numbers:
        rows = members[number]
        found[number] = _ClusterMembers(
            content_id("c", layer, *sorted(decode_ids(ids[rows]))),
            len(rows),
            int(beneath[number]),
            select_rows(step.lower.entities, rows.tolist()) if due[number] else (),
            central[rows].tolist(),
            select_rows(step.lower.relations, relations[number].tolist()),
        )
    return found


def _hubs(step: LayerStep) -> Weights:
    """Return for each base entity how many of its cluster it is related to, (n,), as a share of the most (logarithms)."""
    ends = step.base.ends
    inner = ends[step.base_labels[ends[:, 0]] == step.base_labels[ends[:, 1]]]
    return _share_of_best(np.bincount(inner.ravel(), minlength=len(step.base_labels)), step.base_labels)


def _centrality(
    step: LayerStep, vectors: Vectors, inner_ends: NDArray[np.intp], rows: NDArray[np.intp]
) -> Weights:
    """Return the centrality of lower entities in their clusters, (n,), 0 but for ``rows``, which are whole clusters: nearness to
    the mean, relations to other members and mentions, each at most 1, the last two as logarithms at half weight."""
    labels, chosen = step.labels[rows], vectors[rows]
    means = unit_rows(cluster_means(chosen, labels, int(step.labels.max()) + 1))
    degrees = np.bincount(inner_ends.ravel(), minlength=len(vectors))[rows]
    mentions = step.lower.nodes.mentions[rows]
    central = np.zeros(len(vectors))
    for start in range(0, len(rows), 4096):  # not the means of all rows at once
        part = slice(start, start + 4096)
        central[rows[part]] = np.einsum("ij,ij->i", chosen[part], means[labels[part]])
    central[rows] += 0.5 * (_share_of_best(degrees, labels) + _share_of_best(mentions, labels))
    return central


def _share_of_best(values: NDArray[np.intp], labels: NDArray[np.intp]) -> Weights:
    """Return log(1 + value) relative to the highest of the cluster."""
    logs = np.log1p(values.astype(np.float64))
    best = np.zeros(int(labels.max(initial=-1)) + 1)
    np.maximum.at(best, labels, logs)
    return np.asarray(logs / np.where(best > 0, best, 1.0)[labels])


# --- texts ---------------------------------------------------------------------------------


def _summary(chosen: Sequence[_CandidateSentence]) -> list[Quote]:
    """Return the best sentences within the bound on words."""
    left = DEFAULT.words
    quotes = []
    for candidate in chosen:
        left -= word_count(candidate.text)
        if left < 0 or candidate.score < DEFAULT.worthwhile * chosen[0].score:
            break
        quotes.append(candidate.quote)
    return quotes


def _phrase_weights(terms: PhraseTable, found: ClusterPhrases) -> dict[str, float]:
    best = found.scores[0] if len(found.scores) else 1.0
    pairs = zip(
        found.columns[: DEFAULT.phrases].tolist(), found.scores[: DEFAULT.phrases].tolist(), strict=True
    )
    return {terms.keys[column]: score / best for column, score in pairs}


def _central_sentences(group: _ClusterMembers, weights: dict[str, float]) -> list[_CandidateSentence]:
    """Return the best sentences first, without repetitions, from as many members as possible."""
    candidates = sorted(_candidates(group, weights), key=lambda candidate: -candidate.score)
    candidates = [each for each in candidates if each.whole]
    # Questions and direct speech are quoted only where there is at most one statement.
    statements = [each for each in candidates if not is_speech(each.text)]
    candidates = statements if len(statements) > 1 else candidates
    chosen: list[_CandidateSentence] = []
    contents: list[frozenset[str]] = []
    for again in (False, True):
        owners: set[str] = {candidate.owner for candidate in chosen} if not again else set()
        for candidate in candidates:
            if len(chosen) == DEFAULT.findings:
                return chosen
            if candidate.owner in owners:
                continue
            content = content_words(candidate.text)
            if all(
                len(content & other) < DEFAULT.repeated * min(len(content), len(other)) for other in contents
            ):
                chosen.append(candidate)
                contents.append(content)
                owners |= set() if again else {candidate.owner}
    return chosen


def _candidates(group: _ClusterMembers, weights: dict[str, float]) -> Iterator[_CandidateSentence]:
    central = list(zip(group.members, group.centrality, strict=True))
    for member, centrality in central[: DEFAULT.tried]:
        for rank, finding in enumerate(member.findings):
            quote = Quote(finding.explanation, finding.chunk_ids[0] if finding.chunk_ids else "")
            score = score_sentence(quote.text, finding.summary, weights, centrality)
            score *= DEFAULT.fading**rank
            yield _CandidateSentence(member.id, finding.summary, quote, is_whole(quote.text), score)
        for quote, whole in _usable(member) if not member.layer else ():
            score = score_sentence(quote.text, member.name, weights, centrality)
            yield _CandidateSentence(member.id, member.name, quote, whole, score)
    names = {member.id: member.name for member in group.members}
    centralities = {member.id: centrality for member, centrality in central}
    for relation in group.relations[: DEFAULT.tried] if not group.members[0].layer else ():
        source, target = relation.source_id, relation.target_id
        centrality = max(centralities[source], centralities[target])
        for quote, whole in _usable(relation):
            subject = f"{names[source]} – {names[target]}"
            score = score_sentence(quote.text, subject, weights, centrality)
            yield _CandidateSentence(source, subject, quote, whole, score)


def _usable(item: Entity | Relation) -> list[tuple[Quote, bool]]:
    """Return the first sentences that are prose, not long and self-contained, with whether they are whole."""
    found = []
    for kind, quote in quotes_of(item):
        if kind is not PieceKind.PROSE or not DEFAULT.shortest <= word_count(quote.text) <= DEFAULT.longest:
            continue
        if stands_alone(quote.text) and is_statement(quote.text):
            found.append((replace(quote, text=end_sentence(quote.text)), is_whole(quote.text)))
        if len(found) == DEFAULT.sentences:
            break
    return found
