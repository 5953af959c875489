"""Chat models of any provider, through litellm; :func:`import_litellm` keeps that from the network, ``.env``
files and standard output. litellm takes keys from the provider's environment variable. No key is an argument
here, and error texts of a provider are quoted without the values of such variables."""

import email.utils
import math
import os
import re
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Self

import anyio
import anyio.to_thread
import tenacity

from leanrag_engine.core.errors import (
    InvalidInput,
    LeanRAGError,
    ModelSilent,
    ModelUnavailable,
    ReplyUnusable,
)
from leanrag_engine.core.ports import ChatRequest, FinishReason, Price, Reply
from leanrag_engine.core.runtime.telemetry import measure, watch
from leanrag_engine.core.text.nearest import find_nearest
from leanrag_engine.core.text.shortening import cut_end, one_line

from .pacing import Clock, Pace, Places, Sleep

# How long and how often one call is tried. Set by reading; the tests on a fake service only check that they hold.
_ATTEMPTS = 5  # Default attempts of one call before it fails
_RATE_LIMITED = 3  # Times as many attempts if the rate is limited: the service works
_SECONDS = 60.0  # Default seconds within which a service must answer a call
_DEADLINE = 270.0  # No attempt begins after so many seconds; waiting for its turn does not count
_FIRST_PAUSE = 0.5  # Seconds before the second attempt, doubled for each further one, with jitter
_LONGEST_PAUSE = 30.0  # Longest pause in seconds, if the service does not ask for another
_LONGEST_WAIT = 120.0  # Longest wait in seconds that a service may ask for (Retry-After)

PASSING = frozenset({408, 409, 425, 429, *range(500, 600)})  # HTTP statuses that may be temporary

NO_SCHEMA = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
"""HTTP statuses of a service that accepts no JSON schema."""

NO_KEY = "not-needed"  # Placeholder key for the user's own server: OpenAI's library requires one

_USER = re.compile(r"//[^/@]*@")
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_FOREWORD = re.compile(r"^(litellm\.)?\w*(Error|Timeout|Exception)( Error)?(:| -) *")


@dataclass(frozen=True, slots=True)
class Limits:
    """Calls at once, and requests and tokens a minute; 0 a minute: no limit."""

    concurrency: int = 8
    requests_per_minute: int = 0
    tokens_per_minute: int = 0


class LiteLLMChatModel:
    """Implements :class:`leanrag_engine.core.ports.ChatModel`. Open it with :meth:`open`."""

    def __init__(
        self,
        litellm: Any,
        name: str,
        api_base: str,
        seconds: float,
        attempts: int,
        limits: Limits,
        sleep: Sleep,
        clock: Clock,
    ) -> None:
        self._litellm = litellm
        self.name = name
        self._seconds = seconds
        self._attempts = attempts
        self._sleep = sleep
        self._clock = clock
        self._answered = -math.inf  # when the service last answered any call
        self.concurrency = limits.concurrency
        self._places = Places(limits.concurrency)
        self._requests = Pace(limits.requests_per_minute, clock=clock, sleep=sleep)
        self._tokens = Pace(limits.tokens_per_minute, clock=clock, sleep=sleep)
        self._sizes = TokenForecast()
        # A call that waits for its next attempt releases its place for others, but stays begun until it is answered
        # or fails for good: if every call fails, only so many are tried before the first failure is reported.
        self._begun = anyio.Semaphore(2 * limits.concurrency)
        self._address = address_options(litellm, name, api_base)
        self._takes_schema = bool(litellm.supports_response_schema(model=name))

    @classmethod
    async def open(
        cls,
        name: str,
        *,
        api_base: str = "",
        seconds: float = _SECONDS,
        attempts: int = _ATTEMPTS,
        limits: Limits = Limits(),
        calls: bool = True,
        sleep: Sleep = anyio.sleep,
        clock: Clock = time.monotonic,
    ) -> Self:
        """Return the model that litellm calls ``name``, at ``api_base`` or else at its provider's address. Sends nothing.
        Raises ``InvalidInput`` for an unknown provider, a bad address, or a missing key, which is not needed without
        ``calls``. A call without an answer after ``seconds`` is tried again only if another one was answered meanwhile."""
        if api_base and not re.match(r"https?://[^/\s]+", api_base):
            raise InvalidInput(
                f"The address {api_base!r} of the model's service is no URL.",
                "Give one such as http://localhost:8000/v1.",
            )
        litellm = await anyio.to_thread.run_sync(import_litellm)
        check_model(litellm, name, needs_key=calls and not api_base)
        return cls(litellm, name, api_base, seconds, attempts, limits, sleep, clock)

    @property
    def price(self) -> Price | None:
        """Return litellm's price for a model of this name, wherever it runs."""
        known = find_listed(self._litellm, self.name)
        prompt, completion = known.get("input_cost_per_token"), known.get("output_cost_per_token")
        return None if prompt is None or completion is None else Price(prompt, completion)

    async def complete(self, request: ChatRequest) -> Reply:
        failure: Exception
        async with self._begun:
            began = self._clock()
            time_used = TimeUsed(self._clock)

            def is_late(problem: BaseException | None) -> bool:
                silent = is_timeout(problem) and time_used.seconds >= self._seconds and self._answered < began
                return silent or time_used.seconds >= _DEADLINE

            attempts = retry_policy(
                self._attempts, self._sleep, limited=_RATE_LIMITED * self._attempts, is_late=is_late
            )
            with watch("chat", self.name) as call:
                try:
                    reply: Reply = await attempts(self._attempt, request, time_used)
                except foreign_errors(self._litellm) as problem:
                    failure = problem
                    call.fail(type(problem).__name__)
                else:
                    call.note(input_tokens=reply.prompt_tokens, output_tokens=reply.completion_tokens)
                    measure("chat.tokens", reply.prompt_tokens, "token", kind=self.name, direction="input")
                    measure(
                        "chat.tokens", reply.completion_tokens, "token", kind=self.name, direction="output"
                    )
                    return reply
                finally:
                    call.note(step=request.step, attempts=attempts.statistics.get("attempt_number", 1))
        # Outside the handler: the provider's error may hold a key, and would become the context of this one.
        silent = is_timeout(failure) and self._answered < began
        raise self._map_error(failure, attempts.statistics.get("attempt_number", 1), silent=silent)

    async def close(self) -> None:
        """Close the connections of this event loop, which litellm keeps by loop and never closes itself."""
        import asyncio  # noqa: PLC0415 - litellm's cache is keyed by asyncio's loop, as litellm runs on it alone

        clients = self._litellm.in_memory_llm_clients_cache.cache_dict
        mine = f"-{id(asyncio.get_running_loop())}"
        for key in [key for key in clients if key.endswith(mine)]:
            client = clients.pop(key)
            if hasattr(client, "close"):
                await client.close()

    async def _attempt(self, request: ChatRequest, time_used: "TimeUsed") -> Reply:
        schema = request.schema if self._takes_schema else None
        try:
            return await self._call(request, schema, time_used)
        except foreign_errors(self._litellm) as problem:
            if schema is None or getattr(problem, "status_code", None) not in NO_SCHEMA:
                raise
        # Some services accept no schema although litellm lists it; the prompt asks for the same form.
        reply = await self._call(request, None, time_used)
        self._takes_schema = False
        return reply

    async def _call(self, request: ChatRequest, schema: Any, time_used: "TimeUsed") -> Reply:
        options: dict[str, Any] = {**self._address}
        if schema is not None:
            named = {"name": schema.get("title", "reply"), "schema": schema, "strict": True}
            options["response_format"] = {"type": "json_schema", "json_schema": named}
        time_used.pause()
        async with self._places.limiter:
            expected = self._sizes.estimate(request)
            await self._requests.take(1)
            await self._tokens.take(expected)
            time_used.go_on()
            began = self._places.round
            try:
                response = await self._litellm.acompletion(
                    model=self.name,
                    messages=[{"role": each.role, "content": each.text} for each in request.messages],
                    max_tokens=request.max_tokens,
                    temperature=request.temperature,
                    seed=request.seed,
                    timeout=self._seconds,
                    max_retries=0,
                    num_retries=0,
                    drop_params=True,  # such as the temperature of a model that has none to set
                    **options,
                )
            except foreign_errors(self._litellm) as problem:
                if is_limited(problem):
                    self._places.halve(began)
                raise
            self._answered = self._clock()
            reply = read_reply(response)
            self._places.widen()
            self._sizes.note(request, reply)
            self._tokens.refund(expected - reply.prompt_tokens - reply.completion_tokens)
        return reply

    def _map_error(self, problem: Exception, attempts: int, *, silent: bool) -> LeanRAGError:
        """Map the provider's error to one of ours, by what the caller can do."""
        who, where = f"model {self.name!r}", format_address(self._address.get("api_base", ""))
        if lasting := map_lasting_error(self._litellm, self.name, who, where, problem):
            return lasting
        if may_be_retried(problem):
            tried = f"after {attempts} attempts" if attempts > 1 else "at the only attempt"
            kind = ModelSilent if silent else ModelUnavailable
            return kind(
                f"Model {self.name!r}{where} does not answer, {tried}: {quote_error(problem)}",
                advice(problem, where),
            )
        return ReplyUnusable(
            f"The service of {who}{where} rejected the request: {quote_error(problem)}",
            "Send a shorter request, or use another model.",
        )


class TimeUsed:
    """The seconds that one call has taken, without those in which it waited for its turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = self._paused = clock()

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def pause(self) -> None:
        self._paused = self._clock()

    def go_on(self) -> None:
        self._began += self._clock() - self._paused


@dataclass(slots=True)
class TokenForecast:
    """The token use of past calls, from which that of the next one is estimated."""

    characters: int = 0
    prompt_tokens: int = 0
    room: int = 0
    completion_tokens: int = 0

    def estimate(self, request: ChatRequest) -> float:
        letters = sum(len(each.text) for each in request.messages)
        # Before the first reply: 3 characters a token, and replies that fill 30 % of their limit.
        per_character = self.prompt_tokens / self.characters if self.prompt_tokens else 1 / 3.0
        filled = self.completion_tokens / self.room if self.room else 0.3
        return letters * per_character + request.max_tokens * filled

    def note(self, request: ChatRequest, reply: Reply) -> None:
        self.characters += sum(len(each.text) for each in request.messages)
        self.prompt_tokens += reply.prompt_tokens
        self.room += request.max_tokens
        self.completion_tokens += reply.completion_tokens


# --- litellm -------------------------------------------------------------------------------


def import_litellm() -> Any:
    """Import litellm (about two seconds the first time) so that it neither reads a stray file nor prints."""
    # Else it reads whichever .env lies above site-packages.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    import litellm  # noqa: PLC0415 - heavy, and the switches above must be set first

    litellm.suppress_debug_info = True
    # litellm prepares each call in a thread; a call cancelled meanwhile leaves a coroutine that is never awaited.
    warnings.filterwarnings("ignore", r"coroutine '\w+\.a\w+' was never awaited", RuntimeWarning)
    return litellm


def foreign_errors(litellm: Any) -> tuple[type[Exception], ...]:
    """Return the errors that a call may raise: litellm maps every provider's errors to these."""
    return tuple(litellm.exceptions.LITELLM_EXCEPTION_TYPES)


def format_address(api_base: str) -> str:
    """Format the address for an error message, without its password; "" if none was given."""
    return f" at {_USER.sub('//', api_base)}" if api_base else ""


def missing_keys(litellm: Any, name: str) -> list[str]:
    """Return the environment variables for the key of the model's provider, if none of them is set."""
    missing: list[str] = litellm.validate_environment(model=name)["missing_keys"]
    # A provider that lists more than keys (regions, projects) may read them from its own files.
    return sorted(missing) if all(each.endswith("_API_KEY") for each in missing) else []


def address_options(litellm: Any, name: str, api_base: str) -> dict[str, Any]:
    """Return the options of a call that say where the model is; none for its provider's own address."""
    key = {"api_key": NO_KEY} if api_base and missing_keys(litellm, name) else {}
    return {"api_base": api_base, **key} if api_base else {}


def find_listed(litellm: Any, name: str) -> dict[str, Any]:
    """Return what litellm lists of a model of this name, wherever it runs: prices, tokens that it reads at once."""
    listed = litellm.model_cost
    return listed.get(name) or listed.get(name.partition("/")[2]) or {}


def check_model(litellm: Any, name: str, *, needs_key: bool) -> None:
    """Raise ``InvalidInput`` for a model of an unknown provider, and one without the key that it needs."""
    try:
        litellm.get_llm_provider(name)
    except foreign_errors(litellm):
        near = find_nearest(name, litellm.model_cost, 3, cutoff=0.75)
        guess = f" Did you mean {' or '.join(near)}?" if near else ""
        raise InvalidInput(
            f"The provider of the model {name!r} is unknown.{guess}",
            "Write provider/model, such as openai/gpt-4o-mini, anthropic/claude-sonnet-4-5 or ollama_chat/llama3.1; for a "
            "server that speaks OpenAI's protocol write openai/ and the model's name there, and give its address.",
        ) from None
    if needs_key and (missing := missing_keys(litellm, name)):
        raise InvalidInput(
            f"Model {name!r} needs a key.",
            f"Set the environment variable {' or '.join(missing)}; for a server of your own give its address.",
        )


def read_reply(response: Any) -> Reply:
    """Convert litellm's response, any part of which may be missing."""
    usage = getattr(response, "usage", None)
    choice = response.choices[0] if response.choices else None
    text, reason = ("", FinishReason.EMPTY) if choice is None else read_choice(choice)
    return Reply(
        text,
        reason,
        prompt_tokens=getattr(usage, "prompt_tokens", None) or 0,
        completion_tokens=getattr(usage, "completion_tokens", None) or 0,
        cost=response._hidden_params.get("response_cost"),  # noqa: SLF001 - where litellm documents it
    )


def read_choice(choice: Any) -> tuple[str, FinishReason]:
    """Return the text of a choice, or of its refusal, and why it ended."""
    text = choice.message.content or ""
    special = getattr(choice.message, "provider_specific_fields", None) or {}
    if refusal := special.get("refusal"):
        return str(refusal), FinishReason.REFUSAL
    if choice.finish_reason == "content_filter":
        return text, FinishReason.REFUSAL
    if choice.finish_reason == "length":
        return text, FinishReason.LENGTH
    return text, FinishReason.STOP if text.strip() else FinishReason.EMPTY


# --- errors and pauses ---------------------------------------------------------------------


def retry_policy(
    attempts: int,
    sleep: Sleep,
    *,
    limited: int = 0,
    is_late: Callable[[BaseException | None], bool] = lambda _: False,
) -> tenacity.AsyncRetrying:
    """Return a policy of at most ``attempts`` attempts (``limited`` if the rate is limited), none of which begins when it
    ``is_late`` after the last error. It raises the last error unchanged."""

    def is_enough(state: tenacity.RetryCallState) -> bool:
        problem = state.outcome.exception() if state.outcome else None
        most = max(attempts, limited) if problem is not None and is_limited(problem) else attempts
        return state.attempt_number >= most or is_late(problem)

    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(is_worth_retrying),
        wait=pause,
        stop=is_enough,
        sleep=sleep,
        reraise=True,
    )


def is_worth_retrying(problem: BaseException) -> bool:
    """Return whether to try again: not if the service asks for too long a wait."""
    return may_be_retried(problem) and (read_retry_after(problem) or 0) <= _LONGEST_WAIT


def may_be_retried(problem: BaseException) -> bool:
    return getattr(problem, "status_code", None) in PASSING and not out_of_quota(problem)


def is_timeout(problem: BaseException | None) -> bool:
    """Return whether the service did not answer in time."""
    return getattr(problem, "status_code", None) == HTTPStatus.REQUEST_TIMEOUT


def is_limited(problem: BaseException) -> bool:
    """Return whether the service rejects the rate of calls."""
    return getattr(problem, "status_code", None) == HTTPStatus.TOO_MANY_REQUESTS and not out_of_quota(problem)


def out_of_quota(problem: BaseException) -> bool:
    """Return whether the account has no money left: OpenAI answers 429 then, too, but waiting does not help."""
    return "insufficient_quota" in f"{getattr(problem, 'body', '')} {problem}"


def read_retry_after(problem: BaseException) -> float | None:
    """Return the seconds that the service asks to wait (Retry-After: seconds or a date), ``None`` without such a header."""
    headers = getattr(problem, "litellm_response_headers", None) or {}
    value = str(headers.get("retry-after", "")).strip()
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError):
        return max(0.0, (email.utils.parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    return None


_growing_pause = tenacity.wait_exponential(
    multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE
) + tenacity.wait_random(0, _FIRST_PAUSE / 2)


def pause(state: tenacity.RetryCallState) -> float:
    """Return the seconds before the next attempt: as the service asks, else growing."""
    problem = state.outcome.exception() if state.outcome else None
    asked = read_retry_after(problem) if problem else None
    return _growing_pause(state) if asked is None else asked


def map_lasting_error(
    litellm: Any, name: str, who: str, where: str, problem: Exception
) -> InvalidInput | None:
    """Map an error that every request would meet: a wrong key, a wrong name, an account without quota. ``who`` is the model
    that litellm calls ``name``, and ``where`` its address, as messages name them."""
    status = getattr(problem, "status_code", None)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        provider = litellm.get_llm_provider(name)[1]
        variable = f"the provider's environment variable ({provider.upper()}_API_KEY)"
        return InvalidInput(
            f"The service of {who}{where} refused the key (HTTP {status}).",
            f"Set {' or '.join(missing_keys(litellm, name)) or variable} to a valid key; see that it may use this model.",
        )
    if status == HTTPStatus.NOT_FOUND:
        return InvalidInput(
            f"The service{where} has no {who.removeprefix('the ')}: {quote_error(problem)}",
            "Check the model's name and the address of its service.",
        )
    if out_of_quota(problem):
        return InvalidInput(
            f"The account behind {who} has no quota left: {quote_error(problem)}",
            "Raise the limit at the provider, or use another model.",
        )
    return None


def quote_error(problem: Exception) -> str:
    """Return the provider's message on one short line, with secret values of environment variables replaced."""
    text = one_line(str(problem))
    while (shorter := _FOREWORD.sub("", text)) != text:
        text = shorter
    for name, value in os.environ.items():
        # Values below 8 characters are switches.
        if value[7:] and _SECRET_NAME.search(name.upper()):
            text = text.replace(value, f"[{name}]")
    longest = 300
    return f"{text.rstrip('.')}." if len(text) <= longest else cut_end(text, longest)


def advice(problem: Exception, where: str) -> str:
    asked = read_retry_after(problem)
    if asked is not None and asked > _LONGEST_WAIT:
        return (
            f"The service asks for a pause of {asked:.0f} seconds; try again after it, or use another model."
        )
    if getattr(problem, "status_code", None) == HTTPStatus.TOO_MANY_REQUESTS:
        return "Let fewer calls run at once, or try again later."
    if is_timeout(problem):
        return (
            "Check that the service works. If its model is only slow, raise the setting llm_silence_seconds "
            "(LEANRAG_LLM_SILENCE_SECONDS)."
        )
    if where:
        return "Check that the service runs there and can be reached."
    return "Try again later, or use another model."
