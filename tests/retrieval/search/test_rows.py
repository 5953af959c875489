"""Of a table, a context shows the rows that hold most of a question."""

import pytest

from leanrag_engine.core.model import Chunk, Window
from leanrag_engine.retrieval.search.relevance import RankedWindow
from leanrag_engine.retrieval.search.rows import choose_rows

NAME = "Table Staff, 40 rows: name | room"
ROWS = [
    f"Row {n}: name: {name} Falk; room: {n % 3}"
    for n, name in enumerate(["Ada", "Bo", "Cy", "Dee", "Eve", "Fay"], 2)
]


def rank(*windows: list[str]) -> list[RankedWindow]:
    ranked = []
    for number, lines in enumerate(windows, 1):
        text = "\n".join(lines)
        chunk = Chunk(
            f"k{number}", "d", number, text, 0, len(text), 1, windows=(Window(0, len(text), "Staff"),)
        )
        ranked.append(RankedWindow(chunk, 0, value=9.0 - number, near=9.0 - number))
    return ranked


def test_the_row_that_is_asked_for_stands_in_the_place_of_the_first_window_of_its_table() -> None:
    windows = rank([NAME], ROWS[:3], ["It is told of the staff that nobody answers."], ROWS[3:])
    first, other = choose_rows(windows, "Which room has Fay Falk?")
    assert (first.text, first.value) == (ROWS[5], 8.0)
    assert other is windows[2]


def test_of_two_who_are_compared_both_rows_are_shown() -> None:
    ranked = choose_rows(rank(ROWS[:3], ROWS[3:]), "Has Bo Falk or Fay Falk the better room?")
    assert sorted(each.text for each in ranked) == [ROWS[1], ROWS[5]]


@pytest.mark.parametrize("other", ["Bo Jung", "Cy Jung"])  # Bo is as frequent as Ada, or rarer
def test_a_row_with_both_words_of_a_name_comes_before_rows_with_one_of_each(other: str) -> None:
    names = ["Ada Falk", "Ada Jung", "Bo Falk", other, "Cy Abel", "Cy Dorn", "Cy Hahn", "Cy Kern"]
    rows = [f"Row {n}: name: {name}; room: {n}" for n, name in enumerate(names)]
    (first,) = choose_rows(rank(rows), "Who has the better room, Ada Jung or Bo Falk?")
    assert first.text.split("\n") == [rows[1], rows[2]]


def test_a_table_is_shown_by_its_windows_where_no_row_stands_out() -> None:
    windows = rank([NAME], ROWS[:3], ROWS[3:])
    for question in (
        "Who is a Falk?",
        "Which porter is deaf, and how long has Fay known it?",
        "Where is it?",
    ):
        assert choose_rows(windows, question) == windows
    assert choose_rows(windows[:1], "Which room has Fay Falk?") == windows[:1]


def test_the_number_of_a_row_is_no_figure_of_it_and_a_day_is_known_in_any_notation() -> None:
    rows = [f"time: 2025-06-0{day}T00:00Z; host: {host}; load: 90" for day in (2, 3, 4) for host in "abcd"]
    (first,) = choose_rows(
        rank([f"Row {n}: {row}" for n, row in enumerate(rows, 1)]), "What load had host c on 4 June?"
    )
    assert first.text == f"Row 11: {rows[10]}"


def test_the_row_of_a_code_is_shown_alone_whatever_else_is_asked_of_it() -> None:
    rows = [f"Row {n}: code: 43{n}0; Bedeutung: Etikett {n} fehlt" for n in range(1, 8)]
    (first,) = choose_rows(rank(rows), "What does error 4310 mean for a dealer who ships parcels?")
    assert first.text == rows[0]
