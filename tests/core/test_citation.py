"""Citations are written, read and found in one form."""

from __future__ import annotations

import pytest

from leanrag_engine.core.text.citation import (
    CitationSet,
    find_bracketed_citations,
    find_citations,
    format_citation,
    format_document,
    parse_citation,
    unbracket_citations,
)


def test_what_is_formatted_is_parsed_again() -> None:
    assert format_citation(3, 12) == "d3:c12"
    assert format_document(3) == "d3"
    assert parse_citation(format_citation(3, 12)) == (3, 12)


@pytest.mark.parametrize(
    "text", ["", "d3", "d3:c", " d3:c1", "[d3:c1]", "d3:c1\n", f"d{10**15}:c1", "d1:c12345678"]
)
def test_what_is_no_citation_is_not_parsed(text: str) -> None:
    assert parse_citation(text) is None


def test_citations_are_found_once_and_in_order() -> None:
    text = "[d2:c1] and d1:c3, then [d2:c1]; not abd1:c2 nor d4:c"
    assert find_citations(text) == ("d2:c1", "d1:c3")
    assert find_bracketed_citations(text) == ("d2:c1",)


def test_quoted_text_keeps_no_citation_in_brackets() -> None:
    assert unbracket_citations("[d1:c2] [see D3:C4, p. 5] [1]") == "(d1:c2) (see D3:C4, p. 5) [1]"


def test_a_set_holds_citations_ranges_and_whole_documents() -> None:
    found = CitationSet.parse(["[d3:c12]", "d3:c20-c22", " d4 "])
    assert [each in found for each in ("d3:c12", "d3:c21", "d4:c999")] == [True, True, True]
    assert [each in found for each in ("d3:c13", "d3:c23", "d40:c1", "nothing")] == [False] * 4
    assert not CitationSet.parse([])


@pytest.mark.parametrize("text", ["", "d3:", "page 3", "d3:c1 d3:c2", "e12"])
def test_what_is_no_citation_is_refused_for_a_set(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        CitationSet.parse(["d1", text])
