"""``leanrag doctor``: what it finds broken, and that the command it names mends it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from leanrag_mcp.cli.main import app


def leanrag(data: Path, *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--data-dir", str(data)], env=environment)


def examine(data: Path, **environment: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and the findings by subject."""
    ran = leanrag(data, "doctor", "--json", **environment)
    return ran.exit_code, {each["subject"]: each for each in json.loads(ran.stdout)["findings"]}


def test_lost_vectors_are_broken_until_the_command_that_is_named_was_run(tmp_path: Path) -> None:
    data, note = tmp_path / "data", tmp_path / "note.md"
    note.write_text("Assam tea grows along the Brahmaputra. Darjeeling tea grows in West Bengal.")
    assert leanrag(data, "ingest", str(note)).exit_code == 0
    code, found = examine(data)
    assert (code, found["collection default"]["state"]) == (0, "ok")
    shutil.rmtree(data / "vectors")
    code, found = examine(data)
    assert (code, found["collection default"]["state"]) == (1, "broken")
    assert found["collection default"]["mend"] == "leanrag reindex --collection default"
    assert leanrag(data, "reindex", "--collection", "default").exit_code == 0
    assert examine(data)[0] == 0


def test_a_model_without_a_service_and_a_store_that_is_none_are_broken(tmp_path: Path) -> None:
    (tmp_path / "graph.sqlite3").write_bytes(b"this is no database" * 100)
    code, found = examine(
        tmp_path, LEANRAG_LLM_MODEL="openai/tiny", LEANRAG_LLM_API_BASE="http://127.0.0.1:9/v1"
    )
    assert code == 1
    assert found["model service"]["state"] == "broken"
    assert "127.0.0.1:9" in found["model service"]["message"]
    assert found["store"]["state"] == "broken"
    assert found["store"]["mend"]


def test_an_embedder_of_an_extra_that_is_not_installed_is_broken(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("leanrag_mcp.cli.machine.doctor.find_spec", lambda _: None)
    code, found = examine(tmp_path, LEANRAG_EMBEDDER="BAAI/bge-small-en")
    assert (code, found["extra local"]["state"], found["extra plot"]["state"]) == (1, "broken", "ok")


def test_an_empty_folder_is_in_order_and_the_first_command_is_named(tmp_path: Path) -> None:
    code, found = examine(tmp_path)
    assert code == 0
    assert found["collections"]["mend"] == "leanrag ingest FOLDER"
