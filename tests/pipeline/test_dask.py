"""Documents read by a Dask cluster on loopback: the same bytes as in this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from leanrag_tests_jobs import finish, open_engine

from leanrag_engine.adapters import wiring
from leanrag_engine.core.jobs import JobStatus
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.ingest import run

pytestmark = pytest.mark.anyio

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers."""
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    given = ["--scheduler-file", str(file), "--no-dashboard"]
    worker = ["worker", *given, "--no-nanny", "--nthreads", "1", "--local-directory", str(folder)]
    started = []
    try:
        for name, arguments in (
            ("scheduler", ["scheduler", *given, "--host", "127.0.0.1", "--port", "0"]),
            ("one", worker),
            ("two", worker),
        ):
            with (folder / f"{name}.log").open("wb") as log:
                command = [sys.executable, "-P", "-m", "dask", *arguments]
                # Work is not given to another worker when one dies: both would.
                environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
                started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment))
        while not file.exists() or any(
            "Registered to" not in log_of(folder, name) for name in ("one", "two")
        ):
            assert all(each.poll() is None for each in started), log_of(folder, "scheduler")
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"]
    finally:
        for each in started:
            each.kill()
            each.wait()


def log_of(folder: Path, name: str) -> str:
    return (folder / f"{name}.log").read_text()


SOURCES = [
    DocumentSource(
        id=f"note {number}",
        text=f"Ada Lovelace met Person {number} in London. " * (number + 1)
        + "Charles Babbage built an engine.",
        metadata={"place": "London"},
    )
    for number in range(7)
]


async def read_all(engine: LeanRAG) -> tuple[Any, ...]:
    job = await finish(
        engine, await engine.submit_ingest([*SOURCES, DocumentSource(id="no", text=" ")], build=False)
    )
    documents = engine._stores.documents
    return job.documents, await documents.all_chunks("default"), await documents.extracts("default")


async def test_what_a_cluster_reads_is_what_this_process_reads(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_engine(tmp_path / "alone", workers=1) as engine:
        here = await read_all(engine)
    monkeypatch.setattr(wiring, "LEAST_BYTES", 1)
    async with open_engine(tmp_path / "cluster", dask=scheduler) as engine:
        assert await read_all(engine) == here
    assert [each.status for each in here[0]] == ["added"] * 7 + ["failed"]


async def test_a_document_that_kills_its_worker_fails_with_the_reason(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        os._exit(9)

    monkeypatch.setattr(wiring, "LEAST_BYTES", 1)
    monkeypatch.setattr(run, "read_document", die)
    async with open_engine(tmp_path, dask=scheduler) as engine:
        job = await engine.job((await engine.submit_ingest(SOURCES[:1])).id, wait_seconds=120)
        assert job.status is JobStatus.FAILED
        assert f"{scheduler} lost the work (KilledWorker)" in job.documents[0].error


async def test_a_scheduler_that_does_not_answer_is_named_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "LEAST_BYTES", 1)
    async with open_engine(tmp_path, dask="tcp://127.0.0.1:9") as engine:
        monkeypatch.setattr("leanrag_engine.adapters.workers.cluster.CONNECT_SECONDS", 0.2)
        job = await engine.job((await engine.submit_ingest(SOURCES, build=False)).id, wait_seconds=120)
        assert job.status is JobStatus.FAILED
        assert "tcp://127.0.0.1:9" in job.message
        assert "LEANRAG_DASK" in job.message
        assert (await engine.status()).collection.documents == 0


async def test_a_scheduler_that_freezes_fails_the_document_and_is_used_again_when_it_is_back(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(scheduler.rpartition(":")[2])
    [pid] = {
        each.pid for each in psutil.net_connections() if each.status == "LISTEN" and each.laddr[1] == port
    }

    def freeze(*_: object) -> None:
        os.kill(pid, signal.SIGSTOP)

    monkeypatch.setattr(wiring, "LEAST_BYTES", 1)
    monkeypatch.setattr("leanrag_engine.adapters.workers.cluster.SILENCE_SECONDS", 0.5)
    monkeypatch.setattr("leanrag_engine.adapters.workers.cluster.CONNECT_SECONDS", 2)
    async with open_engine(tmp_path, dask=scheduler) as engine:
        try:
            with monkeypatch.context() as patched:
                patched.setattr(run, "read_document", freeze)
                job = await engine.job((await engine.submit_ingest(SOURCES[:1])).id, wait_seconds=120)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert job.status is JobStatus.FAILED
        assert f"{scheduler} lost the work (TimeoutError)" in job.documents[0].error
        job = await finish(engine, await engine.submit_ingest(SOURCES[:1], build=False))
        assert [each.status for each in job.documents] == ["added"]
