"""Chat models over stored replies: one whose replies are paid for once, what one used being stored in the same
row as its text, and one that counts what a job would ask, without a call. What their calls may use: token counts,
prices, caps that are never passed, and services that stop answering."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

import anyio
from tenacity import retry, retry_if_exception_type, stop_after_attempt

from leanrag_engine.core.errors import (
    Busy,
    CapReached,
    InvalidInput,
    LeanRAGError,
    ModelSilent,
    ModelUnavailable,
    ReplyUnusable,
)
from leanrag_engine.core.model import Spent
from leanrag_engine.core.ports import ChatModel, ChatRequest, Price, Reply, ReplyRecord, ReplyStore, Tokenizer


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
        return f"${caps.cost:g}" if caps.cost is not None and self.cost > caps.cost else ""


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
        """Reserve ``need`` once running calls leave enough; return its number for :meth:`settle`. Raises ``CapReached`` if they cannot."""
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


def digest_of(model: str, request: ChatRequest) -> str:
    """Hash all that is sent to the model: equal requests to one model have equal digests."""
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


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where replies are stored, and for which collection and job."""

    replies: ReplyStore
    collection: str
    job_id: str


class ModelWrapper:
    """The properties of a chat model that wraps another one."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name, self.concurrency = model.name, model.concurrency

    @property
    def price(self) -> Price | None:
        return self._model.price

    async def close(self) -> None:
        await self._model.close()


@dataclass(slots=True)
class _PendingRequest:
    """A request in pending and its outcome; neither reply nor problem if it was cancelled."""

    done: anyio.Event = field(default_factory=anyio.Event)
    reply: Reply | None = None
    problem: LeanRAGError | None = None


class CachedModel(ModelWrapper):
    """A chat model that pays for each reply once. Implements :class:`leanrag_engine.core.ports.ChatModel`.

    Stored replies are reused, and equal concurrent requests share one call. Raises ``CapReached`` before a call that
    could pass the budget's caps, and ``ModelUnavailable`` once the service is considered dead. With ``redo``, a request
    marked ``anew`` is sent again once per job and its reply replaces the stored one; without ``redo`` the mark is ignored.
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
        self._breaker = CircuitBreaker()
        self._pending: dict[tuple[str, bool], _PendingRequest] = {}

    async def complete(self, request: ChatRequest) -> Reply:
        """See :meth:`leanrag_engine.core.ports.ChatModel.complete`; also raises ``CapReached``."""
        digest = digest_of(self.name, request)
        key = digest, self._redo and request.anew
        while (other := self._pending.get(key)) is not None:
            await other.done.wait()
            if other.problem is not None:
                raise type(other.problem)(other.problem.message, other.problem.next_step)
            if other.reply is not None:
                return replace(other.reply, kept=True)
        pending = self._pending[key] = _PendingRequest()
        try:
            # A resumed job does not ask again for what it already asked anew.
            kept = await self._ledger.replies.find(digest, self._ledger.job_id if key[1] else "")
            pending.reply = kept if kept is not None else await self._request(digest, request)
        except LeanRAGError as problem:
            pending.problem = problem
            raise
        finally:
            del self._pending[key]
            pending.done.set()
        return pending.reply

    async def _request(self, digest: str, request: ChatRequest) -> Reply:
        self._breaker.check(self.name)
        counted = count_prompt(self._tokenizer, request)
        need = self._use(self._scale.upper_bound(counted), request.max_tokens)
        number = await self._budget.reserve(need)
        used = need  # A service may bill for a call that broke off.
        try:
            reply = self._fill_figures(request, counted, await self._answer(request))
            used = self._use(reply.prompt_tokens, reply.completion_tokens, reply.cost)
            with anyio.CancelScope(shield=True):
                await self._keep(digest, request, reply, counted)
        except (ReplyUnusable, InvalidInput):
            used = Usage()  # The service rejected the request.
            raise
        finally:
            self._budget.settle(number, used)
        return reply

    async def _answer(self, request: ChatRequest) -> Reply:
        # The service may have died while this call waited for the budget.
        self._breaker.check(self.name)
        try:
            reply = await self._model.complete(request)
        except ModelUnavailable as problem:
            # Silence costs a minute: it is not tried again.
            self._breaker.failures += self._breaker.limit if isinstance(problem, ModelSilent) else 1
            raise
        self._breaker.failures = 0
        return reply

    def _fill_figures(self, request: ChatRequest, counted: int, reply: Reply) -> Reply:
        """Return the reply with the figures that its service left out."""
        if not reply.prompt_tokens:
            reply = replace(reply, prompt_tokens=counted)
        elif counted:
            self._scale.note(counted, reply.prompt_tokens)
        if not reply.completion_tokens and reply.text:
            tokens = min(self._tokenizer.count(reply.text), request.max_tokens)
            reply = replace(reply, completion_tokens=tokens)
        if reply.cost is None and self.price is not None:
            reply = replace(reply, cost=cost_of(self.price, reply.prompt_tokens, reply.completion_tokens))
        return reply

    def _use(self, prompt_tokens: int, completion_tokens: int, cost: float | None = None) -> Usage:
        if cost is None:
            cost = cost_of(self.price, prompt_tokens, completion_tokens) if self.price else 0.0
        return Usage(1, prompt_tokens + completion_tokens, cost)

    # A paid reply is worth more than one attempt at a busy store.
    @retry(retry=retry_if_exception_type(Busy), stop=stop_after_attempt(4), reraise=True)
    async def _keep(self, digest: str, request: ChatRequest, reply: Reply, counted: int) -> None:
        record = ReplyRecord(self._ledger.job_id, digest, request, reply, self.name, counted)
        await self._ledger.replies.put(self._ledger.collection, record)


@dataclass(frozen=True, slots=True)
class StepForecast:
    """What a step will request. ``completion_tokens`` are by earlier replies or ``guessed``; ``cost`` is in US dollars, None if unknown."""

    step: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    guessed: bool


class ForecastModel(ModelWrapper):
    """A :class:`leanrag_engine.core.ports.ChatModel` that returns stored replies and counts all other
    requests, raising ``CapReached``: a dry run continues with the heuristic result."""

    def __init__(self, model: ChatModel, ledger: Ledger, tokenizer: Tokenizer, *, redo: bool = False) -> None:
        super().__init__(model)
        self._ledger = ledger
        self._tokenizer = tokenizer
        self._redo = redo
        self._counts: dict[str, Spent] = {}
        """By step: its calls, our count of the tokens of their prompts, and the room of their replies."""
        self._counted: set[str] = set()

    async def complete(self, request: ChatRequest) -> Reply:
        """Return the stored reply. Raises ``CapReached`` if there is none."""
        digest = digest_of(self.name, request)
        kept = None if self._redo and request.anew else await self._ledger.replies.find(digest)
        if kept is not None:
            return kept
        if digest not in self._counted:
            self._counted.add(digest)
            count = self._counts.get(request.step, Spent(request.step))
            counted = count.counted + count_prompt(self._tokenizer, request)
            room = count.room + request.max_tokens
            self._counts[request.step] = replace(count, calls=count.calls + 1, counted=counted, room=room)
        raise CapReached("A forecast makes no call.")

    async def forecast(self) -> list[StepForecast]:
        """Return what was counted so far, in the order of the steps' first requests."""
        replies = self._ledger.replies
        known = [
            await replies.spending(self._ledger.collection, model=self.name),
            await replies.spending(None, model=self.name),
            await replies.spending(None),
        ]
        counted = sum(each.counted for each in known[1])
        scale = sum(each.prompt_tokens for each in known[1]) / counted if counted else 1.0
        steps = []
        for step, count in self._counts.items():
            # Of their room, what replies of the step took: from the first of ``known`` that has any.
            found = (each for rows in known for each in rows if each.step == step and each.room)
            share = next((each.completion_tokens / each.room for each in found), None)
            sent = round(scale * count.counted)
            # Without any earlier reply: a guess, not tuned.
            completion = round((0.3 if share is None else share) * count.room)
            cost = None if self.price is None else cost_of(self.price, sent, completion)
            steps.append(StepForecast(step, count.calls, sent, completion, cost, share is None))
        return steps
