"""Real processes on one data folder: each finds what the other wrote, and a kill leaves nothing half done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.adapters.sql.dialect.sqlite import opening
from leanrag_engine.core.graphs.graph import Hierarchy
from leanrag_engine.core.model import Generation

pytestmark = pytest.mark.anyio

MakeParcel = Callable[..., Any]
MakeHierarchy = Callable[..., Hierarchy]
Publish = Callable[..., Awaitable[Generation]]
StartChild = Callable[..., Any]

OTHER = """
from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.core.model import Chunk, LoadedDocument, ReadDocument

async def main():
    graph = await open_store()
    vectors = ChromaVectorStore(Path(sys.argv[2]))
    seen = await graph.generations.vector_version()  # before the first one hears of this
    say(len(await vectors.search("space", np.eye(8)[0], 50)))
    wait()

    # What the first one wrote meanwhile.
    assert await graph.generations.vector_version() == seen + 1
    await vectors.refresh()
    say([hit.id for hit in await vectors.search("space", np.eye(8)[1], 1)])
    say([document.id for document in await graph.documents.find_all("default")])
    wait()

    # Now this one writes.
    document = LoadedDocument("theirs", "Theirs", "Written by the other.", "text/plain")
    chunk = Chunk("c9", "theirs", 1, document.text, 0, 21, 4)
    await graph.documents.put_all("default", [ReadDocument(document, [chunk], [])])
    await vectors.upsert("space", ["theirs"], np.eye(8)[2:3])
    await graph.generations.bump_vector_version()
    say("written")
    wait()

anyio.run(main)
"""


async def test_each_process_finds_what_the_other_wrote(
    place: Any, tmp_path: Path, parcel: MakeParcel, child: StartChild
) -> None:
    graph = await place.open()
    vectors = ChromaVectorStore(tmp_path / "vectors")
    basis = np.eye(8, dtype=np.float32)
    await graph.documents.create_collection("default")
    await vectors.upsert("space", ["first"], basis[:1])
    await vectors.close()  # one writer at a time: the other opens a finished index

    other = child(OTHER, place.address, tmp_path / "vectors")
    assert other.read_line() == "1"
    ours = parcel("ours", "Written by us.")
    await graph.documents.put_all("default", [ours])
    vectors = ChromaVectorStore(tmp_path / "vectors")
    await vectors.upsert("space", ["ours"], basis[1:2])
    seen = await graph.generations.bump_vector_version()
    other.send_line()
    assert other.read_line() == "['ours']"
    assert other.read_line() == "['ours']"

    assert (await vectors.search("space", basis[2], 1))[0].id != "theirs"
    other.send_line()
    assert other.read_line() == "written"
    assert await graph.generations.vector_version() == seen + 1
    await vectors.refresh()
    assert [hit.id for hit in await vectors.search("space", basis[2], 1)] == ["theirs"]
    assert await vectors.count("space") == 3
    assert [hit.id for hit in await graph.documents.search_windows("default", "other", 5)] == ["c9#0"]
    assert [document.number for document in await graph.documents.find_all("default")] == [1, 2]
    assert other.finish() == 0
    await vectors.close()
    await graph.close()


STOPS_IN_THE_MIDDLE = """
from leanrag_engine.adapters.sql.dialect.sqlite import opening
from leanrag_engine.adapters.sql.generations import publish as publishing
from leanrag_engine.core.history import Publication
from leanrag_engine.core.graphs.graph import GenerationContent, Graph, Hierarchy
from leanrag_engine.core.model import BuildRecord, Entity

# A cache of ten pages: SQLite must write to its log before the commit, as it does in a large build.
opening._PRAGMAS = (*opening._PRAGMAS, "PRAGMA cache_size=10")
insert_all = publishing._insert_all

def stop(connection, target, rows):
    insert_all(connection, target, rows)
    if target.name == "names":
        say("in the middle")
        wait()

publishing._insert_all = stop

async def main():
    store = await open_store()
    chunks = tuple(f"c{n}" for n in range(20))
    base = tuple(Entity(f"new{n}", f"New {n}", description="word " * 50, parent_id="r", chunk_ids=chunks) for n in range(2000))
    built = Hierarchy((Graph(base, ()), Graph((Entity("r", "Root", layer=1),), ())))
    await store.generations.publish("default", 1, GenerationContent(built, "new", 4, b"new", BuildRecord()), Publication())
    say("published")

anyio.run(main)
"""


async def test_a_build_that_is_killed_while_it_publishes_leaves_the_old_one_whole(
    place: Any, hierarchy: MakeHierarchy, publish: Publish, child: StartChild
) -> None:
    store = await place.open()
    await store.documents.create_collection("default")
    built = hierarchy("Scrooge", "Marley", "Cratchit", "Fezziwig", "Belle")
    old = await publish(store, built)

    async def is_whole() -> None:
        assert await store.generations.find_all("default") == [old]
        for number, layer in enumerate(built.layers):
            assert await store.generations.layer(old.number, number) == list(layer.entities)
            page = await store.generations.relations_page(
                old.number, layer=number, cluster=None, min_strength=0, offset=0, limit=99
            )
            assert page[1] == len(layer.relations)
        assert len(await store.generations.search_entities(old.number, "Scrooge", 9)) == 1
        assert await store.generations.search_entities(old.number, "new", 9) == []
        assert await store.generations.entities_by_name(old.number, ["New 1"]) == []

    writer = child(STOPS_IN_THE_MIDDLE, place.address)
    assert writer.read_line() == "in the middle"
    if place.is_folder:
        log = Path(place.address) / f"{opening.FILE}-wal"
        assert log.stat().st_size > 1_000_000  # half of the build is on disk
    await is_whole()
    writer.kill()
    await is_whole()
    await store.close()

    store = await place.open()
    await is_whole()
    new = await publish(store, hierarchy("Fred", "Topper"), embedder="next")
    assert await store.generations.find_all("default") == [new, old]
    assert [each.name for each in await store.generations.layer(new.number, 0)] == ["Fred", "Topper"]
    await store.close()


WRITES_UNTIL_KILLED = """
from leanrag_engine.core.model import Chunk, LoadedDocument, ReadDocument

async def main():
    store = await open_store()
    await store.documents.create_collection("default")
    for number in range(100_000):
        text = f"Document {number}."
        document = LoadedDocument(f"x{number}", "", text, "text/plain")
        chunk = Chunk(f"c{number}", document.id, 1, text, 0, len(text), 3)
        await store.documents.put_all("default", [ReadDocument(document, [chunk], [])])
        say(number)

anyio.run(main)
"""


async def test_every_document_that_was_acknowledged_survives_a_kill(place: Any, child: StartChild) -> None:
    writer = child(WRITES_UNTIL_KILLED, place.address)
    for number in range(20):
        assert writer.read_line() == str(number)
    writer.kill()
    store = await place.open()
    documents = await store.documents.find_all("default")
    assert [each.id for each in documents] == [f"x{number}" for number in range(len(documents))]
    assert len(documents) >= 20
    chunks = await store.documents.all_chunks("default")
    assert len(chunks) == len(documents)
    assert len(await store.documents.search_windows("default", "document", 100_000)) == len(documents)
    await store.close()
