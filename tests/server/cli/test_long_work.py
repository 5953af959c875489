"""Long work on the command line: what it says at once, meanwhile, and after Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from leanrag_tests_forks import Fork
from rich.console import Console
from typer.testing import CliRunner

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import BuildRequest, IngestRequest
from leanrag_engine.core.ports import Progress
from leanrag_engine.engine import LeanRAG
from leanrag_mcp.cli import running
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
        whole.describe(each)
        said.append(str(whole))
        shares.append(whole.share)
    assert said == [
        "starting",
        "looking for files, step 1 of 9",
        "reading documents (0.0 of 0.0 MB), step 2 of 9",
        "reading documents (0.0 of 0.0 MB), step 2 of 9",
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


def test_reading_is_counted_in_bytes() -> None:
    whole = WholeProgress(list_steps("ingest", IngestRequest(()), load_settings()))
    whole.describe(Progress("ingest", 12_300, 205_000, "a.md"))
    assert str(whole) == "reading documents (12.3 of 205.0 MB), step 2 of 9"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A folder whose three files have 300 MB and no content on the disk; each is too large to be read."""
    folder = tmp_path / "large"
    folder.mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (folder / name).write_text("# Tea\n\n" + "Assam tea grows along the Brahmaputra. " * 100)
        os.truncate(folder / name, 100_000_000)
    return folder


LARGE = "300 MB of text in 3 files: about 400,000 passages, about 4 h on 2 cores."


def test_long_work_says_before_it_begins_how_long_it_takes(large: Path) -> None:
    files = [str(each) for each in large.iterdir()]
    ran = CliRunner().invoke(
        app,
        ["ingest", *files, "--data-dir", str(large.parent / "data")],
        env={"LEANRAG_WORKERS": "2", "LEANRAG_MAX_DOCUMENT_MB": "1"},
    )
    assert f"Warning: {LARGE}" in ran.stderr


@pytest.mark.parametrize("answer", ["n\n", ""])  # the end of input is no answer
def test_at_a_terminal_long_work_asks_and_no_leaves_everything_as_it_was(
    large: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(running, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    where = ("--data-dir", str(large.parent / "data"))
    files = [str(each) for each in large.iterdir()]
    ran = CliRunner().invoke(app, ["ingest", *files, *where], input=answer, env={"LEANRAG_WORKERS": "2"})
    assert (ran.exit_code, f"{LARGE} Go on? [Y/n]" in ran.stderr) == (1, True)
    monkeypatch.undo()
    assert CliRunner().invoke(app, ["collections", *where]).stdout == "There is no collection yet.\n"


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """A command in another process that reads for a while; the options of its data folder."""
    where = ("--data-dir", str(tmp_path / "data"))
    (tmp_path / "long.md").write_text(
        "\n\n".join(f"Star Kepler-{n} shines near Vega-{n}." for n in range(20_000))
    )
    with Fork(
        ["ingest", tmp_path / "long.md", *where], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        while not CliRunner().invoke(app, ["jobs", *where]).stdout.count("running"):
            assert other.poll() is None
        yield where


def test_a_job_of_another_process_is_listed_cancelled_and_watched_to_its_end(
    at_work: tuple[str, ...],
) -> None:
    listed = json.loads(CliRunner().invoke(app, ["jobs", "--json", *at_work]).stdout)["jobs"]
    assert [(each["kind"], each["status"]) for each in listed] == [("ingest", "running")]
    status = CliRunner().invoke(app, ["status", *at_work]).stdout
    assert re.search(r"\(ingest\): running, \w+, [\d.,]+ of [\d.,]+", status), status
    cancelled = CliRunner().invoke(app, ["jobs", "cancel", *at_work])
    assert cancelled.exit_code == 0
    assert cancelled.stdout.startswith(f"{listed[0]['job_id']} (ingest of collection default): ")
    watched = CliRunner().invoke(app, ["jobs", "watch", listed[0]["job_id"], *at_work])
    assert (watched.exit_code, "was cancelled" in watched.stdout) == (1, True)
    assert "No job is running" in CliRunner().invoke(app, ["jobs", "watch", *at_work]).stderr


def test_a_question_during_the_first_build_is_told_how_far_it_is(at_work: tuple[str, ...]) -> None:
    ask = ["query", "Where does Kepler-7 shine?", *at_work]
    while (ran := CliRunner().invoke(app, ask)).exit_code:
        assert "is not built yet. Its first build is running (job-" in ran.stderr
    assert re.search(r"Its first build is running \(job-\w+, stage \w+(, [\d.]+ of [\d.]+)?", ran.stdout), (
        ran.stdout
    )
    assert "never built" not in ran.stdout
    tree = CliRunner().invoke(app, ["tree", *at_work])
    assert (tree.exit_code, "Ask again later." in tree.stderr) == (1, True)


def test_deleting_a_collection_cancels_its_jobs_first(at_work: tuple[str, ...]) -> None:
    ran = CliRunner().invoke(app, ["collections", "delete", "default", "--yes", *at_work])
    assert ran.exit_code == 0, ran.stderr
    assert CliRunner().invoke(app, ["collections", *at_work]).stdout == "There is no collection yet.\n"


def test_a_job_that_waits_says_for_what() -> None:
    whole = WholeProgress(list_steps("build", BuildRequest(), load_settings()))
    whole.describe(Progress("waiting", message="Waiting for process 7 on fjord."))
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


@pytest.mark.parametrize("group", ["jobs", "collections"])
def test_a_data_folder_before_the_command_of_a_group_is_refused(group: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [group, "--data-dir", str(tmp_path), "list"])
    assert done.exit_code == 2
    assert "--data-dir after" in done.stderr
