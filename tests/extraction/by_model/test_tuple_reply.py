"""The tuple form, on 187 real replies and on what goes wrong in it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.extraction.by_model.extract import read_tuples
from leanrag_engine.extraction.by_model.reply import read_extract
from leanrag_engine.llm.batching import read_object


@pytest.fixture(scope="module")
def replies(shared_data: Path) -> list[str]:
    held = json.loads((shared_data / "extraction_replies_187.json").read_text(encoding="utf-8"))
    return [each["return"] for each in held.values()]


def test_84_of_187_real_replies_give_entities_and_the_others_answer_other_prompts(replies: list[str]) -> None:
    """Two of the others are prose (a merged description, an answer), 101 are reports on communities in JSON."""
    answers = [read_tuples(reply) for reply in replies]
    assert Counter(len(each) for each in answers) == {1: 84, 0: 103}
    others = [reply for reply, found in zip(replies, answers, strict=True) if not found]
    reports = [reply for reply in others if reply.startswith("{")]
    assert len(reports) == 101
    assert all({"title", "summary", "findings"} <= read_object(reply).keys() for reply in reports)
    rows = [each for found in answers for each in found]
    assert sum(len(each["entities"]) for each in rows) == 654
    assert sum(len(each["relations"]) for each in rows) == 520
    # None of the 84 is taken for JSON.
    for reply, found in zip(replies, answers, strict=True):
        if found:
            with pytest.raises(ReplyUnusable):
                read_object(reply)


def test_nearly_all_that_the_real_replies_say_is_kept(replies: list[str]) -> None:
    found = [read_extract(item, "c", reply) for reply in replies for item in read_tuples(reply)]
    assert len(found) == 84
    # More entities than were listed: models relate what they forgot to list.
    assert sum(len(each.entities) for each in found) > 700
    assert sum(len(each.relations) for each in found) > 510
    assert all(0 <= each.importance <= 10 for one in found for each in one.relations)


ENTITY = {"name": "Alice", "type": "person", "description": "A girl."}


@pytest.mark.parametrize(
    "reply",
    [
        '("entity"<|>"Alice"<|>"person"<|>"A girl.")<|COMPLETE|>',
        "(entity<|>Alice<|>person<|>A girl.)",
        "```\n1. (“entity”<|>“Alice”<|>“person”<|>“A girl.”)\n```",
        'Sure!\n\n**Entities:**\n("entity" <|> "Alice" <|> "person" <|> "A girl.")\n\nThat is all.',
        "entity<|#|>Alice<|#|>person<|#|>A girl.\n<|COMPLETE|>",
    ],
)
def test_quotes_lists_and_headings_around_a_tuple_do_not_matter(reply: str) -> None:
    assert read_tuples(reply) == [{"entities": [ENTITY], "relations": []}]


@pytest.mark.parametrize(
    ("fields", "description", "importance"),
    [
        ('"They met."<|>7', "They met.", "7"),
        ('"They met."', "They met.", None),
        ('"They met."<|>"talk"<|>7', "They met.", "7"),
        ('"talk"<|>"They met long ago."', "They met long ago.", None),
    ],
)
def test_relations_with_more_or_fewer_fields_are_understood(
    fields: str, description: str, importance: Any
) -> None:
    (found,) = read_tuples(f'("relationship"<|>"A"<|>"B"<|>{fields})##')
    assert found["relations"] == [
        {"source": "A", "target": "B", "description": description, "importance": importance}
    ]


def test_a_tuple_may_hold_brackets_and_signs() -> None:
    (found,) = read_tuples('("entity"<|>"f(x) (a function)"<|>"concept"<|>"Maps x (a number) to #1.")##')
    assert found["entities"] == [
        {"name": "f(x) (a function)", "type": "concept", "description": "Maps x (a number) to #1."}
    ]


def test_answers_to_several_tasks_are_separated_by_their_headings() -> None:
    one, two = ('("entity"<|>"Alice"<|>"person"<|>"A girl.")', '("entity"<|>"Bob"<|>"person"<|>"A boy.")')
    found = read_tuples(f"## Task 1\n{one}\n\n**Task 2**\n{two}")
    assert [(each["task"], each["entities"][0]["name"]) for each in found] == [(1, "Alice"), (2, "Bob")]
    found = read_tuples(f"{one}<|COMPLETE|>\n{two}<|COMPLETE|>")
    assert [each["entities"][0]["name"] for each in found] == ["Alice", "Bob"]


@pytest.mark.parametrize("reply", ["", "No entities here.", '{"title": "An entity"}', "entity: Alice"])
def test_what_holds_no_tuple_gives_nothing(reply: str) -> None:
    assert read_tuples(reply) == []


def test_a_reply_that_is_complete_at_once_says_that_there_is_nothing() -> None:
    assert read_tuples("<|COMPLETE|>") == [{"entities": [], "relations": []}]
