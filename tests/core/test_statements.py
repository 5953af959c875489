"""Sentences that state something, as against headings, fragments, calls and questions."""

from __future__ import annotations

import pytest

from leanrag_engine.core.text.language.excerpts import quote_around
from leanrag_engine.core.text.language.sentences import find_turn, is_conversation, is_statement
from leanrag_engine.core.text.language.words import is_contraction, plain_apostrophes


@pytest.mark.parametrize(
    "text",
    [
        "Ann employs Bob.",
        "The cache is kept on disk (see below).",
        "“I will stay,” said Ann.",
        "I’ll stay here.",
        "[12:03] Ann Lee: I moved it to Friday",
        "知识图谱是一种结构。",
        "Der Hund läuft schnell über die Wiese.",
    ],
)
def test_a_sentence_with_a_verb_states_something(text: str) -> None:
    assert is_statement(text)


@pytest.mark.parametrize(
    "text",
    ["", "Marley's Ghost.", "O Ann Lee!", "Who employs Bob?", "Run this command:", "| a is | b is |", "Ann employs Bob", "(a British company) and 65 shares for Kiwi Ltd.", "# It is a heading",
     "!!! note that it is so.", "[12:03] Ann Lee: Where is it?"],
)  # fmt: skip
def test_fragments_calls_questions_and_tables_do_not(text: str) -> None:
    assert not is_statement(text)


@pytest.mark.parametrize(
    "word",
    [
        "I'll",
        "can't",
        "It's",
        "That's",
        "you've",
        "We'd",
        "they're",
        "o'clock",
        "ma'am",
        "Let's",
        "Somebody's",
        "wouldn't've",
    ],
)
def test_contractions_are_recognized(word: str) -> None:
    assert is_contraction(word)


@pytest.mark.parametrize("word", ["Tim's", "O'Neil", "D'Arcy", "dogs'", "rock'n'roll", "Ill", "its"])
def test_owners_and_names_are_no_contractions(word: str) -> None:
    assert not is_contraction(word)


def test_apostrophes_become_plain_and_quotation_marks_stay() -> None:
    text = "‘I’ll see Tim’s ʼphone,’ said the boys’ aunt; 5′ 3″"
    plain = plain_apostrophes(text)
    assert len(plain) == len(text)
    assert plain == "‘I'll see Tim's ʼphone,’ said the boys' aunt; 5′ 3″"


@pytest.mark.parametrize(
    ("text", "speaker"),
    [("[12:03] Ann Lee: Hello", "Ann Lee"), ("Ann: Hello", "Ann"), ("[9:03 PM] +49 170 1234567: Hello", "+49 170 1234567"),
     ("Note: keep it dry", ""), ("4. Fee: 58 euros", ""), ("(4) Fee: 58 euros", ""), ("2pac: Hello", "2pac"), ("the end: it came", ""), ("Q: What?", ""), ("http://a.org is: up", ""), ("Ann Lee Hello", "")],
)  # fmt: skip
def test_the_label_of_a_turn_is_a_person(text: str, speaker: str) -> None:
    turn = find_turn(text)
    assert (turn.speaker if turn else "") == speaker
    assert turn is None or text[turn.start : turn.end] == speaker


def test_a_conversation_takes_turns() -> None:
    assert is_conversation("[12:03] Ann: Hello\n\n[12:04] Bob: Hello")
    assert is_conversation("Ann: Hello\n\nBob: Hello\n\nAnn: Bye")
    assert not is_conversation("Size: XL\n\nShape: Round\n\nForm: Flat")
    assert not is_conversation("Ann came.\n\nBob: Hello\n\nThen they left.")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The boat sails.\n\n-- dry\n-- wet\n-- cold\n\nIt is late.", "wet"),
        ("It takes options.\n\n--dry-run\n\nIt is late.", "dry"),
        ("Date: 5 May\nPlace: Oslo\n\nWe met the mayor.", "5 May"),
    ],
)
def test_lists_options_and_forms_are_quoted_alone(text: str, wanted: str) -> None:
    """Only the head and the signature of a post are shown with what was written."""
    quoted = quote_around(text, [(text.index(wanted), text.index(wanted) + len(wanted))], 200)
    assert not any(other in quoted for other in ("sails", "options", "mayor"))


def test_the_label_of_a_row_is_no_speaker() -> None:
    text = "\n".join(f"Row {n}: day: 2025-06-0{n}; load: {n}{n}" for n in range(1, 5))
    place = text.index("2025-06-03")
    assert quote_around(text, [(place, place + 10)], 200).count("Row") == 1
