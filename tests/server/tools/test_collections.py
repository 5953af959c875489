"""Which collection a call reads, and the documents of one in order of their dates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]
MOON = {"text": "Tycho is a crater on the Moon. Copernicus is a crater on the Moon.", "id": "moon"}
READING: dict[str, dict[str, Any]] = {
    "query_lca_context": {"query": "Tycho crater"},
    "search_entities": {"query": "Tycho"},
    "search_text": {"text": "a crater on the moon"},
    "get_sources": {"document": "moon"},
    "get_outline": {"document": "moon"},
    "get_entity_ancestors": {"entity": "Tycho"},
    "list_inter_cluster_relations": {},
}


async def test_the_only_full_collection_is_read_where_the_default_one_is_empty(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON], collection="moon", wait_seconds=40)
        for tool, arguments in READING.items():
            reply = await call(tool, **arguments)
            assert not reply.is_error, reply.text
        note = "Read from collection 'moon', the only one with documents; 'default' is empty."
        answer = await call("query_lca_context", query="Tycho crater", token_budget=300)
        assert note in answer.text
        named = await call("query_lca_context", query="Tycho crater", collection="moon")
        assert "Read from" not in named.text
        status = await call("get_index_status")
        assert status.data["collection"] == "moon"
        listed = await call("list_collections")
        assert [each["id"] for each in listed.data["documents"]] == ["moon"]

        await call("ingest_documents", documents=[MOON], collection="mars", wait_seconds=40)
        for tool, arguments in READING.items():
            reply = await call(tool, **arguments)
            assert reply.is_error
            assert "Collection 'default' is empty" in reply.text
            assert "mars: 1 document" in reply.text
            assert "moon: 1 document" in reply.text
            assert not (await call(tool, **arguments, collection="mars")).is_error
        for tool in ("get_index_status", "list_collections"):
            reply = await call(tool)
            assert not reply.is_error, reply.text
            assert "mars" in reply.text
            assert "collection='ma" in reply.data["next_step"]

        await call("ingest_documents", documents=[{"text": "Phobos circles Mars."}], wait_seconds=40)
        assert "Phobos" in (await call("search_text", text="phobos")).text
        assert (await call("search_text", text="tycho")).data["total"] == 0


async def test_documents_are_listed_by_their_own_dates_newest_first_and_filtered_by_them(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    dates = ["2024-02-01", "", "2024-03", "2019-12-31"]
    documents = [
        {"text": f"Report {n} on the reef.", "id": f"r{n}", "metadata": {"date": date} if date else {}}
        for n, date in enumerate(dates)
    ]
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=documents, wait_seconds=40)
        by_number = await call("list_collections")
        assert [each["date"] for each in by_number.data["documents"]] == dates
        by_date = await call("list_collections", order="date")
        assert [each["date"] for each in by_date.data["documents"]] == sorted(dates, reverse=True)
        assert "2024-03 (metadata)" in by_date.text
        paged = [
            (await call("list_collections", order="date", limit=1, cursor=str(at) if at else "")).data[
                "documents"
            ][0]["id"]
            for at in range(4)
        ]
        assert paged == ["r2", "r0", "r3", "r1"]
        found = await call("query_lca_context", query="reports on the reef", filters={"since": "2024-02-01"})
        assert "Report 0" in found.text
        assert "Report 2" in found.text
        assert "Report 1" not in found.text
        assert "Report 3" not in found.text
        assert "1 document has no date: since and until leave it out." in found.text
        none = await call("query_lca_context", query="reports", filters={"until": "1999-01-01"})
        assert none.is_error
        assert "dated from 2019-12-31 to 2024-03" in none.text
        assert "1 of 4 documents have no date" in none.text


async def test_a_search_for_entities_counts_what_it_found_and_not_the_corpus(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    names = [
        f"{letter}{sound}{end}"
        for letter in "BDFGKLMNPRST"
        for sound in ("ale", "oru", "ivi")
        for end in ("mar", "don")
    ]
    text = "\n\n".join(f"{name} Harbour exports goods number {at}." for at, name in enumerate(names))
    async with serve_in_process(tmp_path) as call:
        await call(
            "ingest_documents",
            documents=[{"text": f"{text}\n\nThe Ryvane lighthouse guards Balemar Harbour."}],
            wait_seconds=40,
        )
        status = await call("get_index_status")
        entities = status.data["layers"][0]["entities"]
        assert entities > 70
        found = await call("search_entities", query="Ryvane", layer=0, limit=100)
        assert found.data["entities"][0]["name"].startswith("Ryvane")
        assert found.data["total"] == len(found.data["entities"]) < entities / 2
