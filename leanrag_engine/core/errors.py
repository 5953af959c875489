"""Every error that LeanRAG raises on purpose, named by what the caller can do about it.

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
     ├─ StoreUnusable          the data folder needs a hand: read-only, newer, damaged
     ├─ ModelUnavailable       a model's service does not answer: wait, or use another
     ├─ ReplyUnusable          a model's reply is not what was asked for: ask again, or do without
     └─ Cancelled              somebody asked the work to stop

A message names the value and what was expected; ``next_step`` says what to do now. ``str()``
gives both, so no surface can lose the second half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Ambiguous",
    "Busy",
    "Cancelled",
    "Candidate",
    "DocumentUnreadable",
    "EmbedderChanged",
    "FormatUnsupported",
    "InvalidInput",
    "LeanRAGError",
    "ModelUnavailable",
    "NotFound",
    "NotReady",
    "PathRefused",
    "ReplyUnusable",
    "StoreUnusable",
]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something the caller may have meant: its ref, its name, and what tells it apart."""

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
        lines = [super().__str__(), *(f"- {candidate}" for candidate in self.candidates)]
        return "\n".join(lines)


class NotFound(_WithCandidates):
    """Nothing bears that name; ``candidates`` are the nearest, best first."""


class Ambiguous(_WithCandidates):
    """Several bear that name; ``candidates`` are all of them, with what tells them apart."""


class NotReady(LeanRAGError):
    """The collection lacks a step that the call needs: ``needs`` is ``documents`` or ``build``."""

    def __init__(
        self, message: str, next_step: str = "", needs: Literal["documents", "build"] = "documents"
    ) -> None:
        super().__init__(message, next_step)
        self.needs = needs


class Busy(LeanRAGError):
    """Another process holds the write lock; the message names it and since when."""


class StoreUnusable(LeanRAGError):
    """The data folder cannot be used as it is; nothing in it was changed."""


class ModelUnavailable(LeanRAGError):
    """A model's service cannot be reached, is overloaded, or limits the rate, also after every retry."""


class ReplyUnusable(LeanRAGError):
    """One reply of a model cannot be used: cut off, refused, empty, or not of the form asked for.
    Other requests are not affected."""


class CapReached(LeanRAGError):
    """A call would pass the most calls, tokens or dollars that the user allows. It was not made."""


class Cancelled(LeanRAGError):
    """The work was asked to stop. What it had finished is kept."""
