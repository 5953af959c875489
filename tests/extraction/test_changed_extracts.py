"""G0 after any sequence of changed extracts is the one that all extracts together give, and few of them are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import (
    Correction,
    CorrectionEffects,
    Entity,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    ExtractState,
    Method,
)
from leanrag_engine.extraction.mentions import MentionIndex
from leanrag_engine.extraction.merging import (
    ExtractSource,
    LongDescription,
    MergedGraph,
    PreviousMerge,
    merge_source,
)

NAMES = (
    *(
        "Ewan Reid",
        "John",
        "King",
        "the King",
        "king",
        "Lion",
        "lion",
        "The Wall",
        "wall",
        "China",
        "",
        "Skerry",
    ),
    *(
        "Northern Lighthouse Board",
        "NLB",
        "Nine Lions Bar",
        "MeiLin",
        "Mei Lin",
        "whale oil",
        "Whale Oils",
        "Tiree",
    ),
)
"""Variants of one another, acronyms of two names, joined names, and names that many may have."""
ACRONYMS = {"Northern Lighthouse Board": ("NLB",), "Nine Lions Bar": ("NLB",)}
CORRECTIONS = (
    Correction("merge", ("John", "King"), "John", number=1),
    Correction("split", ("Ewan Reid",), "Ewan Reid (other)", ("d1",), number=2),
    Correction("merge", ("Lion", "Tiree", "NLB"), "Lion", number=3),
)

Documents = dict[int, tuple[int, list[Extract]]]
"""By number: a stamp, and an extract for each chunk."""


@st.composite
def extracted(draw: st.DrawFn) -> Extract:
    """An extract whose chunk id is empty."""
    names = draw(st.lists(st.sampled_from(NAMES), max_size=4))
    entities = tuple(
        ExtractedEntity(
            name,
            draw(st.sampled_from(("term", "term", "person", "work"))),
            draw(st.sampled_from(("", f"The {name} is old.", f"{name} sleeps. It dreams.", f"{name} " * 90))),
            ACRONYMS.get(name, ()) if draw(st.booleans()) else (),
        )
        for name in names
    )
    ends = st.sampled_from(names or ("nobody",))
    texts = st.sampled_from(("", "They meet.", "One saw the other."))
    relations = st.builds(ExtractedRelation, ends, ends, texts, st.sampled_from((0.0, 5.0)))
    method = draw(st.sampled_from((Method.HEURISTIC, Method.HEURISTIC, Method.AGENT)))
    return Extract("", method, entities, tuple(draw(st.lists(relations, max_size=3))))


changes = st.tuples(st.integers(1, 12), st.lists(extracted(), max_size=3))
"""The number of a document and its new extracts; without any, the document goes."""
steps = st.tuples(st.lists(changes, min_size=1, max_size=4), st.sets(st.sampled_from(CORRECTIONS)))


class Reader:
    """Reads the extracts of documents and counts them."""

    def __init__(self, documents: Documents) -> None:
        rows = [
            (number, stamp, label, each)
            for number, (stamp, extracts) in sorted(documents.items())
            for label, each in enumerate(extracts)
        ]
        self.read: list[int] = []
        self._extracts = [replace(each, chunk_id=f"c{number}-{label}") for number, _, label, each in rows]
        self.states = [
            ExtractState(number, label, 0, stamp, f"c{number}-{label}", f"d{number}")
            for number, stamp, label, _ in rows
        ]
        self.source = ExtractSource(self.states, self.give, len(documents))

    def give(self, rows: Sequence[int]) -> list[Extract]:
        self.read += rows
        return [self._extracts[row] for row in rows]


def without_parent(entity: Entity) -> Entity:
    return replace(entity, parent_id=None, responsibility=1.0)


def keep(merged: MergedGraph) -> PreviousMerge:
    """What the next merge starts from, as if it had been published and stored."""
    entities = tuple(replace(each, parent_id="c", responsibility=0.5) for each in merged.graph.entities)
    return PreviousMerge(
        Graph(entities, merged.graph.relations), MentionIndex.from_arrays(merged.index.arrays())
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=2, max_size=5))
def test_after_any_changes_g0_is_the_one_of_all_extracts_together(
    sequence: list[tuple[list[tuple[int, list[Extract]]], set[Correction]]],
) -> None:
    documents: Documents = {}
    stamps = count()
    previous = None
    for changed, corrections in sequence:
        for number, extracts in changed:
            documents[number] = (next(stamps), extracts)
        documents = {number: each for number, each in documents.items() if each[1]}
        asked = sorted(corrections, key=lambda each: each.number)
        found: list[tuple[MergedGraph, list[LongDescription], list[CorrectionEffects]]] = []
        for before in (previous, None):
            long: list[LongDescription] = []
            effects: list[CorrectionEffects] = []
            merged = merge_source(
                Reader(documents).source,
                overlong=long.append,
                corrections=asked,
                note_effects=effects.append,
                previous=before,
            )
            found.append((merged, long, effects))
        (updated, *told), (anew, *told_anew) = found
        assert [without_parent(each) for each in updated.graph.entities] == list(anew.graph.entities)
        assert updated.graph.relations == anew.graph.relations
        assert told == told_anew
        previous = keep(updated)


def mention(name: str, *others: str) -> Extract:
    return Extract("", Method.HEURISTIC, tuple(ExtractedEntity(each, "person") for each in (name, *others)))


def test_only_extracts_that_mention_something_changed_are_read_and_the_rest_stays_the_same_object() -> None:
    documents = {number: (0, [mention(f"Ada Stone{number}", f"Bo Reed{number}")]) for number in range(1, 30)}
    held = keep(merge_source(Reader(documents).source))
    documents[30] = (1, [mention("Ada Stone7", "Cy Marsh")])
    reader = Reader(documents)
    after = merge_source(reader.source, previous=held)
    assert sorted(reader.read) == [6, 29]
    stayed = {id(each) for each in held.graph.entities}
    changed = {each.name for each in after.graph.entities if id(each) not in stayed}
    assert changed == {"Ada Stone7", "Cy Marsh"}


def test_the_index_keeps_no_name_that_no_extract_has_any_more() -> None:
    documents = {1: (0, [mention("Ada Stone", "Bo Reed")]), 2: (0, [mention("Cy Marsh")])}
    held = keep(merge_source(Reader(documents).source))
    del documents[1]
    after = merge_source(Reader(documents).source, previous=held)
    kept = b"".join(each.tobytes() for each in after.index.arrays().values())
    assert b"Cy Marsh" in kept
    assert b"Ada" not in kept
    assert b"reed" not in kept
