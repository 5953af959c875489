"""An update that is killed at any write leaves the old build or the new one, and a reader elsewhere sees no third.

LEANRAG_TESTS_EVERY_WRITE=1 kills before and after every write, not only at the most telling ones.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import anyio.to_thread
import pytest
from leanrag_tests_jobs import finish

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.graphs.graph import Hierarchy
from leanrag_engine.core.jobs import BuildRequest, BuildResult
from leanrag_engine.core.model import DocumentSource, Generation
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.index import Stores, read_hierarchy
from leanrag_engine.retrieval.request import Filters, Query

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are copies of one another"),
]

NAMES = ("Ewan Reid", "Moira Kerr", "Calum Boyd", "Isla Grant", "Rory Shaw", "Ailsa Munro", "Fergus Hay")
PLACES = ("Skerry", "Tiree", "Arbroath", "Oban", "Islay")
QUESTIONS = (
    Query("Who wrote to Moira Kerr of Tiree?"),
    Query("What burned down in Oban?"),
    # The passages of so few documents are fetched by their ids.
    Query("Who are Ewan Reid and Isla Grant?", filters=Filters(documents=("n0", "n2", "n3"))),
)


def note(number: int, more: str = "") -> DocumentSource:
    person, other, place = NAMES[number % 7], NAMES[(3 * number + 1) % 7], PLACES[number % 5]
    text = f"{person} of {place} wrote to {other}. The {place} Lighthouse was built by {person}. {more}"
    return DocumentSource(text=text, title=f"Note {number}", id=f"n{number}")


NOTES = [note(number) for number in range(10)]
CHANGED = [note(3, "The tower of Oban burned down."), note(10, "Hector Low saw it burn."), note(11)]

WRITER = """
import os, signal, sys
from pathlib import Path
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import anyio
# Here, as each copy of this process would need as long for them.
import alembic.command
if sys.argv[1:]:
    import json_repair, jsonschema, litellm, openai.resources.chat
from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.adapters.sql.dialect.transactions import Transactions
from leanrag_engine.adapters.sql.generations import publish as publishing
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import BuildRequest
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.building import generation

def say(line):
    print(line, flush=True)

async def update(folder):
    settings = load_settings(
        data_dir=folder, cluster_size=4, llm_model="openai/tiny" if sys.argv[1:] else "",
        llm_api_base="".join(sys.argv[1:]), llm_concurrency=1,
    )
    async with await LeanRAG.open(settings) as engine:
        job = await engine.submit_build(order=BuildRequest(mode="update"))
        say((await engine.job(job.id, 100)).status.value)

def watch(reach):
    '''Call reach with the name of each write: before it, in the middle of a publication, and after it.'''
    store, insert = Transactions.write, publishing._insert_all
    async def write(self, work, *args, **kwargs):
        name = "" if work.__module__.endswith(".jobs") else work.__name__
        reach("before", name)
        done = await store(self, work, *args, **kwargs)
        reach("after", name)
        return done
    def insert_all(connection, target, rows):
        insert(connection, target, rows)
        if target.name == "names":
            reach("in", "publish")
    Transactions.write, publishing._insert_all = write, insert_all
    for name in ("upsert", "delete", "drop"):
        setattr(ChromaVectorStore, name, watch_vectors(getattr(ChromaVectorStore, name), f"vectors.{name}", reach))

def watch_vectors(call, name, reach):
    async def watched(self, *args):
        reach("before", name)
        await call(self, *args)
        reach("after", name)
    return watched

def die_at(when, name, number):
    left = [int(number)]
    def reach(*place):
        left[0] -= place == (when, name)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return reach

def pause(*place):
    if place[1] in ("publish", "vectors.upsert", "vectors.delete", "vectors.drop"):
        say(" ".join(place))
        sys.stdin.readline()

def begin(folder, task, *place):
    if task == "list":
        watch(lambda when, name: say(f"{when} {name}") if name else None)
    else:
        watch(die_at(*place) if task == "die" else pause)
    anyio.run(update, Path(folder))

# Not by iteration, which would read ahead what a copy is to read.
while line := sys.stdin.readline():
    child = os.fork()
    if not child:
        begin(*line.split())
        os._exit(0)
    say(f"ended {os.waitpid(child, 0)[1]}")
"""
"""Each line on standard input is an update: its folder, what is done where, the write and its number from 1."""


Place = tuple[str, str, int]
"""When, at which write, and its number from 1."""

TELLING: tuple[Place, ...] = (
    ("after", "put", 2),
    ("after", "vectors.upsert", 1),
    ("in", "publish", 1),
    ("after", "publish", 1),
)
"""Where updates are killed: replies of the model are kept, the first vectors are written, within the switch and after it."""


class Writer:
    """A process that updates a collection, in a copy of itself for each update."""

    def __init__(self, *address: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-P", "-c", WRITER, *address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, *words: object) -> None:
        stdin: IO[str] | None = self._process.stdin
        assert stdin
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()

    async def read(self) -> str:
        stdout: IO[str] | None = self._process.stdout
        assert stdout
        line = await anyio.to_thread.run_sync(stdout.readline)
        assert line, "the writer ended without output; its error is above"
        return line.strip()

    async def read_until_end(self) -> list[str]:
        lines = [await self.read()]
        while not lines[-1].startswith("ended"):
            lines.append(await self.read())
        return lines

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def writer(*address: str) -> Iterator[Writer]:
    process = Writer(*address)
    try:
        yield process
    finally:
        process.close()


# --- what there is to see ------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What readers find: the layers, and the contexts of some questions."""

    layers: Hierarchy
    contexts: tuple[str, ...]


ReadBuild = Callable[[Stores, Generation], Awaitable[Hierarchy]]
Look = Callable[[LeanRAG], Awaitable[Seen]]


@asynccontextmanager
async def opened(folder: Path, server: Any = None) -> AsyncIterator[LeanRAG]:
    """With the scripted server as its chat model, if one is given."""
    model = {"llm_model": "openai/tiny", "llm_api_base": server.url} if server else {}
    chosen = load_settings(data_dir=folder, cluster_size=4, llm_concurrency=1, **model)
    async with await LeanRAG.open(chosen) as engine:
        yield engine


async def ask(engine: LeanRAG) -> tuple[str, ...]:
    return tuple([(await engine.query(each)).context.text for each in QUESTIONS])


@pytest.fixture
def look(read_build: ReadBuild) -> Look:
    async def look(engine: LeanRAG) -> Seen:
        contexts = await ask(engine)
        (collection,) = await engine.collections()
        assert collection.generation
        return Seen(await read_build(engine._stores, collection.generation), contexts)

    return look


@pytest.fixture
async def changed(tmp_path: Path, look: Look) -> tuple[Path, Seen]:
    """A built collection whose documents have changed since, and what readers see of it."""
    folder = tmp_path / "changed"
    async with opened(folder) as engine:
        await finish(engine, await engine.submit_ingest(NOTES))
        await finish(engine, await engine.submit_ingest(CHANGED, build=False))
        return folder, await look(engine)


async def update(folder: Path, server: Any, look: Look) -> Seen:
    """Update without an interruption."""
    async with opened(folder, server) as engine:
        job = await finish(engine, await engine.submit_build(order=BuildRequest(mode="update")))
        assert isinstance(job.result, BuildResult)
        assert job.result.mode == "update"
        return await look(engine)


async def count_calls(engine: LeanRAG) -> int:
    """Return how many replies of the model are kept."""
    return sum(each.calls for each in (await engine.status()).spent)


def requests(server: Any) -> set[str]:
    return {json.dumps(each.body, sort_keys=True) for each in server.requests}


def number_places(lines: list[str]) -> tuple[Place, ...]:
    """Return all places of an update that listed them."""
    numbers: Counter[str] = Counter()
    places = []
    for line in lines:
        if line.startswith(("before ", "in ", "after ")):
            numbers[line] += 1
            when, name = line.split()
            places.append((when, name, numbers[line]))
    return tuple(places)


async def test_a_killed_update_leaves_the_old_build_or_the_new_one_and_is_resumed_without_a_repeated_call(
    changed: tuple[Path, Seen], tmp_path: Path, scribe: Any, look: Look
) -> None:
    folder, old = changed
    shutil.copytree(folder, tmp_path / "whole")
    new = await update(tmp_path / "whole", scribe, look)
    asked = requests(scribe)
    assert asked
    assert new.contexts != old.contexts
    with writer(scribe.url) as process:
        places = TELLING
        if os.environ.get("LEANRAG_TESTS_EVERY_WRITE"):
            shutil.copytree(folder, tmp_path / "listed")
            process.send(tmp_path / "listed", "list")
            places = number_places(await process.read_until_end())
        published = places.index(("after", "publish", 1))
        for number, place in enumerate(places):
            killed = tmp_path / f"killed-{number}"
            shutil.copytree(folder, killed)
            scribe.requests.clear()
            process.send(killed, "die", *place)
            assert (await process.read_until_end()) == [f"ended {signal.SIGKILL.value}"], place
            async with opened(killed, scribe) as engine:
                seen = await look(engine)
                # Between the switch and the last write a search may find a little less: see `settle_spaces`.
                assert seen == (old if number < published else replace(new, contexts=seen.contexts)), place
                kept, called = await count_calls(engine), scribe.calls
                (job,) = await engine.resume_jobs()
                await finish(engine, job)
                assert await look(engine) == new, place
                assert scribe.calls - called == await count_calls(engine) - kept, place
            assert requests(scribe) == asked, place
            shutil.rmtree(killed)


async def test_a_reader_in_another_process_sees_the_old_build_until_the_switch(
    changed: tuple[Path, Seen], look: Look
) -> None:
    folder, old = changed
    texts = {each for layer in old.layers.layers for each in layer.entities}
    with writer() as process:
        async with opened(folder) as engine:
            process.send(folder, "pause")
            switched = False
            while (line := await process.read()).startswith(("before", "in", "after")):
                switched |= line == "after publish"
                # Which texts a search finds may change a little earlier, with the first vector that is written.
                page = await engine.search_entities(" ".join(NAMES), limit=50)
                found = [each.entity for each in page.found]
                assert found, line
                await ask(engine)
                if not switched:
                    assert texts.issuperset(found), line
                    (collection,) = await engine.collections()
                    assert collection.generation
                    assert await read_hierarchy(engine._stores, collection.generation) == old.layers, line
                process.send()
            assert line == "done"
            assert switched
            assert await process.read() == "ended 0"
            assert (await look(engine)).layers != old.layers
