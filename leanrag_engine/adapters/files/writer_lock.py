"""Allow one writer at a time on a data folder: an OS lock, and a note that names its holder. The operating system releases
the lock when its process ends, however it ends. The note is for people and is valid only while the lock is held."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from leanrag_engine.core.errors import Busy, StoreUnusable
from leanrag_engine.core.ports import LockHolder
from leanrag_engine.core.runtime.replacement import replace_file

if TYPE_CHECKING:
    from filelock import FileLock

# filelock and psutil are imported where they are used: a command that reads takes no lock.
# ruff: noqa: PLC0415

POLL_SECONDS = 0.1
REPORT_SECONDS = 0.5  # Seconds between two reports of the holder to a waiting task


class FileWriterLock:
    """A :class:`leanrag_engine.core.ports.WriterLock` on ``folder``. Tasks of one process exclude each other too."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "writer.lock"
        self._note = folder / "writer.json"

    @asynccontextmanager
    async def hold(
        self, purpose: str, *, waiting: Callable[[LockHolder | None], None]
    ) -> AsyncIterator[None]:
        """Wait for the lock, then hold it. If the lock is taken, ``waiting`` is called at once and then about every half
        second; an error that it raises ends the wait. Raises ``StoreUnusable`` if the folder cannot hold a lock."""
        # A lock object, and so a file descriptor, for each call: two within a process then exclude each other as
        # two processes do. An attempt never blocks, so it needs no thread in which a cancelled wait could leave
        # a lock behind.
        lock = self._make_lock()
        last_report = -REPORT_SECONDS
        while not self._try(lock):
            if time.monotonic() - last_report >= REPORT_SECONDS:
                waiting(await self.holder())
                last_report = time.monotonic()
            await anyio.sleep(POLL_SECONDS)
        try:
            # Without a note the lock still works, but its holder is unknown.
            with suppress(OSError):
                replace_file(self._note, write_note(purpose).encode("utf-8"))
            yield
        finally:
            # A note that stays behind is harmless: it is ignored once the lock is free.
            with suppress(OSError):
                self._note.unlink(missing_ok=True)
            lock.release()

    async def holder(self) -> LockHolder | None:
        """Return the present holder of the lock, ``None`` if it is free. Without a note the lock is not touched.
        With one it is tried; a waiting process that fails because of this tries again a moment later."""
        noted = self._read_note()
        if noted is None or not _may_be_alive(noted):
            return None
        trial = self._make_lock()
        try:
            free = _try_lock(trial)
        except OSError:  # the folder is read-only for this process but may be writable for another
            return noted
        if free:
            trial.release()
        return None if free else noted

    def _make_lock(self) -> FileLock:
        from filelock import FileLock

        return FileLock(self._path, thread_local=False)

    def _try(self, lock: FileLock) -> bool:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return _try_lock(lock)
        except (OSError, NotImplementedError) as problem:
            raise _no_lock(self._path, problem) from problem

    def _read_note(self) -> LockHolder | None:
        try:
            return read_note(self._note.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError):  # no note, or not one of this program
            return None


def write_note(purpose: str) -> str:
    """Return what names this process as the holder of a lock."""
    since = datetime.now(UTC).isoformat()
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "purpose": purpose, "since": since})


def read_note(note: str) -> LockHolder:
    """Return the holder that :func:`write_note` has named. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for other texts."""
    found = json.loads(note)
    since = datetime.fromisoformat(found["since"])
    return LockHolder(int(found["pid"]), str(found["host"]), str(found["purpose"]), since)


@contextmanager
def exclusive(path: Path, seconds: float = 60.0) -> Iterator[None]:
    """Hold the lock file ``path`` briefly, for blocking work such as creating a schema. Raises ``Busy`` if
    another process keeps it for ``seconds``, ``StoreUnusable`` if it cannot be made."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=seconds)
    try:
        lock.acquire()
    except Timeout as problem:
        raise Busy(
            f"Another process has kept {path} for {seconds:.0f} s.", "Try again in a minute."
        ) from problem
    except (OSError, NotImplementedError) as problem:
        raise _no_lock(path, problem) from problem
    try:
        yield
    finally:
        lock.release()


def _no_lock(path: Path, problem: Exception) -> StoreUnusable:
    return StoreUnusable(
        f"The data folder {path.parent} cannot hold the lock {path.name} ({problem}).",
        "Make the folder writable, or choose one on a file system that supports locks.",
    )


def _try_lock(lock: FileLock) -> bool:
    from filelock import Timeout

    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    return True


def _may_be_alive(noted: LockHolder) -> bool:
    """Return whether the holder may be alive: unknown for a process on another machine that shares the folder."""
    import psutil

    return noted.host != socket.gethostname() or psutil.pid_exists(noted.pid)
