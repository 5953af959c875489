"""Real child processes that start without importing: forks of one process that has imported the command line.

A test of what another process does, or leaves when it is killed, is not about how Python starts. A process of its own took one
to two seconds of processor time to import the engine; forks share the imports of one. A fork has its own pid, memory, pipes,
environment and signals, and ends as the interpreter ends. What is about starting (what is imported, the hash seed, what stands on
standard error) starts the real command.

Run as a program, this file is the process that forks. Each request brings three descriptors for the standard streams and one for the
pid and the exit status.
"""

from __future__ import annotations

import array
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

MODULES = (
    "leanrag_mcp.cli.main",
    "leanrag_mcp.cli.serve",
    "leanrag_mcp.cli.corpus.documents",
    "leanrag_mcp.cli.reading.ask",
    "leanrag_mcp.http.serving",
    "leanrag_engine.engine",
    "leanrag_engine.adapters.sql",
    "leanrag_engine.adapters.chroma.store",
    "leanrag_engine.adapters.embedders.fitted",
    "leanrag_engine.pipeline.delete",
    "leanrag_engine.pipeline.building.generation",
    "leanrag_engine.pipeline.ingest.run",
    "leanrag_engine.retrieval.query",
    "alembic.migration",
    "alembic.operations",
    "alembic.script",
    # What the first call imports of them.
    "anyio._backends._asyncio",
    "chromadb_rust_bindings",
    "filelock",
    "leanrag_engine.adapters.tokenizer",
    "leanrag_engine.adapters.workers.pool",
    "leanrag_mcp.cli.machine.install",
    "leanrag_mcp.cli.progress",
    "leanrag_mcp.replies.state.status",
    "leanrag_mcp.replies.work.results",
    "threadpoolctl",
    "tiktoken",
)


END = ExitStack()
"""What ends the process that forks."""


class Fork:
    """A child process, with the part of ``subprocess.Popen`` that the tests use; its pipes are text."""

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Run ``["-c", CODE, …]``, or the command ``leanrag`` with ``arguments``."""
        self.args = [str(each) for each in arguments]
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        request = {"arguments": self.args, "environment": dict(env or os.environ), "folder": str(Path.cwd())}
        self._status, theirs = socket.socketpair()
        with ExitStack() as given, theirs:
            streams = [
                self._open(name, wanted, given)
                for name, wanted in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr))
            ]
            channel = _start_server()
            text = json.dumps(request).encode()
            channel.sendall(len(text).to_bytes(4, "big"))
            descriptors = array.array("i", [*streams, theirs.fileno()])
            channel.sendmsg([text[:1]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            channel.sendall(text[1:])
        self.pid = int.from_bytes(self._status.recv(8, socket.MSG_WAITALL), "big")

    def _open(self, name: str, wanted: int | IO[Any] | None, given: ExitStack) -> int:
        if wanted is None:
            return ("stdin", "stdout", "stderr").index(name)
        if wanted == subprocess.DEVNULL:
            return given.enter_context(Path(os.devnull).open("r+b")).fileno()
        if not isinstance(wanted, int):
            return wanted.fileno()
        assert wanted == subprocess.PIPE
        reading, writing = os.pipe()
        ours, theirs = (writing, reading) if name == "stdin" else (reading, writing)
        given.callback(os.close, theirs)
        setattr(self, name, os.fdopen(ours, "w" if name == "stdin" else "r"))
        return theirs

    def poll(self) -> int | None:
        """Return the exit status if the process has ended."""
        with suppress(TimeoutError, BlockingIOError):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status, that of a signal negative."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            said = self._status.recv(64)
            self.returncode = int(said)
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process as ``kill -9`` does."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in (self.stdout, self.stderr, self.stdin):
            if pipe:
                pipe.close()
        self.wait()


def run(
    *arguments: object, env: Mapping[str, str] | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end and return what it wrote. Raises ``CalledProcessError`` if ``check`` and it failed."""
    with _open_memory() as stdout, _open_memory() as stderr:
        status = Fork(arguments, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env).wait()
        for each in (stdout, stderr):
            each.seek(0)
        ran = subprocess.CompletedProcess([*map(str, arguments)], status, stdout.read(), stderr.read())
    if check:
        ran.check_returncode()
    return ran


@contextmanager
def _open_memory() -> Iterator[IO[str]]:
    import tempfile  # noqa: PLC0415 - the process that forks does without

    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        yield file


@cache
def _start_server() -> socket.socket:
    """Start the process that forks, once for each process of pytest, which closes ``END`` at its own end."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            # Ctrl-C goes to the whole group of a terminal; it ends when pytest does.
            start_new_session=True,
        )

    END.callback(process.wait)
    END.callback(ours.close)
    return ours


# --- in the process that forks ---------------------------------------------------------------


def serve(channel: socket.socket) -> dict[str, Any]:
    """Fork at each request; return the request in the child. Exits when pytest has closed the channel."""
    statuses: dict[int, int] = {}

    def report_ended(*_: object) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                place = statuses.pop(ended[0])
                with suppress(OSError):  # the test may have lost interest
                    os.write(place, str(os.waitstatus_to_exitcode(ended[1])).encode())
                os.close(place)

    signal.signal(signal.SIGCHLD, report_ended)
    while head := channel.recv(4, socket.MSG_WAITALL):
        size = int.from_bytes(head, "big")
        text, descriptors, _, _ = socket.recv_fds(channel, 1, 4)
        if size > 1:
            text += channel.recv(size - 1, socket.MSG_WAITALL)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # numpy's threads wait for work and are started again after a fork
            pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            take_streams(descriptors)
            for place in (channel.detach(), *descriptors, *statuses.values()):
                os.close(place)
            return dict(json.loads(text))
        *streams, status = descriptors
        for each in streams:
            os.close(each)
        statuses[pid] = status
        os.write(status, pid.to_bytes(8, "big"))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os._exit(0)


def take_streams(descriptors: Sequence[int]) -> None:
    """Make the descriptors this process's standard streams."""
    for number, place in enumerate(descriptors[:3]):
        os.dup2(place, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115 - as above


def run_request(request: Mapping[str, Any]) -> None:
    """Do what ``python -c CODE …`` or the command ``leanrag …`` does."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    first, *others = request["arguments"]
    if first == "-c":
        code, *arguments = others
        sys.argv = ["-c", *arguments]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - a test's own code
    else:
        sys.argv = ["leanrag", first, *others]
        import_module("leanrag_mcp.cli.main").main()


if __name__ == "__main__":
    for name in MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()  # a child writes to no page of these objects only to mark them
    run_request(serve(socket.socket(fileno=int(sys.argv[1]))))
