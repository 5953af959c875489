"""Jobs: safe before they are announced, watched, cancelled, waiting for other writers, resumed."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from leanrag_tests_forks import Fork

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import Busy, Cancelled, InvalidInput, NotFound, NotReady, StoreUnusable
from leanrag_engine.core.jobs import (
    DeleteCollectionRequest,
    DeleteRequest,
    DeleteResult,
    IngestRequest,
    Job,
    JobStatus,
)
from leanrag_engine.core.model import DocumentSource, Vectors
from leanrag_engine.core.ports import Progress
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.job_runner import JobProgress

pytestmark = pytest.mark.anyio

STARS = [
    DocumentSource(
        text=f"Star Kepler-{n} shines in Lyra. Planet Kepler-{n}b orbits star Kepler-{n}.", id=f"k{n}"
    )
    for n in range(300)
]

HOLDER = """
import anyio, sys
from pathlib import Path
from leanrag_engine.adapters.files.writer_lock import FileWriterLock
async def main():
    async with FileWriterLock(Path(sys.argv[1])).hold("a long test", waiting=lambda holder: None):
        print("held", flush=True)
        sys.stdin.read()
anyio.run(main)
"""


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LeanRAG]:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as opened:
        yield opened


async def test_a_cancelled_job_keeps_what_it_had_finished_and_can_be_carried_on(engine: LeanRAG) -> None:
    job = await engine.submit_ingest(STARS)
    while (await engine.job(job.id)).done < 5:
        pass
    cancelled = await engine.cancel_job(job.id)
    assert cancelled.status is JobStatus.CANCELLED
    kept = (await engine.status()).collection.documents
    assert 5 <= kept < len(STARS)
    again = await engine.job((await engine.submit_ingest(STARS)).id, wait_seconds=120)
    statuses = [each.status for each in again.documents]
    assert statuses.count("unchanged") == kept
    assert statuses.count("added") == len(STARS) - kept


async def test_a_job_waits_for_another_process_and_names_it(engine: LeanRAG, tmp_path: Path) -> None:
    with Fork(["-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        job = await engine.submit_ingest(STARS[:2])
        while not (waiting := await engine.job(job.id)).message:
            pass
        assert waiting.status is JobStatus.QUEUED
        assert f"process {other.pid}" in waiting.message
        assert "a long test" in waiting.message
        assert str(other.pid) in str((await engine.status()).writer)
        other.stdin.close()
    assert (await engine.job(job.id, wait_seconds=60)).status is JobStatus.DONE


async def test_a_waiting_job_can_be_cancelled(engine: LeanRAG, tmp_path: Path) -> None:
    with Fork(["-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        job = await engine.submit_ingest(STARS[:2])
        assert (await engine.cancel_job(job.id)).status is JobStatus.CANCELLED
        assert other.stdin is not None
        other.stdin.close()


async def text_of_k1(engine: LeanRAG) -> str:
    return "".join(chunk.text for chunk in (await engine.sources(document="k1")).chunks)


async def test_jobs_that_wait_work_in_the_order_in_which_they_were_asked_for(
    engine: LeanRAG, tmp_path: Path
) -> None:
    versions = [f"Kepler-1 is version {number}." for number in range(12)]
    with Fork(["-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdin
        assert other.stdout.readline()
        for version in versions:
            job = await engine.submit_ingest([DocumentSource(text=version, id="k1")], build=False)
            await anyio.sleep(
                0.03
            )  # each asks for the lock at another moment of the pause between two trials
        other.stdin.close()
        await engine.job(job.id, wait_seconds=60)
    while await engine._stores.jobs.find_unfinished():
        await anyio.sleep(0.05)
    assert await text_of_k1(engine) == versions[-1]


async def leave_ingest(
    engine: LeanRAG, text: str, job_id: str, *others: DocumentSource, folder: Path | None = None
) -> str:
    """Leave the row of a job whose process is gone."""
    first = DocumentSource(path=str(folder)) if folder else DocumentSource(text=text, id="k1")
    now = datetime.now(UTC)
    await engine._stores.jobs.put(
        Job(
            id=job_id,
            kind="ingest",
            collection="default",
            status=JobStatus.RUNNING,
            request=IngestRequest((first, *others), build=False, allowed=None if folder else ()),
            owner="999999999@nowhere@0.00",
            created_at=now,
            updated_at=now - timedelta(minutes=5),
            stage="ingest",
        )
    )
    return job_id


async def test_jobs_that_were_interrupted_are_resumed_in_their_order(engine: LeanRAG) -> None:
    await engine._stores.documents.create_collection("default")
    for number in range(5):
        await leave_ingest(engine, f"Kepler-1 is version {number}.", f"job-{number}")
    for job in await engine.resume_jobs():
        assert (await engine.job(job.id, wait_seconds=60)).status is JobStatus.DONE
    assert await text_of_k1(engine) == "Kepler-1 is version 4."


async def test_an_interrupted_ingest_does_not_bring_back_a_text_that_was_replaced_since(
    engine: LeanRAG,
) -> None:
    await engine._stores.documents.create_collection("default")
    await leave_ingest(engine, "Kepler-1 is old.", "job-old")
    newer = await engine.submit_ingest([DocumentSource(text="Kepler-1 is new.", id="k1")], build=False)
    await engine.job(newer.id, wait_seconds=60)
    for job in await engine.resume_jobs():
        ended = await engine.job(job.id, wait_seconds=60)
        assert [each.status for each in ended.documents] == ["unchanged"]
    assert await text_of_k1(engine) == "Kepler-1 is new."


async def test_an_interrupted_ingest_does_not_bring_back_a_text_that_was_deleted_since(
    engine: LeanRAG, tmp_path: Path
) -> None:
    without_id = DocumentSource(text="Xyzzyplugh-2 has no id. ")
    texts = (DocumentSource(text="Xyzzyplugh-1 is here.", id="k1"), without_id, STARS[0])
    await engine.job((await engine.submit_ingest(texts, build=False)).id, wait_seconds=60)
    gone = [each.id for each in await engine._stores.documents.find_all("default") if each.id != "k0"]
    interrupted = await leave_ingest(engine, "Xyzzyplugh-1 is here.", "job-old", without_id, STARS[0])
    cancelled = await leave_ingest(engine, "Xyzzyplugh-3 was never stored.", "job-cancelled")
    assert (await engine.cancel_job(cancelled)).status is JobStatus.CANCELLED
    with Fork(["-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline()
        # The job is read, and waits, before the deletion has begun; the one asked for after it is not touched.
        deletion, _ = await engine.submit_delete(gone)
        assert [each.id for each in await engine.resume_jobs()] == [interrupted]
        later = await engine.submit_ingest([DocumentSource(text="Kepler-1 is new.", id="k1")], build=False)
        other.stdin.close()
    assert deletion
    for id_ in (deletion.id, interrupted):
        assert (await engine.job(id_, wait_seconds=60)).status is JobStatus.DONE
    resumed = await engine.job(interrupted)
    assert [each.id for each in resumed.documents] == ["k0"]
    assert isinstance(resumed.request, IngestRequest)
    assert not resumed.request.documents, "an ended job keeps nothing of texts that it was given"
    assert (await engine.job(later.id, wait_seconds=60)).status is JobStatus.DONE
    assert await text_of_k1(engine) == "Kepler-1 is new."
    held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"yzzyplugh" not in held


async def leave_deletion(
    engine: LeanRAG, kind: str, request: DeleteRequest | DeleteCollectionRequest
) -> None:
    """Leave the row of a deletion whose process is gone."""
    now = datetime.now(UTC)
    await engine._stores.jobs.put(
        Job(
            id="job-old",
            kind=kind,
            collection="default",
            status=JobStatus.RUNNING,
            request=request,
            owner="999999999@nowhere@0.00",
            created_at=now,
            updated_at=now - timedelta(minutes=5),
        )
    )


async def test_an_interrupted_deletion_does_not_delete_what_was_ingested_again_since(engine: LeanRAG) -> None:
    texts = [DocumentSource(text=f"Kepler-{number} is old.", id=f"k{number}") for number in (1, 2)]
    await engine.job((await engine.submit_ingest(texts, build=False)).id, wait_seconds=60)
    await leave_deletion(engine, "delete", DeleteRequest(("k1", "k2")))
    newer = [replace(texts[0], text="Kepler-1 is new.")]
    await engine.job((await engine.submit_ingest(newer, build=False)).id, wait_seconds=60)
    (resumed,) = await engine.resume_jobs()
    assert (await engine.job(resumed.id, wait_seconds=60)).status is JobStatus.DONE
    assert await text_of_k1(engine) == "Kepler-1 is new."
    assert [each.id for each in await engine._stores.documents.find_all("default")] == ["k1"]


async def test_an_interrupted_deletion_of_a_collection_does_not_delete_another_one_of_that_name(
    engine: LeanRAG,
) -> None:
    await leave_deletion(engine, "delete_collection", DeleteCollectionRequest())
    newer = [DocumentSource(text="Kepler-1 is new.", id="k1")]
    await engine.job((await engine.submit_ingest(newer, build=False)).id, wait_seconds=60)
    (resumed,) = await engine.resume_jobs()
    assert (await engine.job(resumed.id, wait_seconds=60)).status is JobStatus.DONE
    assert await text_of_k1(engine) == "Kepler-1 is new."


async def test_an_interrupted_ingest_of_a_folder_does_not_bring_back_a_file_that_was_deleted_since(
    engine: LeanRAG, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("notes")
    for name in ("a", "b"):
        (folder / f"{name}.md").write_text(f"Kepler-{name} is in this file.")
    (folder / ".leanrag.md").write_text("Letters of an astronomer.")
    first = await engine.submit_ingest([DocumentSource(path=str(folder))], build=False, allowed=None)
    await engine.job(first.id, wait_seconds=60)
    await leave_ingest(engine, "", "job-old", folder=folder)
    (folder / "c.md").write_text("Kepler-c is a file that the folder has got since.")
    (folder / ".leanrag.md").write_text("Letters of a comet.")
    deletion, _ = await engine.submit_delete([str(folder / "a.md")])
    assert deletion
    assert (await engine.job(deletion.id, wait_seconds=60)).status is JobStatus.DONE
    for job in await engine.resume_jobs():
        assert (await engine.job(job.id, wait_seconds=60)).status is JobStatus.DONE
    assert [Path(each.id).name for each in await engine.documents()] == ["b.md", "c.md"]
    held = await engine._stores.documents.collection("default")
    assert held
    assert "Letters of a comet." in str(held.notes)


async def test_closing_leaves_a_job_that_the_next_opening_resumes(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)
    async with await LeanRAG.open(settings) as first:
        job = await first.submit_ingest(STARS)
        while (await first.job(job.id)).done < 3:
            pass
    async with await LeanRAG.open(settings) as second:
        assert not (await second.job(job.id)).status.finished
        assert [each.id for each in await second.resume_jobs()] == [job.id]
        assert (await second.job(job.id, wait_seconds=120)).status is JobStatus.DONE
        assert (await second.status()).collection.documents == len(STARS)


async def test_a_server_resumes_what_a_server_began_and_leaves_what_a_command_gave_up(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)
    async with await LeanRAG.open(settings) as command:
        given_up = await command.submit_ingest(STARS, collection="given-up")
    async with await LeanRAG.open(settings) as server:
        assert await server.resume_jobs(serves=True) == []
        assert "`leanrag build` finishes it" in (await server.job(given_up.id)).message
        began = await server.submit_ingest(STARS, collection="begun")
    async with await LeanRAG.open(settings) as server:
        assert [each.id for each in await server.resume_jobs(serves=True)] == [began.id]
    async with await LeanRAG.open(settings) as command:
        assert {each.id for each in await command.resume_jobs()} == {began.id, given_up.id}


async def test_closing_in_good_order_never_uses_up_the_attempts(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)
    async with await LeanRAG.open(settings) as first:
        job = await first.submit_ingest(STARS)
    for _ in range(4):
        async with await LeanRAG.open(settings) as again:
            assert [each.id for each in await again.resume_jobs()] == [job.id]
    async with await LeanRAG.open(settings) as last:
        await last.resume_jobs()
        assert (await last.job(job.id, wait_seconds=120)).status is JobStatus.DONE


async def test_a_job_that_brought_its_process_down_three_times_is_not_tried_again(engine: LeanRAG) -> None:
    now = datetime.now(UTC)
    crashing = Job(
        id="job-poison",
        kind="ingest",
        collection="default",
        status=JobStatus.RUNNING,
        request=IngestRequest((), allowed=None),
        owner="999999999@nowhere@0.00",
        created_at=now,
        updated_at=datetime.fromtimestamp(0, UTC),
        attempts=3,
        reached=0,
    )
    await engine._stores.documents.create_collection("default")
    await engine._stores.jobs.put(crashing)
    assert await engine.resume_jobs() == []
    seen = await engine.job("job-poison")
    assert seen.status is JobStatus.FAILED
    assert "3 times" in seen.message


async def test_a_job_of_a_dead_process_is_seen_as_interrupted(engine: LeanRAG) -> None:
    job = await engine.job((await engine.submit_ingest(STARS[:1])).id, wait_seconds=60)
    await engine._stores.jobs.put(
        replace(
            job,
            status=JobStatus.RUNNING,
            owner="999999999@nowhere@0.00",
            updated_at=datetime.fromtimestamp(0, UTC),
        )
    )
    assert (await engine.job(job.id)).status is JobStatus.INTERRUPTED
    assert (await engine.cancel_job(job.id)).status is JobStatus.CANCELLED


async def test_a_build_without_documents_and_an_unknown_job_say_what_to_do(engine: LeanRAG) -> None:
    with pytest.raises(NotReady, match="Ingest documents first"):
        await engine.submit_build()
    with pytest.raises(NotFound, match="no job 'x'"):
        await engine.job("x")
    with pytest.raises(InvalidInput, match="at least one"):
        await engine.submit_ingest([])


async def test_a_job_in_the_middle_of_one_long_document_can_be_cancelled(engine: LeanRAG) -> None:
    long = "\n\n".join(f"Star Kepler-{n} shines in Lyra near Planet Vega-{n}." for n in range(10_000))
    job = await engine.submit_ingest([DocumentSource(text=long, id="long")])
    while (await engine.job(job.id)).stage != "ingest":
        pass
    await engine.cancel_job(job.id)
    ended = await engine.job(job.id, wait_seconds=200)
    assert ended.status is JobStatus.CANCELLED
    assert (await engine.status()).collection.documents == 0


async def test_a_store_that_is_busy_for_a_while_does_not_end_the_job_that_reports_to_it(
    engine: LeanRAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, refused = engine._stores.jobs.put, []

    async def busy_three_times(job: Job) -> None:
        if job.status is not JobStatus.QUEUED and len(refused) < 3:
            refused.append(job.status)
            raise Busy("The store is locked by another program.", "Wait.")
        await put(job)

    monkeypatch.setattr(engine._stores.jobs, "put", busy_three_times)
    monkeypatch.setattr("leanrag_engine.pipeline.job_runner.END_PAUSES", (0, 0, 0))
    job = await engine.job((await engine.submit_ingest(STARS[:20])).id, wait_seconds=60)
    assert len(refused) == 3
    assert job.status is JobStatus.DONE
    assert (await engine.status()).collection.documents == 20


async def test_a_job_on_a_full_disk_ends_and_its_row_says_so_once_there_is_room(
    engine: LeanRAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, full = engine._stores.jobs.put, threading.Event()

    async def fill(*_: Any) -> None:
        full.set()
        raise StoreUnusable("The disk is full.", "Make room.")

    async def put_if_there_is_room(job: Job) -> None:
        await (fill() if full.is_set() else put(job))

    monkeypatch.setattr(engine._stores.jobs, "put", put_if_there_is_room)
    monkeypatch.setattr(engine._stores.documents, "put_all", fill)
    monkeypatch.setattr("leanrag_engine.pipeline.job_runner.END_PAUSES", (0.05,))
    asked = await engine.submit_ingest(STARS[:3])
    with anyio.fail_after(60):
        ended = await engine.job(asked.id, wait_seconds=600)
        assert (ended.status, ended.message) == (JobStatus.FAILED, "The disk is full. Make room.")
        assert (await engine.job_state(asked.id)).status is JobStatus.FAILED
        row = await engine._stores.jobs.find(asked.id)
        assert row is not None
        assert not row.status.finished
        full.clear()
        while await engine._stores.jobs.find(asked.id) != ended:
            await anyio.sleep(0.01)


async def test_a_finished_job_keeps_no_text_of_its_documents_and_no_id_of_deleted_ones(
    engine: LeanRAG,
) -> None:
    job = await engine.job((await engine.submit_ingest(STARS[:3])).id, wait_seconds=60)
    assert isinstance(job.request, IngestRequest)
    assert job.request.documents == ()
    deletion, _ = await engine.submit_delete(["d1"])
    assert deletion is not None
    deletion = await engine.job(deletion.id, wait_seconds=60)
    assert (deletion.request, deletion.result) == (DeleteRequest(()), DeleteResult(1, 1))


async def test_a_reindex_that_was_stopped_half_way_is_seen_and_said(
    engine: LeanRAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.job((await engine.submit_ingest(STARS[:60])).id, wait_seconds=60)
    upsert, versions = engine._stores.vectors.upsert, [await engine._stores.generations.vector_version()]

    async def first_rows_alone(space: str, ids: list[str], vectors: Vectors) -> None:
        versions.append(await engine._stores.generations.vector_version())
        await upsert(space, ids[:5], vectors[:5])
        raise Cancelled("Stopped by the test.")

    monkeypatch.setattr(engine._stores.vectors, "upsert", first_rows_alone)
    job = await engine.job((await engine.submit_reindex()).id, wait_seconds=60)
    assert job.status is JobStatus.CANCELLED
    versions.append(await engine._stores.generations.vector_version())
    # Before the first row, in case the process is killed, and after the last.
    assert versions == sorted(set(versions))
    assert any("incomplete" in warning for warning in (await engine.status()).warnings)


def test_a_rate_counts_from_where_the_stage_began(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("leanrag_engine.pipeline.job_runner.time.monotonic", lambda: now[0])
    progress = JobProgress()
    progress.report(Progress("embed", 50, 100))
    assert progress.rate == 0
    now[0] += 10
    progress.report(Progress("embed", 70, 100))
    assert progress.rate == pytest.approx(2)
    progress.report(Progress("publish", 0, 10))
    assert progress.rate == 0
    now[0] += 4
    progress.report(Progress("publish", 8, 10))
    assert progress.rate == pytest.approx(2)


async def test_work_that_never_comes_to_report_is_cancelled_where_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    async def silent(*_: object) -> None:
        begun.set()
        await anyio.sleep_forever()

    monkeypatch.setattr("leanrag_engine.pipeline.building.generation.build_generation", silent)
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        note = DocumentSource(text="Ada Lovelace met Charles Babbage.")
        job = await engine.job((await engine.submit_ingest([note], build=False)).id, 60)
        assert job.status is JobStatus.DONE
        job = await engine.submit_build()
        await anyio.to_thread.run_sync(begun.wait)
        await engine.cancel_job(job.id)
        ended = await engine.job(job.id, wait_seconds=30)
        assert ended.status is JobStatus.CANCELLED
        assert "kept" in ended.message
