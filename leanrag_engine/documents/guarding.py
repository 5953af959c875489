"""Read files of kinds whose parsers can be made to run away in a process of their own, which is killed at its limits."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import anyio
import anyio.to_process
import anyio.to_thread

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import DocumentSource, LoadedDocument

from .formats import format_of
from .loading import FileContent, parse_file

__all__ = ["ParsingLimits", "parse_within_limits"]


@dataclass(frozen=True, slots=True)
class ParsingLimits:
    """The seconds and megabytes of memory that reading one file may take."""

    seconds: float
    megabytes: int


async def parse_within_limits(
    source: DocumentSource, file: FileContent, limits: ParsingLimits
) -> LoadedDocument:
    """Return the document in a file. Raises as :func:`leanrag_engine.documents.loading.load`, and
    :class:`DocumentUnreadable` if reading it takes more than ``limits``.

    The limit of memory holds where the system has one for a process (Linux).
    """
    start = format_of(file.path.name, start=file.data).guarded_from
    if start is None or len(file.data) < start:
        return await anyio.to_thread.run_sync(parse_file, source, file)
    sent = replace(source, metadata=dict(source.metadata))  # a read-only mapping cannot be sent to a process
    try:
        with anyio.fail_after(limits.seconds):
            return await anyio.to_process.run_sync(
                _parse_in_limited_memory, sent, file, limits.megabytes, cancellable=True
            )
    except TimeoutError as problem:
        raise DocumentUnreadable(
            f"{source.path!r} was not read within {limits.seconds:g} seconds.",
            "Convert it to plain text, split it, or raise the setting max_parse_seconds (LEANRAG_MAX_PARSE_SECONDS).",
        ) from problem
    except (MemoryError, anyio.BrokenWorkerProcess) as problem:
        raise DocumentUnreadable(
            f"{source.path!r} could not be read within {limits.megabytes:,} MB of memory.",
            "Convert it to plain text, split it, or raise the setting max_parse_mb (LEANRAG_MAX_PARSE_MB).",
        ) from problem


def _parse_in_limited_memory(source: DocumentSource, file: FileContent, megabytes: int) -> LoadedDocument:
    if sys.platform == "linux":
        import resource  # noqa: PLC0415 - Windows has no such module

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 1024 * 1024, most))
    try:
        return parse_file(source, file)
    except DocumentUnreadable as problem:
        # What a parser of XML reports as an error of the file.
        no_memory = 2  # XML_ERR_NO_MEMORY of libxml2
        if getattr(problem.__cause__, "code", None) == no_memory:
            raise MemoryError from problem
        raise
