"""Answering a question by a model from a context alone, with citations that are checked against it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .asking import Meter, ask
from .model import Context
from .ports import ChatModel, ChatRequest, Message
from .prompts import prompt
from .retrieval.rendering import fence_for, fenced

__all__ = ["ANSWER_TOKENS", "Answer", "answer", "answer_request"]

ANSWER_TOKENS = 2000
"""Room of an answer. Models that think before they write need more than the answer shows."""

_CITATION = re.compile(r"\bd\d+:c\d+\b")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered. ``cited`` citations stand in its context, ``unfounded`` ones do not."""

    text: str
    cited: tuple[str, ...]
    unfounded: tuple[str, ...]


async def answer(
    model: ChatModel, question: str, context: Context, meter: Meter, *, temperature: float = 0.0
) -> Answer:
    """Raises what the model raises, and ``ReplyUnusable`` if twice no whole answer came."""
    request = answer_request(question, context, temperature=temperature)
    return await ask(model, request, lambda text: checked(text, context), meter)


def answer_request(question: str, context: Context, *, temperature: float = 0.0) -> ChatRequest:
    """What is asked: equal questions and contexts, equal requests."""
    text = prompt("answer", question=fence(question), evidence=fence(context.text))
    return ChatRequest((Message("user", text),), ANSWER_TOKENS, temperature=temperature)


def checked(text: str, context: Context) -> Answer:
    """The answer with its citations sorted by whether the context holds them."""
    named = tuple(dict.fromkeys(_CITATION.findall(text)))
    known = set(context.cited)
    return Answer(
        text,
        tuple(each for each in named if each in known),
        tuple(each for each in named if each not in known),
    )


def fence(text: str) -> str:
    """``text`` between lines of backticks that nothing in it can close."""
    return fenced(text, fence_for([text]))
