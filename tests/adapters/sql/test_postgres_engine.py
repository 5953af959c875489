"""The whole engine on a PostgreSQL database: it answers as on SQLite, and another process takes over an interrupted job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from leanrag_engine import LeanRAG
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import Job, JobStatus
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

TEXTS = {
    "carol": "Ebenezer Scrooge hired Bob Cratchit. Jacob Marley was the partner of Ebenezer Scrooge. Bob Cratchit"
    " loves Tiny Tim.",
    "moons": "Galileo Galilei discovered Ganymede. Ganymede is larger than Mercury. Galileo Galilei taught in Padua.",
    "trains": "George Stephenson built the Rocket. The Rocket ran from Liverpool to Manchester in 1830.",
}
QUESTIONS = ("Who hired Bob Cratchit?", "What did Galileo discover?", "Where did the Rocket run?", "zzz")


async def open_engine(folder: Path, address: str = "", chroma: str = "") -> LeanRAG:
    return await LeanRAG.open(
        load_settings(data_dir=folder, database_url=address, chroma_url=chroma, embedder="fitted")
    )


async def ingest(engine: LeanRAG, names: list[str]) -> Job:
    sources = [DocumentSource(id=name, title=name, text=TEXTS[name]) for name in names]
    return await wait_for(engine, await engine.submit_ingest(sources))


async def wait_for(engine: LeanRAG, job: Job) -> Job:
    with anyio.fail_after(200):
        while not job.status.finished:
            job = await engine.job(job.id, 5)
    assert job.status is JobStatus.DONE, job.message
    return job


async def ask(engine: LeanRAG) -> list[object]:
    found = [await engine.query(Query(text=question)) for question in QUESTIONS]
    history = [(each.number, each.changes) for each in await engine.history()]
    return [*((each.context.text, each.warnings) for each in found), history]


async def test_answers_are_those_of_sqlite_through_builds_deletions_and_a_rollback(
    tmp_path: Path, postgres_database: str
) -> None:
    told: list[list[object]] = []
    for folder, address in ((tmp_path / "file", ""), (tmp_path / "server", postgres_database)):
        async with await open_engine(folder, address) as engine:
            await ingest(engine, ["carol", "moons"])
            seen = await ask(engine)
            await ingest(engine, ["trains"])
            seen += await ask(engine)
            await wait_for(engine, await engine.submit_rollback(1))
            seen += await ask(engine)
            job, _ = await engine.submit_delete(["moons"])
            await wait_for(engine, job)
            seen += await ask(engine)
        async with await open_engine(folder, address) as engine:  # all of it was stored
            seen += await ask(engine)
        told.append(seen)
    assert told[0] == told[1]
    assert not (tmp_path / "server" / "graph.sqlite3").exists()


async def test_replicas_with_a_chroma_server_share_no_folder(
    tmp_path: Path, postgres_database: str, chroma_server: str
) -> None:
    folders = [tmp_path / name for name in ("alone", "one", "two")]
    async with (
        await open_engine(folders[0]) as alone,
        await open_engine(folders[1], postgres_database, chroma_server) as one,
        await open_engine(folders[2], postgres_database, chroma_server) as two,
    ):
        for writer, names in ((one, ["carol", "moons"]), (two, ["trains"])):
            await ingest(alone, names)
            await ingest(writer, names)
            told = await ask(alone)
            assert [await ask(one), await ask(two)] == [told, told]
        # Each may write at any moment; the database lets one do it at a time.
        job, _ = await one.submit_delete(["moons"])
        other = await two.submit_ingest([DocumentSource(id="more", text=TEXTS["carol"] + " Fred came too.")])
        assert job
        for engine, each in ((one, job), (two, other)):
            await wait_for(engine, each)
        assert await ask(one) == await ask(two)
        assert not [text for text in await ask(one) if "Ganymede" in str(text)]
    assert not [folder for folder in folders[1:] if [*folder.rglob("*.sqlite3")]]


STOPS_WHILE_IT_BUILDS = """
from leanrag_engine import LeanRAG
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.adapters.sql.generations import publish as publishing

def stop(*given, **named):
    say("building")
    wait()

publishing.prepare_build = stop

async def main():
    settings = load_settings(data_dir=sys.argv[2], database_url=sys.argv[1], embedder="fitted")
    engine = await LeanRAG.open(settings)
    job = await engine.submit_ingest([DocumentSource(id="moons", title="moons", text=sys.argv[3])])
    say(job.id)
    await anyio.sleep_forever()

anyio.run(main)
"""


async def test_another_process_takes_over_the_job_of_a_killed_one(
    tmp_path: Path, postgres_database: str, child: Callable[..., Any]
) -> None:
    writer = child(STOPS_WHILE_IT_BUILDS, postgres_database, tmp_path, TEXTS["moons"])
    said = {writer.read_line(), writer.read_line()}
    assert "building" in said
    (number,) = said - {"building"}
    async with (
        await open_engine(tmp_path, postgres_database) as first,
        await open_engine(tmp_path, postgres_database) as second,
    ):
        status = await first.status()
        assert status.writer
        assert status.writer.pid == writer.pid
        assert await first.resume_jobs() == []  # its process is alive
        writer.kill()
        resumed = [job.id for engine in (first, second) for job in await engine.resume_jobs()]
        assert resumed == [number]
        done = await wait_for(second, await second.job(number))
        assert [each.id for each in done.documents] == ["moons"]
        found = await second.query(Query(text="What did Galileo discover?"))
        assert "Ganymede" in found.context.text
        assert (await second.status()).writer is None
