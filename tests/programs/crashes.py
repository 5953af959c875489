"""Kill a writer with SIGKILL at random moments and at its commits, over and over on one data folder, and count what is lost.

    python tests/programs/crashes.py [--kills 200] [--seed 0] [--data-dir FOLDER] [--database-url postgresql://…]

Each round starts a process that first resumes what was interrupted, then ingests, syncs a folder, imports notes, deletes, builds,
rolls back, reindexes, copies or deletes a collection, submits extractions, or corrects the graph. It is killed at a random moment of that,
or just before or after a random one of its commits. A second process then looks, without mending anything: every document that was
reported as stored is there with its text, none that was reported as deleted, of an import all or nothing, so are extractions, corrections and the copy, the
published layers are whole, and a query finds a word that only one document has. At the end a last process resumes what is left,
takes the corrections back and builds once: the documents are those that were asked for, the graph is that of a new collection with the
same documents and extractions, every vector is that of its text, and no warning is left. Prints one JSON line; exit code 1 if
anything failed.

With --database-url, that of an empty PostgreSQL database, it takes the place of the SQLite file.
Processes are forked from one that has loaded the libraries and opened nothing: loading takes longer than the work.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

# Here, as each process would need as long for them.
import alembic.command  # noqa: F401
import anyio
import numpy as np
from sqlalchemy import Connection, Engine, Pool, event

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.core.jobs import BuildRequest, Job
from leanrag_engine.core.model import Collection, DocumentSource, Generation
from leanrag_engine.engine import LeanRAG
from leanrag_engine.hierarchy.health import check_hierarchy
from leanrag_engine.pipeline.building import generation  # noqa: F401
from leanrag_engine.pipeline.index import read_hierarchy, read_indexed_texts, restore_embedder
from leanrag_engine.pipeline.ingest.run import absolute_source  # noqa: F401
from leanrag_engine.pipeline.repair import wrap_embedder
from leanrag_engine.retrieval.request import Query

PEOPLE = ("Ewan Reid", "Moira Kerr", "Calum Boyd", "Isla Grant", "Rory Shaw", "Ailsa Munro", "Fergus Hay")
PLACES = ("Skerry", "Tiree", "Arbroath", "Oban", "Islay")
DOCUMENTS = 30
FILES = range(100, 108)
"""The numbers of the documents that are files of the folder to be synced."""
NOTES = range(200, 204)
"""The numbers of the documents that are notes of a vault to be imported."""
COPY = "copy"
"""The collection into which the default one is copied."""
MOST_CORRECTIONS = 3
ENOUGH_FAILURES = 20
"""The rounds end with them."""
IN_A_ROW = 2
"""Kills before a round is left in peace: a job that crashes three times without progress is given up, and says so."""


@dataclass(slots=True)
class Expected:
    """What the folder should hold: the version of each document, 0 for one that was deleted."""

    stored: dict[int, int] = field(default_factory=dict)
    """Reported as done."""
    asked: dict[int, int] = field(default_factory=dict)
    """Accepted as a job, perhaps not yet done."""
    extracted: set[tuple[int, int]] = field(default_factory=set)
    """Documents and versions of them for which extractions were reported as stored."""
    corrections: set[str] = field(default_factory=set)
    """The refs of corrections that were reported as stored."""
    copied: dict[int, int] | None = None
    """The versions in the copy when it was reported as done; None: there is none, or it was reported as deleted."""
    asked_copy: dict[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: the documents that it writes (number to version) or deletes (to 0), or none.

    ``commit``: the number of the commit at which the process kills itself, and whether after it.
    """

    kind: str
    versions: dict[int, int] = field(default_factory=dict)
    build: bool = True
    commit: tuple[int, bool] | None = None


def word_of(number: int, version: int) -> str:
    """Return a word that only this version of this document has."""
    return f"Zq{number}v{version}x"


def text_of(number: int, version: int) -> str:
    person, other, place = PEOPLE[number % 7], PEOPLE[(3 * number + version) % 7], PLACES[number % 5]
    link = f" See [[n{NOTES[(number + version) % len(NOTES)]}]]." if number in NOTES else ""
    return (
        f"{person} of {place} wrote to {other} about {word_of(number, version)}. "
        f"The {place} Lighthouse was built by {person}. {other} answered from {PLACES[version % 5]}.{link}"
    )


def name_of(number: int, version: int) -> str:
    """Return the name of an entity that only an extraction from this version of this document has."""
    return f"Xq{number}v{version}x"


QUICK = ("extract", "correct")
"""Kinds of steps with a few commits, after those of opening and resuming."""
KINDS = {
    "put": 6, "sync": 3, "import": 2, "delete": 2, "build": 2, "reindex": 1, "rollback": 2, "extract": 2, "correct": 2, "copy": 1,
}  # fmt: skip
"""How often each kind of step is chosen."""


def choose_step(chance: random.Random, expected: Expected, version: int) -> Step:
    (kind,) = chance.choices([*KINDS], weights=[*KINDS.values()])
    held = [number for number, kept in expected.asked.items() if kept]
    notes = [number for number in held if number not in FILES and number not in NOTES]
    build = chance.random() < 0.7
    if kind == "sync":
        kept = {number: expected.asked.get(number, 0) for number in FILES}
        return Step(
            "sync", kept | dict.fromkeys(chance.sample(FILES, 3), chance.choice((0, version, version))), build
        )
    if kind == "import":
        kept = {number: expected.asked.get(number) or version for number in NOTES}
        return Step("import", kept | dict.fromkeys(chance.sample(NOTES, 2), version), build)
    if kind == "delete" and len(notes) > DOCUMENTS // 2:
        return Step("delete", dict.fromkeys(chance.sample(notes, 2), 0))
    if kind == "copy":
        return Step("copy" if expected.asked_copy is None else "drop")
    if kind not in ("put", "delete") and held:
        return Step(kind)
    numbers = chance.sample(range(DOCUMENTS), chance.randint(1, 4))
    return Step("put", dict.fromkeys(numbers, version), build)


def settings_of(folder: Path, database: str = "") -> Settings:
    return load_settings(data_dir=folder, cluster_size=5, embedder="fitted", database_url=database)


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


async def begin(engine: LeanRAG, step: Step, say: Callable[[Any], None]) -> Job | None:
    """Do what the step says, or return the job that does."""
    if step.kind == "extract":
        say({"extracted": await extract(engine, limit=3)})
        return None
    if step.kind == "correct":
        await correct(engine, say)
        return None
    return await submit(engine, step)


async def submit(engine: LeanRAG, step: Step) -> Job | None:
    """Return the job of a step; None if there is nothing to do."""
    job: Job | None = None
    match step.kind:
        case "put":
            job = await engine.submit_ingest(notes_of(step.versions), build=step.build)
        case "sync":
            folder = sources_of(engine) / "files"
            write_files(folder, step.versions)
            job = await engine.submit_ingest(
                [DocumentSource(path=str(folder))],
                build=step.build,
                allowed=None,
                sync=True,
                allow_empty=True,
            )
        case "import":
            vault = sources_of(engine) / "vault"
            write_files(vault, step.versions)
            job = await engine.submit_import("obsidian", str(vault), build=step.build, allowed=None)
        case "delete":
            job, _ = await engine.submit_delete([f"n{number}" for number in step.versions])
        case "reindex":
            job = await engine.submit_reindex()
        case "copy":
            job = await engine.submit_copy(COPY)
        case "drop":
            job = await engine.submit_delete_collection(COPY)
        case "rollback":
            for earlier in (await engine._stores.generations.find_all("default"))[1:2]:
                job = await engine.submit_rollback(earlier.number)
        case _:
            job = await engine.submit_build(order=BuildRequest(mode="auto"))
    return job


def sources_of(engine: LeanRAG) -> Path:
    """Return where files are written that are read: elsewhere if the disk of the data folder is to be full."""
    return Path(os.environ.get("CRASHES_SOURCES", engine.settings.data_dir))


def notes_of(versions: dict[int, int]) -> list[DocumentSource]:
    return [
        DocumentSource(text=text_of(number, version), title=f"Note {number}", id=f"n{number}")
        for number, version in versions.items()
    ]


def write_files(folder: Path, versions: dict[int, int]) -> None:
    """Make the folder hold these versions of its files."""
    folder.mkdir(exist_ok=True)
    for number, version in versions.items():
        file = folder / f"n{number}.md"
        if version:
            file.write_text(text_of(number, version), encoding="utf-8")
        else:
            file.unlink(missing_ok=True)


async def extract(
    engine: LeanRAG, limit: int, wanted: Callable[[tuple[int, int]], bool] = lambda _: True
) -> list[tuple[int, int]]:
    """Submit an extraction from each of some ``wanted`` documents, and return their numbers and versions."""
    items = (await engine.pending_work("extraction", limit)).items
    found = {item.work_id: find_version(item.text) for item in items}
    extractions = [
        {
            "work_id": work_id,
            "entities": [
                {"name": name, "type": "person", "description": f"{name} wrote the letter."}
                for name in (name_of(*which), PEOPLE[which[0] % 7])
            ],
            "relations": [],
        }
        for work_id, which in found.items()
        if wanted(which)
    ]
    if not extractions:
        return []
    done = await engine.submit_extractions(extractions)
    return [found[work_id] for work_id in done.accepted]


def find_version(text: str) -> tuple[int, int]:
    """Return the number and version of the document that holds ``text``."""
    number, version = re.findall(r"Zq(\d+)v(\d+)x", text)[0]
    return int(number), int(version)


async def correct(engine: LeanRAG, say: Callable[[Any], None]) -> None:
    """Merge two people, or take a correction back if there are enough."""
    if len(held := await engine.corrections()) >= MOST_CORRECTIONS:
        say({"undoing": held[0].ref})
        await engine.undo_correction(held[0].ref)
        return
    try:
        say({"corrected": (await engine.merge_entities(random.sample(PEOPLE, 2))).ref})
    except LeanRAGError as problem:  # nothing is built, or they are one already
        say({"refused": str(problem)})


def kill_at_commit(number: int, *, after: bool) -> None:
    """Let this process kill itself just before or after its commit of that number."""
    commits = count(1)
    due = False

    def note(_: Connection) -> None:
        nonlocal due
        if next(commits) == number:
            due = after or os.kill(os.getpid(), signal.SIGKILL) is None

    def end(*_: Any) -> None:
        if due:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "commit", note)
    event.listen(Pool, "checkin", end)


def write(settings: Settings, step: Step) -> Callable[[Callable[[Any], None]], Awaitable[None]]:
    async def work(say: Callable[[Any], None]) -> None:
        commits = count()
        event.listen(Engine, "commit", lambda _: next(commits))
        if step.commit and step.kind not in QUICK:
            kill_at_commit(step.commit[0], after=step.commit[1])
        async with await LeanRAG.open(settings) as engine:
            for job in await engine.resume_jobs():
                say({"resumed": await finish(engine, job.id)})
            say({"settled": True})
            if step.commit and step.kind in QUICK:
                kill_at_commit(step.commit[0], after=step.commit[1])
            job = await begin(engine, step, say)
            say({"asked": True})
            say({"done": await finish(engine, job.id) if job else "done"})
        say({"commits": next(commits)})

    return work


def look(
    settings: Settings, expected: Expected, chance: random.Random
) -> Callable[[Callable[[Any], None]], Awaitable[None]]:
    """Check what is there while nothing is mended."""

    async def work(say: Callable[[Any], None]) -> None:
        async with await LeanRAG.open(replace_read_only(settings)) as engine:
            texts = await read_texts(engine)
            for number, version in expected.stored.items():
                allowed = {version, expected.asked[number]}
                if texts.get(number) not in [text_of(number, one) if one else None for one in allowed]:
                    say(
                        {"lost": f"document {number}: asked for {sorted(allowed)}, found {texts.get(number)}"}
                    )
            imported = {number: text for number, text in texts.items() if number in NOTES}
            whole = [wanted_texts(each) for each in (expected.stored, expected.asked)]
            if imported not in [{n: each[n] for n in NOTES if n in each} for each in whole]:
                say({"lost": f"half an import: {sorted(imported)}"})
            held = [number for number in texts if expected.stored.get(number)]
            if held:
                number = chance.choice(held)
                word = next((one for one in texts[number].split() if one.startswith("Zq")), "").strip(".")
                reply = await engine.query(Query(f"Who wrote about {word}?"))
                if word not in reply.context.text:
                    say({"lost": f"document {number} is stored, and no query finds {word}"})
                if degraded := [each for each in reply.warnings if "by meaning" in each]:
                    say({"degraded": degraded})
            await look_beside(engine, expected, texts, say)
            if build := (await default_of(engine)).generation:
                layers = await read_hierarchy(engine._stores, build)
                assert build.record.health is not None
                check_hierarchy(layers, build.record.health.cluster_cap)

    return work


async def look_beside(
    engine: LeanRAG, expected: Expected, texts: dict[int, str], say: Callable[[Any], None]
) -> None:
    """Check extractions, corrections and the copy."""
    held = await read_extracted(engine)
    for number, version in expected.extracted - held:
        if texts.get(number) == text_of(number, version):
            say({"lost": f"the extraction from document {number}, version {version}"})
    refs = {each.ref for each in await engine.corrections()}
    if lost := expected.corrections - refs:
        say({"lost": f"the corrections {sorted(lost)}"})
    names = {each.name for each in await engine.collections()}
    copied = await read_texts(engine, COPY) if COPY in names else None
    allowed = [each and wanted_texts(each) for each in (expected.copied, expected.asked_copy)]
    if copied not in allowed:
        say(
            {
                "lost": f"the copy has {copied and sorted(copied)}, expected were {[each and sorted(each) for each in allowed]}"
            }
        )


async def read_extracted(engine: LeanRAG) -> set[tuple[int, int]]:
    """Return the documents and versions with an agent's extraction."""
    names = {each.name for one in await engine._stores.documents.extracts("default") for each in one.entities}
    found = (re.fullmatch(r"Xq(\d+)v(\d+)x", name) for name in names)
    return {(int(each[1]), int(each[2])) for each in found if each}


def wanted_texts(versions: dict[int, int]) -> dict[int, str]:
    return {number: text_of(number, version) for number, version in versions.items() if version}


async def default_of(engine: LeanRAG) -> Collection:
    return next(each for each in await engine.collections() if each.name == "default")


def replace_read_only(settings: Settings) -> Settings:
    return settings.model_copy(update={"read_only": True})


async def read_texts(engine: LeanRAG, collection: str = "default") -> dict[int, str]:
    found = {}
    for document in await engine.documents(collection=collection):
        page = await engine.sources(document=document.id, collection=collection)
        found[int(Path(document.id).stem[1:])] = "".join(chunk.text for chunk in page.chunks)
    return found


async def read_base(engine: LeanRAG) -> list[tuple[str, int]]:
    """Return names and mentions of the entities of G0: ids of chunks differ from those of a new collection."""
    build = (await default_of(engine)).generation
    assert build is not None
    hierarchy = await read_hierarchy(engine._stores, build)
    return sorted((each.name, each.mentions) for each in hierarchy.layers[0].entities)


async def build_anew(
    folder: Path, texts: Sequence[str], extracted: set[tuple[int, int]]
) -> list[tuple[str, int]]:
    """Return what ``read_base`` gives of a new collection with these documents and extractions."""
    versions = dict(map(find_version, texts))
    files = {number: versions.pop(number) for number in FILES if number in versions}
    notes = {number: versions.pop(number) for number in NOTES if number in versions}
    folder.mkdir()
    write_files(folder / "files", files)
    write_files(folder / "vault", notes)
    sources = [*notes_of(versions), *([DocumentSource(path=str(folder / "files"))] if files else [])]
    async with await LeanRAG.open(settings_of(folder)) as engine:
        await finish(engine, (await engine.submit_ingest(sources, build=False, allowed=None)).id)
        if notes:
            vault = str(folder / "vault")
            await finish(
                engine, (await engine.submit_import("obsidian", vault, build=False, allowed=None)).id
            )
        await extract(engine, limit=1000, wanted=extracted.__contains__)
        await finish(engine, (await engine.submit_build()).id)
        return await read_base(engine)


async def check_vectors(engine: LeanRAG, build: Generation, say: Callable[[Any], None]) -> None:
    """Compare every vector with that of its text."""
    stores = engine._stores
    texts = await read_indexed_texts(stores, build)
    embedder = wrap_embedder(stores, build, await restore_embedder(stores, build), texts)
    for space, rows in texts.items():
        if not rows:
            continue
        vectors = await stores.vectors.fetch(space, [id_ for id_, _ in rows])
        fresh = await embedder.embed([text for _, text in rows])
        if vectors.keys() != {id_ for id_, _ in rows}:
            say({"vectors": f"{space} lacks {len(rows) - len(vectors)} of {len(rows)} rows"})
        elif not np.allclose(np.stack([vectors[id_] for id_, _ in rows]), fresh, atol=1e-5):
            say({"vectors": f"{space} holds a vector of another text"})


def settle(settings: Settings, expected: Expected) -> Callable[[Callable[[Any], None]], Awaitable[None]]:
    """Resume and build once, then compare with a new collection."""

    async def work(say: Callable[[Any], None]) -> None:
        async with await LeanRAG.open(settings) as engine:
            for job in await engine.resume_jobs():
                say({"resumed": await finish(engine, job.id)})
            for correction in await engine.corrections():
                await engine.undo_correction(correction.ref)
            say({"built": await finish(engine, (await engine.submit_build()).id)})
            texts = await read_texts(engine)
            wanted = wanted_texts(expected.asked)
            if texts != wanted:
                say({"lost": f"documents {sorted(texts.items() ^ wanted.items())}"})
            status = await engine.status()
            if warnings := [each for each in status.warnings if "without a language model" not in each]:
                say({"manual": warnings})
            assert status.collection.generation is not None
            await check_vectors(engine, status.collection.generation, say)
            kept, extracted = await read_base(engine), await read_extracted(engine)
        anew = await build_anew(settings.data_dir / "anew", [*texts.values()], extracted)
        if kept != anew:
            say({"graph": f"{len(kept)} entities, anew {len(anew)}"})

    return work


# --- rounds --------------------------------------------------------------------------------


class Crashes:
    """The rounds on one folder, what should be in it, and what went wrong."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings = settings
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.expected = Expected()
        self.counts = Counter[str]()
        self.failures: list[str] = []
        self.reasons: dict[str, None] = {}
        self.seconds: list[float] = []
        self.commits: list[int] = []
        self.in_a_row = 0

    def do_round(self) -> None:
        """Start a step, kill it in most rounds, and look at what is there."""
        self.counts["rounds"] += 1
        step = choose_step(self.chance, self.expected, version=self.counts["rounds"])
        # The first rounds tell how long a round takes.
        peaceful = self.in_a_row >= IN_A_ROW or len(self.commits) < 3
        at_commit = not peaceful and self.chance.random() < 0.5
        if at_commit:
            number = self.chance.randint(
                1, 2 if step.kind in QUICK else round(1.2 * median(self.commits[-20:]))
            )
            step = replace(step, commit=(number, self.chance.random() < 0.5))
        started = time.monotonic()
        with fork(write(self.settings, step)) as (child, reading):
            if not peaceful and not at_commit:
                time.sleep(self.chance.uniform(0, 1.3 * median(self.seconds[-20:])))
                os.kill(child, signal.SIGKILL)
            said = read_lines(reading)
        if peaceful:
            self.seconds.append(time.monotonic() - started)
        self.note(step, said)
        for line in run(look(self.settings, self.expected, self.chance)):
            self.counts["degraded replies"] += "degraded" in line
            self.reasons |= dict.fromkeys(line.get("degraded", ()))
            self.failures += [json.dumps(line)] * ("degraded" not in line)

    def note(self, step: Step, said: Sequence[Any]) -> None:
        """Note what a writer has reported before it ended."""
        keys = {key for line in said for key in line}
        self.failures += [json.dumps(line) for line in said if "failed" in line]
        self.commits += [line["commits"] for line in said if "commits" in line]
        ends = [line["done"] for line in said if "done" in line]
        every = [*ends, *(line["resumed"] for line in said if "resumed" in line)]
        # A first build may have been killed: then there is nothing to reindex.
        self.failures += [
            f"job ended {end}" for end in every if end != "done" and "was never built" not in end
        ]
        killed = "done" not in keys and "failed" not in keys
        self.in_a_row = self.in_a_row + 1 if killed else 0
        if killed:
            self.counts["kills"] += 1
            self.counts["at a commit"] += step.commit is not None
            self.counts[f"killed in {step.kind if 'settled' in keys else 'opening or resuming'}"] += 1
        expected = self.expected
        if "settled" in keys:
            expected.stored |= expected.asked
            expected.copied = expected.asked_copy
        # A step may have been accepted just before the kill: then the next process resumes it.
        if "asked" in keys or ("settled" in keys and is_unfinished(self.settings)):
            expected.asked |= step.versions
            if step.kind in ("copy", "drop"):
                expected.asked_copy = dict(expected.stored) if step.kind == "copy" else None
        if ends == ["done"]:
            expected.stored |= expected.asked
            expected.copied = expected.asked_copy
        for line in said:
            expected.extracted |= {(number, version) for number, version in line.get("extracted", ())}
            expected.corrections |= {line["corrected"]} if "corrected" in line else set()
            expected.corrections -= {line.get("undoing", "")}

    def end(self) -> dict[str, Any]:
        """Settle, and return the figures."""
        manual = 0
        for line in run(settle(self.settings, self.expected)):
            manual += "manual" in line
            if line not in ({"built": "done"}, {"resumed": "done"}):
                self.failures.append(json.dumps(line))
        first = [each[-260:] for each in dict.fromkeys(self.failures)][:8]
        figures = {"failures": len(self.failures), "manual steps": manual}
        return {**self.counts, **figures, "why degraded": [*self.reasons][:5], "first": first}


def is_unfinished(settings: Settings) -> bool:
    """Return whether a job waits to be resumed."""

    async def work(say: Callable[[Any], None]) -> None:
        async with await LeanRAG.open(replace_read_only(settings)) as engine:
            say(len(await engine._stores.jobs.find_unfinished()))

    return bool(run(work)[0])


def main(kills: int, seed: int, settings: Settings) -> dict[str, Any]:
    """Do rounds until so many were killed or failed, and return the figures."""
    crashes = Crashes(settings, seed)
    while crashes.counts["kills"] < kills and len(crashes.failures) < ENOUGH_FAILURES:
        crashes.do_round()
    return {"seed": seed, **crashes.end()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--database-url", default="")
    given = parser.parse_args()
    folder = given.data_dir or Path(tempfile.mkdtemp())
    figures = main(given.kills, given.seed, settings_of(folder, given.database_url))
    print(json.dumps(figures))
    sys.exit(bool(figures["failures"]))
