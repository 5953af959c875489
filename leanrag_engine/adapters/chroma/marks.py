"""Marks beside the vector index: which of its spaces is being written, and by which process.

Chroma writes its index files in place. A process that is killed meanwhile may leave a space that
cannot be read, that gives wrong hits, or (measured) that ends every process which opens it. A mark
that outlived its process tells such a space before Chroma touches it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from leanrag_engine.core.model import content_id

CLOCK_SECONDS = 2.0
"""How far apart two readings of one process's start may lie; another process with its number started later."""


@contextmanager
def writing(folder: Path, space: str) -> Iterator[None]:
    """Mark ``space`` while the block runs. If it fails the mark stays: the space is whole no more."""
    mark = _mark(folder, space)
    me = psutil.Process()
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(
        json.dumps([socket.gethostname(), os.getpid(), me.create_time(), space]), encoding="utf-8"
    )
    yield
    mark.unlink(missing_ok=True)


def is_broken(folder: Path, space: str) -> bool:
    """Whether a process began to write ``space`` and ended before it was done."""
    try:
        host, pid, started, _ = json.loads(_mark(folder, space).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except ValueError:  # not even the mark was finished, so nothing after it was begun
        return False
    return not _is_alive(host, pid, started)


def _is_alive(host: str, pid: int, started: float) -> bool:
    # A process of another machine cannot be asked. A restarted container is such a machine, and its
    # predecessor is dead; a folder that two machines write to at once is not supported anyway.
    if host != socket.gethostname():
        return False
    try:
        process = psutil.Process(pid)
        return (
            abs(process.create_time() - started) < CLOCK_SECONDS and process.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.Error:
        return False


def _mark(folder: Path, space: str) -> Path:
    return folder / "writing" / f"{content_id('space-', space)}.json"
