"""Marks beside the vector index: which space is being written, and by which process.

Chroma writes its index files in place: a space whose writer was killed may be unreadable, give wrong hits, or
(measured) crash every process that opens it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leanrag_engine.core.model import content_id


@contextmanager
def writing(folder: Path, space: str) -> Iterator[None]:
    """Mark ``space`` while the block runs. If the block fails, the mark stays: the space may be damaged."""
    import psutil  # noqa: PLC0415 - reading mostly needs no other process

    mark = _mark(folder, space)
    me = psutil.Process()
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(
        json.dumps([socket.gethostname(), os.getpid(), me.create_time(), space]), encoding="utf-8"
    )
    yield
    mark.unlink(missing_ok=True)


def is_broken(folder: Path, space: str) -> bool:
    """Return whether a process began to write ``space`` and ended before it had finished."""
    try:
        host, pid, started, _ = json.loads(_mark(folder, space).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except ValueError:  # the mark is incomplete, so writing the space had not begun
        return False
    return not _is_alive(host, pid, started)


def _is_alive(host: str, pid: int, started: float) -> bool:
    # Processes of another machine cannot be checked. A restarted container counts as another machine, and the process
    # of its predecessor has ended. Two machines that write to one folder at once are not supported.
    if host != socket.gethostname():
        return False
    import psutil  # noqa: PLC0415 - as above

    try:
        process = psutil.Process(pid)
        # Two readings of one process's start may differ a little; a later process with the same id started later.
        tolerance = 2.0
        return abs(process.create_time() - started) < tolerance and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _mark(folder: Path, space: str) -> Path:
    return folder / "writing" / f"{content_id('space-', space)}.json"
