"""Line breaks of a column are undone; those of an author stay."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.text.wrapping import join_wrapped_lines

WORDS = st.lists(
    st.sampled_from(["the", "of", "light", "house", "small", "river", "towards", "evening,", "therefore"]),
    min_size=3,
)


@given(WORDS, st.integers(60, 100))
def test_prose_that_was_broken_at_a_column_is_one_line_again(words: list[str], width: int) -> None:
    prose = f"On that day {' '.join(words)} ended."
    assert join_wrapped_lines(textwrap.fill(prose, width)) == prose


def test_each_paragraph_and_item_keeps_its_place() -> None:
    text = "- The first item of the list is longer than a line of so many\n  characters.\n\nShort one."
    joined = "- The first item of the list is longer than a line of so many characters.\n\nShort one."
    assert join_wrapped_lines(text) == joined


@pytest.mark.parametrize(
    "text",
    [
        "```\nuv pip install one-package --with-a-very-long-option another\nuv sync.\n```",
        "```\nuv sync\n\nuv pip install one-package --with-a-very-long-option another\nuv sync.\n\n```",
        "    first = compute(something, with_many_arguments, and_more_of_them)\n    second = 1.",
        "Tyger Tyger, burning bright,\nIn the forests of the night;\nwhat immortal hand or eye.",
        "| a column with a long title | another column with a long title |\n| 1 | 2 |.",
        "2026-11-24 10:00:01 The server was started by its owner.\n2026-11-24 10:00:02 The server was ended by someone.",
        "- one point that is said in a line of more than fifty characters\n- the second.",
        "uv run --isolated --python 3.12 tool --option value --and another\nuv add something",
        "The lines of this text are broken at the end of sentences, as is usual.\nit stays. it does.\nso do I.",
    ],
)
def test_code_verse_tables_logs_lists_and_short_lines_stay(text: str) -> None:
    assert join_wrapped_lines(text) == text


@given(st.text(st.sampled_from("ab .\n`|-#1"), max_size=300))
def test_only_white_space_changes(text: str) -> None:
    assert join_wrapped_lines(text).split() == text.split()
