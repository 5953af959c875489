"""Find the inter-cluster relations beneath which nothing differs from the previous build: their texts are used again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.columns import digest_text
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.graphs.rows import match_rows
from leanrag_engine.hierarchy.relations import UnchangedRelations

from .removal import HIDDEN

Flags = NDArray[np.bool_]


def find_touched(layer: Graph, before: Graph | None, beneath: Flags) -> Flags:
    """Return which entities of a layer differ from the layer ``before``, (n,): new or renamed ones, those
    with something touched ``beneath``, and both ends of relations that are new, gone or different."""
    if before is None:
        return np.ones(len(layer.entities), dtype=bool)
    touched = beneath.copy()
    entities = match_rows(before.entities, layer.entities)
    for row, (then, now) in entities.differing.items():
        touched[row] |= then is None or then.name != now.name
    relations = match_rows(before.relations, layer.relations)
    differing = [number for number, (then, now) in relations.differing.items() if then != now]
    touched[layer.ends[differing]] = True
    if len(relations.gone):  # of none in the layers of an import, where some ends are missing
        gone = np.zeros(len(before.entities) + 1, dtype=bool)
        gone[before.ends[relations.gone]] = True
        touched |= gone[entities.origins]
    return touched


def find_unchanged(clusters: Graph, touched: Flags, before: Graph | None) -> UnchangedRelations | None:
    """Return the relations of ``before`` between ``clusters`` that are not ``touched``: equal ids mean equal
    members."""
    if before is None:
        return None
    numbers = np.full(len(before.entities), -1, dtype=np.intp)
    places = before.find_places(clusters.nodes.ids)
    same = np.flatnonzero((places >= 0) & ~touched)
    numbers[places[same]] = same
    usable = before.edges.descriptions != digest_text(HIDDEN)
    return UnchangedRelations(before, numbers[before.ends], usable)
