"""Cut chunks into windows: the few sentences that dense and keyword search find and a context quotes. A
window lies within one chunk and one section. It holds whole sentences; fenced code, a table or a list item is
not cut unless it is longer than a window may be, and code is never cut within a chunk."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from leanrag_engine.core.model import Window
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.records import TABLE_ROW

from .headings import Heading


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """Sizes of windows in tokens."""

    target: int = 120
    """A window is closed before it grows beyond this. Sizes of 60 to 200 were compared on two reply sets."""
    longest: int = 200
    """A sentence, list item or table beyond this is cut at lines or words; an announced block may fill this much."""
    smallest: int = 30
    """A last window of a section below this joins the one before it."""


_OPTIONS = WindowOptions()


class _BlockKind(StrEnum):
    TEXT = "text"
    LINES = "lines"  # A table, or lines of data: cut between lines only
    CODE = "code"  # Never cut


@dataclass(frozen=True, slots=True)
class _Block:
    """``text[start:end]``, the smallest part that a window takes. ``announced``: it belongs to what precedes it."""

    start: int
    end: int
    kind: _BlockKind
    announced: bool = False


_FENCE = re.compile(r"[ \t]*(?P<fence>```+|~~~+)")
_ITEM = re.compile(r"[ \t]*(?:[-*+•‣◦·▪–—]|\(?(?:\d{1,3}|[a-zA-Z])[.)])[ \t]+\S")
_ROW = re.compile(rf"{TABLE_ROW}|[ \t]*(?:\||\+[-=+]{{3,}}|={{2,}}+(?: +=++)+\s*$)")
_WORD_START = re.compile(r"(?<=\s)\S")


def cut_windows(
    text: str,
    spans: Sequence[tuple[int, int]],
    found: Sequence[Heading],
    paths: Callable[[int], str],
    tokenizer: Tokenizer,
    *,
    prose: bool,
    code: bool = False,
) -> list[tuple[Window, ...]]:
    """Return the windows of each of the ``spans`` of ``text``, in order. ``spans`` ascend and do not overlap;
    ``found`` are the headings of the whole text, and ``paths`` gives the path of headings at an offset. A
    span of headings alone is one window. In ``code`` definitions are a part of the text."""
    breaks = [(each.start, each.start if code else each.end) for each in found]
    breaks = sorted([*breaks, *((at, at) for each in found for at in each.breaks)])
    starts = [first for first, _ in breaks]
    windows = []
    for start, end in spans:
        inside = breaks[bisect_left(starts, start) : bisect_left(starts, end)]
        cut = [
            window
            for first, last in _sections(start, end, inside)
            for window in _pack(
                list(_units(text, first, last, prose=prose)), text, tokenizer, items=not (prose or code)
            )
        ]
        windows.append(tuple(Window(first, last, paths(first)) for first, last in cut or [(start, end)]))
    return windows


def _sections(start: int, end: int, breaks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the stretches between the headings."""
    position = start
    for first, last in breaks:
        if first > position:
            yield position, first
        position = max(position, min(last, end))
    if position < end:
        yield position, end


def _units(text: str, start: int, end: int, *, prose: bool) -> Iterator[_Block]:
    """Yield the blocks of ``text[start:end]``; paragraphs as their sentences."""
    announced = False
    indent = 0
    for block in _blocks(text, start, end, prose=prose):
        body = text[block.start : block.end]
        deeper = _indent_of(text, block.start) > indent
        kind = block.kind
        if kind is _BlockKind.TEXT and prose and not (announced and deeper) and _hangs(body):
            kind = _BlockKind.LINES
        if kind is not _BlockKind.TEXT or not prose:
            yield _Block(block.start, block.end, kind, announced)
        elif announced and deeper:
            kind = _BlockKind.CODE
            yield _Block(block.start, block.end, kind, announced=True)
        elif _ITEM.match(body) and len(body) <= 4 * _OPTIONS.target:
            yield _Block(block.start, block.end, kind, announced)
        else:
            starts = [0, *[first for first, _ in sentences(body)][1:]]
            for number, (first, last) in enumerate(pairwise([*starts, len(body)])):
                yield _Block(block.start + first, block.start + last, kind, announced and not number)
        if kind is not _BlockKind.CODE:
            announced = body.rstrip().endswith((":", "："))
            indent = _indent_of(text, block.start)
        # Code that follows announced code, after a blank line, is announced too.


def _hangs(body: str) -> bool:
    """Return whether a block is a line and what stands indented beneath it: an option and what it does."""
    first, *others = body.rstrip().split("\n")
    least = _indent(first) + 2
    return bool(others) and not _ITEM.match(first) and all(_indent(each) >= least for each in others)


def _indent_of(text: str, position: int) -> int:
    line = text.rfind("\n", 0, position) + 1
    return _indent(text[line : line + 80])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _blocks(text: str, start: int, end: int, *, prose: bool) -> Iterator[_Block]:
    """Yield fenced code, tables, list items and paragraphs; outside prose lines."""
    opened: int | None = None  # where the block begins
    last = start  # the end of its last line
    kind = _BlockKind.TEXT
    fence = ""
    position = start
    for line in text[start:end].splitlines(keepends=True):
        first, position = position, position + len(line)
        blank = line.isspace()
        mark = _FENCE.match(line)
        if fence:
            last = position
            if mark and mark["fence"].startswith(fence):
                yield _Block(opened if opened is not None else first, last, _BlockKind.CODE)
                opened, fence = None, ""
            continue
        row = bool(_ROW.match(line))
        breaks = blank or mark or not prose or _ITEM.match(line) or row != (kind is _BlockKind.LINES)
        if breaks and opened is not None:
            yield _Block(opened, last, kind)
            opened = None
        if blank:
            continue
        if mark:
            opened, fence = first, mark["fence"]
        elif opened is None:
            opened, kind = first, _BlockKind.LINES if row or not prose else _BlockKind.TEXT
        last = position
    if opened is not None:
        yield _Block(opened, last, _BlockKind.CODE if fence else kind)


def _pack(units: list[_Block], text: str, tokenizer: Tokenizer, *, items: bool) -> list[tuple[int, int]]:
    """Return windows of as many units as fit; ``items``: lines of data, which are cut between two items where there are some."""
    packed: list[tuple[int, int, int]] = []  # start, end, tokens
    held: list[tuple[_Block, int]] = []
    size = 0

    def close(count: int) -> int:
        if units := held[:count]:
            packed.append((units[0][0].start, units[-1][0].end, sum(tokens for _, tokens in units)))
            del held[:count]
        return sum(tokens for _, tokens in held)

    for unit, tokens in _fit(units, text, tokenizer):
        most = _OPTIONS.longest if unit.announced else _OPTIONS.target
        while held and size + tokens > most:
            size = close(_find_break([*(block for block, _ in held), unit], text) if items else len(held))
        held.append((unit, tokens))
        size += tokens
    if held and packed and size < _OPTIONS.smallest and packed[-1][2] + size <= _OPTIONS.longest:
        packed[-1] = (packed[-1][0], held[-1][0].end, packed[-1][2] + size)
        held.clear()
    close(len(held))
    return [_trim(text, first, last) for first, last, _ in packed]


def _find_break(lines: Sequence[_Block], text: str) -> int:
    """Return how many of the lines but the last make a window: those before the one of the second half that is indented least
    and opens something, so that a key stays with its value."""
    opens = [
        place
        for place in range((len(lines) + 1) // 2, len(lines))
        if text[lines[place].start : lines[place].end].lstrip()[:1] not in "}])"
    ]
    return min(
        reversed(opens), key=lambda place: _indent_of(text, lines[place].start), default=len(lines) - 1
    )


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without blank lines before it and white space after it; an indent stays."""
    body = text[start:end]
    line = body.rfind("\n", 0, len(body) - len(body.lstrip())) + 1
    return start + line, start + len(body.rstrip())


def _fit(units: list[_Block], text: str, tokenizer: Tokenizer) -> Iterator[tuple[_Block, int]]:
    """Yield the units with their tokens; one that is longer than a window may be in parts."""
    counts = tokenizer.count_many([text[unit.start : unit.end] for unit in units])
    for unit, tokens in zip(units, counts, strict=True):
        if tokens <= _OPTIONS.longest or unit.kind is _BlockKind.CODE:
            yield unit, tokens
            continue
        step = max(1, (unit.end - unit.start) * _OPTIONS.target // tokens)
        bounds = [unit.start]
        while (cut := _cut_after(text, bounds[-1] + step, unit)) < unit.end:
            bounds.append(cut)
        for first, last in zip(bounds, [*bounds[1:], unit.end], strict=True):
            yield _Block(first, last, unit.kind), max(1, tokens * (last - first) // (unit.end - unit.start))


def _cut_after(text: str, position: int, unit: _Block) -> int:
    """Return the next start of a line, or else of a word, else (as in CJK text) the position itself."""
    if unit.kind is _BlockKind.LINES or "\n" in text[unit.start : unit.end].rstrip():
        line = text.find("\n", position, unit.end)
        return line + 1 if line >= 0 else unit.end
    word = _WORD_START.search(text, position, min(unit.end, position + 200))
    return word.start() if word else min(position, unit.end)
