"""Do work that a file can make run away in a process of its own, which is killed at its limits."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, TypeVar

import anyio
import anyio.to_thread

from leanrag_engine.core.errors import DocumentUnreadable, WorkerLost
from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.core.ports import Say, Workers

from .formats import format_of
from .loading import FileContent, parse_file

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class ParsingLimits:
    """The seconds and megabytes of memory that a document may take, and the seconds that it has ``spent`` in a process."""

    seconds: float
    megabytes: int
    spent: float = 0.0

    def for_size(self, size: int) -> Self:
        """Return what is left for a file of ``size`` bytes: for each megabyte of it the seconds count anew."""
        return replace(self, seconds=max(1.0, self.seconds * max(1.0, size / 1_000_000) - self.spent))


@dataclass(frozen=True)
class GuardedProcesses:
    """Processes of our own, in which work on documents is done within limits. None is started before the first work."""

    processes: Workers

    @cached_property
    def _free(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(self.processes.width)

    async def parse(self, source: DocumentSource, file: FileContent, limits: ParsingLimits) -> LoadedDocument:
        """Return the document in a file. Raises as :func:`leanrag_engine.documents.loading.load` and :meth:`run`."""
        if len(file.data) < format_of(file.path.name, start=file.data).guarded_from:
            return await anyio.to_thread.run_sync(parse_file, source, file)
        # A read-only mapping cannot be sent to a process.
        sent = replace(source, metadata=dict(source.metadata))
        return await self.run(_parse, (sent, file), limits, source.path)

    async def run(self, work: Callable[[T, Say], R], value: T, limits: ParsingLimits, name: str) -> R:
        """Return ``work(value, say)``, a function of a module; the time that it waits for a free process does not count.
        Raises :class:`DocumentUnreadable` about the document ``name`` if it takes more than ``limits``."""
        task = (work, value, limits.megabytes)
        try:
            async with self._free:
                began = time.monotonic()
                with anyio.fail_after(limits.seconds):
                    done = await self.processes.run(_run_in_limited_memory, task, lambda _: None)
                limits.spent += time.monotonic() - began
                return done
        except TimeoutError as problem:
            raise DocumentUnreadable(
                f"{name!r} was not read within {limits.seconds:.3g} seconds.",
                "Convert it to plain text, split it, or raise the setting max_parse_seconds (LEANRAG_MAX_PARSE_SECONDS).",
            ) from problem
        except WorkerLost as problem:
            raise DocumentUnreadable(
                f"{name!r} could not be read within {limits.megabytes:,} MB of memory. {problem.message}",
                "Convert it to plain text, split it, or raise the setting max_parse_mb (LEANRAG_MAX_PARSE_MB).",
            ) from problem


def _run_in_limited_memory(task: tuple[Callable[[T, Say], R], T, int], say: Say) -> R:
    work, value, megabytes = task
    if sys.platform == "linux":  # other systems have no such limit
        import resource  # noqa: PLC0415 - Windows has no such module

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = megabytes * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (wanted if most < 0 else min(wanted, most), most))
    return work(value, say)


def _parse(task: tuple[DocumentSource, FileContent], _: Say) -> LoadedDocument:
    try:
        return parse_file(*task)
    except DocumentUnreadable as problem:
        # What a parser of XML reports as an error of the file.
        no_memory = 2  # XML_ERR_NO_MEMORY of libxml2
        if getattr(problem.__cause__, "code", None) == no_memory:
            raise MemoryError from problem
        raise
