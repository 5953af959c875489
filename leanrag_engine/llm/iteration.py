"""Answer a question in bounded rounds: divide it, retrieve, let the model say what is missing, retrieve that, answer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import anyio

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.model import Context, JsonObject, JsonSchema
from leanrag_engine.core.ports import ChatModel, ChatRequest, Message
from leanrag_engine.core.text.cleaning import clean, fence
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.shortening import one_line, shorten

from .answering import Answer, answer
from .batching import Meter, ask, quote, read_object
from .item_schema import object_schema
from .prompts import Prompts

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
    model: ChatModel,
    question: str,
    retrieve: Retrieve,
    split: Callable[[str], Sequence[str]],
    meter: Meter,
    limits: AnswerLimits,
    prompts: Prompts,
    schema: str,
    *,
    open_mode: bool,
) -> IterativeAnswer:
    """Answer the question. ``split`` divides it by rule if the model's own division cannot be read. ``schema`` names
    the types of the collection's schema, in whose terms the model is to ask; "" if there is none. Raises the errors
    of the model, and ``ReplyUnusable`` if two replies with the answer are incomplete."""
    typed = f"\n{TYPED} {schema}" if schema else ""
    deadline = anyio.current_time() + limits.seconds
    ending: Ending | None = None
    try:
        text = prompts.fill("decompose", question=fence(question), most=str(limits.queries), schema=typed)
        request = _make_request(text, "decompose", {"queries": _QUERIES})
        queries = await ask(
            model, request, lambda reply: _read_queries(read_object(reply), limits.queries), meter, prompts
        )
    except ReplyUnusable:
        queries, ending = tuple(split(question)), Ending.UNREADABLE
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
            text = prompts.fill(
                "reflect",
                question=fence(question),
                queries="\n".join(f"- {one_line(each)}" for each in sorted(asked)),
                known=fence(known),
                evidence=fence(unite_contexts(contexts).text),
                most=str(limits.queries),
                schema=typed,
            )
            request = _make_request(text, "reflect", _REFLECTION)
            reflection = await ask(
                model, request, lambda reply: _read_reflection(reply, limits.queries), meter, prompts
            )
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
    written = await answer(model, question, context, meter, open_mode=open_mode, prompts=prompts)
    return IterativeAnswer(written, context, tuple(rounds), ending)


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
