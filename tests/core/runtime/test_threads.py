"""Reads of a chain run on one thread and share what they open; outside of a chain each has a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import anyio.from_thread
import pytest

from leanrag_engine.core.runtime.threads import begin_beside, current_chain, run_blocking, run_chain

pytestmark = pytest.mark.anyio


async def read() -> int:
    return await run_blocking(threading.get_ident)


async def test_all_reads_of_a_chain_run_on_one_thread_which_is_not_that_of_the_event_loop() -> None:
    async def reads() -> list[int]:
        return [await read(), await read(), await run_chain(read())]

    threads = await run_chain(reads())
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_outside_of_a_chain_reads_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=10)  # it breaks unless two threads meet
    async with anyio.create_task_group() as group:
        group.start_soon(run_blocking, both.wait)
        group.start_soon(run_blocking, both.wait)


async def test_what_is_shared_is_opened_once_and_closed_at_the_end_after_an_error_too() -> None:
    events: list[str] = []

    @contextmanager
    def resource() -> Iterator[str]:
        events.append("opened")
        try:
            yield "shared"
        finally:
            events.append("closed")

    async def reads(*, fails: bool) -> None:
        for _ in range(2):
            chain = current_chain()
            assert chain
            assert chain.share("owner", resource) == "shared"
        events.append("read")
        if fails:
            raise ValueError("of the reads")

    await run_chain(reads(fails=False))
    assert events == ["opened", "read", "closed"]
    events.clear()
    with pytest.raises(ValueError, match="of the reads"):
        await run_chain(reads(fails=True))
    assert events == ["opened", "read", "closed"]
    assert current_chain() is None


async def test_what_a_chain_has_the_event_loop_do_is_not_of_the_chain() -> None:
    async def chain_there() -> object:
        return current_chain()

    async def reads() -> object:
        assert current_chain()
        return anyio.from_thread.run(chain_there)

    assert await run_chain(reads()) is None


async def test_a_chain_that_waits_for_the_event_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        await run_chain(anyio.sleep(0.01))


async def test_of_a_cancelled_chain_nothing_is_left_that_never_ran() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_chain(read())
    assert scope.cancelled_caught


async def test_reads_begun_beside_a_chain_run_on_another_thread_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=10)

    async def meet() -> int:
        both.wait()
        return await read()

    async def reads() -> tuple[int, int]:
        beside = begin_beside(meet())
        both.wait()
        return await read(), await beside

    here, there = await run_chain(reads())
    assert here != there


async def test_a_chain_that_fails_ends_after_what_was_begun_beside_it() -> None:
    ended = threading.Event()

    async def slow() -> None:
        ended.wait(0.1)
        ended.set()

    async def reads() -> None:
        begin_beside(slow())
        raise ValueError("of the reads")

    with pytest.raises(ValueError, match="of the reads"):
        await run_chain(reads())
    assert ended.is_set()


async def test_an_error_beside_a_chain_is_raised_where_the_result_is_wanted() -> None:
    async def failing() -> None:
        raise ValueError("beside")

    async def reads() -> None:
        beside = begin_beside(failing())
        with pytest.raises(ValueError, match="beside"):
            await beside

    await run_chain(reads())
    with pytest.raises(ValueError, match="beside"):
        await begin_beside(failing())
