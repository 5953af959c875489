"""Documents read by worker processes: the same bytes as in this process, and a lost worker costs one document."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from leanrag_tests_jobs import finish, open_engine

from leanrag_engine.adapters.sql.stores import SqlDocumentStore
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.jobs import IngestOutcome
from leanrag_engine.core.model import DocumentSource, ReadDocument
from leanrag_engine.core.ports import Say
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.ingest import run
from leanrag_engine.pipeline.ingest.reading import ReadingTask, read_document

pytestmark = pytest.mark.anyio


def write_notes(folder: Path) -> None:
    folder.mkdir()
    for number in range(9):
        text = "\n\n".join(
            f"# Part {part}\n\nPerson {number} met Ada Lovelace in Town {part}. The engine of Charles Babbage computes."
            for part in range(9 - number)
        )
        (folder / f"note{number}.md").write_text(text)
    (folder / "empty.md").write_text(" \n")
    (folder / "日記.md").write_text("東京で山田太郎に会った。" * 5)


async def read_all(engine: LeanRAG, sources: list[DocumentSource]) -> tuple[Any, ...]:
    job = await finish(engine, await engine.submit_ingest(sources, build=False, allowed=None))
    documents = [
        (each.number, each.id, each.title, each.digest, each.file_digest, each.chunks)
        for each in await engine._stores.documents.find_all("default")
    ]
    chunks = await engine._stores.documents.all_chunks("default")
    # A file that was written a moment ago is read again, later than those that need not be.
    outcomes = sorted(job.documents, key=str)
    return outcomes, documents, chunks, await engine._stores.documents.extracts("default")


async def test_what_workers_read_is_what_this_process_reads(tmp_path: Path) -> None:
    write_notes(tmp_path / "notes")
    changing = tmp_path / "notes" / "note2.md"
    told: list[tuple[Any, ...]] = []
    for workers in (1, 2):
        changing.write_text("Ada Lovelace wrote a program.")
        sources = [
            DocumentSource(id="same", text="Grace Hopper wrote a compiler."),
            DocumentSource(path=str(tmp_path / "notes")),
            DocumentSource(id="same", text="Grace Hopper wrote the first compiler."),
            DocumentSource(text="Alan Turing lived in Wilmslow.", metadata={"place": "Wilmslow"}),
            DocumentSource(text="Alan Turing lived in Wilmslow.", metadata={"place": "Wilmslow"}),
            DocumentSource(path=str(tmp_path / "missing.md")),
            DocumentSource(path=str(tmp_path / "notes" / "note1.md")),
        ]
        async with open_engine(tmp_path / f"with-{workers}", workers=workers) as engine:
            first = await read_all(engine, sources)
            changing.write_text("Ada Lovelace wrote a program. It computes the numbers of Bernoulli.")
            told.append((*first, *await read_all(engine, sources)))
    assert told[0] == told[1]
    statuses = [each.status for each in told[0][0]]
    assert (statuses.count("failed"), statuses.count("replaced")) == (2, 1)
    assert {"added", "unchanged"} < {*statuses}


async def test_a_worker_that_dies_fails_only_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deadly:
        def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
            return os._exit, (9,)

    def make(document: Any, *given: Any, **more: Any) -> Any:
        return Deadly() if document.id == "deadly" else ReadingTask(document, *given, **more)

    monkeypatch.setattr(run, "ReadingTask", make)
    sources = [
        DocumentSource(id=name, text=f"{name.title()} Lovelace wrote a program.")
        for name in ("ada", "deadly", "eve", "zoe")
    ]
    async with open_engine(tmp_path, workers=2) as engine:
        job = await finish(engine, await engine.submit_ingest(sources, build=False))
        outcomes: dict[str, IngestOutcome] = {each.id: each for each in job.documents}
        assert {name: each.status for name, each in outcomes.items()} == {
            "ada": "added",
            "deadly": "failed",
            "eve": "added",
            "zoe": "added",
        }
        assert "exit code 9" in outcomes["deadly"].error


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
def test_ctrl_c_ends_the_command_and_its_workers(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for number in range(3):
        words = " ".join(f"Person {part} met Ada Lovelace." for part in range(40_000))
        (tmp_path / "notes" / f"note{number}.md").write_text(f"{number} {words}")
    command = ["-P", "-c", "from leanrag_mcp.cli.main import main; main()", "ingest", str(tmp_path / "notes")]
    command += ["--data-dir", str(tmp_path / "data")]
    environment = {**os.environ, "LEANRAG_WORKERS": "2"}
    with subprocess.Popen(
        [sys.executable, *command], env=environment, start_new_session=True, stderr=subprocess.PIPE
    ) as parent:
        while len(children := psutil.Process(parent.pid).children(recursive=True)) < 2:
            assert parent.poll() is None
            time.sleep(0.05)
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stderr
        told = parent.stderr.read().decode()
        assert parent.wait() == 130, told
        assert "Traceback" not in told
        _, alive = psutil.wait_procs(children, timeout=60)
        assert not alive


async def test_of_documents_stored_together_only_the_one_that_cannot_be_stored_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    are_read: list[str] = []

    def note(task: ReadingTask, say: Say) -> Any:
        read = read_document(task, say)
        are_read.append(task.document.id)
        return read

    put_all = SqlDocumentStore.put_all

    async def refuse(self: SqlDocumentStore, collection: str, read: Sequence[ReadDocument]) -> Any:
        while len(are_read) < 4:  # the first transaction takes so long that the others are read
            await anyio.sleep(0.01)
        sizes.append(len(read))
        if "bad" in {each.document.id for each in read}:
            raise InvalidInput("This one is refused.", "")
        return await put_all(self, collection, read)

    monkeypatch.setattr(run, "read_document", note)
    monkeypatch.setattr(SqlDocumentStore, "put_all", refuse)
    names = ("first", "good", "bad", "last")
    sources = [DocumentSource(id=name, text=f"The {name} text of Ada Lovelace.") for name in names]
    async with open_engine(tmp_path) as engine:
        job = await finish(engine, await engine.submit_ingest(sources, build=False))
        assert [(each.id, each.status) for each in job.documents] == [
            ("first", "added"),
            ("good", "added"),
            ("bad", "failed"),
            ("last", "added"),
        ]
        assert [each.id for each in await engine._stores.documents.find_all("default")] == [
            "first",
            "good",
            "last",
        ]
    assert max(sizes) > 1
