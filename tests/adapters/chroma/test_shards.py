"""Spaces that are spread over several collections of a Chroma server: to those who use them, one space."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import numpy as np
import pytest

from leanrag_engine.adapters.chroma.server import ChromaServer
from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.core.model import Vectors

pytestmark = pytest.mark.anyio

IDS = [f"e{number:03}" for number in range(200)]


def make_rows(seed: int, count: int = len(IDS)) -> Vectors:
    made = np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


class Database:
    """A Chroma database of a test's own, opened with different settings."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.name = f"tests-{uuid.uuid4().hex}"
        self.opened: list[ChromaVectorStore] = []
        self.servers: list[ChromaServer] = []
        self.plain = ChromaServer(address, "", self.name)

    def open(self, shards: int) -> ChromaVectorStore:
        self.servers.append(ChromaServer(self.address, "", self.name, shards))
        self.opened.append(ChromaVectorStore(self.servers[-1]))
        return self.opened[-1]

    def collections(self) -> set[str]:
        """Return the names of Chroma's own collections."""
        return self.plain.list_names()


@pytest.fixture
async def database(chroma_server: str) -> AsyncIterator[Database]:
    made = Database(chroma_server)
    yield made
    made.plain.start_over()
    made.plain.close()
    for each in made.opened:
        await each.close()


async def test_shards_together_find_what_an_exact_search_finds(database: Database) -> None:
    store, rows = database.open(shards=3), make_rows(0)
    await store.upsert("c1-entities", IDS, rows)
    assert database.collections() == {f"c1-entities.shard{number}" for number in range(3)}
    for query in make_rows(1, 10):
        hits = await store.search("c1-entities", query, 12)
        order = np.argsort(-(rows @ query), kind="stable")[:12]
        assert [hit.id for hit in hits] == [IDS[place] for place in order]
    assert await store.count("c1-entities") == len(IDS)
    assert sorted(await store.ids("c1-entities")) == IDS
    assert await store.spaces() == ["c1-entities"]
    found = await store.fetch("c1-entities", [*IDS, "none"])
    assert found.keys() == {*IDS}
    assert all(np.allclose(found[id_], row) for id_, row in zip(IDS, rows, strict=True))


async def test_single_rows_are_replaced_and_deleted_in_their_shard(database: Database) -> None:
    store, rows, new = database.open(shards=3), make_rows(0), make_rows(2, 1)
    await store.upsert("c1-facts", IDS, rows)
    await store.upsert("c1-facts", [IDS[7]], new)
    assert (await store.search("c1-facts", new[0], 1))[0].id == IDS[7]
    await store.delete("c1-facts", [IDS[7], "none"])
    assert IDS[7] not in {hit.id for hit in await store.search("c1-facts", new[0], len(IDS))}
    assert await store.count("c1-facts") == len(IDS) - 1
    await store.drop("c1-facts")
    assert database.collections() == set()
    assert await store.search("c1-facts", new[0], 5) == []


async def test_a_changed_number_of_shards_counts_for_new_spaces_alone(database: Database) -> None:
    rows = make_rows(0)
    for shards in (1, 2):
        await database.open(shards).upsert(f"made-with-{shards}", IDS, rows)
    for shards in (1, 4):
        store = database.open(shards)
        for space in ("made-with-1", "made-with-2"):
            assert (await store.search(space, rows[3], 1))[0].id == IDS[3]
            await store.upsert(space, IDS, rows)
            assert await store.count(space) == len(IDS)
    assert database.collections() == {"made-with-1", "made-with-2.shard0", "made-with-2.shard1"}


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_search_makes_one_request_to_each_collection(database: Database, shards: int) -> None:
    store, rows = database.open(shards), make_rows(0)
    await store.upsert("c1-entities", IDS, rows)
    requests: list[str] = []
    database.servers[-1]._session.event_hooks = {"request": [lambda each: requests.append(each.url.path)]}
    for _ in range(2):
        await store.search("c1-entities", rows[0], 5)
    assert len(requests) == 2 * shards
    assert all(path.endswith("/query") for path in requests)


async def test_a_space_whose_shards_were_not_all_made_is_made_again(database: Database) -> None:
    store, rows = database.open(shards=3), make_rows(0)
    await store.upsert("c1-windows", IDS, rows)
    database.plain.drop("c1-windows.shard1")
    store = database.open(shards=3)
    assert await store.count("c1-windows") == 0
    await store.upsert("c1-windows", IDS, rows)
    assert await store.count("c1-windows") == len(IDS)
