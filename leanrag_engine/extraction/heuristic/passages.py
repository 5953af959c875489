"""Parse chunks for heuristic extraction: unwrapped sentences, headings and lines of code, with their mentions."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from leanrag_engine.core.model import Chunk
from leanrag_engine.core.text.language.sentences import (
    Piece,
    PieceKind,
    Turn,
    count_fences,
    find_turn,
    has_times,
    is_conversation,
    pieces,
)
from leanrag_engine.core.text.language.words import plain_apostrophes, word_count
from leanrag_engine.documents.notices import without_notices

from .names.mentions import Mention
from .words.tokens import Sentence, is_technical, tokenize


@dataclass(slots=True)
class ParsedChunk:
    """A chunk's sentences, and for each its mentions with their keys (:func:`name_key`) and the heading above it."""

    chunk: Chunk
    sentences: list[Sentence]
    mentions: list[list[tuple[str, Mention]]] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    """The key of the heading above each sentence; "" if there is none."""


_BROKEN_WORD = re.compile(r"(?<!\w)(\w++)-\n\s*([^\W\d_]\w*)")
_CONTENTS = re.compile(
    r"(?m)(?<!\.)(?<!\.[ \t])\S(?:[ \t]{4,}|[ \t]?(?:\.[ \t]?){4,})(?:\d{1,4}(?:[-–]\d{1,4})?|[ivxlc]{1,6})[ \t]*$"
)
"""A line of a table of contents: words, a gap or dots, a page."""
_PREFIXES = frozenset(["multi", "inter", "intra", "non", "pre", "post", "semi", "sub", "super", "self", "cross", "co", "anti", "re"])  # fmt: skip


def parse_chunks(chunks: Sequence[Chunk]) -> list[ParsedChunk]:
    """Parse the chunks of one document, in order; the mentions are still empty."""
    chunks = [without_notices(each) for each in chunks]
    whole = "\n\n".join(chunk.text for chunk in chunks)
    fenced = _find_fenced(chunks)
    spans = [pieces(chunk.text, fenced=each) for chunk, each in zip(chunks, fenced, strict=True)]
    code = sum(piece.end - piece.start for found in spans for piece in found if piece.kind is PieceKind.CODE)
    technical = is_technical(whole, code)
    vocabulary = _vocabulary(whole)
    turn_in = _choose_turns(whole)
    if turn_in is not _no_turn:
        spans = [_join_turns(chunk.text, found, turn_in) for chunk, found in zip(chunks, spans, strict=True)]
    return [
        ParsedChunk(
            chunk, [_sentence(chunk, piece, vocabulary, turn_in, technical=technical) for piece in found]
        )
        for chunk, found in zip(chunks, spans, strict=True)
    ]


def _choose_turns(text: str) -> Callable[[str], Turn | None]:
    """Return what finds the label of a turn in this document, which may be no conversation."""
    if not is_conversation(text):
        return _no_turn
    if not has_times(text):
        return find_turn
    return lambda line: turn if (turn := find_turn(line)) and turn.time else None


def _no_turn(_: str) -> Turn | None:
    return None


def _join_turns(
    text: str, found: Sequence[Piece], turn_in: Callable[[str], Turn | None], most: int = 60
) -> list[Piece]:
    """Make each turn of at most ``most`` words one piece, which keeps its speaker; of a longer one, the first sentence."""
    joined: list[Piece] = []
    whole = False
    for piece in found:
        if turn_in(text[piece.start : piece.end]):
            joined.append(Piece(piece.start, piece.end, PieceKind.PROSE))
            whole = True
        elif text.startswith("#", piece.start) or not joined:
            joined.append(piece)
            whole = False
        elif whole and word_count(text[joined[-1].start : piece.end]) <= most:
            joined[-1] = Piece(joined[-1].start, piece.end, PieceKind.PROSE)
        else:
            joined.append(Piece(piece.start, piece.end, PieceKind.PROSE))
            whole = False
    return joined


def _find_fenced(chunks: Sequence[Chunk]) -> Iterator[bool]:
    """Yield for each chunk whether it begins within fenced code that an earlier one opens."""
    fences = 0
    for place, chunk in enumerate(chunks):
        yield fences % 2 == 1
        end = chunks[place + 1].start if place + 1 < len(chunks) else chunk.end
        fences += count_fences(chunk.text[: max(0, end - chunk.start)])


def _vocabulary(text: str) -> frozenset[str]:
    """Return the lower-case words of a text with words hyphenated at a line's end; empty if it has none of these."""
    words = re.findall(r"[^\W\d_]+", _BROKEN_WORD.sub(" ", text).lower()) if "-\n" in text else ()
    return frozenset(words)


def _sentence(
    chunk: Chunk,
    piece: Piece,
    vocabulary: frozenset[str],
    turn_in: Callable[[str], Turn | None],
    *,
    technical: bool,
) -> Sentence:
    raw = chunk.text[piece.start : piece.end]
    # A line of a table of contents states nothing, and the text names the same again: treat it like code.
    kind = PieceKind.CODE if _CONTENTS.search(raw) else piece.kind
    # Of a link only its words name something, of an image nothing does.
    named = _LINK.sub(r"\1", _IMAGE.sub("", raw)) if "](" in raw or "][" in raw else raw
    text = _unwrap(named, vocabulary)
    turn = turn_in(text) if kind is PieceKind.PROSE else None
    said = turn.said if turn else 0
    plain = plain_apostrophes(text)[said:]
    tokens = () if kind is PieceKind.CODE else tokenize(plain, technical=technical, offset=said)
    return Sentence(text, kind, chunk.start + piece.start, tokens, turn)


_IMAGE = re.compile(r"!\[[^\]\n]*\](?:\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|\[[^\]\n]*\])")
_LINK = re.compile(r"(?<!!)\[([^\[\]]+)\](?:\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|\[[^\]\n]+\])")


def _unwrap(text: str, vocabulary: frozenset[str]) -> str:
    """Join the lines to one, and words that were hyphenated at a line's end."""

    def join(match: re.Match[str]) -> str:
        left, right = match[1], match[2]
        compound = right[0].isupper() or left.lower() in vocabulary or left.lower() in _PREFIXES
        return left + right if (left + right).lower() in vocabulary or not compound else f"{left}-{right}"

    if "-\n" in text:
        text = _BROKEN_WORD.sub(join, text)
    return " ".join(text.split())


def without_overlap(passages: Sequence[ParsedChunk]) -> list[Sentence]:
    """Return every sentence once: the overlap of two chunks must not count twice."""
    fresh: list[Sentence] = []
    reached = -1
    for passage in passages:
        fresh += [sentence for sentence in passage.sentences if sentence.position >= reached]
        reached = max(reached, passage.chunk.end)
    return fresh
