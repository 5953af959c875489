"""Collections as a whole: copied with their build, renamed, and deleted without a trace, also by a process that is killed."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import anyio
import pytest
from leanrag_tests_forks import run
from leanrag_tests_jobs import finish, open_engine

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import Busy, InvalidInput, NotFound
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

NOTES = [
    DocumentSource(id="gone", text="Rory Shaw bakes on Unst."),
    DocumentSource(
        id="skerry", text="Ewan Reid keeps the zyzzyvaq of Flannelrock. Moira Kerr wrote to Ewan Reid."
    ),
    DocumentSource(
        id="tiree", text="Calum Boyd built the bakery of Tiree. Moira Kerr bought bread from Calum Boyd."
    ),
]
OTHER = [DocumentSource(id="oban", text="Isla Grant leads the foundry of Oban. The foundry of Oban is old.")]
QUESTION = Query("What does Ewan Reid keep?")
WORDS = re.compile("zyzzyva|flannelr", re.IGNORECASE)


async def fill(engine: LeanRAG) -> None:
    """Make the collection notes, whose first document is deleted again, and the collection other."""
    await finish(engine, await engine.submit_ingest(NOTES, collection="notes"))
    job, _ = await engine.submit_delete(["gone"], collection="notes")
    assert job
    await finish(engine, job)
    await finish(engine, await engine.submit_build(collection="notes"))
    await finish(engine, await engine.submit_ingest(OTHER, collection="other"))


async def hierarchy_of(engine: LeanRAG, collection: str) -> list[tuple[str, list[str]]]:
    page = await engine.search_entities("Ewan Reid bakery", limit=100, collection=collection)
    return [
        (each.entity.name, [up.id for up in await engine.ancestors(each.entity.id, collection=collection)])
        for each in page.found
    ]


def traces(folder: Path) -> list[str]:
    """Files in which a planted word stands; not those of vectors, in which Chroma leaves memory that it never filled."""
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file()
        and path.name not in {"data_level0.bin", "length.bin", "link_lists.bin"}
        and WORDS.search(path.read_bytes().decode("latin-1"))
    ]


async def test_a_copy_answers_as_the_original_with_its_citations_and_lives_on_without_it(
    tmp_path: Path,
) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await fill(engine)
        await engine.merge_entities(["Ewan Reid", "Moira Kerr"], "Ewan", collection="notes")
        before = await engine.query(QUESTION, collection="notes")
        tree = await hierarchy_of(engine, "notes")
        await finish(engine, await engine.submit_copy("trial", collection="notes"))
        assert (await engine.query(QUESTION, collection="trial")).context.text == before.context.text
        assert await hierarchy_of(engine, "trial") == tree
        assert [each.name for each in await engine.corrections(collection="trial")] == ["Ewan"]
        (entry,) = await engine.history(collection="trial")
        assert "copied from collection notes" in entry.build.reason
        status = await engine.status("trial")
        assert status.collection.stale == (await engine.status("notes")).collection.stale
        assert not [each for each in status.warnings if "incomplete" in each]
        with pytest.raises(InvalidInput, match="already"):
            await engine.submit_copy("other", collection="notes")
        await finish(engine, await engine.submit_delete_collection("notes"))
        assert (await engine.query(QUESTION, collection="trial")).context.text == before.context.text
        await finish(engine, await engine.submit_ingest(OTHER, collection="trial"))
        assert {each.number for each in await engine.documents(collection="trial")} == {2, 3, 4}


async def test_a_deleted_collection_leaves_no_word_in_any_file_and_the_others_as_they_were(
    tmp_path: Path,
) -> None:
    settings = load_settings(data_dir=tmp_path, embedder="fitted")
    async with await LeanRAG.open(settings) as engine:
        await fill(engine)
        assert traces(tmp_path)
        spaces = set(await engine._stores.vectors.spaces())
        before = await engine.query(Query("foundry"), collection="other")
        job = await finish(engine, await engine.submit_delete_collection("notes"))
        assert job.result
        assert job.result.figures() == {"documents": 2, "chunks": 2}
        assert [each.name for each in await engine.collections()] == ["other"]
        left = set(await engine._stores.vectors.spaces())
        assert left < spaces
        assert not [each for each in left if each.startswith("c1-")]
        assert (await engine.query(Query("foundry"), collection="other")).context.text == before.context.text
        with pytest.raises(NotFound, match="notes"):
            await engine.query(QUESTION, collection="notes")
    assert traces(tmp_path) == []


async def test_a_renamed_collection_keeps_its_build_and_jobs_and_gives_its_name_free(tmp_path: Path) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await fill(engine)
        before = await engine.query(QUESTION, collection="notes")
        jobs = [each.id for each in (await engine.status("notes")).jobs]
        with pytest.raises(InvalidInput, match="already"):
            await engine.rename_collection("notes", "other")
        with pytest.raises(InvalidInput, match="cannot be called"):
            await engine.rename_collection("notes", "a/b")
        await engine.rename_collection("notes", "diary")
        assert (await engine.query(QUESTION, collection="diary")).context.text == before.context.text
        assert [each.id for each in (await engine.status("diary")).jobs] == jobs
        with pytest.raises(NotFound, match="notes"):
            await engine.query(QUESTION, collection="notes")
        await finish(engine, await engine.submit_ingest(OTHER, collection="notes"))
        assert (await engine.status("notes")).collection.documents == 1


async def test_a_collection_is_neither_renamed_nor_deleted_while_a_job_of_it_runs(tmp_path: Path) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await finish(engine, await engine.submit_ingest(OTHER, collection="notes"))
        async with engine._stores.lock.hold("another writer", waiting=lambda _: None):
            job = await engine.submit_build(collection="notes")
            with pytest.raises(Busy, match=job.id):
                await engine.rename_collection("notes", "diary")
            with pytest.raises(Busy, match=job.id):
                await engine.submit_delete_collection("notes")
        await finish(engine, job)
        await engine.rename_collection("notes", "diary")


DIE = """
import anyio, os, signal, sys
from leanrag_engine.adapters.sql.stores import SqlDocumentStore
from leanrag_engine.core.config import load_settings
from leanrag_engine.engine import LeanRAG
folder, verb, place = sys.argv[1:]
name = f"{verb}_collection"
work = getattr(SqlDocumentStore, name)
async def work_and_die(*args, **kwargs):
    if place == "after":
        await work(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(SqlDocumentStore, name, work_and_die)
async def main():
    async with await LeanRAG.open(load_settings(data_dir=folder)) as engine:
        if verb == "copy":
            job = await engine.submit_copy("trial", collection="notes")
        else:
            job = await engine.submit_delete_collection("notes")
        await engine.job(job.id, 60)
anyio.run(main)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_killed_copy_and_a_killed_deletion_are_finished_by_the_next_process(
    tmp_path: Path, place: str
) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await fill(engine)
        before = await engine.query(QUESTION, collection="notes")

    def die(verb: str) -> None:
        ran = run("-c", DIE, tmp_path, verb, place)
        assert ran.returncode == -signal.SIGKILL

    await anyio.to_thread.run_sync(die, "copy")
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        (job,) = await engine.resume_jobs()
        await finish(engine, job)
        assert (await engine.query(QUESTION, collection="trial")).context.text == before.context.text
        await finish(engine, await engine.submit_delete_collection("trial"))
    await anyio.to_thread.run_sync(die, "delete")
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        (job,) = await engine.resume_jobs()
        await finish(engine, job)
        assert [each.name for each in await engine.collections()] == ["other"]
    assert traces(tmp_path) == []


async def test_a_collection_whose_first_job_is_cancelled_by_its_deletion_is_gone(tmp_path: Path) -> None:
    long = "\n\n".join(f"Star Kepler-{number} shines near Vega-{number}." for number in range(20_000))
    async with open_engine(tmp_path) as engine:
        await engine.submit_ingest([DocumentSource(text=long)])
        await finish(engine, await engine.submit_delete_collection("default", cancel=True))
        assert await engine.collections() == []
