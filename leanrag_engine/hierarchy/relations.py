"""Make the relations between clusters: one per pair that a relation of the layer below joins (paper eq. 5), O(m log m)."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import EntityColumns, Flags, Graph
from leanrag_engine.core.graphs.rows import compose_rows, decode_ids, look_up, read_rows, select_rows
from leanrag_engine.core.model import METHODS, Entity, Evidence, Method, Relation, content_id
from leanrag_engine.core.text.language.names import name_key, without_remark
from leanrag_engine.core.text.language.sentences import find_turn, is_statement
from leanrag_engine.core.text.shortening import shorten

from .clustering.balancing import Labels
from .texts.attribution import Quote, end_sentence, join_quotes, quotes_of
from .texts.naming import phrase_keys
from .texts.sentences import stands_alone

_METHODS = list(METHODS.values())

CHARACTERS = 600  # Bound on the text of one relation

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LayerStep:
    """One step up the hierarchy: ``labels[i]`` is the place, in the layer above, of the parent of ``lower.entities[i]``; ``base``
    is G0, on whose relations those of ``lower`` rest, and ``base_labels`` the places of its entities' ancestors there."""

    lower: Graph
    labels: Labels
    base: Graph
    base_labels: Labels


@dataclass(frozen=True, slots=True)
class ClusterPairs:
    """Relations by the unordered pair of clusters that they join. Pair ``p`` joins ``first[p] < second[p]``
    through ``order[starts[p]:starts[p + 1]]``, those with most support first."""

    first: Labels
    second: Labels
    order: Labels
    starts: Labels

    def relations_of(self, pair: int) -> list[int]:
        found: list[int] = self.order[self.starts[pair] : self.starts[pair + 1]].tolist()
        return found

    def totals(self, values: Counts) -> Counts:
        """Return the sums over each pair of ``values``, one value per relation."""
        return np.add.reduceat(values[self.order], self.starts[:-1]) if len(self.first) else values[:0]


def pair_up(graph: Graph, parents: Labels) -> ClusterPairs:
    """Group the relations of ``graph`` by the pair of clusters, ``parents`` (m, 2), at their ends. Those
    within one cluster belong to no pair; equal support and weight: by id."""
    supports, weights = graph.edges.supports, graph.edges.weights
    joining = sort_by_id(graph, np.flatnonzero(parents[:, 0] != parents[:, 1]))
    first, second = parents.min(axis=1)[joining], parents.max(axis=1)[joining]
    pairs = first * (int(second.max(initial=0)) + 1) + second
    order = np.lexsort((-weights[joining], -supports[joining], pairs))
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.diff(pairs[order]) != 0
    starts = np.flatnonzero(new)
    heads = order[starts]
    return ClusterPairs(first[heads], second[heads], joining[order], np.append(starts, len(order)))


def sort_by_id(graph: Graph, numbers: Labels) -> Labels:
    """Return the places ``numbers`` of relations, sorted by the relations' ids, which break ties regardless of their order."""
    return numbers[np.argsort(graph.edges.ranks[numbers])]


def find_pairs(wanted: Labels, known: Labels) -> Labels:
    """Return for each unordered pair ``wanted`` (n, 2) its place among those ``known`` (m, 2), −1 if it is not there. A pair with
    −1 is none."""
    total = int(max(wanted.max(initial=0), known.max(initial=0))) + 1
    there = _number_pairs(known, total)
    order = np.argsort(there, kind="stable")
    here = _number_pairs(wanted, total)
    return np.where(here >= 0, look_up(here, there[order], order, missing=-1), -1)


def _number_pairs(pairs: Labels, total: int) -> Labels:
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    return np.where(low >= 0, low * total + high, -1)


@dataclass(frozen=True, slots=True)
class PairCounts:
    """What one pass over the relations of a step counts: row ``p`` of each array belongs to pair ``p`` of ``pairs``. ``beneath`` pairs
    up the base relations by the same clusters (the very same pairs: λ > 0 above implies a base relation beneath, and the other way
    round). ``sources`` are the clusters that most of a pair's relations start from, ``targets`` the others; ``strengths`` are λ."""

    parents: Labels
    pairs: ClusterPairs
    beneath: ClusterPairs
    sources: Labels
    targets: Labels
    strengths: Counts
    supports: Counts
    weights: Counts


def count_pairs(step: LayerStep) -> PairCounts:
    """Count the pairs of clusters with λ > 0, in the order of their ends (paper eq. 5). O(m log m)."""
    parents = step.labels[step.lower.ends]
    pairs = pair_up(step.lower, parents)
    beneath = pair_up(step.base, step.base_labels[step.base.ends]) if step.base is not step.lower else pairs
    strengths = np.diff(pairs.starts)
    turned = 2 * pairs.totals((parents[:, 0] < parents[:, 1]).astype(np.int64)) < strengths
    return PairCounts(
        parents=parents,
        pairs=pairs,
        beneath=beneath,
        sources=np.where(turned, pairs.second, pairs.first),
        targets=np.where(turned, pairs.first, pairs.second),
        strengths=strengths,
        supports=pairs.totals(step.lower.edges.supports),
        weights=pairs.totals(step.lower.edges.weights),
    )


@dataclass(frozen=True, slots=True, eq=False)
class UnchangedRelations:
    """The relations of a ``layer`` of an earlier build with the numbers of the clusters that they join now, (m, 2), −1 for a
    cluster beneath which something is different; ``usable`` (m,) are those that have their texts."""

    layer: Graph
    ends: Labels
    usable: Flags

    @classmethod
    def of_nothing(cls) -> Self:
        return cls(Graph((), ()), np.empty((0, 2), dtype=np.intp), np.empty(0, dtype=bool))

    def select(self, places: Labels, numbers: Sequence[int]) -> dict[int, Relation]:
        """Return the relations at the places of the pairs of these ``numbers``, of those that have one."""
        held = [number for number in numbers if places[number] >= 0]
        return dict(zip(held, select_rows(self.layer.relations, places[held].tolist()), strict=True))

    def find(self, counts: PairCounts) -> Labels:
        """Return the place of the relation of each pair, −1 if there is none."""
        ends = np.where(self.usable[:, None], self.ends, -1)
        return find_pairs(np.stack((counts.pairs.first, counts.pairs.second), axis=1), ends)

    def is_equal(self, places: Labels, counts: PairCounts, tau: int) -> Flags:
        """Return for which pairs the relation at its place is the one that would be made."""
        edges = self.layer.edges
        made = np.where(counts.strengths > tau, *map(_METHODS.index, (Method.HEURISTIC, Method.JOINED)))
        known = np.flatnonzero(places >= 0)
        held = places[known]
        equal = np.zeros(len(places), dtype=bool)
        equal[known] = (
            ~edges.stale[held]
            & (self.ends[held, 0] == counts.sources[known])
            & (edges.methods[held] == made[known])
            & (edges.strengths[held] == counts.strengths[known])
            & (edges.supports[held] == counts.supports[known])
            & (edges.weights[held] == counts.weights[known])
        )
        return equal


def inter_cluster_relations(
    step: LayerStep,
    upper: Sequence[Entity],
    *,
    tau: int,
    counts: PairCounts | None = None,
    unchanged: UnchangedRelations | None = None,
    note: Callable[[int], None] = lambda _: None,
) -> Sequence[Relation]:
    """Return a relation for each pair of clusters with λ > 0, in the order of its ends in ``upper``.

    λ > ``tau``: one text on all the relations beneath; else their own texts, joined. The source is the
    cluster that most of them start from. ``counts`` are those of the step, if they are known already; ``unchanged`` are
    relations of an earlier build, whose heuristic texts would be made again in the same words. ``note`` is called with
    the number of pairs done so far.
    """
    counts = counts or count_pairs(step)
    before = unchanged or UnchangedRelations.of_nothing()
    places = before.find(counts)
    equal = before.is_equal(places, counts, tau)
    numbers = np.flatnonzero(~equal).tolist()
    known = before.select(places, numbers)
    texts = _RelationTexts(step)
    anew = [number for number in numbers if number not in known]
    texts.read(
        step.base, [counts.beneath.relations_of(each) for each in anew if counts.strengths[each] > tau]
    )
    texts.read(
        step.lower, [counts.pairs.relations_of(each) for each in anew if counts.strengths[each] <= tau]
    )
    ids, layer = decode_ids(EntityColumns(upper).ids), upper[0].layer if upper else 0
    own: dict[int, Relation] = {}
    for done, number in enumerate(numbers):
        if done % 1000 == 0:
            note(number)
        strength = int(counts.strengths[number])
        near, far = ids[counts.sources[number]], ids[counts.targets[number]]
        method = Method.HEURISTIC if strength > tau else Method.JOINED
        held = known.get(number)
        if held is not None and held.method is method:
            description, evidence = held.description, held.evidence
        elif strength > tau:
            description, evidence = texts.summary(counts.beneath.relations_of(number))
        else:
            description, evidence = texts.join(counts.pairs.relations_of(number))
        own[number] = Relation(
            content_id("r", str(layer), *((near, far) if near < far else (far, near))),
            near,
            far,
            layer=layer,
            description=description,
            method=method,
            strength=strength,
            weight=int(counts.weights[number]),
            support=int(counts.supports[number]),
            evidence=evidence,
        )
    return compose_rows(before.layer.relations, np.where(equal, places, -1), own)


def fit_threshold(strengths: Counts, calls: int, batch: int) -> int:
    """Return the smallest τ for which all relations with λ > τ fit into ``calls`` calls of ``batch``
    relations each: "a data-dependent hyper-parameter that may vary with the layer index" (paper)."""
    room = calls * batch
    falling = -np.sort(-strengths)
    return int(falling[room]) if room < len(falling) else 0


# --- texts ---------------------------------------------------------------------------------


class _RelationTexts:
    """Makes the texts of the relations of one step, with the chunks that their parts come from."""

    def __init__(self, step: LayerStep) -> None:
        self._lower, self._base = step.lower, step.base

    def read(self, graph: Graph, pairs: Iterable[Sequence[int]]) -> None:
        """Read what lies beneath some pairs at once."""
        places = [place for numbers in pairs for place in numbers[: self.tried]]
        read_rows(graph.relations, places)
        if not graph.entities[0].layer:
            read_rows(graph.entities, np.unique(graph.ends[places]).tolist())

    tried = 24
    """Relations of a pair in which statements are looked for."""

    def summary(
        self, base_numbers: Sequence[int], *, sentences: int = 2, longest: int = 280
    ) -> tuple[str, tuple[Evidence, ...]]:
        """Return up to ``sentences`` statements of the best base relations that name both ends; without any, the ends of the best attested."""
        found: dict[str, Quote] = {}
        for number in base_numbers[: self.tried]:
            for quote in self._statements(self._base, number):
                if len(quote.text) <= longest and len(found) < sentences:
                    found.setdefault(quote.text, quote)
            if len(found) == sentences:
                break
        quotes = list(found.values()) or [self._name_ends(self._base, base_numbers[0])]
        return join_quotes(quotes)

    def join(self, numbers: Sequence[int]) -> tuple[str, tuple[Evidence, ...]]:
        """Join the statements beneath, those of the strongest relation first, within the bound and each
        once; without any, name the ends of the relations: ``Concat(R)`` of eq. 5 is never empty."""
        found: dict[str, Quote] = {}
        left = CHARACTERS + 1
        for number in numbers:
            for quote in self._statements(self._lower, number):
                if quote.text not in found and len(quote.text) < left:
                    found[quote.text] = quote
                    left -= len(quote.text) + 1
        quotes = list(found.values()) or [self._name_ends(self._lower, each) for each in numbers[:3]]
        return join_quotes(quotes)

    def _name_ends(self, graph: Graph, number: int) -> Quote:
        """Return what a relation says of which no text states anything."""
        relation = graph.relations[number]
        source, target = (shorten(graph.entities[end].name, 80) for end in graph.ends[number].tolist())
        together = relation.method is Method.HEURISTIC
        said = "stand in the same passage" if together else "are related"
        chunks = (*(each.chunk_id for each in relation.evidence), *relation.chunk_ids)
        return Quote(f"{source} and {target} {said}.", next(iter(chunks), ""))

    def _statements(self, graph: Graph, number: int) -> Iterator[Quote]:
        """Yield the sentences of a relation; of a heuristic one of layer 0 those that state something about both ends."""
        relation = graph.relations[number]
        raw = relation.method is Method.HEURISTIC and not relation.layer
        ends = [graph.entities[end].name for end in graph.ends[number].tolist()] if raw else []
        for quote in _sentences(relation):
            if not raw or (
                is_statement(quote.text) and stands_alone(quote.text) and _names_all(quote.text, ends)
            ):
                yield Quote(end_sentence(quote.text), quote.chunk_id)


def _names_all(sentence: str, names: Iterable[str]) -> bool:
    """Return whether each name occurs in the sentence without its bracketed remark, or at least its last word, which is
    the surname of a person and the head of most others: *New York* alone does not name the *New York State Assemblyman*."""
    folded = sentence.casefold()
    missing = [name for name in map(without_remark, names) if name.casefold() not in folded]
    if not missing:
        return True
    present = phrase_keys(sentence)
    return all({key := name_key(name), key.rsplit(" ", 1)[-1]} & present for name in missing)


def _sentences(relation: Relation) -> Iterable[Quote]:
    text = relation.description
    if not text or len(relation.evidence) > 1 or (_INNER_END.search(text) and not find_turn(text)):
        return (quote for _, quote in quotes_of(relation))
    # Most relations are one sentence: nothing has to be split.
    chunk = relation.evidence[0].chunk_id if relation.evidence else next(iter(relation.chunk_ids), "")
    return (Quote(text, chunk),)


_INNER_END = re.compile(r"[.!?。！？…][\"'”’»)]*\s*\S|\n")
