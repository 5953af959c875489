"""What calls of a model cost: replies that are paid for once, caps that are never passed, a forecast of a job.

Everything that pays goes through :class:`CachedModel`. What a reply used is noted in the same row of the graph
store that keeps its text, so that no call that was answered is ever forgotten or made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import anyio

from leanrag_engine.core.errors import (
    Busy,
    CapReached,
    InvalidInput,
    LeanRAGError,
    ModelUnavailable,
    ReplyUnusable,
)
from leanrag_engine.core.model import Spent
from leanrag_engine.core.ports import ChatModel, ChatRequest, GraphStore, Price, Reply, Tokenizer

BROKEN = 3
"""Calls in a row without an answer after which a service is not called any more."""

TRIES = 4
"""How often a paid reply is written to a store that is busy."""

MESSAGE = 8
"""Tokens around each message that only the model's own tokenizer sees."""

STRANGE, MARGIN, TRUSTED = 2.0, 1.25, 8
"""A model's tokenizer may make so many times the tokens that ours counts, as long as fewer than ``TRUSTED``
prompts were measured; from then on, so many times the largest ratio seen."""

GUESS = 0.3
"""The share of a reply's room that it is guessed to take where none was seen yet."""


def digest_of(model: str, request: ChatRequest) -> str:
    """What equal requests to one model share: the hash of all that is sent."""
    sent = {
        "model": model,
        "messages": [[each.role, each.text] for each in request.messages],
        "max_tokens": request.max_tokens,
        "schema": request.schema,
        "temperature": request.temperature,
        "seed": request.seed,
    }
    text = json.dumps(sent, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


def count_prompt(tokenizer: Tokenizer, request: ChatRequest) -> int:
    """The prompt's tokens as ours count, with the schema that goes along."""
    texts = [each.text for each in request.messages]
    if request.schema is not None:
        texts.append(json.dumps(request.schema, ensure_ascii=False))
    return sum(tokenizer.count_many(texts)) + MESSAGE * len(texts)


# --- caps ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that a job may use, with what it used before it was interrupted; ``None``: no limit.

    ``tokens`` counts prompts and replies; ``cost`` is in US dollars.
    """

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What calls use."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Use) -> Use:
        return Use(self.calls + other.calls, self.tokens + other.tokens, self.cost + other.cost)

    def passes(self, caps: Caps) -> str:
        """Which cap would be passed; "" if none."""
        if caps.calls is not None and self.calls > caps.calls:
            return f"{caps.calls} calls"
        if caps.tokens is not None and self.tokens > caps.tokens:
            return f"{caps.tokens} tokens"
        if caps.cost is not None and self.cost > caps.cost:
            return f"${caps.cost:g}"
        return ""


class Budget:
    """What a job has used of its caps, over all its models.

    The most that a call may use is reserved before it is made, and settled when it is known. So the caps hold
    as far as no call uses more than that: no service writes more than ``max_tokens``, and how far its tokenizer
    differs from ours is learned.
    """

    def __init__(self, caps: Caps, used: Use = Use()) -> None:
        self._caps = caps
        self._used = used
        self._reserved: dict[int, Use] = {}
        self._numbers = 0
        self._settled = anyio.Event()

    @classmethod
    async def open(
        cls, caps: Caps, models: Iterable[ChatModel], graph: GraphStore, collection: str, job_id: str
    ) -> Self:
        """With what the job spent before, if it was interrupted. Raises ``InvalidInput`` for a cap in dollars
        where a model's price is unknown."""
        if caps.cost is not None:
            _check_prices(models)
        return cls(caps, total_use(await graph.spent(collection, job_id)))

    @property
    def used(self) -> Use:
        return self._used

    async def reserve(self, need: Use) -> int:
        """Waits while calls under way may turn out to leave enough. Raises ``CapReached`` if they cannot.

        The number that it gives is what :meth:`settle` takes.
        """
        while (self._used + self._held() + need).passes(self._caps):
            if (cap := (self._used + need).passes(self._caps)) or not self._reserved:
                raise CapReached(
                    f"One more call could pass the cap of {cap}.",
                    "Raise the cap and build again: what was paid for is kept, and only the rest is asked for.",
                )
            await self._settled.wait()
        self._numbers += 1
        self._reserved[self._numbers] = need
        return self._numbers

    def settle(self, number: int, used: Use) -> None:
        del self._reserved[number]
        self._used += used
        self._settled.set()
        self._settled = anyio.Event()

    def _held(self) -> Use:
        return sum(self._reserved.values(), Use())


def total_use(spent: Iterable[Spent]) -> Use:
    rows = list(spent)
    return Use(
        sum(each.calls for each in rows),
        sum(each.prompt_tokens + each.completion_tokens for each in rows),
        sum(each.cost for each in rows),
    )


def _check_prices(models: Iterable[ChatModel]) -> None:
    for model in models:
        if model.price is None:
            raise InvalidInput(
                f"The price of model {model.name!r} is not known, so that no cap in dollars can be kept.",
                "Cap the calls or the tokens instead.",
            )


# --- one model -----------------------------------------------------------------------------


@dataclass(slots=True)
class TokenScale:
    """How many tokens a model's own tokenizer makes of what ours counts."""

    largest: float = 0.0
    seen: int = 0

    def note(self, counted: int, actual: int) -> None:
        if counted and actual:
            self.largest = max(self.largest, actual / counted)
            self.seen += 1

    def most(self, counted: int) -> int:
        """The most that it may make of so many."""
        factor = MARGIN * self.largest if self.seen >= TRUSTED else max(STRANGE, MARGIN * self.largest)
        return round(factor * counted + 0.5)


@dataclass(slots=True)
class CircuitBreaker:
    """Whether a service answers: after ``BROKEN`` calls in a row without an answer it is taken for dead."""

    failures: int = 0

    def check(self, name: str) -> None:
        """Raises ``ModelUnavailable`` for a dead one."""
        if self.failures >= BROKEN:
            raise ModelUnavailable(
                f"Model {name!r} left {BROKEN} calls in a row without an answer, and is not asked any more.",
                "Build again when it answers: what was paid for is kept, and only the rest is asked for.",
            )


@dataclass(slots=True)
class _PendingRequest:
    """A request under way, and what came of it: neither if it was cancelled."""

    landed: anyio.Event = field(default_factory=anyio.Event)
    reply: Reply | None = None
    problem: LeanRAGError | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where replies are kept, for which collection and job."""

    graph: GraphStore
    collection: str
    job_id: str


class ModelWrapper:
    """What a model that wraps another one has from it."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def concurrency(self) -> int:
        return self._model.concurrency

    @property
    def price(self) -> Price | None:
        return self._model.price

    async def close(self) -> None:
        await self._model.close()


class CachedModel(ModelWrapper):
    """A chat model that pays for each reply once. Implements :class:`leanrag_engine.core.ports.ChatModel`.

    A reply that is kept in the graph store is given again; equal requests at one time are one call; no call
    passes the budget's caps (``CapReached``), and none goes to a service that is dead (``ModelUnavailable``).
    With ``redo``, a request that is marked ``anew`` is asked again once a job, and its reply takes the place of
    the one that was kept; without, the mark means nothing.
    """

    def __init__(
        self, model: ChatModel, ledger: Ledger, budget: Budget, tokenizer: Tokenizer, *, redo: bool = False
    ) -> None:
        super().__init__(model)
        self._ledger = ledger
        self._budget = budget
        self._tokenizer = tokenizer
        self._redo = redo
        self._scale = TokenScale()
        self._line = CircuitBreaker()
        self._flights: dict[tuple[str, bool], _PendingRequest] = {}

    async def complete(self, request: ChatRequest) -> Reply:
        """See :meth:`leanrag_engine.core.ports.ChatModel.complete`; also raises ``CapReached``."""
        digest = digest_of(self.name, request)
        key = digest, self._redo and request.anew
        while (other := self._flights.get(key)) is not None:
            await other.landed.wait()
            if other.problem is not None:
                raise type(other.problem)(other.problem.message, other.problem.next_step)
            if other.reply is not None:
                return replace(other.reply, kept=True)
        flight = self._flights[key] = _PendingRequest()
        try:
            flight.reply = await self._kept_or_paid(digest, request)
        except LeanRAGError as problem:
            flight.problem = problem
            raise
        finally:
            del self._flights[key]
            flight.landed.set()
        return flight.reply

    async def _kept_or_paid(self, digest: str, request: ChatRequest) -> Reply:
        # One that this very job asked for anew is not asked for once more when the job goes on.
        by = self._ledger.job_id if self._redo and request.anew else ""
        kept = await self._ledger.graph.kept_reply(digest, by)
        return kept if kept is not None else await self._paid(digest, request)

    async def _paid(self, digest: str, request: ChatRequest) -> Reply:
        self._line.check(self.name)
        counted = count_prompt(self._tokenizer, request)
        need = self._use(self._scale.most(counted), request.max_tokens)
        number = await self._budget.reserve(need)
        used = need  # Whether a service bills for a call that broke off is not known.
        try:
            reply = self._told(request, counted, await self._answer(request))
            used = self._use(reply.prompt_tokens, reply.completion_tokens, reply.cost)
            with anyio.CancelScope(shield=True):
                await self._keep(digest, request, reply, counted)
        except (ReplyUnusable, InvalidInput):
            used = Use()  # It did not take the request.
            raise
        finally:
            self._budget.settle(number, used)
        return reply

    async def _answer(self, request: ChatRequest) -> Reply:
        # While others held the budget, the service may have died.
        self._line.check(self.name)
        try:
            reply = await self._model.complete(request)
        except ModelUnavailable:
            self._line.failures += 1
            raise
        self._line.failures = 0
        return reply

    def _told(self, request: ChatRequest, counted: int, reply: Reply) -> Reply:
        """The reply with figures that its service left out."""
        if not reply.prompt_tokens:
            reply = replace(reply, prompt_tokens=counted)
        elif counted:
            self._scale.note(counted, reply.prompt_tokens)
        if not reply.completion_tokens and reply.text:
            said = min(self._tokenizer.count(reply.text), request.max_tokens)
            reply = replace(reply, completion_tokens=said)
        if reply.cost is None and self.price is not None:
            reply = replace(reply, cost=cost_of(self.price, reply.prompt_tokens, reply.completion_tokens))
        return reply

    def _use(self, prompt_tokens: int, completion_tokens: int, cost: float | None = None) -> Use:
        if cost is None:
            cost = cost_of(self.price, prompt_tokens, completion_tokens) if self.price else 0.0
        return Use(1, prompt_tokens + completion_tokens, cost)

    async def _keep(self, digest: str, request: ChatRequest, reply: Reply, counted: int) -> None:
        ledger = self._ledger
        for attempt in range(TRIES):
            try:
                await ledger.graph.keep_reply(
                    ledger.collection,
                    ledger.job_id,
                    digest,
                    request,
                    reply,
                    model=self.name,
                    counted=counted,
                )
            except Busy:
                if attempt == TRIES - 1:
                    raise
            else:
                return


def cost_of(price: Price, prompt_tokens: int, completion_tokens: int) -> float:
    """US dollars."""
    return price.prompt * prompt_tokens + price.completion * completion_tokens


# --- before a job --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepForecast:
    """What a step will ask for. ``completion_tokens`` are taken from the replies seen so far; ``guessed``: there are
    none. ``cost`` is in US dollars, ``None`` where no price is known."""

    step: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    guessed: bool


@dataclass(slots=True)
class _Count:
    calls: int = 0
    counted: int = 0
    room: int = 0


class ForecastModel(ModelWrapper):
    """A chat model that gives replies that are kept, and counts what it would be asked besides.

    Such a request raises ``CapReached``, so that a dry run goes on without it. Implements
    :class:`leanrag_engine.core.ports.ChatModel`.
    """

    def __init__(
        self,
        model: ChatModel,
        graph: GraphStore,
        collection: str,
        tokenizer: Tokenizer,
        *,
        redo: bool = False,
    ) -> None:
        super().__init__(model)
        self._graph = graph
        self._collection = collection
        self._tokenizer = tokenizer
        self._redo = redo
        self._counts: dict[str, _Count] = {}
        self._asked: set[str] = set()

    async def complete(self, request: ChatRequest) -> Reply:
        """Raises ``CapReached`` where no reply is kept."""
        digest = digest_of(self.name, request)
        kept = None if self._redo and request.anew else await self._graph.kept_reply(digest)
        if kept is not None:
            return kept
        if digest not in self._asked:
            self._asked.add(digest)
            count = self._counts.setdefault(request.step, _Count())
            count.calls += 1
            count.counted += count_prompt(self._tokenizer, request)
            count.room += request.max_tokens
        raise CapReached("A forecast makes no call.")

    async def forecast(self) -> list[StepForecast]:
        """What was counted so far, in the order in which the steps came up."""
        known = [
            await self._graph.spent(self._collection, model=self.name),
            await self._graph.spent(None, model=self.name),
            await self._graph.spent(None),
        ]
        scale = _ratio([(each.prompt_tokens, each.counted) for each in known[1]], 1.0)
        found = []
        for step, count in self._counts.items():
            share = _share(known, step)
            asked = round(scale * count.counted)
            said = round((GUESS if share is None else share) * count.room)
            cost = None if self.price is None else cost_of(self.price, asked, said)
            found.append(StepForecast(step, count.calls, asked, said, cost, share is None))
        return found


def _share(known: Sequence[Sequence[Spent]], step: str) -> float | None:
    """How much of their room the replies of a step took, by the first of ``known`` that has any."""
    for rows in known:
        for each in rows:
            if each.step == step and each.room:
                return each.completion_tokens / each.room
    return None


def _ratio(pairs: Iterable[tuple[int, int]], otherwise: float) -> float:
    rows = list(pairs)
    below = sum(each for _, each in rows)
    return sum(each for each, _ in rows) / below if below else otherwise
