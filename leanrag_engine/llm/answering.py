"""Answer a question by a model from a context alone, and check the citations against it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.model import Context
from leanrag_engine.core.ports import ChatModel, ChatRequest, Message
from leanrag_engine.core.text.citation import find_citations
from leanrag_engine.core.text.cleaning import fence

from .batching import Meter, ask, for_each
from .prompts import BUILT_IN, Prompts

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


async def answer(
    model: ChatModel,
    question: str,
    context: Context,
    meter: Meter,
    *,
    open_mode: bool = False,
    prompts: Prompts = BUILT_IN,
) -> Answer:
    """Answer the question. Raises the errors of the model, and ``ReplyUnusable`` if two replies are incomplete."""
    request = answer_request(question, context, open_mode=open_mode, prompts=prompts)
    return await ask(model, request, lambda text: check_answer(text, context), meter, prompts)


async def answer_from_pages(
    model: ChatModel,
    question: str,
    pages: Sequence[Context],
    meter: Meter,
    *,
    open_mode: bool,
    prompts: Prompts,
) -> Answer:
    """Answer from each page, several at once, then from these answers, whose citations stay (GraphRAG's map and reduce)."""
    if len(pages) == 1:
        return await answer(model, question, pages[0], meter, open_mode=open_mode, prompts=prompts)
    parts: dict[int, Answer] = {}

    async def read(number: int) -> None:
        parts[number] = await answer(model, question, pages[number], meter, prompts=prompts)

    await for_each(range(len(pages)), read, places=model.concurrency)
    useful = [parts[number] for number in sorted(parts) if parts[number].sufficient]
    if len(useful) <= 1 and not open_mode:
        return useful[0] if useful else parts[0]
    cited = tuple(dict.fromkeys(citation for each in useful for citation in each.cited))
    united = Context("\n\n".join(each.text for each in useful), 0, False, cited)
    return await answer(model, question, united, meter, open_mode=open_mode, prompts=prompts)


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
