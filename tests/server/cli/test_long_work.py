"""Long work on the command line: what it says at once, meanwhile, and after Ctrl-C."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from leanrag_engine.core.ports import Progress
from leanrag_engine.engine import LeanRAG
from leanrag_mcp.cli.main import app
from leanrag_mcp.cli.progress import LINE_SECONDS, ProgressLines

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
    assert "hierarchy of before" in stopped
    assert "The same command" in stopped


def test_without_a_terminal_lines_tell_the_progress_at_intervals() -> None:
    written = io.StringIO()
    now = 0.0
    lines = ProgressLines(Console(file=written, width=40), lambda: now)
    lines.show(Progress("ingest", 1, 9, "a.md"))
    now = LINE_SECONDS
    lines.show(Progress("ingest", 4, 9, "[draft] of a name longer than the line.md"))
    lines.show(Progress("ingest", 5, 9, "e.md"))
    now = 2 * LINE_SECONDS
    lines.show(Progress("publish"))
    assert written.getvalue().splitlines() == [
        "ingest 4 of 9 ([draft] of a name longer than the line.md)",
        "publish",
    ]


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
    query = shlex.split(second[-1].removeprefix("Next: leanrag "))
    assert query == ["query", "QUESTION", *where]
    typed = CliRunner().invoke(
        app, ["ingest", "-", "--title", "v1.2", "--no-build", *where], input="Tea is hot."
    )
    assert "Read by type: 1 from standard input." in typed.stdout
    dry = CliRunner().invoke(app, ["sync", str(notes), "--dry-run", *where]).stdout
    assert "Next:" not in dry
