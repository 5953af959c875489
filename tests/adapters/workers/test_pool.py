"""Worker processes: they run what they are given, and none outlives its work, whatever happens to it or to its parent."""

from __future__ import annotations

import functools
import operator
import os
import pickle
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.adapters.workers.pool import ProcessPool
from leanrag_engine.core.errors import DocumentUnreadable, LeanRAGError, WorkerLost
from leanrag_engine.core.model import LoadedDocument
from leanrag_engine.pipeline.ingest.reading import ReadingTask, read_document

pytestmark = pytest.mark.anyio


class Unpickled:
    """A value that calls a function in the worker which reads it."""

    def __init__(self, function: Callable[..., object], *given: object) -> None:
        self._call = (function, given)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._call


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    opened = ProcessPool(2)
    yield opened
    await opened.aclose()
    assert workers_of(os.getpid()) == []


def workers_of(pid: int) -> list[psutil.Process]:
    living = [each for each in psutil.Process(pid).children() if each.status() != psutil.STATUS_ZOMBIE]
    return [each for each in living if any("workers.child" in part for part in each.cmdline())]


def ignore(message: str) -> None:
    del message


async def test_each_call_gets_its_own_result_from_another_process(pool: ProcessPool) -> None:
    results: dict[int, Any] = {}
    # Of a module that the worker can import: what stands under a key, else its second argument.
    look_up = {os.getpid(): "its parent", **{number: number**2 for number in range(1, 6)}}.get

    async def call(number: int) -> None:
        results[number] = await pool.run(look_up, number or Unpickled(os.getppid), ignore)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(call, number)
    assert results == {0: "its parent", 1: 1, 2: 4, 3: 9, 4: 16, 5: 25}
    assert len(workers_of(os.getpid())) == 2


async def test_what_the_work_raises_is_raised_here(pool: ProcessPool) -> None:
    with pytest.raises(TypeError):
        await pool.run(operator.add, 1, ignore)
    blank = ReadingTask(
        LoadedDocument("blank", "", " ", "text/plain", metadata={}), TiktokenTokenizer(), 64, 8, True
    )
    with pytest.raises(DocumentUnreadable, match="'blank' holds no text"):
        await pool.run(read_document, blank, ignore)


async def test_a_result_that_cannot_be_sent_is_an_error_of_its_own_call(pool: ProcessPool) -> None:
    with pytest.raises(pickle.PicklingError):
        await pool.run(operator.call, functools.singledispatch, ignore)
    assert len(workers_of(os.getpid())) == 1


async def test_a_worker_that_dies_fails_its_own_call_only(pool: ProcessPool) -> None:
    with pytest.raises(WorkerLost, match=r"exit code 7(.|\n)*LEANRAG_WORKERS=1") as caught:
        await pool.run(operator.ne, Unpickled(os._exit, 7), ignore)
    assert isinstance(caught.value, LeanRAGError)
    assert await pool.run(operator.ne, 1, ignore) is True


async def test_a_cancelled_call_ends_its_process(pool: ProcessPool) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(pool.run, operator.ne, Unpickled(time.sleep, 600), ignore)
        while not workers_of(os.getpid()):
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    assert workers_of(os.getpid()) == []
    assert await pool.run(operator.ne, 1, ignore) is True


PROGRAM = """
import operator, time, anyio
from leanrag_engine.adapters.workers.pool import ProcessPool

class Sleep:
    def __reduce__(self):
        return time.sleep, (600,)

async def main():
    pool = ProcessPool(2)
    print(await pool.run(operator.ne, 1, print), flush=True)
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(pool.run, operator.ne, Sleep(), print)

anyio.run(main)
"""


@pytest.mark.parametrize("how", ["command", "file"])
def test_no_worker_outlives_a_parent_that_was_killed(tmp_path: Path, how: str) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)  # without `if __name__ == "__main__"`: a worker must not run it
    command = [sys.executable, *(["-P", "-c", PROGRAM] if how == "command" else [str(file)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout
            assert parent.stdout.readline() == "True\n"
            while len(workers := workers_of(parent.pid)) < 2:
                assert parent.poll() is None
                time.sleep(0.05)
        finally:
            parent.kill()
        _, alive = psutil.wait_procs(workers, timeout=60)
        assert not alive
        assert parent.stdout.read() == ""
