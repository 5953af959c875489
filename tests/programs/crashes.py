"""Kill a writer with SIGKILL at random moments, over and over on one data folder, and count what is lost.

    python tests/programs/crashes.py [--kills 200] [--seed 0] [--data-dir FOLDER]

Each round starts a process that first resumes what was interrupted, then ingests, changes, deletes, builds or reindexes; it
is killed at a random moment of that. A second process then looks, without mending anything: every document that was
reported as stored is there with its text, none that was reported as deleted, the published layers are whole, and a
query finds a word that only one document has. At the end a last process resumes what is left and builds once: the documents
are those that were asked for, the graph is that of a new collection with the same documents, every vector is that of
its text, and no warning is left. Prints one JSON line; exit code 1 if anything failed.

Processes are forked from one that has loaded the libraries and opened nothing: loading takes longer than the work.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

# Here, as each process would need as long for them.
import alembic.command  # noqa: F401
import anyio
import numpy as np

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.jobs import BuildRequest
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.hierarchy.invariants import check_hierarchy
from leanrag_engine.pipeline.build import generation  # noqa: F401
from leanrag_engine.pipeline.index import read_hierarchy, read_indexed_texts, restore_embedder
from leanrag_engine.pipeline.ingest.run import absolute_source  # noqa: F401
from leanrag_engine.retrieval.request import Query

PEOPLE = ("Ewan Reid", "Moira Kerr", "Calum Boyd", "Isla Grant", "Rory Shaw", "Ailsa Munro", "Fergus Hay")
PLACES = ("Skerry", "Tiree", "Arbroath", "Oban", "Islay")
DOCUMENTS = 30
IN_A_ROW = 2
"""Kills before a round is left in peace: a job that crashes three times without progress is given up, and says so."""


@dataclass(slots=True)
class Expected:
    """What the folder should hold: the version of each document, 0 for one that was deleted."""

    stored: dict[int, int] = field(default_factory=dict)
    """Reported as done."""
    asked: dict[int, int] = field(default_factory=dict)
    """Accepted as a job, perhaps not yet done."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: the documents that it writes (number to version) or deletes (to 0), or none."""

    kind: str
    versions: dict[int, int] = field(default_factory=dict)
    build: bool = True


def word_of(number: int, version: int) -> str:
    """Return a word that only this version of this document has."""
    return f"Zq{number}v{version}x"


def text_of(number: int, version: int) -> str:
    person, other, place = PEOPLE[number % 7], PEOPLE[(3 * number + version) % 7], PLACES[number % 5]
    return (
        f"{person} of {place} wrote to {other} about {word_of(number, version)}. "
        f"The {place} Lighthouse was built by {person}. {other} answered from {PLACES[version % 5]}."
    )


def choose_step(chance: random.Random, expected: Expected, version: int) -> Step:
    kind = chance.choices(("put", "put", "delete", "build", "reindex"), weights=(4, 2, 2, 2, 1))[0]
    held = [number for number, kept in expected.asked.items() if kept]
    if kind == "delete" and len(held) > DOCUMENTS // 2:
        return Step("delete", dict.fromkeys(chance.sample(held, 2), 0))
    if kind in ("build", "reindex") and held:
        return Step(kind)
    numbers = chance.sample(range(DOCUMENTS), chance.randint(1, 4))
    return Step("put", dict.fromkeys(numbers, version), build=chance.random() < 0.7)


def settings_of(folder: Path) -> Settings:
    return load_settings(data_dir=folder, cluster_size=5, embedder="fitted")


# --- processes -----------------------------------------------------------------------------


@contextmanager
def fork(work: Callable[[Callable[[Any], None]], Awaitable[None]]) -> Iterator[tuple[int, int]]:
    """Run ``work`` in a copy of this process; yield its id and a descriptor from which its lines are read."""
    reading, writing = os.pipe()

    def say(line: Any) -> None:
        os.write(writing, json.dumps(line).encode() + b"\n")

    child = os.fork()
    if not child:
        code = 0
        try:
            os.close(reading)
            anyio.run(work, say)
        except BaseException:  # noqa: BLE001 - a copy must never return into its parent's loop
            say({"failed": traceback.format_exc()[-300:]})
            code = 1
        os._exit(code)
    os.close(writing)
    try:
        yield child, reading
    finally:
        os.close(reading)
        os.waitpid(child, 0)


def read_lines(reading: int) -> list[Any]:
    """Read until the process has ended. A line that it was killed in does not count."""
    said = b""
    while part := os.read(reading, 1 << 16):
        said += part
    return [json.loads(line) for line in said.split(b"\n")[:-1]]


def run(work: Callable[[Callable[[Any], None]], Awaitable[None]]) -> list[Any]:
    with fork(work) as (_, reading):
        return read_lines(reading)


# --- what they do --------------------------------------------------------------------------


async def finish(engine: LeanRAG, job_id: str) -> str:
    while not (state := await engine.job_state(job_id, wait_seconds=5)).status.finished:
        pass
    return f"{state.status.value}: {state.message}" if state.status.value != "done" else "done"


async def submit(engine: LeanRAG, step: Step) -> str | None:
    if step.kind == "put":
        sources = [
            DocumentSource(text=text_of(number, version), title=f"Note {number}", id=f"n{number}")
            for number, version in step.versions.items()
        ]
        return (await engine.submit_ingest(sources, build=step.build)).id
    if step.kind == "delete":
        job, _ = await engine.submit_delete([f"n{number}" for number in step.versions])
        return job.id if job else None
    if step.kind == "reindex":
        return (await engine.submit_reindex()).id
    return (await engine.submit_build(order=BuildRequest(mode="auto"))).id


def write(folder: Path, step: Step) -> Callable[[Callable[[Any], None]], Awaitable[None]]:
    async def work(say: Callable[[Any], None]) -> None:
        async with await LeanRAG.open(settings_of(folder)) as engine:
            for job in await engine.resume_jobs():
                say({"resumed": await finish(engine, job.id)})
            say({"settled": True})
            job_id = await submit(engine, step)
            say({"asked": True})
            if job_id:
                say({"done": await finish(engine, job_id)})

    return work


def look(
    folder: Path, expected: Expected, chance: random.Random
) -> Callable[[Callable[[Any], None]], Awaitable[None]]:
    """Check what is there while nothing is mended."""

    async def work(say: Callable[[Any], None]) -> None:
        async with await LeanRAG.open(replace_read_only(settings_of(folder))) as engine:
            texts = await read_texts(engine)
            for number, version in expected.stored.items():
                allowed = {version, expected.asked[number]}
                if texts.get(number) not in [text_of(number, one) if one else None for one in allowed]:
                    say(
                        {"lost": f"document {number}: asked for {sorted(allowed)}, found {texts.get(number)}"}
                    )
            held = [number for number in texts if expected.stored.get(number)]
            if held:
                number = chance.choice(held)
                word = next((one for one in texts[number].split() if one.startswith("Zq")), "").strip(".")
                reply = await engine.query(Query(f"Who wrote about {word}?"))
                if word not in reply.context.text:
                    say({"lost": f"document {number} is stored, and no query finds {word}"})
                if degraded := [each for each in reply.warnings if "by meaning" in each]:
                    say({"degraded": degraded})
            [collection] = await engine.collections()
            if build := collection.generation:
                layers = await read_hierarchy(engine._stores, build)
                assert build.record.health is not None
                check_hierarchy(layers, build.record.health.cluster_cap)

    return work


def replace_read_only(settings: Settings) -> Settings:
    return settings.model_copy(update={"read_only": True})


async def read_texts(engine: LeanRAG) -> dict[int, str]:
    found = {}
    for document in await engine.documents():
        page = await engine.sources(document=document.id)
        found[int(document.id[1:])] = "".join(chunk.text for chunk in page.chunks)
    return found


async def read_base(engine: LeanRAG) -> list[tuple[str, int]]:
    """Return names and mentions of the entities of G0: ids of chunks differ from those of a new collection."""
    [collection] = await engine.collections()
    assert collection.generation is not None
    hierarchy = await read_hierarchy(engine._stores, collection.generation)
    return sorted((each.name, each.mentions) for each in hierarchy.layers[0].entities)


def settle(folder: Path, expected: Expected) -> Callable[[Callable[[Any], None]], Awaitable[None]]:
    """Resume and build once, then compare with a new collection."""

    async def work(say: Callable[[Any], None]) -> None:
        async with await LeanRAG.open(settings_of(folder)) as engine:
            for job in await engine.resume_jobs():
                say({"resumed": await finish(engine, job.id)})
            say({"built": await finish(engine, (await engine.submit_build()).id)})
            texts = await read_texts(engine)
            wanted = {
                number: text_of(number, version) for number, version in expected.asked.items() if version
            }
            if texts != wanted:
                say({"lost": f"documents {sorted(texts.items() ^ wanted.items())}"})
            status = await engine.status()
            if warnings := [each for each in status.warnings if "without a language model" not in each]:
                say({"manual": warnings})
            stores, build = engine._stores, status.collection.generation
            assert build is not None
            embedder = await restore_embedder(stores, build)
            layers = await read_hierarchy(stores, build)
            for space, rows in (await read_indexed_texts(stores, build, layers)).items():
                if not rows:
                    continue
                vectors = await stores.vectors.fetch(space, [id_ for id_, _ in rows])
                fresh = await embedder.embed([text for _, text in rows])
                if vectors.keys() != {id_ for id_, _ in rows}:
                    say({"vectors": f"{space} lacks {len(rows) - len(vectors)} of {len(rows)} rows"})
                elif not np.allclose(np.stack([vectors[id_] for id_, _ in rows]), fresh, atol=1e-5):
                    say({"vectors": f"{space} holds a vector of another text"})
            kept = await read_base(engine)
        async with await LeanRAG.open(settings_of(folder / "anew")) as engine:
            sources = [
                DocumentSource(text=texts[number], title=f"Note {number}", id=f"n{number}")
                for number in texts
            ]
            await finish(engine, (await engine.submit_ingest(sources)).id)
            anew = await read_base(engine)
        if kept != anew:
            say({"graph": f"{len(kept)} entities, anew {len(anew)}"})

    return work


# --- rounds --------------------------------------------------------------------------------


class Crashes:
    """The rounds on one folder, what should be in it, and what went wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.expected = Expected()
        self.counts = Counter[str]()
        self.failures: list[str] = []
        self.reasons: dict[str, None] = {}
        self.seconds: list[float] = []
        self.in_a_row = 0

    def do_round(self) -> None:
        """Start a step, kill it in most rounds, and look at what is there."""
        self.counts["rounds"] += 1
        step = choose_step(self.chance, self.expected, version=self.counts["rounds"])
        # The first rounds tell how long a round takes.
        peaceful = self.in_a_row >= IN_A_ROW or len(self.seconds) < 3
        started = time.monotonic()
        with fork(write(self.folder, step)) as (child, reading):
            if not peaceful:
                time.sleep(self.chance.uniform(0, 1.3 * median(self.seconds[-20:])))
                os.kill(child, signal.SIGKILL)
            said = read_lines(reading)
        if peaceful:
            self.seconds.append(time.monotonic() - started)
        self.note(step, said)
        for line in run(look(self.folder, self.expected, self.chance)):
            self.counts["degraded replies"] += "degraded" in line
            self.reasons |= dict.fromkeys(line.get("degraded", ()))
            self.failures += [json.dumps(line)] * ("degraded" not in line)

    def note(self, step: Step, said: Sequence[Any]) -> None:
        """Note what a writer has reported before it ended."""
        keys = {key for line in said for key in line}
        self.failures += [json.dumps(line) for line in said if "failed" in line]
        ends = [line["done"] for line in said if "done" in line]
        # A first build may have been killed: then there is nothing to reindex.
        refused = step.kind == "reindex" and "was never built" in "".join(ends)
        self.failures += [f"job ended {end}" for end in ends if end != "done" and not refused]
        killed = "done" not in keys and "failed" not in keys
        self.in_a_row = self.in_a_row + 1 if killed else 0
        if killed:
            self.counts["kills"] += 1
            self.counts[f"killed in {step.kind if 'settled' in keys else 'opening or resuming'}"] += 1
        if "settled" in keys:
            self.expected.stored |= self.expected.asked
        # A step may have been accepted just before the kill: then the next process resumes it.
        if "asked" in keys or ("settled" in keys and is_unfinished(self.folder)):
            self.expected.asked |= step.versions
        if ends == ["done"]:
            self.expected.stored |= self.expected.asked

    def end(self) -> dict[str, Any]:
        """Settle, and return the figures."""
        manual = 0
        for line in run(settle(self.folder, self.expected)):
            manual += "manual" in line
            if "resumed" not in line and line != {"built": "done"}:
                self.failures.append(json.dumps(line))
        first = [each[-260:] for each in dict.fromkeys(self.failures)][:8]
        figures = {"failures": len(self.failures), "manual steps": manual}
        return {**self.counts, **figures, "why degraded": [*self.reasons][:5], "first": first}


def is_unfinished(folder: Path) -> bool:
    """Return whether a job waits to be resumed."""

    async def work(say: Callable[[Any], None]) -> None:
        async with await LeanRAG.open(replace_read_only(settings_of(folder))) as engine:
            say([job.status.finished for job in (await engine.status()).jobs])

    return not all(run(work)[0])


def main(kills: int, seed: int, folder: Path) -> dict[str, Any]:
    """Do rounds until so many were killed, and return the figures."""
    crashes = Crashes(folder, seed)
    while crashes.counts["kills"] < kills:
        crashes.do_round()
    return {"seed": seed, **crashes.end()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    figures = main(given.kills, given.seed, given.data_dir or Path(tempfile.mkdtemp()))
    print(json.dumps(figures))
    sys.exit(bool(figures["failures"]))
