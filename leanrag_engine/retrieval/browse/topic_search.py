"""List all passages on a topic: those with its names and words in any form, and those close to them in meaning. A
window scores the share of the topic's words that it holds, a word counting more the fewer passages have it, plus a
part for how close it is in meaning to the windows that hold most of them (relevance feedback, Rocchio 1971)."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import anyio.lowlevel
import numpy as np

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Chunk, Entity, parse_window_id
from leanrag_engine.core.text.citation import parse_citation
from leanrag_engine.core.text.language.excerpts import find_statement, quote_exchange
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.parts_of_speech import is_english_word
from leanrag_engine.core.text.language.sentences import find_turn, sentences, without_shared
from leanrag_engine.core.text.language.words import STOPWORDS, find_whole_words, plain_letters
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.core.text.word_lists import read_words
from leanrag_engine.documents.dates import DATE_WORDS, find_posted
from leanrag_engine.retrieval.filters import open_scope
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.request import QUERY_LIMITS, Filters, check_count, clean_text
from leanrag_engine.retrieval.search.hits import embed_texts
from leanrag_engine.retrieval.search.seeds import match_names, name_spans

from .entities import check_page
from .text_search import LIMITS, TextMatch, TextMatches, TopicBounds

# What counts as being on a topic. Chosen on 20 questions over two corpora with the documents that belong to each: see ``tests/programs/benchmarks/lists.py``.
_LEAST = 0.7  # Score from which on a window is listed; all words of the topic score 1
_LOWER = 0.55  # Score from which on a window lies just below that
_PASSAGE = 0.5  # Share of a word's weight if only another window of the passage holds it
_MEANING = 0.4  # Gain of a window as close in meaning as the median of those with most of the words
_EXAMPLES = 20  # Windows with most of the words whose vectors are added to the topic's
_HITS = 4096  # Windows whose closeness is looked up

_ASKING = read_words("language", "asking")
_FORMS: Mapping[str, tuple[str, ...]] = {
    form: tuple(group.split("/"))
    for group in read_words("language", "irregular_forms")
    for form in group.split("/")
}


@dataclass(frozen=True, slots=True)
class TopicWord:
    """A word or phrase of a topic, all that stands for it, and other names of what it names. ``mentioned``: of a name
    that is a plain word too (*Buddy*), the chunks that mention what bears it; None of others."""

    word: str
    forms: tuple[str, ...]
    names: tuple[str, ...] = ()
    mentioned: frozenset[str] | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return what finds the word in its forms by how these begin, in text without accents."""
        return re.compile("|".join(map(_find_stem, map(plain_letters, self.forms))), re.IGNORECASE)


def _find_stem(form: str) -> str:
    """Return a pattern of the beginning that the forms of a word share: *run* for *running*, *stud* for *studies*."""
    if has_cjk(form):
        return re.escape(form)
    *parts, last = re.findall(r"[^\W_]+", form) or [form]
    shortest = 3
    stem = last[: max(shortest, len(last) - 3)]
    if stem != last and len(stem) > shortest and (stem[-1] in "iy" or stem[-1] == stem[-2]):
        stem = stem[:-1]
    return r"(?<![^\W_])" + r"[\W_]*".join(map(re.escape, [*parts, stem]))


@dataclass(frozen=True, slots=True)
class ScoredWindow:
    """A window on a topic; ``whole``: its passage holds all words."""

    id: str
    score: float
    whole: bool

    @property
    def chunk_id(self) -> str:
        return parse_window_id(self.id)[0]


async def search_topic(
    index: IndexSnapshot,
    text: str,
    offset: int,
    limit: int,
    *,
    by_document: bool,
    by_date: bool,
    filters: Filters,
) -> TextMatches:
    """Return one page of all passages, or ``by_document`` of all documents, on a topic, the same text once: the first page has
    the best, the next one those after them, each in reading order or ``by_date``. In ``one|other`` either side is the topic. Raises ``InvalidInput`` for an empty
    topic and for filters that exclude all documents."""
    check_page(offset, limit)
    given = dict.fromkeys(map(str.strip, clean_text("topic", text, 1000).split("|")))
    sides = [side for side in given if find_whole_words(side)]
    if not sides:
        raise InvalidInput("The topic is empty.", "Give its names and words.")
    check_count("topics", len(sides), QUERY_LIMITS.texts)
    scope, undated = await open_scope(index.documents, index.collection.name, filters.check())
    held: list[tuple[TopicWord, frozenset[str]]] = []
    best: dict[str, ScoredWindow] = {}
    for side in sides:
        words = {each: await _find_windows(index, each) for each in await _find_words(index, side)}
        # What stands nowhere is no half of an alternative: else *prebuilt binary* would list all on binaries.
        share = sum(map(bool, words.values())) / len(words) if len(sides) > 1 else 1.0
        for window in await _score_windows(index, words):
            if share < 1:
                score = min(share * window.score, _LEAST - 0.01)
                window = replace(window, score=score, whole=False)  # noqa: PLW2901
            if scope.allows(window.chunk_id) and window.score >= _LOWER:
                known = best.setdefault(window.chunk_id, window)
                best[window.chunk_id] = max(known, window, key=lambda each: each.score)
        held += words.items()
    chunks = await index.documents.chunks(index.collection.name, list(best))
    chunks.sort(key=lambda each: (by_date and (each.own_date or "~"), each.place))
    groups = group((each.document_id if by_document else each.text, each) for each in chunks)
    entries = [[each for each in alike if best[each.id].score >= _LEAST] for alike in groups.values()]
    listed = [alike for alike in entries if alike]
    leads = [max(each, key=lambda one: best[one.id].score) if by_document else each[0] for each in listed]
    ranked = sorted(range(len(leads)), key=lambda at: -best[leads[at].id].score)
    page = sorted(ranked[offset : offset + limit])
    places = await _choose_statements(index, [leads[at] for at in page], best, sides, held)
    absent = [each.word for each, found in held if not found and each.word.casefold() not in DATE_WORDS]
    within = set[int]()
    if len(held) == 1 and not filters.active:  # one word: firewall also stands in firewalld_rule
        containing = await index.documents.documents_containing(index.collection.name, held[0][0].word)
        within = {*containing} - {place[0] for each in chunks if (place := parse_citation(each.citation))}
    bounds = TopicBounds(
        _LEAST,
        _LOWER,
        sum(any(best[each.id].whole for each in group) for group in listed),
        len(entries) - len(listed),
        tuple(dict.fromkeys(form for each, _ in held for form in each.names)),
        tuple(dict.fromkeys(absent)),
        len(within),
    )
    return TextMatches(
        tuple(
            _make_entry(leads[at], listed[at], place, best, by_document=by_document)
            for at, place in zip(page, places, strict=True)
        ),
        sum(map(len, listed)),
        len(listed),
        len({each.document_id for group in listed for each in group}),
        undated=undated,
        topic=bounds,
        problem="" if index.embedder else "there is no build yet.",
    )


# --- the words of a topic ------------------------------------------------------------------


async def _find_words(index: IndexSnapshot, text: str) -> list[TopicWord]:
    """Return the words of a topic, each with its irregular forms, its neighbours joined to it (*hard links*: *hardlinks*), and
    the names that the graph has for the entity that it names."""
    found = find_whole_words(text)
    words = [word for word in found if word.casefold() not in _ASKING] or found
    joined = {
        word: first + second
        for first, second in pairwise(words)
        if f"{first} {second}" in text and (first + second).isalpha()
        for word in (first, second)
    }
    bearers: dict[str, list[Entity]] = {}
    if index.collection.generation is not None:
        spans = name_spans(text)
        keys = dict.fromkeys(span.key for span in spans)
        named = await index.generations.entities_by_name(index.generation.number, list(keys))
        known = [each for each in named if not each.layer]
        meant = {hit.id for hit in match_names(spans, known, index.collection.chunks)}
        for entity in known:
            own = {name_key(name) for name in (entity.name, *entity.aliases)} & keys.keys()
            for part in {part for key in own for part in key.split()} if entity.id in meant else ():
                bearers.setdefault(part, []).append(entity)
    topic, asked = [], {*map(name_key, words), *STOPWORDS}
    stems = [_find_stem(each.casefold()) for each in words]
    for word in (each for at, each in enumerate(words) if stems.index(stems[at]) == at):
        key, joint = name_key(word), joined.get(word)
        named = bearers.get(key, [])
        names = [
            name
            for each in named
            for name in (each.name, *each.aliases)
            if not asked.issuperset(name_key(name).split())
        ]
        forms = (word, *_FORMS.get(word.casefold(), ()), *([joint] if joint else ()), *names)
        # At its beginning a text has a capital anyway.
        plain = word.istitle() and is_english_word(word.lower()) and not text.lstrip().startswith(word)
        mentioned = frozenset(id_ for each in named for id_ in each.chunk_ids) if plain and named else None
        topic.append(TopicWord(word, forms, tuple(dict.fromkeys(names)), mentioned))
    return topic


async def _find_windows(index: IndexSnapshot, word: TopicWord) -> frozenset[str]:
    """Return the ids of the windows that hold a word in any of its forms."""
    name = index.collection.name
    found = await index.documents.windows_with(name, word.forms)
    chunks = await index.documents.chunks(name, list(dict.fromkeys(parse_window_id(id_)[0] for id_ in found)))
    texts = {id_: text for chunk in chunks for id_, text in chunk.indexed_windows}
    # The index knows words without their endings: it takes *general* for a form of *generator*.
    held = frozenset(id_ for id_ in found if word.pattern.search(plain_letters(texts.get(id_, ""))))
    if word.mentioned is None:
        return held
    return frozenset(
        id_ for id_ in held if parse_window_id(id_)[0] in word.mentioned or word.word in texts[id_]
    )


# --- scores --------------------------------------------------------------------------------


async def _score_windows(
    index: IndexSnapshot, held: Mapping[TopicWord, frozenset[str]]
) -> list[ScoredWindow]:
    """Return all windows that hold a word of a topic, or are close to it in meaning if no passage holds any."""
    weights = _weigh_words(index, held.items())
    total = sum(weights.values())
    shares, passages = Counter[str](), Counter[str]()
    for word, weight in weights.items():
        shares.update(dict.fromkeys(held[word], weight / total))
        passages.update(dict.fromkeys({parse_window_id(id_)[0] for id_ in held[word]}, weight / total))
    whole = 1 - 1e-6
    scores = {
        id_: share + _PASSAGE * (passages[parse_window_id(id_)[0]] - share) for id_, share in shares.items()
    }
    closeness = await _find_closeness(index, " ".join(each.word for each in held), scores)
    if not weights:
        return [ScoredWindow(id_, close, whole=False) for id_, close in closeness.items()]
    return [
        ScoredWindow(
            id_, score + _MEANING * closeness.get(id_, 0.0), passages[parse_window_id(id_)[0]] > whole
        )
        for id_, score in scores.items()
    ]


def _weigh_words(
    index: IndexSnapshot, held: Iterable[tuple[TopicWord, frozenset[str]]]
) -> dict[TopicWord, float]:
    """Return the weights of the words that stand somewhere: the fewer passages have one, the more it counts."""
    return {
        word: math.log((1 + index.collection.chunks) / len({parse_window_id(id_)[0] for id_ in windows}))
        for word, windows in held
        if windows
    }


async def _find_closeness(index: IndexSnapshot, text: str, scores: Mapping[str, float]) -> dict[str, float]:
    """Return how close windows are in meaning to a text and to the windows with the best scores: 0 for what is unrelated, 1
    for what is as close as half of these, or without any as close as passages that answer."""
    (vector,) = await embed_texts(index, [text])
    if vector is None or index.embedder is None or index.spaces is None:
        return {}
    space, near = index.spaces.windows, index.embedder.related
    best = max(scores.values(), default=0.0)
    examples = sorted(id_ for id_, score in scores.items() if score > best - 0.01)
    if rows := [*(await index.vectors.fetch(space, examples)).values()]:
        matrix = np.stack(rows)
        nearest = matrix[np.argsort(-(matrix @ vector), kind="stable")[:_EXAMPLES]]
        mean = nearest.mean(axis=0)
        vector = vector + mean / np.linalg.norm(mean)
        vector /= np.linalg.norm(vector)
        near = float(np.median(nearest @ vector))
    hits = await index.vectors.search(space, vector, _HITS)
    if not hits:
        return {}
    far = hits[-1].score if index.embedder.unrelated is None else index.embedder.unrelated
    reach = max((hits[0].score if near is None else near) - far, 0.05)
    return {hit.id: min(1.0, max(0.0, (hit.score - far) / reach)) for hit in hits}


# --- lines ---------------------------------------------------------------------------------


async def _choose_statements(
    index: IndexSnapshot,
    chunks: Sequence[Chunk],
    best: Mapping[str, ScoredWindow],
    sides: Sequence[str],
    held: Iterable[tuple[TopicWord, frozenset[str]]],
) -> list[tuple[int, int]]:
    """Return where in each chunk the statement stands that is nearest to a topic: of those with about the largest
    share of the words by weight (in the best window if none has any) the one that is nearest in meaning too."""
    limit, compared, tied = LIMITS.statement, 3, 0.2
    weights = {word.pattern: weight for word, weight in _weigh_words(index, held).items()}
    total = sum(weights.values()) or 1.0
    scores: dict[str, float] = {}
    candidates: list[dict[str, tuple[int, int]]] = []
    for chunk in chunks:
        await anyio.lowlevel.checkpoint()  # others take their turns
        begin, end = (each - chunk.start for each in (chunk.windows[0].start, chunk.windows[-1].end))
        window = chunk.windows[parse_window_id(best[chunk.id].id)[1]]
        start = window.start - chunk.start
        places = sorted(hit.span() for each in weights for hit in each.finditer(chunk.text, begin, end))
        places = places or [(start + at, start + at + 1) for at, _ in sentences(chunk.quote(window))]
        said: dict[str, tuple[int, int]] = {}
        for place in places or [(start, start + 1)]:
            first, last, speaker = find_statement(chunk.text, *place, limit)
            said.setdefault(speaker + chunk.text[first:last], place)
        for text in said:
            turn = find_turn(text)
            told = plain_letters(without_shared(text))
            scores[text] = sum(weight for each, weight in weights.items() if each.search(told)) / total
            # Who is named tells of it more often than who speaks to them.
            scores[text] += tied * (turn is not None and any(each.search(turn.speaker) for each in weights))
        near = sorted(said, key=lambda text: -scores[text])[:compared]
        candidates.append({text: said[text] for text in near if scores[text] > scores[near[0]] - tied})
    several = list(dict.fromkeys(text for each in candidates if len(each) > 1 for text in each))
    if index.embedder and several:
        topics = [each for each in await embed_texts(index, sides) if each is not None]
        for text, row in zip(several, await index.embedder.embed(several), strict=True):
            scores[text] += max((float(row @ each) for each in topics), default=0.0)
    return [each[max(each, key=lambda text: scores[text])] for each in candidates]


def _make_entry(
    chunk: Chunk,
    group: Sequence[Chunk],
    place: tuple[int, int],
    best: Mapping[str, ScoredWindow],
    *,
    by_document: bool,
) -> TextMatch:
    """Return the line of passages with one text or, ``by_document``, of one document: it quotes what stands at ``place`` in ``chunk``."""
    within = (each.heading for each in chunk.windows if each.start <= chunk.start + place[0] < each.end)
    return TextMatch(
        chunk.citation,
        chunk.title,
        quote_exchange(chunk.text, place, LIMITS.statement),
        chunk.source,
        chunk.own_date,
        ", ".join(filter(None, (find_posted(chunk.text[: place[0]]), next(within, chunk.heading)))),
        len(group),
        () if by_document else tuple(each.citation for each in group[1:]),
        partial=not any(best[each.id].whole for each in group),
        score=best[chunk.id].score,
        line=chunk.line_at(chunk.start + place[0]),
    )
