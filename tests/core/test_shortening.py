"""Shortened texts keep within their limit and say that something is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.text.nearest import find_nearest, similarity, sort_by_similarity
from leanrag_engine.core.text.shortening import cut_end, cut_middle, one_line, shorten


@given(st.text(max_size=60), st.integers(2, 40))
def test_a_limit_holds_and_a_text_within_it_stays_as_it_is(text: str, limit: int) -> None:
    for short in (cut_end(text, limit), shorten(text, limit)):
        assert len(short) <= limit
        assert short == text or (len(text) > limit and short.endswith("…"))


def test_a_text_is_cut_at_a_space_anywhere_or_in_the_middle() -> None:
    assert shorten("one two three", 10) == "one two…"
    assert shorten("one two three", 10, " …") == "one two …"
    assert cut_end("one two three", 10) == "one two t…"
    assert cut_middle("one two three", 8) == "one  […] hree"
    assert cut_middle("one two", 8) == "one two"
    assert one_line(" one\n two\tthree ") == "one two three"


def test_the_nearest_names_come_first() -> None:
    assert find_nearest("naiv", ["lca", "naive", "local"]) == ["naive"]
    assert find_nearest("xyz", ["lca", "naive"]) == []
    assert similarity("marley", "marley") == 1.0
    assert 0 < similarity("marley", "harley") < 1


def test_of_several_names_the_most_similar_counts_by_its_end() -> None:
    paths = {1: "/a/long/folder/" * 9 + "report.pdf", 2: "/a/long/folder/" * 9 + "notes.md", 3: "readme"}
    titles = {1: "Quarter", 2: "What we saw", 3: "Quatrain"}

    def nearest(name: str, limit: int = 1) -> list[int]:
        return sort_by_similarity(name, [1, 2, 3], lambda each: (paths[each], titles[each]), limit)

    assert nearest("/A/long/folder/" * 9 + "note.md") == [2]
    assert nearest("quarters") == [1]
    assert nearest("quarters", 5)[:2] == [1, 3]
    assert nearest("", 2) == nearest("zzz", 2) == []
    assert sort_by_similarity("x", [], str, 3) == []
