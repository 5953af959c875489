"""Chat models through the real litellm, against a real server on loopback."""

from __future__ import annotations

import email.utils
import inspect
import logging
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from leanrag_engine.adapters.chat import model as litellm_model
from leanrag_engine.adapters.chat.model import Limits, LiteLLMChatModel
from leanrag_engine.core.errors import InvalidInput, LeanRAGError, ModelUnavailable, ReplyUnusable
from leanrag_engine.core.ports import ChatRequest, FinishReason, Message, Reply

KEY = "sk-planted-8f2c1d9e7b6a5f4e3d2c1b0a"
"""Looks like a key, is none. No test may find it anywhere but in the Authorization header."""

SCHEMA = {
    "title": "verdict",
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}

pytestmark = pytest.mark.anyio


def request(text: str = "Hello?", **more: Any) -> ChatRequest:
    return ChatRequest((Message("user", text),), max_tokens=50, **more)


class Pauses(list[float]):
    """Notes how long the adapter would sleep, and does not."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)
        await anyio.lowlevel.checkpoint()


@pytest.fixture(autouse=True)
def planted_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
async def open_model(
    chat_server: Any, pauses: Pauses
) -> AsyncIterator[Callable[..., Awaitable[LiteLLMChatModel]]]:
    opened: list[LiteLLMChatModel] = []

    async def open_one(name: str = "openai/tiny", **more: Any) -> LiteLLMChatModel:
        options = {"api_base": chat_server.url, "sleep": pauses, **more}
        opened.append(await LiteLLMChatModel.open(name, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        await each.close()


async def test_a_reply_carries_its_text_and_what_it_used(chat_server: Any, open_model: Any) -> None:
    chat_server.says(chat_server.Answer("Good day.", tokens=(31, 4)))
    model = await open_model()
    assert model.name == "openai/tiny"
    assert await model.complete(request()) == Reply("Good day.", FinishReason.STOP, 31, 4, cost=None)


async def test_a_known_model_is_priced(chat_server: Any, open_model: Any) -> None:
    import litellm  # noqa: PLC0415 - the oracle; heavy

    chat_server.says(chat_server.Answer("x", tokens=(1000, 100)))
    reply = await (await open_model("openai/gpt-4o-mini")).complete(request())
    price = litellm.model_cost["gpt-4o-mini"]
    assert reply.cost == pytest.approx(
        1000 * price["input_cost_per_token"] + 100 * price["output_cost_per_token"]
    )


async def test_the_request_says_what_it_was_told(chat_server: Any, open_model: Any) -> None:
    asked = ChatRequest(
        (Message("system", "Be brief."), Message("user", "Why?")), max_tokens=77, temperature=0.4, seed=3
    )
    await (await open_model()).complete(asked)
    body = chat_server.requests[0].body
    assert body["model"] == "tiny"
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
    ]
    assert (body["max_tokens"], body["temperature"], body["seed"]) == (77, 0.4, 3)
    assert chat_server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_model_that_takes_no_temperature_is_not_given_one(chat_server: Any, open_model: Any) -> None:
    await (await open_model("openai/gpt-5-mini")).complete(request(temperature=0.4))
    body = chat_server.requests[0].body
    assert "temperature" not in body
    assert body["max_completion_tokens"] == 50


@pytest.mark.parametrize("name", ["hosted_vllm/tiny", "deepseek/deepseek-chat", "openrouter/some/tiny"])
async def test_other_providers_are_retried_and_mapped_alike(
    chat_server: Any, open_model: Any, pauses: Pauses, name: str
) -> None:
    model = await open_model(name)
    chat_server.says(chat_server.rate_limited("7"), chat_server.failed(500), "At last.")
    assert (await model.complete(request())).text == "At last."
    assert pauses[0] == 7
    chat_server.says(chat_server.failed(401, f"no such key {KEY}"))
    with pytest.raises(InvalidInput, match=f"{name.partition('/')[0].upper()}_API_KEY"):
        await model.complete(request())


# --- schemas -------------------------------------------------------------------------------


async def test_a_schema_goes_to_a_model_that_takes_one_and_to_no_other(
    chat_server: Any, open_model: Any
) -> None:
    await (await open_model("openai/gpt-4o-mini")).complete(request(schema=SCHEMA))
    await (await open_model("openai/tiny")).complete(request(schema=SCHEMA))
    able, other = (each.body for each in chat_server.requests)
    assert able["response_format"]["json_schema"]["schema"] == SCHEMA
    assert able["response_format"]["json_schema"]["name"] == "verdict"
    assert "response_format" not in other


async def test_a_service_that_rejects_schemas_is_asked_without_one_from_then_on(
    chat_server: Any, open_model: Any
) -> None:
    def script(asked: Any) -> Any:
        return chat_server.failed(400, "no response_format here") if "response_format" in asked.body else "ok"

    chat_server.follows(script)
    model = await open_model("openai/gpt-4o-mini")
    for _ in range(2):
        assert (await model.complete(request(schema=SCHEMA))).text == "ok"
    assert ["response_format" in each.body for each in chat_server.requests] == [True, False, False]


# --- replies that are not whole ------------------------------------------------------------


async def test_a_reply_that_is_cut_off_refused_filtered_or_empty_says_so(
    chat_server: Any, open_model: Any
) -> None:
    model = await open_model()
    expected = [
        (chat_server.cut_off("The answer is"), FinishReason.LENGTH, "The answer is"),
        (chat_server.refused("I would rather not."), FinishReason.REFUSAL, "I would rather not."),
        (chat_server.Answer("some", finish_reason="content_filter"), FinishReason.REFUSAL, "some"),
        (chat_server.Answer("  \n"), FinishReason.EMPTY, "  \n"),
        (chat_server.Answer(None), FinishReason.EMPTY, ""),
        (chat_server.Answer(body='{"choices": []}'), FinishReason.EMPTY, ""),
    ]
    for answer, reason, text in expected:
        chat_server.says(answer)
        reply = await model.complete(request())
        assert (reply.finish_reason, reply.text) == (reason, text)


# --- retries -------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_a_passing_failure_is_tried_again(
    chat_server: Any, open_model: Any, pauses: Pauses, status: int
) -> None:
    chat_server.says(chat_server.failed(status), chat_server.failed(status), "At last.")
    assert (await (await open_model()).complete(request())).text == "At last."
    assert len(pauses) == 2
    assert 0.5 <= pauses[0] < pauses[1] <= 2


async def test_a_lost_connection_is_tried_again(chat_server: Any, open_model: Any) -> None:
    chat_server.says(chat_server.hung_up(), "At last.")
    assert (await (await open_model()).complete(request())).text == "At last."


async def test_it_waits_as_long_as_the_service_asks(
    chat_server: Any, open_model: Any, pauses: Pauses
) -> None:
    moment = email.utils.format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    limited = [chat_server.rate_limited(each) for each in ("7", "1.5", moment)]
    chat_server.says(*limited, "At last.")
    assert (await (await open_model()).complete(request())).text == "At last."
    assert pauses[:2] == [7, 1.5]
    assert 20 < pauses[2] <= 40


async def test_it_does_not_wait_for_an_hour(chat_server: Any, open_model: Any, pauses: Pauses) -> None:
    chat_server.says(chat_server.rate_limited("3600"))
    with pytest.raises(ModelUnavailable, match="3600 seconds"):
        await (await open_model()).complete(request())
    assert (chat_server.calls, pauses) == (1, [])


async def test_after_the_last_attempt_the_error_names_model_address_and_cause(
    chat_server: Any, open_model: Any
) -> None:
    chat_server.says(chat_server.failed(503, "the model is loading"))
    with pytest.raises(ModelUnavailable) as caught:
        await (await open_model(attempts=3)).complete(request())
    assert chat_server.calls == 3
    for said in ("openai/tiny", chat_server.url, "3 attempts", "the model is loading"):
        assert said in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_lasting_failure_is_not_tried_again(chat_server: Any, open_model: Any, status: int) -> None:
    chat_server.says(chat_server.failed(status))
    with pytest.raises((InvalidInput, ReplyUnusable)):
        await (await open_model()).complete(request())
    assert chat_server.calls == 1


async def test_an_account_without_quota_is_not_a_rate_limit(chat_server: Any, open_model: Any) -> None:
    body = '{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'
    chat_server.says(chat_server.Answer(status=429, body=body))
    with pytest.raises(InvalidInput, match="no quota left"):
        await (await open_model()).complete(request())
    assert chat_server.calls == 1


@pytest.mark.parametrize("body", ["<html>hello</html>", "[]", "{}", "null", ""])
async def test_a_page_that_is_no_completion_counts_as_no_answer(
    chat_server: Any, open_model: Any, body: str
) -> None:
    chat_server.says(chat_server.Answer(body=body))
    with pytest.raises(ModelUnavailable):
        await (await open_model(attempts=2)).complete(request())


# --- concurrency ---------------------------------------------------------------------------


async def test_no_more_calls_run_at_once_than_the_limit_and_no_fewer(
    chat_server: Any, open_model: Any
) -> None:
    three = threading.Barrier(3, timeout=20)

    def script(_: Any) -> str:
        three.wait()  # breaks unless three calls are under way together
        return "ok"

    chat_server.follows(script)
    model = await open_model(limits=Limits(3))
    async with anyio.create_task_group() as tasks:
        for _ in range(9):
            tasks.start_soon(model.complete, request())
    assert chat_server.most_at_once == 3
    assert not three.broken


async def test_a_call_that_waits_for_its_next_attempt_holds_no_place(chat_server: Any) -> None:
    other_done = anyio.Event()

    async def until_the_other_is_done(_: float) -> None:
        await other_done.wait()

    chat_server.follows(
        lambda asked: chat_server.failed(500) if asked.last == "first" and chat_server.calls == 1 else "ok"
    )
    model = await LiteLLMChatModel.open(
        "openai/tiny", api_base=chat_server.url, limits=Limits(1), sleep=until_the_other_is_done
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model.complete, request("first"))
            while not chat_server.calls:  # until the first has its place
                await anyio.lowlevel.checkpoint()
            await model.complete(request("second"))
            other_done.set()
    assert chat_server.calls == 3
    await model.close()


async def test_if_every_call_fails_only_twice_as_many_begin_as_run_at_once(chat_server: Any) -> None:
    waiting = 0

    async def wait_for_ever(_: float) -> None:
        nonlocal waiting
        waiting += 1
        await anyio.sleep_forever()

    chat_server.says(chat_server.failed(500))
    model = await LiteLLMChatModel.open(
        "openai/tiny", api_base=chat_server.url, limits=Limits(2), sleep=wait_for_ever
    )
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(model.complete, request(str(number)))
        with anyio.fail_after(20):
            while waiting < 4:
                await anyio.sleep(0.01)
        with anyio.move_on_after(0.3):
            while waiting == 4:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert waiting == chat_server.calls == 4
    await model.close()


# --- limits --------------------------------------------------------------------------------


async def test_a_rate_limit_has_more_patience_and_says_how_much(
    chat_server: Any, open_model: Any, pauses: Pauses
) -> None:
    chat_server.says(*[chat_server.rate_limited("2")] * 7, "At last.")
    model = await open_model(attempts=3)
    assert (await model.complete(request())).text == "At last."
    assert pauses == [2.0] * 7
    chat_server.says(chat_server.rate_limited())
    with pytest.raises(ModelUnavailable, match="after 9 attempts"):
        await model.complete(request())


async def test_one_call_that_is_told_to_wait_does_not_stop_the_others(chat_server: Any) -> None:
    others_done = anyio.Event()

    async def until_the_others_are_done(_: float) -> None:
        await others_done.wait()

    first = threading.Event()

    def script(asked: Any) -> Any:
        if asked.last == "straggler" and not first.is_set():
            first.set()
            return chat_server.rate_limited("60")
        return "ok"

    chat_server.follows(script)
    model = await LiteLLMChatModel.open(
        "openai/tiny", api_base=chat_server.url, limits=Limits(4), sleep=until_the_others_are_done
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model.complete, request("straggler"))
            while not first.is_set():
                await anyio.lowlevel.checkpoint()
            for number in range(9):
                await model.complete(request(f"other {number}"))
            others_done.set()
    assert chat_server.calls == 11
    await model.close()


async def test_while_the_rate_is_limited_fewer_calls_run_at_once(chat_server: Any, open_model: Any) -> None:
    four, after = threading.Barrier(4, timeout=20), threading.Event()

    def script(_: Any) -> Any:
        if chat_server.calls <= 4 and not after.is_set():
            four.wait()  # all four are under way together
            return chat_server.rate_limited("1")
        if not after.is_set():
            after.set()
            chat_server.most_at_once = 0
        return chat_server.Answer("ok", seconds=0.02)

    chat_server.follows(script)
    model = await open_model(limits=Limits(4))
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(model.complete, request(str(number)))
    assert chat_server.most_at_once <= 3  # two, and a third when they were answered
    assert chat_server.calls == 4 + 8


async def test_requests_a_minute_are_held_to(chat_server: Any) -> None:
    now, moments = 0.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def script(_: Any) -> str:
        moments.append(now)
        return "ok"

    chat_server.follows(script)
    model = await LiteLLMChatModel.open(
        "openai/tiny",
        api_base=chat_server.url,
        limits=Limits(4, requests_per_minute=30),
        sleep=sleep,
        clock=lambda: now,
    )
    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(model.complete, request(str(number)))
    await model.close()
    assert len(moments) == 6
    assert now == 10.0


async def test_a_call_that_waited_long_for_its_turn_is_tried_again_too(chat_server: Any) -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    chat_server.says("first", chat_server.failed(503), "second")
    model = await LiteLLMChatModel.open(
        "openai/tiny",
        api_base=chat_server.url,
        seconds=30,
        limits=Limits(1, requests_per_minute=1),
        sleep=sleep,
        clock=lambda: now,
    )
    replies = [(await model.complete(request())).text for _ in range(2)]
    await model.close()
    assert replies == ["first", "second"]
    # The turn of the second call came after more seconds than all its attempts may take, that of its retry as well.
    assert now >= 120


async def test_tokens_a_minute_are_held_to_by_what_replies_use(chat_server: Any) -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    chat_server.says(chat_server.Answer("ok", tokens=(500, 100)))
    model = await LiteLLMChatModel.open(
        "openai/tiny",
        api_base=chat_server.url,
        limits=Limits(1, tokens_per_minute=6000),
        sleep=sleep,
        clock=lambda: now,
    )
    for number in range(11):
        await model.complete(request(str(number)))
    await model.close()
    # 600 tokens a call are ten calls a minute, however many were expected of the first.
    assert now == pytest.approx(60, rel=0.05)


@pytest.mark.parametrize("name", ["openai/gpt-4o-mini", "gpt-4o-mini", "anthropic/claude-sonnet-4-5"])
async def test_a_known_price_is_told_before_any_call(open_model: Any, name: str) -> None:
    model = await open_model(name)
    assert 0 < model.price.prompt < model.price.completion


async def test_an_unknown_price_is_none(open_model: Any) -> None:
    assert (await open_model()).price is None


async def test_a_service_that_hangs_in_silence_is_dead_after_one_attempt(
    chat_server: Any, open_model: Any
) -> None:
    chat_server.says(chat_server.stalled())
    # On a busy machine an attempt takes longer than its seconds: here each takes exactly these.
    model = await open_model(seconds=0.3, clock=lambda: 0.3 * chat_server.calls)
    with pytest.raises(ModelUnavailable, match=r"at the only attempt.*LEANRAG_LLM_SILENCE_SECONDS"):
        await model.complete(request())
    assert chat_server.calls == 1


async def test_a_call_without_an_answer_is_tried_again_if_others_are_answered(
    chat_server: Any, open_model: Any
) -> None:
    slow, others_answered = threading.Event(), threading.Event()

    def script(asked: Any) -> Any:
        if "slow" in str(asked.body) and not slow.is_set():
            slow.set()
            assert others_answered.wait(20)
            return chat_server.Answer(status=408)
        return chat_server.Answer("ok")

    chat_server.follows(script)
    model = await open_model(seconds=20, clock=lambda: 20.0 * chat_server.calls)

    async def ask_another() -> None:
        await anyio.to_thread.run_sync(slow.wait, 20)
        await model.complete(request("Another?"))
        others_answered.set()

    async with anyio.create_task_group() as group:
        group.start_soon(ask_another)
        assert (await model.complete(request("slow"))).text == "ok"
    assert chat_server.calls == 3


# --- at the door ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nonsense/model", "provider/model"),
        ("gpt-4o-minni", "Did you mean gpt-4o-mini"),
        ("", "provider/model"),
    ],
)
async def test_a_name_without_a_provider_is_refused_with_the_form_it_should_have(
    name: str, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        await LiteLLMChatModel.open(name)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("gpt-4o-mini", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"),
        ("gemini/gemini-2.0-flash", "GEMINI_API_KEY or GOOGLE_API_KEY"),
    ],
)
async def test_a_missing_key_is_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    for each in ("OPENAI", "ANTHROPIC", "DEEPSEEK", "GEMINI", "GOOGLE"):
        monkeypatch.delenv(f"{each}_API_KEY", raising=False)
    with pytest.raises(InvalidInput, match=variable):
        await LiteLLMChatModel.open(name)


async def test_a_server_of_ones_own_needs_no_key(
    chat_server: Any, open_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert (await (await open_model()).complete(request())).text == "Hello."
    chat_server.says(chat_server.failed(401))
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY"):
        await (await open_model()).complete(request())


@pytest.mark.parametrize("address", ["localhost:8000", "http://", "not a url", "ftp://x"])
async def test_an_address_that_is_no_url_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="no URL"):
        await LiteLLMChatModel.open("openai/tiny", api_base=address)


async def test_an_unreachable_address_is_named_in_the_error(open_model: Any) -> None:
    model = await open_model(api_base="http://someone:hunter2hunter2@127.0.0.1:9/v1", attempts=2)
    with pytest.raises(ModelUnavailable) as caught:
        await model.complete(request())
    assert "http://127.0.0.1:9/v1" in str(caught.value)
    assert "can be reached" in str(caught.value)
    assert "hunter2" not in str(caught.value)


# --- secrets and silence -------------------------------------------------------------------


async def test_no_error_and_no_log_line_holds_the_key(
    chat_server: Any, open_model: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("LiteLLM", "openai", "httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, name)
    model = await open_model(attempts=2)
    for status in (400, 401, 403, 404, 408, 413, 422, 429, 500, 503):
        # The worst of all providers: it says the key back, whole.
        chat_server.says(chat_server.failed(status, f"Incorrect API key provided: {KEY}"))
        with pytest.raises(LeanRAGError) as caught:
            await model.complete(request())
        shown = "".join(traceback.format_exception(caught.value))
        assert KEY not in shown + repr(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None
    assert caplog.records
    assert not [record for record in caplog.records if KEY in record.getMessage()]
    assert KEY not in "".join(capfd.readouterr())


async def test_nothing_is_printed_and_nothing_is_logged_above_debug(
    chat_server: Any, open_model: Any, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    model = await open_model(attempts=1)
    chat_server.says("fine", chat_server.failed(400), chat_server.failed(500))
    await model.complete(request())
    for _ in range(2):
        with pytest.raises(LeanRAGError):
            await model.complete(request())
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_litellm_is_quiet_and_the_only_addresses_that_are_ever_called_are_those_of_the_models(
    chat_server: Any, embedding_server: Any, tmp_path: Path
) -> None:
    code = f"""
import sys, anyio
seen = []
def note(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        seen.append(arguments[1] if event == "socket.connect" else arguments[:2])
sys.addaudithook(note)
from leanrag_engine.adapters.chat.model import LiteLLMChatModel
from leanrag_engine.adapters.embedders.service import LitellmModel, LitellmSource
from leanrag_engine.core.errors import InvalidInput, LeanRAGError
from leanrag_engine.core.ports import ChatRequest, Message
assert not {{"litellm", "openai"}} & set(sys.modules)
async def main():
    model = await LiteLLMChatModel.open("openai/tiny", api_base={chat_server.url!r})
    print((await model.complete(ChatRequest((Message("user", "Hi"),), max_tokens=5))).text)
    await model.close()
    await LitellmSource(LitellmModel("openai/m", {embedding_server.url!r})).fit(["oak"])
    try:
        await LitellmSource(LitellmModel("openai/m", {embedding_server.url!r} + "/nowhere")).fit(["oak"])
    except InvalidInput as problem:
        print("refused")
    model = await LiteLLMChatModel.open("anthropic/claude-sonnet-4-5", api_base={chat_server.url!r})
    try:
        schema = {{"title": "x", "type": "object", "properties": {{}}, "additionalProperties": False}}
        await model.complete(ChatRequest((Message("user", "Hi"),), max_tokens=5, schema=schema))
    except LeanRAGError as problem:
        print("refused")
    await model.close()
anyio.run(main)
print(sorted({{each[1] for each in seen}}), {{each[0] for each in seen}})
"""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("LITELLM", "OPENAI"))
    } | {"ANTHROPIC_API_KEY": KEY}
    ran = subprocess.run(
        [sys.executable, "-P", "-W", "error::ResourceWarning", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    ports = sorted(int(each.url.split(":")[-1].split("/")[0]) for each in (chat_server, embedding_server))
    assert ran.stdout.splitlines() == ["Hello.", "refused", "refused", f"{ports} {{'127.0.0.1'}}"], ran.stderr
    assert ran.stderr == ""


def test_every_error_of_litellm_is_mapped() -> None:
    import litellm  # noqa: PLC0415 - heavy
    import openai  # noqa: PLC0415 - heavy

    caught = litellm_model.foreign_errors(litellm)
    defined = [each for _, each in inspect.getmembers(litellm.exceptions, inspect.isclass)]
    calls = [each for each in defined if issubclass(each, openai.OpenAIError)]
    assert len(calls) > 15
    # Of litellm's proxy, its mocks, and an old name of BadRequestError: no call raises these.
    never = {"InvalidRequestError", "MockException", "OpenAIError"}
    own = [each for each in calls if each.__module__ == "litellm.exceptions" and each.__name__ not in never]
    assert [each.__name__ for each in own if not issubclass(each, caught)] == []
