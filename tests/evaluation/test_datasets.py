"""Reading question sets, and the error for each kind of mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.evaluation.datasets import CorpusPassage, Question, read_set


def write_set(tmp_path: Path, content: object, name: str = "set.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_set_is_read_with_its_answers_and_gold(tiny_path: Path) -> None:
    found = read_set(tiny_path)
    assert (found.name, len(found.passages), found.repeated) == ("tiny", 5, 0)
    assert found.passages[2] == CorpusPassage(
        "Darjeeling tea", "Darjeeling tea grows in West Bengal. It is picked in spring."
    )
    assert found.questions[1] == Question(
        "q2",
        "Where was the man born with whom Ada Lovelace worked?",
        ("London", "Greater London"),
        "two",
        (0, 1),
    )
    assert found.first(1).questions == found.questions[:1]
    assert found.first(1).digest == found.digest


def test_equal_passages_become_one_and_gold_follows(tmp_path: Path, tiny: dict[str, Any]) -> None:
    tiny["passages"].insert(0, dict(tiny["passages"][4]))
    tiny["queries"][0]["gold"] = [4]
    tiny["queries"][1]["gold"] = [0, 5]
    tiny["queries"][2]["gold"] = [5, 3]
    found = read_set(write_set(tmp_path, tiny))
    assert len(found.passages) == 5
    assert found.repeated == 1
    assert [each.gold for each in found.questions] == [(4,), (0,), (0, 3)]
    assert found.passages[4].title == "Assam tea"


def gold(value: object) -> Callable[[dict[str, Any]], None]:
    return lambda held: held["queries"][1].update(gold=value)


MISTAKES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "gold out of range": (gold([0, 17]), "gold of query 1: it is 17; expected a passage index from 0 to 4"),
    "gold below zero": (gold([-1]), "gold of query 1: it is -1"),
    "gold empty": (gold([]), "gold of query 1: it is []; expected a list of at least one"),
    "gold a title": (gold(["Glass"]), 'gold of query 1: it is "Glass"'),
    "gold a truth": (gold([True]), "gold of query 1: it is true"),
    "gold missing": (lambda held: held["queries"][1].pop("gold"), "gold of query 1: it is missing"),
    "question blank": (
        lambda held: held["queries"][0].update(question=" "),
        'question of query 0: it is " "',
    ),
    "question missing": (
        lambda held: held["queries"][2].pop("question"),
        "question of query 2: it is missing",
    ),
    "id twice": (
        lambda held: held["queries"][2].update(id="q1"),
        'id of query 2: it is "q1"; expected one that differs from query 0',
    ),
    "answer a number": (lambda held: held["queries"][0].update(answer=7), "answer of query 0: it is 7"),
    "passage empty": (
        lambda held: held["passages"].append({"title": "", "text": ""}),
        'text of passage 5: it is ""; expected a string, not blank',
    ),
    "passage a string": (
        lambda held: held["passages"].append("x"),
        'passage 5: it is "x"; expected an object',
    ),
    "query a list": (lambda held: held["queries"].append([]), "query 3: it is []; expected an object"),
    "no passages": (
        lambda held: held.update(passages=[]),
        "passages: it is []; expected a list with at least one",
    ),
    "no queries": (lambda held: held.pop("queries"), "queries: it is missing"),
}


@pytest.mark.parametrize(("spoil", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_place_value_and_expectation(
    spoil: Callable[[dict[str, Any]], object], said: str, tmp_path: Path, tiny: dict[str, Any]
) -> None:
    spoil(tiny)
    path = write_set(tmp_path, tiny)
    with pytest.raises(InvalidInput) as refused:
        read_set(path)
    assert said in refused.value.message
    assert str(path) in refused.value.message
    assert "1 problem." in refused.value.message


def test_of_many_mistakes_the_first_are_named_and_all_are_counted(
    tmp_path: Path, tiny: dict[str, Any]
) -> None:
    tiny["queries"] = [{"id": str(number), "question": "x", "gold": [99]} for number in range(30)]
    with pytest.raises(InvalidInput, match=r"has 30 problems.*query 4.* and 25 more\."):
        read_set(write_set(tmp_path, tiny))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{oops", "is not JSON"),
        ("", "is not JSON"),
        ("[1, 2]", "holds list, not an object"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_the_error_for_another_file_describes_the_format_of_a_set(
    content: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        read_set(write_set(tmp_path, content))
    assert '"gold": [passage index' in refused.value.next_step


def test_a_file_that_is_not_utf_8_or_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.json"
    path.write_bytes(b'{"passages": "caf\xe9"}')
    with pytest.raises(InvalidInput, match=r"latin\.json is not UTF-8: byte 17 is 0xe9"):
        read_set(path)
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        read_set(tmp_path / "none.json")


# --- UltraDomain ---------------------------------------------------------------------------

ROWS = [
    {
        "input": "Who keeps bees?",
        "context": "A long book on bees.",
        "answers": ["Beekeepers."],
        "meta": {"title": "Bees"},
    },
    {
        "input": "Why?",
        "context": "A long book on bees.",
        "answers": ["Honey."],
        "meta": {"title": "Bees"},
        "_id": "z",
    },
    {
        "input": "What is law?",
        "context": "A book\u2028on law.",
        "answers": [],
        "meta": None,
        "label": "legal",
    },
]


@pytest.mark.parametrize("name", ["mix.jsonl", "mix.json"])
def test_ultradomain_asks_several_questions_of_one_document(name: str, tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
    found = read_set(write_set(tmp_path, lines + "\n", name))
    assert found.name == "mix"
    assert [passage.title for passage in found.passages] == ["Bees", ""]
    assert [(each.id, each.gold, each.answers) for each in found.questions] == [
        ("line 1", (0,), ("Beekeepers.",)),
        ("z", (0,), ("Honey.",)),
        ("line 3", (1,), ()),
    ]
    assert found.questions[2].type == "legal"


def test_a_bad_line_is_named_by_its_number(tmp_path: Path) -> None:
    lines = [json.dumps(ROWS[0]), "", "{", json.dumps({"input": "x"}), "7"]
    with pytest.raises(InvalidInput) as refused:
        read_set(write_set(tmp_path, "\n".join(lines), "bad.jsonl"))
    said = refused.value.message
    assert "has 3 problems" in said
    assert "line 3: it is not JSON" in said
    assert "context of line 4: it is missing" in said
    assert "line 5: it is 7" in said


@pytest.mark.parametrize(
    ("name", "passages", "gold"), [("musique_train100", 1890, 237), ("hotpot_train100", 994, 200)]
)
def test_the_real_sets_are_read_whole(name: str, passages: int, gold: int, shared_data: Path) -> None:
    found = read_set(shared_data / f"{name}.json")
    assert (len(found.passages), found.repeated, len(found.questions)) == (passages, 0, 100)
    assert sum(len(each.gold) for each in found.questions) == gold
