"""What a change of one percent costs against a rebuild, with a chat model: calls, seconds, and written texts that stay.

Run it as ``python tests/programs/benchmarks/update.py QUESTIONS.json [--documents 2000] [--embedder minilm]``. The documents
are the passages of a question set. They are ingested and built with the tests' chat server as the model; then one percent
is added, changed and deleted, each followed by a build, and at the end the same documents are built from nothing.
Prints one JSON line for each step. Seconds hold for a quiet machine; ``cpu`` is the processor time of this process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from models import Service, ended, opening, service

from leanrag_engine.core.jobs import BuildRequest
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG

Written = dict[str, str]


def read_passages(path: Path, count: int) -> list[DocumentSource]:
    """Return the first passages of a question set, each as a document with an id of its own."""
    passages = json.loads(path.read_text(encoding="utf-8"))["passages"][:count]
    return [
        DocumentSource(text=each["text"], title=each["title"], id=f"p{number}")
        for number, each in enumerate(passages)
    ]


async def written_texts(engine: LeanRAG) -> Written:
    """Return the names and descriptions of the summaries that the model wrote, by both."""
    (collection,) = await engine.collections()
    generation = collection.generation
    assert generation is not None
    layers = [
        await engine._stores.generations.layer(generation.number, each.layer) for each in generation.layers
    ]
    clusters = [each for layer in layers[1:] for each in layer if each.method.written]
    return {each.name: each.description for each in clusters}


class Watch:
    """Measures steps and prints what each took."""

    def __init__(self, engine: LeanRAG, model: Service) -> None:
        self._engine = engine
        self._model = model

    async def change(
        self, name: str, sources: Sequence[DocumentSource] = (), gone: Sequence[str] = (), **order: Any
    ) -> None:
        """Ingest or delete, build, and print calls, seconds and the share of written texts that are left."""
        engine = self._engine
        before = await written_texts(engine) if name != "build" else {}
        called, started, worked = len(self._model.seen()), time.perf_counter(), time.process_time()
        if sources:
            await ended(engine, await engine.submit_ingest(sources, build=False))
        if gone:
            job, _ = await engine.submit_delete(gone)
            assert job is not None
            await ended(engine, job)
        job = await ended(engine, await engine.submit_build(order=BuildRequest(**order)))
        after = await written_texts(engine)
        figures = job.result.figures() if job.result else {}
        print(
            json.dumps(
                {
                    "step": name,
                    "calls": len(self._model.seen()) - called,
                    "seconds": round(time.perf_counter() - started, 1),
                    "cpu": round(time.process_time() - worked, 1),
                    "summaries": len(after),
                    "kept": round(sum(name in after for name in before) / len(before), 3) if before else None,
                    "same": round(
                        sum(after.get(name) == text for name, text in before.items()) / len(before), 3
                    )
                    if before
                    else None,
                    **{key: figures[key] for key in ("mode", "reason", "stale")},
                }
            ),
            flush=True,
        )


async def measure(options: argparse.Namespace) -> None:
    sources = read_passages(options.questions, options.documents)
    share = max(1, len(sources) // 100)
    first, added = sources[:-share], sources[-share:]
    changed = [replace(each, text=f"{each.text} It was much talked about later.") for each in first[:share]]
    gone = [each.id for each in first[share : 2 * share]]
    settings = {"embedder": options.embedder, "llm_concurrency": 8}
    with tempfile.TemporaryDirectory() as folder, service(0) as model:
        async with await opening(Path(folder) / "grown", model, **settings) as engine:
            watch = Watch(engine, model)
            await watch.change("build", first)
            await watch.change("add 1 %", added)
            await watch.change("change 1 %", changed)
            await watch.change("delete 1 %", gone=gone)
        left = {each.id: each for each in (*sources, *changed) if each.id not in gone}
        async with await opening(Path(folder) / "anew", model, **settings) as engine:
            await Watch(engine, model).change("build", list(left.values()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", type=Path, help="a question set with passages")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--embedder", default="minilm")
    anyio.run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
