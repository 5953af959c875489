"""The agent's tools as a client sees them: work, submissions, corrections of the graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]
NOTES = [
    {"id": "a", "text": "Ewan Reid kept the light at Skerry. Ewan Reid wrote to Moira Kerr."},
    {"id": "b", "text": "E. Reid of Skerry sent oil to Moira Kerr. The oil came late to E. Reid."},
]


async def test_an_agent_works_through_the_pages_and_is_told_what_is_wrong(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call.finish(await call("ingest_documents", documents=NOTES, wait_seconds=40))
        page = await call("get_pending_work", limit=1)
        assert page.data["instructions"]
        assert page.data["schema"]["properties"]["entities"]["items"]["required"] == [
            "name",
            "type",
            "description",
        ]
        assert page.data["tokens"] > page.data["remaining"] == 2
        assert "these included; about" in page.text
        item = {"work_id": page.data["items"][0]["work_id"], "entities": [], "relations": []}
        refused = await call("submit_extractions", items=[item | {"entities": "Reid"}])
        assert 'entities is "Reid"; expected a list' in refused.text
        done = await call("submit_extractions", items=[item])
        assert (done.data["accepted"], done.data["replaced"], done.data["remaining"]) == (1, [], 1)
        assert "next_cursor" in done.data["next_step"]
        following = await call("get_pending_work", limit=1, cursor=page.data["next_cursor"])
        assert (following.data["instructions"], following.data["schema"], following.data["next_cursor"]) == (
            "",
            {},
            "",
        )


async def test_corrections_are_made_shown_and_taken_back_by_tools(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call.finish(await call("ingest_documents", documents=NOTES, wait_seconds=40))
        made = await call("merge_entities", entities=["Ewan Reid", "E. Reid"])
        assert made.data["correction"] == "merge-1: Ewan Reid = E. Reid, called Ewan Reid"
        assert "build_hierarchy" in made.data["next_step"]
        await call("split_entity", entity="Moira Kerr", name="Moira Kerr (painter)", places=["b"])
        job = await call.finish(await call("build_hierarchy", wait_seconds=40))
        assert job.data["result"]["corrections"] == {"applied": ["merge-1", "split-2"], "without_effect": []}
        assert "merge-1" in job.text
        status = await call("get_index_status")
        assert [each.rpartition(" (")[2] for each in status.data["corrections"]] == ["applied)", "applied)"]
        assert status.data["corrections"][1] in status.text
        undone = await call("split_entity", entity="Moira Kerr", name="Moira Kerr (painter)", undo=True)
        assert undone.data["correction"].startswith("Taken back: split-2")
        refused = await call("merge_entities", entities=["Ewan Reid", "Moira Ker"])
        assert "Moira Kerr" in refused.text
