"""The contract of a vector store, with exact search in numpy as its oracle."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from leanrag_engine.adapters.chroma.client import ChromaFolder
from leanrag_engine.adapters.chroma.index import Index
from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.core.errors import InvalidInput, StoreUnusable
from leanrag_engine.core.model import Hit, Vectors

pytestmark = pytest.mark.anyio

StartChild = Callable[..., Any]

DIMENSION = 24


def make_rows(count: int, seed: int = 0, dimension: int = DIMENSION) -> Vectors:
    made = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


def make_ids(count: int) -> list[str]:
    return [f"e{number:05}" for number in range(count)]


def find_nearest(vectors: Vectors, query: Vectors, limit: int) -> list[str]:
    """The oracle: every cosine computed, ties by id."""
    names = make_ids(len(vectors))
    order = sorted(range(len(vectors)), key=lambda row: (-float(vectors[row] @ query), names[row]))
    return [names[row] for row in order[:limit]]


async def test_the_nearest_come_first_with_their_cosine(vectors: ChromaVectorStore) -> None:
    stored = make_rows(3000)
    await vectors.upsert("c1-entities", make_ids(3000), stored)
    for query in make_rows(20, seed=1):
        hits = await vectors.search("c1-entities", query, 10)
        assert [hit.id for hit in hits] == find_nearest(stored, query, 10)
        scores = [float(stored[int(hit.id[1:])] @ query) for hit in hits]
        assert np.allclose([hit.score for hit in hits], scores, atol=1e-5)


async def test_a_limit_beyond_the_size_of_the_space_returns_all_of_it(vectors: ChromaVectorStore) -> None:
    stored = make_rows(50)
    await vectors.upsert("small", make_ids(50), stored)
    hits = await vectors.search("small", stored[7], 500)
    assert [hit.id for hit in hits] == find_nearest(stored, stored[7], 50)
    assert await vectors.search("small", stored[7], 0) == []


async def test_reads_at_the_same_time_see_the_last_single_row_that_was_written_or_deleted(
    vectors: ChromaVectorStore,
) -> None:
    stored, new = make_rows(10), make_rows(1, seed=5)
    changed, reduced, single = (
        [f"{kind}-{number}" for number in range(12)] for kind in ("changed", "reduced", "single")
    )
    for space in (*changed, *reduced):
        await vectors.upsert(space, make_ids(10), stored)
    for space in (*changed, *single):
        await vectors.upsert(space, make_ids(1), new)
    for space in reduced:
        await vectors.delete(space, make_ids(1))

    async def check(space: str) -> None:
        hits = await vectors.search(space, new[0], 10)
        if space in reduced:
            assert {hit.id for hit in hits} == {*make_ids(10)[1:]}
        else:
            assert hits[0].id == make_ids(1)[0]
            assert np.allclose((await vectors.fetch(space, make_ids(1)))[make_ids(1)[0]], new[0], atol=1e-5)

    for _ in range(5):
        async with anyio.create_task_group() as group:
            for space in (*changed, *reduced, *single):
                group.start_soon(check, space)
        await vectors.refresh()


async def test_two_stores_with_equal_vectors_give_equal_results(
    vectors: ChromaVectorStore, tmp_path: Path
) -> None:
    stored = make_rows(2500)
    other = ChromaVectorStore(tmp_path / "other")
    for store in (vectors, other):
        await store.upsert("same", make_ids(2500), stored)
    for query in make_rows(30, seed=2):
        assert await vectors.search("same", query, 20) == await other.search("same", query, 20)
    await other.close()


async def test_equal_vectors_come_in_the_order_of_their_ids(vectors: ChromaVectorStore) -> None:
    stored = np.repeat(make_rows(3), 10, axis=0)
    shuffled = np.random.default_rng(3).permutation(30)
    await vectors.upsert("ties", [make_ids(30)[row] for row in shuffled], stored[shuffled])
    hits = await vectors.search("ties", stored[0], 15)
    assert [hit.id for hit in hits][:10] == make_ids(10)


async def test_writing_an_id_again_replaces_its_vector(vectors: ChromaVectorStore) -> None:
    stored = make_rows(10)
    await vectors.upsert("again", make_ids(10), stored)
    await vectors.upsert("again", ["e00003"], -stored[3:4])
    assert await vectors.count("again") == 10
    assert (await vectors.search("again", -stored[3], 1))[0].id == "e00003"
    fetched = await vectors.fetch("again", ["e00003"])
    assert np.allclose(fetched["e00003"], -stored[3], atol=1e-6)


async def test_vectors_are_fetched_by_id_as_they_were_written(vectors: ChromaVectorStore) -> None:
    stored = make_rows(1200)
    await vectors.upsert("fetch", make_ids(1200), stored)
    found = await vectors.fetch("fetch", [*make_ids(1200), "unknown", "e00000"])
    assert sorted(found) == make_ids(1200)
    assert all(row.dtype == np.float32 for row in found.values())
    assert np.allclose(np.stack([found[id_] for id_ in make_ids(1200)]), stored, atol=1e-6)


async def test_rows_are_normalised_so_that_scores_are_cosines(vectors: ChromaVectorStore) -> None:
    stored = make_rows(5)
    await vectors.upsert("long", make_ids(5), 7 * stored)
    (hit,) = await vectors.search("long", 3 * stored[2], 1)
    assert hit.id == "e00002"
    assert hit.score == pytest.approx(1.0, abs=1e-5)


async def test_zero_vectors_are_stored_and_never_near_a_query(vectors: ChromaVectorStore) -> None:
    stored = make_rows(2000)
    stored[::4] = 0
    await vectors.upsert("zeros", make_ids(2000), stored)
    assert await vectors.count("zeros") == 2000
    assert not (await vectors.fetch("zeros", ["e00000"]))["e00000"].any()
    for query in make_rows(20, seed=4):
        hits = await vectors.search("zeros", query, 10)
        assert [hit.id for hit in hits] == find_nearest(stored, query, 10)
    assert await vectors.search("zeros", np.zeros(DIMENSION, dtype=np.float32), 10) == []


async def test_a_space_of_only_zero_vectors_can_be_searched(vectors: ChromaVectorStore) -> None:
    await vectors.upsert("zeros", make_ids(20), np.zeros((20, DIMENSION), dtype=np.float32))
    hits = await vectors.search("zeros", make_rows(1)[0], 5)
    assert hits == [Hit(id_, 0.0) for id_ in make_ids(5)]


async def test_unknown_spaces_and_ids_are_empty_results(vectors: ChromaVectorStore) -> None:
    assert await vectors.search("absent", make_rows(1)[0], 5) == []
    assert await vectors.fetch("absent", ["e1"]) == {}
    assert await vectors.count("absent") == 0
    assert await vectors.spaces() == []
    await vectors.drop("absent")
    await vectors.upsert("absent", [], np.zeros((0, DIMENSION), dtype=np.float32))
    assert await vectors.spaces() == []


async def test_spaces_are_listed_and_dropped(vectors: ChromaVectorStore) -> None:
    names = [f"c1-space-{number:03}" for number in range(12)]
    for name in reversed(names):
        await vectors.upsert(name, ["only"], make_rows(1))
    assert await vectors.spaces() == names
    await vectors.drop(names[0])
    assert await vectors.spaces() == names[1:]
    assert await vectors.search(names[0], make_rows(1)[0], 5) == []
    await vectors.upsert(
        names[0], make_ids(2), make_rows(2, dimension=3)
    )  # a new space may have another dimension
    assert await vectors.count(names[0]) == 2


async def test_starting_over_leaves_an_empty_store_that_can_be_written(vectors: ChromaVectorStore) -> None:
    await vectors.upsert("space", make_ids(5), make_rows(5))
    await vectors.start_over()
    assert await vectors.spaces() == []
    assert await vectors.search("space", make_rows(1)[0], 3) == []
    await vectors.upsert("space", make_ids(2), make_rows(2, dimension=7))
    assert await vectors.count("space") == 2


@pytest.mark.parametrize("name", ["", "ab", "-ab", "ab-", "a b", "a/b", "ä" * 5, "x" * 513])
async def test_an_invalid_name_is_refused(vectors: ChromaVectorStore, name: str) -> None:
    for call in (
        vectors.upsert(name, ["e1"], make_rows(1)),
        vectors.search(name, make_rows(1)[0], 1),
        vectors.fetch(name, ["e1"]),
        vectors.count(name),
        vectors.drop(name),
    ):
        with pytest.raises(InvalidInput, match="3 to 512"):
            await call


async def test_the_longest_name_is_accepted(vectors: ChromaVectorStore) -> None:
    await vectors.upsert("x" * 512, ["e1"], make_rows(1))
    assert await vectors.count("x" * 512) == 1


async def test_invalid_rows_are_refused_before_anything_is_written(vectors: ChromaVectorStore) -> None:
    bad = make_rows(1500)
    bad[1400, 3] = np.nan
    for given_ids, given_rows, named in (
        (make_ids(1500), bad, "'e01400'"),
        (["a", "b"], np.array([[1, np.inf], [0, 1]], dtype=np.float32), "'a'"),
        (["a", "a"], make_rows(2), "'a'"),
        (["a", ""], make_rows(2), "''"),
        (["a"], make_rows(2), "1 ids"),
        (["a"], make_rows(1)[0], "1 ids"),
    ):
        with pytest.raises(InvalidInput, match=named):
            await vectors.upsert("refused", given_ids, given_rows)
    assert await vectors.spaces() == []
    await vectors.upsert("kept", make_ids(3), make_rows(3))
    for call in (
        vectors.upsert("kept", ["e9"], make_rows(1, dimension=7)),
        vectors.search("kept", make_rows(1, dimension=7)[0], 3),
    ):
        with pytest.raises(InvalidInput, match=rf"{DIMENSION} numbers, not of 7"):
            await call
    with pytest.raises(InvalidInput, match="of the query"):
        await vectors.search("kept", np.full(DIMENSION, np.nan, dtype=np.float32), 3)


async def test_searches_and_refreshes_can_overlap(vectors: ChromaVectorStore) -> None:
    stored = make_rows(300)
    await vectors.upsert("crossing", make_ids(300), stored)

    async def search(row: int) -> None:
        for _ in range(5):
            assert (await vectors.search("crossing", stored[row], 1))[0].id == make_ids(300)[row]

    async with anyio.create_task_group() as group:
        for row in range(8):
            group.start_soon(search, row)
        for _ in range(5):
            await vectors.refresh()


async def test_two_stores_on_one_folder_share_their_data(tmp_path: Path) -> None:
    vectors, second = ChromaVectorStore(tmp_path / "vectors"), ChromaVectorStore(tmp_path / "vectors")
    await vectors.upsert("shared", make_ids(5), make_rows(5))
    assert await second.count("shared") == 5
    await vectors.refresh()
    await second.close()
    assert await vectors.count("shared") == 5
    await vectors.close()


# --- folders that cannot be used -----------------------------------------------------------


def test_a_space_that_another_process_has_dropped_or_written_anew_is_searched_as_it_is(
    tmp_path: Path,
) -> None:
    writer = ChromaFolder(tmp_path)
    stored = make_rows(50)
    Index(writer).upsert("c1-entities", make_ids(50), stored)
    reader = ChromaFolder(tmp_path)
    assert Index(reader).search("c1-entities", stored[:1], 1)[0].id == "e00000"
    Index(writer).drop("c1-entities")
    assert Index(reader).search("c1-entities", stored[:1], 1) == []
    Index(writer).upsert("c1-entities", ["new"], stored[:1])
    assert Index(reader).search("c1-entities", stored[:1], 1)[0].id == "new"
    reader.close()
    writer.close()


async def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("not a folder")
    store = ChromaVectorStore(path)
    with pytest.raises(StoreUnusable, match=str(path)):
        await store.count("any")
    await store.close()


@pytest.mark.parametrize("damaged", ["chroma.sqlite3", "index_metadata.pickle"])
async def test_the_error_for_a_damaged_index_says_that_it_can_be_rebuilt(
    tmp_path: Path, damaged: str
) -> None:
    folder = tmp_path / "vectors"
    store = ChromaVectorStore(folder)
    await store.upsert("c1-x", make_ids(1500), make_rows(1500))
    await store.close()
    (path,) = folder.rglob(damaged)
    path.write_bytes(b"garbage " * 100)
    store = ChromaVectorStore(folder)
    for _ in range(3):
        with pytest.raises(StoreUnusable, match=r"(?s)(cannot be used|damaged).*ebuild the vector index"):
            await store.search("c1-x", make_rows(1)[0], 3)
    await store.refresh()
    shutil.rmtree(folder)
    await store.upsert("c1-x", make_ids(3), make_rows(3))
    assert await store.count("c1-x") == 3
    await store.close()


WRITE_AND_STOP = """
from leanrag_engine.adapters.chroma import client as chroma_client
from leanrag_engine.adapters.chroma.client import ChromaFolder
from leanrag_engine.adapters.chroma.index import Index
from leanrag_engine.adapters.chroma.store import ChromaVectorStore

create = chroma_client.ChromaFolder.create

def stop(self, space, dimension):
    made = create(self, space, dimension)
    say("in the middle")
    wait()
    return made

async def main():
    store = ChromaVectorStore(folder)
    await store.upsert("whole", ["a"], np.ones((1, 4), dtype=np.float32))
    chroma_client.ChromaFolder.create = stop
    await store.upsert("half", ["a"], np.ones((1, 4), dtype=np.float32))

anyio.run(main)
"""


async def test_a_space_whose_writer_was_killed_is_unusable_until_it_is_dropped(
    tmp_path: Path, child: StartChild
) -> None:
    writer = child(WRITE_AND_STOP, tmp_path)
    assert writer.read_line() == "in the middle"
    store = ChromaVectorStore(tmp_path)
    query = np.ones(4, dtype=np.float32)
    assert await store.search("whole", query, 3)  # what is not being written is read
    writer.kill()
    for call in (
        store.search("half", query, 3),
        store.count("half"),
        store.fetch("half", ["a"]),
        store.upsert("half", ["a"], query[None]),
    ):
        with pytest.raises(StoreUnusable, match=r"'half'(.|\n)*no data is lost"):
            await call
    assert [hit.id for hit in await store.search("whole", query, 3)] == ["a"]
    await store.drop("half")
    assert await store.search("half", query, 3) == []
    await store.upsert("half", ["b"], query[None])
    assert [hit.id for hit in await store.search("half", query, 3)] == ["b"]
    await store.close()


NOISE = """
from leanrag_engine.adapters.chroma.client import ChromaFolder
from leanrag_engine.adapters.chroma.index import Index
from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.core.errors import InvalidInput, StoreUnusable

async def main():
    store = ChromaVectorStore(folder / "good")
    await store.upsert("space", [f"e{n}" for n in range(1500)], np.random.default_rng(0).random((1500, 8)))
    await store.search("space", np.ones(8), 2000)
    await store.fetch("space", ["e1", "unknown"])
    await store.refresh()
    await store.search("absent", np.ones(8), 5)
    try:
        await store.search("space", np.ones(9), 5)
    except InvalidInput:
        pass
    await store.drop("space")
    await store.close()
    (folder / "bad").mkdir()
    (folder / "bad" / "chroma.sqlite3").write_bytes(b"garbage " * 100)
    store = ChromaVectorStore(folder / "bad")
    try:
        await store.count("space")
    except StoreUnusable:
        pass
    await store.close()

anyio.run(main)
"""


def test_chroma_prints_nothing_that_breaks_a_stdio_server(tmp_path: Path) -> None:
    prelude = (
        "import sys\nfrom pathlib import Path\nimport anyio\nimport numpy as np\nfolder = Path(sys.argv[1])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", prelude + NOISE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_importing_the_store_does_not_import_chroma() -> None:
    script = "import sys, leanrag_engine.adapters.chroma.store; sys.exit('chromadb' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", script], check=False).returncode == 0


async def test_a_lost_folder_can_be_written_again(tmp_path: Path) -> None:
    store = ChromaVectorStore(tmp_path / "vectors")
    await store.upsert("space", make_ids(5), make_rows(5))
    await store.close()
    shutil.rmtree(tmp_path / "vectors")
    store = ChromaVectorStore(tmp_path / "vectors")
    assert await store.count("space") == 0
    await store.upsert("space", make_ids(5), make_rows(5))
    assert await store.count("space") == 5
    await store.close()
