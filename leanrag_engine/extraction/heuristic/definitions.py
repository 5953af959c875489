"""Find the classes and functions that a document defines, if it is mostly code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from leanrag_engine.core.text.language.sentences import PieceKind

from .names.mentions import Kind, Mention
from .passages import ParsedChunk

_DEFINITION = re.compile(
    r"\b(?:class|def|function|interface|struct|enum|trait|fn|func|module|namespace|type)\s+([A-Za-z_]\w{2,})"
    r"|\b(?:const|let|var)\s+([A-Za-z_]\w{2,})\s*=\s*(?:async\b|function\b|\([^)]*\)\s*=>)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,}")


def find_definitions(passages: Sequence[ParsedChunk]) -> frozenset[str]:
    """Return the names that are defined in a document of which more than half is code; else none."""
    sentences = [sentence for passage in passages for sentence in passage.sentences]
    code = [sentence.text for sentence in sentences if sentence.kind is PieceKind.CODE]
    if 2 * sum(map(len, code)) <= sum(len(sentence.text) for sentence in sentences):
        return frozenset()
    return frozenset(name for line in code for found in _DEFINITION.findall(line) for name in found if name)


def find_in_code(line: str, names: frozenset[str]) -> Iterator[Mention]:
    """Yield the mentions of ``names`` in a line of code."""
    if names:
        for match in _IDENTIFIER.finditer(line):
            if match[0] in names:
                yield Mention(match[0], Kind.CODE, match.start(), match.end())
