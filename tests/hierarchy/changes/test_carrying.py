"""Which carried summaries a model writes again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from leanrag_engine.core.model import Entity, Graph, Hierarchy, Method, Staleness
from leanrag_engine.hierarchy.changes.carrying import Lineage, PreviousBuild, carry_summaries
from leanrag_engine.hierarchy.relations import LayerStep


def make_entity(id_: str, layer: int = 0, parent: str | None = None) -> Entity:
    return Entity(
        id=id_,
        name=id_,
        type="person",
        description=f"{id_} keeps bees.",
        method=Method.MODEL,
        layer=layer,
        parent_id=parent,
    )


MEMBERS = [make_entity(f"e{number}", parent="c") for number in range(8)]


@pytest.mark.parametrize(
    ("stale", "moved", "due"),
    [
        (None, 0, False),
        (Staleness(left=3), 0, False),  # deleted with their documents
        (Staleness(joined=3), 0, True),
        (Staleness(changed=3), 0, True),
        (None, 3, True),  # to another cluster
        (None, 1, False),
    ],
)
def test_a_summary_is_written_again_for_what_came_changed_or_moved_away_but_not_for_what_is_gone(
    stale: Staleness | None, moved: int, due: bool
) -> None:
    cluster = replace(make_entity("c", layer=1), stale=stale)
    previous = PreviousBuild(Hierarchy((Graph(tuple(MEMBERS), ()), Graph((cluster,), ()))), frozenset())
    lower = Graph(tuple(MEMBERS), ())
    labels = np.array([0] * (8 - moved) + [1] * moved, dtype=np.intp)
    step = LayerStep(lower, labels, lower, labels)
    found = carry_summaries(step, Lineage(MEMBERS, [False] * 8), [cluster, None], previous)
    assert found.kept[0].description == cluster.description
    assert (0 in found.due) is due
