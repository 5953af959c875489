"""Statements: each sentence of what the graph says, with the passages that it was taken from."""

from __future__ import annotations

from leanrag_engine.core.graphs.texts import cut_sentences
from leanrag_engine.core.model import Entity, Evidence, Finding, Method, Relation
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.retrieval.context.statements import (
    LineCitations,
    entity_statements,
    is_written,
    relation_statements,
)

FIRST, SECOND = "They tend lamps along the coast.", "The beam is turned by hand all night."
CLUSTER = Entity(
    "c1",
    "Keepers of\nthe light",
    layer=1,
    description=f"{FIRST} {SECOND}",
    findings=(Finding("Wages are low.", "Nobody is paid more than a clerk."), Finding("Oil is dear.", "")),
)
START = len(FIRST) + 1


def test_each_sentence_cites_its_own_passages_and_else_those_that_support_the_whole() -> None:
    origins = {"c1": ((0, len(FIRST), "d1:c1"), (START, START + len(SECOND), "d3:c9"))}
    known = LineCitations({"c1": ("d8:c8",)}, origins)
    first, second, *_ = entity_statements(CLUSTER, known)
    assert (first.text, first.citations, first.kind) == (FIRST, ("d1:c1",), "summary")
    assert (second.text, second.citations) == (SECOND, ("d3:c9",))
    half = LineCitations({"c1": ("d8:c8",)}, {"c1": origins["c1"][:1]})
    assert [each.citations for each in entity_statements(CLUSTER, half)[:2]] == [("d1:c1",), ("d8:c8",)]


def test_a_sentence_whose_own_passage_is_gone_cites_no_other() -> None:
    evidence = (Evidence(0, len(FIRST), "gone"), Evidence(START, START + len(SECOND), "held"))
    entity = Entity("e1", "Keepers", layer=0, description=f"{FIRST} {SECOND}", evidence=evidence)
    known = LineCitations({"e1": ("d3:c9", "d8:c8")}, {"e1": ((START, START + len(SECOND), "d3:c9"),)})
    assert [(each.text, each.citations) for each in entity_statements(entity, known)] == [
        (SECOND, ("d3:c9",))
    ]


def test_a_finding_is_a_statement_of_its_own_and_names_stand_on_one_line() -> None:
    made = entity_statements(CLUSTER, LineCitations({"c1": ("d8:c8", "d9:c9", "d10:c10")}))
    assert [each.text for each in made if each.kind == "finding"] == [
        "Wages are low. Nobody is paid more than a clerk.",
        "Oil is dear.",
    ]
    assert {each.subject for each in made} == {"Keepers of the light"}
    assert {each.citations for each in made} == {("d8:c8", "d9:c9")}


def test_what_no_passage_supports_any_more_is_not_said() -> None:
    assert entity_statements(CLUSTER, LineCitations({})) == []
    relation = Relation("r", "a", "b", description=FIRST)
    assert relation_statements(relation, {"a": "Ada", "b": "Bell"}, LineCitations({})) == []


def test_the_subject_of_a_relation_is_its_two_ends() -> None:
    relation = Relation("r", "a", "b", description=FIRST)
    (made,) = relation_statements(relation, {"a": "Ada", "b": "Bell"}, LineCitations({"r": ("d1:c1",)}))
    assert (made.subject, made.text, made.kind) == ("Ada — Bell", FIRST, "relation")


def test_written_is_what_a_model_or_an_agent_made() -> None:
    assert not is_written([CLUSTER])
    assert is_written([CLUSTER, Relation("r", "a", "b", method=Method.AGENT)])


def test_a_chat_line_without_a_full_stop_does_not_take_the_next_quotation_under_its_citation() -> None:
    turn = "[18:05:47] Tobiah: who cooks? last year Marguerites soup was the hit"
    minutes = "Present: Ines, Tobiah, Marguerite, Wren (took notes)."
    text, start = f"{turn} {minutes}", len(turn) + 1
    evidence = (Evidence(0, len(turn), "k2"), Evidence(start, len(text), "k21"))
    relation = Relation("r", "a", "b", description=text, evidence=evidence)
    origins = {"r": ((0, len(turn), "d2:c1"), (start, len(text), "d21:c1"))}
    made = relation_statements(relation, {"a": "Tobiah", "b": "Marguerite"}, LineCitations({}, origins))
    assert [(each.text, each.citations) for each in made] == [(turn, ("d2:c1",)), (minutes, ("d21:c1",))]


def test_written_texts_are_cut_into_sentences_alone_so_that_the_stored_ids_stay() -> None:
    text = "Cold store: A room behind the shed. It holds the E. coli samples. Dr. Oduya has the key."
    spans = sentences(text)
    evidence = tuple(Evidence(*span, "k1") for span in spans[1:])
    for held in (evidence, ()):
        written = Entity("e", "Cold store", description=text, method=Method.MODEL, evidence=held)
        cut = [(each.id, each.start) for each in cut_sentences(written)]
        assert cut == [(f"e#{number}", start) for number, (start, _) in enumerate(spans)]
