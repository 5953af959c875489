"""Callers share the server: what one asks for keeps the others waiting for a bounded time alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from leanrag_engine.core.config import load_settings
from leanrag_engine.engine import LeanRAG
from leanrag_mcp.app import create_server
from leanrag_mcp.engine_handle import Rights

pytestmark = pytest.mark.anyio


async def test_a_token_has_one_search_at_a_time_while_another_one_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = 0, 0
    holder = "one"

    async def search(engine: LeanRAG, text: str, **_: Any) -> None:
        nonlocal running, most
        del engine
        running += 1
        most = max(most, running)
        await anyio.sleep(0.01)
        running -= 1
        raise RuntimeError(text)

    monkeypatch.setattr(LeanRAG, "search_text", search)
    server = create_server(load_settings(data_dir=tmp_path), find_rights=lambda: Rights(holder=holder))
    async with Client(server) as client:
        await client.call_tool("list_collections", {})
        holder = "another"
        async with anyio.create_task_group() as calls:
            for number in range(4):
                calls.start_soon(client.call_tool, "search_text", {"text": f"another {number}"})
    assert most == 1


async def test_two_searches_of_a_token_run_at_once_and_those_of_another_do_not_wait_for_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    go_on = anyio.Event()
    holder = "one"

    async def search(engine: LeanRAG, text: str, **_: Any) -> None:
        del engine
        started.append(text)
        await go_on.wait()
        raise RuntimeError(text)

    monkeypatch.setattr(LeanRAG, "search_text", search)
    server = create_server(load_settings(data_dir=tmp_path), find_rights=lambda: Rights(holder=holder))
    async with Client(server) as client:
        await client.call_tool("list_collections", {})
        async with anyio.create_task_group() as calls:
            for number in range(4):
                calls.start_soon(client.call_tool, "search_text", {"text": f"one {number}"})
            await anyio.wait_all_tasks_blocked()
            assert len(started) == 2
            holder = "another"
            calls.start_soon(client.call_tool, "search_text", {"text": "another"})
            while len(started) < 3:
                await anyio.sleep(0.01)
            assert started[2] == "another"
            # Those that wait for a job hold nobody up.
            await client.call_tool("get_job", {"job_id": "job-000000000000"})
            go_on.set()
    assert len(started) == 5
