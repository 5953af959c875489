"""``leanrag schema``: a person chooses a schema, sees what it does, and takes it away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from leanrag_mcp.cli.main import app


def test_a_person_sets_a_schema_sees_it_corrects_a_fault_and_removes_it(tmp_path: Path) -> None:
    def run(*command: str) -> Any:
        return CliRunner().invoke(app, [*command, "--data-dir", str(tmp_path / "data")])

    listed = CliRunner().invoke(app, ["schema", "list"]).stdout
    assert [line.partition(":")[0] for line in listed.splitlines()] == ["narrative", "people", "software"]
    own = tmp_path / "crew.yaml"
    own.write_text(CliRunner().invoke(app, ["schema", "show", "people"]).stdout + "  nation: of a person\n")
    assert "nation: of a person" in run("schema", "set", str(own)).stdout
    own.write_text("entities: [person]\nverbs: [sail]\n")
    refused = run("schema", "set", str(own))
    assert refused.exit_code == 1
    assert f"{own}, line 2: the key 'verbs' is unknown" in refused.stderr
    held = json.loads(run("schema", "show", "--json").stdout)
    assert (held["name"], held["attributes"]["nation"]) == ("crew", "of a person")

    note = tmp_path / "note.md"
    note.write_text("Mr Ewan Reid met Mrs Ada Moor at Oban. The oil came late.")
    done = run("ingest", str(note))
    assert "Schema crew: 0 mentions of types outside it are kept apart." in done.stdout
    assert "found by heuristics" in done.stdout
    assert "1 passages are read by heuristics so far" in run("schema", "show").stdout
    assert "No type 'vessel' was proposed" in run("schema", "adopt", "vessel").stderr
    assert "extraction is open" in run("schema", "remove").stdout
    assert "has no schema" in run("schema", "remove").stderr
