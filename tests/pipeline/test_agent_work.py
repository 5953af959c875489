"""The calling agent as the model: work handed out, answers checked one by one, nothing lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput, NotReady
from leanrag_engine.core.jobs import Job, JobStatus
from leanrag_engine.core.model import DocumentSource, Method
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.agent_work import PendingWork, WorkKind

pytestmark = pytest.mark.anyio

NOTE = "The keeper {0} of the lighthouse at {1} wrote to {2}. {2} had built the tower of {1}."
NAMES = (
    "Ewan Reid",
    "Moira Kerr",
    "Calum Boyd",
    "Isla Grant",
    "Rory Shaw",
    "Ailsa Munro",
    "Fergus Hay",
    "Una Ross",
)
PLACES = ("Skerry", "Tiree", "Arbroath", "Oban", "Islay", "Lewis", "Mull", "Barra")
NOTES = [
    DocumentSource(
        text=NOTE.format(NAMES[n % 8], PLACES[n % 8], NAMES[(n + 3) % 8]), title=f"Letter {n}", id=f"l{n}"
    )
    for n in range(8)
]
NONE = "There is no such work"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[LeanRAG]:
    async with await LeanRAG.open(load_settings(data_dir=folder, cluster_size=4)) as engine:
        yield engine


async def finished(engine: LeanRAG, job: Job) -> Job:
    job = await engine.job(job.id, wait_seconds=100)
    assert job.status is JobStatus.DONE, job.message
    return job


async def ingest(engine: LeanRAG, notes: list[DocumentSource] = NOTES, *, build: bool = True) -> None:
    await finished(engine, await engine.submit_ingest(notes, build=build))


async def all_work(engine: LeanRAG, kind: WorkKind, limit: int = 3) -> list[PendingWork]:
    """Every page, by cursor."""
    pages = [await engine.pending_work(kind, limit)]
    while pages[-1].cursor:
        pages.append(await engine.pending_work(kind, limit, pages[-1].cursor))
    return pages


def said_of(work_id: str, text: str) -> dict[str, Any]:
    """What an agent may find in a letter: its first name and its place."""
    keeper, place = next(pair for pair in zip(NAMES, PLACES, strict=True) if f"keeper {pair[0]}" in text)
    return {
        "work_id": work_id,
        "entities": [
            {"name": keeper, "type": "person", "description": f"{keeper} keeps the light at {place}."},
            {"name": place, "type": "place", "description": f"At {place} stands a lighthouse."},
        ],
        "relations": [
            {"source": keeper, "target": place, "description": f"{keeper} lives at {place}.", "importance": 8}
        ],
    }


def summary_of(work_id: str, place: int) -> dict[str, Any]:
    return {
        "work_id": work_id,
        "name": f"Keepers and their towers, circle {place}",
        "description": "Keepers of lighthouses write to those who built their towers.",
        "findings": [
            {"summary": f"Letters about {what} bind them.", "explanation": f"Each keeper writes of {what}."}
            for what in ("storms", "granite", "oil and lamps", "supplies by boat", "wages")
        ],
    }


async def test_the_pages_of_pending_work_hold_every_chunk_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await ingest(engine)
        pages = await all_work(engine, "extraction")
        ids = [item.work_id for page in pages for item in page.items]
        assert len(ids) == len(set(ids)) == pages[0].remaining == 8
        assert "Ewan Reid" in pages[0].items[0].text
        assert "work_id" in pages[0].schema["required"]
        assert not pages[-1].cursor


async def test_extractions_are_taken_one_by_one_and_the_bad_come_back_with_reasons(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await ingest(engine)
        work = await engine.pending_work("extraction", 3)
        good, bad, twice = (said_of(item.work_id, item.text) for item in work.items)
        items = [
            good,
            {**bad, "entities": "many", "relations": 5},
            {"entities": []},
            {**twice, "work_id": "nope"},
            good,
        ]
        done = await engine.submit_extractions(items)
        assert done.accepted == (good["work_id"],)
        reasons = dict(done.rejected)
        assert set(reasons) == {bad["work_id"], "", "nope", good["work_id"]}
        assert NONE in reasons["nope"]
        assert "twice" in reasons[good["work_id"]]
        assert done.remaining == 7
        assert (await engine.status()).extracts == {"agent": 1, "heuristic": 7}
        assert (await engine.status()).collection.stale


async def test_what_agents_hand_in_survives_a_restart_and_shows_after_the_next_build(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await ingest(engine)
        first = await engine.pending_work("extraction", 5)
        await engine.submit_extractions([said_of(item.work_id, item.text) for item in first.items])
    async with opened(tmp_path) as engine:
        rest = await engine.pending_work("extraction", 20)
        assert len(rest.items) == rest.remaining == 3
        assert not {item.work_id for item in rest.items} & {item.work_id for item in first.items}
        await engine.submit_extractions([said_of(item.work_id, item.text) for item in rest.items])
        await finished(engine, await engine.submit_build())
        keeper = (await engine.ancestors("Ewan Reid"))[0]
        assert keeper.method is Method.AGENT
        assert keeper.description == "Ewan Reid keeps the light at Skerry."
        assert not (await engine.pending_work("extraction")).items


async def test_summaries_go_layer_by_layer_up_to_the_root(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await ingest(engine)
        written = 0
        for _ in range(6):
            pages = await all_work(engine, "summary")
            items = [item for page in pages for item in page.items]
            if not items:
                break
            done = await engine.submit_summaries(
                [summary_of(item.work_id, written + n) for n, item in enumerate(items)]
            )
            assert not done.rejected
            assert done.remaining == 0
            written += len(items)
            await finished(engine, await engine.submit_build())
        chain = await engine.ancestors("Ewan Reid")
        assert len(chain) > 2
        assert {each.method for each in chain[1:]} == {Method.AGENT}
        generation = (await engine.status()).collection.generation
        assert generation
        assert written == sum(layer.entities for layer in generation.layers[1:])


async def test_a_summary_named_like_a_member_is_refused_with_the_name(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await ingest(engine)
        item = (await engine.pending_work("summary", 1)).items[0]
        member = (await engine.cluster(item.work_id)).members[0].name
        done = await engine.submit_summaries([{**summary_of(item.work_id, 1), "name": member.upper()}])
        ((work_id, reason),) = done.rejected
        assert work_id == item.work_id
        assert member.casefold() in reason.casefold()


async def test_work_on_a_document_that_was_replaced_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await ingest(engine)
        item = (await engine.pending_work("extraction", 1)).items[0]
        await ingest(
            engine, [DocumentSource(text="Nothing of the kind any more.", id="l0", title="Letter 0")]
        )
        done = await engine.submit_extractions([said_of(item.work_id, item.text)])
        assert NONE in done.rejected[0][1]


async def test_work_without_documents_or_without_a_build_says_what_is_missing(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        with pytest.raises((NotReady, InvalidInput)):
            await engine.pending_work("extraction")
        await ingest(engine, build=False)
        assert (await engine.pending_work("extraction")).items
        with pytest.raises(NotReady) as missing:
            await engine.pending_work("summary")
        assert missing.value.needs == "build"
        with pytest.raises(InvalidInput, match="cursor"):
            await engine.pending_work("extraction", 3, "page two")
