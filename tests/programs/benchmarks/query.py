"""What a query costs, and how that grows with the graph. Prints one JSON line for each size, and one with the growth.

Run it as ``python tests/programs/benchmarks/query.py [--entities 10000,100000] [--queries 50] [--keep FOLDER]``. The corpora
come from ``synthetic.py``, three relations to an entity, and go through the engine's own build, which for 100,000
entities takes minutes; ``--keep`` leaves them in a folder and takes them from there the next time. Nothing that is
printed contains the embedding of the query. ``--profile`` adds the functions that take the most time.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import anyio
from synthetic import Corpus, corpus

from leanrag_engine.adapters.wiring import compose
from leanrag_engine.core.config import Settings
from leanrag_engine.core.model import ReadDocument
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.metrics import percentile
from leanrag_engine.evaluation.scratch import Stopwatch, TimedEmbedderSource
from leanrag_engine.pipeline.building.generation import build_generation
from leanrag_engine.retrieval.request import Mode, Query, Ranking

WARM_UP = 5
BUDGET = 4000
RELATIONS = 3
"""For each entity."""

DIGITS = 2


@dataclass
class Calls:
    """Seconds between call and reply, by the name of the call."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    number: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Timed:
    """``inner``, a store, whose calls are timed."""

    def __init__(self, name: str, inner: object, calls: Calls) -> None:
        self._name = name
        self._inner = inner
        self._calls = calls

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._inner, method)
        return self._timed(f"{self._name}.{method}", found) if iscoroutinefunction(found) else found

    def _timed(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def timed(*given: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return await call(*given, **named)
            finally:
                self._calls.seconds[name] += time.perf_counter() - started
                self._calls.number[name] += 1

        return timed


@dataclass(frozen=True)
class Cost:
    """Of one query, in milliseconds; ``cpu`` is that of the whole process."""

    wall: float
    cpu: float


async def filled(settings: Settings, data: Corpus) -> float:
    """Write and build the corpus, unless the folder has it; the seconds that it took."""
    started = time.perf_counter()
    async with await LeanRAG.open(settings) as engine:
        stores = engine._stores
        held = await stores.documents.collection("default")
        if held is None or held.generation is None:
            if held is None:
                await stores.documents.create_collection("default")
            for document, chunks, extracts in zip(data.documents, data.chunks, data.extracts, strict=True):
                await stores.documents.put_all("default", [ReadDocument(document, chunks, extracts)])
            await build_generation(stores, "default", lambda _: None)
    return time.perf_counter() - started


async def asked(
    settings: Settings, questions: Sequence[str], profile: cProfile.Profile | None
) -> tuple[list[Cost], Calls]:
    adapters = await compose(settings)
    embedders, calls = TimedEmbedderSource(adapters.embedders), Calls()
    documents: Any = Timed("documents", adapters.documents, calls)
    generations: Any = Timed("generations", adapters.generations, calls)
    vectors: Any = Timed("vectors", adapters.vectors, calls)
    timed = replace(
        adapters, embedders=embedders, documents=documents, generations=generations, vectors=vectors
    )
    async with LeanRAG(settings, timed) as engine:
        for question in questions[:WARM_UP]:
            await cost_of(engine, question, embedders.watch)
        calls.seconds.clear()
        calls.number.clear()
        with profile or nullcontext():
            costs = [await cost_of(engine, question, embedders.watch) for question in questions[WARM_UP:]]
    return costs, calls


async def cost_of(engine: LeanRAG, question: str, watch: Stopwatch) -> Cost:
    query = Query(question, mode=Mode.LCA, ranking=Ranking.SPREAD, token_budget=BUDGET)
    watch.take()
    worked, started = time.process_time(), time.perf_counter()
    await engine.query(query)
    embedding = watch.take()
    wall, cpu = time.perf_counter() - started - embedding, time.process_time() - worked - embedding
    return Cost(1000 * wall, 1000 * cpu)


def figures_of(entities: int, build_s: float, costs: Sequence[Cost], calls: Calls) -> dict[str, object]:
    wall = [each.wall for each in costs]
    by_time = sorted(calls.seconds, key=lambda name: -calls.seconds[name])
    return {
        "entities": entities,
        "queries": len(costs),
        "p50_ms": round(percentile(wall, 50), DIGITS),
        "p95_ms": round(percentile(wall, 95), DIGITS),
        "cpu_ms": round(sum(each.cpu for each in costs) / len(costs), DIGITS),
        "calls_ms": {name: round(1000 * calls.seconds[name] / len(costs), DIGITS) for name in by_time},
        "calls": {name: round(calls.number[name] / len(costs), DIGITS) for name in by_time},
        "build_s": round(build_s, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load": round(os.getloadavg()[0], DIGITS),
    }


def measured(folder: Path, entities: int, queries: int, profiled: int) -> dict[str, object]:
    settings = Settings(data_dir=folder / f"entities-{entities}", embedder="fitted")
    data = corpus(entities, RELATIONS * entities)
    build_s = anyio.run(filled, settings, data)
    profile = cProfile.Profile() if profiled else None
    questions = data.queries[: WARM_UP + queries]
    del data
    costs, calls = anyio.run(asked, settings, questions, profile)
    if profile:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("cumulative").print_stats(profiled)
    return figures_of(entities, build_s, costs, calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", default="10000,100000")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--profile", type=int, default=0, metavar="LINES")
    given = parser.parse_args()
    sizes = [int(each) for each in given.entities.split(",")]
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as folder:
        found = []
        for size in sizes:
            found.append(measured(Path(folder), size, given.queries, given.profile))
            print(json.dumps(found[-1]), flush=True)
    first, last = (float(str(each["p50_ms"])) for each in (found[0], found[-1]))
    print(json.dumps({"entities": sizes, "p50_ratio": round(last / first, DIGITS)}))


if __name__ == "__main__":
    main()
