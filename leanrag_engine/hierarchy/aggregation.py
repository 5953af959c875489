"""The aggregated entity that stands for a cluster, made without a model (paper eq. 4).

Everything in it is taken from what lies beneath: the name from the phrases that tell the cluster from
its siblings, the description and the findings from whole sentences of its members and their relations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.language import STOPWORDS, PieceKind, name_key, pieces, word_count, words
from leanrag_engine.model import Entity, Finding, Method, Relation, Vectors, content_id

from .balancing import cluster_means
from .naming import BRACKETS, Salience, Terms, choose_name, listed, phrase_keys, salience
from .relations import Step, ended, id_ranks, relation_ends

WORDS = 90
"""Bound on the words of a description."""

FINDINGS = 5

_NAMED = 3
_TRIED = 12
_SENTENCES = 2
_LONGEST = 45
_SHORTEST = 5
_PHRASES = 60
_FADING = 0.8
_REPEATED = 0.65
"""Two sentences that share this much of the shorter one's words say the same."""

_OPENERS = (
    "he she it they we you i his her its their this that these those such here there and but or so then however"
    " therefore thus also another both additionally furthermore moreover similarly instead otherwise see"
)
_LEANING = frozenset(_OPENERS.split())
_OWNING = frozenset(("his", "her", "its", "their", "him", "them"))
"""A sentence that opens so leans on the one before it."""

Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Group:
    """One cluster: its members, the most central first, with how central each is; the relations among
    them, the best attested first; and the number of base entities beneath."""

    members: Sequence[Entity]
    centrality: Sequence[float]
    relations: Sequence[Relation]
    beneath: int


@dataclass(frozen=True, slots=True)
class _Quote:
    """A sentence, the member that it comes from, what it is about, and how much it says."""

    owner: str
    subject: str
    text: str
    score: float


def aggregate(step: Step, vectors: Vectors, terms: Terms, taken: set[str], *, kind: str) -> Iterator[Entity]:
    """Yield one aggregated entity for each cluster 0, 1, … of ``step.labels``.

    ``vectors`` (n, d) are those of ``step.lower.entities``. No name is like another one or like any in
    ``taken`` (name keys), to which the new ones are added.
    """
    groups = _groups(step, vectors)
    for group, found in zip(groups, salience(terms, step.base_labels, len(groups)), strict=True):
        name = choose_name(terms, found, [member.name for member in group.members], taken)
        taken.add(name_key(name))
        quotes = _central_sentences(group, _phrase_weights(terms, found))
        yield Entity(
            id=_id(group.members),
            name=name,
            type=kind,
            layer=group.members[0].layer + 1,
            description=_description(group, quotes),
            method=Method.HEURISTIC,
            mentions=group.beneath,
            members=len(group.members),
            findings=tuple(Finding(quote.subject, quote.text) for quote in quotes),
        )


def _id(members: Sequence[Entity]) -> str:
    return content_id("c", str(members[0].layer + 1), *sorted(member.id for member in members))


# --- members -------------------------------------------------------------------------------


def _groups(step: Step, vectors: Vectors) -> list[_Group]:
    count = int(step.labels.max()) + 1
    ends = relation_ends(step.lower)
    near, far = step.labels[ends[:, 0]], step.labels[ends[:, 1]]
    inside = np.flatnonzero(near == far)
    central = _centrality(step, vectors, ends[inside])
    order = np.lexsort((np.arange(len(central)), -central, step.labels))
    members = np.split(order, np.cumsum(np.bincount(step.labels, minlength=count))[:-1])
    weights = np.array([step.lower.relations[number].weight for number in inside.tolist()], dtype=np.int64)
    by_weight = inside[np.lexsort((id_ranks(step.lower)[inside], -weights, near[inside]))]
    relations = np.split(by_weight, np.cumsum(np.bincount(near[inside], minlength=count))[:-1])
    beneath = np.bincount(step.base_labels, minlength=count)
    return [
        _Group(
            [step.lower.entities[row] for row in rows.tolist()],
            central[rows].tolist(),
            [step.lower.relations[number] for number in numbers.tolist()],
            int(total),
        )
        for rows, numbers, total in zip(members, relations, beneath, strict=True)
    ]


def _centrality(step: Step, vectors: Vectors, inner_ends: NDArray[np.intp]) -> Weights:
    """How much each lower entity stands for its cluster, (n,): nearness to the mean, relations to other
    members, mentions; each at most 1, the last two as logarithms and at half weight."""
    count = int(step.labels.max()) + 1
    means = cluster_means(vectors.astype(np.float64), step.labels, count)
    lengths = np.linalg.norm(means, axis=1)
    directions = means / np.where(lengths > 0, lengths, 1.0)[:, None]
    nearness = np.einsum("ij,ij->i", vectors, directions[step.labels])
    degrees = np.bincount(inner_ends.ravel(), minlength=len(vectors))
    mentions = np.array([entity.mentions for entity in step.lower.entities])
    nearness += 0.5 * (_share_of_best(degrees, step.labels) + _share_of_best(mentions, step.labels))
    return np.asarray(nearness)


def _share_of_best(values: NDArray[np.intp], labels: NDArray[np.intp]) -> Weights:
    """log(1 + value) over the highest one of the cluster."""
    logs = np.log1p(values.astype(np.float64))
    best = np.zeros(int(labels.max()) + 1)
    np.maximum.at(best, labels, logs)
    return np.asarray(logs / np.where(best > 0, best, 1.0)[labels])


# --- texts ---------------------------------------------------------------------------------


def _description(group: _Group, quotes: Iterable[_Quote]) -> str:
    """What the cluster holds, then its most telling sentences, within the bound."""
    text = _lead(group)
    for quote in quotes:
        longer = f"{text} {quote.text}"
        if word_count(longer) > WORDS:
            break
        text = longer
    return text


def _lead(group: _Group) -> str:
    """The most central members by name, no two of them alike, and how many there are."""
    above_base = group.members[0].layer > 0
    shown = group.members if len(group.members) <= _NAMED + 1 else _unlike(group.members)[:_NAMED]
    names = [f"“{member.name}”" if above_base else member.name for member in shown]
    others = len(group.members) - len(shown)
    text = listed([*names, f"{others} more"] if others else names)
    return f"{text} ({group.beneath} entities)." if above_base else f"{text}."


def _unlike(members: Sequence[Entity]) -> list[Entity]:
    """Those first whose names share no word with an earlier one, then the others."""
    seen: set[str] = set()
    first: list[Entity] = []
    later: list[Entity] = []
    for member in members:
        content = set(words(member.name)) - STOPWORDS
        (later if content & seen else first).append(member)
        seen |= content
    return first + later


def _phrase_weights(terms: Terms, found: Salience) -> dict[str, float]:
    best = found.scores[0] if len(found.scores) else 1.0
    pairs = zip(found.columns[:_PHRASES].tolist(), found.scores[:_PHRASES].tolist(), strict=True)
    return {terms.keys[column]: score / best for column, score in pairs}


def _central_sentences(group: _Group, weights: dict[str, float]) -> list[_Quote]:
    """The best sentences first, none of which repeats another, from as many members as possible."""
    quotes = sorted(_quotes(group, weights), key=lambda quote: -quote.score)
    chosen: list[_Quote] = []
    said: list[set[str]] = []
    for again in (False, True):
        owners: set[str] = {quote.owner for quote in chosen} if not again else set()
        for quote in quotes:
            content = set(words(quote.text)) - STOPWORDS
            fresh = all(len(content & other) < _REPEATED * min(len(content), len(other)) for other in said)
            if fresh and quote.owner not in owners and len(chosen) < FINDINGS:
                chosen.append(quote)
                said.append(content)
                owners |= set() if again else {quote.owner}
    return chosen


def _quotes(group: _Group, weights: dict[str, float]) -> Iterator[_Quote]:
    central = list(zip(group.members, group.centrality, strict=True))
    for member, centrality in central[:_TRIED]:
        for rank, finding in enumerate(member.findings):
            score = _telling(finding.explanation, weights, centrality) * _FADING**rank
            yield _Quote(member.id, finding.summary, finding.explanation, score)
        for text in _usable_sentences(member.description) if not member.layer else ():
            yield _Quote(member.id, member.name, text, _telling(text, weights, centrality))
    names = {member.id: member.name for member in group.members}
    centralities = {member.id: centrality for member, centrality in central}
    for relation in group.relations[:_TRIED] if not group.members[0].layer else ():
        source, target = relation.source_id, relation.target_id
        centrality = max(centralities[source], centralities[target])
        for text in _usable_sentences(relation.description):
            subject = f"{names[source]} – {names[target]}"
            yield _Quote(source, subject, text, _telling(text, weights, centrality))


def _usable_sentences(text: str) -> list[str]:
    """The first sentences that are prose, neither long nor cut short, and stand on their own."""
    found = []
    for piece in pieces(text):
        sentence = " ".join(text[piece.start : piece.end].split())
        size = word_count(sentence)
        if piece.kind is PieceKind.PROSE and not _leans(sentence) and _SHORTEST <= size <= _LONGEST:
            found.append(ended(sentence))
        if len(found) == _SENTENCES:
            break
    return found


def _leans(sentence: str) -> bool:
    """Whether a sentence needs what stands before or after it."""
    unclosed = any(sentence.count(opening) != sentence.count(closing) for opening, closing in BRACKETS)
    quoted = sentence.count('"') % 2
    if unclosed or quoted or "|" in sentence or sentence.endswith(":") or sentence[0] in "([{":
        return True
    opening = [word.strip("\"'“‘(,").lower() for word in sentence.split(maxsplit=4)[:4]]
    return opening[0] in _LEANING or not _OWNING.isdisjoint(opening)


def _telling(text: str, weights: dict[str, float], centrality: float) -> float:
    """The distinguishing phrases in a sentence, for its length, times the centrality of what it is about."""
    present = {key for key in phrase_keys(text) if key in weights}
    return centrality * sum(weights[key] for key in sorted(present)) / (10 + word_count(text))
