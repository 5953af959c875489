"""Lock vector spaces of a folder for many readers or one writer, of all processes, and mark what is being written.

Chroma changes the files of an index in place. A process that opens or searches the index meanwhile crashes (measured:
both of two readers within half a minute, beside a process that wrote 60 rows at a time), or says that an id is missing. A space
whose writer was killed may be unreadable, give wrong hits, or (measured) crash every process that opens it.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from zlib import crc32

from leanrag_engine.core.errors import StoreUnusable
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
    except (FileNotFoundError, ValueError):  # a mark that is incomplete: writing the space had not begun
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


@contextmanager
def hold_shared(folder: Path, space: str, seconds: float = 30.0) -> Iterator[None]:
    """Keep writers of a space away while the block runs. Raises ``StoreUnusable`` if one holds it longer than
    ``seconds``: a batch of rows takes about one, so that it was suspended."""
    gate, lock = _files(folder, space)
    with ExitStack() as held:
        with _hold(gate, seconds, exclusive=False):
            held.enter_context(_hold(lock, seconds, exclusive=False))
        yield


@contextmanager
def hold_exclusive(folder: Path, space: str, seconds: float = 30.0) -> Iterator[None]:
    """Keep readers and other writers of a space away while the block runs. Raises as :func:`hold_shared`."""
    gate, lock = _files(folder, space)
    # While the gate is held no reader begins, so that readers who take turns cannot keep a writer out.
    with _hold(gate, seconds, exclusive=True), _hold(lock, seconds, exclusive=True):
        yield


def _files(folder: Path, space: str, number: int = 1024) -> tuple[Path, Path]:
    """Return the two files that are locked for a space. Their number is bounded, as each build makes new spaces."""
    name = f"{crc32(space.encode()) % number:03x}"
    return folder / "locks" / f"{name}.gate", folder / "locks" / f"{name}.lock"


try:
    import fcntl
except ImportError:  # on Windows

    @contextmanager
    def _hold(file: Path, seconds: float, *, exclusive: bool) -> Iterator[None]:  # noqa: ARG001 - a reader excludes others here
        from leanrag_engine.adapters.files.writer_lock import exclusive as hold_alone  # noqa: PLC0415

        file.parent.mkdir(parents=True, exist_ok=True)
        with hold_alone(file, seconds):
            yield

else:

    @contextmanager
    def _hold(file: Path, seconds: float, *, exclusive: bool) -> Iterator[None]:
        """Hold the file's lock. The system releases it when the process ends, however it ends. ``filelock``'s lock for many readers
        counts those of a process as one, so that readers who overlap keep writers out for ever, and takes 145 µs; this one takes 10."""
        try:
            descriptor = _open(file)
        except OSError:
            if exclusive:
                raise
            yield  # where nothing can be written, nobody writes
            return
        try:
            _wait(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, seconds)
            yield
        finally:
            os.close(descriptor)

    def _open(file: Path) -> int:
        try:
            return os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            file.parent.mkdir(exist_ok=True)
            return os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _wait(descriptor: int, kind: int, seconds: float) -> None:
        until, pause = time.monotonic() + seconds, 0.0005
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise StoreUnusable(
                        f"Another process has held the vector index for more than {seconds:.0f} s.",
                        "If that process was suspended, let it go on or end it.",
                    ) from None
                time.sleep(pause)  # the system's own wait cannot be given a time limit
                pause = min(2 * pause, 0.003)
            else:
                return
