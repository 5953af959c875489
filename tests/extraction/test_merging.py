"""Merging extracts into G0, against a brute-force reading of the same extracts."""

import pydoc_data.topics
import random
from collections import Counter
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leanrag_tests_merging import merge

from leanrag_engine.core.errors import Cancelled
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import (
    Chunk,
    Entity,
    Evidence,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    Method,
    Relation,
    Staleness,
)
from leanrag_engine.core.ports import Progress
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.extraction import merging
from leanrag_engine.extraction.heuristic.extract import extract
from leanrag_engine.extraction.merging import select_fitting


def said(
    chunk: str,
    *entities: ExtractedEntity | str,
    relations: tuple[ExtractedRelation, ...] = (),
    method: Method = Method.MODEL,
) -> Extract:
    """An extract; a bare name stands for an entity of that name."""
    found = tuple(ExtractedEntity(entity) if isinstance(entity, str) else entity for entity in entities)
    return Extract(chunk, method, found, relations)


def by_name(graph: Graph) -> dict[str, Entity]:
    return {entity.name: entity for entity in graph.entities}


def ends(graph: Graph) -> dict[frozenset[str], int]:
    names = {entity.id: entity.name for entity in graph.entities}
    return {frozenset((names[r.source_id], names[r.target_id])): r.weight for r in graph.relations}


def test_a_heading_comes_behind_the_sentences_and_is_not_glued_before_one() -> None:
    line = said("c1", ExtractedEntity("Bell Rock", description="Bell Rock"), method=Method.HEURISTIC)
    sentence = ExtractedEntity("Bell Rock", description="The Bell Rock was lit in 1811.")
    merged = merge([line, said("c2", sentence, method=Method.HEURISTIC)])
    assert by_name(merged)["Bell Rock"].description == "The Bell Rock was lit in 1811. Bell Rock"


# --- what was merged before -----------------------------------------------------------------


def told(chunk: str, name: str, text: str) -> Extract:
    return said(chunk, ExtractedEntity(name, description=text), "Oban", method=Method.HEURISTIC)


TOLD = [
    told("c1", "Ewan Reid", "Ewan Reid is a baker. He lives in Oban."),
    told("c1b", "Ewan Reid", "Ewan Reid was born in 1801."),
    told("c2", "Moira Kerr", "Moira Kerr keeps a lighthouse."),
    told("c2b", "Moira Kerr", "Moira Kerr writes letters. She sings."),
]


def test_a_description_is_merged_again_only_where_another_statement_came() -> None:
    before = merge(TOLD)
    held = Graph(tuple(replace(each, description=f"Held: {each.id}") for each in before.entities), ())
    more = [*TOLD, told("c3", "Moira Kerr", "Moira Kerr has moved to Mull.")]
    after, anew = by_name(merge(more, previous=held)), by_name(merge(more))
    assert after["Ewan Reid"].description == f"Held: {after['Ewan Reid'].id}"
    assert after["Moira Kerr"] == anew["Moira Kerr"]
    assert "Mull" in after["Moira Kerr"].description


@pytest.mark.parametrize(
    "other",
    [
        [*TOLD[:1], replace(TOLD[1], chunk_id="c9"), *TOLD[2:]],
        [TOLD[1], TOLD[0], *TOLD[2:]],
        [*TOLD, replace(TOLD[1], chunk_id="c9")],
        [*TOLD[:1], replace(TOLD[1], method=Method.MODEL), *TOLD[2:]],
        TOLD[:3],
    ],
    ids=["another chunk", "another order", "a repetition", "another method", "a statement less"],
)
def test_what_was_merged_from_other_statements_is_not_used_again(other: list[Extract]) -> None:
    assert merge(other, previous=merge(TOLD)) == merge(other)


# --- progress ------------------------------------------------------------------------------


# An id is made of the ends alone.
@pytest.mark.parametrize("name", [each.name for each in fields(Relation) if each.name != "id"])
def test_a_relation_of_before_that_differs_in_anything_is_made_again(name: str) -> None:
    text = "Ada Stone met Bo Reed."
    extracts = [
        Extract(
            "k1",
            Method.HEURISTIC,
            (ExtractedEntity("Ada Stone"), ExtractedEntity("Bo Reed")),
            (ExtractedRelation("Ada Stone", "Bo Reed", text, type="met"),),
        )
    ]
    held = merge(extracts)
    (relation,) = held.relations
    assert merge(extracts, previous=held).relations[0] is relation
    others = {
        "layer": 1,
        "method": Method.MODEL,
        "strength": 2,
        "weight": 2,
        "support": 2,
        "chunk_ids": ("k2",),
        "evidence": (Evidence(0, len(text), "k2"),),
        "stale": Staleness(1),
        "types": ("saw",),
    }
    other = replace(relation, **{name: others.get(name, "else")})
    assert other != relation
    assert merge(extracts, previous=replace(held, relations=(other,))) == held


def test_merging_reports_progress_and_stops_when_the_report_raises() -> None:
    extracts = [said(f"c{number}", f"Node {number}", f"Node {number + 1}") for number in range(5000)]
    heard: list[Progress] = []
    assert merge(extracts, report=heard.append) == merge(extracts)
    assert [(each.message, each.done, each.total) for each in heard] == [
        *(("extracts", done, 5000) for done in (0, 2000, 4000)),
        *(("statements", done, 5000) for done in (0, 2000, 4000)),
        *(("entities", done, 5001) for done in (0, 2000, 4000)),
    ]

    def stop(progress: Progress) -> None:
        if progress.done:
            raise Cancelled("Enough.")

    with pytest.raises(Cancelled):
        merge(extracts, report=stop)


# --- entities ------------------------------------------------------------------------------


def test_forms_of_one_name_become_one_entity_that_keeps_every_mention() -> None:
    graph = merge(
        [
            said("c1", "Context Managers"),
            said("c2", "context manager"),
            said("c3", "the context manager"),
            said("c4", "context manager"),
        ]
    )
    (entity,) = graph.entities
    assert entity.name == "context manager"
    assert entity.chunk_ids == ("c1", "c2", "c3", "c4")
    assert entity.mentions == 4
    assert entity.aliases == ("Context Managers", "the context manager")


def test_of_forms_that_come_equally_often_the_first_is_the_name() -> None:
    assert merge([said("c1", "Graph Store"), said("c2", "graph store")]).entities[0].name == "Graph Store"


def test_a_chunk_that_mentions_an_entity_twice_counts_once() -> None:
    (entity,) = merge([said("c1", "Scrooge", "scrooge")]).entities
    assert (entity.mentions, entity.chunk_ids) == (1, ("c1",))


def test_entities_come_in_the_order_of_their_first_mention_and_have_no_parent() -> None:
    graph = merge([said("c1", "B", "A"), said("c2", "C", "A")])
    assert [entity.name for entity in graph.entities] == ["B", "A", "C"]
    assert {(entity.parent_id, entity.layer) for entity in graph.entities} == {(None, 0)}


def test_the_type_is_voted_and_a_telling_one_beats_a_vague_one() -> None:
    types = ["concept", "name", "person", "place", "person"]
    graph = merge([said(f"c{n}", ExtractedEntity("Washington", type_)) for n, type_ in enumerate(types)])
    assert graph.entities[0].type == "person"


def test_one_odd_vote_among_many_does_not_make_the_type() -> None:
    votes = [*["name"] * 9, "person"]
    graph = merge([said(f"c{n}", ExtractedEntity("Canada", type_)) for n, type_ in enumerate(votes)])
    assert graph.entities[0].type == "name"


def test_an_acronym_that_the_corpus_defines_is_its_long_form_everywhere() -> None:
    defined = ExtractedEntity("Gaussian mixture model", aliases=("GMM",))
    graph = merge([said("c1", "GMM"), said("c2", defined), said("c3", "GMMs")])
    (entity,) = graph.entities
    assert entity.name == "GMM"  # most frequent form
    assert set(entity.aliases) >= {"Gaussian mixture model"}
    assert entity.chunk_ids == ("c1", "c2", "c3")


def test_an_acronym_with_two_meanings_stays_by_itself() -> None:
    graph = merge(
        [
            said("c1", ExtractedEntity("American Medical Association", aliases=("AMA",))),
            said("c2", ExtractedEntity("Ask Me Anything", aliases=("AMA",))),
            said("c3", "AMA"),
        ]
    )
    assert [entity.name for entity in graph.entities] == [
        "American Medical Association",
        "Ask Me Anything",
        "AMA",
    ]


def test_a_surname_of_one_document_does_not_swallow_that_of_another() -> None:
    graph = merge([said("c1", ExtractedEntity("Carl Rogers", aliases=("Rogers",))), said("c2", "Rogers")])
    assert [entity.name for entity in graph.entities] == ["Carl Rogers", "Rogers"]
    assert graph.entities[0].aliases == ("Rogers",)


def test_names_that_differ_in_sign_stay_apart() -> None:
    names = ["C", "C++", "C#", "__init__", "init", "os.path", "William", "Williams"]
    assert [entity.name for entity in merge([said("c1", *names)]).entities] == names


def test_blank_names_are_left_out() -> None:
    assert merge([said("c1", " ", "\n", "x")]).entities[0].name == "x"


def test_two_keys_with_one_digest_get_two_ids_whatever_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        merging, "content_id", lambda prefix, *parts: prefix + parts[0][0] + "".join(parts[1:])
    )
    one = {entity.name: entity.id for entity in merge([said("c1", "aa", "ab", "ac")]).entities}
    other = {entity.name: entity.id for entity in merge([said("c1", "ac", "ab", "aa")]).entities}
    assert one == other
    assert len(set(one.values())) == len(one)


# --- relations -----------------------------------------------------------------------------


def test_relations_of_a_pair_are_one_whichever_end_comes_first() -> None:
    graph = merge(
        [
            said(
                "c1",
                "A",
                "B",
                relations=(
                    ExtractedRelation("A", "B", "A helps B."),
                    ExtractedRelation("b", "a", "B helps A."),
                ),
            ),
            said("c2", "a", "B", relations=(ExtractedRelation("B", "a", "A helps B."),)),
        ]
    )
    (relation,) = graph.relations
    assert relation.weight == 3
    assert relation.chunk_ids == ("c1", "c2")
    assert relation.description == "A helps B. B helps A."


def test_relations_to_itself_or_to_no_entity_are_left_out() -> None:
    relations = (
        ExtractedRelation("A", "the A"),
        ExtractedRelation("A", "Nobody"),
        ExtractedRelation("", "A"),
    )
    assert merge([said("c1", "A", "B", relations=relations)]).relations == ()


def test_a_relation_of_an_acronym_is_one_of_its_long_form() -> None:
    graph = merge(
        [
            said(
                "c1",
                ExtractedEntity("Lowest Common Ancestor", aliases=("LCA",)),
                "tree",
                relations=(ExtractedRelation("Lowest Common Ancestor", "tree"),),
            ),
            said("c2", "LCA", "tree", relations=(ExtractedRelation("tree", "LCA"),)),
        ]
    )
    assert len(graph.relations) == 1
    assert graph.relations[0].weight == 2


# --- noise ---------------------------------------------------------------------------------


def test_a_weak_term_of_one_chunk_goes_and_one_of_two_chunks_stays() -> None:
    term = ExtractedEntity("heavy door", "term")
    strong = ExtractedEntity("Scrooge", "person")
    once = merge([said("c1", strong, term, method=Method.HEURISTIC)])
    twice = merge([said(f"c{n}", strong, term, method=Method.HEURISTIC) for n in (1, 2)])
    assert by_name(once).keys() == {"Scrooge"}
    assert by_name(twice).keys() == {"Scrooge", "heavy door"}


def test_what_goes_takes_its_relations_with_it() -> None:
    entities = (ExtractedEntity("Scrooge", "person"), ExtractedEntity("heavy door", "term"))
    graph = merge(
        [
            said(
                "c1",
                *entities,
                relations=(ExtractedRelation("Scrooge", "heavy door"),),
                method=Method.HEURISTIC,
            )
        ]
    )
    assert graph.relations == ()


def test_a_relation_without_a_statement_stays_only_where_it_alone_connects() -> None:
    told = [
        ExtractedRelation("Ann", "Bob", "Ann met Bob."),
        ExtractedRelation("Carl", "Dora", "Carl met Dora."),
    ]
    idle = [ExtractedRelation("Ann", "Carl"), ExtractedRelation("Ann", "Emil")]
    people = ("Ann", "Bob", "Carl", "Dora", "Emil")

    def pairs(method: Method) -> set[frozenset[str]]:
        first = said("c1", *people, relations=tuple(told), method=Method.HEURISTIC)
        return set(ends(merge([first, said("c2", *people, relations=tuple(idle), method=method)])))

    stated = {frozenset(("Ann", "Bob")), frozenset(("Carl", "Dora"))}
    assert pairs(Method.HEURISTIC) == {*stated, frozenset(("Ann", "Emil"))}
    assert pairs(Method.MODEL) == {*stated, frozenset(("Ann", "Carl")), frozenset(("Ann", "Emil"))}


def test_a_chunk_never_loses_all_it_has() -> None:
    weak = [ExtractedEntity("heavy door", "term"), ExtractedEntity("cold fog", "term")]
    assert by_name(merge([said("c1", *weak, method=Method.HEURISTIC)])).keys() == {"heavy door", "cold fog"}


@pytest.mark.parametrize("method", [Method.MODEL, Method.AGENT])
def test_what_a_model_or_an_agent_found_always_stays(method: Method) -> None:
    graph = merge([said("c1", ExtractedEntity("heavy door", "term"), "Scrooge", method=method)])
    assert by_name(graph).keys() == {"heavy door", "Scrooge"}


# --- descriptions --------------------------------------------------------------------------


def described(*texts: str, method: Method = Method.HEURISTIC, name: str = "Billboard") -> Entity:
    return merge(
        [said(f"c{n}", ExtractedEntity(name, "work", text), method=method) for n, text in enumerate(texts)]
    ).entities[0]


def test_a_definition_comes_first_and_nothing_is_said_twice() -> None:
    entity = described(
        "He read Billboard.", "Billboard is a magazine. He read Billboard.", "He  read\nBillboard."
    )
    assert entity.description == "Billboard is a magazine. He read Billboard."


def test_of_sentences_that_define_nothing_the_one_that_more_chunks_state_comes_first() -> None:
    found = described(
        "Ads hang there.", "We saw it.", "Ads hang there.", "It is old.", "It is old.", "It is old."
    )
    assert found.description == "It is old. Ads hang there. We saw it."


def test_a_models_description_comes_before_heuristic_ones_and_gives_the_method() -> None:
    extracts = [
        said("c1", ExtractedEntity("X", "work", "X is a thing."), method=Method.HEURISTIC),
        said("c2", ExtractedEntity("X", "work", "Told by a model."), method=Method.MODEL),
    ]
    (entity,) = merge(extracts).entities
    assert entity.description == "Told by a model. X is a thing."
    assert entity.method is Method.MODEL
    assert described("X is a thing.").method is Method.HEURISTIC


def test_long_descriptions_end_with_a_sentence_within_the_bound() -> None:
    texts = [
        f"Billboard number {n} said that the chart of the week was led by one more song." for n in range(50)
    ]
    entity = described(*texts)
    assert 80 < word_count(entity.description) <= 120
    assert entity.description.endswith("song.")


def test_sentences_that_do_not_fit_are_passed_over() -> None:
    assert select_fitting(["One two three.", "Four five six seven.", "Eight."], 4) == [
        "One two three.",
        "Eight.",
    ]
    assert select_fitting(["Far too long a sentence."], 2) == ["Far too long a sentence."]
    assert select_fitting([], 5) == []


def test_each_sentence_of_a_description_names_the_first_chunk_that_says_it() -> None:
    graph = merge(
        [
            said("c1", ExtractedEntity("Fan", description="She met Fan."), method=Method.HEURISTIC),
            said(
                "c2",
                ExtractedEntity("Fan", description="Fan is a girl. She came home."),
                method=Method.HEURISTIC,
            ),
            said(
                "c3",
                ExtractedEntity("Fan", description="Fan is a girl. She went away."),
                method=Method.HEURISTIC,
            ),
        ]
    )
    (fan,) = graph.entities
    shown = [(fan.description[each.start : each.end], each.chunk_id) for each in fan.evidence]
    assert shown == [
        ("Fan is a girl.", "c2"),
        ("She met Fan.", "c1"),
        ("She came home.", "c2"),
        ("She went away.", "c3"),
    ]


# --- whatever the extracts -----------------------------------------------------------------

NAMES = [
    "Scrooge",
    "scrooge",
    "Bob Cratchit",
    "context manager",
    "Context Managers",
    "C++",
    "C",
    "GMM",
    "Gaussian mixture model",
    " ",
    "知识图谱",
]
TYPES = ["term", "concept", "person", "name"]
entity_lists = st.lists(
    st.builds(
        ExtractedEntity,
        st.sampled_from(NAMES),
        st.sampled_from(TYPES),
        st.sampled_from(["", "It is here.", "Scrooge is a man. He is old."]),
        st.sampled_from([(), ("GMM",), ("Ebenezer",)]),
    ),
    max_size=6,
).map(tuple)
relation_lists = st.lists(
    st.builds(
        ExtractedRelation, st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(["", "They met."])
    ),
    max_size=5,
).map(tuple)
extract_lists = st.lists(
    st.tuples(st.sampled_from(list(Method)[:3]), entity_lists, relation_lists), max_size=8
).map(lambda items: [Extract(f"c{number}", *item) for number, item in enumerate(items)])


@settings(max_examples=200, deadline=None)
@given(extract_lists)
def test_merging_keeps_every_mention_and_every_relation_has_its_ends(extracts: list[Extract]) -> None:
    graph = merge(extracts)
    ids = [entity.id for entity in graph.entities]
    assert len(set(ids)) == len(ids)
    pairs = [frozenset((relation.source_id, relation.target_id)) for relation in graph.relations]
    assert len(set(pairs)) == len(pairs)
    assert all(len(pair) == 2 and pair <= set(ids) for pair in pairs)
    for found in extracts:
        named = [entity for entity in found.entities if name_key(entity.name)]
        here = [entity for entity in graph.entities if found.chunk_id in entity.chunk_ids]
        forms = {name_key(form) for entity in here for form in (entity.name, *entity.aliases)}
        pruned = {entity.name for entity in named if name_key(entity.name) not in forms}
        assert not pruned or found.method is Method.HEURISTIC
        assert all(entity.type == "term" for entity in named if entity.name in pruned)
        assert bool(here) == bool(named)
    for entity in graph.entities:
        assert entity.mentions == len(entity.chunk_ids) == len(set(entity.chunk_ids))
        assert list(entity.chunk_ids) == sorted(entity.chunk_ids)


@settings(max_examples=100, deadline=None)
@given(extract_lists, st.randoms(use_true_random=False))
def test_the_order_of_relations_within_an_extract_changes_no_entity_and_nothing_that_is_stated(
    extracts: list[Extract], chance: random.Random
) -> None:
    shuffled = [
        replace(found, relations=tuple(chance.sample(found.relations, len(found.relations))))
        for found in extracts
    ]
    one, other = merge(extracts), merge(shuffled)

    def stated(graph: Graph) -> dict[frozenset[str], int]:
        return ends(replace(graph, relations=tuple(each for each in graph.relations if each.description)))

    def connected(graph: Graph) -> set[str]:
        return {end for each in graph.relations for end in (each.source_id, each.target_id)}

    # Of several pairs without a sentence that could connect an entity, the first is kept: their order decides.
    assert stated(one) == stated(other)
    assert connected(one) == connected(other)
    assert one.entities == other.entities


@settings(max_examples=100, deadline=None)
@given(extract_lists)
def test_merging_is_deterministic_and_a_second_copy_adds_nothing_but_weight(extracts: list[Extract]) -> None:
    once = merge(extracts)
    assert merge(list(extracts)) == once
    twice = merge([*extracts, *extracts])
    assert [entity.id for entity in twice.entities] == [entity.id for entity in once.entities]
    assert [relation.id for relation in twice.relations] == [relation.id for relation in once.relations]
    assert [entity.chunk_ids for entity in twice.entities] == [entity.chunk_ids for entity in once.entities]
    assert [relation.weight for relation in twice.relations] == [
        2 * relation.weight for relation in once.relations
    ]


def test_nothing_merges_to_nothing() -> None:
    assert merge([]) == Graph((), ())
    assert merge([Extract("c1", Method.HEURISTIC)]) == Graph((), ())


def test_the_ids_of_a_real_corpus_do_not_depend_on_what_else_is_in_it() -> None:
    documents = dict(list(pydoc_data.topics.topics.items())[:12])
    extracts = {
        name: extract([Chunk(f"{name}:1", name, 1, text, 0, len(text), len(text) // 4)], name)
        for name, text in documents.items()
    }
    whole = merge([found for name in documents for found in extracts[name]])
    part = merge([found for name in list(documents)[:6] for found in extracts[name]])
    whole_ids = {name_key(entity.name): entity.id for entity in whole.entities}
    shared = [entity for entity in part.entities if name_key(entity.name) in whole_ids]
    assert len(shared) > 20
    assert all(whole_ids[name_key(entity.name)] == entity.id for entity in shared)
    for entity in whole.entities:
        assert word_count(entity.description) <= 120
        assert len(set(sentences(entity.description))) == len(sentences(entity.description))


# --- names that several entities share -----------------------------------------------------


def in_documents(**chunks: str) -> dict[str, str]:
    return chunks


def test_the_kings_of_two_books_are_two() -> None:
    graph = merge(
        [
            said("a1", "King", "Alice Liddell", "croquet"),
            said("a2", "King", "Alice Liddell"),
            said("b1", "King", "Dorothy Gale"),
        ],
        documents=in_documents(a1="a", a2="a", b1="b"),
    )
    assert [(entity.name, entity.chunk_ids) for entity in graph.entities if entity.name == "King"] == [
        ("King", ("a1", "a2")),
        ("King", ("b1",)),
    ]
    assert len({entity.id for entity in graph.entities}) == len(graph.entities)


@pytest.mark.parametrize(
    ("name", "first", "second", "entities"),
    [
        ("China", "China has a long coast.", "He left China in 1989. Rail in China is fast.", 1),
        ("Python", "The Python language is old.", "Python was made by Guido.", 1),
        ("Lion", "The Lion roared at Alice.", "The Lion was a coward.", 2),
        ("Parliament", "She sits in Parliament.", "The Parliament met. Parliament was dissolved.", 2),
    ],
)
def test_a_word_of_the_language_names_several_only_if_it_stands_after_articles(
    name: str, first: str, second: str, entities: int
) -> None:
    graph = merge(
        [
            said("a1", ExtractedEntity(name, description=first), "Ann Lee"),
            said("b1", ExtractedEntity(name, description=second), "Bob Ray"),
        ],
        documents=in_documents(a1="a", b1="b"),
    )
    assert len([each for each in graph.entities if each.name == name]) == entities


def test_a_shared_name_in_a_context_that_agrees_is_one() -> None:
    extracts = [
        said("a1", "King", "Alice Liddell"),
        said("b1", "King", "Alice Liddell"),
        said("c1", "Queen", "tea"),
    ]
    graph = merge(extracts, documents=in_documents(a1="a", b1="b", c1="c"))
    assert [entity.mentions for entity in graph.entities if entity.name == "King"] == [2]


def test_a_work_that_is_called_like_a_thing_is_not_that_thing() -> None:
    def wall(document: str, name: str, type_: str) -> Extract:
        return said(f"{document}1", "Ann Lee", ExtractedEntity(name, type_), method=Method.HEURISTIC)

    read = [wall("a", "The Wall", "work"), wall("b", "wall", "concept"), wall("c", "The Wall", "name")]
    graph = merge(
        [*read, wall("d", "wall", "concept")], documents=in_documents(a1="a", b1="b", c1="c", d1="d")
    )
    found = {entity.name: entity.chunk_ids for entity in graph.entities if entity.name != "Ann Lee"}
    assert found == {"The Wall": ("a1", "c1"), "wall": ("b1", "d1")}


def test_first_names_of_two_documents_are_one_if_they_know_the_same_person() -> None:
    extracts = [said("a1", "John", "Mary"), said("b1", "John", "Mary"), said("c1", "John", "rent")]
    graph = merge(extracts, documents=in_documents(a1="a", b1="b", c1="c"))
    assert [entity.chunk_ids for entity in graph.entities if entity.name == "John"] == [("a1", "b1"), ("c1",)]


def test_a_first_name_in_most_documents_is_one_person_who_joins_those_of_few() -> None:
    """In conversations of two friends nothing else tells who is meant; a king of most tales is another in each."""
    extracts = [said(f"{each}1", "Andrew", "Audrey", "King", f"topic {each}") for each in "abcdefgh"]
    extracts += [said(f"{each}1", "Andrew", "Toby", f"topic {each}") for each in "ij"]
    graph = merge(extracts, documents={f"{each}1": each for each in "abcdefghij"})
    bearers = Counter(entity.name for entity in graph.entities)
    assert (bearers["Andrew"], bearers["Audrey"], bearers["Toby"]) == (1, 1, 1)
    kings = merge(
        [said(f"{each}1", "King", f"topic {each}") for each in "abcdefghij"],
        documents={f"{each}1": each for each in "abcdefghij"},
    )
    assert Counter(entity.name for entity in kings.entities)["King"] == 10


@pytest.mark.parametrize("name", ["Charles Dickens", "Kubernetes", "cache", "--flag", "NASA", "foo_bar"])
def test_full_names_terms_and_identifiers_are_one_in_all_documents(name: str) -> None:
    graph = merge(
        [said("a1", name, "King"), said("b1", name, "Queen")], documents=in_documents(a1="a", b1="b")
    )
    assert [entity.mentions for entity in graph.entities if entity.name == name] == [2]


def test_a_relation_belongs_to_the_namesake_of_its_document() -> None:
    relations = (ExtractedRelation("King", "Dorothy Gale", "The King helped Dorothy Gale."),)
    extracts = [
        said("a1", "King", "Alice Liddell"),
        Extract(
            "b1", Method.HEURISTIC, (ExtractedEntity("King"), ExtractedEntity("Dorothy Gale")), relations
        ),
    ]
    graph = merge(extracts, documents=in_documents(a1="a", b1="b"))
    (relation,) = graph.relations
    other = {entity.id: entity.chunk_ids for entity in graph.entities}
    assert other[relation.source_id] == ("b1",)


def test_a_name_without_its_space_is_the_name_with_it_in_all_documents() -> None:
    graph = merge(
        [
            said("a1", "MeiLin"),
            said("b1", "Mei Lin"),
            said("c1", "GitHub"),
            said("c1", "TypeError", "type error"),
        ]
    )
    assert {entity.name: entity.mentions for entity in graph.entities} == {
        "MeiLin": 2, "GitHub": 1, "TypeError": 1, "type error": 1,
    }  # fmt: skip


def test_a_term_in_the_overlap_of_two_chunks_is_mentioned_once() -> None:
    weak = ExtractedEntity("silver samovar", "term", "The silver samovar stood in the hall.")
    graph = merge([said(each, weak, "Ann Lee", method=Method.HEURISTIC) for each in ("a1", "a2")])
    assert {entity.name for entity in graph.entities} == {"Ann Lee"}
