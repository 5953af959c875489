"""Long work on the command line: what it says at once, meanwhile, and after Ctrl-C."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import BuildRequest, IngestRequest
from leanrag_engine.core.ports import Progress
from leanrag_engine.engine import LeanRAG
from leanrag_mcp.cli.corpus.documents import LISTED
from leanrag_mcp.cli.main import app
from leanrag_mcp.cli.progress import LINE_SECONDS, ProgressLines, WholeProgress, list_steps
from leanrag_mcp.cli.running import wrap_line

COMMANDS = (("ingest", "notes"), ("sync", "notes"), ("build",))


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_says_what_is_kept_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    async def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LeanRAG, "open", interrupt)
    ran = CliRunner().invoke(app, [*command, "--data-dir", str(tmp_path / "data")])
    assert ran.exit_code == 130
    assert ran.stdout == ""
    opening, stopped = ran.stderr.split("\nStopped. ")
    assert opening.startswith(f"Opening the collection default in {tmp_path / 'data'}")
    assert "the previous hierarchy" in stopped
    assert "The same command" in stopped


def test_without_a_terminal_lines_tell_the_progress_at_intervals() -> None:
    written = io.StringIO()
    now = 0.0
    lines = ProgressLines(Console(file=written, width=40), lambda: now)
    lines.print("reading documents, step 2 of 9")
    now = LINE_SECONDS
    lines.print("[draft] of a line longer than the terminal")
    lines.print("embedding passages, step 3 of 9")
    now = 2 * LINE_SECONDS
    lines.print("publishing, step 9 of 9")
    assert written.getvalue().splitlines() == [
        "[draft] of a line longer than the terminal",
        "Publishing, step 9 of 9",
    ]


FIRST_BUILD = (
    Progress("queued"),
    Progress("list"),
    Progress("ingest", 0, 4, "a.md"),
    Progress("ingest", 2, 4, "c.md"),
    Progress("fit", 0, 9),
    Progress("embed", 4, 9),
    Progress("merge", 0, 9),
    Progress("embed", 0, 30, "layer 0"),
    Progress("embed", 15, 30, "layer 0"),
    Progress("cluster", 0, 30, "layer 1"),
    Progress("name", 0, 30),
    Progress("aggregate", 0, 2, "layer 1"),
    Progress("relate", 0, 40, "layer 1"),
    Progress("embed", 0, 2, "layer 1"),
    Progress("check", 0, 32),
    Progress("embed", 0, 0),
    Progress("index", 0, 41),
    Progress("publish"),
)
"""What an ingest with a build reports."""


def test_one_bar_counts_the_steps_of_the_whole_and_never_goes_back() -> None:
    now = 0.0
    steps = list_steps("ingest", IngestRequest(()), load_settings())
    whole = WholeProgress(steps, lambda: now)
    said, shares = [], []
    for each in FIRST_BUILD:
        whole.see(each)
        said.append(str(whole))
        shares.append(whole.share)
    assert said == [
        "starting",
        "looking for files, step 1 of 9",
        "reading documents, step 2 of 9",
        "reading documents, step 2 of 9",
        "embedding passages, step 3 of 9",
        "embedding passages, step 3 of 9",
        "merging what the passages name, step 4 of 9",
        "embedding entities, step 5 of 9",
        "embedding entities, step 5 of 9",
        *["building the hierarchy, step 6 of 9"] * 5,
        "checking the hierarchy, step 7 of 9",
        *["writing the search index, step 8 of 9"] * 2,
        "publishing, step 9 of 9",
    ]
    assert shares == sorted(shares)
    assert 0 < shares[2] < shares[3] < shares[4] < shares[-1] < 1
    left = whole.share / (1 - whole.share)
    now = 60 * left
    assert str(whole) == "publishing, step 9 of 9, about 60 s left"


def test_a_job_that_waits_says_for_what() -> None:
    whole = WholeProgress(list_steps("build", BuildRequest(), load_settings()))
    whole.see(Progress("waiting", message="Waiting for process 7 on fjord."))
    assert str(whole) == "Waiting for process 7 on fjord."


def test_an_ingest_ends_with_types_layers_place_and_next_command(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in ("a.md", "b.md", "c.TXT"):
        (notes / name).write_text(f"Assam tea, says {name}, grows along the Brahmaputra in India.")
    where = ("--data-dir", str(tmp_path / "data"))
    first = CliRunner().invoke(app, ["ingest", str(notes), "--no-build", *where]).stdout.splitlines()
    assert "Read by type: 2 .md, 1 .txt." in first
    assert first[-2].endswith(f"The index lies in {tmp_path / 'data'}.")
    build = shlex.split(first[-1].removeprefix("Next: leanrag "))
    assert build == ["build", *where]
    assert CliRunner().invoke(app, build).exit_code == 0
    (notes / "d.md").write_text("Darjeeling tea grows in West Bengal.")
    second = CliRunner().invoke(app, ["sync", str(notes), *where]).stdout.splitlines()
    assert "Read by type: 1 .md." in second
    status = json.loads(CliRunner().invoke(app, ["status", "--json", *where]).stdout)
    sizes = " → ".join(str(each["entities"]) for each in status["layers"])
    assert f"Entities by layer: {sizes}." in second
    assert "Documents: 1 added, 3 unchanged." in second
    query = shlex.split(second[-1].removeprefix("Next: leanrag "))
    assert query == ["query", "QUESTION", *where]
    typed = CliRunner().invoke(
        app, ["ingest", "-", "--title", "v1.2", "--no-build", *where], input="Tea is hot."
    )
    assert "Read by type: 1 from standard input." in typed.stdout
    dry = CliRunner().invoke(app, ["sync", str(notes), "--dry-run", *where]).stdout
    assert "Next:" not in dry


def test_building_reindexing_rolling_back_and_forgetting_end_in_sentences(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in ("a.md", "b.md"):
        (notes / name).write_text(f"Assam tea, says {name}, grows along the Brahmaputra in India.")
    where = ("--data-dir", str(tmp_path / "data"))

    def run(*words: str) -> str:
        ran = CliRunner().invoke(app, [*words, *where])
        assert ran.exit_code == 0, ran.stderr
        assert "True" not in ran.stdout
        return ran.stdout

    run("ingest", str(notes))
    built = run("build", "--mode", "rebuild")
    assert built.startswith("Generation 2 of collection default is published: G0 ")
    assert "Everything was clustered anew (mode rebuild): " in built
    assert "Next: leanrag query QUESTION --data-dir" in built
    assert "calls no model and costs nothing" in run("build", "--dry-run")
    assert "The vectors of collection default were written again: 2 of passages, " in run("reindex")
    assert "is published, with the content of generation 1: G0 " in run("rollback", "1")
    forgotten = run("forget", str(notes / "b.md"))
    assert "Deleted 1 document with 1 passage and everything that only they support." in forgotten
    # The hierarchy without it is what the build keeps.
    assert "Existing clusters were kept (mode update): " in forgotten
    assert run("forget", str(notes / "a.md")).splitlines()[-1].startswith("Deleted 1 document")


def test_of_many_files_the_replaced_one_is_listed_and_the_others_are_counted(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(LISTED + 1):
        (notes / f"{number:02}.md").write_text(f"Tea number {number} grows in India.")
        (notes / f"{number:02}.png").write_bytes(b"\x89PNG")
    command = ["ingest", str(notes), "--no-build", "--data-dir", str(tmp_path / "data")]
    first = CliRunner().invoke(app, command).stdout
    assert f"Documents: {LISTED + 1} added." in first
    assert "added      " not in first
    assert [line for line in first.splitlines() if ".png" in line] == [
        f"- left out: {LISTED + 1} not supported yet: .png files (00.png, 01.png, 02.png and {LISTED - 2} more)"
    ]
    (notes / "07.md").write_text("Tea number 7 grows in Assam.")
    second = CliRunner().invoke(app, command).stdout
    assert [line for line in second.splitlines() if line.startswith(("replaced ", "unchanged "))] == [
        "replaced   07, 1 chunk"
    ]
    assert f"Documents: 1 replaced, {LISTED} unchanged." in second
    assert second.count("\nunchanged ") == 0
    assert CliRunner().invoke(app, [*command, "--details"]).stdout.count("unchanged  ") == LISTED + 1


def test_long_lines_break_between_words_but_commands_and_trees_do_not() -> None:
    prose = "Generation 2 of collection default is published: G0 8 entities and 7 relations."
    assert wrap_line(prose, 30).splitlines() == [
        "Generation 2 of collection",
        "  default is published: G0 8",
        "  entities and 7 relations.",
    ]
    for whole in ("Next: leanrag query QUESTION --data-dir /home/you/leanrag", f"├─ {prose}", "short"):
        assert wrap_line(whole, 30) == whole
