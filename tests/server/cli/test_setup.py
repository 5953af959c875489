"""``leanrag setup``: one command from a folder to a server that a client can ask."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner, Result

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Query
from leanrag_mcp.cli.machine import setup as setting_up
from leanrag_mcp.cli.machine.session import list_tools
from leanrag_mcp.cli.main import app

TEXTS = {
    "lens": "The Fresnel lens is a compound lens. Augustin Fresnel invented the Fresnel lens in 1822. "
    "Alan Stevenson installed a Fresnel lens in the Skerryvore lighthouse.",
    "rock": "The Bell Rock lighthouse is the oldest sea-washed lighthouse. Robert Stevenson built the Bell Rock lighthouse. "
    "Robert Stevenson was the father of Alan Stevenson.",
    "board": "The Northern Lighthouse Board is the authority for Scotland. Robert Stevenson served the Northern Lighthouse "
    "Board. Alan Stevenson served the Northern Lighthouse Board after Robert Stevenson.",
}

NAMES = [
    *("Fresnel lens", "Augustin Fresnel", "Alan Stevenson", "Robert Stevenson", "Skerryvore", "Bell Rock"),
    "Northern Lighthouse Board",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with traces of Cursor and Codex, and a folder of documents."""
    folder = tmp_path / "home"
    (folder / "notes").mkdir(parents=True)
    for name, text in TEXTS.items():
        (folder / "notes" / f"{name}.txt").write_text(text, encoding="utf-8")
    for each in (".cursor", ".codex"):
        (folder / each).mkdir()
    for name in [*os.environ]:
        if name.startswith(("LEANRAG_", "XDG_", "CODEX_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(folder)
    return folder


def leanrag(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


async def read_contexts(data_dir: Path, questions: list[str]) -> list[str]:
    async with await LeanRAG.open(load_settings(data_dir=data_dir)) as engine:
        return [(await engine.query(Query(text=each))).context.text for each in questions]


def test_a_folder_is_indexed_the_clients_get_the_server_and_its_questions_find_their_passages(
    home: Path,
) -> None:
    ran = leanrag("setup", "notes", "--yes", "--data-dir", "data")
    assert ran.exit_code == 0, ran.output
    assert "3 documents, 3 passages" in ran.stdout
    cursor = json.loads((home / ".cursor/mcp.json").read_text(encoding="utf-8"))["mcpServers"]["leanrag"]
    codex = tomllib.loads((home / ".codex/config.toml").read_text(encoding="utf-8"))["mcp_servers"]["leanrag"]
    assert cursor == codex
    assert cursor["args"][-4:] == ["--allow-dir", str(home / "notes"), "--data-dir", str(home / "data")]
    tools = anyio.run(list_tools, [cursor["command"], *cursor["args"]])
    assert f"offers {len(tools)} tools" in ran.stdout
    assert "Two more levels" in ran.stdout.rstrip().rpartition("\n")[2]

    questions = [line.partition(". ")[2] for line in ran.stdout.splitlines() if line.startswith("  ")]
    assert len(questions) == 3
    for question, context in zip(questions, anyio.run(read_contexts, home / "data", questions), strict=True):
        asked = [name for name in NAMES if name in question]
        assert asked
        assert all(name in context for name in asked)

    again = leanrag("setup", "notes", "--yes", "--data-dir", "data")
    assert again.exit_code == 0, again.output
    assert again.stdout.count("is up to date") == 2
    assert [line for line in again.stdout.splitlines() if line.startswith("  ")] == [
        f"  {number}. {each}" for number, each in enumerate(questions, 1)
    ]


NOTICE = """# -*- coding: utf-8 -*-
# Copyright 2013 Ray Holder
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
"""


def test_questions_come_from_the_prose_of_several_folders_and_each_finds_its_own_first(home: Path) -> None:
    for name in TEXTS:
        (home / "notes" / name).mkdir()
        (home / "notes" / f"{name}.txt").rename(home / "notes" / name / "note.txt")
    with (home / "notes" / "rock" / "note.txt").open("a", encoding="utf-8") as rock:
        rock.write(" Arbroath Harbour is a harbour in Angus.")
    for number in range(5):
        line = f'{NOTICE}class Harbour{number}:\n    """Harbour{number} is a harbour of Ray Holder."""\n'
        (home / "notes" / "rock" / f"harbour{number}.py").write_text(line, encoding="utf-8")
    (home / "notes" / "logo.png").write_bytes(b"\x89PNG")
    (home / "notes" / "board" / "plan.docx").write_bytes(b"PK broken")
    ran = leanrag("setup", "notes", "--data-dir", "data")
    assert ran.exit_code == 0, ran.output
    assert "✓ Indexed in " in ran.stdout
    assert "! Left out: 1 not supported yet: .png files (logo.png)." in ran.stdout
    assert f"! Not read: '{home}/notes/board/plan.docx' cannot be read" in ran.stdout
    questions = [line.partition(". ")[2] for line in ran.stdout.splitlines() if line[:2] == "  "]
    assert len(questions) == 3
    first = [
        re.findall(r"### .*?(\w+)/note.txt", context)[0]
        for context in anyio.run(read_contexts, home / "data", questions)
    ]
    assert sorted(first) == sorted(TEXTS)


def test_no_question_is_answered_by_a_title_that_it_repeats(home: Path) -> None:
    title = "The Arbroath Light is a light"
    (home / "notes" / "light.md").write_text(
        f"# {title}\n\n{title}. The keeper painted the Arbroath Light in May. The Arbroath Light was seen from the harbour.\n"
    )
    ran = leanrag("setup", "notes", "--data-dir", "data")
    questions = [line for line in ran.stdout.splitlines() if line[:2] == "  "]
    assert questions
    assert not [each for each in questions if "What is the Arbroath Light" in each]


@pytest.mark.parametrize(
    ("file", "said"), [("", ""), ("logo.png", "Left out: 1 not supported yet: .png files.")]
)
def test_a_folder_without_documents_is_refused_and_no_client_gets_the_server(
    home: Path, file: str, said: str
) -> None:
    (home / "empty").mkdir()
    if file:
        (home / "empty" / file).write_bytes(b"\x89PNG")
    ran = leanrag("setup", "empty", "--yes", "--data-dir", "data")
    assert ran.exit_code == 1
    assert f"'{home / 'empty'}' holds no document that can be read." in ran.stderr
    assert said in ran.stderr
    assert [*(home / ".cursor").iterdir()] == []
    assert leanrag("sync", "notes", "--no-build", "--data-dir", "data").exit_code == 0
    again = leanrag("setup", "empty", "--yes", "--data-dir", "data")
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr.startswith(f"Error: The folder '{home / 'empty'}' holds no document")


def test_a_folder_of_damaged_files_alone_leaves_no_collection(home: Path) -> None:
    (home / "broken").mkdir()
    for name in ("a.docx", "b.pdf"):
        (home / "broken" / name).write_bytes(b"PK broken")
    data = ("--data-dir", "data")
    for command in (
        ["setup", "broken", "--yes"],
        ["sync", "broken"],
        ["sync", "broken", "--dry-run"],
        ["ingest", "broken/a.docx"],
    ):
        ran = leanrag(*command, *data)
        assert "--dry-run" in command or "cannot be read" in ran.output  # a trial run reads nothing
        assert leanrag("collections", *data).stdout == "There is no collection yet.\n", command
    assert [*(home / ".cursor").iterdir()] == []
    # A trial run writes nothing, and one that holds something stays.
    assert leanrag("sync", "notes", "--dry-run", *data).exit_code == 0
    assert leanrag("collections", *data).stdout == "There is no collection yet.\n"
    assert leanrag("sync", "notes", "--no-build", *data).exit_code == 0
    assert leanrag("sync", "broken", *data).exit_code == 1
    assert "3 documents" in leanrag("collections", *data).stdout


def test_without_a_terminal_and_without_yes_no_client_is_changed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not setting_up.add_to_clients([], "leanrag", ["leanrag-mcp"], yes=False)
    assert "No client was changed" in capsys.readouterr().out
    assert [*(home / ".cursor").iterdir()] == []


def test_a_client_that_was_not_found_can_be_named_and_one_with_a_broken_file_stops_no_other(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = home / ".cursor" / "mcp.json"
    broken.write_text("{", encoding="utf-8")
    assert setting_up.add_to_clients(["cursor", "windsurf"], "leanrag", ["leanrag-mcp"], yes=False)
    said = capsys.readouterr()
    assert "! Cursor was left as it is." in said.out
    assert f"{broken}, line 1" in said.out
    assert broken.read_text(encoding="utf-8") == "{"
    assert "✓ Windsurf: wrote" in said.out


def test_a_second_folder_joins_the_first_and_other_options_of_the_entry_stay(home: Path) -> None:
    program = ["/x/leanrag-mcp"]
    for command in (
        [*program, "--allow-dir", "/a", "--read-only", "--collection", "old"],
        [*program, "--allow-dir", "/b", "--data-dir", "/d"],
        [*program, "--allow-dir", "/a", "--data-dir", "/d"],
    ):
        setting_up.add_to_clients(["cursor"], "leanrag", command, yes=True)
    entry = json.loads((home / ".cursor/mcp.json").read_text(encoding="utf-8"))["mcpServers"]["leanrag"]
    assert entry["args"] == ["--allow-dir", "/a", "--read-only", "--allow-dir", "/b", "--data-dir", "/d"]


def test_a_second_collection_does_not_take_the_first_one_from_a_client(home: Path) -> None:
    for name in ("keepers", "ships"):
        (home / name).mkdir()
        (home / name / "note.md").write_text(
            f"# On {name}\n\nThe {name} were counted by Ines Mara in 1901.\n"
        )
        ran = leanrag(
            "setup",
            str(home / name),
            "--collection",
            name,
            "--client",
            "cursor",
            "--data-dir",
            str(home / "d"),
        )
        assert ran.exit_code == 0, ran.output
    assert "Clients see all collections: keepers, ships." in " ".join(ran.output.split())
    entry = json.loads((home / ".cursor/mcp.json").read_text(encoding="utf-8"))["mcpServers"]["leanrag"]
    folders = [word for word in entry["args"] if word.startswith(str(home)) and not word.endswith("/d")]
    assert folders == [str(home / "keepers"), str(home / "ships")]
    assert "--collection" not in entry["args"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere is not a folder"),
        (["notes", "--client", "emacs"], "There is no client called 'emacs'. Choose one of claude-desktop"),
        (["notes", "--client", "cursr"], "Did you mean cursor? Choose one of"),
        (["notes", "--name", "my server"], "'my server'"),
    ],
)
def test_a_wrong_argument_is_reported_before_anything_is_done(
    home: Path, arguments: list[str], said: str
) -> None:
    ran = leanrag("setup", *arguments, "--data-dir", "data")
    assert ran.exit_code == 1
    assert said in ran.output
    assert not (home / "data").exists()


@pytest.mark.usefixtures("home")
def test_ctrl_c_says_what_is_kept_and_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(setting_up, "run_ingest", interrupt)
    ran = leanrag("setup", "notes", "--data-dir", "data")
    assert ran.exit_code == 130
    assert "What is done is kept" in ran.output


def test_a_server_that_does_not_start_is_reported_with_its_command(home: Path) -> None:
    missing = str(home / "no-server")
    with pytest.raises(LeanRAGError, match=r"Start it by hand to see why: .*no-server"):
        anyio.run(list_tools, [missing])
