"""Replies are paid for once, caps are never passed, a dead service is let go, a forecast is kept."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leanrag_tests_forks import Fork

from leanrag_engine.adapters.chat.model import Limits, LiteLLMChatModel
from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.errors import (
    Busy,
    CapReached,
    InvalidInput,
    LeanRAGError,
    ModelUnavailable,
    ReplyUnusable,
    StoreUnusable,
)
from leanrag_engine.core.model import Spent
from leanrag_engine.core.ports import ChatRequest, FinishReason, Message, Price, Reply, ReplyStore
from leanrag_engine.llm.batching import Meter, Task, TaskKind, ask_each, for_each
from leanrag_engine.llm.cache import (
    Budget,
    CachedModel,
    Caps,
    CircuitBreaker,
    ForecastModel,
    Ledger,
    TokenScale,
    Usage,
    count_prompt,
    digest_of,
    total_use,
)

pytestmark = pytest.mark.anyio

TOKENIZER = TiktokenTokenizer()
NO_CAPS = Caps()


def request(text: str = "Hello?", *, room: int = 50, step: str = "extraction", **more: Any) -> ChatRequest:
    return ChatRequest((Message("user", text),), max_tokens=room, step=step, **more)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlDatabase]:
    opened = await SqlDatabase.open(tmp_path, read_only=False)
    await opened.documents.create_collection("default")
    yield opened
    await opened.close()


class Scripted:
    """A chat model that does what a function says; ``asked`` are the requests that came."""

    name = "scripted"

    def __init__(
        self, answer: Callable[[ChatRequest], Awaitable[Reply]], price: Price | None = None, places: int = 8
    ) -> None:
        self._answer = answer
        self.price = price
        self.concurrency = places
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Reply:
        self.asked.append(request)
        return await self._answer(request)

    async def close(self) -> None:
        """Nothing is open."""


def saying(*texts: str) -> Scripted:
    """Says these in turn, and the last for ever."""
    left = list(texts)

    async def answer(_: ChatRequest) -> Reply:
        return Reply(left.pop(0) if len(left) > 1 else left[0], FinishReason.STOP, 10, 2)

    return Scripted(answer)


async def paying(
    model: Any, replies: ReplyStore, caps: Caps = NO_CAPS, job: str = "j1", *, redo: bool = False
) -> CachedModel:
    budget = await Budget.open(caps, [model], replies, "default", job)
    return CachedModel(model, Ledger(replies, "default", job), budget, TOKENIZER, redo=redo)


# --- paid once -----------------------------------------------------------------------------


async def test_an_equal_request_is_paid_for_once_also_after_a_restart(store: SqlDatabase) -> None:
    model = saying("first", "second")
    one = await paying(model, store.replies)
    said = await one.complete(request())
    assert said == Reply("first", FinishReason.STOP, 10, 2)
    assert await one.complete(request(step="another", chunk_ids=("c1",))) == replace(said, kept=True)
    again = await paying(model, store.replies, job="j2")
    assert await again.complete(request()) == replace(said, kept=True)
    assert len(model.asked) == 1


def test_whatever_is_sent_makes_another_request_and_nothing_else_does() -> None:
    base = ChatRequest((Message("user", "a"), Message("user", "b")), 50, schema={"title": "x"})
    others = [
        replace(base, messages=(Message("user", "b"), Message("user", "a"))),
        replace(base, messages=(Message("user", "ab"),)),
        replace(base, messages=(Message("system", "a"), Message("user", "b"))),
        replace(base, max_tokens=51),
        replace(base, schema=None),
        replace(base, schema={"title": "y"}),
        replace(base, temperature=0.1),
        replace(base, seed=1),
    ]
    digests = {digest_of("m", each) for each in (base, *others)} | {digest_of("n", base)}
    assert len(digests) == len(others) + 2
    same = replace(base, step="s", chunk_ids=("c",), anew=True, schema=dict(base.schema or {}))
    assert digest_of("m", same) == digest_of("m", base)


async def test_equal_requests_at_one_time_are_one_call(store: SqlDatabase) -> None:
    go_on = anyio.Event()

    async def answer(_: ChatRequest) -> Reply:
        await go_on.wait()
        return Reply("said", FinishReason.STOP, 10, 2)

    model = Scripted(answer)
    paid = await paying(model, store.replies)
    replies: list[Reply] = []

    async def ask() -> None:
        replies.append(await paid.complete(request()))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert len(model.asked) == 1
    assert sorted(each.kept for each in replies) == [False, True, True, True, True]
    assert {each.text for each in replies} == {"said"}


async def test_one_that_waits_for_an_equal_call_takes_over_if_that_is_cancelled(store: SqlDatabase) -> None:
    calls = 0

    async def answer(_: ChatRequest) -> Reply:
        nonlocal calls
        calls += 1
        if calls == 1:
            await anyio.sleep_forever()
        return Reply("said", FinishReason.STOP, 10, 2)

    paid = await paying(Scripted(answer), store.replies)
    replies: list[Reply] = []

    async def ask() -> None:
        replies.append(await paid.complete(request()))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            first = anyio.CancelScope()

            async def leader() -> None:
                with first:
                    await paid.complete(request())

            tasks.start_soon(leader)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            first.cancel()
    assert [each.kept for each in replies] == [False]


async def test_one_that_waits_for_an_equal_call_shares_its_failure(store: SqlDatabase) -> None:
    go_on = anyio.Event()

    async def answer(_: ChatRequest) -> Reply:
        await go_on.wait()
        raise ReplyUnusable("Not that.", "Ask another.")

    model = Scripted(answer)
    paid = await paying(model, store.replies)
    problems: list[str] = []

    async def ask() -> None:
        with pytest.raises(ReplyUnusable) as caught:
            await paid.complete(request())
        problems.append(str(caught.value))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert problems == ["Not that. Ask another."] * 3
    assert len(model.asked) == 1


async def test_figures_that_a_service_leaves_out_are_counted(store: SqlDatabase) -> None:
    async def answer(_: ChatRequest) -> Reply:
        return Reply("four little words here", FinishReason.STOP, 0, 0)

    paid = await paying(Scripted(answer, Price(0.001, 0.01)), store.replies)
    asked = request()
    reply = await paid.complete(asked)
    counted = count_prompt(TOKENIZER, asked)
    assert (reply.prompt_tokens, reply.completion_tokens) == (counted, 4)
    assert reply.cost == pytest.approx(0.001 * counted + 0.04)


class BusyReplies:
    """Is busy, or broken, so many times when a reply is to be kept."""

    def __init__(self, replies: ReplyStore, *problems: LeanRAGError) -> None:
        self._replies = replies
        self._problems = list(problems)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replies, name)

    async def put(self, *given: Any, **more: Any) -> None:
        if self._problems:
            raise self._problems.pop()
        await self._replies.put(*given, **more)


async def test_a_paid_reply_is_not_lost_to_a_store_that_is_busy(store: SqlDatabase) -> None:
    paid = await paying(saying("said"), BusyReplies(store.replies, Busy("wait"), Busy("wait")))  # type: ignore[arg-type]
    await paid.complete(request())
    assert (await paid.complete(request())).kept


async def test_no_call_is_paid_for_that_cannot_be_kept(store: SqlDatabase) -> None:
    """Each more would be lost, too: the first ends the work, though other problems of a call do not."""
    model = saying('{"items": [{"task": 1, "word": "yes"}]}')
    paid = await paying(model, BusyReplies(store.replies, StoreUnusable("The disk is full.")))  # type: ignore[arg-type]
    with pytest.raises(StoreUnusable):
        await ask_each(paid, DUTY, [task("one")], Meter())
    assert len(model.asked) == 1


# --- caps ----------------------------------------------------------------------------------


class NoReplies:
    """A store of replies that stores nothing: each call is made."""

    async def spending(self, collection: str, job_id: str = "") -> list[Any]:
        del collection, job_id
        return []

    async def find(self, digest: str, job_id: str = "") -> None:
        """Nothing is stored."""

    async def put(self, *given: Any, **more: Any) -> None:
        del given, more
        await anyio.lowlevel.checkpoint()


PRICE = Price(0.001, 0.004)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_cap_is_ever_passed_and_what_fits_is_asked(data: st.DataObject) -> None:
    places = data.draw(st.integers(1, 12), "places")
    scale = data.draw(st.floats(0.3, 1.8), "tokens that the model makes of one of ours")
    caps = Caps(
        data.draw(st.none() | st.integers(0, 40), "calls"),
        data.draw(st.none() | st.integers(0, 8000), "tokens"),
        data.draw(st.none() | st.floats(0, 15), "dollars"),
    )
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 200), st.integers(1, 300)), max_size=40), "requests")
    fates = [
        (data.draw(st.floats(0.9, 1.1)), data.draw(st.floats(0, 1)), data.draw(st.integers(0, 3)))
        for _ in sizes
    ]
    used: list[Usage] = []

    async def answer(asked: ChatRequest) -> Reply:
        drift, share, turns = fates[int(asked.messages[0].text)]
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        if share < 0.05:
            raise ReplyUnusable("Not taken.")
        prompt = math.floor(scale * drift * count_prompt(TOKENIZER, asked))
        said = round(share * asked.max_tokens)
        used.append(Usage(1, prompt + said, PRICE.prompt * prompt + PRICE.completion * said))
        return Reply("x", FinishReason.STOP, prompt, said)

    refused = 0

    async def main() -> None:
        model = Scripted(answer, PRICE, places)
        budget = await Budget.open(caps, [model], NoReplies(), "c", "j")  # type: ignore[arg-type]
        paid = CachedModel(model, Ledger(NoReplies(), "c", "j"), budget, TOKENIZER)  # type: ignore[arg-type]

        async def one(number: int) -> None:
            nonlocal refused
            length, room = sizes[number]
            messages = (Message("system", str(number)), Message("user", "word " * length))
            try:
                await paid.complete(ChatRequest(messages, room))
            except CapReached:
                refused += 1
            except ReplyUnusable:
                pass

        with anyio.fail_after(30):
            await for_each(range(len(sizes)), one, places=places)

    anyio.run(main)
    spent = sum(used, Usage())
    assert caps.calls is None or spent.calls <= caps.calls
    assert caps.tokens is None or spent.tokens <= caps.tokens
    assert caps.cost is None or spent.cost <= caps.cost + 1e-9
    most = sum(
        (
            Usage(1, 3 * (length + 40) + room, PRICE.prompt * 3 * (length + 40) + PRICE.completion * room)
            for length, room in sizes
        ),
        Usage(),
    )
    if not most.passes(caps):
        assert refused == 0


async def test_a_cap_holds_for_a_prompt_of_more_tokens_than_those_measured(store: SqlDatabase) -> None:
    """After prompts whose tokens are those that we count comes one of a fifth more: the cap leaves no room for them."""
    drift = 1.0
    long = request("word " * 1000, room=1)

    async def answer(asked: ChatRequest) -> Reply:
        return Reply("x", FinishReason.STOP, round(drift * count_prompt(TOKENIZER, asked)), 1)

    short = [request(f"word {number}", room=1) for number in range(20)]
    measured = sum(count_prompt(TOKENIZER, each) + 1 for each in short)
    caps = Caps(tokens=measured + round(1.1 * count_prompt(TOKENIZER, long)))
    model = Scripted(answer)
    paid = await paying(model, store.replies, caps)
    for each in short:
        await paid.complete(each)
    drift = 1.2
    with pytest.raises(CapReached):
        await paid.complete(long)
    assert len(model.asked) == len(short)


@pytest.mark.parametrize(
    ("caps", "calls"),
    # A reply claims to have used 100 and 20 tokens, of which a dollar buys 10,000 and 2,500.
    [(Caps(calls=7), 7), (Caps(tokens=1000), 8), (Caps(cost=0.1), 5), (Caps(calls=0), 0)],
)
async def test_a_real_service_is_asked_as_often_as_the_cap_allows_and_no_more(
    chat_server: Any, store: SqlDatabase, monkeypatch: pytest.MonkeyPatch, caps: Caps, calls: int
) -> None:
    monkeypatch.setattr(LiteLLMChatModel, "price", Price(0.0001, 0.0004))
    chat_server.says(chat_server.Answer("said", tokens=(100, 20)))
    async with real(chat_server) as model:
        paid = await paying(model, store.replies, caps)
        problems: list[LeanRAGError] = []

        async def one(number: int) -> None:
            try:
                # 100 tokens as the service counts them, about as ours do.
                await paid.complete(request(f"{number}: " + "word " * 88, room=20))
            except CapReached as problem:
                problems.append(problem)

        await for_each(range(30), one, places=8)
    used = total_use(await store.replies.spending("default"))
    assert not used.passes(caps)
    assert used.calls == chat_server.calls == 30 - len(problems)
    assert calls - 2 <= chat_server.calls <= calls
    assert "cap" in problems[0].message
    assert "paid replies are kept" in problems[0].next_step


async def test_a_job_that_goes_on_counts_what_it_had_used_before(store: SqlDatabase) -> None:
    model = saying("said")
    first = await paying(model, store.replies, Caps(calls=3))
    for number in range(2):
        await first.complete(request(str(number)))
    after = await paying(model, store.replies, Caps(calls=3))
    await after.complete(request("2"))
    with pytest.raises(CapReached, match="3 calls"):
        await after.complete(request("3"))
    assert (await after.complete(request("0"))).kept  # what is kept costs nothing
    other = await paying(model, store.replies, Caps(calls=3), job="j2")
    await other.complete(request("3"))


@pytest.mark.parametrize(
    ("caps", "one", "more"),
    [
        (Caps(calls=2), Usage(calls=1), Usage(calls=1)),
        (Caps(tokens=20), Usage(tokens=10), Usage(tokens=1)),
        (Caps(cost=2.0), Usage(cost=1.0), Usage(cost=0.01)),
    ],
)
async def test_a_cap_may_be_used_up_and_not_passed_by_a_hundredth(
    caps: Caps, one: Usage, more: Usage
) -> None:
    budget = Budget(caps)
    for _ in range(2):
        budget.settle(await budget.reserve(one), one)
    with pytest.raises(CapReached):
        await budget.reserve(more)


def test_what_steps_spent_is_that_of_prompts_and_replies() -> None:
    steps = [Spent("extraction", 2, 30, 4, 0.5), Spent("summary", 1, 20, 6, 0.25)]
    assert total_use(steps) == Usage(3, 60, 0.75)


def test_a_tokenizer_that_was_not_measured_is_taken_to_make_twice_as_many_tokens_as_ours() -> None:
    scale = TokenScale()
    assert scale.upper_bound(100) >= 200
    for _ in range(scale.enough):
        scale.note(100, 100)
    assert 125 <= scale.upper_bound(100) < 130


async def test_a_request_that_the_service_rejects_uses_nothing_of_the_cap(store: SqlDatabase) -> None:
    refusals = [ReplyUnusable("Too long.", "Shorten it.")]

    async def answer(_: ChatRequest) -> Reply:
        if refusals:
            raise refusals.pop()
        return Reply("said", FinishReason.STOP, 10, 2)

    paid = await paying(Scripted(answer), store.replies, Caps(calls=1))
    with pytest.raises(ReplyUnusable):
        await paid.complete(request("one"))
    assert (await paid.complete(request("another"))).text == "said"


async def test_a_call_that_broke_off_counts_against_the_cap(store: SqlDatabase) -> None:
    async def break_off(_: ChatRequest) -> Reply:
        raise ModelUnavailable("The connection broke off.", "Wait.")

    model = Scripted(break_off)
    paid = await paying(model, store.replies, Caps(calls=1))
    with pytest.raises(ModelUnavailable):
        await paid.complete(request("one", room=1))
    with pytest.raises(CapReached):  # the service may have billed for it
        await paid.complete(request("another", room=1))
    assert len(model.asked) == 1


async def test_the_schema_of_a_request_counts_against_the_cap(store: SqlDatabase) -> None:
    model = saying("said")
    capped = await paying(model, store.replies, Caps(tokens=400))
    with pytest.raises(CapReached, match="400 tokens"):
        await capped.complete(request(schema={"title": "x", "description": "word " * 500}))
    await capped.complete(request(schema={"title": "x"}))
    assert len(model.asked) == 1


async def test_dollars_cannot_be_capped_without_a_price(store: SqlDatabase) -> None:
    with pytest.raises(InvalidInput, match=r"'scripted'.*Cap the calls or the tokens"):
        await paying(saying("x"), store.replies, Caps(cost=1.0))


async def test_one_that_gives_up_waiting_for_the_budget_holds_nothing() -> None:
    budget = Budget(Caps(calls=1))
    first = await budget.reserve(Usage(1))
    with anyio.move_on_after(0):
        await budget.reserve(Usage(1))
    budget.settle(first, Usage())
    assert await budget.reserve(Usage(1))


# --- a service that does not answer --------------------------------------------------------


async def test_a_dead_service_is_let_go_after_a_few_calls(store: SqlDatabase) -> None:
    naps: list[float] = []

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        await anyio.lowlevel.checkpoint()

    model = await LiteLLMChatModel.open(
        "openai/tiny", api_base="http://127.0.0.1:9/v1", attempts=2, limits=Limits(1), sleep=sleep
    )
    paid = await paying(model, store.replies)
    problems: list[str] = []
    for number in range(50):
        with pytest.raises(ModelUnavailable) as caught:
            await paid.complete(request(str(number)))
        problems.append(caught.value.message)
    await model.close()
    assert len(naps) == CircuitBreaker().limit
    assert [each for each in problems if "is not called any more" in each] == problems[
        CircuitBreaker().limit :
    ]


async def test_one_answer_in_between_keeps_the_service_alive(store: SqlDatabase) -> None:
    calls = 0

    async def answer(_: ChatRequest) -> Reply:
        nonlocal calls
        calls += 1
        if calls % CircuitBreaker().limit:
            raise ModelUnavailable("Nobody there.")
        return Reply("said", FinishReason.STOP, 1, 1)

    paid = await paying(Scripted(answer), store.replies)
    for number in range(5 * CircuitBreaker().limit):
        with suppress(ModelUnavailable):
            await paid.complete(request(str(number)))
    assert calls == 5 * CircuitBreaker().limit


# --- once more, anew -----------------------------------------------------------------------

DUTY = TaskKind(
    "spelling",
    "Say yes.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    room=40,
)


def task(name: str) -> Task[str]:
    def read(item: Any) -> str:
        if item.get("word") != "yes":
            raise ReplyUnusable(f"{item.get('word')} is not yes.")
        return f"{name}: yes"

    return Task(name, f"Say yes to {name}.", read, chunk_ids=(name,))


def words(*given: str) -> str:
    items = ", ".join(f'{{"task": {number}, "word": "{word}"}}' for number, word in enumerate(given, 1))
    return f'{{"items": [{items}]}}'


async def test_replies_that_could_not_be_read_are_kept_and_a_second_build_makes_no_call(
    store: SqlDatabase,
) -> None:
    model = saying(words("yes", "no"), words("never"))
    for job in ("j1", "j2"):
        paid = await paying(model, store.replies, job=job)
        good, bad = await ask_each(paid, DUTY, [task("a"), task("b")], Meter())
        assert good == "a: yes"
        assert isinstance(bad, ReplyUnusable)
        assert "never is not yes" in bad.message
    assert len(model.asked) == 2


async def test_an_upgrade_asks_anew_what_could_not_be_read_and_nothing_else(store: SqlDatabase) -> None:
    model = saying(words("yes", "no"), words("never"), words("yes"))
    tasks = [task("a"), task("b")]
    await ask_each(await paying(model, store.replies), DUTY, tasks, Meter())
    meter = Meter()
    upgraded = await ask_each(await paying(model, store.replies, job="j2", redo=True), DUTY, tasks, meter)
    assert upgraded == ["a: yes", "b: yes"]
    assert meter.calls == 1
    assert len(model.asked) == 3
    # From now on that is what every build finds.
    assert await ask_each(await paying(model, store.replies, job="j3"), DUTY, tasks, Meter()) == upgraded
    assert (
        await ask_each(await paying(model, store.replies, job="j4", redo=True), DUTY, tasks, Meter())
        == upgraded
    )
    assert len(model.asked) == 3


async def test_an_upgrade_that_goes_on_after_a_kill_asks_nothing_twice(store: SqlDatabase) -> None:
    model = saying(words("no"))
    await ask_each(await paying(model, store.replies), DUTY, [task("a")], Meter())
    for _ in range(2):
        await ask_each(await paying(model, store.replies, job="j2", redo=True), DUTY, [task("a")], Meter())
    assert len(model.asked) == 3
    await ask_each(await paying(model, store.replies, job="j3", redo=True), DUTY, [task("a")], Meter())
    assert len(model.asked) == 4


# --- through a real service ----------------------------------------------------------------


class real:  # noqa: N801 - a context manager that is used as a function
    """The service of the tests, through litellm for real; its pauses take no time."""

    def __init__(self, server: Any, **more: Any) -> None:
        self._options = {"api_base": server.url, "sleep": _no_sleep, "attempts": 3, **more}

    async def __aenter__(self) -> LiteLLMChatModel:
        self._model = await LiteLLMChatModel.open("openai/tiny", **self._options)
        return self._model

    async def __aexit__(self, *problem: object) -> None:
        await self._model.close()


async def _no_sleep(_: float) -> None:
    await anyio.lowlevel.checkpoint()


YES = words("yes")


@pytest.mark.parametrize(
    ("answers", "calls"),
    [
        (lambda server: [server.rate_limited("3"), YES], 2),
        (lambda server: [server.failed(503), server.failed(500), YES], 3),
        (lambda server: [server.hung_up(), YES], 2),
        (lambda server: [server.cut_off(words("yes")[:-4]), YES], 2),
        (lambda server: [server.refused(), YES], 2),
        (lambda _: ["I would say yes, of course!", YES], 2),
        (lambda _: ['{"items": [{"task": 1, "word": 7}]}', YES], 2),
        (lambda _: ['{"items": "none"}', YES], 2),
        (lambda _: ['{"items": [{"task": "1", "word": "yes"}]}'], 1),
        (lambda _: ['Sure!\n```json\n{"items": [{"word": "yes",}]\n```'], 1),
        (lambda _: ['[{"task": 1, "word": "yes"}]'], 1),
        (lambda _: ['{"word": "yes"}'], 1),
    ],
)
async def test_what_goes_wrong_once_is_made_good(
    chat_server: Any, store: SqlDatabase, answers: Callable[[Any], list[Any]], calls: int
) -> None:
    chat_server.says(*answers(chat_server))
    async with real(chat_server) as model:
        paid = await paying(model, store.replies)
        assert await ask_each(paid, DUTY, [task("a")], Meter()) == ["a: yes"]
        assert chat_server.calls == calls
        assert await ask_each(paid, DUTY, [task("a")], Meter()) == ["a: yes"]
    assert chat_server.calls == calls


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (lambda server: server.rate_limited(), ModelUnavailable),
        (lambda server: server.failed(500), ModelUnavailable),
        (lambda server: server.hung_up(), ModelUnavailable),
        (lambda server: server.cut_off("{"), ReplyUnusable),
        (lambda server: server.refused(), ReplyUnusable),
        (lambda _: "Never in JSON.", ReplyUnusable),
        (lambda server: server.failed(400), ReplyUnusable),
    ],
)
async def test_what_goes_wrong_for_ever_is_told_task_by_task(
    chat_server: Any, store: SqlDatabase, kind: Callable[[Any], Any], problem: type[LeanRAGError]
) -> None:
    chat_server.says(kind(chat_server))
    async with real(chat_server) as model:
        paid = await paying(model, store.replies)
        answers = await ask_each(paid, DUTY, [task("a"), task("b")], Meter())
    assert [type(each) for each in answers] == [problem] * 2


async def test_a_wrong_key_ends_the_work(chat_server: Any, store: SqlDatabase) -> None:
    chat_server.says(chat_server.failed(401))
    async with real(chat_server) as model:
        with pytest.raises(InvalidInput):
            await ask_each(await paying(model, store.replies), DUTY, [task("a")], Meter())


async def test_tasks_that_a_service_does_not_take_together_are_asked_alone(
    chat_server: Any, store: SqlDatabase
) -> None:
    def script(asked: Any) -> Any:
        return chat_server.failed(400, "too long") if "Task 2" in asked.prompt else YES

    chat_server.follows(script)
    async with real(chat_server) as model:
        paid = await paying(model, store.replies)
        answers = await ask_each(paid, DUTY, [task("a"), task("b")], Meter())
    assert answers == ["a: yes", "b: yes"]


CHILD = """
import sys
import anyio
from pathlib import Path
from leanrag_engine.adapters.chat.model import LiteLLMChatModel
from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.llm.batching import for_each
from leanrag_engine.core.ports import ChatRequest, Message
from leanrag_engine.llm.cache import Budget, Caps
from leanrag_engine.llm.cache import CachedModel, Ledger

async def main():
    store = await SqlDatabase.open(Path(sys.argv[1]), read_only=False)
    model = await LiteLLMChatModel.open("openai/tiny", api_base=sys.argv[2])
    budget = await Budget.open(Caps(calls=40), [model], store.replies, "default", "j1")
    paid = CachedModel(model, Ledger(store.replies, "default", "j1"), budget, TiktokenTokenizer())

    async def one(number):
        await paid.complete(ChatRequest((Message("user", f"request {number}"),), 50, step="extraction"))

    await for_each(range(40), one, places=4)
    await model.close()
    await store.close()

anyio.run(main)
"""


async def test_a_process_killed_in_mid_work_repeats_no_call_that_was_answered(
    chat_server: Any, store: SqlDatabase, tmp_path: Path
) -> None:
    def script(_: Any) -> Any:
        return chat_server.stalled() if chat_server.calls > 20 else "ok"

    chat_server.follows(script)
    process = Fork(["-c", CHILD, tmp_path, chat_server.url])
    with anyio.fail_after(300):
        while chat_server.calls < 24:  # twenty are answered, four are under way
            assert process.poll() is None
            await anyio.sleep(0.01)
    process.kill()
    process.wait()
    answered = {each.last for each in chat_server.requests[:20]}
    # The last of those answered may not have been kept when the last of those under way came in.
    kept = (await store.replies.spending("default"))[0].calls
    assert kept == 20
    chat_server.follows(lambda _: "ok")
    chat_server.requests.clear()
    # What the second process would do is done in this one, which has litellm imported.
    async with real(chat_server) as model:
        paid = await paying(model, store.replies, Caps(calls=40))
        for number in range(40):
            await paid.complete(request(f"request {number}", room=50, step="extraction"))
    assert not answered & {each.last for each in chat_server.requests}
    assert chat_server.calls == 20
    (spent,) = await store.replies.spending("default", "j1")
    assert spent.calls == 40


# --- a forecast ----------------------------------------------------------------------------


async def test_a_forecast_counts_what_would_be_asked_and_asks_nothing(
    chat_server: Any, store: SqlDatabase
) -> None:
    requests = [request("word " * (50 + number), room=200, step=f"step {number % 2}") for number in range(20)]

    def script(asked: Any) -> Any:
        # Its tokenizer makes half as many again of a text as ours.
        asked_tokens = round(1.5 * count_prompt(TOKENIZER, request(asked.last)))
        return chat_server.Answer("said", tokens=(asked_tokens, 66))

    chat_server.follows(script)

    async def ask(model: Any) -> None:
        for asked in requests:
            with suppress(CapReached):
                await model.complete(asked)

    async with real(chat_server) as model:
        blind = ForecastModel(model, Ledger(store.replies, "default", ""), TOKENIZER)
        await ask(blind)
        guess = await blind.forecast()
        assert chat_server.calls == 0
        assert [(each.step, each.calls, each.guessed) for each in guess] == [
            ("step 0", 10, True),
            ("step 1", 10, True),
        ]
        requests, rest = requests[:6], requests
        await ask(await paying(model, store.replies))
        requests = rest
        seeing = ForecastModel(model, Ledger(store.replies, "default", ""), TOKENIZER)
        await ask(seeing)
        await ask(seeing)  # an equal request is one call
        forecast = await seeing.forecast()
        assert [each.calls for each in forecast] == [7, 7]
        before = await store.replies.spending("default")
        await ask(await paying(model, store.replies))
        after = await store.replies.spending("default")
        for told, then, now in zip(forecast, before, after, strict=True):
            assert told.step == now.step
            assert told.prompt_tokens == pytest.approx(now.prompt_tokens - then.prompt_tokens, rel=0.01)
            assert told.completion_tokens == 7 * 66
            assert not told.guessed
            assert told.cost is None
        done = ForecastModel(model, Ledger(store.replies, "default", ""), TOKENIZER)
        await ask(done)
        assert await done.forecast() == []


async def test_a_forecast_of_an_upgrade_counts_what_could_not_be_read(store: SqlDatabase) -> None:
    model = saying(words("yes", "no"), words("never"))
    tasks = [task("a"), task("b")]
    await ask_each(await paying(model, store.replies), DUTY, tasks, Meter())
    for redo, calls in ((False, []), (True, [1])):
        counting = ForecastModel(model, Ledger(store.replies, "default", ""), TOKENIZER, redo=redo)
        await ask_each(counting, DUTY, tasks, Meter())
        assert [each.calls for each in await counting.forecast()] == calls
    assert len(model.asked) == 2


async def test_a_forecast_in_dollars_takes_the_model_s_price(store: SqlDatabase) -> None:
    model = saying("x")
    model.price = PRICE
    counting = ForecastModel(model, Ledger(store.replies, "default", ""), TOKENIZER)
    with pytest.raises(CapReached):
        await counting.complete(request(room=100))
    (step,) = await counting.forecast()
    assert step.cost == pytest.approx(0.001 * step.prompt_tokens + 0.004 * step.completion_tokens)
