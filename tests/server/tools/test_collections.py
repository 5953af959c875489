"""Which collection a call reads, and the documents of one in order of their dates."""

from __future__ import annotations

import re
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
        outline = await call("get_outline")
        ((_, name, number, _),) = outline.data["sections"]
        assert name.endswith("(moon)")
        assert number == "d1"
        assert outline.text.startswith("moon: about ")

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


async def test_documents_are_listed_by_their_own_dates_and_filtered_by_them(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    dates = ["2024-02-01", "", "2024-03", "2019-12-31"]
    documents = [
        {"text": f"Report {n} on the reef.", "id": f"r{n}", "metadata": {"date": date} if date else {}}
        for n, date in enumerate(dates)
    ]
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=documents, wait_seconds=40)
        listed = await call("get_outline")
        assert [row[1] for row in listed.data["sections"]] == [
            f"{f'{dates[n]} ' if dates[n] else ''}Report {n} on the reef. (r{n})" for n in (1, 3, 0, 2)
        ]
        rest = await call("get_outline", cursor="2")
        assert rest.data["sections"] == listed.data["sections"][2:]
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


async def test_the_folders_of_the_documents_are_shown_a_level_at_a_time(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    files = {
        "start.md": "# Start",
        "moon/near/tycho.md": "# Tycho",
        "moon/far.md": "# Far side",
        "mars/olympus.md": "# Olympus",
    }
    for file, heading in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"{heading}\n\nThe dust of {file} is grey.\n")
    async with serve_in_process(tmp_path / "data", allow_dirs=(folder,)) as call:
        await call("ingest_documents", documents=[{"path": str(folder)}], build=False, wait_seconds=40)
        root = await call("get_outline")
        assert [row[1] for row in root.data["sections"]] == [
            "mars/ (1 document)",
            "moon/ (2 documents)",
            "Start (start.md)",
        ]
        moon = await call("get_outline", document="moon/")
        assert [row[1] for row in moon.data["sections"]] == ["moon/near/ (1 document)", "Far side (far.md)"]
        assert root.data["tokens"] == sum(row[3] for row in root.data["sections"])
        assert moon.data["tokens"] == root.data["sections"][1][3]
        near = await call("get_outline", document="moon/near/")
        ((_, name, number, _),) = near.data["sections"]
        assert name == "Tycho (tycho.md)"
        assert "Tycho" in (await call("get_outline", document=number)).text
        unknown = await call("get_outline", document="mooon/")
        assert unknown.is_error
        assert "moon/" in unknown.text
        # A date that is only the time of a file says nothing of the document.
        assert "20" not in re.sub(r"tokens|documents", "", root.text.split("```")[1])


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
