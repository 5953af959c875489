"""What counts as a gold passage in a context, and what does not."""

from __future__ import annotations

import pytest

from leanrag_engine.evaluation.retrieval.run import holds_answer, holds_passage, share_covered

TEXT = "Murano lies in the lagoon. It is known for its glass.  Boats go there from Venice."


def context(*lines: str) -> str:
    return "\n".join(
        ["Quoted from documents.", "", "## Passages", "", "[d1:c1] Murano", "```", *lines, "```"]
    )


def test_the_full_text_counts_whatever_the_white_space() -> None:
    wrapped = "Murano lies in the lagoon. It is\nknown for its glass. Boats go there from Venice."
    assert holds_passage(context(wrapped), TEXT, ["bread"])


def test_of_a_trimmed_text_the_sentence_with_the_answer_counts() -> None:
    shown = context("[…] It is known for its glass. […]")
    assert holds_passage(shown, TEXT, ["GLASS!"])
    assert not holds_passage(shown, TEXT, ["the lagoon"])


def test_a_trimmed_text_without_the_answer_is_not_there() -> None:
    assert not holds_passage(
        context("Murano lies in the lagoon. It is known for its glass. […]"), TEXT, ["bread"]
    )
    assert not holds_passage(context("Murano lies in the lagoon. […]"), TEXT, [])


def test_a_citation_alone_does_not_count() -> None:
    assert not holds_passage("## Summaries\n- Islands: Venice and others [d1:c1]", TEXT, ["glass"])


def test_half_of_the_sentence_does_not_count() -> None:
    assert not holds_passage(context("[…] known for its glass. […]"), TEXT, ["glass"])


def test_a_text_whose_sentences_stand_apart_is_there() -> None:
    parts = context(
        "Boats go there from Venice. Murano lies in the lagoon.", "Other words.", "It is known for its glass."
    )
    assert holds_passage(parts, TEXT, [])


def test_what_rendering_takes_away_for_safety_is_not_missed() -> None:
    text = "The note says [d3:c4] and\u200b more."
    assert holds_passage(context("The note says (d3:c4) and more."), text, [])


@pytest.mark.parametrize(
    ("sentence", "answers", "holds"),
    [
        ("He went north.", ["no"], False),
        ("No, he did not.", ["no"], False),
        ("It was 1,234 metres high.", ["1 234"], True),
        ("G. Stanley Hall led it.", ["Stanley Hall"], True),
        ("Marianne sang.", ["Ann"], False),
        ("他出生于伦敦。", ["伦敦"], True),
        ("Anything at all.", ["", "…"], False),
    ],
)
def test_an_answer_is_found_in_a_sentence_as_whole_words(
    sentence: str, answers: list[str], *, holds: bool
) -> None:
    assert holds_answer(sentence, answers) is holds


def test_the_share_counts_gold_passages() -> None:
    assert share_covered(context(TEXT), [TEXT, "Another text."], ["glass"]) == 0.5
