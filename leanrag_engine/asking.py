"""Asking a model: one request, its reply read and checked, one second chance, and what it all used."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .errors import ReplyUnusable
from .ports import ChatModel, ChatRequest, FinishReason, Message, Reply
from .prompts import prompt

T = TypeVar("T")

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
"""Some local servers leave a reasoning model's thoughts in its reply."""

_QUOTED = 80
"""Characters of a bad reply that an error shows."""

ROOM = 2
"""A reply that was cut off gets so many times the room at the second try."""


@dataclass(slots=True)
class Meter:
    """Adds up what replies used, also those that could not be used. ``cost`` leaves out ``unpriced`` replies."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def note(self, reply: Reply) -> None:
        self.calls += 1
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.cost += reply.cost or 0.0
        self.unpriced += reply.cost is None


async def ask(model: ChatModel, request: ChatRequest, read: Callable[[str], T], meter: Meter) -> T:
    """What ``read`` makes of the reply. A reply that is not whole, or that ``read`` refuses with
    ``ReplyUnusable``, is asked for once more with the problem quoted; then its error is the caller's."""
    reply = await model.complete(request)
    meter.note(reply)
    try:
        return read(whole(reply))
    except ReplyUnusable as problem:
        second = once_more(request, reply, problem.message)
    reply = await model.complete(second)
    meter.note(reply)
    return read(whole(reply))


def once_more(request: ChatRequest, reply: Reply, problem: str) -> ChatRequest:
    """The same request after the reply and what is wrong with it."""
    given = (Message("assistant", reply.text),) if reply.text.strip() else ()
    note = Message("user", prompt("ask_again", problem=problem))
    room = ROOM if reply.finish_reason is FinishReason.LENGTH else 1
    return replace(request, messages=(*request.messages, *given, note), max_tokens=room * request.max_tokens)


def whole(reply: Reply) -> str:
    """The text of a reply that is one. Raises ``ReplyUnusable`` for one that is cut off, refused or empty."""
    text = _THOUGHT.sub("", reply.text).strip()
    match reply.finish_reason:
        case FinishReason.LENGTH:
            raise ReplyUnusable(f"The reply was cut off after {reply.completion_tokens} tokens.")
        case FinishReason.REFUSAL:
            raise ReplyUnusable(f"The model refused: {shown(text)}" if text else "The model refused.")
        case FinishReason.EMPTY | FinishReason.STOP if not text:
            raise ReplyUnusable("The reply is empty.")
    return text


def read_object(text: str) -> dict[str, Any]:
    """The JSON object in a reply: in a code fence, amid prose, with small faults. Raises ``ReplyUnusable``."""
    from json_repair import loads  # noqa: PLC0415 - only where a model is asked

    found = loads(text)
    # Several stand in a list; the last is what the model arrived at.
    objects = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]
    if not objects:
        raise ReplyUnusable(f"The reply holds no JSON object; it is {shown(text)}")
    return objects[-1]


def shown(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= _QUOTED else f'"{line[: _QUOTED - 1]}…"'
