"""What a client that shows progress sees of a job that it waits for."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.client import Client

from leanrag_engine.adapters.sql.stores import SqlJobStore
from leanrag_engine.core.config import load_settings
from leanrag_mcp.app import create_server

pytestmark = pytest.mark.anyio


async def test_a_waiting_call_reports_progress_that_always_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leanrag_mcp.tools.manage.PROGRESS_INTERVAL_S", 0.05)
    reports: list[tuple[float, str]] = []
    rows: list[str] = []
    find = SqlJobStore.find
    monkeypatch.setattr(SqlJobStore, "find", lambda *given: (rows.append("whole"), find(*given))[1])

    async def note_progress(progress: float, total: float | None, message: str | None) -> None:
        del total
        reports.append((progress, message or ""))

    text = "".join(f"Alan Stevenson lit lamp {number} of Skerryvore. " for number in range(3000))
    async with Client(create_server(load_settings(data_dir=tmp_path))) as client:
        await client.call_tool("get_index_status", {})
        await client.call_tool(
            "ingest_documents",
            {"documents": [{"text": text}], "wait_seconds": 10},
            progress_callback=note_progress,
        )
    figures = [progress for progress, _ in reports]
    assert len(figures) >= 3
    assert figures == sorted(set(figures))
    assert all("stage" in message for _, message in reports)
    assert len(rows) < 3, "the row of a job, which holds all its texts, is read at each report"
