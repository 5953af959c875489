"""The agent's tools as a client sees them: work, submissions, corrections of the graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.engine import LeanRAG

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


async def test_an_agent_follows_the_schema_and_is_told_which_types_are_kept_apart(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await engine.set_schema("people")
    async with serve_in_process(tmp_path) as call:
        await call.finish(await call("ingest_documents", documents=NOTES[:1], wait_seconds=40))
        status = await call("get_index_status")
        assert status.data["types"].startswith("Types of entities: person, organisation, ")
        assert status.data["types"] in status.text
        page = await call("get_pending_work")
        assert "- person: a human being, by name" in page.data["instructions"]
        assert "attributes" in page.data["schema"]["properties"]["entities"]["items"]["properties"]
        keeper = {
            "name": "Ewan Reid",
            "type": "human",
            "description": "Ewan Reid kept the light.",
            "attributes": [{"name": "nationality", "value": "Scottish"}],
        }
        light = {
            "name": "the light",
            "type": "beacon",
            "description": "A light at Skerry.",
            "confidence": 0.9,
        }
        item = {
            "work_id": page.data["items"][0]["work_id"],
            "entities": [keeper, light],
            "relations": [
                {
                    "source": "Ewan Reid",
                    "target": "the light",
                    "type": "kept",
                    "description": "Ewan Reid kept the light.",
                    "importance": 8,
                }
            ],
        }
        wrong = item | {"entities": [keeper | {"confidence": "sure"}, light]}
        refused = await call("submit_extractions", items=[wrong])
        assert 'entities[0].confidence is "sure"; expected a number from 0 to 1' in refused.text
        done = await call("submit_extractions", items=[item])
        assert done.data["accepted"] == 1
        apart = "Not in the schema, so kept apart (passages): entity:beacon (1), relation:kept (1)."
        assert done.data["next_step"].endswith(apart)
        assert apart in done.text
        job = await call.finish(await call("build_hierarchy", wait_seconds=40))
        assert "entity:beacon (1)" in job.text
        found = await call("search_entities", query="Scottish nationality", layer=0)
        assert [each["name"] for each in found.data["entities"]] == ["Ewan Reid"]
        assert "nationality: Scottish" in found.text
        assert "nationality: Scottish" in (await call("get_entity_ancestors", entity="Ewan Reid")).text
    # Another schema makes what the agent read pending again, and it may be submitted without `replace`.
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        assert (await engine.set_schema("narrative")).agent_outdated == 1
    async with serve_in_process(tmp_path) as call:
        page = await call("get_pending_work")
        assert page.data["remaining"] == 1
        again = item | {"entities": [keeper | {"type": "character", "attributes": []}], "relations": []}
        done = await call("submit_extractions", items=[again])
        assert (done.data["accepted"], done.data["remaining"]) == (1, 0)
        assert "Not in the schema" not in done.text
