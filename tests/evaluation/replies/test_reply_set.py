"""What a reply set may hold, and what is said of one that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.evaluation.replies.reply_set import read_reply_set

FACT = {"any": ["in spring"]}


def write_set(folder: Path, questions: Any) -> Path:
    (folder / "docs").mkdir()
    (folder / "questions.json").write_text(json.dumps(questions))
    return folder


def test_questions_without_facts_are_counted_and_left_out(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "question": "When?", "facts": [FACT], "queries": ["tea"], "answer": "In spring."},
        {"id": "b", "question": "Why?", "facts": []},
    ]
    found = read_reply_set(write_set(tmp_path, {"questions": rows}))
    assert [(each.id, each.text, each.sub_queries) for each in found.questions] == [("a", "When?", ("tea",))]
    assert found.unanswerable == 1
    assert found.name == tmp_path.name


def test_a_fact_is_found_in_any_case_and_across_line_ends(tmp_path: Path) -> None:
    rows = [{"question": "When?", "facts": [{"any": ["April", "in spring .{0,9} early"]}]}]
    (question,) = read_reply_set(write_set(tmp_path, {"questions": rows})).questions
    (fact,) = question.facts
    assert fact.is_in("It is picked In\n  Spring and early.")
    assert not fact.is_in("It is picked in autumn.")


def test_a_fact_is_found_in_other_words_that_stand_close_together_in_one_excerpt(tmp_path: Path) -> None:
    rows = [{"question": "Pay?", "facts": [{"any": ["x{9}"], "loose": [["15|fifteen", "week|wage"]]}]}]
    (question,) = read_reply_set(write_set(tmp_path, {"questions": rows})).questions
    (fact,) = question.facts
    assert fact.is_in("His weekly pay [d1:c4] is\nfifteen shillings.")
    assert not fact.is_in("Fifteen shillings.")
    assert not fact.is_in(f"Fifteen {'and so on ' * 40} a week.")
    assert not fact.is_in("It is fifteen.\n### Wages\nThe week has seven days.")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "the file: it is []; expected an object"),
        ({"questions": {}}, "questions: it is {}"),
        ({"questions": []}, "No question of"),
        ({"questions": ["?"]}, 'question 0: it is "?"'),
        ({"questions": [{"question": " ", "facts": [FACT]}]}, "question of question 0"),
        ({"questions": [{"question": "?"}]}, "facts of question 0: it is missing"),
        ({"questions": [{"question": "?", "facts": []}]}, "No question of"),
        ({"questions": [{"question": "?", "facts": ["spring"]}]}, 'fact 0 of question 0: it is "spring"'),
        ({"questions": [{"question": "?", "facts": [{"any": ["("]}]}]}, 'it is "("; expected a regular'),
        ({"questions": [{"question": "?", "facts": [{"any": ["[["]}]}]}, 'it is "[["; expected a regular'),
        ({"questions": [{"question": "?", "facts": [{"any": ["a*"]}]}]}, "an empty text does not match"),
        (
            {"questions": [{"question": "?", "facts": [FACT | {"loose": ["a"]}]}]},
            "loose of fact 0 of question 0",
        ),
        ({"questions": [{"question": "?", "facts": [FACT], "queries": [7]}]}, "queries of question 0"),
        ({"questions": [{"id": 1, "question": "?", "facts": [FACT]}] * 2}, "differs from question 0"),
    ],
)
def test_each_problem_is_named_with_place_value_and_expectation(
    content: object, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_reply_set(write_set(tmp_path, content))
    assert said in caught.value.message
    assert str(tmp_path / "questions.json") in caught.value.message


def test_a_folder_without_documents_or_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no file questions\.json"):
        read_reply_set(tmp_path)
    (tmp_path / "questions.json").write_text("{")
    with pytest.raises(InvalidInput, match="no folder docs"):
        read_reply_set(tmp_path)
    (tmp_path / "docs").mkdir()
    with pytest.raises(InvalidInput, match="not JSON"):
        read_reply_set(tmp_path)
