"""``leanrag backup`` and ``leanrag restore`` beside a server at work, and what they refuse."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from leanrag_tests_forks import run as run_process
from leanrag_tests_jobs import ingest, open_engine
from typer.testing import CliRunner

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.pipeline.backup import back_up
from leanrag_engine.retrieval.request import Query
from leanrag_mcp.cli.main import app

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]

NOTES = [
    DocumentSource(
        text=f"{one} of Tiree wrote to {other} about the lighthouse. {other} lives in Oban.", id=one
    )
    for one, other in (("Ewan Reid", "Moira Kerr"), ("Calum Boyd", "Isla Shaw"))
]


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def refuse(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == 1, done.output
    return " ".join(done.output.split())


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        each.relative_to(folder).as_posix(): each.read_bytes() for each in folder.rglob("*") if each.is_file()
    }


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a build. Tests only read it."""
    folder = tmp_path_factory.mktemp("filled")

    async def fill() -> None:
        async with open_engine(folder) as engine:
            await ingest(engine, NOTES)

    anyio.run(fill)
    return folder


@pytest.fixture
def backup(filled: Path, tmp_path: Path) -> Path:
    run("backup", tmp_path / "backup", "--data-dir", filled)
    return tmp_path / "backup"


async def test_a_backup_made_while_a_server_answers_and_documents_come_in_restores_to_the_same_answers(
    serve_over_stdio: Serve, filled: Path, tmp_path: Path
) -> None:
    served, anew, target = tmp_path / "served", tmp_path / "anew", tmp_path / "backup"
    shutil.copytree(filled, served)
    question = "Who wrote about the lighthouse?"
    async with serve_over_stdio(served) as call:
        before = await call("query_lca_context", query=question)
        await call(
            "ingest_documents", documents=[{"text": "Rory Hay came to Oban.", "id": "late"}], wait_seconds=0
        )
        # The command waits for the job, or the job for it: in both cases the backup holds whole documents.
        made = await anyio.to_thread.run_sync(
            lambda: json.loads(
                run_process("backup", target, "--data-dir", served, "--json", check=True).stdout
            )
        )
        assert not (await call("query_lca_context", query=question)).is_error
    assert made["collections"]["default"] in (2, 3)
    assert made["vectors"]
    said = await anyio.to_thread.run_sync(run, "restore", target, "--data-dir", anew)
    assert f"default ({made['collections']['default']} documents)" in said
    async with open_engine(anew, read_only=True) as engine:
        status = await engine.status()
        assert not [each for each in status.warnings if "vector" in each.lower()]
        after = await engine.query(Query(text=question))
        assert not after.warnings or "stale" in str(after.warnings)
        for seed in before.data["seeds"]:
            assert seed["name"] in [each.entity.name for each in after.subgraph.seeds]


def test_nothing_is_overwritten(filled: Path, backup: Path, tmp_path: Path) -> None:
    kept = files_of(backup)
    assert "exists already" in refuse("backup", backup, "--data-dir", filled)
    assert files_of(backup) == kept
    assert "holds a store already" in refuse("restore", backup, "--data-dir", filled)
    assert "lies in the data folder" in refuse("backup", filled / "inside", "--data-dir", filled)
    assert "contains no store" in refuse("backup", tmp_path / "other", "--data-dir", tmp_path / "empty")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup"]


@pytest.mark.parametrize("damage", ["changed", "missing", "no manifest", "outside"])
def test_a_damaged_backup_is_refused_and_leaves_no_store(backup: Path, tmp_path: Path, damage: str) -> None:
    database, manifest = backup / "graph.sqlite3", backup / "backup.json"
    if damage == "changed":
        held = bytearray(database.read_bytes())
        held[len(held) // 2] ^= 1
        database.write_bytes(held)
    elif damage == "missing":
        database.unlink()
    elif damage == "no manifest":
        manifest.unlink()
    else:
        listed = json.loads(manifest.read_text(encoding="utf-8"))
        listed["files"]["../escaped"] = {"bytes": 0, "sha256": ""}
        manifest.write_text(json.dumps(listed), encoding="utf-8")
    words = {"changed": "damaged", "missing": "is missing"}.get(damage, "is no backup")
    assert words in refuse("restore", backup, "--data-dir", tmp_path / "anew")
    assert not list((tmp_path / "anew").rglob("*.sqlite3"))
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize("moment", ["hashing", "before the database has its name"])
def test_a_restore_that_is_killed_leaves_no_store_and_is_done_again(
    backup: Path, tmp_path: Path, moment: str
) -> None:
    # The process kills itself where the last block is hashed, or where the last file would be renamed.
    hook = (
        "import hashlib; hashlib.sha256 = lambda: os.kill(os.getpid(), 9)"
        if moment == "hashing"
        else "import pathlib; rename = pathlib.Path.rename;"
        "pathlib.Path.rename = lambda self, to: os.kill(os.getpid(), 9) if self.suffix else rename(self, to)"
    )
    code = f"import os, sys; from leanrag_mcp.cli.main import app; {hook}; app(sys.argv[1:])"
    anew = tmp_path / "anew"
    killed = run_process("-c", code, "restore", backup, "--data-dir", anew)
    assert killed.returncode == -signal.SIGKILL
    assert "contains no store" in refuse("backup", tmp_path / "other", "--data-dir", anew)
    run("restore", backup, "--data-dir", anew)
    assert sorted(each.name for each in anew.iterdir() if each.is_dir()) == ["vectors"]
    assert "2 documents" in run("status", "--data-dir", anew)


async def test_a_backup_waits_for_the_writer_and_says_for_whom(filled: Path, tmp_path: Path) -> None:
    from leanrag_engine.adapters.files.writer_lock import FileWriterLock  # noqa: PLC0415 - holds what a job would

    shutil.copytree(filled, tmp_path / "data")
    said: list[str] = []
    lock = FileWriterLock(tmp_path / "data")
    build = lock.hold("build of collection default", waiting=lambda _: None)
    async with anyio.create_task_group() as tasks, build:
        tasks.start_soon(
            back_up,
            load_settings(data_dir=tmp_path / "data"),
            tmp_path / "backup",
            lambda now: said.append(now.message),
        )
        while not said:
            await anyio.sleep(0.02)
        assert not (tmp_path / "backup").exists()
    assert "build of collection default" in said[0]
    assert (tmp_path / "backup" / "backup.json").exists()


def test_documents_in_postgresql_are_left_to_its_own_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "LEANRAG_DATABASE_URL", "postgresql://someone@localhost/leanrag")
    assert "pg_dump" in refuse("backup", tmp_path / "backup", "--data-dir", tmp_path)
