"""Questions, and the questions within them."""

from __future__ import annotations

import pytest

from leanrag_engine.retrieval.search.decomposition import find_parts


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Whose rooms were Scrooge's before, and what else is in the building?",
            ("Whose rooms were Scrooge's before",),
        ),
        (
            "How does Fezziwig treat his apprentices, and how does Scrooge treat Bob Cratchit?",
            ("How does Fezziwig treat his apprentices", "how does Scrooge treat Bob Cratchit"),
        ),
        (
            "An upload stopped half way. How do I finish it on PyPI, and does uv keep the files?",
            ("An upload stopped half way", "How do I finish it on PyPI", "does uv keep the files"),
        ),
        ("Who is the spouse of the person who voices Jay Garrick?", ("person who voices Jay Garrick",)),
        (
            "When was the institute that owned The Collegian founded?",
            ("institute that owned The Collegian founded",),
        ),
        ("Who is the mayor of the birthplace of Ada Lovelace?", ("birthplace of Ada Lovelace",)),
        ("Where was Scott Derrickson's wife's father born?", ("Scott Derrickson's wife",)),
        # One thing, no English, or two of which neither is asked about by itself: nothing to divide.
        ("What is the difference between uv sync and uv pip install?", ()),
        ("Which band was formed first, The Exies or Circus Diablo?", ()),
        ("What does a lock file hold?", ()),
        ("Who designed Skerryvore?", ()),
        ("Which of the two tornado outbreaks killed the most people?", ()),
        ("What is salt and pepper made of?", ()),
        ("Lighthouses", ()),
        ("", ()),
        ("谁发明了望远镜？", ()),
        ("A series originally ran on what station?", ()),
    ],
)
def test_a_question_is_divided_into_what_it_asks(question: str, parts: tuple[str, ...]) -> None:
    assert find_parts(question) == parts


def test_a_question_of_many_parts_gives_the_first_four() -> None:
    question = " ".join(f"What did ship number {number} carry to London?" for number in range(9))
    assert len(find_parts(question)) == 4


def test_a_long_text_without_parts_is_searched_in_time() -> None:
    assert find_parts("the keeper of a lamp of a tower of " * 280) == ()
