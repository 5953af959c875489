"""What the commands take: text from standard input, names of documents, a version, a build that is only forecast."""

from __future__ import annotations

import json
import os
import re
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from leanrag_mcp.cli.main import app


def leanrag(*arguments: str, typed: str = "", **environment: str) -> Result:
    return CliRunner().invoke(app, arguments, input=typed, env=environment)


def test_text_from_standard_input_is_a_document_that_its_id_replaces(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path), "--no-build", "--json")
    for text, became in (("Assam tea is strong.", "added"), ("Assam tea is malty.", "replaced")):
        ran = leanrag("ingest", "-", "--title", "Tea", "--id", "tea", *data, typed=text)
        (document,) = json.loads(ran.stdout)["documents"]
        assert (document["id"], document["title"], document["status"]) == ("tea", "Tea", became)


def test_text_from_standard_input_may_have_another_encoding(tmp_path: Path) -> None:
    page = (
        "Die Straße führt über die Brücke zum Café. Grüße aus Köln, wo die Bäume blühen und Vögel hören.\n"
        * 3
    )
    data = ("--data-dir", str(tmp_path))
    ran = CliRunner().invoke(app, ["ingest", "-", "--no-build", *data], input=page.encode("latin-1"))
    assert ran.exit_code == 0, ran.stderr
    assert "Die Straße führt über" in leanrag("grep", "Brücke", *data).stdout
    ran = CliRunner().invoke(app, ["ingest", "-", "--no-build", *data], input=b"\x00\xff\x00\x01" * 99)
    assert (ran.exit_code, "Traceback" in ran.stderr) == (1, False)


def test_a_file_name_of_two_lines_is_one_line_of_a_report(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tea.md").write_text("Assam tea is strong.")
    (tmp_path / "docs" / "x\nadded      fake, 9 chunks.bin").write_bytes(b"\x00")
    ran = leanrag(
        "ingest", str(tmp_path / "docs"), "--details", "--no-build", "--data-dir", str(tmp_path / "data")
    )
    assert "x added fake" in " ".join(ran.stdout.split())
    assert not [line for line in ran.stdout.splitlines() if line.startswith("added      fake")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["https://rag.example/page"], "curl -L https://rag.example/page | leanrag ingest -"),
        (["note.md", "--title", "Note"], "give - for standard input"),
    ],
)
def test_what_ingest_cannot_take_is_refused_with_the_next_step(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    ran = leanrag("ingest", *arguments, "--data-dir", str(tmp_path))
    assert ran.exit_code == 1
    assert said in ran.stderr


def test_forget_takes_the_end_of_a_path_and_suggests_the_documents_that_lie_in_a_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    (tmp_path / "docs" / "sub" / "plan.txt").write_text("The plan is to brew tea.")
    for place in range(4):
        (tmp_path / "docs" / f"plan.txt.{place}.md").write_text(f"Subject {place} of the plan is another.")
    data = ("--data-dir", str(tmp_path / "data"))
    assert leanrag("ingest", "--no-build", str(tmp_path / "docs"), *data).exit_code == 0
    (meant,) = json.loads(leanrag("ls", "sub/plan.txt", "--json", *data).stdout)["documents"]
    ran = leanrag("forget", "sub", "--json", *data)
    assert ran.exit_code == 1
    (unknown,) = json.loads(ran.stdout)["documents"]
    (suggested,) = unknown["did_you_mean"]
    assert suggested.endswith(f"{meant['number']})")
    assert leanrag("forget", "sub/plan.txt", *data).exit_code == 0
    assert "sub/plan.txt" not in leanrag("ls", *data).stdout


def test_a_forecast_needs_no_key_and_speaks_in_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    note = tmp_path / "note.md"
    note.write_text("Alan Stevenson designed Skerryvore. It was lit in 1844.")
    data = ("--data-dir", str(tmp_path / "data"))
    assert leanrag("ingest", "--no-build", str(note), *data).exit_code == 0
    without = leanrag("build", "--dry-run", *data)
    assert "A build of 1 document (1 passage) calls no model and costs nothing" in without.stdout
    ran = leanrag("build", "--dry-run", *data, LEANRAG_LLM_MODEL="openai/gpt-4o-mini")
    assert ran.exit_code == 0, ran.stderr
    assert "with openai/gpt-4o-mini would make" in ran.stdout
    assert "- extract: 1 calls" in ran.stdout
    refused = leanrag("build", *data, LEANRAG_LLM_MODEL="openai/gpt-4o-mini")
    assert refused.exit_code == 1
    assert "OPENAI_API_KEY" in refused.stdout + refused.stderr


def test_the_help_lists_the_commands_in_panels() -> None:
    panels = re.findall(r"─ (\w+) ─", leanrag("--help").stdout)
    assert panels == ["Options", "Start", "Ask", "Documents", "Graph", "Data", "Server", "Measure"]


def test_a_wrong_setting_names_the_command_that_sets_it(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('tau = "many"', encoding="utf-8")
    refused = leanrag("status", "--data-dir", str(tmp_path), LEANRAG_CONFIG=str(file)).stderr
    assert f"`leanrag config set tau VALUE` sets it in {file}" in refused
    assert leanrag("config", "set", "tau", "20", LEANRAG_CONFIG=str(file)).exit_code == 0
    assert "tau" not in leanrag("status", "--data-dir", str(tmp_path), LEANRAG_CONFIG=str(file)).stderr


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone is the system's")
def test_times_are_local(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ("--data-dir", str(notes.parent / "data"))
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        listed = [leanrag(command, *data).stdout for command in ("collections", "history")]
        jobs = leanrag("jobs", *data).stdout
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "+05:45" in listed[1]
    assert all("+00:00" not in each for each in listed)
    (built,) = re.findall(r"built (\S+ \d\d):\d\d", listed[0])
    assert jobs.startswith(built)


def test_the_version_and_completion_are_options_of_the_command() -> None:
    assert leanrag("--version").stdout == f"leanrag-mcp {version('leanrag-mcp')}\n"
    assert "--install-completion" in leanrag("--help").stdout


# --- forgetting ------------------------------------------------------------------------------


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A synced folder of three notes, two of one title; its data folder is beside it."""
    folder = tmp_path / "notes"
    for name, title in (("old.md", "Plan"), ("sub/new.md", "Plan"), ("sub/bells.md", "Bell tower")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {title}\n\nEwan Reid wrote {name} on the Bell tower of Tarbert.")
    assert leanrag("sync", str(folder), "--data-dir", str(tmp_path / "data")).exit_code == 0
    return folder


@pytest.mark.parametrize("given", ["d2", "bells.md", "Bells", "sub/bells", "Bell tower", "PATH"])
def test_a_document_is_forgotten_by_number_file_name_title_or_path_and_the_rest_is_built(
    notes: Path, given: str
) -> None:
    data = ("--data-dir", str(notes.parent / "data"))
    listed = json.loads(leanrag("ls", "--json", *data).stdout)["documents"]
    meant = next(each for each in listed if each["title"] == "Bell tower")
    words = {"d2": meant["number"], "PATH": str(notes / "sub" / "bells.md")}
    before = leanrag("forget", words.get(given, given), "--dry-run", *data)
    assert before.exit_code == 0
    assert before.stdout.splitlines() == [
        f"would go    {notes / 'sub' / 'bells.md'}  (Bell tower)",
        "Dry run: nothing was changed.",
    ]
    assert len(json.loads(leanrag("ls", "--json", *data).stdout)["documents"]) == 3
    ran = leanrag("forget", words.get(given, given), *data)
    assert ran.exit_code == 0, ran.output
    assert f"{notes / 'sub' / 'bells.md'} is still there: a sync of its folder adds it again." in ran.stderr
    status = json.loads(leanrag("status", "--json", *data).stdout)
    assert (status["documents"], status["stale"]) == (2, False)
    assert "1 added" in leanrag("sync", str(notes), *data).stdout


def test_an_unknown_name_is_answered_with_similar_documents_alone(notes: Path) -> None:
    data = ("--data-dir", str(notes.parent / "data"))
    assert "did you mean" in leanrag("forget", "bels.md", *data).output
    assert "did you mean" not in leanrag("forget", "nothere.pdf", *data).output


def test_a_title_of_two_documents_is_refused_with_their_numbers(notes: Path) -> None:
    ran = leanrag("forget", "Plan", "--data-dir", str(notes.parent / "data"))
    assert ran.exit_code == 1
    assert "2 documents are called 'Plan'." in ran.stderr
    assert "sub/new.md" in ran.stderr


def test_what_is_forgotten_and_ignored_does_not_come_back(notes: Path) -> None:
    data = ("--data-dir", str(notes.parent / "data"))
    (notes / "sub" / ".leanragignore").write_text("*.tmp")
    (notes / "old.md").rename(notes / "sub" / "[old].md")
    leanrag("sync", str(notes), *data)
    assert leanrag("forget", "[old].md", "bells.md", "--ignore", *data).exit_code == 0
    assert (notes / "sub" / ".leanragignore").read_text().split() == ["*.tmp", "/\\[old\\].md", "/bells.md"]
    again = leanrag("sync", str(notes), *data).stdout
    assert "Documents: 1 unchanged." in again
    assert "2 named by .leanragignore" in again


def test_a_name_with_line_breaks_leaves_out_no_other_file(notes: Path) -> None:
    data = ("--data-dir", str(notes.parent / "data"))
    odd = notes / "odd\r\x0b\x85\u2028\nold.md"
    odd.write_text("An odd name for a text about tides.")
    leanrag("ingest", str(odd), "--no-build", *data)
    assert leanrag("forget", str(odd), "--ignore", "--no-build", *data).exit_code == 0
    again = json.loads(leanrag("sync", str(notes), "--no-build", "--json", *data).stdout)
    assert (again["counts"], again["skipped"][0]["count"]) == ({"unchanged": 3}, 1)


def test_a_file_whose_name_is_not_utf8_can_be_ignored_too(notes: Path) -> None:
    data = ("--data-dir", str(notes.parent / "data"))
    file = notes / os.fsdecode(b"old\xff.md")
    try:
        file.write_text("An odd name for a text about tides.")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    leanrag("ingest", str(notes), "--no-build", *data)
    ran = leanrag("forget", r"old\xff.md", "--ignore", "--no-build", *data)
    assert "is still there" in ran.stderr
    again = json.loads(leanrag("sync", str(notes), "--no-build", "--json", *data).stdout)
    assert (again["counts"], again["skipped"][0]["count"]) == ({"unchanged": 3}, 1)


def test_no_name_of_a_file_steers_the_terminal(notes: Path) -> None:
    data = ("--data-dir", str(notes.parent / "data"))
    name, shown = "odd\x1b]0;owned\x07\x9b31m\u202e.md", r"odd\u001b]0;owned\u0007\u009b31m\u202e.md"
    (notes / name).write_text("An odd name for a text about tides.")
    (notes / "sub" / name).write_text("An odd name for another text about tides.")
    (notes / "empty").mkdir()
    (notes / "empty" / name).write_text("")
    for command, says in {
        ("ingest", str(notes), "--no-build", "--details"): f"left out   empty/{shown}",
        ("ls",): "d1  ",
        ("forget", "odd]0;owned31m"): "2 documents are called",
        ("forget", str(notes / name), "--dry-run"): f"would go    {notes}/odd",
        ("forget", str(notes / name), "--ignore", "--no-build", "--json"): f"{notes / shown} is still there",
    }.items():
        output = leanrag(*command, *data).output
        assert says in output
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", output)
