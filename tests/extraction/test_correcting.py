"""Corrections of names: pure functions of extracts and corrections."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from leanrag_tests_merging import merge

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import (
    Correction,
    CorrectionEffects,
    Entity,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    Method,
)

DOCUMENTS = {f"{document}{number}": document for document in "abc" for number in (1, 2)}


def said(chunk: str, *names: str) -> Extract:
    """An extract that names these, each related to the next."""
    relations = tuple(ExtractedRelation(one, other) for one, other in pairwise(names))
    return Extract(chunk, Method.AGENT, tuple(ExtractedEntity(each, "person") for each in names), relations)


def fuse(number: int, *names: str, name: str = "") -> Correction:
    return Correction("merge", names, name or names[0], number=number)


def part(
    number: int, name: str, new: str, *, documents: str = "", chunks: tuple[str, ...] = ()
) -> Correction:
    return Correction("split", (name,), new, tuple(documents), chunks, number=number)


def build(extracts: list[Extract], *corrections: Correction) -> tuple[Graph, CorrectionEffects]:
    effects: list[CorrectionEffects] = []
    graph = merge(extracts, documents=DOCUMENTS, corrections=corrections, note_effects=effects.append)
    return graph, effects[0]


def places(graph: Graph) -> dict[str, tuple[str, ...]]:
    return {each.name: each.chunk_ids for each in graph.entities}


def named(graph: Graph, name: str) -> Entity:
    (found,) = (each for each in graph.entities if each.name == name)
    return found


CORPUS = [said("a1", "Ann Lee", "Bob Hay"), said("b1", "Annie Lee", "Bob Hay"), said("c1", "Cid", "Bob Hay")]


def test_merged_names_are_one_entity_with_all_mentions_relations_and_aliases() -> None:
    graph, effects = build(CORPUS, fuse(1, "Annie Lee", "Ann Lee"))
    assert places(graph) == {"Annie Lee": ("a1", "b1"), "Bob Hay": ("a1", "b1", "c1"), "Cid": ("c1",)}
    assert named(graph, "Annie Lee").aliases == ("Ann Lee",)
    assert len(graph.relations) == 2
    assert effects == CorrectionEffects(applied=("merge-1",))


def test_a_merge_may_give_a_name_that_no_document_has() -> None:
    graph, _ = build(CORPUS, fuse(1, "Annie Lee", "Ann Lee", name="Anne Lee"))
    assert named(graph, "Anne Lee").aliases == ("Ann Lee", "Annie Lee")


def test_a_split_tells_mentions_apart_by_document_and_by_chunk() -> None:
    corpus = [
        said("a1", "Mr Mercury"),
        said("a2", "Mr Mercury"),
        said("b1", "Mr Mercury", "Bob Hay"),
        said("c1", "Mr Mercury"),
    ]
    graph, effects = build(
        corpus,
        part(1, "Mr Mercury", "Mr Mercury (planet)", documents="b"),
        part(2, "Mr Mercury", "Quicksilver", chunks=("a2",)),
    )
    assert places(graph) == {
        "Mr Mercury": ("a1", "c1"),
        "Quicksilver": ("a2",),
        "Mr Mercury (planet)": ("b1",),
        "Bob Hay": ("b1",),
    }
    assert named(graph, "Mr Mercury (planet)").aliases == ("Mr Mercury",)
    (relation,) = graph.relations
    assert {relation.source_id, relation.target_id} == {
        named(graph, "Mr Mercury (planet)").id,
        named(graph, "Bob Hay").id,
    }
    assert effects.applied == ("split-1", "split-2")


def test_mentions_that_are_split_off_may_belong_to_an_entity_that_is_there() -> None:
    corpus = [said("a1", "Mr Lee"), said("b1", "Mr Lee"), said("c1", "Bob Lee")]
    graph, _ = build(corpus, part(1, "Mr Lee", "Bob Lee", documents="b"))
    assert places(graph) == {"Mr Lee": ("a1",), "Bob Lee": ("b1", "c1")}


def test_a_later_correction_decides_about_what_an_earlier_one_made() -> None:
    corpus = [said("a1", "Ann Roe"), said("b1", "Nan Roe"), said("c1", "Nan Roe")]
    merged = fuse(1, "Ann Roe", "Nan Roe")
    graph, _ = build(corpus, merged, part(2, "Ann Roe", "Nan Roe", documents="c"))
    assert places(graph) == {"Ann Roe": ("a1", "b1"), "Nan Roe": ("c1",)}
    graph, _ = build(
        corpus, merged, part(2, "Ann Roe", "Nan Roe", documents="c"), fuse(3, "Nan Roe", "Ann Roe")
    )
    assert places(graph) == {"Nan Roe": ("a1", "b1", "c1")}
    graph, effects = build(
        [said("a1", "Nan Roe"), said("b1", "Nancy Roe")],
        merged,
        fuse(2, "Ann Roe", "Nancy Roe", name="Nancy Roe"),
    )
    assert places(graph) == {"Nancy Roe": ("a1", "b1")}
    assert effects == CorrectionEffects(applied=("merge-1", "merge-2"))


def test_an_acronym_follows_its_long_form_into_a_merge() -> None:
    long = ExtractedEntity("World Trade Organization", "organisation", "", ("WTO",))
    corpus = [Extract("a1", Method.AGENT, (long,)), said("b1", "WTO"), said("c1", "Trade body")]
    graph, _ = build(corpus, fuse(1, "WTO", "Trade body"))
    assert places(graph) == {"WTO": ("a1", "b1", "c1")}


def test_a_merge_makes_namesakes_of_several_documents_one() -> None:
    corpus = [said("a1", "King", "Cordelia Fool"), said("b1", "King", "Duncan Ross")]
    apart, _ = build(corpus)
    assert len([each for each in apart.entities if each.name == "King"]) == 2
    graph, effects = build(corpus, fuse(1, "King"))
    assert named(graph, "King").chunk_ids == ("a1", "b1")
    assert effects.applied == ("merge-1",)


def test_a_merge_of_which_one_name_is_left_has_an_effect_only_if_it_renames_that() -> None:
    graph, effects = build([said("a1", "Ann Lee")], fuse(1, "Ann Lee", "Annie Lee"))
    assert effects.idle == ("merge-1",)
    graph, effects = build([said("a1", "Ann Lee")], fuse(1, "Annie Lee", "Ann Lee"))
    assert (places(graph), effects.applied) == ({"Annie Lee": ("a1",)}, ("merge-1",))


def test_corrections_without_names_in_the_documents_have_no_effect_and_change_nothing() -> None:
    graph, effects = build(CORPUS, fuse(1, "Ann Lee", "Nobody"), part(2, "Bob Hay", "Rob Hay", documents="x"))
    plain, _ = build(CORPUS)
    assert places(graph) == places(plain)
    assert effects == CorrectionEffects(idle=("merge-1", "split-2"))


NAMES = ("Ann Roe", "Nan Roe", "Bob Hay", "Rob Hay", "Cid Lee")
CHUNKS = sorted(DOCUMENTS)
ANY_NAME = st.sampled_from(NAMES)
ANY_CORRECTION = st.one_of(
    st.builds(
        lambda names, name: Correction("merge", tuple(names), name),
        st.lists(ANY_NAME, min_size=1, max_size=3),
        ANY_NAME,
    ),
    st.builds(
        lambda name, new, places, chunks: Correction("split", (name,), new, tuple(places), tuple(chunks)),
        ANY_NAME,
        ANY_NAME,
        st.lists(st.sampled_from("abc"), max_size=2),
        st.lists(st.sampled_from(CHUNKS), max_size=2),
    ),
)


@example(
    [["Ann Roe"]] * 5 + [["Ann Roe", "Nan Roe"]],
    [
        Correction("merge", ("Bob Hay",), "Nan Roe"),
        Correction("merge", ("Nan Roe",), "Bob Hay"),
        Correction("split", ("Ann Roe",), "Bob Hay", ("a",)),
        Correction("merge", ("Bob Hay",), "Ann Roe"),
    ],
)
@settings(deadline=None)
@given(
    mentioned=st.lists(st.lists(ANY_NAME, min_size=1, max_size=3, unique=True), min_size=6, max_size=6),
    corrections=st.lists(ANY_CORRECTION, max_size=6),
)
def test_after_any_corrections_no_mention_is_lost_and_the_last_merge_holds(
    mentioned: list[list[str]], corrections: list[Correction]
) -> None:
    corpus = [said(chunk, *names) for chunk, names in zip(CHUNKS, mentioned, strict=True)]
    numbered = [
        Correction(each.kind, each.names, each.name, each.documents, each.chunks, number)
        for number, each in enumerate(corrections, 1)
    ]
    graph, effects = build(corpus, *numbered)
    assert {chunk for each in graph.entities for chunk in each.chunk_ids} == set(CHUNKS)
    assert len({each.id for each in graph.entities}) == len(graph.entities)
    known = {each.id for each in graph.entities}
    assert all({each.source_id, each.target_id} <= known for each in graph.relations)
    assert sorted((*effects.applied, *effects.idle)) == sorted(each.ref for each in numbered)
    assert build(corpus, *numbered)[0] == graph
    if numbered and numbered[-1].kind == "merge":
        bearers = {each.name for each in graph.entities} & {*numbered[-1].names, numbered[-1].name}
        assert bearers <= {numbered[-1].name}
