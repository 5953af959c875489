"""The value of windows: their scores, what stands beside them, the graph; stubs stay behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leanrag_engine.core.model import Chunk, Hit, Window, window_id
from leanrag_engine.retrieval.request import RelevanceOptions
from leanrag_engine.retrieval.search.relevance import (
    ExactMatch,
    RankedWindow,
    SearchScores,
    fuse_scores,
    rank_windows,
)

OPTIONS = RelevanceOptions(
    keyword=0.5, keyword_peak=0.0, first=0.0, neighbour=0.3, section=0.2, graph_decay=4.0, stub_characters=50
)


def chunk(
    id_: str, windows: int, *, document: int = 1, number: int = 1, heading: str = "", size: int = 100
) -> Chunk:
    text = ("x" * (size - 1) + " ") * windows
    places = tuple(
        Window(n * size, (n + 1) * size, f"{heading}{n}" if heading else id_) for n in range(windows)
    )
    return Chunk(
        id_,
        f"doc{document}",
        number,
        text,
        0,
        len(text),
        1,
        citation=f"d{document}:c{number}",
        windows=places,
    )


def values(windows: list[RankedWindow]) -> dict[str, float]:
    return {window_id(each.chunk.id, each.number): each.value for each in windows}


def test_scores_are_shares_of_the_best_and_what_dense_search_missed_is_no_better_than_its_last() -> None:
    scores = fuse_scores([Hit("a", 0.8), Hit("b", 0.4)], [Hit("b", 10.0), Hit("c", 5.0)], OPTIONS).total
    assert scores == pytest.approx({"a": 1.0, "b": 0.5 + 0.5, "c": 0.5 + 0.25})
    assert fuse_scores([], [Hit("c", 5.0)], OPTIONS).total == pytest.approx({"c": 0.5})
    assert fuse_scores([], [], OPTIONS).total == {}


def test_of_an_embedder_whose_scores_are_all_high_a_small_difference_counts() -> None:
    dense = [Hit("a", 0.86), Hit("b", 0.78)]
    assert fuse_scores(dense, [], OPTIONS, 0.85, 0.81).total["b"] == pytest.approx(0.03 / 0.11)
    assert fuse_scores(dense, [], OPTIONS, 0.5, 0.3).total["b"] == pytest.approx(0.78 / 0.86)


def test_the_first_by_meaning_gain_by_their_rank() -> None:
    dense = [Hit("a", 0.8), Hit("b", 0.4), Hit("c", 0.0)]
    scores = fuse_scores(dense, [Hit("b", 10.0)], replace(OPTIONS, first=0.6, first_decay=2.0)).total
    assert scores == pytest.approx({"a": 1.0 + 0.6, "b": 0.5 + 0.5 + 0.4, "c": 0.3})


def test_plain_words_do_not_outweigh_the_window_that_is_first_by_meaning() -> None:
    # As in a novel: the cosines of 200 windows lie between 0.55 and 0.40, and many share a word or two with the question.
    dense = [Hit(f"w{place}", 0.55 - 0.00075 * place) for place in range(200)]
    keyword = [Hit(f"w{20 + place}", 12.0 * 0.97**place) for place in range(100)]

    def place_of_first(options: RelevanceOptions) -> int:
        scores = fuse_scores(dense, keyword, options).total
        return sorted(scores, key=lambda each: -scores[each]).index("w0")

    assert place_of_first(RelevanceOptions(first=0.0)) > 30
    assert place_of_first(RelevanceOptions()) < 10


def test_a_window_gains_from_the_better_of_those_that_touch_it() -> None:
    one = chunk("a", 4, heading="section")
    found = values(
        rank_windows(SearchScores({"a#0": 1.0, "a#1": 0.4, "a#3": 0.2}), [one], {}, options=OPTIONS)
    )
    # a#2 was not found: half of the least score.
    own = [1.0, 0.4, 0.1, 0.2]
    beside = [0.4, 1.0, 0.4, 0.1]
    expected = {f"a#{n}": own[n] * 1.2 + 0.3 * beside[n] for n in range(4)}
    assert found == pytest.approx(expected)


def test_windows_touch_across_chunks_of_one_document_and_never_across_documents() -> None:
    chunks = [
        chunk("a", 1),
        chunk("b", 1, number=2),
        chunk("c", 1, number=4),
        chunk("d", 1, document=2, number=5),
    ]
    scores = {"a#0": 1.0, "b#0": 0.5, "c#0": 0.5, "d#0": 0.5}
    found = values(rank_windows(SearchScores(scores), chunks, {}, options=OPTIONS))
    assert found["b#0"] == pytest.approx(0.5 * 1.2 + 0.3)
    assert found["c#0"] == found["d#0"] == pytest.approx(0.5 * 1.2)


def test_a_window_gains_from_the_two_best_of_its_section() -> None:
    one = chunk("a", 5)
    found = values(
        rank_windows(SearchScores({"a#0": 1.0, "a#1": 0.6, "a#4": 0.2}), [one], {}, options=OPTIONS)
    )
    assert found["a#4"] == pytest.approx(0.2 + 0.3 * 0.1 + 0.2 * 0.8)


def test_a_passage_gains_by_its_place_in_the_graphs_ranking() -> None:
    chunks = [chunk(name, 1, document=place) for place, name in enumerate("abc", start=1)]
    scores = {f"{name}#0": 0.5 for name in "abc"}
    found = values(
        rank_windows(SearchScores(scores), chunks, {"b": 0, "c": 4}, graph_weight=0.3, options=OPTIONS)
    )
    assert found["b#0"] - found["a#0"] == pytest.approx(0.3)
    assert found["c#0"] - found["a#0"] == pytest.approx(0.15)


def test_the_best_window_of_each_passage_that_the_graph_puts_first_is_kept() -> None:
    chunks = [chunk(name, 2, document=place) for place, name in enumerate("abc", start=1)]
    options = RelevanceOptions(graph_kept=2)
    ranked = rank_windows(
        SearchScores({"a#1": 1.0, "b#0": 0.2}), chunks, {"b": 0, "a": 1, "c": 2}, 1.0, options=options
    )
    assert {each.key for each in ranked if each.kept} == {("a", 1), ("b", 0)}
    ranked = rank_windows(SearchScores({"a#1": 1.0, "b#0": 0.2}), chunks, {"b": 0}, 0.0, options=options)
    assert not [each for each in ranked if each.kept], "a walk that is not trusted keeps nothing"


def test_a_window_with_a_rare_word_comes_before_all_guesses() -> None:
    chunks = [chunk(name, 2, document=place) for place, name in enumerate("abc", start=1)]
    scores = SearchScores({"a#0": 2.0, "b#0": 0.5, "b#1": 0.6, "c#1": 0.4})
    found = ExactMatch("max_size", ("b#0", "b#1", "c#1"), 8.0)
    ranked = rank_windows(scores, chunks, {}, exact=[found], options=OPTIONS)
    assert [each.key for each in ranked][:2] == [("b", 1), ("a", 0)], "the best of its windows"
    ranked = rank_windows(scores, chunks, {}, exact=[replace(found, sought=True)], options=OPTIONS)
    assert {each.key for each in ranked[:3]} == {("b", 0), ("b", 1), ("c", 1)}, (
        "all where it is sought itself"
    )


def test_meaning_weighs_less_where_nothing_is_close() -> None:
    keyword = [Hit("b", 10.0)]
    assert fuse_scores([Hit("a", 0.5)], keyword, OPTIONS, related=0.5).total["a"] == pytest.approx(1.0)
    assert fuse_scores([Hit("a", 0.2)], keyword, OPTIONS, related=0.5).total["a"] == pytest.approx(0.4)


def test_keywords_weigh_more_where_one_window_stands_out() -> None:
    options = replace(OPTIONS, keyword_peak=1.0)
    alone = fuse_scores([], [Hit("a", 10.0)], options).total
    many = fuse_scores([], [Hit(name, 10.0) for name in "abcdefghij"], options).total
    assert (alone["a"], many["a"]) == pytest.approx((1.5, 0.5))


def test_a_stub_never_comes_before_a_passage_that_is_as_near() -> None:
    stub, passage = chunk("a", 1, size=10), chunk("b", 1, document=2)
    ranked = rank_windows(SearchScores({"a#0": 1.0, "b#0": 0.5}), [stub, passage], {"a": 0}, options=OPTIONS)
    assert [each.chunk.id for each in ranked] == ["b", "a"]


@pytest.mark.parametrize(
    "text",
    [
        "* [npm run](/commands/npm-run)\n" * 20,
        "https://example.org/a/long/path " * 20,
        "<br/><hr class='x'>" * 20,
    ],
)
def test_links_addresses_and_tags_alone_are_a_stub(text: str) -> None:
    whole = (Window(0, len(text), "a"),)
    stub = replace(chunk("a", 1), text=text, end=len(text), windows=whole)
    ranked = rank_windows(
        SearchScores({"a#0": 1.0, "b#0": 0.9}), [stub, chunk("b", 1, document=2)], {}, options=OPTIONS
    )
    assert [each.chunk.id for each in ranked] == ["b", "a"]


def test_windows_of_equal_value_come_in_reading_order() -> None:
    chunks = [chunk("b", 2, document=2), chunk("a", 2, number=10), chunk("c", 2, number=9)]
    ranked = rank_windows(SearchScores({}), chunks, {}, options=OPTIONS)
    assert [each.chunk.id for each in ranked] == ["c", "c", "a", "a", "b", "b"]
