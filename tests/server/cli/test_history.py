"""``leanrag history`` and ``rollback``: a person lists builds and goes back to one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from leanrag_mcp.cli.main import app


def test_a_person_lists_builds_and_goes_back_to_one(tmp_path: Path) -> None:
    def run(*command: str) -> Any:
        return CliRunner().invoke(app, [*command, "--data-dir", str(tmp_path / "data")])

    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("Skerryvore is a lighthouse off Tiree. Alan Stevenson designed Skerryvore.")
    assert run("history").exit_code == 1  # nothing was ingested yet
    assert run("ingest", str(folder)).exit_code == 0
    (folder / "a.md").write_text("Alan Stevenson designed Skerryvore. Its lamp was lit in 1844.")
    (folder / "b.md").write_text("The Bell Rock lies off Arbroath. Robert Stevenson built the Bell Rock.")
    assert run("ingest", str(folder)).exit_code == 0
    second, first = run("history").stdout.splitlines()
    assert second.startswith("- generation 2 of")
    assert "documents added: 1, documents changed: 1" in second
    assert "it is the first build): documents added: 1" in first
    back = json.loads(run("rollback", "1", "--json").stdout)
    assert (back["status"], back["result"]["restored"], back["result"]["pending"]) == ("done", 1, 2)
    assert "pending documents" in back["next_step"]
    newest = json.loads(run("history", "--json", "--limit", "1").stdout)["generations"]
    assert [(each["generation"], each["reason"]) for each in newest] == [
        (3, "rollback, as generation 1 was asked for")
    ]
    changes = run("history", "--since", "1").stdout
    assert "documents changed: 1 (a (ref d1))" in changes
    assert "documents pending: 2 (a (ref d1), b (ref d2))" in changes
    refused = run("rollback", "7")
    assert refused.exit_code == 1
    assert "has had no generation 7" in refused.stderr
    assert "3: rollback of" in refused.stderr
