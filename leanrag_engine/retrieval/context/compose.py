"""What of the evidence fits into a token budget, and in which order it is said.

Passages get at least half of the budget, relations and summaries up to a fifth each, entities a tenth;
what a section leaves flows on. Long items are cut at sentences, never within one, and nothing is said
twice: a sentence that already stood in a passage is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from leanrag_engine.core.model import Chunk, Context
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.core.text.fencing import fence_for
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.retrieval.search.matching import QueryWords

from .rendering import (
    CUT,
    HEAD,
    Line,
    Passage,
    Span,
    citations_in,
    counted,
    joined,
    one_line,
    quoted,
    runs,
    tidy,
    written_line,
    written_passage,
    written_section,
)

PASSAGES = "Passages"

FULL_SHARES = 2000
"""Tokens from which on the sections of lines claim their whole shares. With less room passages come first."""

SHARES = {"Relations": 0.2, "Summaries": 0.2, "Entities": 0.1}
"""Largest share of the budget that each section of lines claims before passages get the rest, in their order."""

LOCAL_SHARES = {"Entities": 0.25, "Relations": 0.25}
GLOBAL_SHARES = {"Summaries": 0.7, "Relations": 0.3}

LINE_TOKENS = {"Relations": 60, "Summaries": 110, "Entities": 60}
"""Tokens of text that one line may have."""

MORE = 2
"""Findings that are added to a summary at most, where everything else has found its place."""

DETAILED = 3
"""Lines may be this many times longer in a detailed context."""

LEAST_SHARE = 4
LEAST_TOKENS = 256
"""A passage takes no more than half of what is left, so that several pieces of evidence fit into any budget; but
it may always take so many tokens, or a quarter of the whole room, as far as there is any left."""

CRUMB = 40
"""A passage cut to less says too little to be worth its label."""

REPEATED_LINE = 25
REPEATED_PASSAGE = 60
"""Characters from which on a sentence is not said a second time in a line, or in a passage, where what is
shorter may be a line of code or of a table. A CJK character counts for two and a half."""

NEAR_COPY = 0.5
"""From this share of repeated text on a passage is a copy of others: nothing of it is said again, however short."""

FOOT_TOKENS = 36
"""Kept free for the line that says what was left out; the final count is exact all the same."""


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that a context may say, each part best first."""

    passages: tuple[Chunk, ...] = ()
    relations: tuple[Line, ...] = ()
    summaries: tuple[Line, ...] = ()
    entities: tuple[Line, ...] = ()

    @property
    def sections(self) -> dict[str, tuple[Line, ...]]:
        return {"Relations": self.relations, "Summaries": self.summaries, "Entities": self.entities}


def compose(
    material: Material,
    texts: Sequence[str],
    budget: int,
    tokenizer: Tokenizer,
    *,
    shares: Mapping[str, float] = SHARES,
    detailed: bool = False,
) -> Context:
    """The context for the query ``texts``, of at most ``budget`` tokens as ``tokenizer`` counts them.

    Only the sections that ``shares`` names are written, after the passages and in its order.
    """
    words = QueryWords(texts)
    sources = _sources(material.passages, words)
    lines = {title: [_line_source(each) for each in material.sections[title]] for title in shares}
    limits = _Limits(tokenizer, _fence(sources, lines), shares, detailed)
    filled = _fill(sources, lines, budget - limits.of(HEAD) - FOOT_TOKENS, limits)
    text = _written(filled, limits)
    while (tokens := tokenizer.count(text)) > budget and (shorter := _without_last(filled)) is not None:
        filled = shorter
        text = _written(filled, limits)
    if not _left_out(filled):
        longer = _written(_with_more(filled, budget - tokens, words, limits), limits)
        # Sums of parts are near enough to choose by; what is given out is counted whole.
        if (count := tokenizer.count(longer)) <= budget:
            text, tokens = longer, count
    return Context(text, tokens, bool(_left_out(filled)), citations_in(text))


@dataclass(frozen=True, slots=True)
class _Limits:
    """What is the same for every piece of one context."""

    tokenizer: Tokenizer
    fence: str
    shares: Mapping[str, float]
    detailed: bool
    counted: dict[str, int] = field(default_factory=dict)
    """What was counted before: each block and sentence is measured several times on its way."""

    def of(self, text: str) -> int:
        """Tokens of a block and the blank line after it."""
        return self.count(f"{text}\n\n")

    def count(self, text: str) -> int:
        if text not in self.counted:
            self.counted[text] = self.tokenizer.count(text)
        return self.counted[text]

    def passage(self, passage: Passage) -> int:
        return self.of(written_passage(passage, self.fence))

    def section(self, title: str, lines: Sequence[Line]) -> int:
        return self.of(written_section(title, lines, self.fence)) if lines else 0


def _fence(sources: Sequence[_Source], lines: Mapping[str, Sequence[_LineSource]]) -> str:
    """A fence that nothing in the passages or lines can close."""
    said = (
        part
        for each in lines.values()
        for line in each
        for part in (line.line.head, *line.sentences, *line.line.more)
    )
    return fence_for(chain((source.text for source in sources), said))


# --- filling -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Passages:
    """Passages that fit, and how many chunks did not. ``tokens`` is what they take."""

    kept: tuple[Passage, ...] = ()
    left: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Section:
    """Lines that fit, and how many did not. ``tokens`` is what they take."""

    kept: tuple[Line, ...] = ()
    left: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Filled:
    passages: _Passages = field(default_factory=_Passages)
    sections: dict[str, _Section] = field(default_factory=dict)


def _fill(
    sources: Sequence[_Source], lines: Mapping[str, Sequence[_LineSource]], room: int, limits: _Limits
) -> _Filled:
    """Passages beside what the lines claim; then again beside what the lines really took, and the lines after them."""
    claims = {title: _claim(title, each, room, limits) for title, each in lines.items()}
    passages = _fit_passages(sources, room - sum(claims.values()), limits)
    sections = _fit_sections(lines, passages, room - passages.tokens, claims, limits)
    if passages.left or any(passage.shortened for passage in passages.kept):
        taken = {title: section.tokens for title, section in sections.items()}
        passages = _fit_passages(sources, room - sum(taken.values()), limits)
        sections = _fit_sections(lines, passages, room - passages.tokens, taken, limits)
    return _Filled(passages, sections)


def _claim(title: str, sources: Sequence[_LineSource], room: int, limits: _Limits) -> int:
    """What a section asks for before passages get the rest: its share, or less if it has less to say."""
    share = round(limits.shares[title] * room * min(1.0, room / FULL_SHARES))
    longest = LINE_TOKENS[title] * (DETAILED if limits.detailed else 1)
    asked = limits.section(title, [Line("", "", ())])
    for source in sources:
        if asked >= share:
            return share
        text = min(sum(map(limits.count, source.sentences)), longest)
        asked += text + limits.count(written_line(source.line))
    return min(share, asked) if sources else 0


class _Said:
    """What a context has already said."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        self._texts.append(_folded(text))

    def has(self, sentence: str, shortest: int) -> bool:
        """Whether ``sentence`` was said, if it is worth as much as ``shortest`` characters."""
        folded = _folded(sentence).strip(" .。!?！？;:,*•#-\"'")
        length = len(folded) * (2.5 if has_cjk(folded) else 1.0)
        return length >= shortest and any(folded in text for text in self._texts)

    def news(self, source: _Source) -> list[Span]:
        """Those sentences of a passage that were not said."""
        sizes = {span: span[1] - span[0] for span in source.spans}
        total = sum(sizes.values())
        # A passage of a few words may well stand within another without being its copy.
        shortest = 1 if total >= REPEATED_PASSAGE else REPEATED_LINE
        again = {span for span in source.spans if self.has(source.text[slice(*span)], shortest)}
        if sum(sizes[span] for span in again) >= NEAR_COPY * total:
            rest = [span for span in source.spans if span not in again]
            return rest if sum(source.worth[span] for span in rest) > 0 else []
        return [
            span
            for span in source.spans
            if span not in again or not self.has(source.text[slice(*span)], REPEATED_PASSAGE)
        ]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


# --- passages ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Source:
    """A chunk as it may be quoted (cleaned, nothing forged), its sentences' spans, and how each serves the query."""

    chunk: Chunk
    text: str
    spans: tuple[Span, ...]
    worth: Mapping[Span, float]

    @property
    def verbatim(self) -> bool:
        """Whether offsets into ``text`` are offsets into the chunk."""
        return len(self.text) == len(self.chunk.text)


def _sources(chunks: Sequence[Chunk], words: QueryWords) -> list[_Source]:
    texts = [quoted(chunk.text) for chunk in chunks]
    spans = [tuple(sentences(text)) or ((0, len(text)),) for text in texts]
    spoken = [text[start:end] for text, each in zip(texts, spans, strict=True) for start, end in each]
    shared = iter(words.shared(spoken))
    return [
        _Source(chunk, text, each, {span: next(shared) for span in each})
        for chunk, text, each in zip(chunks, texts, spans, strict=True)
    ]


def _fit_passages(sources: Sequence[_Source], room: int, limits: _Limits) -> _Passages:
    """Best first, each whole if it fits, else cut around the sentences that serve the query best."""
    spare = room - limits.of(f"## {PASSAGES}")
    least = spare if len(sources) == 1 else max(spare // LEAST_SHARE, LEAST_TOKENS)
    said, shown = _Said(), _Shown()
    kept: list[Passage] = []
    left = 0
    for source in sources:
        fresh = shown.rest(source, said.news(source))
        if not fresh:
            continue
        chosen = _fit_passage(source, fresh, min(spare, max(spare // 2, least)), limits)
        if not chosen or (len(chosen) < len(fresh) and _is_crumb(source, chosen, room, limits)):
            left += 1
            continue
        passage = _passage(source, chosen, shortened=len(chosen) < len(fresh))
        kept.append(passage)
        spare -= limits.passage(passage)
        said.add(passage.body)
        shown.add(source, chosen)
    return _Passages(tuple(kept), left, room - spare if kept else 0)


class _Shown:
    """Which stretches of each document are shown: chunks of one document overlap."""

    def __init__(self) -> None:
        self._stretches: dict[str, list[Span]] = {}

    def add(self, source: _Source, spans: Sequence[Span]) -> None:
        if source.verbatim:
            offset = source.chunk.start
            found = self._stretches.setdefault(source.chunk.document_id, [])
            found += ((offset + run[0][0], offset + run[-1][1]) for run in runs(source.spans, spans))

    def rest(self, source: _Source, spans: list[Span]) -> list[Span]:
        """Those of ``spans`` that no stretch shown before holds."""
        stretches = self._stretches.get(source.chunk.document_id, ())
        if not stretches or not source.verbatim:
            return spans
        offset = source.chunk.start
        return [
            (start, end)
            for start, end in spans
            if not any(first <= offset + start and offset + end <= last for first, last in stretches)
        ]


def _passage(source: _Source, chosen: Sequence[Span], *, shortened: bool = False) -> Passage:
    whole = len(chosen) == len(source.spans)
    body = tidy(source.text) if whole else joined(source.text, source.spans, chosen)
    return Passage(source.chunk, body, shortened=shortened)


def _fit_passage(source: _Source, fresh: list[Span], room: int, limits: _Limits) -> list[Span]:
    """Those of the ``fresh`` sentences that are shown in ``room``; [] if none fits."""
    if limits.passage(_passage(source, fresh)) <= room:
        return fresh
    frame = limits.passage(Passage(source.chunk, ""))
    chosen = _best_sentences(source, fresh, room - frame, limits)
    while chosen and limits.passage(_passage(source, chosen)) > room:
        chosen.remove(min(chosen, key=lambda span: (source.worth[span], span)))
    return chosen


def _is_crumb(source: _Source, chosen: Sequence[Span], room: int, limits: _Limits) -> bool:
    """Whether a cut passage says too little for its label, given that all passages have ``room``."""
    return limits.tokenizer.count(_passage(source, chosen).body) < min(CRUMB, room // 4)


def _best_sentences(source: _Source, spans: Sequence[Span], room: int, limits: _Limits) -> list[Span]:
    """The run of sentences that fits into ``room`` and serves the query best; of equal ones the first."""
    sizes = [
        count + 1 for count in limits.tokenizer.count_many([source.text[slice(*span)] for span in spans])
    ]
    left = room - 2 * limits.tokenizer.count(CUT)
    best, most = (0, 0), -1.0
    end, size, worth = 0, 0, 0.0
    for start, span in enumerate(spans):
        while end < len(spans) and size + sizes[end] <= left:
            size += sizes[end]
            worth += source.worth[spans[end]]
            end += 1
        if end > start and worth > most + _EPSILON:
            best, most = (start, end), worth
        if end > start:
            size -= sizes[start]
            worth -= source.worth[span]
        else:
            end = start + 1
    return list(spans[slice(*best)])


_EPSILON = 1e-9
"""Sums of the same numbers in another order may differ by less."""


# --- lines ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LineSource:
    """A line as it may be quoted, its text in sentences, and the citations of those whose origin is known."""

    line: Line
    sentences: tuple[str, ...]
    cited: Mapping[str, str]


def _line_source(line: Line) -> _LineSource:
    text = quoted(line.text)
    # In sentences first: a line break may be all that parts two of them.
    spoken = {(start, end): one_line(text[start:end]) for start, end in sentences(text)}
    # Only where quoting changed nothing are places in the quoted text places in the line's.
    told = line.told if text == line.text else ()
    cited = {
        sentence: citation
        for (start, _), sentence in spoken.items()
        for first, last, citation in told
        if first <= start < last
    }
    head = one_line(quoted(line.head))
    return _LineSource(
        replace(line, head=head, text="", told=(), more=tuple(one_line(quoted(each)) for each in line.more)),
        tuple(dict.fromkeys(spoken.values())),
        cited,
    )


def _fit_sections(
    sources: Mapping[str, Sequence[_LineSource]],
    passages: _Passages,
    room: int,
    claims: Mapping[str, int],
    limits: _Limits,
) -> dict[str, _Section]:
    """Each section has its claim and what those before it left."""
    said = _Said()
    for passage in passages.kept:
        said.add(passage.body)
    filled: dict[str, _Section] = {}
    later = sum(claims.values())
    for title, each in sources.items():
        later -= claims[title]
        filled[title] = _fit_lines(title, each, said, room - later, limits)
        room -= filled[title].tokens
    return filled


def _fit_lines(
    title: str, sources: Sequence[_LineSource], said: _Said, room: int, limits: _Limits
) -> _Section:
    longest = LINE_TOKENS[title] * (DETAILED if limits.detailed else 1)
    spare = room - limits.section(title, [Line("", "", ())])
    kept: list[Line] = []
    left = 0
    for source in sources:
        news = [sentence for sentence in source.sentences if not said.has(sentence, REPEATED_LINE)]
        if not news and not source.line.bare:
            continue
        line = _fit_line(source, news, min(longest, spare), limits)
        size = limits.tokenizer.count(f"{written_line(line)}\n")
        if size > spare or not (line.text or line.bare):
            left += 1
            continue
        spare -= size
        said.add(line.text)
        kept.append(line)
    return _Section(tuple(kept), left, limits.section(title, kept))


def _fit_line(source: _LineSource, news: Sequence[str], room: int, limits: _Limits) -> Line:
    """The line with as many of its new sentences, from the first on, as fit into ``room``, and their citations."""
    kept: list[str] = []
    for sentence in news:
        # Sentence by sentence is near enough: the whole is counted again before it is given out.
        room -= limits.count(sentence)
        if room < 0:
            break
        kept.append(sentence)
    told = tuple(dict.fromkeys(source.cited[each] for each in kept if each in source.cited))
    return replace(
        source.line,
        text=" ".join(kept),
        shortened=len(kept) < len(news),
        citations=told or source.line.citations,
    )


def _with_more(filled: _Filled, room: int, words: QueryWords, limits: _Limits) -> _Filled:
    """With what may be added to the lines, as far as it serves the query and was not said: the best of each line,
    as many as fit into ``room``."""
    said = _Said()
    for passage in filled.passages.kept:
        said.add(passage.body)
    for line in chain.from_iterable(section.kept for section in filled.sections.values()):
        said.add(line.text)
    sections = {}
    for title, section in filled.sections.items():
        kept = []
        for line in section.kept:
            worth = dict(zip(line.more, words.shared(line.more), strict=True))
            for text in sorted(line.more, key=lambda each: -worth[each])[:MORE]:
                size = limits.count(f" {text}") + 1
                if worth[text] > 0 and size <= room and not said.has(text, REPEATED_LINE):
                    room -= size
                    said.add(text)
                    line = replace(line, text=f"{line.text} {text}".strip())  # noqa: PLW2901 - it grows
            kept.append(line)
        sections[title] = replace(section, kept=tuple(kept))
    return replace(filled, sections=sections)


# --- the whole -----------------------------------------------------------------------------


def _written(filled: _Filled, limits: _Limits) -> str:
    blocks = [HEAD]
    if filled.passages.kept:
        blocks.append(f"## {PASSAGES}")
        blocks += [written_passage(passage, limits.fence) for passage in filled.passages.kept]
    blocks += [
        written_section(title, section.kept, limits.fence)
        for title, section in filled.sections.items()
        if section.kept
    ]
    left = _left_out(filled)
    return "\n\n".join([*blocks, left] if left else blocks)


def _without_last(filled: _Filled) -> _Filled | None:
    """One piece less, from the last section that has any; None if nothing is left."""
    for title, section in reversed(filled.sections.items()):
        if section.kept:
            shorter = replace(section, kept=section.kept[:-1], left=section.left + 1)
            return replace(filled, sections={**filled.sections, title: shorter})
    passages = filled.passages
    if not passages.kept:
        return None
    return replace(filled, passages=replace(passages, kept=passages.kept[:-1], left=passages.left + 1))


def _left_out(filled: _Filled) -> str:
    """One line on what did not fit or was cut; "" if everything fits."""
    left = {"passage": filled.passages.left}
    left |= {_SINGULAR[title]: section.left for title, section in filled.sections.items()}
    cut = {"passage": _shortened(filled.passages.kept)}
    cut |= {"line": sum(_shortened(section.kept) for section in filled.sections.values())}
    said = [f"left out: {counted(left)}"] if any(left.values()) else []
    said += [f"cut short: {counted(cut)}"] if any(cut.values()) else []
    return f"(For lack of room {'; '.join(said)}.)" if said else ""


_SINGULAR = {"Relations": "relation", "Summaries": "summary", "Entities": "entity"}


def _shortened(pieces: Iterable[Passage | Line]) -> int:
    return sum(piece.shortened for piece in pieces)
