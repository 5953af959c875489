"""Relations between clusters: λ, support and weight against brute force; texts that stay within bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Entity, Evidence, Method, Relation, content_id
from leanrag_engine.hierarchy.relations import CHARACTERS, LayerStep, inter_cluster_relations


def entities(count: int, layer: int = 0) -> tuple[Entity, ...]:
    return tuple(
        Entity(id=f"n{layer}-{number}", name=f"Node {number}", layer=layer) for number in range(count)
    )


def relation(source: Entity, target: Entity, text: str = "", **values: int) -> Relation:
    name = content_id("r", source.id, target.id)
    return Relation(name, source.id, target.id, layer=source.layer, description=text, **values)


def first_step(graph: Graph, labels: list[int]) -> LayerStep:
    """From G0 up: the lower layer is the base."""
    return LayerStep(graph, np.array(labels), graph, np.array(labels))


def edges(draw: st.DrawFn, count: int) -> list[tuple[int, int, int]]:
    pairs = list(combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=40)) if pairs else []
    turned = draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)))
    weights = draw(st.lists(st.integers(1, 9), min_size=len(chosen), max_size=len(chosen)))
    return [
        (second, first, weight) if turn else (first, second, weight)
        for (first, second), turn, weight in zip(chosen, turned, weights, strict=True)
    ]


@st.composite
def two_steps(draw: st.DrawFn) -> tuple[Graph, list[int], list[int]]:
    """G0, the parents of its entities, and the parents of those."""
    count = draw(st.integers(1, 12))
    nodes = entities(count)
    found = tuple(relation(nodes[a], nodes[b], f"{a} and {b}.", weight=w) for a, b, w in edges(draw, count))
    labels = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    _, dense = np.unique(labels, return_inverse=True)
    above = draw(st.lists(st.integers(0, 1), min_size=int(dense.max()) + 1, max_size=int(dense.max()) + 1))
    _, dense_above = np.unique(above, return_inverse=True)
    return Graph(nodes, found), dense.tolist(), dense_above.tolist()


def brute_force(graph: Graph, labels: list[int], first: int, second: int) -> list[Relation]:
    place = {entity.id: number for number, entity in enumerate(graph.entities)}
    return [
        one
        for one in graph.relations
        if {labels[place[one.source_id]], labels[place[one.target_id]]} == {first, second}
    ]


@settings(max_examples=150, deadline=None)
@given(two_steps(), st.integers(0, 4))
def test_strength_support_and_weight_equal_a_count_over_every_pair_on_both_layers(
    case: tuple[Graph, list[int], list[int]], tau: int
) -> None:
    base, labels, above = case
    first_layer = entities(max(labels) + 1, 1)
    relations = inter_cluster_relations(first_step(base, labels), first_layer, tau=tau)
    compare(base, labels, first_layer, relations, base, labels, tau)

    lower = Graph(first_layer, relations)
    lifted = [above[label] for label in labels]
    second_layer = entities(max(above) + 1, 2)
    step = LayerStep(lower, np.array(above), base, np.array(lifted))
    compare(
        lower, above, second_layer, inter_cluster_relations(step, second_layer, tau=tau), base, lifted, tau
    )


def compare(
    lower: Graph,
    labels: list[int],
    upper: tuple[Entity, ...],
    found: tuple[Relation, ...],
    base: Graph,
    lifted: list[int],
    tau: int,
) -> None:
    by_pair = {frozenset((one.source_id, one.target_id)): one for one in found}
    assert len(by_pair) == len(found)
    for first, second in combinations(range(len(upper)), 2):
        beneath = brute_force(lower, labels, first, second)
        one = by_pair.pop(frozenset((upper[first].id, upper[second].id)), None)
        if not beneath:
            assert one is None
            continue
        assert one is not None
        assert one.strength == len(beneath)
        assert one.support == len(brute_force(base, lifted, first, second))
        assert one.weight == sum(each.weight for each in beneath)
        assert one.method is (Method.HEURISTIC if one.strength > tau else Method.JOINED)
        assert one.layer == upper[first].layer
    assert not by_pair, "a relation stands within one cluster"


PEOPLE = tuple(Entity(id=name.lower(), name=name) for name in ("Scrooge", "Marley", "Bob", "Tim", "Fred"))
ABOVE = (Entity(id="firm", name="Firm", layer=1), Entity(id="families", name="Families", layer=1))
LABELS = [0, 0, 1, 1, 1]


def bob_and_others() -> tuple[Relation, ...]:
    scrooge, marley, bob, tim, fred = PEOPLE
    return (
        relation(scrooge, bob, "Scrooge employs Bob. He pays badly.", weight=5),
        relation(fred, scrooge, "Fred invites Scrooge for Christmas.", weight=2),
        relation(scrooge, tim, "Scrooge becomes a second father to Tim.", weight=3),
        relation(marley, bob, "Marley once hired Bob."),
        relation(scrooge, marley, "Scrooge and Marley were partners.", weight=9),
    )


def test_many_relations_become_the_statements_of_the_best_attested_ones() -> None:
    graph = Graph(PEOPLE, bob_and_others())
    (one,) = inter_cluster_relations(first_step(graph, LABELS), ABOVE, tau=3)
    assert (one.method, one.strength, one.support, one.weight) == (Method.HEURISTIC, 4, 4, 11)
    assert (one.source_id, one.target_id) == ("firm", "families"), "three of four start from the firm"
    assert one.description == "Scrooge employs Bob. Scrooge becomes a second father to Tim."


def test_of_relations_between_clusters_the_one_with_most_beneath_comes_first_not_the_most_mentioned() -> None:
    nodes = entities(4, layer=1)
    found = (
        relation(nodes[0], nodes[2], "Often mentioned.", support=1, weight=9),
        relation(nodes[1], nodes[3], "Rests on three.", support=3, weight=3),
    )
    labels = np.array([0, 0, 1, 1])
    step = LayerStep(Graph(nodes, found), labels, Graph(nodes, found), labels)
    (one,) = inter_cluster_relations(step, entities(2, layer=2), tau=2)
    assert one.description == "Rests on three. Often mentioned."


def test_few_relations_are_joined_with_the_best_attested_first() -> None:
    graph = Graph(PEOPLE, bob_and_others())
    (one,) = inter_cluster_relations(first_step(graph, LABELS), ABOVE, tau=4)
    assert one.method is Method.JOINED
    assert one.description == (
        "Scrooge employs Bob. Scrooge becomes a second father to Tim."
        " Fred invites Scrooge for Christmas. Marley once hired Bob."
    )


def test_the_example_is_a_sentence_that_names_both_ends() -> None:
    scrooge, _, bob, tim, fred = PEOPLE
    graph = Graph(
        PEOPLE,
        (
            relation(
                scrooge, bob, "The office was cold. Bob warmed himself while Scrooge watched.", weight=4
            ),
            relation(scrooge, tim, "It ended well."),
            relation(scrooge, fred, "They met."),
        ),
    )
    (one,) = inter_cluster_relations(first_step(graph, LABELS), ABOVE, tau=0)
    assert one.description.endswith("Bob warmed himself while Scrooge watched.")


TOGETHER = "Ebenezer York Scrooge and Bob Cratchit (clerk) stand in the same passage."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Its clerk Bob Cratchit warmed Ebenezer Scrooge.", TOGETHER),
        ("The York office paid Bob Cratchit.", TOGETHER),
        ("Old Scrooge paid Bob Cratchit.", "Old Scrooge paid Bob Cratchit."),
    ],
)
@pytest.mark.parametrize("tau", [0, 3])
def test_a_sentence_between_clusters_stands_alone_and_names_the_heads_of_both_ends(
    text: str, shown: str, tau: int
) -> None:
    scrooge, bob = (
        replace(PEOPLE[0], name="Ebenezer York Scrooge"),
        replace(PEOPLE[2], name="Bob Cratchit (clerk)"),
    )
    graph = Graph((scrooge, PEOPLE[1], bob, *PEOPLE[3:]), (relation(scrooge, bob, text),))
    (one,) = inter_cluster_relations(first_step(graph, LABELS), ABOVE, tau=tau)
    assert one.description == shown


def test_joined_texts_of_a_higher_layer_are_those_beneath() -> None:
    lower = Graph(
        (*ABOVE, Entity(id="ghosts", name="Ghosts", layer=1)),
        (Relation("r1", "ghosts", "families", layer=1, description="The spirits show the feast."),),
    )
    upper = (Entity(id="x", name="X", layer=2), Entity(id="y", name="Y", layer=2))
    step = LayerStep(lower, np.array([0, 0, 1]), Graph(PEOPLE, ()), np.array(LABELS))
    (one,) = inter_cluster_relations(step, upper, tau=3)
    assert one.description == "The spirits show the feast."
    assert (one.source_id, one.target_id) == ("y", "x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Scrooge and Bob",
        "Is Scrooge kind to Bob?",
        "O Scrooge, O Bob!",
        "Scrooge met a clerk.",
        "| Scrooge | Bob |",
        "Scrooge, Bob:",
    ],
)
@pytest.mark.parametrize("tau", [0, 3])
def test_a_text_that_states_nothing_about_both_ends_gives_way_to_their_names_and_passage(
    text: str, tau: int
) -> None:
    """``Concat(R)`` of eq. 5 is never empty, and says no more than is known."""
    beneath = replace(relation(PEOPLE[0], PEOPLE[2], text), chunk_ids=("c3",))
    (one,) = inter_cluster_relations(first_step(Graph(PEOPLE, (beneath,)), LABELS), ABOVE, tau=tau)
    assert one.description == "Scrooge and Bob stand in the same passage."
    assert [each.chunk_id for each in one.evidence] == ["c3"]
    assert one.strength == 1


def test_an_imported_relation_without_a_text_is_said_to_relate_its_ends() -> None:
    beneath = replace(relation(PEOPLE[0], PEOPLE[2]), method=Method.IMPORTED)
    (one,) = inter_cluster_relations(first_step(Graph(PEOPLE, (beneath,)), LABELS), ABOVE, tau=3)
    assert one.description == "Scrooge and Bob are related."


def test_what_a_model_wrote_counts_as_it_is() -> None:
    written = replace(relation(PEOPLE[0], PEOPLE[2], "employment, badly paid"), method=Method.MODEL)
    (one,) = inter_cluster_relations(first_step(Graph(PEOPLE, (written,)), LABELS), ABOVE, tau=3)
    assert one.description == "employment, badly paid."


@pytest.mark.parametrize("length", [40, 299, 400, 2000])
def test_a_joined_text_keeps_its_bound_and_never_cuts_a_sentence(length: int) -> None:
    scrooge, marley, bob, tim, _ = PEOPLE
    sentence = f"Scrooge and Marley met Bob and Tim, {'x' * (length - 36)}."
    pairs = ((scrooge, bob), (scrooge, tim), (marley, bob))
    graph = Graph(PEOPLE, tuple(relation(a, b, f"{sentence} {sentence}") for a, b in pairs))
    (one,) = inter_cluster_relations(first_step(graph, LABELS), ABOVE, tau=3)
    assert len(one.description) <= CHARACTERS
    left = one.description.replace(sentence, "").strip()
    assert not left or (length > CHARACTERS and left.startswith("Scrooge and Bob stand in the same passage."))


def test_a_sentence_that_states_several_relations_is_said_once() -> None:
    scrooge, marley, bob, tim, fred = PEOPLE
    shared = "Scrooge, Marley, Bob, Fred and Tim share the turkey."
    graph = Graph(
        PEOPLE,
        (
            relation(scrooge, bob, shared, weight=2),
            relation(scrooge, tim, f"{shared} Scrooge laughs with Tim."),
            relation(marley, fred, shared),
        ),
    )
    (one,) = inter_cluster_relations(first_step(graph, LABELS), ABOVE, tau=3)
    assert one.description == f"{shared} Scrooge laughs with Tim."


def test_the_id_does_not_depend_on_the_direction() -> None:
    scrooge, bob = PEOPLE[0], PEOPLE[2]
    there = inter_cluster_relations(
        first_step(Graph(PEOPLE, (relation(scrooge, bob),)), LABELS), ABOVE, tau=3
    )
    back = inter_cluster_relations(first_step(Graph(PEOPLE, (relation(bob, scrooge),)), LABELS), ABOVE, tau=3)
    assert there[0].id == back[0].id
    assert (there[0].source_id, back[0].source_id) == ("firm", "families")


def test_each_sentence_of_a_joined_text_names_the_chunk_that_says_it() -> None:
    scrooge, marley, bob, tim, _ = PEOPLE
    first = "Scrooge employs Bob. Bob likes Scrooge."
    told = (
        replace(
            relation(scrooge, bob, first, weight=5),
            chunk_ids=("c1", "c2"),
            evidence=(Evidence(0, 20, "c2"), Evidence(21, 39, "c1")),
        ),
        replace(relation(marley, tim, "Marley never met Tim."), chunk_ids=("c7",)),
    )
    (one,) = inter_cluster_relations(first_step(Graph(PEOPLE, told), LABELS), ABOVE, tau=3)
    shown = [(one.description[each.start : each.end], each.chunk_id) for each in one.evidence]
    assert shown == [
        ("Scrooge employs Bob.", "c2"),
        ("Bob likes Scrooge.", "c1"),
        ("Marley never met Tim.", "c7"),
    ]
    (summed,) = inter_cluster_relations(first_step(Graph(PEOPLE, told), LABELS), ABOVE, tau=1)
    shown = [(summed.description[each.start : each.end], each.chunk_id) for each in summed.evidence]
    assert shown == [("Scrooge employs Bob.", "c2"), ("Bob likes Scrooge.", "c1")]


def test_a_pair_with_one_relation_keeps_its_text_and_evidence() -> None:
    scrooge, bob = PEOPLE[0], PEOPLE[2]
    only = replace(
        relation(scrooge, bob, "Scrooge employs Bob. Bob likes Scrooge."),
        chunk_ids=("c1", "c2"),
        evidence=(Evidence(0, 20, "c2"), Evidence(21, 39, "c1")),
    )
    (one,) = inter_cluster_relations(first_step(Graph(PEOPLE, (only,)), LABELS), ABOVE, tau=3)
    assert (one.description, one.evidence) == (only.description, only.evidence)
