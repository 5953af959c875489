"""Which carried summaries and sentences a model writes again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Entity, Evidence, Method, Relation, Staleness
from leanrag_engine.hierarchy.changes.carrying import (
    CarriedSentences,
    Lineage,
    Origins,
    PreviousBuild,
    carry_sentences,
    carry_summaries,
)
from leanrag_engine.hierarchy.relations import LayerStep, count_pairs


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
    found = carry_summaries(
        step, Lineage(np.arange(8), np.zeros(8, dtype=bool)), Origins((cluster,), np.array([0, -1])), previous
    )
    assert found.kept[0].description == cluster.description
    assert (0 in found.due) is due


def test_what_a_deletion_cut_from_members_alone_has_no_summary_written_again() -> None:
    cluster = replace(make_entity("c", layer=1), stale=Staleness(cut=8))
    previous = PreviousBuild(Hierarchy((Graph(tuple(MEMBERS), ()), Graph((cluster,), ()))), frozenset())
    lower = Graph(tuple(MEMBERS), ())
    labels = np.zeros(8, dtype=np.intp)
    found = carry_summaries(
        LayerStep(lower, labels, lower, labels),
        Lineage(np.arange(8), np.zeros(8, dtype=bool)),
        Origins((cluster,), np.array([0])),
        previous,
    )
    assert found.kept[0].stale == Staleness(cut=8)
    assert not found.due


# --- sentences on two clusters --------------------------------------------------------------


def relate(first: str, second: str, text: str, chunk: str) -> Relation:
    evidence = (Evidence(0, len(text), chunk),)
    return Relation(
        f"{first}{second}", first, second, description=text, chunk_ids=(chunk,), evidence=evidence
    )


SENTENCE = "The keepers sell honey to the bakers."
WRITTEN = Relation(
    "r",
    "c0",
    "c1",
    layer=1,
    description=SENTENCE,
    method=Method.MODEL,
    strength=3,
    support=3,
    evidence=(Evidence(0, len(SENTENCE), "k0"),),
)


def carry(
    now: tuple[Relation, ...], labels: list[int], origins: list[str | None], chunks: frozenset[str]
) -> CarriedSentences:
    """Carry ``SENTENCE``, written of two clusters of three members each, over to the clusters of ``labels``."""
    names = [make_entity(f"e{number}", parent=f"c{number // 3}") for number in range(6)]
    old = tuple(
        relate(f"e{number}", f"e{number + 3}", "They sell honey to bakers.", "k0") for number in range(3)
    )
    clusters = [make_entity(id_, layer=1) for id_ in ("c0", "c1")]
    previous = PreviousBuild(
        Hierarchy((Graph(tuple(names), old), Graph(tuple(clusters), (WRITTEN,)))), chunks
    )
    lower = Graph(tuple(names), now)
    places = np.array(labels, dtype=np.intp)
    step = LayerStep(lower, places, lower, places)
    continued = np.array([int(id_[1:]) if id_ else -1 for id_ in origins], dtype=np.intp)
    return carry_sentences(step, count_pairs(step), Origins(tuple(clusters), continued), previous)


@pytest.mark.parametrize(
    ("text", "cited"),
    [("They sell honey to bakers.", ["k9"]), ("They sell honey to smiths.", [])],
    ids=["it is still said", "a word is said no longer"],
)
def test_a_sentence_whose_chunks_are_gone_stays_only_where_what_lies_beneath_still_says_it(
    text: str, cited: list[str]
) -> None:
    now = tuple(relate(f"e{number}", f"e{number + 3}", text, "k9") for number in range(3))
    found = carry(now, [0, 0, 0, 1, 1, 1], ["c0", "c1"], frozenset(["k9"]))
    assert [each.chunk_id for kept in found.kept.values() for each in kept.evidence] == cited
    assert {kept.description for kept in found.kept.values()} == ({SENTENCE} if cited else set())


def test_where_a_cluster_is_divided_the_part_with_most_of_the_relations_keeps_the_sentence() -> None:
    now = tuple(relate(f"e{number}", f"e{number + 3}", "They sell honey.", "k0") for number in range(3))
    # The first member stays where it was; the others, with two of three relations, are a new cluster.
    found = carry(now, [0, 2, 2, 1, 1, 1], ["c0", "c1", None], frozenset(["k0"]))
    assert {number: kept.description for number, kept in found.kept.items()} == {0: SENTENCE, 1: SENTENCE}
    assert found.kept[1].stale == Staleness(left=1)
    assert not found.due
