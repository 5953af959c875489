"""Answer a question by a model from a context alone, and check the citations against it; or in bounded rounds: divide it,
retrieve, let the model say what is missing, retrieve that, answer."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

import anyio

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.model import Context, JsonObject, JsonSchema
from leanrag_engine.core.ports import ChatModel, ChatRequest, Message
from leanrag_engine.core.text.citation import find_citations
from leanrag_engine.core.text.cleaning import clean, fence
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.shortening import one_line, shorten

from .batching import Meter, ask, for_each, quote, read_object
from .item_schema import object_schema
from .prompts import BUILT_IN, Prompts

T = TypeVar("T")

PAGE_TOKENS, LEAST_PAGE = 4000, 500
"""Tokens of a page of summaries that one call reads, and those up to which another page is not worth its call."""

_GAP = re.compile(r"\A\W*insufficient\b[^\w\n]*", re.IGNORECASE)
"""The beginning of an answer for which the evidence is insufficient, as the prompt demands."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer. ``cited`` citations are in its context, ``unfounded`` ones are not; ``sufficient``:
    it cites some, and does not call the evidence insufficient."""

    text: str
    cited: tuple[str, ...]
    unfounded: tuple[str, ...]
    sufficient: bool = True
    declined: bool = False
    """Whether the model calls the evidence insufficient."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A model that answers, what it used, and its prompts. In ``open_mode`` it may add what it knows; else it declines where
    evidence lacks."""

    model: ChatModel
    meter: Meter = field(default_factory=Meter)
    prompts: Prompts = BUILT_IN
    open_mode: bool = False

    async def ask(self, request: ChatRequest, read: Callable[[str], T]) -> T:
        """Return what ``read`` makes of the reply, as :func:`leanrag_engine.llm.batching.ask`."""
        return await ask(self.model, request, read, self.meter, self.prompts)


async def answer(by: Answerer, question: str, context: Context) -> Answer:
    """Answer the question. Raises the errors of the model, and ``ReplyUnusable`` if two replies are incomplete."""
    request = answer_request(question, context, open_mode=by.open_mode, prompts=by.prompts)
    return await by.ask(request, lambda text: check_answer(text, context))


async def answer_from_pages(by: Answerer, question: str, pages: Sequence[Context]) -> Answer:
    """Answer from each page, several at once, then from these answers, whose citations stay (GraphRAG's map and reduce)."""
    if len(pages) == 1:
        return await answer(by, question, pages[0])
    parts: dict[int, Answer] = {}

    async def read(number: int) -> None:
        parts[number] = await answer(replace(by, open_mode=False), question, pages[number])

    await for_each(range(len(pages)), read, places=by.model.concurrency)
    useful = [parts[number] for number in sorted(parts) if parts[number].sufficient]
    if len(useful) <= 1 and not by.open_mode:
        return useful[0] if useful else parts[0]
    cited = tuple(dict.fromkeys(citation for each in useful for citation in each.cited))
    return await answer(by, question, Context("\n\n".join(each.text for each in useful), 0, False, cited))


def answer_request(
    question: str, context: Context, *, open_mode: bool = False, prompts: Prompts = BUILT_IN
) -> ChatRequest:
    """Return the request. In ``open_mode`` the model may add what it knows; else it has to decline where evidence lacks."""
    text = prompts.fill(
        "answer_open" if open_mode else "answer", question=fence(question), evidence=fence(context.text)
    )
    # Reasoning models need more tokens than the answer shows.
    return ChatRequest((Message("user", text),), 2000, temperature=0.0, step="answer")


def check_answer(text: str, context: Context) -> Answer:
    """Return the answer with its citations. Raises ``ReplyUnusable`` if it only says that the evidence is insufficient."""
    settled = _GAP.search(text) is None
    text = _GAP.sub("", text).strip()
    if not text:
        raise ReplyUnusable("The answer does not say what is missing.")
    named = find_citations(text)
    known = set(context.cited)
    cited = tuple(each for each in named if each in known)
    unfounded = tuple(each for each in named if each not in known)
    return Answer(text, cited, unfounded, sufficient=settled and bool(cited), declined=not settled)


LONGEST_QUERY = 500  # Characters of a search that a model writes
LONGEST_KNOWN = 3000  # Characters of what a model has concluded from the evidence
TYPED = (
    "- The documents were read by a schema. Where they fit, write each search in its terms: the type of entity that is sought, "
    "the entity that it starts from, the relation or attribute that joins them."
)

Retrieve = Callable[[Sequence[str], Sequence[str], int], Awaitable[Context]]
"""Returns the context of some searches without what the given citations name, within a number of tokens."""


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What an iterative answer may cost. ``tokens`` holds the evidence of all rounds; no round begins after ``seconds``."""

    rounds: int = 4
    tokens: int = 4000
    seconds: float = 25.0
    queries: int = 4  # Searches of one round
    least: int = 200  # Tokens below which another round is not worth its call


class Ending(StrEnum):
    """Why there was no further round."""

    SUFFICIENT = "the model found the evidence sufficient"
    NO_QUERY = "the model had no further search"
    NOTHING_NEW = "nothing new was found"
    ROUNDS = "the last round was reached"
    TOKENS = "the token budget is spent"
    SECONDS = "the time is over"
    UNREADABLE = "the model's reply could not be read, twice"


@dataclass(frozen=True, slots=True)
class AnswerRound:
    """One round: its searches, the citations that no earlier round had found, the tokens of its evidence, and what the
    model then found missing ("" if nothing, or if it was not asked)."""

    queries: tuple[str, ...]
    found: tuple[str, ...]
    tokens: int
    missing: str = ""


@dataclass(frozen=True, slots=True)
class IterativeAnswer:
    """An answer from ``context``, the united evidence of the ``rounds``."""

    answer: Answer
    context: Context
    rounds: tuple[AnswerRound, ...]
    ending: Ending


@dataclass(frozen=True, slots=True)
class _Reflection:
    """What a model says of the evidence."""

    sufficient: bool
    known: str
    missing: str
    queries: tuple[str, ...]


async def answer_iteratively(
    by: Answerer, question: str, retrieve: Retrieve, limits: AnswerLimits, schema: str
) -> IterativeAnswer:
    """Answer the question, which is asked as it stands if the model's division of it cannot be read. ``schema`` names
    the types of the collection's schema, in whose terms the model is to ask; "" if there is none. Raises the errors
    of the model, and ``ReplyUnusable`` if two replies with the answer are incomplete."""
    typed = f"\n{TYPED} {schema}" if schema else ""
    deadline = anyio.current_time() + limits.seconds
    ending: Ending | None = None
    try:
        text = by.prompts.fill("decompose", question=fence(question), most=str(limits.queries), schema=typed)
        request = _make_request(text, "decompose", {"queries": _QUERIES})
        queries = await by.ask(request, lambda reply: _read_queries(read_object(reply), limits.queries))
    except ReplyUnusable:
        queries, ending = (), Ending.UNREADABLE
    queries = tuple(dict.fromkeys((question, *queries)))
    asked = {fold_case(each) for each in queries}
    rounds: list[AnswerRound] = []
    contexts: list[Context] = []
    cited: dict[str, None] = {}
    room, known = limits.tokens, "nothing yet"
    while True:
        is_last = ending is not None or len(rounds) + 1 >= limits.rounds
        budget = room if is_last else min(room, max(room // 2, limits.least))
        found = await retrieve(queries, tuple(cited), budget)
        new = tuple(each for each in found.cited if each not in cited)
        if new:
            contexts.append(found)
            cited |= dict.fromkeys(new)
            room -= found.tokens
        rounds.append(AnswerRound(queries, new, found.tokens))
        ending = ending or _find_ending(new, is_last=is_last, room=room, deadline=deadline, limits=limits)
        if ending:
            break
        try:
            text = by.prompts.fill(
                "reflect",
                question=fence(question),
                queries="\n".join(f"- {one_line(each)}" for each in sorted(asked)),
                known=fence(known),
                evidence=fence(unite_contexts(contexts).text),
                most=str(limits.queries),
                schema=typed,
            )
            request = _make_request(text, "reflect", _REFLECTION)
            reflection = await by.ask(request, lambda reply: _read_reflection(reply, limits.queries))
        except ReplyUnusable:
            ending = Ending.UNREADABLE
            break
        rounds[-1] = AnswerRound(queries, new, found.tokens, reflection.missing)
        known = reflection.known or known
        queries = tuple(each for each in reflection.queries if fold_case(each) not in asked)
        if reflection.sufficient or not queries:
            ending = Ending.SUFFICIENT if reflection.sufficient else Ending.NO_QUERY
            break
        asked |= {fold_case(each) for each in queries}
    context = unite_contexts(contexts)
    return IterativeAnswer(await answer(by, question, context), context, tuple(rounds), ending)


def _find_ending(
    new: Sequence[str], *, is_last: bool, room: int, deadline: float, limits: AnswerLimits
) -> Ending | None:
    if not new:
        return Ending.NOTHING_NEW
    if is_last:
        return Ending.ROUNDS
    if room < limits.least:
        return Ending.TOKENS
    return Ending.SECONDS if anyio.current_time() > deadline else None


def unite_contexts(contexts: Sequence[Context]) -> Context:
    """Return several contexts as one; each has evidence that the others lack."""
    return Context(
        "\n\n".join(each.text for each in contexts),
        sum(each.tokens for each in contexts),
        any(each.truncated for each in contexts),
        tuple(dict.fromkeys(citation for each in contexts for citation in each.cited)),
    )


_QUERIES: JsonSchema = {"type": "array", "items": {"type": "string"}}
_REFLECTION: dict[str, JsonSchema] = {
    "known": {"type": "string"},
    "missing": {"type": "string"},
    "sufficient": {"type": "boolean"},
    "queries": _QUERIES,
}


def _make_request(text: str, step: str, properties: Mapping[str, JsonSchema]) -> ChatRequest:
    schema: JsonSchema = {"title": step, **object_schema(properties)}
    return ChatRequest((Message("user", text),), 1000, schema, temperature=0.0, step=step)


def _read_reflection(text: str, most: int) -> _Reflection:
    found = read_object(text)
    sufficient, known, missing = found.get("sufficient"), found.get("known"), found.get("missing", "")
    if not isinstance(sufficient, bool):
        raise ReplyUnusable(f'"sufficient" is {quote(repr(sufficient))}; expected true or false.')
    missing = "" if sufficient or not isinstance(missing, str) else shorten(one_line(missing), LONGEST_QUERY)
    known = shorten(one_line(clean(known)), LONGEST_KNOWN) if isinstance(known, str) else ""
    return _Reflection(sufficient, known, missing, () if sufficient else _read_queries(found, most))


def _read_queries(found: JsonObject, most: int) -> tuple[str, ...]:
    queries = found.get("queries")
    if not isinstance(queries, list) or not all(isinstance(each, str) for each in queries):
        raise ReplyUnusable(f'"queries" is {quote(repr(queries))}; expected a list of strings.')
    texts = (shorten(one_line(clean(each)).strip(), LONGEST_QUERY) for each in queries)
    return tuple(dict.fromkeys(filter(None, texts)))[:most]
