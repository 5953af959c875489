"""A service's model, through litellm and a real HTTP server on loopback that speaks OpenAI's protocol."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

import anyio
import numpy as np
import pytest

from leanrag_engine.adapters.embedders.service import LitellmEmbedder, LitellmModel, LitellmSource
from leanrag_engine.adapters.wiring import embedder_source
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import Cancelled, InvalidInput, ModelUnavailable, StoreUnusable
from leanrag_engine.core.model import Vectors
from leanrag_engine.core.ports import Embedder, Progress

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def service(embedding_server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return embedding_server


class Sleeps(list[float]):
    """Takes the place of waiting, and keeps how long it would have been."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


def source(service: Any, **options: Any) -> LitellmSource:
    return LitellmSource(LitellmModel("openai/some-model", service.url, **options))


def given(service: Any, **options: Any) -> Embedder:
    return anyio.run(source(service, **options).fit, ["oak"])[0]


def embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    return anyio.run(embedder.embed, texts)


def expected(service: Any, texts: Sequence[str]) -> Vectors:
    rows = np.array([service.vector_of(text) for text in texts], dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# --- vectors -------------------------------------------------------------------------------


def test_texts_get_the_services_vectors_as_unit_rows_in_their_order(service: Any) -> None:
    texts = [f"tree {number} " * (1 + number % 7) for number in range(200)]
    rows = embedded(given(service), texts)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, expected(service, texts), atol=1e-5)
    assert len(service.requests) == 1 + 4, "one to learn the dimension, then 64 texts in each"


def test_several_batches_are_under_way_at_once_but_not_all(service: Any) -> None:
    embedder = given(service)
    service.slow.clear()

    def report(_: Progress) -> None:
        if service.at_once == 4:
            service.slow.set()

    anyio.run(embedder.embed, [f"oak {number}" for number in range(640)], report)
    assert service.most_at_once == 4
    assert len(service.requests) == 1 + 10


def test_blank_texts_are_not_sent(service: Any) -> None:
    rows = embedded(given(service), ["", "oak", " \n"])
    assert not rows[[0, 2]].any()
    assert rows[1].any()
    assert service.texts == ["oak", "oak"]


def test_no_text_makes_no_call(service: Any) -> None:
    embedder = given(service)
    assert embedded(embedder, []).shape == (0, 8)
    assert len(service.requests) == 1


def test_rows_that_come_in_another_order_find_their_texts(service: Any) -> None:
    service.change = lambda rows: rows[::-1]
    np.testing.assert_allclose(
        embedded(given(service), ["oak", "ash"]), expected(service, ["oak", "ash"]), atol=1e-5
    )


def test_a_text_beyond_the_window_is_sent_in_several(service: Any) -> None:
    text = "Title\n" + " ".join(f"w{number}" for number in range(900)) + " zorkmid"
    assert embedded(given(service), ["short", text]).shape == (2, 8)
    sent = service.texts[1:]
    assert len(sent) > 3
    assert sum(each.startswith("Title\n") for each in sent) == len(sent) - 1
    assert sum("zorkmid" in each for each in sent) == 1
    service.requests.clear()
    embedded(given(service, window=100_000), ["short", text])
    assert sorted(service.texts[1:]) == sorted(["short", text])


def test_a_restored_embedder_needs_no_call(service: Any) -> None:
    embedder, state = anyio.run(source(service).fit, ["oak"])
    restored = anyio.run(source(service).restore, embedder.identity, state)
    assert (restored.identity, restored.dimension) == (embedder.identity, 8)
    assert len(service.requests) == 1
    with pytest.raises(StoreUnusable, match="damaged"):
        anyio.run(source(service).restore, embedder.identity, b"{")


def test_an_identity_is_the_models_and_its_windows_not_its_address() -> None:
    names = ("openai/a", "openai/ab", "x/" + "é:" * 99)
    models = [LitellmModel("openai/a", "http://there/v1"), *map(LitellmModel, names)]
    models.append(LitellmModel("openai/a", window=100))
    here, same, other, odd, narrow = (LitellmEmbedder(model, 8, 512).identity for model in models)
    assert here == same
    assert len({same, other, odd, narrow, LitellmEmbedder(models[0], 9, 512).identity}) == 5
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,100}[a-zA-Z0-9]", odd)
    gave = [anyio.run(LitellmSource(models[0]).gave, each) for each in (here, same, other, odd, narrow)]
    assert gave == [True, True, False, False, False]


def test_the_settings_choose_the_model_its_address_and_window(service: Any) -> None:
    settings = load_settings(
        embedder="litellm/openai/some-model", embedder_api_base=service.url, embedder_window=64
    )
    chosen = embedder_source(settings)
    embedder, _ = anyio.run(chosen.fit, ["oak"])
    assert (chosen.name, service.requests[0]["model"]) == ("litellm/openai/some-model", "some-model")
    service.requests.clear()
    embedded(embedder, ["oak " * 200])
    assert len(service.texts) > 3
    with pytest.raises(InvalidInput, match="embedder_api_base"):
        load_settings(embedder_api_base="localhost:1")


# --- keys ----------------------------------------------------------------------------------


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    service: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG, "leanrag_engine")
    assert given(service).dimension == 8
    assert service.keys == [KEY]
    service.failures = [service.Failure(401, message=f"Incorrect API key provided: {KEY}")]
    with pytest.raises(InvalidInput, match="refused the key") as caught:
        given(service)
    service.failures = [service.Failure(400, message=f"bad request with {KEY}")]
    with pytest.raises(InvalidInput, match="rejected the request") as other:
        given(service)
    told = "".join(capfd.readouterr()) + caplog.text
    for error in (caught.value, other.value):
        assert KEY not in f"{error} {error.__cause__} {error.__context__}"
    assert KEY not in told


def test_a_server_of_ones_own_needs_no_key(service: Any) -> None:
    assert given(service).dimension == 8


def test_a_missing_key_is_told_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY"):
        anyio.run(LitellmSource(LitellmModel("openai/text-embedding-3-small")).fit, ["oak"])


def test_a_model_of_no_known_provider_is_told() -> None:
    with pytest.raises(InvalidInput, match="'nonsense-model'"):
        anyio.run(LitellmSource(LitellmModel("nonsense-model")).fit, ["oak"])


# --- failures ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_fails_in_passing_is_tried_again(service: Any, sleeps: Sleeps, status: int) -> None:
    embedder = given(service, sleep=sleeps)
    service.failures = [service.Failure(status), service.Failure(status)]
    np.testing.assert_allclose(embedded(embedder, ["oak"]), expected(service, ["oak"]), atol=1e-5)
    assert len(sleeps) == 2
    assert 0 < sleeps[0] < sleeps[1] < 5


def test_the_service_says_how_long_to_wait(service: Any, sleeps: Sleeps) -> None:
    embedder = given(service, sleep=sleeps)
    service.failures = [service.Failure(429, {"Retry-After": "7"})]
    assert embedded(embedder, ["oak"]).any()
    assert sleeps == [7.0]


def test_a_service_that_keeps_limiting_the_rate_is_told(service: Any, sleeps: Sleeps) -> None:
    embedder = given(service, sleep=sleeps)
    service.failures = [service.Failure(429)] * 50
    with pytest.raises(ModelUnavailable, match=r"'litellm/openai/some-model' at http.*after 5 attempts"):
        embedded(embedder, ["oak"])
    assert len(service.requests) == 1 + 5


def test_a_query_gives_up_sooner(service: Any, sleeps: Sleeps) -> None:
    embedder = given(service, sleep=sleeps)
    service.failures = [service.Failure(503)] * 50
    with pytest.raises(ModelUnavailable):
        anyio.run(embedder.embed_queries, ["oak"])
    assert len(service.requests) == 1 + 2


def test_a_service_that_is_not_there_is_told(service: Any, sleeps: Sleeps) -> None:
    embedder = given(service, sleep=sleeps)
    service.close()
    with pytest.raises(ModelUnavailable, match="does not answer") as caught:
        embedded(embedder, ["oak"])
    assert service.url in str(caught.value)
    assert caught.value.next_step


def test_a_service_that_hangs_is_told(service: Any, sleeps: Sleeps) -> None:
    embedder = given(service, sleep=sleeps, seconds=0.05, attempts=2)
    service.slow.clear()
    with pytest.raises(ModelUnavailable, match="does not answer"):
        embedded(embedder, ["oak"])
    service.slow.set()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rows: rows[1:], "gave 1 rows for 2 texts"),
        (lambda _: [], "gave 0 rows for 2 texts"),
        (lambda rows: [{**row, "embedding": row["embedding"][:5]} for row in rows], "a row of 5 numbers"),
        (lambda rows: [{**row, "embedding": [float("nan")] * 8} for row in rows], "not finite for the text"),
        (lambda rows: [{**row, "embedding": None} for row in rows], "gave 2 rows"),
    ],
)
def test_a_wrong_answer_is_told(service: Any, sleeps: Sleeps, change: Any, told: str) -> None:
    embedder = given(service, sleep=sleeps)
    service.change = change
    with pytest.raises(InvalidInput, match=told):
        embedded(embedder, ["oak", "ash"])


def test_work_stops_when_it_is_asked_to_though_the_service_is_slow(service: Any) -> None:
    embedder, told = given(service), []
    service.slow.clear()

    def report(step: Progress) -> None:
        told.append((step.stage, step.done, step.total))
        if len(told) > 1:
            raise Cancelled("Asked to stop.")

    with pytest.raises(Cancelled):
        anyio.run(embedder.embed, [f"oak {number}" for number in range(500)], report)
    assert told == [("embed", 0, 500)] * 2
