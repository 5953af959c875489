"""Do work that a file can make run away in a process of its own, which is killed at its limits."""

import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeVar

import anyio
import anyio.to_process
import anyio.to_thread

from leanrag_engine.core.errors import DocumentUnreadable, WorkerLost
from leanrag_engine.core.model import DocumentSource, LoadedDocument

from .formats import format_of
from .loading import FileContent, parse_file

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ParsingLimits:
    """The seconds and megabytes of memory that a document may take."""

    seconds: float
    megabytes: int

    def for_size(self, size: int, started: float) -> Self:
        """Return what is left since ``started`` for a file of ``size`` bytes: for each megabyte of it the seconds count anew."""
        megabytes = max(1.0, size / 1_000_000)
        return replace(self, seconds=max(1.0, self.seconds * megabytes - (time.monotonic() - started)))


async def parse_within_limits(
    source: DocumentSource, file: FileContent, limits: ParsingLimits
) -> LoadedDocument:
    """Return the document in a file. Raises as :func:`leanrag_engine.documents.loading.load` and :func:`run_within_limits`."""
    if len(file.data) < format_of(file.path.name, start=file.data).guarded_from:
        return await anyio.to_thread.run_sync(parse_file, source, file)
    sent = replace(source, metadata=dict(source.metadata))  # a read-only mapping cannot be sent to a process
    parse = partial(anyio.to_process.run_sync, _parse, sent, file, limits.megabytes, cancellable=True)
    return await run_within_limits(parse, limits, source.path)


async def run_within_limits(work: Callable[[], Awaitable[R]], limits: ParsingLimits, name: str) -> R:
    """Return what ``work`` does in another process, which ends when it is cancelled and has limited its memory.
    Raises :class:`DocumentUnreadable` about the document ``name`` if it takes more than ``limits``."""
    try:
        with anyio.fail_after(limits.seconds):
            return await work()
    except TimeoutError as problem:
        raise DocumentUnreadable(
            f"{name!r} was not read within {limits.seconds:.3g} seconds.",
            "Convert it to plain text, split it, or raise the setting max_parse_seconds (LEANRAG_MAX_PARSE_SECONDS).",
        ) from problem
    except (MemoryError, WorkerLost, anyio.BrokenWorkerProcess) as problem:
        raise DocumentUnreadable(
            f"{name!r} could not be read within {limits.megabytes:,} MB of memory.",
            "Convert it to plain text, split it, or raise the setting max_parse_mb (LEANRAG_MAX_PARSE_MB).",
        ) from problem


def limit_memory(megabytes: int) -> None:
    """Give this process no more memory than this from now on, where the system has a limit for one (Linux)."""
    if sys.platform == "linux":
        import resource  # noqa: PLC0415 - Windows has no such module

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 1024 * 1024, most))


def _parse(source: DocumentSource, file: FileContent, megabytes: int) -> LoadedDocument:
    limit_memory(megabytes)
    try:
        return parse_file(source, file)
    except DocumentUnreadable as problem:
        # What a parser of XML reports as an error of the file.
        no_memory = 2  # XML_ERR_NO_MEMORY of libxml2
        if getattr(problem.__cause__, "code", None) == no_memory:
            raise MemoryError from problem
        raise
