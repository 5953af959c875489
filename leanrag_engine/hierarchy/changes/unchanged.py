"""Find the inter-cluster relations beneath which nothing differs from the previous build: their texts are used again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Entity, Relation

from .removal import HIDDEN

Flags = NDArray[np.bool_]


def find_touched(layer: Graph, before: Graph | None, beneath: Flags) -> Flags:
    """Return which entities of a layer differ from the layer ``before``, (n,), as far as texts about them may use it.

    These are entities that are new, have another name or something touched ``beneath`` them, and both ends of relations
    that are new, gone or different in anything.
    """
    names = {each.id: each.name for each in before.entities} if before else {}
    relations = {each.id: each for each in before.relations} if before else {}
    ends: set[str] = set()
    for each in layer.relations:
        old = relations.pop(each.id, None)
        if old is not each and old != each:
            ends |= {each.source_id, each.target_id}
    for gone in relations.values():
        ends |= {gone.source_id, gone.target_id}
    differing = [each.id in ends or names.get(each.id) != each.name for each in layer.entities]
    return np.asarray(beneath | np.array(differing, dtype=bool))


def find_unchanged(clusters: Sequence[Entity], touched: Flags, before: Graph | None) -> dict[str, Relation]:
    """Return the relations of the layer ``before`` between ``clusters`` that are not ``touched``, by id.

    The id of a cluster is made from those of its members, so that an equal one has equal members.
    """
    same = {each.id for each, differs in zip(clusters, touched.tolist(), strict=True) if not differs}
    return {
        each.id: each
        for each in (before.relations if before else ())
        if each.source_id in same and each.target_id in same and each.description != HIDDEN
    }
