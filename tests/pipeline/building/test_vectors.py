"""An update writes the vectors of new and changed texts into the spaces that exist, and deletes what nothing uses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from leanrag_tests_jobs import published

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import Cancelled
from leanrag_engine.core.jobs import AskedMode, BuildRequest
from leanrag_engine.core.model import DocumentSource, Generation
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.index import read_indexed_texts, restore_embedder
from leanrag_engine.pipeline.repair import wrap_embedder

pytestmark = pytest.mark.anyio

PEOPLE = ("Ewan Reid", "Moira Kerr", "Calum Boyd", "Isla Grant", "Rory Shaw", "Ailsa Munro")
TRADES = ("lighthouse", "bakery", "foundry", "orchard")


def note(number: int, more: str = "") -> DocumentSource:
    person = f"{PEOPLE[number % 6]} {'ABCD'[number // 6]}"
    text = f"{person} keeps the {TRADES[number % 4]} of Skerry. {person} wrote to the {TRADES[number % 3]}. {more}"
    return DocumentSource(text=text, title=f"Note {number}", id=f"n{number}")


NOTES = [note(number) for number in range(20)]


@asynccontextmanager
async def opened(folder: Path, *notes: DocumentSource) -> AsyncIterator[LeanRAG]:
    """A collection with ``NOTES`` built, then ``notes`` ingested."""
    settings = load_settings(data_dir=folder, embedder="fitted", cluster_size=6)
    async with await LeanRAG.open(settings) as engine:
        await ingest(engine, *NOTES)
        await build(engine)
        if notes:
            await ingest(engine, *notes)
        yield engine


async def ingest(engine: LeanRAG, *notes: DocumentSource) -> None:
    job = await engine.job((await engine.submit_ingest(notes, build=False)).id, wait_seconds=60)
    assert job.status == "done", job.message


async def build(engine: LeanRAG, mode: AskedMode = "update") -> Generation:
    job = await engine.job((await engine.submit_build(order=BuildRequest(mode=mode))).id, wait_seconds=60)
    assert job.status == "done", job.message
    return await published(engine)


async def check_vectors(engine: LeanRAG) -> None:
    """Assert that every space of the published build holds the vectors of its texts, and no others."""
    generation = await published(engine)
    indexed = await read_indexed_texts(engine._stores, generation)
    plain = await restore_embedder(engine._stores, generation)
    embedder = wrap_embedder(engine._stores, generation, plain, indexed)
    for space, texts in indexed.items():
        found = await engine._stores.vectors.fetch(space, [id_ for id_, _ in texts])
        expected = await embedder.embed([text for _, text in texts])
        assert set(await engine._stores.vectors.ids(space)) == {id_ for id_, _ in texts}
        for (id_, text), row in zip(texts, expected, strict=True):
            assert float(abs(found[id_] - row).max()) < 1e-5, text


class Writes:
    """Counts the rows that are written to the vector store."""

    def __init__(self, engine: LeanRAG, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        upsert = engine._stores.vectors.upsert

        async def counted(space: str, ids: Any, vectors: Any) -> None:
            self.rows += len(ids)
            await upsert(space, ids, vectors)

        monkeypatch.setattr(engine._stores.vectors, "upsert", counted)


async def test_an_update_writes_only_the_vectors_of_changed_texts_and_into_the_same_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as engine:
        before = await published(engine)
        await ingest(engine, note(20))
        writes = Writes(engine, monkeypatch)
        after = await build(engine)
        assert after.record.spaces.entities == before.record.spaces.entities
        assert after.record.spaces.windows == before.record.spaces.windows
        assert 0 < writes.rows < 0.3 * sum(after.record.vectors.values())
        await check_vectors(engine)
        writes.rows = 0
        rebuilt = await build(engine, "rebuild")
        assert rebuilt.record.spaces.windows != after.record.spaces.windows
        assert writes.rows == sum(rebuilt.record.vectors.values())
        await check_vectors(engine)


async def test_an_update_lists_the_rows_of_a_space_only_if_their_number_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, note(20)) as engine:
        listed: list[str] = []
        list_ids = engine._stores.vectors.ids

        async def note_ids(space: str) -> list[str]:
            listed.append(space)
            return await list_ids(space)

        with monkeypatch.context() as patched:
            patched.setattr(engine._stores.vectors, "ids", note_ids)
            spaces = (await build(engine)).record.spaces
            assert not listed
        await check_vectors(engine)
        for space in (spaces.entities, spaces.windows):
            await engine._stores.vectors.delete(space, (await engine._stores.vectors.ids(space))[:2])
        await ingest(engine, note(21))
        await build(engine)
        await check_vectors(engine)
        # The number is right by chance: one row too many, and a new one is missing.
        before = {*await engine._stores.vectors.ids(spaces.windows)}
        await ingest(engine, note(22))
        new = [id_ for id_ in await engine._stores.vectors.ids(spaces.windows) if id_ not in before]
        rows = await engine._stores.vectors.fetch(spaces.windows, new)
        await engine._stores.vectors.upsert(spaces.windows, ["stray#0"], rows[new[0]][None])
        await engine._stores.vectors.delete(spaces.windows, new[:1])
        await build(engine)
        await check_vectors(engine)


async def test_a_changed_and_a_deleted_document_leave_no_vector_behind(tmp_path: Path) -> None:
    changed = note(3, "Rory Shaw visited the harbour of Oban with Fergus Hay.")
    async with opened(tmp_path, changed) as engine:
        await build(engine)
        await check_vectors(engine)
        job, _ = await engine.submit_delete(["n5"])
        assert job is not None
        assert (await engine.job(job.id, wait_seconds=60)).status == "done"
        await build(engine)
        await check_vectors(engine)


async def test_an_update_after_one_that_was_cancelled_leaves_no_vector_of_its_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancelled update has written vectors of texts that were never published; these texts then change again."""
    async with opened(
        tmp_path, note(3, "Moira Kerr B keeps the windmill of Jura, and she met Fergus Hay.")
    ) as engine:
        before = await published(engine)

        async def stop(*_: Any, **__: Any) -> None:
            raise Cancelled("Enough.")

        with monkeypatch.context() as patched:
            patched.setattr(engine._stores.generations, "publish", stop)
            job = await engine.submit_build(order=BuildRequest(mode="update"))
            assert (await engine.job(job.id, wait_seconds=60)).status == "cancelled"
        assert (await published(engine)).number == before.number
        spaces = before.record.spaces.by_kind().values()
        assert any([await engine._stores.generations.find_unsettled(space) for space in spaces])
        await ingest(engine, note(3), note(20))
        after = await build(engine)
        assert after.record.spaces.entities == before.record.spaces.entities
        await check_vectors(engine)
        assert not any([await engine._stores.generations.find_unsettled(space) for space in spaces])


async def test_vectors_that_could_not_be_deleted_after_an_update_go_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leanrag_engine.pipeline.building import publishing  # noqa: PLC0415 - only to replace one of its names

    async def skip(*_: Any) -> None:
        """As if the process had been killed between the publish and the deletion."""

    async with opened(
        tmp_path, note(3, "Nothing of the old text about Skerry is left here, says Fergus Hay.")
    ) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(publishing, "settle_spaces", skip)
            first = await build(engine)
        await ingest(engine, note(20))
        second = await build(engine)
        assert second.record.spaces.entities == first.record.spaces.entities
        await check_vectors(engine)
