"""What the stores' tests share: small collection_rows, hierarchies, open stores and real child processes."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from leanrag_tests_forks import Fork

from leanrag_engine.adapters.chroma.server import ChromaServer
from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.core.graphs.graph import GenerationContent, Graph, Hierarchy
from leanrag_engine.core.history import Publication
from leanrag_engine.core.model import (
    BuildRecord,
    Chunk,
    Entity,
    Extract,
    ExtractedEntity,
    LoadedDocument,
    Method,
    ReadDocument,
    Relation,
    content_id,
)


@dataclass(frozen=True)
class Place:
    """Where a store is: a folder, or the address of a database on a server."""

    address: str

    @property
    def is_folder(self) -> bool:
        return "://" not in self.address

    async def open(self, *, read_only: bool = False) -> SqlDatabase:
        if self.is_folder:
            return await SqlDatabase.open(Path(self.address), read_only=read_only)
        return await SqlDatabase.connect(self.address, read_only=read_only)


NEEDS_POSTGRES = "LEANRAG_TESTS_REQUIRE_POSTGRES"
"""With this variable the tests on PostgreSQL fail if there is no server."""

# Without a server, tests/adapters/sql/test_postgres.py says once for all that those on it are skipped.
DATABASES = ["sqlite", *(["postgres"] if {"LEANRAG_TESTS_POSTGRES", NEEDS_POSTGRES} & {*os.environ} else [])]


@pytest.fixture(params=DATABASES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty store in each kind of database."""
    if request.param == "postgres":
        return Place(request.getfixturevalue("postgres_database"))
    return Place(str(tmp_path))


@pytest.fixture
async def store(place: Place) -> AsyncIterator[SqlDatabase]:
    opened = await place.open()
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The address of a server that the tests may make databases on."""
    address = os.environ.get("LEANRAG_TESTS_POSTGRES")
    if not address:
        reason = "LEANRAG_TESTS_POSTGRES names no PostgreSQL server"
        (pytest.fail if os.environ.get(NEEDS_POSTGRES) else pytest.skip)(reason)
    return address


@pytest.fixture(scope="session")
def blank_database(postgres_server: str) -> Iterator[str]:
    """The name of an empty store: copying it is quicker than making the schema for each test."""
    name = f"leanrag_blank_{uuid.uuid4().hex[:12]}"
    address = create_database(postgres_server, name, "template0")

    async def make() -> None:
        await (await SqlDatabase.connect(address, read_only=False)).close()

    anyio.run(make)
    yield name
    drop_database(postgres_server, name)


@pytest.fixture
def postgres_database(postgres_server: str, blank_database: str) -> Iterator[str]:
    """The address of an empty store of its own."""
    name = f"leanrag_{uuid.uuid4().hex[:12]}"
    yield create_database(postgres_server, name, blank_database)
    drop_database(postgres_server, name)


def create_database(server: str, name: str, template: str, encoding: str = "UTF8") -> str:
    """Make a database and return its address."""
    run_on_server(server, f"CREATE DATABASE {name} TEMPLATE {template} ENCODING '{encoding}'")
    return f"{server.rpartition('/')[0]}/{name}"


def drop_database(server: str, name: str) -> None:
    run_on_server(server, f"DROP DATABASE {name} WITH (FORCE)")


def run_on_server(address: str, statement: str) -> list[Any]:
    import psycopg  # noqa: PLC0415 - without a server the driver need not be there

    with psycopg.connect(address, autocommit=True) as connection:
        rows = connection.execute(statement)
        return rows.fetchall() if rows.description else []


@pytest.fixture(params=["folder", "server"])
async def vectors(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChromaVectorStore]:
    """An empty vector store in a folder and on a server."""
    if request.param == "folder":
        opened = ChromaVectorStore(tmp_path / "vectors")
        yield opened
    else:
        address = request.getfixturevalue("chroma_server")
        opened = ChromaVectorStore(ChromaServer(address, "", f"tests-{uuid.uuid4().hex}"))
        yield opened
        await opened.start_over()
    await opened.close()


# --- collections and hierarchies ---------------------------------------------------------------


@pytest.fixture(scope="session")
def parcel() -> Callable[..., ReadDocument]:
    """Makes a document and all that is written with it: one chunk for each paragraph, one entity for each chunk."""

    def make(
        id_: str, *paragraphs: str, title: str = "A title", metadata: dict[str, str] | None = None
    ) -> ReadDocument:
        text = "\n".join(paragraphs)
        chunks, start = [], 0
        for number, each in enumerate(paragraphs, 1):
            chunk_id = content_id("c", id_, str(number), each)
            end = start + len(each)
            chunks.append(
                Chunk(chunk_id, id_, number, each, start, end, len(each.split()), heading=f"Part {number}")
            )
            start = end + 1
        extracts = [
            Extract(chunk.id, Method.HEURISTIC, (ExtractedEntity(chunk.text.split()[0]),)) for chunk in chunks
        ]
        document = LoadedDocument(id_, title, text, "text/plain", source=f"/{id_}", metadata=metadata or {})
        return ReadDocument(document, chunks, extracts)

    return make


@pytest.fixture(scope="session")
def hierarchy() -> Callable[..., Hierarchy]:
    """A build over ``names``, four to a cluster, with a ring of relations in each layer."""

    def make(*names: str, key: str = "") -> Hierarchy:
        layers: list[Graph] = []
        current = list(names)
        while True:
            above = [f"Cluster {len(layers) + 1}.{i}{key}" for i in range(-(-len(current) // 4))]
            last = len(current) == 1 and bool(layers)
            layers.append(_layer(len(layers), current, [] if last else above))
            if last:
                return Hierarchy(tuple(layers))
            current = above

    return make


def _layer(number: int, names: list[str], parents: list[str]) -> Graph:
    ids = [_id(number, name) for name in names]
    entities = tuple(
        Entity(
            id_,
            name,
            layer=number,
            description=f"What is said of {name}.",
            mentions=place + 1,
            parent_id=_id(number + 1, parents[place // 4]) if parents else None,
            chunk_ids=(f"chunk-{place}", f"chunk-{place + 1}") if number == 0 else (),
        )
        for place, (id_, name) in enumerate(zip(ids, names, strict=True))
    )
    ring = zip(ids, [*ids[1:], ids[0]], strict=True) if len(ids) > 2 else pairwise(ids)
    relations = tuple(
        Relation(
            content_id("r", str(number), a, b),
            a,
            b,
            layer=number,
            description=f"Meeting {place // 2} of layer {number}.",  # two relations say the same
            strength=place % 3 + 1,
            weight=place % 2 + 1,
        )
        for place, (a, b) in enumerate(ring)
    )
    return Graph(entities, relations)


def _id(layer: int, name: str) -> str:
    return content_id("e", str(layer), name)


@pytest.fixture(scope="session")
def publish() -> Callable[..., Any]:
    """Publish a hierarchy with what a publication needs besides."""

    async def publish(
        store: SqlDatabase,
        built: Hierarchy,
        revision: int = 0,
        embedder: str = "toy",
        record: BuildRecord | None = None,
        **fields: Any,
    ) -> Any:
        content = GenerationContent(built, embedder, 4, b"fit", record or BuildRecord())
        return await store.generations.publish("default", revision, content, Publication(), **fields)

    return publish


# --- other processes -----------------------------------------------------------------------


class Child:
    """A real process that runs ``script``; they exchange lines, so that no test waits for the clock."""

    def __init__(self, script: str, *arguments: str) -> None:
        self._process = Fork(
            ["-c", PRELUDE + script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def read_line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the child process ended without output; its error is above"
        return line.strip()

    def send_line(self, line: str = "go on") -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def finish(self) -> int:
        self.send_line()
        return self._process.wait()

    def kill(self) -> None:
        """As ``kill -9`` does: the process cannot tidy up."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()


PRELUDE = """
import sys
from pathlib import Path
import anyio
import numpy as np

def say(line):
    print(line, flush=True)

def wait():
    sys.stdin.readline()

folder = Path(sys.argv[1])

async def open_store():
    from leanrag_engine.adapters.sql import SqlDatabase

    place = sys.argv[1]
    if "://" in place:
        return await SqlDatabase.connect(place, read_only=False)
    return await SqlDatabase.open(folder, read_only=False)
"""


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def start(script: str, *arguments: object) -> Child:
        children.append(Child(script, *map(str, arguments)))
        return children[-1]

    yield start
    for each in children:
        each.close()
