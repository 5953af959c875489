"""Choose the evidence that earns its tokens and lay it out within a token budget.

All candidates stand in one pool: windows of passages and statements of the graph, each with a value for the question.
They are taken best first until the budget is full; what was said already adds nothing. Each text of the query has
an equal share. Values per token, a fixed share by kind, and a penalty for similar vectors were tried on the reply
sets and found no more facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import accumulate, chain, groupby, takewhile

from leanrag_engine.core.graphs.texts import name_subject
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Chunk, Context
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.core.text.citation import CitationSet, find_bracketed_citations
from leanrag_engine.core.text.cleaning import fence_for, wrap_in_fence
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import content_words, is_name
from leanrag_engine.core.text.scripts import CJK_CHARACTER, has_cjk
from leanrag_engine.core.text.shortening import cut_end, one_line
from leanrag_engine.core.text.word_lists import read_pattern
from leanrag_engine.documents.notices import FRONT_MATTER, MAIL_HEAD, QUOTED, SIGNATURE, find_beside
from leanrag_engine.retrieval.request import DEFAULT_CONTEXT, ContextOptions
from leanrag_engine.retrieval.search.releases import read_release
from leanrag_engine.retrieval.search.relevance import RankedWindow, TextPlace
from leanrag_engine.retrieval.search.turns import cut_turns

from .explanation import explain_choice
from .rendering import (
    HEAD,
    Evidence,
    Statement,
    count_parts,
    describe_line,
    format_document,
    format_omissions,
    name_places,
    render_conversations,
    render_document,
    render_excerpt,
    render_statement,
    render_statements,
    sanitise,
    shown_heading,
)

_QUOTE_MARKS = re.compile(r"^[ \t]*>[> \t]*", re.MULTILINE)
_FEW_ASKED = 3  # Documents with the words that are asked alone up to which they stand before others
_RELEASE = re.compile(r"\d+\.\d+|\d{4}-\d\d")
_REFERS = read_pattern("phrases", "refers")
_WORD = re.compile(rf"{CJK_CHARACTER.pattern}|\S(?=\s|$)")


@dataclass(frozen=True, slots=True)
class ContextMaterial:
    """Everything that a context may say.

    ``rankings`` hold the evidence for each text of the query, best first. ``notes`` stand first, a line each;
    ``about`` says what their folders are, ``explanation`` how the evidence is connected, for a detailed context. ``by_date``: dated
    evidence stands in order of date. ``graph``: who wrote the graph that the evidence was found by, "" without one. ``is_weak``:
    the reply is short because the evidence is weak.
    """

    rankings: tuple[tuple[Evidence, ...], ...] = ()
    notes: tuple[str, ...] = ()
    explanation: tuple[str, ...] = ()
    by_date: bool = False
    newest_first: bool = False
    graph: str = ""
    about: tuple[str, ...] = ()
    is_weak: bool = False


def compose_context(
    material: ContextMaterial, budget: int, tokenizer: Tokenizer, options: ContextOptions = DEFAULT_CONTEXT
) -> Context:
    """Return the context, notes included, of at most ``budget`` tokens as ``tokenizer`` counts them."""
    notes = _fit_notes(material.notes, round(budget * options.notes), tokenizer)
    about = _fit_notes(material.about, budget // 10, tokenizer)
    fence = _choose_fence(material, chain.from_iterable(material.rankings))
    head = HEAD.replace(":", f" ({material.graph}):", 1) if material.graph else HEAD
    opening = [*notes, head, *([wrap_in_fence("\n".join(about), fence)] if about else [])]
    layout = _Layout(opening, fence, material.by_date, material.newest_first, material.is_weak)
    count = cache(tokenizer.count)
    explained = round(budget * options.explanation) if material.explanation else 0
    room = budget - count(layout.render((), ())) - options.omission_tokens - explained
    pool = _Pool(material.rankings, count, options)
    chosen = pool.choose(room)
    if chosen:  # what is not shown needs no longer one
        layout = replace(layout, fence=_choose_fence(material, chosen), known=pool.known)
    while True:
        text = layout.render(chosen, pool.left, pool.weaker)
        if (tokens := tokenizer.count(text)) <= budget - explained or not chosen:
            break
        pool.left.append(chosen.pop())
    layout = layout if chosen else replace(layout, fence=fence)
    for cut in () if chosen else pool.cut_best():
        shorter = layout.render([cut], pool.left)
        if (cost := tokenizer.count(shorter)) <= budget - explained:
            chosen, text, tokens = [cut], shorter, cost
            break
    # A weak reply says how to get the rest instead.
    named = [] if material.is_weak else name_places(pool.left, chosen)[: options.places]
    places = accumulate(named, "{}; {}".format)
    for names in reversed([*places]):  # as many as fit into what is left over
        longer = layout.render(chosen, pool.left, pool.weaker, names)
        if (cost := tokenizer.count(longer)) <= budget - explained:
            text, tokens = longer, cost
            break
    lines = tuple(describe_line(each) for each in chosen)
    if explained:
        explanation = [*material.explanation, *explain_choice(lines)]
        text, tokens = _explain(text, explanation, budget, layout.fence, tokenizer)
    return Context(text, tokens, bool(pool.left), find_bracketed_citations(text), lines)


def find_shown(
    rankings: Sequence[Sequence[Evidence]],
    seen: CitationSet,
    budget: int,
    tokenizer: Tokenizer,
    options: ContextOptions,
) -> tuple[set[TextPlace], list[str]]:
    """Return which windows and turns of ``seen`` passages replies of ``budget`` tokens to the same texts have shown: those of one
    reply after the other, up to the first with a passage that was not seen. Return also the passages of which parts are among
    them only if there were more replies than those that name all of ``seen``."""
    count, shown = cache(tokenizer.count), set[TextPlace]()
    # Less than they had: what comes again does less harm than what is lost.
    room = round(0.95 * budget) - options.omission_tokens
    worth = [keep_worth(ranking, options.weaker) for ranking in rankings]
    windows = [each for ranking in worth for each in ranking if isinstance(each, RankedWindow)]
    named, doubtful = {each.chunk.citation for each in windows if each.chunk.citation in seen}, list[str]()
    for _ in range(options.replies):
        if shown:
            worth = [[each for each in ranking if not _was_shown(each, shown, seen)] for ranking in worth]
        found = _Pool(worth, count, options).choose(room)
        chosen = [each for each in found if isinstance(each, RankedWindow)]
        new = {span for each in chosen if each.chunk.citation in seen for span in each.spans} - shown
        has_unseen = any(each.chunk.citation not in seen for each in chosen)
        if has_unseen and shown:
            return shown, []  # the reply that is asked for
        shown |= new  # with something unseen at once, another question was asked before: its replies had the same, as is likely
        if named and not (named := named - {each.chunk.citation for each in chosen}):
            rest = (
                each.chunk.citation
                for each in windows
                if each.chunk.citation in seen and not each.spans <= shown
            )
            doubtful = list(dict.fromkeys(rest))
        if has_unseen or not new:
            break
        options = replace(options, cutoff=options.weaker)  # as for a caller who asks on
    return shown, doubtful


def _was_shown(each: Evidence, shown: set[TextPlace], seen: CitationSet) -> bool:
    return isinstance(each, RankedWindow) and each.chunk.citation in seen and each.spans <= shown


def keep_worth(ranking: Sequence[Evidence], cutoff: float) -> list[Evidence]:
    """Return what is at least ``cutoff`` as near as the nearest, or kept."""
    least = cutoff * max((each.near for each in ranking), default=0.0)
    return [each for each in ranking if each.near >= least or each.kept]


def _fit_notes(notes: Iterable[str], room: int, tokenizer: Tokenizer) -> list[str]:
    """Return the notes that fit, the last one cut where it does not."""
    fitted = []
    for note in notes:
        line = one_line(sanitise(note))
        while line and (tokens := tokenizer.count(line)) > room:
            limit = room * len(line) // tokens
            line = cut_end(line, limit) if limit > 1 else ""
        if line:
            fitted.append(line)
            room -= tokenizer.count(line)
    return fitted


def _choose_fence(material: ContextMaterial, evidence: Iterable[Evidence]) -> str:
    """Return a fence that nothing in the evidence, explanation or notes on folders can close."""
    texts = (each.text if isinstance(each, Statement) else each.chunk.text for each in evidence)
    return fence_for(dict.fromkeys([*texts, *material.explanation, *material.about]))


def _explain(
    text: str, lines: Sequence[str], budget: int, fence: str, tokenizer: Tokenizer
) -> tuple[str, int]:
    """Return the text with as many of ``lines`` after it as fit, and its tokens."""
    explained, shown = (text, tokenizer.count(text)), list[str]()
    for line in lines:
        shown.append(one_line(sanitise(line)))
        longer = f"{text}\n\n### How the evidence is connected\n{wrap_in_fence(chr(10).join(shown), fence)}"
        if (tokens := tokenizer.count(longer)) > budget:
            break
        explained = longer, tokens
    return explained


# --- choosing ------------------------------------------------------------------------------


class _Pool:
    """The evidence for each text, what of it was taken so far, and what that cost."""

    def __init__(
        self, rankings: Sequence[Sequence[Evidence]], count: Callable[[str], int], options: ContextOptions
    ) -> None:
        self._rankings = [_worth_showing(ranking, options) for ranking in rankings]
        self._best = max((each.near for ranking in self._rankings for each in ranking), default=0.0)
        self._windows = {
            (each.chunk.document_id, each.chunk.number, each.number, *each.turns[:1]): each
            for ranking in rankings
            for each in ranking
            if isinstance(each, RankedWindow)
        }
        self.known = [*self._windows.values()]
        self._before = {
            (document, *each.chunk.next_window(each.number)): each
            for (document, *_), each in self._windows.items()
            if not each.turns
        }
        self._turned = group(
            ((each.chunk.document_id, each.chunk.number), each) for each in self.known if each.turns
        )
        self._count = count
        # What lies between two windows is priced before it is taken.
        self._excerpt = cache(lambda place, heading: render_excerpt([self._windows[place]], heading=heading))
        self._options = options
        self._documents: set[str] = set()
        self._sections: set[tuple[str, str]] = set()
        self._chunks: set[str] = set()
        self._parts: set[TextPlace] = set()
        self._taken: dict[tuple[str, int | str], Evidence] = {}
        self._said = _SaidSentences(options)
        self.left: list[Evidence] = []
        """Strong evidence that did not fit; copies of what is shown are not in it."""
        shown = {each.key[0] for ranking in self._rankings for each in ranking}
        near = (each for ranking in rankings for each in _above_cutoff(ranking, options.weaker))
        self.weaker = len({each.key[0] for each in near if isinstance(each, RankedWindow)} - shown)
        """Passages of which all is below the cutoff, but some not far."""

    def choose(self, room: int) -> list[Evidence]:
        """Return evidence of about ``room`` tokens: always the next best of the text that had least so far."""
        waiting = [iter(ranking) for ranking in self._rankings]
        spent = [0] * len(waiting)
        open_texts = set(range(len(waiting)))
        seen: set[tuple[str, int | str]] = set()
        while open_texts and room >= self._options.smallest:
            place = min(open_texts, key=lambda each: (spent[each], each))
            item = next(waiting[place], None)
            if item is None:
                open_texts.discard(place)
            elif item.key in self._taken:
                spent[place] += self._cost(item)
            elif item.key not in seen:
                seen.add(item.key)
                is_first = not self._chunks
                cost = self._take(item, room)
                finds = (partial(self._find_answer, is_first=is_first), self._find_antecedent)
                for each in filter(None, (find(item) for find in finds if cost)):
                    if each.key not in seen | self._taken.keys():
                        cost += self._take(each, min(room - cost, self._options.answer_tokens))
                for between in self._find_between(item) if cost and isinstance(item, RankedWindow) else ():
                    if between.key not in seen:
                        seen.add(between.key)
                        cost += self._take(between, room - cost)
                room -= cost
                spent[place] += cost
        for ranking in self._rankings:
            strong = _above_cutoff(ranking, self._options.strong)
            self.left += (each for each in strong if each.key not in self._taken and each.key not in seen)
            seen.update(each.key for each in strong)
        return list(self._taken.values())

    def _find_between(self, item: RankedWindow) -> list[RankedWindow]:
        """Return the few windows between this one and others of its document that were taken: they belong to what is around them."""
        found: list[RankedWindow] = []
        for step in (self._following, self._preceding):
            path, each = list[RankedWindow](), step(item)
            while each and each.key not in self._taken and len(path) < self._options.between:
                path.append(each)
                each = step(each)
            if each and each.key in self._taken:
                found += path if sum(map(self._cost, path)) <= self._options.between_tokens else []
        return found

    def _following(self, window: RankedWindow) -> RankedWindow | None:
        """Return the whole window after a whole one."""
        place = (window.chunk.document_id, *window.chunk.next_window(window.number))
        return None if window.turns else self._windows.get(place)

    def _preceding(self, window: RankedWindow) -> RankedWindow | None:
        place = (window.chunk.document_id, window.chunk.number, window.number)
        return None if window.turns else self._before.get(place)

    def cut_best(self) -> Iterator[RankedWindow]:
        """Yield beginnings of the best window, the longest first: its sentences, then the words of the first one."""
        ranked = (each for ranking in self._rankings for each in ranking)
        best = next((each for each in ranked if isinstance(each, RankedWindow)), None)
        if best is None:
            return
        place = best.chunk.windows[best.number].start - best.chunk.start
        start, stop = best.turns[0] if best.turns else (place, place + len(best.text))
        text = best.chunk.text[start:stop]
        ends = [end for _, end in sentences(text)] or [len(text)]
        words = (word.end() for word in _WORD.finditer(text, 0, ends[0]))
        for end in sorted({*ends, *words}, reverse=True):
            yield replace(best, turns=((start, start + end),))

    def _find_answer(self, item: Evidence, *, is_first: bool) -> RankedWindow | None:
        """Return the window after a question, after front matter, the head of a mail, or the first window of all in running text."""
        if not isinstance(item, RankedWindow):
            return None
        leads = item.text.rstrip().endswith(("?", "？"))
        if not leads and find_beside(item.chunk, item.number) != FRONT_MATTER:
            windows = item.chunk.windows
            runs = is_first and len(windows) > 2 and len({each.heading for each in windows}) == 1  # noqa: PLR2004
            following = self._following(item) if runs or MAIL_HEAD.match(item.text) else None
            return following if following and following.heading == item.heading else None
        if item.turns:
            document, number = item.chunk.document_id, item.chunk.number
            here = [each for each in self._turned[document, number] if each.turns[0][0] >= item.turns[-1][1]]
            ended = not item.chunk.text[item.turns[-1][1] :].strip()
            later = here or (self._turned[document, number + 1] if ended else [])
            return min(later, key=lambda each: each.turns[0][0], default=None)
        return self._following(item)

    def _find_antecedent(self, item: Evidence) -> RankedWindow | None:
        """Return the turn before one that begins with *It*, *Yes*, *Because*: what it speaks of."""
        if not (isinstance(item, RankedWindow) and item.turns and _REFERS.match(item.text)):
            return None
        here = self._turned[item.chunk.document_id, item.chunk.number]
        earlier = (each for each in here if each.turns[-1][1] <= item.turns[0][0])
        return max(earlier, key=lambda each: each.turns[0][0], default=None)

    def _take(self, item: Evidence, room: int) -> int:
        """Take the item if it fits and is new; return what it costs, 0 if it is not taken."""
        spans = item.spans if isinstance(item, RankedWindow) else set()
        if spans and spans <= self._parts:
            return 0
        text = item.text
        # Hardly a token has more than eight characters: counting what is far too long would only cost time.
        cost = self._cost(item) if len(text) <= 8 * room else room + 1
        # What stands under two releases or dates is said of each.
        place = _find_release(item) if isinstance(item, RankedWindow) else ""
        told = [] if cost > room else [place + each for each in self._said.find_sentences(text)]
        written = ""
        if isinstance(item, Statement) and not item.parts.fixed:
            written = name_subject(item.subject.split(" — "), text)
        if cost > room or self._said.covers(told, self._options.near_copy) or self._said.has_words(written):
            if cost > room and item.near >= self._options.strong * self._best:
                self.left.append(item)
            return 0
        self._said.add(told, written)
        self._taken[item.key] = item
        if isinstance(item, RankedWindow):
            self._documents.add(item.chunk.document_id)
            self._chunks.add(item.chunk.id)
            self._parts |= spans
            self._sections.add((item.chunk.document_id, item.heading))
        return cost

    def _cost(self, item: Evidence) -> int:
        """Return the tokens that an item adds: its text, its label, and the headings that are not there yet."""
        if isinstance(item, Statement):
            return self._count(f"- {render_statement(item)}\n")
        if item.turns:
            label = "" if item.chunk.id in self._chunks else f"{item.chunk.own_date} [{item.chunk.citation}]"
            new = [
                item.chunk.text[slice(*span)]
                for span in item.turns
                if (item.chunk.id, span) not in self._parts
            ]
            cost = self._count(" …\n".join([label, *new]))
            return cost + self._cost_of_document(item.chunk) * (not item.chunk.own_date)
        known = (item.chunk.document_id, item.heading) in self._sections
        place = (item.chunk.document_id, item.chunk.number, item.number)
        cost = self._count(f"{self._excerpt(place, '' if known else shown_heading(item))}\n")
        return cost + self._cost_of_document(item.chunk)

    def _cost_of_document(self, chunk: Chunk) -> int:
        """Return the tokens of a document's heading if it is not there yet."""
        if chunk.document_id in self._documents:
            return 0
        return self._count(f"{format_document(chunk)}\n```\n\n\n") + 2


def _find_release(window: RankedWindow) -> str:
    """Return the heading of a window with a release or date, or else the title of its document with a release; "" without any."""
    if _RELEASE.search(window.heading):
        return window.heading
    return window.chunk.title if read_release(window) else ""


def _above_cutoff(ranking: Sequence[Evidence], cutoff: float) -> list[Evidence]:
    """Return the evidence that is near enough to the question: at least ``cutoff`` as near as the nearest, or with a rare word of it."""
    best = max((each.near for each in ranking), default=0.0)
    return [
        each
        for each in ranking
        if each.near >= cutoff * best or (isinstance(each, RankedWindow) and each.exact)
    ]


def _worth_showing(ranking: Sequence[Evidence], options: ContextOptions) -> list[Evidence]:
    """Return the evidence above the cutoff, and the first few that are weaker, then what is kept although it is below. Where a word
    alone is asked for, and found, only strong evidence of other documents stands beside what holds it."""
    ranking = _without_beside(ranking, options)
    windows = [each for each in ranking if isinstance(each, RankedWindow)]
    if holders := {each.chunk.document_id for each in windows if each.asked_alone}:
        # A turn stands in several windows of a conversation, of which some hold the word.
        exact = {each.key for each in windows if each.exact}
        others = {each.key for each in windows if each.chunk.document_id in holders} - exact
        return [each for each in _above_cutoff(ranking, options.strong) if each.key not in others]
    above = _above_cutoff(ranking, options.cutoff)
    if len(above) < options.least:
        above = _above_cutoff(ranking, options.weaker)[: options.least]
    keys = {each.key for each in above}
    return [*above, *(each for each in ranking if each.kept and each.key not in keys)]


def _without_beside(ranking: Sequence[Evidence], options: ContextOptions) -> list[Evidence]:
    """Return the evidence without quotes of mails that were found themselves, signatures that are not among the nearest, and nearer than
    the mail, and front matter that is neither near nor has a rare word that is asked, as a tag: names, places and dates in it say nothing."""
    windows = [each for each in ranking if isinstance(each, RankedWindow)]
    kinds = {each.key: kind for each in windows if (kind := find_beside(each.chunk, each.number))}
    near = {each.key for each in _above_cutoff(ranking, options.beside)} if kinds else set()
    said, nearest = _SaidSentences(options), dict[str, float]()
    for each in windows if kinds else ():
        if each.key not in kinds:
            nearest[each.chunk.document_id] = max(each.near, nearest.get(each.chunk.document_id, 0.0))
            said.add(said.find_sentences(each.chunk.text.partition(f"# {QUOTED}")[0]), "")

    def is_kept(each: Evidence) -> bool:
        kind = kinds.get(each.key)
        if not kind or not isinstance(each, RankedWindow):
            return True
        if kind == QUOTED:
            return not said.covers([*said.find_sentences(each.text)], options.quoted)
        first = kind != SIGNATURE or each.near >= nearest.get(each.chunk.document_id, 0.0)
        return (first and each.key in near) or (each.exact and kind != SIGNATURE)

    return [*filter(is_kept, ranking)]


class _SaidSentences:
    """The sentences of a context so far, and the stems of the words of the statements."""

    def __init__(self, options: ContextOptions) -> None:
        self._options = options
        self._sentences: set[str] = set()
        self._written: set[str] = set()

    def find_sentences(self, text: str) -> Iterator[str]:
        """Yield the sentences of ``text`` that are long enough to be repetitions."""
        least = self._options.repeated_characters
        return (each for each in _fold_sentences(text) if len(each) * (2.5 if has_cjk(each) else 1) >= least)

    def add(self, told: Iterable[str], written: str) -> None:
        self._sentences.update(told)
        self._written |= _find_stems(written)

    def has_words(self, written: str) -> bool:
        """Return whether a written sentence has no new name or number and few new words: an event is told of
        each thing that took part."""
        stems = _find_stems(written)
        new = stems - self._written
        named = _find_stems(" ".join(filter(is_name, written.split())))
        return bool(stems) and len(new) <= self._options.new_words * len(stems) and new.isdisjoint(named)

    def covers(self, told: Sequence[str], share: float) -> bool:
        """Return whether a ``share`` of these sentences was said."""
        known = sum(len(sentence) for sentence in told if sentence in self._sentences)
        return known > 0 and known >= share * sum(map(len, told))


@lru_cache(maxsize=1 << 11)  # a statement is compared, and then kept
def _find_stems(text: str, letters: int = 5) -> frozenset[str]:
    """Return the first letters of the words of ``text`` that have content of their own: *danced* and *dancing* are one."""
    return frozenset(word[:letters] for word in content_words(text))


@lru_cache(maxsize=1 << 11)  # two of five windows come again within the questions of a session
def _fold_sentences(text: str) -> tuple[str, ...]:
    text = _QUOTE_MARKS.sub("", text)
    return tuple(
        fold_case(one_line(text[start:end])).strip(" .。!?！？;:,*•#-\"'") for start, end in sentences(text)
    )


# --- layout --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the chosen evidence stands in the text: by document and section, the best document first."""

    opening: Sequence[str]
    fence: str
    by_date: bool = False
    newest_first: bool = False
    is_weak: bool = False
    known: Sequence[RankedWindow] = ()

    def render(
        self, chosen: Sequence[Evidence], left: Sequence[Evidence], weaker: int = 0, names: str = ""
    ) -> str:
        windows = [each for each in chosen if isinstance(each, RankedWindow)]
        statements = [each for each in chosen if isinstance(each, Statement)]
        by_document = group((each.chunk.document_id, each) for each in windows)
        documents = [
            sorted(each, key=lambda one: (one.chunk.place, one.number)) for each in by_document.values()
        ]
        # Beside the best one without a date, dates say nothing.
        by_date = self.by_date and bool(documents) and bool(documents[0][0].chunk.own_date)
        alone = [] if by_date else _find_asked(documents)
        by_date |= all(map(_is_dated_conversation, documents))
        documents = documents[len(alone) :]
        if by_date:
            undated = "" if self.newest_first else "9"
            documents.sort(key=lambda each: each[0].day or undated, reverse=self.newest_first)
        written = [render_statements(statements, self.fence, by_date=self.by_date)] if statements else []
        blocks = [*self.opening, *written]
        parts = count_parts(each[0].chunk for each in (*alone, *documents))
        blocks += [self._render_alone(each, parts) for each in alone]
        for is_talk, run in groupby(documents, key=_is_dated_conversation):
            if is_talk:
                talks = sorted(run, key=lambda each: each[0].day, reverse=self.newest_first)
                blocks.append(render_conversations(talks, self.fence))
            else:
                blocks += [self._render_alone(each, parts) for each in run]
        omissions = format_omissions(left, weaker, is_weak=self.is_weak, names=names)
        return "\n\n".join([*blocks, omissions] if omissions else blocks)

    def _render_alone(self, windows: Sequence[RankedWindow], parts: int) -> str:
        """Render a document as turns if it is a conversation throughout, else by its windows, each once."""
        if all(each.turns for each in windows):
            return render_conversations([windows], self.fence)
        distinct = {(each.chunk.id, each.number): each for each in windows}
        return render_document([*distinct.values()], self.fence, parts, self.known)


def _find_asked(documents: Sequence[list[RankedWindow]]) -> list[list[RankedWindow]]:
    """Return the few documents before the first one without the words that are asked alone: they are what is sought."""
    found = [*takewhile(lambda windows: any(each.asked_alone for each in windows), documents)]
    return found if len(found) <= _FEW_ASKED else []


def _is_dated_conversation(windows: Sequence[RankedWindow]) -> bool:
    return all(each.turns and each.chunk.own_date and cut_turns(each.chunk.text) for each in windows)
