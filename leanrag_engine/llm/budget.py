"""What calls of a model may use: token counts, prices, caps that are never passed, and services that stop answering."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import anyio

from leanrag_engine.core.errors import CapReached, InvalidInput, ModelUnavailable
from leanrag_engine.core.model import Spent
from leanrag_engine.core.ports import ChatModel, ChatRequest, Price, ReplyStore, Tokenizer


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that a job may use over all its runs, in calls, tokens of prompts and replies, and US dollars; ``None``: no limit."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls use: their number, tokens of prompts and replies, and cost in US dollars."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.calls + other.calls, self.tokens + other.tokens, self.cost + other.cost)

    def passes(self, caps: Caps) -> str:
        """Name the cap that this use passes; "" if none."""
        if caps.calls is not None and self.calls > caps.calls:
            return f"{caps.calls} calls"
        if caps.tokens is not None and self.tokens > caps.tokens:
            return f"{caps.tokens} tokens"
        if caps.cost is not None and self.cost > caps.cost:
            return f"${caps.cost:g}"
        return ""


class Budget:
    """Track what a job has used of its caps. The most that a call may use is reserved before it and settled afterwards:
    services write at most ``max_tokens``, and :class:`TokenScale` learns how a model's tokenizer differs from ours."""

    def __init__(self, caps: Caps, used: Usage = Usage()) -> None:
        self._caps = caps
        self._used = used
        self._reserved: dict[int, Usage] = {}
        self._numbers = 0
        self._settled = anyio.Event()

    @classmethod
    async def open(
        cls, caps: Caps, models: Iterable[ChatModel], replies: ReplyStore, collection: str, job_id: str
    ) -> Self:
        """Open a budget that counts what the job spent before. Raises ``InvalidInput`` for a cap in dollars without a known price."""
        if caps.cost is not None and (unpriced := [each.name for each in models if each.price is None]):
            raise InvalidInput(
                f"The price of model {unpriced[0]!r} is unknown, so a cap in dollars cannot be enforced.",
                "Cap the calls or the tokens instead.",
            )
        return cls(caps, total_use(await replies.spending(collection, job_id)))

    async def reserve(self, need: Usage) -> int:
        """Reserve ``need``, once running calls leave enough, and return its number for :meth:`settle`. Raises
        ``CapReached`` if they cannot."""
        while (sum(self._reserved.values(), self._used) + need).passes(self._caps):
            if (cap := (self._used + need).passes(self._caps)) or not self._reserved:
                raise CapReached(
                    f"One more call could pass the cap of {cap}.",
                    "Raise the cap and build again: paid replies are kept, and only the rest is requested.",
                )
            await self._settled.wait()
        self._numbers += 1
        self._reserved[self._numbers] = need
        return self._numbers

    def settle(self, number: int, used: Usage) -> None:
        """Replace a reservation by what the call really used."""
        del self._reserved[number]
        self._used += used
        self._settled.set()
        self._settled = anyio.Event()


def total_use(spent: Iterable[Spent]) -> Usage:
    """Sum the spending of several steps."""
    rows = list(spent)
    return Usage(
        sum(each.calls for each in rows),
        sum(each.prompt_tokens + each.completion_tokens for each in rows),
        sum(each.cost for each in rows),
    )


def cost_of(price: Price, prompt_tokens: int, completion_tokens: int) -> float:
    """Return the cost of a call in US dollars."""
    return price.prompt * prompt_tokens + price.completion * completion_tokens


def count_prompt(tokenizer: Tokenizer, request: ChatRequest, overhead: int = 8) -> int:
    """Count the prompt's tokens, its schema included; ``overhead``: those around each message that only a model's own tokenizer sees."""
    texts = [each.text for each in request.messages]
    if request.schema is not None:
        texts.append(json.dumps(request.schema, ensure_ascii=False))
    return sum(tokenizer.count_many(texts)) + overhead * len(texts)


@dataclass(slots=True)
class TokenScale:
    """Estimate how many tokens a model's own tokenizer makes of a text: ``prior`` times ours until ``enough``
    prompts were measured, then ``margin`` times the largest ratio seen (safe guesses, not tuned)."""

    prior: float = 2.0
    margin: float = 1.25
    enough: int = 8

    largest: float = 0.0
    seen: int = 0

    def note(self, counted: int, actual: int) -> None:
        """Record one prompt: our count and the model's."""
        if counted and actual:
            self.largest = max(self.largest, actual / counted)
            self.seen += 1

    def upper_bound(self, counted: int) -> int:
        """Return the most tokens that the model may count where we count ``counted``."""
        factor = self.margin * self.largest
        if self.seen < self.enough:
            factor = max(self.prior, factor)
        return round(factor * counted + 0.5)


@dataclass(slots=True)
class CircuitBreaker:
    """Stops calls to a service after ``limit`` calls in a row without an answer, or one that was met with silence."""

    limit: int = 3
    failures: int = 0

    def check(self, name: str) -> None:
        """Raise ``ModelUnavailable`` if the service is considered dead."""
        if self.failures >= self.limit:
            raise ModelUnavailable(
                f"Model {name!r} does not answer and is not called any more.",
                "Build again when it answers: paid replies are kept, and only the rest is requested.",
            )
