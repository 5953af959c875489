"""Relations between clusters: one for every pair that a relation of the layer below joins (paper eq. 5).

One pass over the lower relations, O(m log m); comparing clusters pair by pair would be O(count²).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.language import sentences, whole_sentences
from leanrag_engine.model import Entity, Graph, Method, Relation, content_id

from .naming import listed, phrase_keys

CHARACTERS = 600
"""Bound on the text of one relation."""

_EXAMPLE = 280
_SHOWN = 3
_TRIED = 5

Labels = NDArray[np.intp]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Step:
    """One step up the hierarchy: ``labels[i]`` is the place, in the layer above, of the parent of
    ``lower.entities[i]``; ``base`` is G0, on whose relations those of ``lower`` rest, and ``base_labels``
    the places of its entities' ancestors there."""

    lower: Graph
    labels: Labels
    base: Graph
    base_labels: Labels


@dataclass(frozen=True, slots=True)
class Pairs:
    """Relations by the unordered pair of clusters that they join, pairs ordered by their ends.

    Pair ``p`` joins ``first[p] < second[p]`` through the relations ``order[starts[p]:starts[p + 1]]``,
    those with most support first.
    """

    first: Labels
    second: Labels
    order: Labels
    starts: Labels

    def relations_of(self, pair: int) -> list[int]:
        found: list[int] = self.order[self.starts[pair] : self.starts[pair + 1]].tolist()
        return found

    def totals(self, values: Counts) -> Counts:
        """The sum over each pair of ``values``, one for each relation."""
        return np.add.reduceat(values[self.order], self.starts[:-1]) if len(self.first) else values[:0]


def relation_ends(graph: Graph) -> Labels:
    """The places in ``graph.entities`` of each relation's source and target, (m, 2)."""
    place = {entity.id: number for number, entity in enumerate(graph.entities)}
    ends = [(place[relation.source_id], place[relation.target_id]) for relation in graph.relations]
    return np.array(ends, dtype=np.intp).reshape(-1, 2)


def id_ranks(graph: Graph) -> Labels:
    """The places of the relations' ids in sorted order, (m,): what breaks ties, whatever their order."""
    order = sorted(range(len(graph.relations)), key=lambda number: graph.relations[number].id)
    ranks = np.empty(len(order), dtype=np.intp)
    ranks[order] = np.arange(len(order))
    return ranks


def pair_up(graph: Graph, parents: Labels) -> Pairs:
    """Group the relations of ``graph`` by the pair of clusters, ``parents`` (m, 2), at their ends.

    Relations within one cluster belong to no pair.
    """
    supports, weights = _supports(graph), _weights(graph)
    joining = np.flatnonzero(parents[:, 0] != parents[:, 1])
    first, second = parents.min(axis=1)[joining], parents.max(axis=1)[joining]
    order = np.lexsort((id_ranks(graph)[joining], -weights[joining], -supports[joining], second, first))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    starts = np.flatnonzero(new)
    heads = order[starts]
    return Pairs(first[heads], second[heads], joining[order], np.append(starts, len(order)))


def inter_cluster_relations(step: Step, upper: Sequence[Entity], *, tau: int) -> tuple[Relation, ...]:
    """A relation for each pair of clusters with λ > 0, in the order of its ends in ``upper``.

    λ > ``tau``: one text on all the relations beneath; else their own texts, joined. The source is the
    cluster that most of them start from.
    """
    parents = step.labels[relation_ends(step.lower)]
    pairs = pair_up(step.lower, parents)
    beneath = pairs
    if step.base is not step.lower:
        beneath = pair_up(step.base, step.base_labels[relation_ends(step.base)])
    strengths = np.diff(pairs.starts)
    forward = pairs.totals((parents[:, 0] < parents[:, 1]).astype(np.int64))
    turned = 2 * forward < strengths
    texts = _Texts(step, parents)
    totals = zip(
        np.where(turned, pairs.second, pairs.first).tolist(),
        np.where(turned, pairs.first, pairs.second).tolist(),
        strengths.tolist(),
        pairs.totals(_supports(step.lower)).tolist(),
        pairs.totals(_weights(step.lower)).tolist(),
        strict=True,
    )
    found = []
    for pair, (source, target, strength, support, weight) in enumerate(totals):
        numbers = pairs.relations_of(pair)
        if strength > tau:
            text, method = texts.summary(source, numbers, beneath.relations_of(pair)), Method.HEURISTIC
        else:
            text, method = texts.joined(numbers), Method.JOINED
        ends = (upper[source], upper[target])
        found.append(_relation(ends, text, method, strength=strength, support=support, weight=weight))
    return tuple(found)


def _relation(
    ends: tuple[Entity, Entity], text: str, method: Method, *, strength: int, support: int, weight: int
) -> Relation:
    source, target = ends
    return Relation(
        id=content_id("r", str(source.layer), *sorted((source.id, target.id))),
        source_id=source.id,
        target_id=target.id,
        layer=source.layer,
        description=text,
        method=method,
        strength=strength,
        weight=weight,
        support=support,
    )


def _supports(graph: Graph) -> Counts:
    return np.array([relation.support for relation in graph.relations], dtype=np.int64)


def _weights(graph: Graph) -> Counts:
    return np.array([relation.weight for relation in graph.relations], dtype=np.int64)


# --- texts ---------------------------------------------------------------------------------


class _Texts:
    """What the relations between two clusters say."""

    def __init__(self, step: Step, parents: Labels) -> None:
        self._lower = step.lower.relations
        self._base = step.base.relations
        self._sources: list[int] = parents[:, 0].tolist()
        self._names = {entity.id: _shown(entity) for entity in step.lower.entities}
        self._base_names = {entity.id: entity.name for entity in step.base.entities}

    def summary(self, source: int, numbers: Sequence[int], base_numbers: Sequence[int]) -> str:
        """How many relations, which are the strongest, and what the best attested base relation says."""
        others: dict[str, list[str]] = {}
        for number in numbers[:_SHOWN]:
            near, far = self._ends(number)
            if self._sources[number] != source:
                near, far = far, near
            others.setdefault(near, []).append(far)
        links = [f"{near} with {listed(far)}" for near, far in others.items()]
        lead = f"Joined by {len(numbers)} relations, above all {'; '.join(links)}."
        return f"{lead} {self._example(base_numbers[:_TRIED])}".rstrip()

    def joined(self, numbers: Sequence[int]) -> str:
        """The texts beneath, the strongest first, as many as the bound allows, no sentence twice.

        One sentence often states several relations, so that their texts are alike.
        """
        text = self._text(numbers[0])
        for number in numbers[1:]:
            fresh = " ".join(one for one in _sentences(self._text(number)) if one not in text)
            if fresh and len(text) + 1 + len(fresh) <= CHARACTERS:
                text = f"{text} {fresh}"
        return text

    def _example(self, base_numbers: Iterable[int]) -> str:
        """A sentence that names both ends, else the first short one, else nothing."""
        first = ""
        for number in base_numbers:
            relation = self._base[number]
            ends = [phrase_keys(self._base_names[end]) for end in (relation.source_id, relation.target_id)]
            for sentence in _sentences(relation.description):
                if len(sentence) <= _EXAMPLE:
                    first = first or sentence
                    present = phrase_keys(sentence)
                    if all(keys & present for keys in ends):
                        return sentence
        return first

    def _text(self, number: int) -> str:
        near, far = self._ends(number)
        relation = self._lower[number]
        prefix = f"{near} – {far}: " if relation.layer else ""
        said = " ".join(whole_sentences(relation.description, CHARACTERS - len(prefix) - 1, len).split())
        return ended(f"{prefix}{said}" if said else f"{near} – {far}")

    def _ends(self, number: int) -> tuple[str, str]:
        relation = self._lower[number]
        return self._names[relation.source_id], self._names[relation.target_id]


def _shown(entity: Entity) -> str:
    return f"“{entity.name}”" if entity.layer else entity.name


def _sentences(text: str) -> list[str]:
    return [ended(" ".join(text[start:end].split())) for start, end in sentences(text)]


def ended(text: str) -> str:
    """With a full stop, unless it ends with a mark of its own."""
    bare = text.rstrip("\"'”’»)]} ")
    return text if bare and bare[-1] in ".!?…:;。！？：；" else f"{text}."
