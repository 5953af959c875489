"""Cut a document into chunks: passages with a maximum of tokens that begin and end at natural borders. The
text is cut into small parts (sentences, lines) whose tokens are counted once. A chunk takes parts until the
next one does not fit, then ends at the best border among them: a heading or blank line justifies a shorter
chunk, the middle of a sentence or line is the last resort. Time and memory are linear in the text."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import accumulate, islice, pairwise, takewhile

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Chunk, LoadedDocument, Page, Window, content_id, is_code
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.word_lists import read_words

from .headings import Heading, headings
from .signatures import find_signatures
from .windows import cut_windows

# How borders are chosen. Set by reading chunks of prose, manuals and code; not tuned on retrieval figures.
_TITLE_CHARACTERS = 60  # A line of at most this length, alone and without a full stop, is a title
_SMALL_TAIL = 8  # A last chunk below 1 / `small_tail` of the limit joins the previous one if it can
_HEADINGS = 3  # Headings in the path of a chunk, the innermost ones


def chunk(document: LoadedDocument, *, tokenizer: Tokenizer, max_tokens: int, overlap: int) -> list[Chunk]:
    """Cut ``document`` into chunks, in order; every character except white space lies in at least one.

    No chunk has more than ``max_tokens`` tokens, or begins or ends within a word unless that word alone is longer
    (Chinese and Japanese are cut between characters where a sentence is too long). A chunk begins with the last
    whole sentences of the previous one, as far as they fit into ``overlap`` tokens and no heading lies between.
    ``heading`` is the path of headings above, outermost first, without the document's own title.

    Raises :class:`InvalidInput` unless ``max_tokens`` >= 8 and 0 <= ``overlap`` < ``max_tokens``.
    """
    fewest = 8  # one character may take several tokens: a smaller chunk might not hold it
    if max_tokens < fewest:
        raise InvalidInput(
            f"Chunks of at most {max_tokens} tokens are too small: at least {fewest} tokens were expected.",
            "Raise the setting chunk_tokens.",
        )
    if not 0 <= overlap < max_tokens:
        raise InvalidInput(
            f"An overlap of {overlap} tokens does not fit chunks of at most {max_tokens}: 0 to {max_tokens - 1} were expected.",
            "Lower the setting chunk_overlap, or raise chunk_tokens.",
        )
    found = list(headings(document.text, document.media_type))
    packer = _Packer(document.text, tokenizer, max_tokens, overlap)
    pieces = _count_tokens(document.text, _pieces(document, found), tokenizer)
    return _make_chunks(document, packer.join_tail(list(packer.spans(pieces))), found, tokenizer)


def chunk_at(
    document: LoadedDocument, places: Sequence[tuple[int, int]], *, tokenizer: Tokenizer
) -> list[Chunk]:
    """Return one chunk for each of ``places``, start and end in ascending order, where another program has cut ``document``."""
    found = list(headings(document.text, document.media_type))
    counts = tokenizer.count_many([document.text[start:end] for start, end in places])
    reached = 0
    spans: list[_ChunkSpan] = []
    for (start, end), tokens in zip(places, counts, strict=True):
        fresh = min(max(start, reached), end)
        # A passage that lies wholly within the one before would have no window of its own.
        spans.append(_ChunkSpan(start, start if fresh == end else fresh, end, tokens))
        reached = max(reached, end)
    return _make_chunks(document, spans, found, tokenizer)


def _make_chunks(
    document: LoadedDocument, spans: "Sequence[_ChunkSpan]", found: Sequence[Heading], tokenizer: Tokenizer
) -> list[Chunk]:
    path_at = _paths_by_offset(document.title, found)
    code = is_code(document.media_type)
    windows = cut_windows(
        document.text,
        [(span.fresh, span.end) for span in spans],
        found,
        find_signatures(document.text, document.media_type) if code else path_at,
        tokenizer,
        prose=is_prose(document.media_type),
        code=code,
    )
    seen: Counter[str] = Counter()
    starts = pairwise([0, *(span.start for span in spans)])
    lines = accumulate(document.text.count("\n", *between) for between in starts)
    return [
        _chunk(document, number, span, path_at(span.start), quoted, seen, line)
        for number, (span, quoted, line) in enumerate(zip(spans, windows, lines, strict=True), 1)
    ]


# --- pieces --------------------------------------------------------------------------------


class _Border(IntEnum):
    """What precedes a part, weakest first."""

    NONE = 0  # within a word that is longer than a chunk
    WORD = 1
    LINE = 2
    HEADED = 3  # directly after a heading, which stays with its text
    SENTENCE = 4
    BLANK = 5
    HEADING = 6


@dataclass(frozen=True, slots=True)
class _ChunkPart:
    """``text[start:end]``, with no gap between one part and the next."""

    start: int
    end: int
    border: _Border
    tokens: int = 0


_LEAST_REGION, _MOST_REGION = 1 << 15, 1 << 18  # How many characters are searched for borders at once

_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)

_CHAT = "text/x-chat"
_DATA = read_words("files", "data")

_CJK = "\u2e80-\u2fdf\u3001-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003fffd"
_OPENING = "「『（【《〈［｛〔“‘"
_MARKS = "\u302a-\u302f\u3099\u309a\uff9e\uff9f"  # of tones and voiced sounds
_NEVER_FIRST = f"、。，．！？：；）」』】》〉］｝〕”’…ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ゛゜{_MARKS}"
_WORD_BORDER = re.compile(
    rf"(?<=\S)(?=\s)|(?<=[{_CJK}])(?<![{_OPENING}])(?=[^\s{_NEVER_FIRST}])"
    rf"|(?<=[^\s{_OPENING}])(?=[{_CJK}])(?![{_NEVER_FIRST}])"
)
_FIRST_WORD = re.compile(r"\S")


def _count_tokens(text: str, pieces: Iterator[_ChunkPart], tokenizer: Tokenizer) -> Iterator[_ChunkPart]:
    while batch := list(islice(pieces, 4_096)):
        counts = tokenizer.count_many([text[piece.start : piece.end] for piece in batch])
        for piece, tokens in zip(batch, counts, strict=True):
            yield _ChunkPart(piece.start, piece.end, piece.border, tokens)  # faster than replace()


def _pieces(document: LoadedDocument, found: Sequence[Heading]) -> Iterator[_ChunkPart]:
    """Cut the whole text at every line, sentence and heading."""
    text = document.text
    prose = is_prose(document.media_type)
    waiting = deque(found)
    for start, end in _regions(text):
        borders = _line_borders(text, start, end, prose=prose)
        if prose:
            _add_sentences(borders, text, start, end)
        if document.media_type == _CHAT:
            # The blank lines between turns stay the best borders.
            weak = {_Border.SENTENCE, _Border.LINE}
            borders = {at: _Border.WORD if each in weak else each for at, each in borders.items()}
        inside = []
        while waiting and waiting[0].start < end:
            inside.append(waiting.popleft())
        _add_headings(borders, inside)
        positions = [*sorted(borders), end]
        leads = False
        for position, following in pairwise(positions):
            border = borders[position]
            yield _ChunkPart(position, following, min(border, _Border.HEADED) if leads else border)
            leads = prose and _leads_on(text[position:following], border, borders.get(following))


def _leads_on(passage: str, before: _Border, after: _Border | None) -> bool:
    """Return whether a passage announces the next: it ends with a colon, or is a short line on its own."""
    body = passage.strip()
    if body.endswith((":", "：")):
        return True
    alone = before >= _Border.BLANK and after is _Border.BLANK
    return alone and len(body) <= _TITLE_CHARACTERS and "\n" not in body and body[-1:].isalnum()


def is_prose(media_type: str) -> bool:
    return not (is_code(media_type) or media_type in _DATA)


def _regions(text: str) -> Iterator[tuple[int, int]]:
    """Cut ``text`` into stretches of about 32,000 characters that end at a blank line outside fenced code. Stretches bound the memory."""
    start = 0
    while start < len(text):
        end = _region_end(text, start)
        yield start, end
        start = end


def _region_end(text: str, start: int) -> int:
    limit = start + _MOST_REGION
    if len(text) <= start + _LEAST_REGION:
        return len(text)
    fenced = False
    seen = start
    for blank in _BLANK_LINES.finditer(text, start + _LEAST_REGION, limit):
        fenced ^= len(_FENCE.findall(text, seen, blank.end())) % 2 == 1
        seen = blank.end()
        if not fenced:
            return seen
    if len(text) <= limit:
        return len(text)
    at_line = text.rfind("\n", start, limit) + 1
    at_word = max(text.rfind(white, start + 1, limit) for white in " \t\u3000")
    return at_line or (at_word if at_word > start else limit)


def _line_borders(text: str, start: int, end: int, *, prose: bool) -> dict[int, _Border]:
    """Return the border before each line that is not blank. Outside prose a line counts as a sentence."""
    borders = {start: _first_border(text, start)}
    inner = _Border.LINE if prose else _Border.SENTENCE
    position = start
    blank = empty = True
    for line in text[start:end].split("\n"):
        if not line or line.isspace():
            blank = True
        else:
            if not empty:
                borders[position] = _Border.BLANK if blank else inner
            blank = empty = False
        position += len(line) + 1
    return borders


def _first_border(text: str, start: int) -> _Border:
    before = text[max(0, start - _LEAST_REGION) : start]
    white = before[len(before.rstrip()) :]
    if not before or white.count("\n") > 1:
        return _Border.BLANK
    if "\n" in white:
        return _Border.LINE
    return _Border.WORD if white or text[start].isspace() else _Border.NONE


def _add_sentences(borders: dict[int, _Border], text: str, start: int, end: int) -> None:
    for first, _ in sentences(text[start:end]):
        position = start + first
        after = position
        while after > start and text[after - 1].isspace():
            after -= 1
        line = text.rfind("\n", after, position) + 1
        if line:
            borders[line] = max(borders.get(line, _Border.SENTENCE), _Border.SENTENCE)
        elif after < position or _WORD_BORDER.match(text, position):
            # The preceding space belongs to the sentence: the tokenizer cuts there too, so that counts add up.
            borders.setdefault(after, _Border.SENTENCE)


def _add_headings(borders: dict[int, _Border], found: Sequence[Heading]) -> None:
    """Add a border before each heading and a weak one after it, and remove those within it."""
    positions = sorted(borders)
    for heading in found:
        first, after = bisect_left(positions, heading.start), bisect_left(positions, heading.end)
        before = borders.get(heading.start)
        for position in positions[first:after]:
            borders.pop(position, None)
        borders[heading.start] = _Border.HEADED if before is _Border.HEADED else _Border.HEADING
        if after < len(positions):
            borders[positions[after]] = _Border.HEADED


# --- packing -------------------------------------------------------------------------------

_WORTH = {
    _Border.NONE: -2.0,
    _Border.WORD: -0.7,
    _Border.LINE: -0.3,
    _Border.HEADED: -0.7,
    _Border.SENTENCE: 0.0,
    _Border.BLANK: 0.25,
    _Border.HEADING: 0.5,
}
"""The worth of each border in parts of a full chunk: a chunk that is 60 % full and ends before a heading beats one
that is full and ends after a sentence."""

_OVERLAP_STARTS = frozenset({_Border.SENTENCE, _Border.HEADED, _Border.BLANK, _Border.HEADING})


@dataclass(frozen=True, slots=True)
class _ChunkSpan:
    """The place of a chunk: ``text[start:end]`` without surrounding white space. What precedes ``fresh`` is overlap."""

    start: int
    fresh: int
    end: int
    tokens: int


class _Packer:
    """Packs the parts of one text into spans."""

    def __init__(self, text: str, tokenizer: Tokenizer, limit: int, overlap: int) -> None:
        self._text = text
        self._tokenizer = tokenizer
        self._limit = limit
        self._overlap = overlap
        self._window: list[_ChunkPart] = []
        self._tokens = 0  # of all parts in the window
        self._fresh = 0  # number of parts at the head of the window that are overlap
        self._covered = 0  # the end of the last span

    def spans(self, pieces: Iterable[_ChunkPart]) -> Iterator[_ChunkSpan]:
        """Yield the spans in order. Lazy: keeps the parts of about one chunk in memory."""
        for piece in pieces:
            for part in self._divide(piece):
                while len(self._window) > self._fresh and self._tokens + part.tokens > self._limit:
                    yield from self._take(part.border)
                self._fit_overlap(part.tokens)
                self._window.append(part)
                self._tokens += part.tokens
        while len(self._window) > self._fresh:
            yield from self._take(None)

    def join_tail(self, spans: list[_ChunkSpan]) -> list[_ChunkSpan]:
        """Join a small last span to the previous one, which gives up its own overlap if necessary."""
        if len(spans) <= 1:
            return spans
        tail = self._measure(spans[-1].fresh, spans[-1].end)
        if tail.tokens * _SMALL_TAIL > self._limit:
            return spans
        *others, before, last = spans
        for start in (before.start, before.fresh):
            joined = self._measure(start, last.end)
            if joined.tokens <= self._limit:
                return [*others, replace(joined, fresh=max(joined.start, before.fresh))]
        return spans

    def _take(self, following: _Border | None) -> Iterator[_ChunkSpan]:
        """Take one chunk from the window; ``following`` is the border after it, ``None`` at the end of the text."""
        cut = len(self._window) if following is None else self._best_cut(len(self._window), following)
        span = self._span(cut)
        while span.tokens > self._limit:
            cut = self._shrink(cut)
            span = self._span(cut)
        if span.end > max(span.start, self._covered):
            self._covered = span.end
            yield span
        self._carry_on(cut, span.start)

    def _best_cut(self, last: int, following: _Border) -> int:
        """Return the number of parts up to the border with the best sum of worth and fullness, at most ``last``."""
        best, best_score = last, float("-inf")
        tokens = sum(piece.tokens for piece in self._window[: self._fresh])
        for cut in range(self._fresh + 1, last + 1):
            tokens += self._window[cut - 1].tokens
            border = self._window[cut].border if cut < len(self._window) else following
            score = tokens / self._limit + _WORTH[border]
            if score >= best_score:
                best, best_score = cut, score
        return best

    def _shrink(self, cut: int) -> int:
        """Reduce a cut for which the sum of the counts was too low: one part less, or no overlap, or half a part."""
        if cut > self._fresh + 1:
            return self._best_cut(cut - 1, self._window[cut - 1].border)
        if self._fresh:
            cut -= self._fresh
            self._drop(self._fresh)
            self._fresh = 0
            return cut
        halves = self._cut_within(self._window[0])
        self._drop(1)
        self._window[:0] = halves
        self._tokens += sum(half.tokens for half in halves)
        return 1

    def _carry_on(self, cut: int, taken: int) -> None:
        """Drop the pieces of the chunk just taken, which begins at ``taken``, but for the overlap with the next."""
        start = cut
        tokens = 0
        border = self._window[cut].border if cut < len(self._window) else _Border.SENTENCE
        for at in range(cut - 1, 0, -1):
            tokens += self._window[at].tokens
            if border is _Border.HEADING or tokens > self._overlap or self._window[at].start <= taken:
                break
            border = self._window[at].border
            if border in _OVERLAP_STARTS:
                start = at
        self._drop(start)
        self._fresh = cut - start

    def _fit_overlap(self, tokens: int) -> None:
        """Drop the first sentences of a window that is all overlap until ``tokens`` more fit."""
        while self._window and len(self._window) == self._fresh and self._tokens + tokens > self._limit:
            starts = (at for at, piece in enumerate(self._window) if at and piece.border in _OVERLAP_STARTS)
            self._drop(next(starts, len(self._window)))
            self._fresh = len(self._window)

    def _drop(self, count: int) -> None:
        self._tokens -= sum(piece.tokens for piece in self._window[:count])
        del self._window[:count]

    def _span(self, cut: int) -> _ChunkSpan:
        pieces = self._window[:cut]
        span = self._measure(pieces[0].start, pieces[-1].end)
        return replace(span, fresh=max(span.start, pieces[self._fresh].start))

    def _measure(self, start: int, end: int) -> _ChunkSpan:
        """Return the span of ``text[start:end]`` without surrounding white space except the indent of a first line."""
        text = self._text[start:end]
        body = text.strip()
        if not body:
            return _ChunkSpan(start, start, start, 0)
        first = start + len(text) - len(text.lstrip())
        line = self._text.rfind("\n", max(0, start - 1), first) + 1
        start = line if line or start == 0 else first
        end = first + len(body)
        return _ChunkSpan(start, start, end, self._tokenizer.count(self._text[start:end]))

    # long parts

    def _divide(self, piece: _ChunkPart) -> Iterator[_ChunkPart]:
        """Yield a part of at most half a chunk as it is, a longer one cut at words, a word longer than a chunk cut within."""
        if piece.tokens <= self._limit // 2:
            yield piece
            return
        parts = self._cut_at_words(piece)
        if len(parts) == 1 and piece.tokens > self._limit:
            parts = self._cut_within(piece)
        elif len(parts) == 1:
            yield piece
            return
        for part in parts:
            yield from self._divide(part)

    def _cut_at_words(self, piece: _ChunkPart) -> list[_ChunkPart]:
        """Cut a part at words into parts of about an eighth of the limit."""
        step = (piece.end - piece.start) * self._limit // (8 * piece.tokens)
        bounds = self._word_borders(piece, max(1, step))
        if len(bounds) == 1:
            bounds = self._word_borders(piece, 1)
        if len(bounds) == 1:
            word = _FIRST_WORD.search(self._text, piece.start, piece.end)
            bounds += [word.start()] if word and word.start() > piece.start else []
        return self._parts(piece, bounds, _Border.WORD)

    def _word_borders(self, piece: _ChunkPart, step: int) -> list[int]:
        """Return the start of the part, and borders of words at least ``step`` characters apart."""
        bounds = [piece.start]
        while border := _WORD_BORDER.search(self._text, bounds[-1] + step, piece.end):
            bounds.append(border.start())
        return bounds

    def _cut_within(self, piece: _ChunkPart) -> list[_ChunkPart]:
        """Cut a word that is longer than a chunk into at least two equal parts of about two thirds of the limit."""
        length = piece.end - piece.start
        count = max(2, int(1.5 * piece.tokens / self._limit))
        middles = (piece.start + length * part // count for part in range(1, count))
        bounds = [piece.start, *dict.fromkeys(self._skip_accents(middle, piece.end) for middle in middles)]
        return self._parts(piece, bounds, _Border.NONE)

    def _skip_accents(self, position: int, end: int) -> int:
        """Move a cut behind the combining accents that follow, unless there are more than 16."""
        reach = range(position, min(position + 16, end))
        return next((at for at in reach if not unicodedata.combining(self._text[at])), position)

    def _parts(self, piece: _ChunkPart, bounds: Sequence[int], border: _Border) -> list[_ChunkPart]:
        ends = [*bounds[1:], piece.end]
        counts = self._tokenizer.count_many(
            [self._text[start:end] for start, end in zip(bounds, ends, strict=True)]
        )
        # White space is never inside a word.
        spaces = (self._text[at - 1].isspace() or self._text[at].isspace() for at in bounds[1:])
        borders = [piece.border, *(_Border.WORD if space else border for space in spaces)]
        return [_ChunkPart(*part) for part in zip(bounds, ends, borders, counts, strict=True)]


# --- chunks --------------------------------------------------------------------------------

_STEP = " > "


def _paths_by_offset(title: str, found: Sequence[Heading]) -> Callable[[int], str]:
    """Return a function that gives the path of headings at an offset."""
    starts, paths = [-1], [""]
    above: list[Heading] = []
    for heading in found:
        above = [*(each for each in above if each.level < heading.level), heading]
        starts.append(heading.start)
        paths.append(_path(title, above))
        if heading.breaks:
            above.pop()
            starts.append(heading.breaks[-1])
            paths.append(_path(title, above))
    return lambda offset: paths[bisect_right(starts, offset) - 1]


def _path(title: str, above: Sequence[Heading]) -> str:
    """Return the path of headings without the document's ``title``; a long one is replaced by its innermost heading."""
    names = [each.title for each in above]
    names = names[1:] if names[:1] == [title] else names
    path = _STEP.join(names[-_HEADINGS:])
    longest = 200
    return path if len(path) <= longest else names[-1][:longest]


def _chunk(
    document: LoadedDocument,
    number: int,
    span: _ChunkSpan,
    heading: str,
    windows: tuple[Window, ...],
    seen: Counter[str],
    line: int,
) -> Chunk:
    """Return a chunk. Its id is made from what is extracted and embedded: text, heading and windows. Neither place nor title is
    part of it, so a chunk keeps its id when the document changes elsewhere. ``seen`` counts equal chunks, to tell them apart; ``line`` those above."""
    text = document.text[span.start : span.end]
    places = [f"{each.start - span.start}:{each.end - span.start}:{each.heading}" for each in windows]
    content = content_id("", heading, text, *places)
    seen[content] += 1
    return Chunk(
        id=content_id("k", document.id, content, str(seen[content])),
        document_id=document.id,
        number=number,
        text=text,
        start=span.start,
        end=span.end,
        tokens=span.tokens,
        pages=_pages(document.pages, span),
        heading=heading,
        title=document.title,
        windows=windows,
        line=document.first_line + line if document.first_line else None,
        media_type=document.media_type,
        date=document.date,
        date_origin=document.date_origin,
    )


def _pages(pages: Sequence[Page], span: _ChunkSpan) -> tuple[Page, ...]:
    """Return the pages of a chunk's text, the first one cut off at its start."""
    first = max(bisect_right(pages, span.start, key=lambda page: page.start) - 1, 0)
    found = takewhile(lambda page: page.start < span.end, pages[first:])
    return tuple(Page(page.number, max(page.start, span.start)) for page in found)
