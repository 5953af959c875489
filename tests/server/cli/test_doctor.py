"""``leanrag doctor``: what it finds broken, and that the command it names mends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tomllib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import Result
from leanrag_tests_forks import run
from typer.testing import CliRunner

from leanrag_engine.adapters.chroma.client import ChromaFolder
from leanrag_engine.adapters.files.writer_lock import FileWriterLock
from leanrag_engine.core import config
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import BuildRequest, JobStatus
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
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


@pytest.mark.parametrize("size", [0, 10])
def test_vectors_that_are_cut_are_broken_until_the_command_that_is_named_was_run(
    tmp_path: Path, size: int
) -> None:
    data, note = tmp_path / "data", tmp_path / "note.md"
    note.write_text("Assam tea grows along the Brahmaputra. Darjeeling tea grows in West Bengal.")
    assert leanrag(data, "ingest", str(note)).exit_code == 0
    for file in (data / "vectors").rglob("*.bin"):
        os.truncate(file, size)
    code, found = examine(data)
    assert (code, found["collection default"]["state"]) == (1, "broken")
    assert "entities" in found["collection default"]["message"]
    assert leanrag(data, *found["collection default"]["mend"].split()[1:]).exit_code == 0
    assert examine(data)[0] == 0


FITTED = {"LEANRAG_EMBEDDER": "fitted"}


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    before, after = folder / "before", folder / "after"
    for name, text in (("a", "Assam tea grows along the Brahmaputra."), ("b", "Oolong tea grows in Fujian.")):
        (folder / f"{name}.md").write_text(text)
    assert leanrag(before, "ingest", str(folder / "a.md"), **FITTED).exit_code == 0
    shutil.copytree(before, after)
    assert leanrag(after, "ingest", str(folder / "b.md"), **FITTED).exit_code == 0
    return folder


@pytest.fixture
def built_twice(tmp_path: Path, built_once: Path) -> tuple[Path, Path]:
    """A data folder as it was after its first build, and as it is after the second."""
    for name in ("before", "after"):
        shutil.copytree(built_once / name, tmp_path / name)
    return tmp_path / "before", tmp_path / "after"


def test_kept_arrays_that_are_cut_swapped_or_older_are_broken_until_the_command_that_is_named_was_run(
    tmp_path: Path, built_twice: tuple[Path, Path]
) -> None:
    before, after = built_twice
    kept = max(each for each in (after / "arrays").iterdir() if (each / "targets.npy").exists())
    older = next(iter((before / "arrays").glob("*/targets.npy")))
    targets, strengths = (kept / "targets.npy").read_bytes(), (kept / "strengths.npy").read_bytes()
    for content in (b"", targets[:10], strengths, older.read_bytes()):
        damaged = tmp_path / "damaged"
        shutil.copytree(after, damaged)
        (damaged / "arrays" / kept.name / "targets.npy").write_bytes(content)
        code, found = examine(damaged, **FITTED)
        assert (code, found["collection default"]["state"]) == (1, "broken")
        assert "1 kept array damaged" in found["collection default"]["message"]
        assert leanrag(damaged, *found["collection default"]["mend"].split()[1:], **FITTED).exit_code == 0
        assert examine(damaged, **FITTED)[0] == 0
        shutil.rmtree(damaged)


def test_vectors_of_other_texts_are_broken_until_the_command_that_is_named_was_run(
    built_twice: tuple[Path, Path],
) -> None:
    before, after = built_twice
    shutil.rmtree(after / "vectors")
    shutil.copytree(before / "vectors", after / "vectors")
    code, found = examine(after, **FITTED)
    assert (code, found["collection default"]["state"]) == (1, "broken")
    assert leanrag(after, *found["collection default"]["mend"].split()[1:], **FITTED).exit_code == 0
    assert examine(after, **FITTED)[0] == 0


def test_vectors_that_end_the_process_which_opens_them_are_broken(
    built_twice: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, after = built_twice
    # As Chroma's compiled code does with some damaged files.
    monkeypatch.setattr(
        "leanrag_engine.adapters.workers.pool.COMMAND", [sys.executable, "-c", "import os; os.abort()"]
    )
    code, found = examine(after, **FITTED)
    assert (code, found["collection default"]["state"]) == (1, "broken")
    assert "entities" in found["collection default"]["message"]
    assert found["collection default"]["mend"] == "leanrag reindex --collection default"


def test_an_older_database_is_broken_until_the_command_that_is_named_was_run(
    built_twice: tuple[Path, Path],
) -> None:
    before, after = built_twice
    shutil.copy(before / "graph.sqlite3", after)
    ran = leanrag(after, "doctor", "--json", **FITTED)
    found = [each for each in json.loads(ran.stdout)["findings"] if "older" in each["message"]]
    assert ran.exit_code == 1
    assert [each["state"] for each in found] == ["broken"]
    for command in ("reindex", found[0]["mend"].removeprefix("leanrag ")):
        assert leanrag(after, *command.split(), **FITTED).exit_code == 0
    assert examine(after, **FITTED)[0] == 0


@pytest.mark.parametrize("missing", [False, True])
def test_a_database_that_is_damaged_in_its_middle_or_missing_is_broken(
    built_twice: tuple[Path, Path], *, missing: bool
) -> None:
    _, after = built_twice
    file = after / "graph.sqlite3"
    content = file.read_bytes()
    if missing:
        file.unlink()
    else:
        file.write_bytes(content[:8192] + bytes(len(content) // 2) + content[8192 + len(content) // 2 :])
    code, found = examine(after, **FITTED)
    assert (code, found["store"]["state"]) == (1, "broken")
    assert "backup" in found["store"]["mend"].casefold()
    assert leanrag(after, "build", **FITTED).exit_code == 1


def test_vectors_in_a_folder_that_may_not_be_written_are_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, note = tmp_path / "data", tmp_path / "note.md"
    note.write_text("Assam tea grows along the Brahmaputra. Darjeeling tea grows in West Bengal.")
    assert leanrag(data, "ingest", str(note)).exit_code == 0
    real: Any = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode, **more: not mode & os.W_OK and real(path, mode, **more)
    )

    def fail(*_: Any) -> None:
        raise OSError("attempt to write a readonly database")

    monkeypatch.setattr(ChromaFolder, "__init__", fail)
    code, found = examine(data)
    assert (code, found["data folder"]["state"]) == (1, "broken")
    assert found["collection default"]["state"] != "broken"
    assert "reindex" not in str(found)


def test_an_empty_database_file_is_broken_and_neither_built_upon_nor_backed_up(tmp_path: Path) -> None:
    data, note = tmp_path / "data", tmp_path / "note.md"
    note.write_text("Assam tea grows along the Brahmaputra. Darjeeling tea grows in West Bengal.")
    assert leanrag(data, "ingest", str(note)).exit_code == 0
    (data / "graph.sqlite3").write_bytes(b"")
    code, found = examine(data)
    assert (code, found["store"]["state"]) == (1, "broken")
    assert "its content is lost" in found["store"]["message"]
    assert "Restore a backup" in found["store"]["mend"]
    for command in (["ingest", str(note)], ["build"], ["backup", str(tmp_path / "copy")]):
        assert leanrag(data, *command).exit_code == 1, command
    assert not (tmp_path / "copy").exists()
    assert (data / "graph.sqlite3").read_bytes() == b""


def test_a_chroma_server_that_is_down_is_named(tmp_path: Path) -> None:
    data, note = tmp_path / "data", tmp_path / "note.md"
    note.write_text("Assam tea grows along the Brahmaputra. Darjeeling tea grows in West Bengal.")
    assert leanrag(data, "ingest", str(note)).exit_code == 0
    code, found = examine(data, LEANRAG_CHROMA_URL="http://user:s3cret@127.0.0.1:9")
    assert code == 1
    for subject in ("Chroma server", "collection default"):
        assert found[subject]["state"] == "broken"
        assert "127.0.0.1:9" in found[subject]["message"]
    assert "s3cret" not in str(found)


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


def test_a_collection_of_another_embedder_is_broken_until_it_is_built_again(tmp_path: Path) -> None:
    data, note = tmp_path / "data", tmp_path / "note.md"
    note.write_text("Assam tea grows along the Brahmaputra. Darjeeling tea grows in West Bengal.")
    assert leanrag(data, "ingest", str(note), LEANRAG_EMBEDDER="fitted").exit_code == 0
    minilm = {"LEANRAG_EMBEDDER": "minilm"}
    code, found = examine(data, **minilm)
    assert (code, found["collection default"]["state"]) == (1, "broken")
    assert "fitted" in found["collection default"]["message"]
    assert leanrag(data, *found["collection default"]["mend"].split()[1:], **minilm).exit_code == 0
    assert examine(data, **minilm)[0] == 0
    assert leanrag(data, "query", "Where does Assam tea grow?", **minilm).exit_code == 0


DIE = """
import anyio, os, signal, sys
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
async def main():
    engine = await LeanRAG.open(load_settings(data_dir=sys.argv[1], embedder="fitted"))
    await engine.submit_ingest([DocumentSource(id="tea", text="Assam tea grows along the Brahmaputra.")])
    os.kill(os.getpid(), signal.SIGKILL)
anyio.run(main)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_a_job_whose_process_was_killed_is_noted_until_the_command_that_is_named_has_finished_it(
    tmp_path: Path,
) -> None:
    fitted = {"LEANRAG_EMBEDDER": "fitted"}
    ran = run("-c", DIE, tmp_path)
    assert ran.returncode == -signal.SIGKILL
    found = examine(tmp_path, **fitted)[1]["collection default"]
    assert "(ingest) was interrupted" in found["message"]
    assert leanrag(tmp_path, *found["mend"].split()[1:], **fitted).exit_code == 0
    found = examine(tmp_path, **fitted)[1]["collection default"]
    assert (found["state"], found["message"]) == ("ok", "1 document, 1 chunk")


@pytest.mark.parametrize(("stale", "noted"), [(False, False), (True, True)])
def test_an_interrupted_build_is_noted_unless_a_later_one_has_made_all_of_it(
    tmp_path: Path, *, stale: bool, noted: bool
) -> None:
    async def fill() -> None:
        async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="fitted")) as engine:
            job = await engine.submit_ingest([DocumentSource(id="tea", text="Assam tea grows in India.")])
            done = await engine.job(job.id, wait_seconds=60)
            earlier = done.created_at - timedelta(minutes=1)
            gone = replace(done, id="job-gone", kind="build", request=BuildRequest(), created_at=earlier)
            owner = "999999999@nowhere@0.00"
            await engine._stores.jobs.put(
                replace(gone, status=JobStatus.RUNNING, owner=owner, updated_at=earlier, result=None)
            )
            if stale:
                more = [DocumentSource(id="oolong", text="Oolong tea grows in Fujian.")]
                await engine.job((await engine.submit_ingest(more, build=False)).id, wait_seconds=60)

    anyio.run(fill)
    found = examine(tmp_path, LEANRAG_EMBEDDER="fitted")[1]["collection default"]
    assert ("job-gone" in found["message"]) is noted


def test_a_data_folder_that_is_a_file_or_may_not_be_written_or_holds_such_a_file_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_text("")
    code, found = examine(tmp_path / "data")
    assert (code, found["data folder"]["state"]) == (1, "broken")
    assert "is a file" in found["data folder"]["message"]
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "writer.lock").touch()
    real: Any = os.access
    for closed, mend in ((folder, "--data-dir"), (folder / "writer.lock", "permissions")):

        def access(path: Any, mode: int, closed: Path = closed, **more: Any) -> bool:
            return not (path == closed and mode & os.W_OK) and real(path, mode, **more)

        monkeypatch.setattr(os, "access", access)  # as root every folder can be written
        code, found = examine(folder)
        assert (code, found["data folder"]["state"]) == (1, "broken")
        assert closed.name in found["data folder"]["message"]
        assert mend in found["data folder"]["mend"]


def test_a_folder_in_which_another_process_writes_is_in_order(tmp_path: Path) -> None:
    lock = FileWriterLock(tmp_path)
    fitted = {"LEANRAG_EMBEDDER": "fitted"}
    typed = CliRunner().invoke(
        app, ["ingest", "-", "--title", "tea", "--data-dir", str(tmp_path)], input="Tea.", env=fitted
    )
    assert typed.exit_code == 0

    async def examine_while_locked() -> tuple[int, dict[str, Any]]:
        async with lock.hold("build of collection default", waiting=lambda _: None):
            return await anyio.to_thread.run_sync(lambda: examine(tmp_path, **fitted))

    code, found = anyio.run(examine_while_locked)
    assert code == 0
    assert "build of collection default" in found["store"]["message"]


@pytest.mark.parametrize(
    ("line", "problem"), [("llm_model = ", "no TOML file"), ("nonsense = 3", "no setting 'nonsense'")]
)
def test_a_file_of_settings_that_cannot_be_read_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, problem: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(line)
    monkeypatch.setattr(config, "config_file", lambda: file)
    ran = leanrag(tmp_path, "doctor")
    assert ran.exit_code == 1
    assert problem in ran.stderr
    assert str(file) in ran.stderr


def test_each_extra_for_users_is_named(tmp_path: Path) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    _, found = examine(tmp_path / "data")
    extras = {f"extra {each}" for each in project["project"]["optional-dependencies"]} - {"extra dev"}
    assert extras == {each for each in found if each.startswith("extra ")}


def test_an_embedder_of_an_extra_that_is_not_installed_is_broken(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("leanrag_mcp.cli.machine.doctor.find_spec", lambda _: None)
    code, found = examine(tmp_path, LEANRAG_EMBEDDER="BAAI/bge-small-en")
    assert (code, found["extra local"]["state"], found["extra parquet"]["state"]) == (1, "broken", "ok")


def test_an_empty_folder_is_in_order_and_the_first_command_is_named(tmp_path: Path) -> None:
    code, found = examine(tmp_path)
    assert code == 0
    assert found["collections"]["mend"] == "leanrag setup FOLDER"
