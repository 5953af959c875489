"""Fit the evidence into a token budget, best first.

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
from leanrag_engine.core.text.citation import find_bracketed_citations
from leanrag_engine.core.text.fencing import fence_for
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.core.text.shortening import one_line
from leanrag_engine.retrieval.request import DEFAULT_CONTEXT, ContextOptions
from leanrag_engine.retrieval.search.matching import QueryWords

from .rendering import (
    CUT,
    HEAD,
    ContextLine,
    ContextPassage,
    Span,
    collapse_blank_lines,
    format_counts,
    group_neighbours,
    render_excerpt,
    render_line,
    render_passage,
    render_section,
    sanitise,
)

PASSAGES = "Passages"

SHARES = {"Relations": 0.2, "Summaries": 0.2, "Entities": 0.1}
"""Largest share of the budget that each section of lines claims before passages get the rest, in their order."""

LOCAL_SHARES = {"Entities": 0.25, "Relations": 0.25}
GLOBAL_SHARES = {"Summaries": 0.7, "Relations": 0.3}

LINE_TOKENS = {"Relations": 60, "Summaries": 110, "Entities": 60}
"""Tokens of text that one line may have."""


@dataclass(frozen=True, slots=True)
class ContextMaterial:
    """Everything that a context may say, each part best first."""

    passages: tuple[Chunk, ...] = ()
    relations: tuple[ContextLine, ...] = ()
    summaries: tuple[ContextLine, ...] = ()
    entities: tuple[ContextLine, ...] = ()

    @property
    def sections(self) -> dict[str, tuple[ContextLine, ...]]:
        return {"Relations": self.relations, "Summaries": self.summaries, "Entities": self.entities}


def compose_context(
    material: ContextMaterial,
    texts: Sequence[str],
    budget: int,
    tokenizer: Tokenizer,
    *,
    shares: Mapping[str, float] = SHARES,
    detailed: bool = False,
    options: ContextOptions = DEFAULT_CONTEXT,
) -> Context:
    """Return the context for the query ``texts``, of at most ``budget`` tokens as ``tokenizer`` counts them.

    Only the sections that ``shares`` names are written, after the passages and in its order.
    """
    words = QueryWords(texts)
    sources = _passage_sources(material.passages, words)
    lines = {title: [_make_line_source(each) for each in material.sections[title]] for title in shares}
    limits = _TokenCounter(tokenizer, _choose_fence(sources, lines), shares, detailed, options)
    filled = _fit_context(sources, lines, budget - limits.of(HEAD) - options.omission_tokens, limits)
    text = _render_context(filled, limits)
    while (tokens := tokenizer.count(text)) > budget and (shorter := _drop_last(filled)) is not None:
        filled = shorter
        text = _render_context(filled, limits)
    if not _format_omissions(filled):
        longer = _render_context(_add_findings(filled, budget - tokens, words, limits), limits)
        # Sums of parts are near enough to choose by; what is given out is counted whole.
        if (count := tokenizer.count(longer)) <= budget:
            text, tokens = longer, count
    return Context(text, tokens, bool(_format_omissions(filled)), find_bracketed_citations(text))


@dataclass(frozen=True, slots=True)
class _TokenCounter:
    """What is the same for every piece of one context."""

    tokenizer: Tokenizer
    fence: str
    shares: Mapping[str, float]
    detailed: bool
    options: ContextOptions
    counts: dict[str, int] = field(default_factory=dict)
    """What was counted before: each block and sentence is measured several times on its way."""

    def longest(self, title: str) -> int:
        """Tokens of text that a line of that section may have."""
        return LINE_TOKENS[title] * (self.options.detail if self.detailed else 1)

    def of(self, text: str) -> int:
        """Tokens of a block and the blank line after it."""
        return self.count(f"{text}\n\n")

    def count(self, text: str) -> int:
        if text not in self.counts:
            self.counts[text] = self.tokenizer.count(text)
        return self.counts[text]

    def passage(self, passage: ContextPassage) -> int:
        return self.of(render_passage(passage, self.fence))

    def section(self, title: str, lines: Sequence[ContextLine]) -> int:
        return self.of(render_section(title, lines, self.fence)) if lines else 0


def _choose_fence(sources: Sequence[_PassageSource], lines: Mapping[str, Sequence[_LineSource]]) -> str:
    """Return a fence that nothing in the passages or lines can close."""
    said = (
        part
        for each in lines.values()
        for line in each
        for part in (line.line.head, *line.sentences, *line.line.more)
    )
    return fence_for(chain((source.text for source in sources), said))


# --- filling -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _FittedPassages:
    """Passages that fit, and how many chunks did not. ``tokens`` is what they take."""

    kept: tuple[ContextPassage, ...] = ()
    left: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _FittedSection:
    """Lines that fit, and how many did not. ``tokens`` is what they take."""

    kept: tuple[ContextLine, ...] = ()
    left: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _FittedContext:
    passages: _FittedPassages = field(default_factory=_FittedPassages)
    sections: dict[str, _FittedSection] = field(default_factory=dict)


def _fit_context(
    sources: Sequence[_PassageSource],
    lines: Mapping[str, Sequence[_LineSource]],
    room: int,
    limits: _TokenCounter,
) -> _FittedContext:
    """Passages beside what the lines claim; then again beside what the lines really took, and the lines after them."""
    claims = {title: _claim(title, each, room, limits) for title, each in lines.items()}
    passages = _fit_passages(sources, room - sum(claims.values()), limits)
    sections = _fit_sections(lines, passages, room - passages.tokens, claims, limits)
    if passages.left or any(passage.shortened for passage in passages.kept):
        taken = {title: section.tokens for title, section in sections.items()}
        passages = _fit_passages(sources, room - sum(taken.values()), limits)
        sections = _fit_sections(lines, passages, room - passages.tokens, taken, limits)
    return _FittedContext(passages, sections)


def _claim(title: str, sources: Sequence[_LineSource], room: int, limits: _TokenCounter) -> int:
    """Return what a section asks for before passages get the rest: its share, or less if it has less to say."""
    share = round(limits.shares[title] * room * min(1.0, room / limits.options.full_shares))
    longest = limits.longest(title)
    asked = limits.section(title, [ContextLine("", "", ())])
    for source in sources:
        if asked >= share:
            return share
        text = min(sum(map(limits.count, source.sentences)), longest)
        asked += text + limits.count(render_line(source.line))
    return min(share, asked) if sources else 0


class _Repetitions:
    """What a context has already said."""

    def __init__(self, options: ContextOptions) -> None:
        self._options = options
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        self._texts.append(fold_case(text))

    def has(self, sentence: str, shortest: int) -> bool:
        """Whether ``sentence`` was said, if it is worth as much as ``shortest`` characters."""
        folded = fold_case(sentence).strip(" .。!?！？;:,*•#-\"'")
        length = len(folded) * (2.5 if has_cjk(folded) else 1.0)
        return length >= shortest and any(folded in text for text in self._texts)

    def news(self, source: _PassageSource) -> list[Span]:
        """Those sentences of a passage that were not said."""
        sizes = {span: span[1] - span[0] for span in source.spans}
        total = sum(sizes.values())
        # A passage of a few words may well stand within another without being its copy.
        shortest = 1 if total >= self._options.repeated_passage else self._options.repeated_line
        again = {span for span in source.spans if self.has(source.text[slice(*span)], shortest)}
        if sum(sizes[span] for span in again) >= self._options.near_copy * total:
            rest = [span for span in source.spans if span not in again]
            return rest if sum(source.worth[span] for span in rest) > 0 else []
        return [
            span
            for span in source.spans
            if span not in again or not self.has(source.text[slice(*span)], self._options.repeated_passage)
        ]


# --- passages ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PassageSource:
    """A chunk as it may be quoted (cleaned, nothing forged), its sentences' spans, and how each serves the query."""

    chunk: Chunk
    text: str
    spans: tuple[Span, ...]
    worth: Mapping[Span, float]

    @property
    def verbatim(self) -> bool:
        """Whether offsets into ``text`` are offsets into the chunk."""
        return len(self.text) == len(self.chunk.text)


def _passage_sources(chunks: Sequence[Chunk], words: QueryWords) -> list[_PassageSource]:
    texts = [sanitise(chunk.text) for chunk in chunks]
    spans = [tuple(sentences(text)) or ((0, len(text)),) for text in texts]
    spoken = [text[start:end] for text, each in zip(texts, spans, strict=True) for start, end in each]
    shared = iter(words.score(spoken))
    return [
        _PassageSource(chunk, text, each, {span: next(shared) for span in each})
        for chunk, text, each in zip(chunks, texts, spans, strict=True)
    ]


def _fit_passages(sources: Sequence[_PassageSource], room: int, limits: _TokenCounter) -> _FittedPassages:
    """Best first, each whole if it fits, else cut around the sentences that serve the query best."""
    spare = room - limits.of(f"## {PASSAGES}")
    options = limits.options
    least = spare if len(sources) == 1 else max(spare // options.passage_part, options.passage_tokens)
    said, shown = _Repetitions(options), _ShownStretches()
    kept: list[ContextPassage] = []
    left = 0
    for source in sources:
        fresh = shown.rest(source, said.news(source))
        if not fresh:
            continue
        chosen = _fit_passage(source, fresh, min(spare, max(spare // 2, least)), limits)
        if not chosen or (len(chosen) < len(fresh) and _is_crumb(source, chosen, room, limits)):
            left += 1
            continue
        passage = _make_passage(source, chosen, shortened=len(chosen) < len(fresh))
        kept.append(passage)
        spare -= limits.passage(passage)
        said.add(passage.body)
        shown.add(source, chosen)
    return _FittedPassages(tuple(kept), left, room - spare if kept else 0)


class _ShownStretches:
    """Which stretches of each document are shown: chunks of one document overlap."""

    def __init__(self) -> None:
        self._stretches: dict[str, list[Span]] = {}

    def add(self, source: _PassageSource, spans: Sequence[Span]) -> None:
        if source.verbatim:
            offset = source.chunk.start
            found = self._stretches.setdefault(source.chunk.document_id, [])
            found += (
                (offset + run[0][0], offset + run[-1][1]) for run in group_neighbours(source.spans, spans)
            )

    def rest(self, source: _PassageSource, spans: list[Span]) -> list[Span]:
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


def _make_passage(
    source: _PassageSource, chosen: Sequence[Span], *, shortened: bool = False
) -> ContextPassage:
    whole = len(chosen) == len(source.spans)
    body = collapse_blank_lines(source.text) if whole else render_excerpt(source.text, source.spans, chosen)
    return ContextPassage(source.chunk, body, shortened=shortened)


def _fit_passage(source: _PassageSource, fresh: list[Span], room: int, limits: _TokenCounter) -> list[Span]:
    """Those of the ``fresh`` sentences that are shown in ``room``; [] if none fits."""
    if limits.passage(_make_passage(source, fresh)) <= room:
        return fresh
    frame = limits.passage(ContextPassage(source.chunk, ""))
    chosen = _best_sentences(source, fresh, room - frame, limits)
    while chosen and limits.passage(_make_passage(source, chosen)) > room:
        chosen.remove(min(chosen, key=lambda span: (source.worth[span], span)))
    return chosen


def _is_crumb(source: _PassageSource, chosen: Sequence[Span], room: int, limits: _TokenCounter) -> bool:
    """Whether a cut passage says too little for its label, given that all passages have ``room``."""
    return limits.tokenizer.count(_make_passage(source, chosen).body) < min(limits.options.crumb, room // 4)


def _best_sentences(
    source: _PassageSource, spans: Sequence[Span], room: int, limits: _TokenCounter
) -> list[Span]:
    """Return the run of sentences that fits into ``room`` and serves the query best; of equal ones the first."""
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
        # Sums of the same numbers in another order may differ by less than 1e-9.
        if end > start and worth > most + 1e-9:
            best, most = (start, end), worth
        if end > start:
            size -= sizes[start]
            worth -= source.worth[span]
        else:
            end = start + 1
    return list(spans[slice(*best)])


# --- lines ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LineSource:
    """A line as it may be quoted, its text in sentences, and the citations of those whose origin is known."""

    line: ContextLine
    sentences: tuple[str, ...]
    cited: Mapping[str, str]


def _make_line_source(line: ContextLine) -> _LineSource:
    text = sanitise(line.text)
    # In sentences first: a line break may be all that parts two of them.
    spoken = {(start, end): one_line(text[start:end]) for start, end in sentences(text)}
    # Only where quoting changed nothing are places in the quoted text places in the line's.
    origins = line.origins if text == line.text else ()
    cited = {
        sentence: citation
        for (start, _), sentence in spoken.items()
        for first, last, citation in origins
        if first <= start < last
    }
    head = one_line(sanitise(line.head))
    return _LineSource(
        replace(
            line, head=head, text="", origins=(), more=tuple(one_line(sanitise(each)) for each in line.more)
        ),
        tuple(dict.fromkeys(spoken.values())),
        cited,
    )


def _fit_sections(
    sources: Mapping[str, Sequence[_LineSource]],
    passages: _FittedPassages,
    room: int,
    claims: Mapping[str, int],
    limits: _TokenCounter,
) -> dict[str, _FittedSection]:
    """Each section has its claim and what those before it left."""
    said = _Repetitions(limits.options)
    for passage in passages.kept:
        said.add(passage.body)
    filled: dict[str, _FittedSection] = {}
    later = sum(claims.values())
    for title, each in sources.items():
        later -= claims[title]
        filled[title] = _fit_lines(title, each, said, room - later, limits)
        room -= filled[title].tokens
    return filled


def _fit_lines(
    title: str, sources: Sequence[_LineSource], said: _Repetitions, room: int, limits: _TokenCounter
) -> _FittedSection:
    longest = limits.longest(title)
    spare = room - limits.section(title, [ContextLine("", "", ())])
    kept: list[ContextLine] = []
    left = 0
    for source in sources:
        news = [
            sentence for sentence in source.sentences if not said.has(sentence, limits.options.repeated_line)
        ]
        if not news and not source.line.bare:
            continue
        line = _fit_line(source, news, min(longest, spare), limits)
        size = limits.tokenizer.count(f"{render_line(line)}\n")
        if size > spare or not (line.text or line.bare):
            left += 1
            continue
        spare -= size
        said.add(line.text)
        kept.append(line)
    return _FittedSection(tuple(kept), left, limits.section(title, kept))


def _fit_line(source: _LineSource, news: Sequence[str], room: int, limits: _TokenCounter) -> ContextLine:
    """Return the line with as many of its new sentences, from the first on, as fit into ``room``, and their citations."""
    kept: list[str] = []
    for sentence in news:
        # Sentence by sentence is near enough: the whole is counted again before it is given out.
        room -= limits.count(sentence)
        if room < 0:
            break
        kept.append(sentence)
    cited = tuple(dict.fromkeys(source.cited[each] for each in kept if each in source.cited))
    return replace(
        source.line,
        text=" ".join(kept),
        shortened=len(kept) < len(news),
        citations=cited or source.line.citations,
    )


def _add_findings(
    filled: _FittedContext, room: int, words: QueryWords, limits: _TokenCounter
) -> _FittedContext:
    """With what may be added to the lines, as far as it serves the query and was not said: the best of each line,
    as many as fit into ``room``."""
    said = _Repetitions(limits.options)
    for passage in filled.passages.kept:
        said.add(passage.body)
    for line in chain.from_iterable(section.kept for section in filled.sections.values()):
        said.add(line.text)
    shortest = limits.options.repeated_line
    sections = {}
    for title, section in filled.sections.items():
        kept = []
        for line in section.kept:
            worth = dict(zip(line.more, words.score(line.more), strict=True))
            for text in sorted(line.more, key=lambda each: -worth[each])[: limits.options.findings]:
                size = limits.count(f" {text}") + 1
                if worth[text] > 0 and size <= room and not said.has(text, shortest):
                    room -= size
                    said.add(text)
                    line = replace(line, text=f"{line.text} {text}".strip())  # noqa: PLW2901 - it grows
            kept.append(line)
        sections[title] = replace(section, kept=tuple(kept))
    return replace(filled, sections=sections)


# --- the whole -----------------------------------------------------------------------------


def _render_context(filled: _FittedContext, limits: _TokenCounter) -> str:
    blocks = [HEAD]
    if filled.passages.kept:
        blocks.append(f"## {PASSAGES}")
        blocks += [render_passage(passage, limits.fence) for passage in filled.passages.kept]
    blocks += [
        render_section(title, section.kept, limits.fence)
        for title, section in filled.sections.items()
        if section.kept
    ]
    left = _format_omissions(filled)
    return "\n\n".join([*blocks, left] if left else blocks)


def _drop_last(filled: _FittedContext) -> _FittedContext | None:
    """One piece less, from the last section that has any; None if nothing is left."""
    for title, section in reversed(filled.sections.items()):
        if section.kept:
            shorter = replace(section, kept=section.kept[:-1], left=section.left + 1)
            return replace(filled, sections={**filled.sections, title: shorter})
    passages = filled.passages
    if not passages.kept:
        return None
    return replace(filled, passages=replace(passages, kept=passages.kept[:-1], left=passages.left + 1))


def _format_omissions(filled: _FittedContext) -> str:
    """One line on what did not fit or was cut; "" if everything fits."""
    left = {"passage": filled.passages.left}
    left |= {_SINGULAR[title]: section.left for title, section in filled.sections.items()}
    cut = {"passage": _count_shortened(filled.passages.kept)}
    cut |= {"line": sum(_count_shortened(section.kept) for section in filled.sections.values())}
    said = [f"left out: {format_counts(left)}"] if any(left.values()) else []
    said += [f"cut short: {format_counts(cut)}"] if any(cut.values()) else []
    return f"(For lack of room {'; '.join(said)}.)" if said else ""


_SINGULAR = {"Relations": "relation", "Summaries": "summary", "Entities": "entity"}


def _count_shortened(pieces: Iterable[ContextPassage | ContextLine]) -> int:
    return sum(piece.shortened for piece in pieces)
