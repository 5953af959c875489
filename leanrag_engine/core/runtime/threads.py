"""Run blocking work on worker threads, and a chain of it on one: a query is some fifteen short reads, and changing threads costs
as much as these. A call has a time for all of it: its work asks between its steps whether any is left, as a thread cannot be ended."""

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import cache
from typing import Any, Generic, TypeVar, TypeVarTuple

from anyio import move_on_after, to_thread

from leanrag_engine.core.errors import OutOfTime

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ReadChain:
    """A chain of reads on one worker thread, and what they share until its end, such as a transaction of a database."""

    def __init__(self, shared: ExitStack) -> None:
        self._shared = shared
        self._opened: dict[object, Any] = {}

    def share(self, owner: object, open_: Callable[[], AbstractContextManager[T]]) -> T:
        """Return what ``open_`` gives, which is called once for each ``owner`` and closed at the end of the chain."""
        if owner not in self._opened:
            self._opened[owner] = self._shared.enter_context(open_())
        found: T = self._opened[owner]
        return found


class _Running(threading.local):
    """The chain of each thread. A context variable would reach what a chain has the event loop do."""

    chain: ReadChain | None = None


_running = _Running()


def current_chain() -> ReadChain | None:
    """Return the chain that is running on this thread; None outside of one."""
    return _running.chain


async def run_blocking(work: Callable[[*Ts], T], *given: *Ts) -> T:
    """Return what ``work`` returns: on a worker thread, or at once within a chain. Raises ``OutOfTime``."""
    check_time()
    return work(*given) if current_chain() is not None else await to_thread.run_sync(work, *given)


def begin_beside(reads: Coroutine[object, None, T]) -> Awaitable[T]:
    """Begin reads whose result is needed later, in a chain on another thread: for what waits or releases Python's lock."""
    chain = current_chain()
    return asyncio.ensure_future(reads) if chain is None else _Beside(chain, reads)


class _Beside(Generic[T]):
    """Reads under way on another thread. The chain waits for them at its end if nothing else has."""

    def __init__(self, chain: ReadChain, reads: Coroutine[object, None, T]) -> None:
        self._running = _threads().submit(copy_context().run, _run_to_end, reads)
        chain.share(self, self._finish)

    def __await__(self) -> Generator[object, None, T]:
        yield from ()
        return self._running.result()

    @contextmanager
    def _finish(self) -> Iterator[None]:
        try:
            yield
        finally:
            wait([self._running])


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=16, thread_name_prefix="beside")


async def run_chain(reads: Coroutine[object, None, T]) -> T:
    """Run a coroutine on one worker thread. All that it may wait for is :func:`run_blocking`."""
    if current_chain() is not None:
        return await reads
    try:
        return await to_thread.run_sync(_run_to_end, reads)
    finally:
        reads.close()  # it has not begun if this was cancelled before


def _run_to_end(reads: Coroutine[object, None, T]) -> T:
    with ExitStack() as shared:
        _running.chain = ReadChain(shared)
        try:
            reads.send(None)
        except StopIteration as ended:
            found: T = ended.value
            return found
        finally:
            _running.chain = None
    raise RuntimeError("A chain of reads waits for something that needs an event loop.")


_limit: ContextVar[tuple[float, float]] = ContextVar("seconds, end by monotonic()", default=(0, math.inf))


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """End the block after ``seconds`` with ``OutOfTime``: it is cancelled where it waits, and ends at :func:`check_time` elsewhere."""
    before = _limit.set((seconds, time.monotonic() + seconds))
    try:
        with move_on_after(seconds) as waiting:
            yield
        if waiting.cancelled_caught:
            check_time(ended=True)
    finally:
        _limit.reset(before)


async def load_apart(work: Coroutine[object, None, T]) -> T:
    """Await what later calls use too: it goes on if this one is cancelled, and has its own time."""
    return await asyncio.shield(asyncio.create_task(work, context=Context()))


def is_over(share: float = 1.0) -> bool:
    """Return whether this ``share`` of the time has passed; False without a limit."""
    seconds, end = _limit.get()
    return time.monotonic() > end - (1 - share) * seconds


def check_time(*, ended: bool = False) -> None:
    """Raise ``OutOfTime`` if no time is left."""
    if ended or is_over():
        raise OutOfTime(
            f"This call was ended after {_limit.get()[0]:g} seconds, the most that one may take.",
            "Ask for less at once (fewer queries or citations, a smaller limit, filters), or raise the setting max_call_seconds (LEANRAG_MAX_CALL_SECONDS).",
        )
