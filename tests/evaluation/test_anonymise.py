"""Question sets without names."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.evaluation.datasets import read_set

PROGRAMS = Path(__file__).parents[1] / "programs"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(PROGRAMS))
    program = import_module("anonymise")
anonymise, app = program.anonymise, program.app

NAMES = ("Ada", "Lovelace", "Babbage", "Darjeeling", "Assam", "Murano", "London", "Brahmaputra")


def anonymise_rows(folder: Path, passages: list[tuple[str, str]], queries: list[dict[str, Any]]) -> Any:
    path = folder / "set.json"
    rows = [{"title": title, "text": text} for title, text in passages]
    path.write_text(json.dumps({"passages": rows, "queries": queries}), encoding="utf-8")
    return anonymise(read_set(path))


def test_one_name_is_one_token_everywhere_and_no_name_is_left(tiny_path: Path, tmp_path: Path) -> None:
    out, names = tmp_path / "out.json", tmp_path / "names.json"
    options = ["--out", str(out), "--names", str(names), "--json"]
    ran = CliRunner().invoke(app, [str(tiny_path), *options])
    assert ran.exit_code == 0, ran.stderr
    written = out.read_text(encoding="utf-8")
    assert not [name for name in NAMES if re.search(rf"\b{name}\b", written)]
    key = json.loads(names.read_text(encoding="utf-8"))
    token_of = {name: token for token, name in key.items()}
    old, new = read_set(tiny_path), read_set(out)
    london = token_of["London"]
    assert f"was born in {london}." in new.passages[1].text
    assert new.questions[1].answers[0] == london
    lovelace = token_of["Ada Lovelace"]
    assert new.passages[0].title == lovelace
    assert new.passages[0].text.startswith(f"{lovelace} wrote the first program.")
    assert new.questions[1].text == f"Where was the man born with whom {lovelace} worked?"
    # What is no name stays, and so do ids, types and gold passages.
    assert new.questions[2].answers == ("glass",)
    assert [(each.id, each.type, each.gold) for each in new.questions] == [
        (each.id, each.type, each.gold) for each in old.questions
    ]
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert figures == {"names": len(key), "questions": 3, "changed": 3, "out": str(out)}


def test_the_names_can_be_asked_for(tiny_path: Path, tmp_path: Path) -> None:
    out, names, task = (tmp_path / f"{name}.json" for name in ("out", "names", "task"))
    options = ["--out", str(out), "--names", str(names), "--recover", str(task)]
    ran = CliRunner().invoke(app, [str(tiny_path), *options])
    assert ran.exit_code == 0, ran.stderr
    key = json.loads(names.read_text(encoding="utf-8"))
    found = read_set(task)
    assert found.passages == read_set(out).passages
    assert len(found.questions) == len(read_set(tiny_path).questions)
    for question in found.questions:
        assert question.text == f"Which real name does {question.id} stand for?"
        assert question.answers == (key[question.id],)
        holding = [
            place
            for place, each in enumerate(found.passages)
            if re.search(rf"\b{question.id}\b", f"{each.title} {each.text}")
        ]
        assert list(question.gold) == holding
    # Babbage stands in two passages, all others in one.
    assert found.questions[0].answers == ("Charles Babbage",)
    assert found.questions[0].gold == (0, 1)


def test_a_surname_stands_for_the_person_of_its_passage(tmp_path: Path) -> None:
    found = anonymise_rows(
        tmp_path,
        [
            ("Carl Rogers", "Carl Rogers was a psychologist. Rogers taught in Chicago."),
            ("Roy Rogers", "Roy Rogers was a singer. Rogers had a horse."),
        ],
        [{"id": "q", "question": "What was Carl Rogers?", "answer": "a psychologist", "gold": [0]}],
    )
    (carl, roy) = found.questions.passages
    assert carl.text == f"{carl.title} was a psychologist. {carl.title} taught in Entity2."
    assert roy.text == f"{roy.title} was a singer. {roy.title} had a horse."
    assert carl.title != roy.title


def test_numbers_dates_and_verdicts_stay(tmp_path: Path) -> None:
    found = anonymise_rows(
        tmp_path,
        [("Skerryvore", "Skerryvore was lit in 1844. Skerryvore is 48 metres high.")],
        [{"id": "q", "question": "Is Skerryvore high?", "answer": ["yes", "1844"], "gold": [0]}],
    )
    (question,) = found.questions.questions
    assert (question.text, question.answers) == ("Is Entity1 high?", ("yes", "1844"))
    assert found.questions.passages[0].text == "Entity1 was lit in 1844. Entity1 is 48 metres high."


def test_a_set_with_words_like_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has Person1 already"):
        anonymise_rows(
            tmp_path,
            [("Skerryvore", "Skerryvore is Person1 of the list.")],
            [{"id": "q", "question": "What is Skerryvore?", "answer": "Person1", "gold": [0]}],
        )


def test_nationalities_and_lone_capitals_are_replaced_and_tokens_tell_the_type(tmp_path: Path) -> None:
    found = anonymise_rows(
        tmp_path,
        [
            (
                "Ada Hansen (engineer)",
                "Dr. Ada Hansen (born 1815) was a Norwegian engineer. In May the Zorb was hers.",
            )
        ],
        [{"id": "q", "question": "Which Norwegian built the Zorb?", "answer": "Ada Hansen", "gold": [0]}],
    )
    (passage,), (question,) = found.questions.passages, found.questions.questions
    assert not re.search("Norwegian|Zorb|Hansen", passage.text + question.text + question.answers[0])
    assert re.fullmatch(r"Person\d+", question.answers[0])
    assert "In May" in passage.text
    assert passage.text.startswith("Dr. ")


def test_a_set_without_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no name to replace"):
        anonymise_rows(
            tmp_path,
            [("", "it rains, and the road is wet.")],
            [{"id": "q", "question": "is it wet?", "answer": "yes", "gold": [0]}],
        )


def test_no_file_is_overwritten_and_a_missing_folder_is_named(tiny_path: Path, tmp_path: Path) -> None:
    before = tiny_path.read_bytes()
    for out, said in ((tiny_path, "exists already"), (tmp_path / "none" / "out.json", "no folder")):
        ran = CliRunner().invoke(app, [str(tiny_path), "--out", str(out)])
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert said in ran.stderr
    assert tiny_path.read_bytes() == before
