"""The errors that LeanRAG raises on purpose, named by what the caller can do.

    LeanRAGError
     ├─ InvalidInput           give another value
     │   ├─ EmbedderChanged    set the embedder back, or build anew
     │   ├─ PathRefused        the path lies outside the allowed folders
     │   └─ DocumentUnreadable the document cannot be turned into text
     │       └─ FormatUnsupported
     ├─ NotFound               name one of the candidates
     ├─ Ambiguous              say which of the candidates is meant
     ├─ NotReady               do the named step first
     ├─ Busy                   wait for the named holder, or stop it
     ├─ StoreUnusable          repair the data folder: read-only, newer, damaged
     │   └─ StoreUnreachable   start the server that keeps the store, correct its address, or make room
     ├─ ModelUnavailable       a model's service does not answer: wait, or use another
     ├─ OutOfTime              ask for less at once
     ├─ WorkerLost             a process that worked for this one ended: try again
     ├─ ReplyUnusable          a model's reply has the wrong form: ask again, or do without
     └─ Cancelled              the user asked the work to stop

A message names the value and what was expected; ``next_step`` says what to do now. ``str()``
gives both, so that no interface loses the next step.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import anyio
from anyio.abc import TaskGroup


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that the caller may have meant: its ref, its name, and a hint that distinguishes it."""

    ref: str
    name: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f": {self.hint}" if self.hint else ""
        return f"{self.name} (ref {self.ref}){hint}" if self.ref else f"{self.name}{hint}"


class LeanRAGError(Exception):
    """Base of all errors of this package. ``message`` says what is wrong, ``next_step`` what to do."""

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message, next_step)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message} {self.next_step}".rstrip()


class InvalidInput(LeanRAGError):
    """A value is wrong: the message names it and what was expected."""


class EmbedderChanged(InvalidInput):
    """The collection was embedded with another embedder than the one that is set."""


class PathRefused(InvalidInput):
    """A path outside the allowed folders, after every symlink was followed."""


class DocumentUnreadable(InvalidInput):
    """A document that cannot be read or that holds no text. Other documents are not affected."""


class FormatUnsupported(DocumentUnreadable):
    """A kind of file that has no reader yet."""


class _WithCandidates(LeanRAGError):
    def __init__(self, message: str, next_step: str = "", candidates: tuple[Candidate, ...] = ()) -> None:
        super().__init__(message, next_step)
        self.candidates = candidates

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"- {candidate}" for candidate in self.candidates)])


class NotFound(_WithCandidates):
    """Nothing has that name; ``candidates`` are the nearest, best first."""


class UnknownCollection(NotFound):
    """There is no collection of that name; ``candidates`` are those with similar names."""


class Ambiguous(_WithCandidates):
    """Several things have that name; ``candidates`` are all of them, with a hint that distinguishes them."""


class NotReady(LeanRAGError):
    """The collection lacks a step that the call needs: ``needs`` is ``documents``, ``build`` or the ``end`` of a job."""

    def __init__(
        self, message: str, next_step: str = "", needs: Literal["documents", "build", "end"] = "documents"
    ) -> None:
        super().__init__(message, next_step)
        self.needs = needs


def no_documents(collection: str) -> NotReady:
    return NotReady(
        f"Collection {collection!r} holds no document yet.", "Ingest documents first.", "documents"
    )


def never_built(collection: str, next_step: str = "Build it first.", building: str = "") -> NotReady:
    """Return the error for a collection without a build; ``building`` says how far the first one is, if it runs."""
    if building:
        return NotReady(f"Collection {collection!r} is not built yet. {building}", "Ask again later.", "end")
    return NotReady(f"Collection {collection!r} was never built.", next_step, "build")


class Busy(LeanRAGError):
    """Another process holds the write lock; the message names it and since when."""


class StoreUnusable(LeanRAGError):
    """The data folder cannot be used in its present state; nothing in it was changed."""


class StoreUnreachable(StoreUnusable):
    """A store's server does not answer or refuses access, or an index's disk is full. What it holds is whole, as far as known."""


class LockLost(StoreUnusable):
    """The writer lock was lost while it was held, with the connection that held it. The work may begin again."""


class ModelUnavailable(LeanRAGError):
    """A model's service cannot be reached, is overloaded, or limits the rate, even after all retries."""


class ModelSilent(ModelUnavailable):
    """A model's service took a request and answered neither it nor any other within the time for one."""


class OutOfTime(LeanRAGError):
    """A call took longer than one may; nothing was changed."""


class WorkerLost(LeanRAGError):
    """A process that did a part of the work ended before it had finished. Other parts are not affected."""


class ReplyUnusable(LeanRAGError):
    """One reply of a model cannot be used: cut off, refused, empty, or not of the form asked for. Other requests are not affected."""


class CapReached(LeanRAGError):
    """A call would exceed the user's limit of calls, tokens or dollars. It was not made."""


class Cancelled(LeanRAGError):
    """The work was asked to stop. Finished parts are kept."""


@asynccontextmanager
async def open_task_group() -> AsyncIterator[TaskGroup]:
    """Open a group of tasks that raises the first error of them by itself, not in a group of errors."""
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as problems:
        raise first_error(problems) from None


def first_error(problems: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group, which is no group itself."""
    first = problems.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first
