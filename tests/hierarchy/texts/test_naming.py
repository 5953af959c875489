"""What clusters are called."""

from __future__ import annotations

import numpy as np
import pytest

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Entity, Relation
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.hierarchy.texts.naming import (
    NameRegister,
    PhraseTable,
    choose_name,
    find_phrases,
    join_names,
    rank_phrases,
)

CRATCHITS = ("Bob Cratchit", "Mrs. Cratchit", "Peter Cratchit", "Tiny Tim")
GHOSTS = ("Ghost of Christmas Past", "Ghost of Christmas Present", "Marley's Ghost")


def names_of(*clusters: tuple[str, ...], taken: set[str] | None = None) -> list[str]:
    entities = tuple(Entity(id=name, name=name) for cluster in clusters for name in cluster)
    terms = find_phrases(Graph(entities, ()))
    labels = np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])
    found = rank_phrases(terms, labels, np.zeros(len(labels)), len(clusters))
    given = NameRegister(taken or set())
    chosen = []
    for phrases, cluster in zip(found, clusters, strict=True):
        chosen.append(choose_name(terms, phrases, cluster, given))
        given.add(chosen[-1])
    return chosen


def test_the_word_that_members_share_leads_the_name() -> None:
    family, ghosts = names_of(CRATCHITS, GHOSTS)
    assert family == "Cratchit and Tiny Tim"
    assert ghosts.startswith("Ghost")


def test_a_word_that_siblings_share_does_not_lead() -> None:
    first, second = names_of(
        ("Scrooge's door", "Scrooge's knocker", "door handle"),
        ("Scrooge's clerk", "clerk", "Scrooge's nephew"),
    )
    assert first.startswith("door")
    assert second.startswith("clerk")


def test_a_phrase_is_as_long_as_it_stays_as_common() -> None:
    (name,) = names_of(("augmented assignment statement", "augmented assignment target", "operator"))
    assert name.startswith("augmented assignment")


def test_a_phrase_is_shown_in_its_most_frequent_spelling() -> None:
    (name,) = names_of(("J. B. Lippincott Company", "Philadelphia's", "the Undertaker's man", "undertaker"))
    assert "J. B. Lippincott Company" in name
    assert "’s" not in name
    assert "'s" not in name.replace("Undertaker's man", "").replace("Philadelphia's", "")


@pytest.mark.parametrize("names", [("await",), ("1984", "2001"), ("的", "了"), ("???", "…"), ("a", "the")])
def test_names_without_a_distinctive_word_still_make_a_name(names: tuple[str, ...]) -> None:
    assert names_of(names)[0]


def test_chinese_names_keep_their_script_without_spaces() -> None:
    (name,) = names_of(("知识图谱", "知识图谱构建", "层次聚合"))
    assert "知识图谱" in name.replace(" ", "")


def test_a_name_that_is_taken_gets_another_phrase_and_at_last_a_number() -> None:
    (free,) = names_of(CRATCHITS)
    (other,) = names_of(CRATCHITS, taken={name_key(free)})
    assert name_key(other) != name_key(free)
    (lone,) = names_of(("Tim",))
    assert lone == "Tim"
    (numbered,) = names_of(("Tim",), taken={name_key("Tim")})
    assert numbered == "Tim (2)"


def test_siblings_that_share_their_best_phrase_are_named_by_others() -> None:
    clusters = tuple(
        tuple(f"Christmas {word} {place}" for word in ("dinner", "eve", "carol"))
        for place in ("London", "Paris", "Rome")
    )
    contents = [set(name_key(name).split()) - {"and"} for name in names_of(*clusters)]
    for place, one in enumerate(contents):
        for other in contents[place + 1 :]:
            assert len(one & other) < 0.5 * len(one | other)


def test_a_phrase_of_a_single_member_does_not_lead() -> None:
    (first, _) = names_of(
        ("river bank", "river mouth", "river boat", "extraordinary dishes"), ("mill", "miller", "mill stone")
    )
    assert first.startswith("river")


LOCKS = ("lock", "lock file")


def name_first(*clusters: tuple[str, ...], mentions: dict[str, int]) -> str:
    """Return the name of the first cluster; the names of members are in use."""
    members = [name for cluster in clusters for name in cluster]
    entities = tuple(Entity(id=name, name=name, mentions=mentions.get(name, 1)) for name in members)
    terms = find_phrases(Graph(entities, ()))
    labels = np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])
    found = rank_phrases(terms, labels, np.zeros(len(labels)), len(clusters))[0]
    return choose_name(terms, found, clusters[0], NameRegister({name_key(name) for name in members}))


def test_after_a_word_that_many_members_share_comes_its_best_kind_and_not_a_stray_member() -> None:
    indexes = ("index", "package index", "default index", "private index", "albatross")
    assert name_first(indexes, LOCKS, mentions={"index": 9, "package index": 4}) == "index and package index"


def test_a_phrase_that_many_names_contain_leads_although_siblings_contain_it_too() -> None:
    kinds = ("dependency graph", "dependency tree", "dependency source", "Dependabot")
    others = ("dependency", "direct dependency", "lock", "file")
    name = name_first(others, kinds, mentions={"dependency": 3} | dict.fromkeys(kinds[:3], 3))
    assert name.startswith("dependency")


def test_phrases_may_share_a_word_that_many_names_contain() -> None:
    states, others = ("South Dakota", "North Dakota", "Kaintuck Territory"), ("Dakota Sioux", "Dakota War")
    often = {"South Dakota": 30, "North Dakota": 20} | dict.fromkeys(others, 9)
    name = name_first(states, (*others, "Dakota people"), mentions=often)
    assert name == "South Dakota and North Dakota"


def test_a_third_phrase_must_be_half_as_good_as_the_best() -> None:
    parts = ("CUDA", "GPU", "pre-built wheels", "driver")
    assert name_first(parts, LOCKS, mentions={"CUDA": 9, "GPU": 9}) == "CUDA and GPU"


def test_a_whole_name_does_not_become_a_title_that_contains_it() -> None:
    name = name_first(
        ("Renovate", "Using uv with Renovate", "uv.lock"), LOCKS, mentions={"Using uv with Renovate": 3}
    )
    assert name == "Renovate and uv.lock"


def test_a_word_and_its_verbal_form_are_not_both_in_a_name() -> None:
    (name, _) = names_of(("cache", "caching", "cache header", "HTTP header"), LOCKS)
    assert name == "cache and header"


def test_brackets_are_never_left_open() -> None:
    for name in names_of(("Casino (1995 film)", "Casino (band)"), ("Heat (1995 film)", "f(x[i])")):
        assert name.count("(") == name.count(")")
        assert name.count("[") == name.count("]")


def test_lists_read_as_people_write_them() -> None:
    assert [join_names("ab"[:size]) for size in (0, 1, 2)] == ["", "a", "a and b"]
    assert join_names(["a", "b", "c"]) == "a, b and c"
    assert join_names(["实体", "关系"]) == "实体、关系"


def test_a_part_of_names_that_ends_none_is_worth_less_than_a_whole_name() -> None:
    entities = tuple(
        Entity(id=name, name=name)
        for name in ("negative values", "negative indices", "slice indices", "slice")
    )
    terms = find_phrases(Graph(entities, ()))
    worth = dict(zip(terms.keys, terms.worths.tolist(), strict=True))
    assert worth["negative"] < worth["index"] < worth["slice"] == worth["negative value"]


def test_a_sentence_counts_once_however_many_entities_it_describes() -> None:
    sentence = "A wintry emblem beside the green holly, in singular contradiction to its summer flowers."
    names = ("wintry emblem", "green holly", "singular contradiction", "summer flowers")
    told = tuple(Entity(id=name, name=name, description=sentence) for name in names)
    often = (
        Entity(id="ghost", name="ghost", description="The ghost came.", mentions=4),
        Entity(id="spirit", name="spirit of the ghost", description="A spirit came.", mentions=4),
    )
    terms = find_phrases(Graph(told + often, ()))
    (found,) = rank_phrases(terms, np.zeros(6, dtype=np.intp), np.zeros(6), 1)
    assert terms.keys[int(found.columns[0])] == "ghost"


def test_a_part_of_one_name_gives_way_to_the_whole_name() -> None:
    (name,) = names_of(
        (
            "2002 Commonwealth Games",
            "XVII Commonwealth Games",
            "2002 Games",
            "Rome",
            "London",
            "Golden Jubilee",
            "Egypt",
            "Athens",
            "Oslo",
        )
    )
    assert "Games" in name
    assert not {"Games", "2002"} & set(name.replace(" and ", ", ").split(", "))


def test_the_name_of_what_most_members_are_related_to_leads() -> None:
    names = ("Venice", "Vienna", "Antonio Vivaldi", "The Four Seasons", "Orlando")
    terms = find_phrases(Graph(tuple(Entity(id=name, name=name) for name in names), ()))
    labels = np.zeros(len(names), dtype=np.intp)
    hubs = np.array([0.2, 0.2, 1.0, 0.2, 0.2])
    (found,) = rank_phrases(terms, labels, hubs, 1)
    assert choose_name(terms, found, names, NameRegister(set())).startswith("Antonio Vivaldi")


@pytest.mark.parametrize(("mentions", "first"), [(6, "antonio vivaldi"), (8, "venice")])
def test_what_most_members_are_related_to_leads_unless_another_is_mentioned_four_times_as_often(
    mentions: int, first: str
) -> None:
    often = Entity(id="Venice", name="Venice", mentions=mentions)
    others = (Entity(id=name, name=name, mentions=2) for name in ("Antonio Vivaldi", "Orlando", "Vienna"))
    terms = find_phrases(Graph((often, *others), ()))
    (found,) = rank_phrases(terms, np.zeros(4, dtype=np.intp), np.array([0.3, 1.0, 0.2, 0.2]), 1)
    assert terms.keys[int(found.columns[0])] == first


def test_an_entity_that_stands_for_others_counts_as_often_and_one_of_scale_0_not_at_all() -> None:
    def rank(names: tuple[str, ...], labels: list[int], scales: list[float] | None) -> dict[str, float]:
        entities = tuple(Entity(id=f"{number}", name=name) for number, name in enumerate(names))
        given = None if scales is None else np.array(scales)
        terms = find_phrases(Graph(entities, ()), scales=given)
        first, _ = rank_phrases(terms, np.array(labels), np.zeros(len(labels)), 2)
        return {terms.keys[column]: score for column, score in zip(first.columns, first.scores, strict=True)}

    told = ("oak door", "oak table", *["iron door"] * 4)
    sample = ("oak door", "oak table", "iron door", "iron door", "brass lamp", "iron lamp")
    whole = rank(told, [0, 0, 1, 1, 1, 1], None)
    assert rank(sample, [0, 0, 1, 1, 1, 1], [1.0, 1.0, 2.0, 2.0, 0.0, 0.0]) == pytest.approx(whole)
    assert rank(sample, [0, 0, 1, 1, 1, 1], None) != pytest.approx(whole)


def test_a_heading_above_many_counts_in_full_although_one_chunk_has_it() -> None:
    members = tuple(
        Entity(id=name, name=name, mentions=2)
        for name in ("Lem", "Solaris", "Farid", "Lwów", "Grace", "Yumi", "Oksana", "Tove")
    )
    club = Entity(id="club", name="bookclub")
    relations = tuple(Relation(f"r{each.id}", "club", each.id) for each in members)
    above = find_phrases(Graph((club, *members), relations))
    alone = find_phrases(Graph((club, *members), relations[:1]))

    def weight(terms: PhraseTable) -> float:
        return float(terms.weights[(terms.rows == 0) & terms.whole][0])

    importance = 1.0 + 0.5 * np.log1p(len(members))
    assert weight(above) == pytest.approx(importance)
    assert weight(alone) < 1.0


def test_naming_reports_every_thousand_entities() -> None:
    graph = Graph(tuple(Entity(id=str(number), name=f"Pier {number}") for number in range(2_500)), ())
    reports: list[int] = []
    find_phrases(graph, note=reports.append)
    assert reports == [0, 1000, 2000]
