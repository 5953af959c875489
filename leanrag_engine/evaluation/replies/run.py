"""Ask the questions of reply sets and measure the share of the needed facts in the first tokens of the replies."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self

import numpy as np

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.adapters.wiring import Adapters, compose, embedder_source
from leanrag_engine.core.config import Settings
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Vectors, join_passages
from leanrag_engine.core.ports import Embedder, EmbedderSource, Progress, ProgressReport, Tokenizer
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import words
from leanrag_engine.evaluation.metrics import Interval, bootstrap_difference, mean
from leanrag_engine.evaluation.retrieval.run import Strategy, check_queries, parse_strategies
from leanrag_engine.evaluation.scratch import ScratchCollection, open_existing, open_folder_scratch
from leanrag_engine.llm.batching import pack
from leanrag_engine.retrieval.browse.document_text import read_passages

from .reply_set import ReplyQuestion, ReplySet

SATURATION, LENGTH_SHARE = 1.2, 0.75  # k1 and b of BM25 (Robertson and Zaragoza 2009)


@dataclass(frozen=True, slots=True)
class FlatIndex:
    """Windows of sentences with their word counts and vectors, ``(n, d)`` in the same order."""

    texts: tuple[str, ...]
    sizes: tuple[int, ...]
    terms: tuple[Counter[str], ...]
    embedder: Embedder
    vectors: Vectors

    @classmethod
    async def of(
        cls, documents: Sequence[str], source: EmbedderSource, tokenizer: Tokenizer, question: str = ""
    ) -> Self:
        """Index the windows of the documents; for one ``question`` only those are embedded that BM25 ranks among its first hundred."""
        texts = tuple(text for document in documents for text in cut_into_windows(document, tokenizer))
        embedder, _ = await source.fit(texts)
        terms = tuple(Counter(words(text)) for text in texts)
        sizes = tuple(tokenizer.count_many(texts))
        if not question:
            return cls(texts, sizes, terms, embedder, await embedder.embed(texts))
        likely = cls(texts, sizes, terms, embedder, np.zeros((0, 0), dtype=np.float32))
        best = np.argsort(-likely.score_by_words(question), kind="stable")[:100]
        embedded = await embedder.embed([texts[place] for place in best])
        vectors = np.zeros((len(texts), embedded.shape[1]), dtype=np.float32)
        vectors[best] = embedded
        return replace(likely, vectors=vectors)

    async def answer(self, queries: Sequence[str], budget: int) -> str:
        """Return the windows that rank first for the queries together, best first, in at most ``budget`` tokens."""
        similarities = (await self.embedder.embed_queries(queries)).rows @ self.vectors.T
        fused = np.zeros(len(self.texts))
        for query, similar in zip(queries, similarities, strict=True):
            for scores in (self.score_by_words(query), similar):
                ranks = np.argsort(np.argsort(-scores, kind="stable"), kind="stable")
                # Reciprocal rank fusion (Cormack et al. 2009).
                fused += 1 / (60 + ranks)
        chosen: list[str] = []
        room = budget
        for place in np.argsort(-fused, kind="stable"):
            cost = self.sizes[place] + 2  # the blank line between two windows
            if cost <= room:
                chosen.append(self.texts[place])
                room -= cost
        return "\n\n".join(chosen)

    def score_by_words(self, query: str) -> Vectors:
        """Return the BM25 score of each window."""
        lengths = np.array([terms.total() for terms in self.terms], dtype=np.float32)
        norms = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * lengths / max(float(lengths.mean()), 1.0))
        scores = np.zeros(len(self.terms), dtype=np.float32)
        for word in dict.fromkeys(words(query)):
            counts = np.array([terms[word] for terms in self.terms], dtype=np.float32)
            holding = int((counts > 0).sum())
            rarity = math.log(1 + (len(self.terms) - holding + 0.5) / (holding + 0.5))
            scores += rarity * counts * (SATURATION + 1) / (counts + norms)
        return scores


def cut_into_windows(text: str, tokenizer: Tokenizer) -> list[str]:
    """Return consecutive sentences of ``text`` in windows of at most 120 tokens; a longer sentence is one alone."""
    found = [" ".join(text[start:end].split()) for start, end in sentences(text)]
    sized = zip(found, tokenizer.count_many(found), strict=True)
    groups = pack(sized, most=len(found), room=120, size=lambda each: each[1])
    return [" ".join(sentence for sentence, _ in group) for group in groups]


async def answer_flat(settings: Settings, documents: Sequence[str], question: str, budget: int) -> str:
    """Return the flat reply to one question."""
    index = await FlatIndex.of(documents, embedder_source(settings), TiktokenTokenizer(), question)
    return await index.answer((question,), budget)


FLAT = "flat"  # The name of the plain way, which is not the engine's


Answerer = Callable[[Sequence[str], int], Awaitable[str]]
"""Returns the text of a reply to a question and its sub-queries within a number of tokens."""


@dataclass(frozen=True, slots=True)
class ReplyResult:
    """Which facts of a question the first ``budget`` tokens of a reply state, in the question's order."""

    question: ReplyQuestion
    way: str
    budget: int
    found: tuple[bool, ...]
    tokens: int

    @property
    def share(self) -> float:
        """The share of the facts, in percent."""
        return 100 * mean(self.found)


@dataclass(frozen=True, slots=True)
class FactCoverage:
    """The figures of one way at one budget, in percent: the mean share of a question's facts, the questions with all of theirs.
    ``against``: by how much the share exceeds that of the first way, with 95 % bounds; None for that way. ``first_needs``: the tokens
    in which the first way states as many facts, interpolated between its budgets; None if it states so many in none of them."""

    way: str
    budget: int
    questions: int
    facts: float
    all_facts: float
    tokens: float
    against: Interval | None
    first_needs: float | None = None

    def as_json(self) -> dict[str, object]:
        found: dict[str, object] = {
            "way": self.way,
            "budget": self.budget,
            "questions": self.questions,
            "facts": round(self.facts, 2),
            "all": round(self.all_facts, 2),
            "tokens": round(self.tokens, 1),
        }
        if self.against:
            found |= {key: round(value, 2) for key, value in asdict(self.against).items()}
            found |= {"first_needs": None if self.first_needs is None else round(self.first_needs)}
        return found


@dataclass(frozen=True, slots=True)
class ReplyEvaluation:
    """The results on one set. ``unstated`` names the facts that no document states, ``failed`` the unread documents."""

    name: str
    results: tuple[ReplyResult, ...]
    unstated: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def figures(self) -> list[FactCoverage]:
        return figures_of(self.results)


def figures_of(results: Sequence[ReplyResult]) -> list[FactCoverage]:
    """Return the figures by budget, then by way, in the order of the results; questions have equal weight."""
    by_key = group(((each.budget, each.way), each) for each in results)
    first = {budget: found for (budget, way), found in by_key.items() if way == results[0].way}
    figures = []
    for (budget, way), found in sorted(by_key.items(), key=lambda item: item[0][0]):
        shares = [each.share for each in found]
        others = [each.share for each in first[budget]]
        figures.append(
            FactCoverage(
                way=way,
                budget=budget,
                questions=len(found),
                facts=mean(shares),
                all_facts=100 * mean([all(each.found) for each in found]),
                tokens=mean([each.tokens for each in found]),
                against=None if found is first[budget] else bootstrap_difference(shares, others),
            )
        )
    curve = [each for each in figures if each.way == results[0].way]
    return [
        replace(each, first_needs=_tokens_for(each.facts, curve)) if each.against else each
        for each in figures
    ]


def _tokens_for(facts: float, curve: Sequence[FactCoverage]) -> float | None:
    """Return the tokens at which a way states this share of the facts, by straight lines between its budgets and zero."""
    below = (0.0, 0.0)
    for each in curve:
        if each.facts >= facts:
            share = (facts - below[0]) / (each.facts - below[0]) if each.facts > below[0] else 0.0
            return below[1] + share * (each.tokens - below[1])
        below = (each.facts, each.tokens)
    return None


def check(ways: Sequence[str], budgets: Sequence[int], sets: Sequence[ReplySet]) -> list[Strategy]:
    """Return the strategies of the engine among ``ways``. Raises ``InvalidInput`` before any work is done."""
    names = [each.strip() for each in ways if each.strip()]
    strategies = parse_strategies(names, [Strategy(FLAT, parse_strategies(["naive"])[0].query)])
    for strategy in strategies:
        for each in sets:
            asked = {
                one.id: replace(strategy.query, text=one.text, sub_queries=one.sub_queries)
                for one in each.questions
            }
            check_queries(strategy, budgets, asked)
    return strategies


async def evaluate_replies(
    settings: Settings,
    reply_set: ReplySet,
    ways: Sequence[Strategy],
    budgets: Sequence[int],
    report: ProgressReport,
    *,
    use_queries: bool = False,
) -> ReplyEvaluation:
    """Build a collection of the set's documents in ``settings.data_dir``, or take that of the settings if the set has none,
    and ask every question in each way. ``use_queries``: the set's own sub-queries are given with a question."""
    adapters = await compose(settings)
    async with (
        open_folder_scratch(settings, adapters, reply_set.documents, report)
        if reply_set.documents
        else open_existing(settings, adapters)
    ) as scratch:
        documents = await _read_documents(adapters, scratch.collection)
        answerers: Mapping[str, Answerer] = {
            way.name: (await FlatIndex.of(documents, adapters.embedders, adapters.tokenizer)).answer
            if way.name == FLAT
            else _engine_answerer(scratch, way)
            for way in ways
        }
        results = []
        for number, question in enumerate(reply_set.questions):
            report(Progress("ask", number, len(reply_set.questions)))
            queries = (question.text, *(question.sub_queries if use_queries else ()))
            for way, ask in answerers.items():
                for budget in budgets:
                    text = await ask(queries, budget)
                    tokens = adapters.tokenizer.count(text)
                    read = _cut_tokens(text, budget, adapters.tokenizer)
                    found = tuple(fact.is_in(read) for fact in question.facts)
                    results.append(ReplyResult(question, way, budget, found, tokens))
    unstated = [
        f"fact {at} of {question.id}"
        for question in reply_set.questions
        for at, fact in enumerate(question.facts)
        if not any(fact.is_in(text) for text in documents)
    ]
    return ReplyEvaluation(reply_set.name, tuple(results), tuple(unstated), scratch.failed)


def _engine_answerer(scratch: ScratchCollection, way: Strategy) -> Answerer:
    async def ask(queries: Sequence[str], budget: int) -> str:
        text, *sub_queries = queries
        query = replace(way.query, text=text, sub_queries=tuple(sub_queries), token_budget=budget)
        # The text of a tool's concise reply is the context, nothing else.
        return (await scratch.engine.query(query, collection=scratch.collection)).context.text

    return ask


async def _read_documents(adapters: Adapters, collection: str) -> list[str]:
    passages = [each async for each in read_passages(adapters.documents, collection, None)]
    parts = group((each.document, each) for each in passages)
    return [join_passages(each) for each in parts.values()]


def _cut_tokens(text: str, budget: int, tokenizer: Tokenizer) -> str:
    """Return the longest beginning of ``text`` that has at most ``budget`` tokens."""
    if tokenizer.count(text) <= budget:
        return text
    return text[: bisect_right(range(len(text)), budget, key=lambda end: tokenizer.count(text[:end])) - 1]
