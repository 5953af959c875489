"""The writer lock: one holder at a time, among tasks and among processes, known by name, free when it dies."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from leanrag_engine.adapters.files import writer_lock
from leanrag_engine.adapters.files.writer_lock import FileWriterLock, exclusive
from leanrag_engine.core.errors import Busy, Cancelled, StoreUnusable
from leanrag_engine.core.ports import LockHolder

pytestmark = pytest.mark.anyio

StartChild = Callable[..., Any]

HOLD = """
from leanrag_engine.adapters.files.writer_lock import FileWriterLock

async def main():
    async with FileWriterLock(folder).hold("a long build", waiting=lambda holder: None):
        say("held")
        await anyio.to_thread.run_sync(wait)
    say("released")

anyio.run(main)
"""


def ignore_holder(holder: LockHolder | None) -> None:
    raise AssertionError(f"had to wait for {holder}")


async def test_the_holder_is_known_while_it_holds_and_not_after(tmp_path: Path) -> None:
    lock = FileWriterLock(tmp_path / "new")
    assert await lock.holder() is None
    assert not (tmp_path / "new").exists()  # asking writes nothing
    async with lock.hold("ingest", waiting=ignore_holder):
        holder = await lock.holder()
        assert holder
        assert (holder.pid, holder.purpose) == (os.getpid(), "ingest")
        assert timedelta() <= datetime.now(UTC) - holder.since < timedelta(minutes=1)
        assert "ingest, since" in str(holder)
    assert await lock.holder() is None
    async with lock.hold("again", waiting=ignore_holder):
        pass


async def test_the_lock_is_let_go_when_the_work_fails(tmp_path: Path) -> None:
    lock = FileWriterLock(tmp_path)
    with pytest.raises(ValueError, match="bad work"):
        async with lock.hold("ingest", waiting=ignore_holder):
            raise ValueError("bad work")
    async with lock.hold("again", waiting=ignore_holder):
        pass


async def test_tasks_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    inside, most, turns = 0, 0, []

    async def work(number: int) -> None:
        nonlocal inside, most
        # Each has its own lock object, as two servers in one process would.
        async with FileWriterLock(tmp_path).hold(f"job {number}", waiting=lambda _: None):
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            turns.append(number)
            inside -= 1

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(work, number)
    assert most == 1
    assert sorted(turns) == [0, 1, 2]


async def test_a_waiting_task_hears_who_holds_the_lock_and_may_give_up(
    tmp_path: Path, child: StartChild
) -> None:
    holder = child(HOLD, tmp_path)
    assert holder.read_line() == "held"
    heard: list[LockHolder | None] = []

    def give_up(who: LockHolder | None) -> None:
        heard.append(who)
        if len(heard) == 2:
            raise Cancelled("It is not needed any more")

    with pytest.raises(Cancelled):
        async with FileWriterLock(tmp_path).hold("ingest", waiting=give_up):
            raise AssertionError("two held the lock")
    assert [who.pid for who in heard if who] == [holder.pid, holder.pid]
    assert heard[0]
    assert heard[0].purpose == "a long build"


async def test_a_wait_can_be_cancelled_and_leaves_no_lock_behind(tmp_path: Path) -> None:
    lock = FileWriterLock(tmp_path)
    async with anyio.create_task_group() as group:

        async def wait_in_vain() -> None:
            async with lock.hold("in vain", waiting=lambda _: group.cancel_scope.cancel()):
                raise AssertionError("two held the lock")

        async with lock.hold("first", waiting=ignore_holder):
            group.start_soon(wait_in_vain)
            with anyio.CancelScope(shield=True):
                while not group.cancel_scope.cancel_called:
                    await anyio.lowlevel.checkpoint()
    async with lock.hold("after", waiting=ignore_holder):
        pass


async def test_the_next_process_gets_the_lock_when_it_is_released(tmp_path: Path, child: StartChild) -> None:
    first, second = child(HOLD, tmp_path), None
    assert first.read_line() == "held"
    second = child(HOLD, tmp_path)
    first.send_line()
    assert first.read_line() == "released"
    assert second.read_line() == "held"
    named = await FileWriterLock(tmp_path).holder()
    assert named
    assert named.pid == second.pid


async def test_the_lock_is_free_when_its_holder_was_killed(tmp_path: Path, child: StartChild) -> None:
    holder = child(HOLD, tmp_path)
    assert holder.read_line() == "held"
    named: list[int] = []

    def kill(who: LockHolder | None) -> None:
        if who:
            named.append(who.pid)
            holder.kill()

    async with FileWriterLock(tmp_path).hold("after the crash", waiting=kill):
        now = await FileWriterLock(tmp_path).holder()
        assert now
        assert now.pid == os.getpid()
    assert named == [holder.pid]


async def test_a_note_that_a_killed_process_left_is_not_believed(tmp_path: Path, child: StartChild) -> None:
    holder = child(HOLD, tmp_path)
    assert holder.read_line() == "held"
    note = tmp_path / "writer.json"
    assert json.loads(note.read_text())["pid"] == holder.pid
    holder.kill()
    assert note.exists()
    assert await FileWriterLock(tmp_path).holder() is None
    # Nor one whose process number another process bears now, nor one that says nothing.
    note.write_text(json.dumps(json.loads(note.read_text()) | {"pid": os.getppid()}))
    assert await FileWriterLock(tmp_path).holder() is None
    note.write_text("{")
    assert await FileWriterLock(tmp_path).holder() is None


async def test_a_folder_that_cannot_hold_a_lock_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(StoreUnusable, match=str(path)):
        async with FileWriterLock(path).hold("ingest", waiting=ignore_holder):
            pass
    assert await FileWriterLock(path).holder() is None


def test_a_short_lock_that_is_never_let_go_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "schema.lock"
    with exclusive(path), pytest.raises(Busy, match=str(path)), exclusive(path, seconds=0.01):
        raise AssertionError("two held the lock")
    with exclusive(path):
        pass
    with pytest.raises(StoreUnusable), exclusive(path / "below a file.lock", seconds=0.01):
        pass


def test_waiting_tasks_are_told_about_twice_a_second() -> None:
    assert 0.1 <= writer_lock.POLL_SECONDS <= writer_lock.REPORT_SECONDS == 0.5
