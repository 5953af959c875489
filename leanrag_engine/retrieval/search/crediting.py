"""Credit the passages that search finds for a question to the entities that they mention, and upwards to the clusters above."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from leanrag_engine.core.model import Entity, Finding, Relation
from leanrag_engine.retrieval.graph.adjacency import Adjacency

from .relevance import RankedWindow

Item = TypeVar("Item", Entity, Relation, Finding)


@dataclass(frozen=True, slots=True)
class FoundPassages:
    """The passages found for a question. ``values`` says by chunk what they are worth, best first, ``citations`` how they are
    cited; ``credit`` says for an entity of any layer how much of each passage's value is due to it or what lies beneath."""

    values: Mapping[str, float]
    citations: Mapping[str, str]
    credit: Mapping[str, Mapping[str, float]]
    warnings: tuple[str, ...] = ()

    def beneath(self, item: Entity | Relation | Finding) -> Mapping[str, float]:
        """Return the found passages beneath an entity, beneath both ends of a relation, or behind a finding."""
        if isinstance(item, Entity):
            return self.credit.get(item.id, {})
        if isinstance(item, Relation) and item.layer:
            first, second = (self.credit.get(end, {}) for end in (item.source_id, item.target_id))
            return {id_: min(value, second[id_]) for id_, value in first.items() if id_ in second}
        return {id_: self.values[id_] for id_ in item.chunk_ids if id_ in self.values}

    def sort(self, items: Sequence[Item]) -> list[Item]:
        """Return the items with most beneath first; equal ones in their order."""
        return sorted(items, key=lambda each: -sum(self.beneath(each).values()))


def credit_passages(
    graph: Adjacency, windows: Sequence[RankedWindow], warnings: Sequence[str], most: int = 50
) -> FoundPassages:
    """Return the ``most`` best passages of ranked windows. The value of each, above that of the first one left out, is divided
    among the entities that it mentions, the rarer the more, so that what is mentioned everywhere does not draw all of it."""
    best: dict[str, RankedWindow] = {}
    for window in windows:
        best.setdefault(window.chunk.id, window)
    ranked = list(best.values())
    floor = ranked[most].value if len(ranked) > most else 0.0
    kept = ranked[:most]
    credit: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    values = {each.chunk.id: each.value - floor for each in kept}
    for id_, value in values.items():
        entities = graph.entities_in([id_])
        nodes = graph.entity_nodes(entities)
        rarities = 1 / (1 + np.log(graph.offsets[nodes + 1] - graph.offsets[nodes]))
        for entity, share in zip(entities, (rarities / rarities.sum()).tolist(), strict=True):
            for node in (entity, *graph.ancestors([entity])):
                credit[node][id_] += value * share
    citations = {each.chunk.id: each.chunk.citation for each in kept}
    return FoundPassages(values, citations, credit, tuple(warnings))
