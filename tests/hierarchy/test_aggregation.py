"""The aggregated entity: what it is called, what it says, and that all of it stands in its members."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Entity, Evidence, Method, Relation, Vectors, content_id
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.hierarchy.aggregation import SummaryOptions, aggregate
from leanrag_engine.hierarchy.relations import LayerStep
from leanrag_engine.hierarchy.texts.naming import find_phrases

FAMILY = {
    "Bob Cratchit": "Bob Cratchit is the clerk of Scrooge and the father of Tiny Tim. He is poor. He is kind.",
    "Mrs. Cratchit": "Mrs. Cratchit cooks the goose for the Cratchit family on Christmas Day.",
    "Tiny Tim": "Tiny Tim is the youngest son of Bob Cratchit and walks with a crutch.",
    "Peter Cratchit": "Peter Cratchit wears the shirt collar of his father",
    "goose": "",
}
FIRM = {
    "Scrooge": "Scrooge owns the counting-house. " + "Very long words follow here " * 12 + ".",
    "Marley": "Marley was the partner of Scrooge and has been dead for seven years.",
    "counting-house": "The counting-house is where Scrooge keeps his clerk in the cold.",
}


def relation(source: Entity, target: Entity, text: str) -> Relation:
    return Relation(content_id("r", source.id, target.id), source.id, target.id, description=text, weight=2)


def carol() -> tuple[Graph, np.ndarray, Vectors]:
    texts = {**FAMILY, **FIRM}
    entities = tuple(
        Entity(id=f"e{place}", name=name, description=text, mentions=1 + place % 3)
        for place, (name, text) in enumerate(texts.items())
    )
    relations = (
        relation(entities[0], entities[2], "Bob Cratchit carries Tiny Tim home from church on his shoulder."),
        relation(entities[0], entities[5], "Scrooge pays Bob Cratchit fifteen shillings a week."),
    )
    labels = np.repeat([0, 1], [len(FAMILY), len(FIRM)])
    vectors = np.eye(2, dtype=np.float32)[labels]
    return Graph(entities, relations), labels, vectors


def aggregates() -> tuple[Entity, ...]:
    graph, labels, vectors = carol()
    step = LayerStep(graph, labels, graph, labels)
    taken = {name_key(entity.name) for entity in graph.entities}
    return tuple(aggregate(step, vectors, find_phrases(graph), taken, kind="cluster"))


def test_an_aggregate_counts_its_members_and_says_how_it_was_made() -> None:
    family, firm = aggregates()
    assert (family.members, family.mentions, firm.members, firm.mentions) == (5, 5, 3, 3)
    assert {(each.layer, each.type, each.method) for each in (family, firm)} == {
        (1, "cluster", Method.HEURISTIC)
    }
    assert family.id == content_id("c", "1", *sorted(f"e{place}" for place in range(5)))


def test_names_are_unlike_those_of_members_and_siblings() -> None:
    graph, _, _ = carol()
    names = [name_key(entity.name) for entity in (*aggregates(), *graph.entities)]
    assert len(set(names)) == len(names)
    assert "Cratchit" in aggregates()[0].name


def test_a_description_never_lists_members_or_counts_them() -> None:
    for each in aggregates():
        assert not any(word in each.description for word in ("Holds", "more.", "entities"))


def test_every_sentence_is_taken_whole_from_a_member_or_a_relation_among_members() -> None:
    graph, _, _ = carol()
    sources = [entity.description for entity in graph.entities] + [one.description for one in graph.relations]
    family, firm = aggregates()
    assert {"Bob Cratchit", "Tiny Tim"} & {finding.summary for finding in family.findings}
    for aggregated in (family, firm):
        assert 0 < len(aggregated.findings) <= SummaryOptions().findings
        for finding in aggregated.findings:
            assert any(finding.explanation in source for source in sources)
        assert aggregated.description.startswith(aggregated.findings[0].explanation)
        assert aggregated.description.endswith(".")
    assert "shirt collar" not in family.description, "it ends without a mark"


def test_every_quoted_sentence_names_the_chunk_that_says_it() -> None:
    graph, labels, vectors = carol()
    told = tuple(
        replace(one, chunk_ids=(f"chunk-{one.id}", "other"), evidence=(Evidence(0, 9, f"first-{one.id}"),))
        for one in graph.entities
    )
    graph = Graph(told, graph.relations)
    step = LayerStep(graph, labels, graph, labels)
    family, _ = aggregate(step, vectors, find_phrases(graph), set(), kind="cluster")
    by_text = {finding.explanation: finding.chunk_ids for finding in family.findings}
    assert by_text["Tiny Tim is the youngest son of Bob Cratchit and walks with a crutch."] == ("first-e2",)
    for each in family.evidence:
        assert by_text[family.description[each.start : each.end]] == (each.chunk_id,)
    assert len(family.evidence) >= 3

    lower = Graph((family,), ())
    above = LayerStep(lower, np.zeros(1, dtype=np.intp), graph, np.zeros_like(labels))
    (top,) = aggregate(above, np.ones((1, 2), dtype=np.float32), find_phrases(graph), set(), kind="root")
    for each in top.evidence:
        assert by_text[top.description[each.start : each.end]] == (each.chunk_id,)
    assert top.evidence


def test_a_clause_is_not_quoted() -> None:
    clause = "while the bell of the tower rang at noon"
    entities = (Entity(id="a", name="bell", description=clause), Entity(id="b", name="tower"))
    graph, labels = Graph(entities, ()), np.zeros(2, dtype=np.intp)
    vectors = np.ones((2, 3), dtype=np.float32)
    (one,) = aggregate(
        LayerStep(graph, labels, graph, labels), vectors, find_phrases(graph), set(), kind="root"
    )
    assert (one.findings, one.description, one.evidence) == ((), "", ())


def test_a_relation_that_leaves_the_cluster_is_not_quoted_for_it() -> None:
    assert not any("fifteen shillings" in each.description for each in aggregates())


def test_sentences_that_depend_on_another_or_run_on_are_not_quoted() -> None:
    texts = " ".join(each.description for each in aggregates())
    assert "He is" not in texts
    assert "Very long" not in texts


@pytest.mark.parametrize(
    "fragment",
    ["(See the section on bells for more of this.)", "A bell rings when {key: the value, and more.", 'He said "the bell rings.',
     "The bell said: 'Ring out at noon, all of you!", "The bell rings!' said the man of the tower, aloud.",
     "THE BELL OF THE TOWER RINGS 12 AT NOON.", "The bell rings on and on The bell rings on and on, they say.",
     "[Illustration: The bell of the tower rings]", "| bell | rings | at | noon |", "The bell rings as follows, at noon:",
     "Heading to the bell 12 Of the tower 28-29 Tailpiece of the tower 34 Ringing at noon.",
     "Ringing of Bells The specification for the bell of the tower.", "The same applies to the bell of the tower.",
     "Can only be rung at noon by the man of the tower.", "First, the bell of the tower is rung at noon."],
)  # fmt: skip
def test_fragments_are_not_quoted(fragment: str) -> None:
    whole = "The bell of the tower rings every day at noon."
    entities = (
        Entity(id="a", name="bell", description=fragment),
        Entity(id="b", name="tower", description=whole),
    )
    graph, labels = Graph(entities, ()), np.zeros(2, dtype=np.intp)
    vectors = np.ones((2, 3), dtype=np.float32)
    (one,) = aggregate(
        LayerStep(graph, labels, graph, labels), vectors, find_phrases(graph), set(), kind="root"
    )
    assert [finding.explanation for finding in one.findings] == [whole]


@pytest.mark.parametrize(
    "voice",
    ["'Ring the great bell, good people!' said a man from the town.", "What a great bell for poor people, bell of all bells!",
     "Who among the people hears the great bell at noon?"],
)  # fmt: skip
def test_direct_speech_is_quoted_only_without_enough_statements(voice: str) -> None:
    stated = ("The bell of the tower rings every day.", "A tower stands by the bridge of the market town.")
    texts = (voice, *stated)
    entities = tuple(Entity(id=f"e{n}", name=f"bell {n}", description=text) for n, text in enumerate(texts))
    assert {each.explanation for each in aggregate_all(entities).findings} == set(stated)
    spoken = voice in {each.explanation for each in aggregate_all(entities[:2]).findings}
    assert spoken == ("said" in voice), "a question or a call states nothing"


def test_a_sentence_with_a_low_score_is_left_out_of_the_description() -> None:
    texts = (
        "The bell of the tower rings.",
        "He saw them, and they saw him, and we saw them all at the bell.",
    )
    entities = tuple(Entity(id=f"e{n}", name=f"bell {n}", description=text) for n, text in enumerate(texts))
    assert "saw" not in aggregate_all(entities).description


def test_sentences_of_two_chunks_are_never_joined() -> None:
    text = "The bell of the tower A tower stands by the bridge of the market town."
    evidence = (Evidence(0, 21, "one"), Evidence(22, len(text), "two"))
    entities = (
        Entity(id="a", name="tower", description=text, evidence=evidence),
        Entity(id="b", name="town"),
    )
    (found,) = aggregate_all(entities).findings
    assert (found.explanation, found.chunk_ids) == (
        "A tower stands by the bridge of the market town.",
        ("two",),
    )


def aggregate_all(entities: tuple[Entity, ...]) -> Entity:
    graph, labels = Graph(entities, ()), np.zeros(len(entities), dtype=np.intp)
    vectors = np.ones((len(entities), 3), dtype=np.float32)
    (one,) = aggregate(
        LayerStep(graph, labels, graph, labels), vectors, find_phrases(graph), set(), kind="root"
    )
    return one


def test_a_description_stays_within_its_bound_however_much_there_is_to_say() -> None:
    entities = tuple(
        Entity(
            id=f"e{number}",
            name=f"Station {number}",
            description=" ".join(
                f"Station {number} has {word} platforms of grey stone." for word in "abcdefgh"
            ),
        )
        for number in range(30)
    )
    graph, labels = Graph(entities, ()), np.zeros(30, dtype=np.intp)
    vectors = np.ones((30, 4), dtype=np.float32)
    (one,) = aggregate(
        LayerStep(graph, labels, graph, labels), vectors, find_phrases(graph), set(), kind="root"
    )
    assert word_count(one.description) <= SummaryOptions().words
    assert one.type == "root"


def test_a_higher_layer_quotes_what_its_members_quoted() -> None:
    graph, labels, _ = carol()
    lower = Graph(aggregates(), ())
    step = LayerStep(lower, np.zeros(2, dtype=np.intp), graph, np.zeros_like(labels))
    taken = {name_key(entity.name) for entity in (*graph.entities, *lower.entities)}
    (top,) = aggregate(step, np.eye(2, dtype=np.float32), find_phrases(graph), taken, kind="root")
    quoted = {finding.explanation for entity in lower.entities for finding in entity.findings}
    assert {finding.explanation for finding in top.findings} <= quoted
    assert top.mentions == 8
    assert name_key(top.name) not in {name_key(entity.name) for entity in lower.entities}


def test_members_without_any_text_or_vector_still_make_an_aggregate() -> None:
    entities = (Entity(id="a", name="await"), Entity(id="b", name="42"))
    graph, labels = Graph(entities, ()), np.zeros(2, dtype=np.intp)
    step = LayerStep(graph, labels, graph, labels)
    (one,) = aggregate(
        step, np.zeros((2, 3), dtype=np.float32), find_phrases(graph), {"await", "42"}, kind="root"
    )
    assert one.name == "await and 42"
    assert one.description == ""


def test_a_name_takes_identifiers_last_unless_most_members_are_such() -> None:
    def name_of(types: dict[str, str]) -> str:
        entities = tuple(
            Entity(id=name, name=name, type=type_, mentions=90 if name == "CUDA" else 3 - (name == "driver"))
            for name, type_ in types.items()
        )
        relations = tuple(relation(entities[0], each, "") for each in entities[1:])
        graph, labels = Graph(entities, relations), np.zeros(len(entities), dtype=np.intp)
        step = LayerStep(graph, labels, graph, labels)
        vectors = np.ones((len(entities), 2), dtype=np.float32)
        (one,) = aggregate(step, vectors, find_phrases(graph), {*types}, kind="root")
        return one.name

    types = {"CUDA": "concept", "--gpu": "code", "driver": "concept"}
    assert name_of(types) == "CUDA and driver"
    assert name_of({"CUDA": "concept", "--gpu": "code", "--no-gpu": "code"}) == "CUDA and --gpu"


def test_the_turns_of_a_chat_are_summed_up_with_their_speakers() -> None:
    said = {
        "Fennec": "[21:13] Fennec: Secure Boot needs a signed module, so generate a key",
        "Secure Boot": "[21:10] Quill: I disabled Secure Boot in the BIOS before the module loaded",
    }
    entities = tuple(Entity(id=name, name=name, description=text) for name, text in said.items())
    graph = Graph(entities, ())
    labels = np.zeros(2, dtype=np.intp)
    (cluster,) = aggregate(
        LayerStep(graph, labels, graph, labels),
        np.eye(2, dtype=np.float32),
        find_phrases(graph),
        set(),
        kind="root",
    )
    assert all(text in cluster.description for text in said.values())
