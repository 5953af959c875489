"""Open an engine, give it work and wait for the end: what tests of whole jobs share (see ``tests/conftest.py``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import AskedMode, BuildRequest, BuildResult, IngestResult, Job, JobStatus
from leanrag_engine.core.model import DocumentSource, Generation
from leanrag_engine.engine import LeanRAG


@asynccontextmanager
async def open_engine(folder: Path, **settings: Any) -> AsyncIterator[LeanRAG]:
    async with await LeanRAG.open(load_settings(data_dir=folder, **settings)) as engine:
        yield engine


async def finish(engine: LeanRAG, job: Job) -> Job:
    """Wait for a job, which has to succeed."""
    job = await engine.job(job.id, wait_seconds=120)
    assert job.status is JobStatus.DONE, job.message
    return job


async def ingest(engine: LeanRAG, notes: Sequence[DocumentSource], *, build: bool = True) -> BuildResult:
    """Return what was built, or a result without layers if nothing was to be built."""
    result = (await finish(engine, await engine.submit_ingest(notes, build=build))).result
    assert isinstance(result, IngestResult)
    return result.build or BuildResult(0, ())


async def build(engine: LeanRAG, mode: AskedMode = "auto") -> BuildResult:
    result = (await finish(engine, await engine.submit_build(order=BuildRequest(mode=mode)))).result
    assert isinstance(result, BuildResult)
    return result


async def published(engine: LeanRAG) -> Generation:
    """Return the generation of the only collection."""
    (collection,) = await engine.collections()
    assert collection.generation is not None
    return collection.generation
