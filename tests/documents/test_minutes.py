"""The items of minutes stand below the meeting that they belong to."""

import pytest

from leanrag_engine.documents.headings import headings

ITEMS = "1. Market\n\nIt moves.\n\n2. Roof\n\nIt leaks.\n\n3. Hat\n\nIt is lost.\n\n"


def outline(text: str) -> list[tuple[int, str]]:
    return [(each.level, each.title) for each in headings(text, "text/plain")]


def expect(level: int, *meetings: str) -> list[tuple[int, str]]:
    titles = ["1. Market", "2. Roof", "3. Hat"]
    return [each for one in meetings for each in ((level, one), *((level + 1, title) for title in titles))]


def test_items_whose_numbers_begin_anew_stand_below_the_marked_meeting() -> None:
    first, second = "MINUTES OF 12 MARCH 2018", "MINUTES OF 4 APRIL 2018"
    text = "".join(
        f"{'=' * 30}\n{title}\n{'=' * 30}\n\nPresent: Ada, Bo.\n\n{ITEMS}" for title in (first, second)
    )
    assert outline(text) == expect(1, first, second)


@pytest.mark.parametrize("second", ["ANNUAL MEETING", "Council of 4 April 2018", "COUNCIL\n4 April 2018"])
def test_a_line_with_a_date_or_in_capitals_heads_the_items_below(second: str) -> None:
    last = "Next meeting: 4 April 2018\n\n"
    text = f"Minutes of 12 March 2018\n\nPRESENT\n\nAda, Bo.\n\n{ITEMS}{last}{second}\n\n{ITEMS}"
    assert outline(text) == expect(1, "Minutes of 12 March 2018", " ".join(second.split()))
    titled = f"THE COUNCIL\n===========\n\n{text}"
    assert outline(titled)[1:] == expect(2, "Minutes of 12 March 2018", " ".join(second.split()))


@pytest.mark.parametrize("word", ["TOP", "Item", "Agenda item"])
def test_items_with_a_word_stand_below_their_meeting(word: str) -> None:
    items = ITEMS
    for number in "123":
        items = items.replace(f"{number}. ", f"{word} {number}: ")
    found = outline(f"MINUTES OF 12 MARCH 2018\n\n{items}MINUTES OF 4 APRIL 2018\n\n{items}")
    assert [title for _, title in found][:3] == [
        "MINUTES OF 12 MARCH 2018",
        f"{word} 1: Market",
        f"{word} 2: Roof",
    ]
    assert [level == 1 for level, _ in found] == [True, False, False, False] * 2


def test_numbers_that_count_up_once_keep_their_level() -> None:
    assert outline(f"12 March 2018\n\n{ITEMS}")[0] == (1, "1. Market")
