"""The whole engine with its vectors on a Chroma server: it answers as with a folder, and without the server by keywords."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from leanrag_tests_jobs import finish

from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import Job, JobStatus
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.core.ports import ignore_progress
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline import repair
from leanrag_engine.pipeline.backup import back_up, restore
from leanrag_engine.retrieval.request import Query
from leanrag_mcp.replies.query import QueryReply

pytestmark = pytest.mark.anyio

TEXTS = {
    "uranus": "William Herschel found Uranus in Bath. He built telescopes.",
    "neptune": "Johann Galle found Neptune in Berlin. Urbain Le Verrier had computed its place.",
    "comets": "Caroline Herschel discovered eight comets. She lived in Slough.",
}
QUESTIONS = ("Who found Neptune?", "Where did Herschel live?", "telescopes")
QUESTION = Query("Who found Neptune?")


async def open_engine(folder: Path, url: str = "") -> LeanRAG:
    return await LeanRAG.open(load_settings(data_dir=folder, chroma_url=url))


async def expect_failure(engine: LeanRAG, job: Job) -> str:
    job = await engine.job(job.id, wait_seconds=120)
    assert job.status is JobStatus.FAILED
    return job.message


async def ingest(engine: LeanRAG, *names: str) -> Job:
    return await engine.submit_ingest([DocumentSource(id=name, text=TEXTS[name]) for name in names])


async def ask_all(engine: LeanRAG) -> list[object]:
    found: list[object] = []
    for question in QUESTIONS:
        result = await engine.query(Query(question))
        assert not [each for each in result.warnings if "failed" in each]
        page = await engine.search_entities(question)
        assert page.warnings == ()
        found += [result.context.text, [(each.entity.name, each.score) for each in page.found]]
    return [*found, (await engine.status()).vectors]


async def expect_keywords(engine: LeanRAG, address: str) -> None:
    """Check that all that searches by meaning answers without, and says why."""
    result = await engine.query(QUESTION)
    page = await engine.search_entities("Neptune")
    assert result.sources[0].chunk.text == TEXTS["neptune"]
    assert "Neptune" in {each.entity.name for each in page.found}
    sources = await engine.sources(document="neptune", question=QUESTION.text)
    assert [each.text for each in sources.chunks] == [TEXTS["neptune"]]
    told = [
        # The text of a concise reply, which is all that many clients show.
        QueryReply.from_engine(result, detailed=False).to_markdown(),
        *result.warnings,
        *page.warnings,
        *sources.problems,
        *(await engine.status()).warnings,
    ]
    assert sum(address in each and "eywords alone answer" in each for each in told) == 5


async def test_answers_are_those_of_a_folder_through_builds_and_a_deletion(
    tmp_path: Path, chroma_server: str
) -> None:
    told: list[list[object]] = []
    for folder, url in ((tmp_path / "folder", ""), (tmp_path / "server", chroma_server)):
        async with await open_engine(folder, url) as engine:
            await finish(engine, await ingest(engine, "uranus", "neptune"))
            seen = await ask_all(engine)
            await finish(engine, await ingest(engine, "comets"))
            seen += await ask_all(engine)
            job, _ = await engine.submit_delete(["uranus"])
            assert job
            await finish(engine, job)
            seen += await ask_all(engine)
        async with await open_engine(folder, url) as engine:
            seen += await ask_all(engine)
        told.append(seen)
    assert told[0] == told[1]
    assert not (tmp_path / "server" / "vectors").exists()


async def test_without_the_server_keywords_answer_and_what_needs_it_fails_without_loss(
    tmp_path: Path, chroma_gate: Any
) -> None:
    async with await open_engine(tmp_path, chroma_gate.address) as engine:
        await finish(engine, await ingest(engine, "uranus", "neptune"))
        whole = await ask_all(engine)
        chroma_gate.shut()
    async with await open_engine(tmp_path, chroma_gate.address) as engine:
        await expect_keywords(engine, chroma_gate.address)
        failed = await expect_failure(engine, await engine.submit_build())
        assert chroma_gate.address in failed
        assert "LEANRAG_CHROMA_URL" in failed
        job, _ = await engine.submit_delete(["neptune"])
        assert job
        await expect_failure(engine, job)
        await expect_failure(engine, await ingest(engine, "comets"))
        await expect_keywords(engine, chroma_gate.address)
        assert (await engine.status()).collection.documents == 3, (
            "the new document is stored, none is deleted"
        )
        chroma_gate.open()
        await finish(engine, await engine.submit_build())
        assert whole != await ask_all(engine)
        job, _ = await engine.submit_delete(["comets"])
        assert job
        await finish(engine, job)
        await finish(engine, await engine.submit_build())
        assert (await engine.status()).collection.documents == 2
        assert (await engine.query(QUESTION)).warnings == ()


async def test_a_server_that_is_lost_in_the_middle_of_a_query_is_told(
    tmp_path: Path, chroma_gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = ChromaVectorStore.search
    calls: list[str] = []

    async def lose(self: ChromaVectorStore, space: str, *given: Any) -> Any:
        calls.append(space)
        if len(calls) == 2:
            chroma_gate.shut()
        return await search(self, space, *given)

    async with await open_engine(tmp_path, chroma_gate.address) as engine:
        await finish(engine, await ingest(engine, "uranus", "neptune"))
        monkeypatch.setattr(ChromaVectorStore, "search", lose)
        (warning,) = (await engine.query(QUESTION)).warnings
        assert chroma_gate.address in warning
        assert len(calls) >= 2
        await expect_keywords(engine, chroma_gate.address)
        chroma_gate.open()
        assert (await engine.query(QUESTION)).warnings == ()


async def test_a_server_that_comes_back_empty_is_filled_again(
    tmp_path: Path, chroma_gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "REPAIR_PAUSE", 0.05)
    monkeypatch.setattr(repair, "LONGEST_REPAIR_PAUSE", 0.05)
    async with await open_engine(tmp_path, chroma_gate.address) as engine:
        await finish(engine, await ingest(engine, "uranus", "neptune"))
        whole = await ask_all(engine)
        await engine._stores.vectors.start_over()
        chroma_gate.shut()
    async with await open_engine(tmp_path, chroma_gate.address) as engine:
        engine.watch_vectors()
        await expect_keywords(engine, chroma_gate.address)
        assert len((await engine.status()).jobs) == 1, "nothing can be repaired on a server that is down"
        chroma_gate.open()
        with anyio.fail_after(60):
            while (await engine.query(QUESTION)).warnings or (await engine.status()).vectors != whole[-1]:
                await anyio.sleep(0.05)
        assert await ask_all(engine) == whole


async def test_two_processes_with_folders_of_their_own_do_not_share_spaces(
    tmp_path: Path, chroma_server: str
) -> None:
    async with (
        await open_engine(tmp_path / "one", chroma_server) as one,
        await open_engine(tmp_path / "two", chroma_server) as two,
    ):
        await finish(one, await ingest(one, "uranus", "neptune"))
        await finish(two, await ingest(two, "comets"))
        rows = (await one.status()).vectors
        await finish(two, await two.submit_delete_collection("default"))
        assert (await one.status()).vectors == rows
        assert (await one.query(QUESTION)).warnings == ()


async def test_a_restored_copy_leaves_the_vectors_of_the_original_alone(
    tmp_path: Path, chroma_server: str
) -> None:
    settings = load_settings(data_dir=tmp_path / "one", chroma_url=chroma_server)
    async with await LeanRAG.open(settings) as engine:
        await finish(engine, await ingest(engine, "uranus", "neptune"))
        rows = (await engine.status()).vectors
    await back_up(settings, tmp_path / "backup", ignore_progress)
    copied = load_settings(data_dir=tmp_path / "two", chroma_url=chroma_server)
    await restore(copied, tmp_path / "backup", ignore_progress)
    async with await LeanRAG.open(settings) as engine, await LeanRAG.open(copied) as copy:
        await finish(copy, await copy.submit_reindex())
        assert (await copy.status()).vectors == rows
        job, _ = await copy.submit_delete(["neptune"])
        await finish(copy, job)
        assert (await engine.status()).vectors == rows
        assert (await engine.query(QUESTION)).sources[0].chunk.text == TEXTS["neptune"]
