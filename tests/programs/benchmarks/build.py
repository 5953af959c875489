"""A whole build, from extracts to the published generation: seconds by stage, peak memory. Prints one JSON line.

Run it as ``python tests/programs/benchmarks/build.py [--entities 100000 --relations 300000] [--clustering gmm]``. The corpus
comes from ``synthetic.py`` and is written to a new folder first, which is not measured. ``--cancel-after`` stops the
build after so many seconds and says how long it took to stop.

``--update`` then adds one small document of known words to the built collection and builds again, which is an update: the second
line tells what that costs. ``--folder`` keeps the data; a folder that holds a build is only updated, so that one build serves
several measurements.

With ``--passages SET.json [--count 400] [--embedder minilm]`` the passages of a question set are ingested and built without
a model, and ingestion is a stage too. Compare processor time (``cpu``): the clock says little on a machine with other work.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import anyio
from synthetic import corpus
from update import read_passages

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import Cancelled
from leanrag_engine.core.jobs import IngestRequest
from leanrag_engine.core.model import DocumentSource, ReadDocument
from leanrag_engine.core.ports import Progress
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.building.generation import build_generation
from leanrag_engine.pipeline.index import Stores
from leanrag_engine.pipeline.ingest.run import ingest_all
from leanrag_engine.pipeline.job_runner import JobProgress
from leanrag_engine.pipeline.pending import PendingIndex


class Stages:
    """Seconds between the reports of a build, by stage; stops the build when its time is up.

    A silence is the time between two reports: as long as it takes a build to stop at worst.
    """

    def __init__(self, cancel_after: float) -> None:
        self.started = self._last = time.perf_counter()
        self.seconds: dict[str, float] = defaultdict(float)
        self.cpu_seconds: dict[str, float] = defaultdict(float)
        self._worked = time.process_time()
        self.reports = 0
        self.longest_silence = 0.0
        self.silent_in = ""
        self.silences: dict[str, float] = defaultdict(float)
        self.stage = "start"
        self._cancel_after = cancel_after

    def __call__(self, progress: Progress) -> None:
        now = time.perf_counter()
        self.seconds[self.stage] += now - self._last
        if now - self._last > self.longest_silence:
            self.longest_silence, self.silent_in = now - self._last, self.stage
        self.silences[self.stage] = max(self.silences[self.stage], now - self._last)
        worked = time.process_time()
        self.cpu_seconds[self.stage] += worked - self._worked
        self.stage, self._last, self._worked = progress.stage, now, worked
        self.reports += 1
        if self._cancel_after and now - self.started > self._cancel_after:
            raise Cancelled("The benchmark stopped its build.")

    @property
    def total(self) -> float:
        return time.perf_counter() - self.started


def fill(settings: Settings, entities: int, relations: int) -> None:
    """Write a corpus with the engine's own tools, past its job queue."""

    async def write() -> None:
        async with await LeanRAG.open(settings) as engine:
            documents = engine._stores.documents
            await documents.create_collection("default")
            data = corpus(entities, relations)
            for document, chunks, extracts in zip(data.documents, data.chunks, data.extracts, strict=True):
                await documents.put_all("default", [ReadDocument(document, chunks, extracts)])

    anyio.run(write)


async def ingested(engine: LeanRAG, passages: Path, count: int, stages: Stages) -> Stores:
    """Ingest the first passages of a question set, past the job queue."""
    stores = engine._stores
    await stores.documents.create_collection("default")
    stages(Progress("ingest"))
    sources = read_passages(passages, count)
    index = await PendingIndex.open(stores, "default")
    await ingest_all(stores, "default", IngestRequest(tuple(sources)), JobProgress(), index)
    return stores


async def measured(asked: argparse.Namespace, folder: Path) -> AsyncIterator[dict[str, object]]:
    """Build what is asked for and yield what it cost; then the same for the update."""
    embedder = asked.embedder or ("minilm" if asked.passages else "fitted")
    settings = Settings(data_dir=folder, clustering=asked.clustering, embedder=embedder)
    if not (asked.passages or (folder / "graph.sqlite3").exists()):
        # In a process of its own: its memory is not that of the build.
        filling = get_context("spawn").Process(target=fill, args=(settings, asked.entities, asked.relations))
        filling.start()
        filling.join()
    async with await LeanRAG.open(settings) as engine:
        if not await engine.collections():
            stages = Stages(asked.cancel_after)
            stores = await ingested(engine, asked.passages, asked.count, stages)
            yield await built(stores, stages, asked.cancel_after)
        elif not (await engine.collections())[0].generation:
            yield await built(engine._stores, Stages(asked.cancel_after), asked.cancel_after)
        if asked.update:
            stages = Stages(asked.cancel_after)
            yield await built(await added_to(engine, stages), stages, asked.cancel_after)


async def added_to(engine: LeanRAG, stages: Stages) -> Stores:
    """Ingest a small document about a few entities that exist and one that does not."""
    (collection,) = await engine.collections()
    found = (await engine.search_entities("harbour guild treatise", limit=3, layer=0)).found
    names = [each.entity.name for each in found]
    text = f"Nightingale Harbour is a harbour town. In 1899 {names[0]} founded it with {names[1]} and {names[2]}."
    stages(Progress("ingest"))
    source = DocumentSource(text=text, title=f"Note {collection.documents}", id=f"note{collection.documents}")
    index = await PendingIndex.open(engine._stores, "default")
    await ingest_all(engine._stores, "default", IngestRequest((source,)), JobProgress(), index)
    return engine._stores


async def built(stores: Stores, stages: Stages, cancel_after: float) -> dict[str, object]:
    before = peak_mb()
    try:
        generation = await build_generation(stores, "default", stages)
    except Cancelled:
        late = stages.total - cancel_after
        return {"cancelled_after": cancel_after, "seconds_too_late": round(late, 2), "stage": stages.stage}
    stages(Progress("end"))
    return {
        "mode": generation.record.history.mode,
        "seconds": round(stages.total, 1),
        "stages": {stage: round(seconds, 1) for stage, seconds in stages.seconds.items() if seconds >= 0.05},
        "cpu_seconds": round(sum(stages.cpu_seconds.values()), 1),
        "cpu_stages": {stage: round(each, 2) for stage, each in stages.cpu_seconds.items() if each >= 0.05},
        "reports": stages.reports,
        "longest_silence": round(stages.longest_silence, 1),
        "longest_silence_in": stages.silent_in,
        "silences": {stage: round(each, 1) for stage, each in stages.silences.items() if each >= 1},
        "peak_mb": peak_mb(),
        "peak_mb_before": before,
        "layers": [(each.entities, each.relations) for each in generation.layers],
        "embedded": generation.record.embedded.anew,
        "health": asdict(generation.record.health) if generation.record.health else None,
    }


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--relations", type=int, default=300_000)
    parser.add_argument("--clustering", choices=("gmm", "leiden"), default="gmm")
    parser.add_argument("--cancel-after", type=float, default=0.0)
    parser.add_argument("--passages", type=Path)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--embedder", default="")
    parser.add_argument("--update", action="store_true", help="then add a small document and build again")
    parser.add_argument("--folder", type=Path, help="keep the data here")
    asked = parser.parse_args()

    async def measure(folder: Path) -> None:
        async for figures in measured(asked, folder):
            print(json.dumps(figures), flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        anyio.run(measure, asked.folder or Path(scratch))


if __name__ == "__main__":
    main()
