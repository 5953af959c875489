"""A call that reads ends in time, however much was asked for, with what it has or with what to do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from sqlalchemy import Connection, text

from leanrag_engine.adapters.sql import documents
from leanrag_engine.core.errors import OutOfTime
from leanrag_engine.core.model import Hit
from leanrag_engine.core.runtime.threads import check_time, limit_time, load_apart
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval import query
from leanrag_engine.retrieval.evidence import pool

from .conftest import in_process

pytestmark = pytest.mark.anyio

ENDED = "This call was ended after 0.5 seconds"
COUNT = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000000) SELECT max(i) FROM n"
)


async def test_a_call_that_waits_for_too_long_ends_with_the_figure_and_the_setting(
    lighthouses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def search(*_: Any, **__: Any) -> None:
        await anyio.sleep(3600)

    monkeypatch.setattr(LeanRAG, "search_text", search)
    async with in_process(lighthouses, max_call_seconds=0.5) as call:
        await call("list_collections")
        reply = await call("search_text", text="lamp")
        assert reply.is_error
        assert ENDED in reply.text
        assert "Ask for less at once" in reply.text
        assert "LEANRAG_MAX_CALL_SECONDS" in reply.text
        assert not (await call("list_collections")).is_error


async def test_a_statement_of_the_database_that_takes_too_long_is_interrupted(
    lighthouses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(connection: Connection, *_: Any) -> list[Hit]:
        connection.execute(text(COUNT))
        return []

    async with in_process(lighthouses, max_call_seconds=0.5) as call:
        await call("query_lca_context", query="warm")
        monkeypatch.setattr(documents, "search_windows", search)
        began = time.monotonic()
        replies = []
        async with anyio.create_task_group() as calls:

            async def ask() -> None:
                replies.append(await call("query_lca_context", query="Who designed Skerryvore?"))

            for _ in range(4):
                calls.start_soon(ask)
        assert all(reply.is_error and ENDED in reply.text for reply in replies)
        assert time.monotonic() - began < 4
        assert to_thread.current_default_thread_limiter().borrowed_tokens == 0


@pytest.mark.parametrize(("passed", "said"), [(0.6, "the graph was left out"), (0.8, "was searched alone")])
async def test_a_query_that_is_late_answers_with_what_it_has_and_says_so(
    lighthouses: Path, monkeypatch: pytest.MonkeyPatch, passed: float, said: str
) -> None:
    def is_over(share: float = 1.0) -> bool:
        return passed > share

    monkeypatch.setattr(query, "is_over", is_over)
    monkeypatch.setattr(pool, "is_over", is_over)
    async with in_process(lighthouses) as call:
        reply = await call("query_lca_context", query="Who designed Skerryvore?")
    assert not reply.is_error
    assert "Alan Stevenson designed Skerryvore" in reply.text
    assert said in reply.text
    assert "max_call_seconds" in reply.text


async def test_what_later_calls_use_is_loaded_to_its_end_when_the_call_is_out_of_time() -> None:
    loaded = anyio.Event()

    async def load() -> None:
        await anyio.sleep(0.1)
        check_time()
        loaded.set()

    with pytest.raises(OutOfTime), limit_time(0.05):
        await load_apart(load())
    with anyio.fail_after(5):
        await loaded.wait()
