"""Find exact text and patterns in the documents, as they stand there. Documents are put together again from their
chunks, so that a match may cross the border of two chunks and text that two chunks share counts once. Matching runs
in threads, on stretches of bounded length, for a bounded time."""

from __future__ import annotations

import math
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import regex
from anyio import to_thread

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Chunk, Document, PassageText, join_passages, parse_window_id
from leanrag_engine.core.text.citation import format_citation, format_range
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.language.excerpts import quote_around
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import find_spellings, spell_as_one
from leanrag_engine.core.text.nearest import similarity
from leanrag_engine.core.text.shortening import cut_middle, one_line
from leanrag_engine.documents.dates import find_posted
from leanrag_engine.retrieval.filters import EVERYTHING, ChunkScope, count_undated, select_documents
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.request import Filters

from .document_text import find_chunks, read_passages
from .entities import check_page
from .passages import rank_chunks


@dataclass(frozen=True, slots=True)
class TextSearchLimits:
    """Bounds on the time and memory of a search for text; none was tuned on a question set."""

    longest_text: int = 1000  # Characters of a text or pattern
    longest_match: int = 10_000  # A longer match of a pattern may be cut where two stretches meet
    stretch: int = 1_000_000  # Characters searched at once; backtracking keeps 100 bytes for each
    batch: int = 1000  # Chunks that are read at once
    seconds: float = 10.0  # A search ends then with what it has found; 100 MB take about one second
    stretch_seconds: float = 3.0  # It ends too if one stretch takes this long: processor time of all threads
    compiled: int = 200_000  # Fixed repetitions of a pattern times its length: 90 bytes for each
    around: int = 80  # Characters around a match in which two passages must be equal to count as one text
    excerpts: int = 4  # Matches of a passage that are shown with their sentences
    statement: int = 300  # Characters of a sentence or match in an excerpt; of a longer one what is around it
    near_words: int = 3  # Words from which on a text that stands nowhere is compared with sentences
    near_passages: int = 3  # Passages whose sentences are compared
    near: float = 0.6  # Share of equal characters from which on a sentence counts as a variant of the text


LIMITS = TextSearchLimits()
NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A passage with matches, or the first one of a document: its citation (a range if one crosses into the next),
    the document's own date, and the sentences with the first matches. ``count`` is the number of matches in it and in
    the passages of ``also``, which have the same text around theirs, ``line`` that of the first one in its file. Of a topic it is
    the number of passages, ``partial`` tells that not all of its words are in one of them, and ``score`` how much it is on it."""

    citation: str
    title: str
    excerpt: str
    path: str = ""
    date: str = ""
    heading: str = ""
    count: int = 1
    also: tuple[str, ...] = ()
    partial: bool = False
    score: float = 0.0
    line: int | None = None


@dataclass(frozen=True, slots=True)
class TextMatches:
    """One page of passages with matches, the number of all matches, of all such entries and of their documents;
    unless ``complete``, there may be more. ``nearest`` is the most similar sentence where a text of several words
    stands nowhere, ``spellings`` words that are written nearly as a single one, ``undated`` the number of documents that were left
    out only because they have no date, ``outside`` that of those beyond the filters that hold it where none within does. ``topic``
    says how a topic was looked for, ``problem`` why only by words, ``about`` what the folders of the matches are."""

    matches: tuple[TextMatch, ...]
    total: int
    entries: int
    documents: int = 0
    complete: bool = True
    nearest: TextMatch | None = None
    spellings: tuple[str, ...] = ()
    undated: int = 0
    outside: int = 0
    topic: TopicBounds | None = None
    problem: str = ""
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicBounds:
    """What a list of passages on a topic holds: from which ``least`` score on, how many have ``all_words``, and how many lie
    ``below`` that score but above ``lower``. ``names`` are other names that were looked for, ``absent`` words stand nowhere, ``within`` more
    documents have the only word in longer ones."""

    least: float
    lower: float
    all_words: int
    below: int
    names: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    within: int = 0


@dataclass(slots=True)
class MatchedPassage:
    """A passage with matches while a search goes on: the places of the first ones in its document, and what tells that
    another passage has the same text around them."""

    document: int
    first: int
    last: int
    places: list[tuple[int, int]] = field(default_factory=list)
    around: tuple[str, ...] = ()
    count: int = 0
    also: list[str] = field(default_factory=list)


async def search_text(
    index: IndexSnapshot,
    text: str,
    offset: int,
    limit: int,
    *,
    pattern: bool = False,
    by_document: bool = False,
    by_date: bool = False,
    filters: Filters = NO_FILTERS,
) -> TextMatches:
    """Return one page of the passages, or ``by_document`` of the documents, where ``text`` stands, in reading order or
    ``by_date``, the same text once.

    Case does not matter; any white space stands for any other, and typographic quotes, dashes and ellipses for plain
    ones. Where a text in quotation marks stands nowhere, it is searched without them. ``pattern``: a regular expression, in which ``^`` and ``$`` match at lines. Raises
    ``InvalidInput`` for an empty or unusable text or pattern and for filters that exclude all documents.
    """
    check_page(offset, limit)
    wanted = _check_text(text, pattern)
    chosen, undated = await _choose_documents(index, filters, by_date=by_date)
    numbers = None if chosen is None else [each.number for each in chosen]
    # Compiling a pattern may take a while too.
    expression = await to_thread.run_sync(partial(_compile, wanted, pattern))
    begin = partial(_TextSearch, range(offset, offset + limit), by_document=by_document)
    if pattern:
        found = await _search(index, begin(expression), numbers)
    else:
        found = await _search_literal(index, wanted, begin(expression), numbers)
    outside = 0
    if filters.active and found.complete and not found.total:
        outside = (await search_text(index, text, 0, 1, pattern=pattern)).documents
    found = replace(found, undated=undated, outside=outside)
    if pattern or found.total or not found.complete:
        return found
    if bare := _strip_marks(wanted):
        expression = _compile_once(_literal_pattern(bare, any_mark=True))
        again = await _search_literal(index, bare, begin(expression), numbers)
        found = replace(again, undated=undated, outside=outside)
    if found.total or 1 < len(wanted.split()) < LIMITS.near_words:
        return found
    if len(wanted.split()) == 1:
        return replace(found, spellings=await _find_spellings(index, bare or wanted))
    return replace(found, nearest=await _find_nearest(index, bare or wanted, chosen))


async def _choose_documents(
    index: IndexSnapshot, filters: Filters, *, by_date: bool
) -> tuple[list[Document] | None, int]:
    """Return the documents to search, None for all in reading order, and how many are left out for lack of a date.
    ``by_date``: the oldest first, those without a date of their own last."""
    filters = filters.check()
    if not (filters.active or by_date):
        return None, 0
    known = await index.documents.find_all(index.collection.name)
    chosen = select_documents(known, filters)
    if by_date:
        chosen.sort(key=lambda each: (not each.own_date, each.own_date, each.number))
    return chosen, count_undated(known, filters)


async def _search_literal(
    index: IndexSnapshot, wanted: str, search: _TextSearch, numbers: Sequence[int] | None
) -> TextMatches:
    """Search only the documents that hold the longest run of letters in ``wanted``: SQL finds them ten times faster."""
    if letters := _longest_letters(wanted):
        containing = set(await index.documents.documents_containing(index.collection.name, letters))
        numbers = sorted(containing) if numbers is None else [each for each in numbers if each in containing]
    return await _search(index, search, numbers)


async def _search(index: IndexSnapshot, search: _TextSearch, numbers: Sequence[int] | None) -> TextMatches:
    async for stretches in _groups(_stretches(index, numbers)):
        if not await to_thread.run_sync(search.scan, stretches, abandon_on_cancel=True):
            break
    return await _load_matches(index, search)


async def _find_spellings(index: IndexSnapshot, word: str) -> tuple[str, ...]:
    """Return how a word is written with other signs and accents, else words that differ in a letter."""
    documents, name = index.documents, index.collection.name
    hits = await documents.search_windows(name, word, 3)
    held = await documents.chunks(name, [parse_window_id(each.id)[0] for each in hits])
    written = [each for chunk in held for each in find_spellings(spell_as_one(word), chunk.text)]
    return tuple(dict.fromkeys(written))[:3] or await documents.nearest_words(name, word)


async def _find_nearest(
    index: IndexSnapshot, wanted: str, documents: Sequence[Document] | None
) -> TextMatch | None:
    """Return the sentences most similar to ``wanted`` (as many as it has) in the passages that share its words."""
    name = index.collection.name
    scope = EVERYTHING
    if documents is not None:
        ids = await index.documents.chunk_ids(name, [each.id for each in documents])
        scope = ChunkScope(frozenset(ids))
    best = (await rank_chunks(index, wanted, scope))[: LIMITS.near_passages]
    chunks = await index.documents.chunks(name, best)
    return await to_thread.run_sync(_most_similar, wanted, chunks)


def _most_similar(wanted: str, chunks: Sequence[Chunk]) -> TextMatch | None:
    several = max(1, len(sentences(wanted)))
    likeness, nearest = LIMITS.near, None
    for chunk in chunks:
        spans = sentences(chunk.text)
        for first, last in zip(spans, spans[several - 1 :], strict=False):
            text = one_line(chunk.text[first[0] : last[1]])
            found = similarity(wanted.casefold(), text[: 2 * len(wanted)].casefold())
            if found >= likeness:
                likeness = found
                shown = cut_middle(text, LIMITS.statement)
                line = chunk.line_at(chunk.start + first[0])
                nearest = TextMatch(
                    chunk.citation, chunk.title, shown, chunk.source, chunk.own_date, line=line
                )
    return nearest


# --- what is looked for --------------------------------------------------------------------

_MARKS = "'‘’‚‛′`´ʼ＇\"“”„‟«»″＂"
_ALIKE = ("'‘’‚‛′`´ʼ＇", '"“”„‟«»″＂', "-‐‑‒–—―−")
_CLASSES: Mapping[str, str] = {
    sign: f"[{regex.escape(signs, special_only=False)}]" for signs in _ALIKE for sign in signs
} | {"…": r"(?:…|\.\.\.)"}
_TOKEN = re.compile(r"\.\.\.|.", re.DOTALL)
_RECURSION = re.compile(r"\(\?(?:R\)|[+-]?[0-9]|&|P>)")
_REPETITION = re.compile(r"\{([0-9]+)(?:,[0-9]*)?\}")
_IGNORED = re.compile(r"#.*|\s+")  # What a verbose pattern may hold anywhere, also between digits
_GROUP = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\((?:\?P?<(?![=!])[^>]*>|(?![?*]))", re.DOTALL)
_REFERENCE = re.compile(r"\\[1-9gk]|\(\?(?:P=|\()")  # To what a group has matched


def _check_text(text: str, pattern: bool) -> str:
    what = "pattern" if pattern else "text"
    wanted = clean(text) if pattern else clean(text).strip()
    if not wanted.strip():
        raise InvalidInput(
            f"The {what} is empty.",
            "Give the words, sentence or pattern that is to be found in the documents.",
        )
    if len(wanted) > LIMITS.longest_text:
        raise InvalidInput(
            f"The {what} has {len(wanted):,} characters, at most {LIMITS.longest_text:,} are taken.",
            "Give a shorter one, such as one sentence.",
        )
    return wanted


def _compile(wanted: str, pattern: bool) -> regex.Pattern[str]:
    if not pattern:
        return _compile_once(_literal_pattern(wanted))
    shown = cut_middle(wanted, 80)
    repeats = (_REPETITION.findall(each) for each in (wanted, _IGNORED.sub("", wanted)))
    size = len(wanted) * max(math.prod(max(1, int(number[:9])) for number in found) for found in repeats)
    refers = _REFERENCE.search(wanted) is not None
    if size > LIMITS.compiled or _RECURSION.search(wanted) or refers * wanted.count("(") > 3:  # noqa: PLR2004
        raise InvalidInput(
            f"The pattern {shown!r} is too costly: it repeats too much, or itself, or refers to one of many groups.",
            "Use smaller counts in braces (their product times the length of the pattern is at most "
            f"{LIMITS.compiled:,}), no recursion, and with a reference at most 3 groups, as each keeps what it matches.",
        )
    wanted = wanted if refers else _GROUP.sub(lambda found: found[1] or "(?:", wanted)
    try:
        return _compile_once(wanted, regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError, ValueError, MemoryError) as problem:
        raise InvalidInput(
            f"The pattern {shown!r} is not a regular expression: {one_line(str(problem)) or 'too deeply nested'}.",
            "Correct it, or leave out match='pattern' to search for this text as it stands.",
        ) from problem


def compile_text(text: str, *, pattern: bool = False) -> regex.Pattern[str]:
    """Return what finds ``text`` in an excerpt of :func:`search_text`."""
    wanted = _check_text(text, pattern)
    return _compile(wanted if pattern else _strip_marks(wanted) or wanted, pattern)


def _compile_once(pattern: str, flags: int = 0) -> regex.Pattern[str]:
    """Compile a pattern of a caller, which the library would otherwise keep among hundreds of others."""
    return regex.compile(pattern, regex.IGNORECASE | flags, cache_pattern=False)


def _strip_marks(wanted: str) -> str:
    """Return a text without the quotation marks around it; "" if it has none or nothing else."""
    bare = wanted.strip(_MARKS).strip()
    return bare if wanted[0] in _MARKS and wanted[-1] in _MARKS else ""


def _literal_pattern(wanted: str, *, any_mark: bool = False) -> str:
    """Return the pattern of a text; ``any_mark``: single quotation marks stand for double ones too."""

    def escape(token: re.Match[str]) -> str:
        sign = "…" if token[0] == "..." else token[0]
        if any_mark and sign in _MARKS:
            return f"[{regex.escape(_MARKS)}]"
        return _CLASSES.get(sign) or regex.escape(sign)

    return r"\s+".join(_TOKEN.sub(escape, word) for word in wanted.split())


def _longest_letters(wanted: str) -> str:
    """Return the longest run of letters and digits that SQL compares as the pattern does: ASCII ones, whose case it
    ignores, and those without case. It lies within one word, so one chunk holds it."""
    runs = groupby(wanted, lambda sign: sign.isalnum() and (sign.isascii() or sign.lower() == sign.upper()))
    return max(("".join(run) for is_plain, run in runs if is_plain), key=len, default="")


# --- where it is looked for ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A stretch of a document: matches that begin in ``[start, end)`` count, offsets in characters of the document.
    ``parts`` reach beyond both ends."""

    document: int
    parts: tuple[PassageText, ...]
    start: int
    end: int


async def _stretches(index: IndexSnapshot, numbers: Sequence[int] | None) -> AsyncIterator[_Stretch]:
    """Yield the documents in the order of ``numbers``, long ones in stretches that share ``longest_match`` characters."""
    document, parts, start = -1, list[PassageText](), 0
    is_sorted = numbers is None or list(numbers) == sorted(numbers)
    read = partial(read_passages, index.documents, index.collection.name, batch=LIMITS.batch)
    groups = [numbers] if is_sorted else [[number] for number in numbers or ()]
    async for passage in (each for group in groups async for each in read(group)):
        if passage.document != document:
            if parts:
                yield _Stretch(document, tuple(parts), start, parts[-1].end + 1)
            document, parts, start = passage.document, [], 0
        parts.append(passage)
        if passage.end - start >= LIMITS.stretch:
            end = passage.end - LIMITS.longest_match
            yield _Stretch(document, tuple(parts), start, end)
            # What precedes the border stays, for patterns that look behind them.
            parts = [each for each in parts if each.end > end - LIMITS.longest_match]
            start = end
    if parts:
        yield _Stretch(document, tuple(parts), start, parts[-1].end + 1)


async def _groups(stretches: AsyncIterator[_Stretch]) -> AsyncIterator[list[_Stretch]]:
    """Yield stretches together that have about ``LIMITS.stretch`` characters: on a busy server each hop to a thread waits in line."""
    group, characters = list[_Stretch](), 0
    async for stretch in stretches:
        group.append(stretch)
        characters += stretch.end - stretch.start
        if characters >= LIMITS.stretch:
            yield group
            group, characters = [], 0
    if group:
        yield group


class _TextSearch:
    """A search under way: counts all matches and passages, and keeps those of the page."""

    def __init__(self, page: range, expression: regex.Pattern[str], *, by_document: bool) -> None:
        self.total = 0
        self.complete = True
        self.entries: list[MatchedPassage] = []
        self.documents: set[int] = set()
        self._open: MatchedPassage | None = None
        # By the text around them, as a hash: a common word is in all passages.
        self._texts: dict[int, MatchedPassage] = {}
        self._expression = expression
        self._by_document = by_document
        self._page = page
        self._deadline = time.monotonic() + LIMITS.seconds
        self._reached = (-1, 0)  # the document and the end of the last match in it

    @property
    def count(self) -> int:
        """Return the number of passages that show different texts."""
        return len(self._texts)

    def scan(self, stretches: Sequence[_Stretch]) -> bool:
        """Search stretches; return False if there is no time left."""
        return all(map(self._scan, stretches))

    def _scan(self, stretch: _Stretch) -> bool:
        try:
            for text, start, end in self._find(stretch):
                self._add(stretch, text, start, end)
                self.total += 1
        except TimeoutError:
            self.complete = False
        return self.complete

    def _add(self, stretch: _Stretch, text: str, start: int, end: int) -> None:
        base = stretch.parts[0].start
        first, last = find_chunks(stretch.parts, base + start, base + end)
        entry = self._open
        if (
            entry is None
            or entry.document != stretch.document
            or not (self._by_document or entry.first == first.label)
        ):
            self.close()
            entry = self._open = MatchedPassage(stretch.document, first.label, last.label)
            self.documents.add(stretch.document)
        entry.last = last.label if last.number > first.number and not self._by_document else entry.last
        entry.count += 1
        # Of a document, the first passage alone is quoted.
        if len(entry.places) < LIMITS.excerpts and entry.first == first.label:
            reach = LIMITS.around
            before = text[max(0, start - reach) : start].rpartition("\n\n")[2]
            around = one_line(before + text[start : end + reach].partition("\n\n")[0])
            entry.places.append((base + start, base + end))
            entry.around = (*entry.around, around.casefold())

    def close(self) -> None:
        """End the last passage: it is one of the page, or shows what an earlier one does."""
        entry, self._open = self._open, None
        if entry is None:
            return
        key = hash((entry.around, entry.document if self._by_document else 0))
        held = self._texts.setdefault(key, entry)
        entry.around = ()
        if held is not entry:
            held.count += entry.count
            held.also.append(format_range(entry.document, entry.first, entry.last))
        elif len(self._texts) - 1 in self._page:
            self.entries.append(entry)

    def _find(self, stretch: _Stretch) -> Iterator[tuple[str, int, int]]:
        text = join_passages(stretch.parts)
        base = stretch.parts[0].start
        reached = self._reached[1] if self._reached[0] == stretch.document else 0
        first = max(stretch.start, reached) - base
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        patience = min(left, LIMITS.stretch_seconds)
        found = self._expression.finditer(text, max(first, 0), timeout=patience, concurrent=True)
        for match in found:
            if base + match.start() >= stretch.end:
                return
            if match.end() == match.start():
                continue
            self._reached = (stretch.document, base + match.end())
            yield text, match.start(), match.end()


async def _load_matches(index: IndexSnapshot, search: _TextSearch) -> TextMatches:
    search.close()
    citations = dict.fromkeys(
        format_citation(each.document, label) for each in search.entries for label in (each.first, each.last)
    )
    chunks = await index.documents.chunks_by_citation(index.collection.name, list(citations))
    loaded: dict[str, Chunk] = {chunk.citation: chunk for chunk in chunks}
    matches = tuple(_make_match(entry, loaded) for entry in search.entries)
    return TextMatches(matches, search.total, search.count, len(search.documents), search.complete)


def _make_match(entry: MatchedPassage, loaded: Mapping[str, Chunk]) -> TextMatch:
    """Return what is said of a passage; nothing is quoted if it was deleted meanwhile."""
    citation = format_range(entry.document, entry.first, entry.last)
    ends = dict.fromkeys(format_citation(entry.document, label) for label in (entry.first, entry.last))
    parts = [loaded[each] for each in ends if each in loaded]
    if not parts:
        return TextMatch(citation, "", "", count=entry.count, also=tuple(entry.also))
    chunk, start = parts[0], parts[0].start
    places = [(first - start, last - start) for first, last in entry.places]
    excerpt = quote_around(join_passages(parts), places, LIMITS.statement)
    within = (each.heading for each in chunk.windows if each.start <= entry.places[0][0] < each.end)
    page = chunk.page_at(entry.places[0][0])
    posted = {find_posted(chunk.text[:start]) for start, _ in places}
    said = (
        f"page {page}" if page else "",
        *(posted if len(posted) == 1 else ()),
        next(within, chunk.heading),
    )
    return TextMatch(
        citation,
        chunk.title,
        f"{excerpt} …" if entry.count > len(places) else excerpt,
        chunk.source,
        chunk.own_date,
        ", ".join(filter(None, said)),
        entry.count,
        tuple(entry.also),
        line=chunk.line_at(entry.places[0][0]),
    )
