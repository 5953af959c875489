"""Run work in processes of our own, for what is plain Python: threads would share one processor. A worker
lives from its first work until ``close`` or the end of this process, which closes its pipe. Unlike those of
``multiprocessing`` it does not import, and so run, the program that started it."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Self, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from leanrag_engine.core.errors import WorkerLost
from leanrag_engine.core.ports import Say

from .child import LENGTH

T = TypeVar("T")
R = TypeVar("R")

SMALL = 100_000  # Bytes of an answer that is read at once; a longer one is read in a thread

COMMAND = (sys.executable, "-P", "-m", f"{__package__}.child")


class ProcessPool:
    """A :class:`leanrag_engine.core.ports.Workers` with up to ``width`` processes. Used on one event loop."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._free = anyio.CapacityLimiter(width)
        self._idle: list[_Worker] = []

    async def run(self, work: Callable[[T, Say], R], value: T, _: Say) -> R:
        """Return what ``work``, a function of a module, returns for ``value``, or raise what it raises; both
        are pickled, and what it says is not passed on. If the call is cancelled, the process ends."""
        async with self._free:
            request = pickle.dumps((work, value), pickle.HIGHEST_PROTOCOL)
            worker = self._idle.pop() if self._idle else await _Worker.start()
            try:
                answer = await worker.call(request)
            except BaseException:
                await worker.end()
                raise
            self._idle.append(worker)
        read = anyio.to_thread.run_sync(pickle.loads, answer) if len(answer) > SMALL else None
        failed, result = await read if read else pickle.loads(answer)  # noqa: S301 - from a process of our own
        if isinstance(result, MemoryError):
            raise _describe_loss("there was not enough memory") from result
        if failed:
            raise result
        return cast(R, result)

    async def aclose(self) -> None:
        while self._idle:
            await self._idle.pop().end()


class _Worker:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._input = cast(ByteSendStream, process.stdin)
        self._output = BufferedByteReceiveStream(cast(ByteReceiveStream, process.stdout))

    @classmethod
    async def start(cls) -> Self:
        # What it has to say goes where this process says it.
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": None}
        # In a session of its own Ctrl-C does not reach it: this process decides what ends.
        return cls(await anyio.open_process(COMMAND, start_new_session=True, **pipes))

    async def call(self, request: bytes) -> bytes:
        try:
            await self._input.send(LENGTH.pack(len(request)) + request)
            (length,) = LENGTH.unpack(await self._output.receive_exactly(LENGTH.size))
            return await self._output.receive_exactly(length)
        except (
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
            anyio.EndOfStream,
            anyio.IncompleteRead,
        ) as problem:
            code = await self._process.wait()
            raise _describe_loss(
                f"exit code {code}: it was killed, or there was not enough memory"
            ) from problem

    async def end(self) -> None:
        with anyio.CancelScope(shield=True):
            if self._process.returncode is None:
                self._process.kill()
            await self._process.aclose()


def _describe_loss(reason: str) -> WorkerLost:
    return WorkerLost(
        f"The process that did this work ended before it had finished ({reason}).",
        "Try again; with LEANRAG_WORKERS=1 no other process is used.",
    )


class InProcess:
    """A :class:`leanrag_engine.core.ports.Workers` of one thread, for small work, which a process would delay. Used on one event loop."""

    width = 1

    def __init__(self) -> None:
        self._free = anyio.CapacityLimiter(1)

    async def run(self, work: Callable[[T, Say], R], value: T, say: Say) -> R:
        async with self._free:
            return await anyio.to_thread.run_sync(partial(work, value, say))

    async def aclose(self) -> None:
        pass
