"""What changed since a build or a date, as an agent reads it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]

FIRST = [
    {"id": "a", "text": "Skerryvore is a lighthouse off Tiree. Alan Stevenson designed Skerryvore."},
    {
        "id": "b",
        "text": "Alan Stevenson was the son of Robert Stevenson. Robert Stevenson built the Bell Rock.",
    },
]
SECOND = [
    {
        "id": "b",
        "title": "Rennie",
        "text": "Robert Stevenson built the Bell Rock. John Rennie was his engineer.",
    },
    {"id": "c", "title": "Arbroath", "text": "The Bell Rock lies off Arbroath. It was lit in 1811."},
]


async def test_an_agent_reads_what_changed_since_a_build(serve_in_process: Serve, tmp_path: Path) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=FIRST, wait_seconds=40)
        await call("ingest_documents", documents=SECOND, wait_seconds=40)
        await call("ingest_documents", documents=[{"id": "d", "text": "It came late."}], build=False)
        reply = await call("get_history")
        assert (reply.data["since"], reply.data["exact"]) == (1, True)
        documents = {
            what: each["names"] for what, each in reply.data["changes"].items() if "documents" in what
        }
        assert documents == {
            "documents added": {"d3": "Arbroath", "d4": "It came late."},
            "documents changed": {"d2": "Rennie"},
            "documents pending": {"d4": "It came late."},
        }
        added = reply.data["changes"]["entities added"]["names"]
        assert "John Rennie" in added.values()
        ref = next(ref for ref, name in added.items() if name == "John Rennie")
        for fact in (
            "documents changed: 1 (",
            "Arbroath (ref d3)",
            f"John Rennie (ref {ref})",
            "generation 1 of",
            "it is the first build",
        ):
            assert fact in reply.text
        assert "build_hierarchy" in reply.data["next_step"]
        newest, first = reply.data["generations"]
        assert (newest["generation"], first["generation"]) == (2, 1)
        assert first["changed"]["documents added"] == 2
        assert newest["changed"]["documents added"] == newest["changed"]["documents changed"] == 1
        assert first["cost"]["texts embedded"] > 0
        assert (await call("get_history", since=1)).data == reply.data  # a number as a number
        assert (await call("get_history", since="2020-01-31")).data["since"] == 0
        for wrong, said in (("soon", "neither a generation nor a date"), ("9", "has had no generation 9")):
            refused = await call("get_history", since=wrong)
            assert refused.is_error
            assert said in refused.text


async def test_before_a_build_the_history_says_what_to_do_first(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=FIRST, build=False)
        refused = await call("get_history")
        assert refused.is_error
        assert "never built" in refused.text
        assert "build_hierarchy" in refused.text
