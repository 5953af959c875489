"""Fusion and names by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.model import Entity, Hit
from leanrag_engine.retrieval.search.seeds import fuse, match_names, name_spans, rank_entities, unite


def test_reciprocal_rank_fusion_adds_one_over_sixty_plus_rank() -> None:
    fused = {hit.id: hit.score for hit in fuse([["a", "b"], ["b", "c"]])}
    assert fused == {"b": 1 / 62 + 1 / 61, "a": 1 / 61, "c": 1 / 62}
    assert next(iter(fused)) == "b"


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6), max_size=4))
def test_fusion_ranks_each_id_once_and_best_first(rankings: list[list[str]]) -> None:
    hits = fuse(rankings)
    assert sorted(hit.id for hit in hits) == sorted({id_ for ranking in rankings for id_ in ranking})
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_uniting_takes_turns_and_keeps_the_best_score() -> None:
    one = [Hit("a", 0.9), Hit("b", 0.8), Hit("c", 0.7)]
    other = [Hit("x", 0.2), Hit("a", 0.95)]
    assert unite([one, other], 3) == [Hit("a", 0.95), Hit("x", 0.2), Hit("b", 0.8)]


def keys(text: str) -> set[str]:
    return {span.key for span in name_spans(text)}


def test_every_run_of_words_is_tried_as_a_name_but_stopwords_alone() -> None:
    found = keys("Who was the brother of Caroline Herschel?")
    assert {"caroline herschel", "caroline", "herschel", "brother"} <= found
    assert not {"who", "was", "the", "of", "who was"} & found


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("What does __init__() do?", "__init__"),
        ("after the dictionary, __getattr__?", "__getattr__"),
        ('the module ("os.path").', "os.path"),
        ("What is .NET?", ".net"),
        ("Lothair II's mother", "lothair ii"),
        ("Is C++ older than C#?", "c++"),
        ("孔乙己是谁", "孔乙己"),
        ("東京タワーはどこですか", "東京タワー"),
        ("이순신은 누구인가", "이순신"),
    ],
)
def test_names_are_found_in_code_possessives_and_text_without_spaces(text: str, key: str) -> None:
    assert key in keys(text)


def entity(name: str, mentions: int = 1, aliases: tuple[str, ...] = ()) -> Entity:
    return Entity(name, name, mentions=mentions, aliases=aliases)


def test_a_name_within_a_longer_one_that_matched_does_not_count() -> None:
    hits = match_names(name_spans("flights to New York today"), [entity("York"), entity("New York")], 100)
    assert [hit.id for hit in hits] == ["New York"]


def test_an_alias_is_a_name() -> None:
    assert match_names(
        name_spans("Who is Tiny Tim?"), [entity("Tim Cratchit", aliases=("Tiny Tim",))], 9
    ) == [Hit("Tim Cratchit", 1.0)]


def test_a_plain_word_names_no_entity() -> None:
    """Expect that "go" is not the language Go; what a plain word means is found by the searches."""
    bearers = [entity("Go", 1), entity("zither", 1), entity("film", 50)]
    assert match_names(name_spans("let us go to a film with a zither"), bearers, 100) == []
    assert [hit.id for hit in match_names(name_spans("is Go a language"), bearers, 100)] == ["Go"]


def test_where_there_are_no_capitals_a_short_word_is_no_name_and_a_long_one_is() -> None:
    common, name = entity("检索", 90), entity("孔乙己", 90)
    weights = {hit.id: hit.score for hit in match_names(name_spans("孔乙己的检索"), [common, name], 100)}
    assert "检索" not in weights
    assert weights["孔乙己"] > 0.5


def test_a_proper_name_weighs_a_half_at_least_and_more_the_rarer_it_is() -> None:
    def weight(mentions: int) -> float:
        return match_names(name_spans("Who is Scrooge?"), [entity("Scrooge", mentions)], 42)[0].score

    assert [weight(mentions) for mentions in (1, 42)] == [1.0, 0.5]
    assert weight(1) > weight(5) > weight(42)


def test_a_name_that_several_share_weighs_as_much_as_if_one_bore_it() -> None:
    namesakes = [
        replace(entity("Python", mentions), id=str(place)) for place, mentions in enumerate((1, 1, 40))
    ]
    hits = match_names(name_spans("What does Python do?"), namesakes, 42)
    assert [hit.score for hit in hits] == [0.5, 0.5, 0.5]


def test_scores_lie_between_0_and_1_and_first_in_everything_is_1() -> None:
    hits = rank_entities(["a", "b"], ["a", "c"], [Hit("a", 1.0)], 10)
    assert hits[0] == Hit("a", pytest.approx(1.0))
    assert all(0 < hit.score <= 1 for hit in hits)


def test_a_name_in_the_text_comes_before_everything_that_searches_alone_find() -> None:
    found = [f"n{number}" for number in range(20)]
    assert rank_entities(found, found, [Hit("named", 1.0)], 10)[0].id in ("named", "n0")
    assert "named" in {hit.id for hit in rank_entities(found, found, [Hit("named", 1.0)], 3)}
