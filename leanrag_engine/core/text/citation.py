"""Citations: ``d3:c12`` is the chunk of document 3 of a collection with the label 12, ``d3`` is the document.
A document that never changed has its labels in reading order, from 1."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

CITATION_PATTERN = r"d\d+:c\d+"  # For regular expressions that contain a citation

_WORD = re.compile(rf"\b{CITATION_PATTERN}\b")
_BRACKETED = re.compile(rf"\[({CITATION_PATTERN})\]")
_WITHIN_BRACKETS = re.compile(rf"\[([^\[\]\n]{{0,60}}?{CITATION_PATTERN}[^\[\]\n]{{0,60}}?)\]", re.IGNORECASE)
# The numbers of a database have 64 bits.
_NUMBERS = re.compile(r"d([0-9]{1,15}):c([0-9]{1,7})")
_DOCUMENT = re.compile(r"d([0-9]{1,15})")
_RANGE = re.compile(r"\bd([0-9]{1,15}):c([0-9]{1,7})(?: ?[-–—] ?(?:d\1:)?c?([0-9]{1,7}))?\b")


def format_citation(document: int, chunk: int) -> str:
    """Return the citation of a chunk, from the numbers of its document and of the chunk within it."""
    return f"{format_document(document)}:c{chunk}"


def format_range(document: int, first: int, last: int) -> str:
    """Return the citation of consecutive chunks: ``d3:c10-c14``, of one chunk ``d3:c10``. The numbers ascend
    unless the document was changed: a new chunk between old ones has the highest number."""
    return format_citation(document, first) + (f"-c{last}" if last != first else "")


def parse_range(text: str) -> tuple[int, int, int] | None:
    """Return the numbers of the document and of the first and last chunk that a citation or range names.
    ``None`` if ``text`` is neither (``d3:c12``, ``d3:c10-c14``) and nothing else."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or match[2])


def find_ranges(text: str) -> tuple[str, ...]:
    """Return the citations and ranges in ``text``, each once, in order of first occurrence."""
    return tuple(dict.fromkeys(match[0] for match in _RANGE.finditer(text)))


def format_document(number: int) -> str:
    """Return the part of a citation that names the document: ``d3``."""
    return f"d{number}"


def format_place(path: str, line: int | None) -> str:
    """Return a place in a file as terminals and editors open it: ``notes/bells.md:12``; without a line the path."""
    return f"{path}:{line}" if path and line else path


def parse_citation(text: str) -> tuple[int, int] | None:
    """Return the numbers of document and chunk; ``None`` if ``text`` is not a citation and nothing else."""
    match = _NUMBERS.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


def find_citations(text: str) -> tuple[str, ...]:
    """Return the citations in ``text``, each once, in order of first occurrence."""
    return tuple(dict.fromkeys(_WORD.findall(text)))


def find_bracketed_citations(text: str) -> tuple[str, ...]:
    """Return the citations written as ``[d3:c12]``, each once, in order of first occurrence."""
    return tuple(dict.fromkeys(_BRACKETED.findall(text)))


def unbracket_citations(text: str) -> str:
    """Replace the brackets around citations by parentheses, so that quoted text cannot pass for a cited line."""
    return _WITHIN_BRACKETS.sub(r"(\1)", text)


@dataclass(frozen=True, slots=True)
class CitationSet:
    """The chunks that some citations name, as first and last label by the number of the document."""

    ranges: tuple[tuple[int, int, float], ...] = ()

    @classmethod
    def parse(cls, citations: Iterable[str]) -> Self:
        """Parse citations (``d3:c12``), ranges (``d3:c10-c14``) and whole documents (``d4``), in brackets or
        not. Raises ``ValueError`` with the first that is none of these."""
        ranges: list[tuple[int, int, float]] = []
        for text in citations:
            bare = text.strip().removeprefix("[").removesuffix("]")
            if found := parse_range(bare):
                ranges.append(found)
            elif whole := _DOCUMENT.fullmatch(bare):
                ranges.append((int(whole[1]), 0, float("inf")))
            else:
                raise ValueError(text)
        return cls(tuple(dict.fromkeys(ranges)))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, citation: str) -> bool:
        found = parse_citation(citation)
        return found is not None and any(
            document == found[0] and first <= found[1] <= last for document, first, last in self.ranges
        )
