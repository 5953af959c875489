"""``leanrag eval questions`` by a scripted model and by a worksheet, on documents that can be read at a glance."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from leanrag_mcp.cli.evaluate.commands import app
from leanrag_mcp.cli.main import app as leanrag

DOCUMENTS = {
    "tea.md": "# Tea\n\nDarjeeling tea grows in West Bengal, on steep slopes of the hills around the town. The first of "
    "its pickings takes place in March, as soon as the young leaves have come out.",
    "glass.md": "# Glass\n\nMurano is known for its glass. The furnaces were moved there in 1291, because the houses "
    "of Venice were made of wood and a fire would have spread through the whole city.",
    "ropes.md": "# Ropes\n\nRopes for ships were long made of hemp. In the ropery of Chatham they are still twisted in a "
    "hall that is 346 metres long, as long as the longest rope that the navy ever wanted.",
}
GOOD = {
    "tea": {
        "question": "When are the leaves from the slopes around the Himalayan town gathered first?",
        "answer": "In March, in West Bengal.",
        "facts": ["in March", "West  Bengal"],
        "queries": ["first picking of Darjeeling tea"],
    },
    "glass": {"question": "Why did glassmakers leave Venice?", "answer": "Fire.", "facts": ["made of wood", "1291"]},
    "ropes": {"question": "How big is the hall for ropes?", "answer": "346 metres.", "facts": ["346 metres"]},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "no key")
    found = tmp_path / "set"
    (found / "docs").mkdir(parents=True)
    for name, text in DOCUMENTS.items():
        (found / "docs" / name).write_text(text)
    return found


def run(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["questions", str(folder), *options])


def with_model(server: Any, *options: str) -> tuple[str, ...]:
    return ("--model", "openai/tiny", "--api-base", server.url, "--json", *options)


def topic_of(text: str) -> str:
    """The document of the passage that a request or a worksheet shows last."""
    return re.findall("Darjeeling|Murano|Chatham", text)[-1]


TOPICS = {"Darjeeling": "tea", "Murano": "glass", "Chatham": "ropes"}


def script(**changed: Any) -> Callable[[Any], str]:
    """Answer each request with the good question on its passage, or with a changed one."""
    answers = GOOD | changed

    def answer(request: Any) -> str:
        shown = request.body["messages"][1]["content"]
        return json.dumps({"items": [{"task": 1, "queries": []} | answers[TOPICS[topic_of(shown)]]]})

    return answer


def stored(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "questions.json").read_text())
    return found


def test_the_questions_of_a_model_are_a_set_that_coverage_reads(folder: Path, chat_server: Any) -> None:
    chat_server.follows(script())
    ran = run(folder, *with_model(chat_server))
    assert ran.exit_code == 0, ran.stderr
    figures = json.loads(ran.stdout)
    assert figures == {
        "questions": 3, "added": 3, "rejected": 0, "calls": 3, "tokens": 360, "capped": False,
    }  # fmt: skip
    by_question = {each["question"]: each for each in stored(folder)["questions"]}
    tea = by_question[GOOD["tea"]["question"]]
    assert [fact["evidence"] for fact in tea["facts"]] == ["in March", "West Bengal"]
    assert (tea["document"], tea["author"]) == ("Tea", "openai/tiny")
    ran = CliRunner().invoke(
        app, ["coverage", str(folder), "--compare", "flat", "--budgets", "1000", "--json"]
    )
    assert ran.exit_code == 0, ran.stderr
    (row,) = json.loads(ran.stdout.splitlines()[-1])["sets"]["set"]
    assert (row["questions"], row["facts"], row["all"]) == (3, 100.0, 100.0)
    assert "stand in no document" not in ran.stderr


@pytest.mark.parametrize(
    ("facts", "question", "said"),
    [
        (["in April"], None, '"in April" does not stand in the passage word for word'),
        (["Mar"], None, '"Mar" does not stand in the passage'),
        (["in March"], "What is picked in March?", "stands in the question already"),
        (["in March", "March"], None, '"March" is said by an earlier one already'),
        ([], None, "facts is a list of 0"),
        (None, None, "facts is missing"),
    ],
)
def test_a_fact_that_is_no_fact_is_asked_for_again_then_rejected_and_listed(
    facts: list[str] | None, question: str | None, said: str, folder: Path, chat_server: Any
) -> None:
    bad = GOOD["tea"] | {"facts": facts} | ({"question": question} if question else {})
    if facts is None:
        del bad["facts"]
    chat_server.follows(script(tea=bad))
    ran = run(folder, *with_model(chat_server))
    assert ran.exit_code == 0, ran.stderr
    assert json.loads(ran.stdout) | {"tokens": 0} == {
        "questions": 2, "added": 2, "rejected": 1, "calls": 4, "tokens": 0, "capped": False,
    }  # fmt: skip
    assert said in ran.stderr
    (rejected,) = stored(folder)["rejected"]
    assert (rejected["document"], said in rejected["reason"]) == ("Tea", True)
    assert any(said in request.last for request in chat_server.requests)
    # It is not paid for again.
    assert json.loads(run(folder, *with_model(chat_server)).stdout)["calls"] == 0


def test_a_fact_of_many_passages_tells_nothing(folder: Path, chat_server: Any) -> None:
    for number in range(4):
        words = " ".join(f"word{number}{place}" for place in range(40))
        (folder / "docs" / f"more{number}.md").write_text(f"Chatham in March: {words}.")
    bad = {"question": "When?", "answer": "Then.", "facts": ["in March"]}
    chat_server.follows(script(tea=bad, glass=bad | {"facts": ["Murano"]}, ropes=bad))
    ran = run(folder, *with_model(chat_server))
    assert "stands in 5 of 7 passages" in ran.stderr


def test_a_second_run_goes_on_and_changes_no_row(folder: Path, chat_server: Any) -> None:
    own = {"id": "mine", "question": "Who wrote it?", "facts": [], "note": "of a person"}
    (folder / "questions.json").write_text(json.dumps({"questions": [own], "about": "tea"}))
    chat_server.follows(script())
    first = json.loads(run(folder, *with_model(chat_server, "--number", "1")).stdout)
    before = stored(folder)
    second = json.loads(run(folder, *with_model(chat_server, "--number", "3")).stdout)
    assert (first["added"], second["added"], second["calls"]) == (1, 2, 2)
    after = stored(folder)
    assert after["questions"][:2] == before["questions"] == [own, before["questions"][1]]
    assert after["about"] == "tea"
    assert len({each["question"] for each in after["questions"]}) == 4


def test_no_call_is_made_that_could_pass_the_budget(folder: Path, chat_server: Any) -> None:
    chat_server.follows(script())
    ran = run(folder, *with_model(chat_server, "--budget", "1000"))
    assert ran.exit_code == 0, ran.stderr
    assert (json.loads(ran.stdout)["capped"], chat_server.calls) == (True, 0)
    assert "could pass --budget" in ran.stderr
    assert not (folder / "questions.json").exists()


def test_a_model_that_repeats_itself_ends(folder: Path, chat_server: Any) -> None:
    same = {"question": "When?", "answer": "Then."}
    facts = {name: same | {"facts": each["facts"]} for name, each in GOOD.items()}
    chat_server.follows(script(**facts))
    figures = json.loads(run(folder, *with_model(chat_server)).stdout)
    assert (figures["added"], figures["rejected"], figures["calls"]) == (1, 2, 3)


def test_an_agent_fills_a_worksheet(folder: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.json"
    ran = run(folder, "--worksheet", str(sheet))
    assert ran.exit_code == 0, ran.stderr
    content = json.loads(sheet.read_text())
    assert "word for word" in content["instructions"]
    for row in content["passages"]:
        row["result"] = GOOD[TOPICS[topic_of(row["text"])]]
    left = content["passages"].pop()
    content["passages"] += [left | {"result": None}, left | {"work_id": "qmadeup"}, left | {"result": ["?"]}]
    sheet.write_text(json.dumps(content))
    ran = run(folder, "--filled", str(sheet), "--json")
    assert ran.exit_code == 0, ran.stderr
    figures = json.loads(ran.stdout)
    assert (figures["questions"], figures["added"], figures["rejected"]) == (2, 2, 2)
    assert "No passage has the work_id 'qmadeup'" in ran.stderr
    assert "expected an object" in ran.stderr
    # What was rejected can be corrected; what was taken is not taken twice.
    content["passages"][-1] = left
    sheet.write_text(json.dumps(content))
    figures = json.loads(run(folder, "--filled", str(sheet), "--json").stdout)
    assert (figures["questions"], figures["added"], figures["rejected"]) == (3, 1, 1)
    refused = run(folder, "--worksheet", str(tmp_path / "other.json"))
    assert (refused.exit_code, "0 passages are left" in refused.stderr) == (1, True)


def test_questions_are_written_and_asked_on_a_collection_that_exists(
    folder: Path, tmp_path: Path, chat_server: Any
) -> None:
    chat_server.follows(script())
    where = ("--collection", "notes", "--data-dir", str(tmp_path / "data"))
    assert CliRunner().invoke(leanrag, ["ingest", str(folder / "docs"), *where]).exit_code == 0
    for path in (folder / "docs").iterdir():
        path.unlink()
    asked = tmp_path / "asked"  # the documents are in the collection alone
    ran = run(asked, *with_model(chat_server, *where))
    assert ran.exit_code == 0, ran.stderr
    assert (json.loads(ran.stdout)["added"], json.loads(ran.stdout)["rejected"]) == (3, 0)
    assert [*(each.name for each in asked.iterdir())] == ["questions.json"]
    ran = CliRunner().invoke(app, ["coverage", str(asked), "--budgets", "1000", "--json", *where])
    assert ran.exit_code == 0, ran.stderr
    rows = json.loads(ran.stdout.splitlines()[-1])["sets"]["asked"]
    assert [(row["way"], row["questions"], row["facts"]) for row in rows] == [
        ("lca", 3, 100.0),
        ("naive", 3, 100.0),
        ("flat", 3, 100.0),
    ]
    listed = CliRunner().invoke(leanrag, ["collections", "--json", where[2], where[3]])
    assert [each["name"] for each in json.loads(listed.stdout)["collections"]] == ["notes"]
    for command in ("questions", "coverage"):
        wrong = ["--collection", "note", *where[2:], *(["--worksheet", "x"] * (command == "questions"))]
        refused = CliRunner().invoke(app, [command, str(asked), *wrong])
        assert (refused.exit_code, "Did you mean 'notes'" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "is not JSON"), ("[]", "is no reply set"), ('{"questions": [{}]}', "question of question 0")],
)
def test_a_file_that_is_no_set_is_left_alone(content: str, said: str, folder: Path, chat_server: Any) -> None:
    (folder / "questions.json").write_text(content)
    ran = run(folder, *with_model(chat_server))
    assert (ran.exit_code, chat_server.calls) == (1, 0)
    assert said in ran.stderr.replace("the file: it is []", "is no reply set")
    assert (folder / "questions.json").read_text() == content


def test_without_a_model_both_ways_are_named(folder: Path) -> None:
    ran = run(folder)
    assert ran.exit_code == 1
    assert "--model" in ran.stderr
    assert "--worksheet" in ran.stderr
