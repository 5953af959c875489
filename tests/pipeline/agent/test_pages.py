"""Pages of work for an agent: the order by value, names in use, instructions once, limits explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import JobStatus
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.agent.items import SHOWN

pytestmark = pytest.mark.anyio

LONELY = "Zoltan Quill wrote a poem."
HUB = (
    "Anna Berg met Boris Falk in Oslo. Anna Berg met Clara Holm in Oslo. Boris Falk met Clara Holm. "
    "Anna Berg wrote to Dagny Lund. Clara Holm wrote to Dagny Lund in Bergen."
)
PAIR = "Boris Falk wrote to Clara Holm."


async def opened(folder: Path, sources: list[DocumentSource], *, build: bool = True) -> LeanRAG:
    engine = await LeanRAG.open(load_settings(data_dir=folder, cluster_size=4))
    job = await engine.submit_ingest(sources, build=build)
    assert (await engine.job(job.id, wait_seconds=100)).status is JobStatus.DONE
    return engine


def notes(**texts: str) -> list[DocumentSource]:
    return [DocumentSource(text=text, title=name, id=name) for name, text in texts.items()]


async def test_the_most_connected_chunks_come_first_and_before_a_build_the_reading_order_counts(
    tmp_path: Path,
) -> None:
    sources = notes(lonely=LONELY, pair=PAIR, hub=HUB)
    async with await opened(tmp_path, sources, build=False) as engine:
        page = await engine.pending_work("extraction")
        assert [each.title.split()[-1] for each in page.items] == ["lonely", "pair", "hub"]
        job = await engine.submit_build()
        await engine.job(job.id, wait_seconds=100)
        page = await engine.pending_work("extraction")
        assert [each.title.split()[-1] for each in page.items] == ["hub", "pair", "lonely"]


async def test_a_cursor_goes_on_after_work_that_was_submitted(tmp_path: Path) -> None:
    async with await opened(tmp_path, notes(lonely=LONELY, pair=PAIR, hub=HUB)) as engine:
        first = await engine.pending_work("extraction", 1)
        nothing: dict[str, Any] = {"work_id": first.items[0].work_id, "entities": [], "relations": []}
        await engine.submit_extractions([nothing])
        second = await engine.pending_work("extraction", 1, first.cursor)
        third = await engine.pending_work("extraction", 1, second.cursor)
        found = [each.items[0].title.split()[-1] for each in (first, second, third)]
        assert found == ["hub", "pair", "lonely"]
        assert third.cursor == ""
        assert (second.remaining, third.remaining) == (2, 2)


async def test_instructions_come_once_and_again_on_request_and_the_whole_job_is_told_in_tokens(
    tmp_path: Path,
) -> None:
    async with await opened(tmp_path, notes(lonely=LONELY, pair=PAIR, hub=HUB)) as engine:
        first = await engine.pending_work("extraction", 1)
        second = await engine.pending_work("extraction", 1, first.cursor)
        again = await engine.pending_work("extraction", 1, first.cursor, instructions=True)
        assert first.instructions
        assert first.schema
        assert (second.instructions, second.schema) == ("", None)
        assert (again.instructions, again.schema) == (first.instructions, first.schema)
        chunks = sum(each.tokens for each in await engine._stores.documents.all_chunks("default"))
        assert second.tokens == chunks
        assert first.tokens > chunks


async def test_a_page_with_fewer_items_than_asked_for_says_why(tmp_path: Path) -> None:
    long = {f"n{n}": f"Karl Weg {n} described constitutional circumstances. " * 60 for n in range(20)}
    async with await opened(tmp_path, notes(**long), build=False) as engine:
        page = await engine.pending_work("extraction", 20)
        assert 1 < len(page.items) < 20
        assert f"{len(page.items)} items and not 20" in page.note
        assert sum(len(each.text) for each in page.items) <= SHOWN
        assert not (await engine.pending_work("extraction", 2)).note


async def test_names_in_use_nearby_are_listed_where_a_chunk_may_mean_them(tmp_path: Path) -> None:
    sources = notes(
        one="Bill the Lizard came down the chimney.", two="Then Bill flew up.", three="It rained in Oslo."
    )
    async with await opened(tmp_path, sources) as engine:
        items = {each.title.split()[-1]: each for each in (await engine.pending_work("extraction")).items}
        lizard = {"name": "Bill the Lizard", "type": "person", "description": "Bill the Lizard came down."}
        said = {"work_id": items["one"].work_id, "entities": [lizard], "relations": []}
        assert (await engine.submit_extractions([said])).accepted
        job = await engine.submit_build()
        await engine.job(job.id, wait_seconds=100)
        page = await engine.pending_work("extraction", 5)
        assert "two" in {each.title.split()[-1] for each in page.items}
        assert page.names == ("Bill the Lizard",)
        # The name in use is allowed where the passage has it as another name.
        bill = {"name": "Bill the Lizard", "type": "person", "description": "Bill flew.", "aliases": ["Bill"]}
        said = {"work_id": items["two"].work_id, "entities": [bill], "relations": []}
        assert (await engine.submit_extractions([said])).accepted
        job = await engine.submit_build()
        await engine.job(job.id, wait_seconds=100)
        assert (await engine.ancestors("Bill the Lizard"))[0].mentions == 2


async def test_names_written_in_neighbouring_chunks_are_listed_before_any_build(tmp_path: Path) -> None:
    text = "Ada Byron wrote notes on the engine. " * 60 + "Later Ada read them again. " * 60
    async with await opened(tmp_path, notes(long=text), build=False) as engine:
        first = await engine.pending_work("extraction", 1)
        ada = {"name": "Ada Byron", "type": "person", "description": "Ada Byron wrote notes."}
        await engine.submit_extractions(
            [{"work_id": first.items[0].work_id, "entities": [ada], "relations": []}]
        )
        assert (await engine.pending_work("extraction", 1)).names == ("Ada Byron",)


async def test_the_first_clusters_have_most_beneath_and_the_note_says_what_the_next_ten_hold(
    tmp_path: Path,
) -> None:
    people = [
        f"Person{chr(65 + n % 26)} Berg{chr(97 + n // 26)} met Friend{chr(65 + n % 7)} Falk in Town{chr(65 + n % 5)}."
        for n in range(40)
    ]
    async with await opened(tmp_path, notes(**{f"n{n}": each for n, each in enumerate(people)})) as engine:
        page = await engine.pending_work("summary", 20)
        assert len(page.items) > 10
        beneath = [(await engine.ancestors(each.work_id))[0].mentions for each in page.items]
        assert beneath == sorted(beneath, reverse=True)
        share = sum(beneath[:10]) / sum(beneath)
        assert f"The next 10 hold {share:.0%} of the entities beneath the clusters" in page.note
        rest = await engine.pending_work("summary", 20, page.items[-10].work_id)
        assert not rest.items or f"{sum(beneath[-9:]) / sum(beneath):.0%}" in rest.note
