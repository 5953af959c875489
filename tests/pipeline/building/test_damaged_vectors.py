"""The vector index repairs itself: whatever happens to its files, queries say so, and nobody needs a command for it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import anyio
import pytest
from chromadb.errors import InternalError
from leanrag_tests_jobs import finish

from leanrag_engine.adapters.chroma import locks
from leanrag_engine.adapters.chroma.client import ChromaFolder
from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.core.jobs import JobStatus
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline import repair
from leanrag_engine.retrieval.request import Query
from leanrag_mcp.engine_handle import EngineHandle

pytestmark = pytest.mark.anyio

TEXTS = [
    "William Herschel found Uranus in Bath. He built telescopes.",
    "Johann Galle found Neptune in Berlin. Urbain Le Verrier had computed its place.",
    "Caroline Herschel discovered eight comets. She lived in Slough.",
]
QUESTION = Query("Who found Neptune?")
VECTORS = "vectors"


Damage = Callable[[Path, str], None]


def delete_all(folder: Path, _space: str) -> None:
    shutil.rmtree(folder)


def delete_indexes(folder: Path, _space: str) -> None:
    """Leave what Chroma takes for indexes that nobody wrote to, and begins anew."""
    for path in list(folder.rglob("header.bin")):
        shutil.rmtree(path.parent)


def empty_database(folder: Path, _space: str) -> None:
    (folder / "chroma.sqlite3").write_bytes(b"")


def cut_database(folder: Path, _space: str) -> None:
    path = folder / "chroma.sqlite3"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite_database(folder: Path, _space: str) -> None:
    (folder / "chroma.sqlite3").write_bytes(b"garbage " * 1000)


def cut_indexes(folder: Path, _space: str) -> None:
    for path in folder.rglob("*.bin"):
        path.write_bytes(path.read_bytes()[:10])


def empty_rows(folder: Path, _space: str) -> None:
    """Leave what made Chroma's compiled code end the process that opened it."""
    for path in folder.rglob("data_level0.bin"):
        path.write_bytes(b"")


def halve_headers(folder: Path, _space: str) -> None:
    """Do as ``empty_rows``."""
    for path in folder.rglob("header.bin"):
        path.write_bytes(path.read_bytes()[:50])


def overwrite(name: str) -> Damage:
    """Return what gives each file of this name other bytes, as many as it had."""

    def damage(folder: Path, _space: str) -> None:
        for path in folder.rglob(name):
            size = path.stat().st_size
            path.write_bytes(random.Random(size).randbytes(size))  # noqa: S311 - no secret

    damage.__name__ = f"overwrite {name}"
    return damage


def leave_a_mark(folder: Path, space: str) -> None:
    """Leave what a process leaves that is killed while it writes a space."""
    with suppress(RuntimeError), locks.writing(folder, space):
        raise RuntimeError
    (mark,) = (folder / "writing").iterdir()
    host, pid, _, name = json.loads(mark.read_text())
    mark.write_text(json.dumps([host, pid, 0.0, name]))


DAMAGES: list[Damage] = [
    delete_all,
    empty_database,
    cut_database,
    overwrite_database,
    cut_indexes,
    empty_rows,
    halve_headers,
    leave_a_mark,
    *map(
        overwrite, ("header.bin", "data_level0.bin", "length.bin", "link_lists.bin", "index_metadata.pickle")
    ),
]


@dataclass(frozen=True)
class Whole:
    """What the question finds in an index that is whole, the rows of its spaces, and the name of one of these."""

    found: list[str]
    rows: Mapping[str, int]
    space: str


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(data_dir=tmp_path)


async def fill(settings: Settings) -> Whole:
    async with await LeanRAG.open(settings) as engine:
        sources = [DocumentSource(text=text, id=f"text {place}") for place, text in enumerate(TEXTS)]
        await finish(engine, await engine.submit_ingest(sources))
        status = await engine.status()
        assert status.collection.generation is not None
        spaces = status.collection.generation.record.spaces
        return Whole(await ask(engine), status.vectors, spaces.entities)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Whole]:
    """A folder with the texts indexed, and what is found there."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, anyio.run(fill, load_settings(data_dir=folder))


@pytest.fixture
def whole(settings: Settings, filled: tuple[Path, Whole]) -> Whole:
    """The same in a copy of that folder, the data folder of the settings."""
    shutil.copytree(filled[0], settings.data_dir, dirs_exist_ok=True)
    return filled[1]


async def ask(engine: LeanRAG) -> list[str]:
    result = await engine.query(QUESTION)
    assert result.warnings == ()
    return [each.chunk.text for each in result.sources]


async def expect_degraded(engine: LeanRAG) -> str:
    """Return the warning of a query that keywords alone answer."""
    result = await engine.query(QUESTION)
    assert result.sources[0].chunk.text == TEXTS[1]
    return next(warning for warning in result.warnings if "earch by meaning" in warning)


async def expect_whole(engine: LeanRAG, whole: Whole) -> None:
    """Wait until queries are not degraded any more, and compare with what they found before."""
    with anyio.fail_after(60):
        while (await engine.query(QUESTION)).warnings or (await engine.status()).vectors != whole.rows:
            await anyio.sleep(0.05)
    assert await ask(engine) == whole.found


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_server_repairs_the_index_when_it_opens(
    settings: Settings, whole: Whole, damage: Damage
) -> None:
    damage(settings.data_dir / VECTORS, whole.space)
    async with await LeanRAG.open(settings) as engine:
        await expect_degraded(engine)
        assert len((await engine.status()).jobs) == 1, "a process that only asks does not write"
    engine = await EngineHandle(settings).get()
    try:
        await expect_whole(engine, whole)
        (job, _) = (await engine.status()).jobs
        assert (job.kind, (await finish(engine, job)).status) == ("reindex", JobStatus.DONE)
    finally:
        await engine.close()


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_server_repairs_damage_that_a_query_meets(
    settings: Settings, whole: Whole, damage: Damage
) -> None:
    engine = await EngineHandle(settings).get()
    try:
        await expect_whole(engine, whole)
        damage(settings.data_dir / VECTORS, whole.space)
        # As after another process has written.
        await engine._stores.generations.bump_vector_version()
        assert "is being repaired in the background" in await expect_degraded(engine)
        await expect_whole(engine, whole)
    finally:
        await engine.close()


async def test_an_index_that_chroma_begins_anew_is_repaired(settings: Settings, whole: Whole) -> None:
    async with await LeanRAG.open(settings) as engine:
        new = DocumentSource(text="Clyde Tombaugh found Pluto in Flagstaff.", id="text 3")
        await finish(engine, await engine.submit_ingest([new]))
        found, rows = await ask(engine), (await engine.status()).vectors
    assert rows["windows"] > whole.rows["windows"]
    delete_indexes(settings.data_dir / VECTORS, whole.space)
    async with await LeanRAG.open(settings) as engine:
        await expect_degraded(engine)
    engine = await EngineHandle(settings).get()
    try:
        await expect_whole(engine, replace(whole, found=found, rows=rows))
    finally:
        await engine.close()


@pytest.mark.parametrize("damage", [delete_all, delete_indexes, overwrite_database, leave_a_mark])
async def test_the_next_build_repairs_the_index(settings: Settings, whole: Whole, damage: Damage) -> None:
    damage(settings.data_dir / VECTORS, whole.space)
    async with await LeanRAG.open(settings) as engine:
        await expect_degraded(engine)
        await finish(engine, await engine.submit_build())
        await expect_whole(engine, whole)


@pytest.mark.parametrize("damage", [delete_all, overwrite_database, leave_a_mark])
async def test_an_ingest_that_changes_nothing_repairs_the_index(
    settings: Settings, whole: Whole, damage: Damage
) -> None:
    damage(settings.data_dir / VECTORS, whole.space)
    async with await LeanRAG.open(settings) as engine:
        await expect_degraded(engine)
        same = [DocumentSource(text=TEXTS[0], id="text 0")]
        await finish(engine, await engine.submit_ingest(same))
        await expect_whole(engine, whole)


async def test_the_other_collections_are_repaired_too(settings: Settings, whole: Whole) -> None:
    async with await LeanRAG.open(settings) as engine:
        sources = [DocumentSource(text=text) for text in TEXTS]
        await finish(engine, await engine.submit_ingest(sources, collection="other"))
        rows = (await engine.status("other")).vectors
    overwrite_database(settings.data_dir / VECTORS, whole.space)
    engine = await EngineHandle(settings).get()
    try:
        await expect_whole(engine, whole)
        with anyio.fail_after(60):
            while (await engine.status("other")).vectors != rows:
                await anyio.sleep(0.05)
    finally:
        await engine.close()


async def test_a_full_disk_puts_no_index_aside(
    settings: Settings, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of another collection lies in the same folder, and nothing is damaged."""
    async with await LeanRAG.open(settings) as engine:
        with monkeypatch.context() as patched:
            # What Chroma raises then, as measured.
            full = InternalError(
                "Database error: error returned from database: (code: 13) database or disk is full"
            )
            patched.setattr(ChromaFolder, "drop", Mock(side_effect=full))
            job = await engine.job((await engine.submit_reindex()).id, wait_seconds=60)
        assert (job.status, "the disk is full" in job.message) == (JobStatus.FAILED, True)
        assert "Make room" in job.message
        await expect_whole(engine, whole)


async def test_a_repair_that_does_not_help_is_not_repeated_at_once(
    settings: Settings, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = AsyncMock(return_value=())
    engine = await EngineHandle(settings).get()
    try:
        await expect_whole(engine, whole)
        monkeypatch.setattr(repair, "embedder_trouble", looks)
        monkeypatch.setattr(repair, "find_damaged_spaces", AsyncMock(return_value=[whole.space]))
        monkeypatch.setattr(
            ChromaVectorStore, "search", AsyncMock(side_effect=StoreUnusable("It is damaged.", ""))
        )
        for _ in range(20):
            assert "is being repaired in the background" in await expect_degraded(engine)
        with anyio.fail_after(60):
            while len(jobs := (await engine.status()).jobs) == 1:
                await anyio.sleep(0.05)
        assert (looks.await_count, len(jobs)) == (1, 2)
    finally:
        await engine.close()
