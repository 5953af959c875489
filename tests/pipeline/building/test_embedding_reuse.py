"""A rebuild embeds what changed and nothing else; its vectors are those of a build that embeds everything, to the bit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import Cancelled
from leanrag_engine.core.graphs.texts import EmbeddedTexts
from leanrag_engine.core.jobs import AskedMode, BuildRequest
from leanrag_engine.core.model import (
    Chunk,
    DocumentSource,
    EmbeddedQueries,
    EmbeddingCounts,
    Generation,
    SharedText,
    Vectors,
)
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline import token_vectors
from leanrag_engine.pipeline.building.embedding_reuse import ReusingEmbedder, SpaceIndex
from leanrag_engine.pipeline.index import read_hierarchy, read_indexed_texts

pytestmark = pytest.mark.anyio

TEXTS = [
    "William Herschel found Uranus in Bath. He built telescopes.",
    "Johann Galle found Neptune in Berlin. Urbain Le Verrier had computed its place.",
    "Caroline Herschel discovered eight comets. She lived in Slough.",
]
NEW = "Clyde Tombaugh found Pluto in Flagstaff. He compared photographs."


def served(folder: Path, server: Any) -> Settings:
    return load_settings(data_dir=folder, embedder="litellm/openai/some-model", embedder_api_base=server.url)


async def ingested(engine: LeanRAG, texts: Sequence[str]) -> None:
    sources = [DocumentSource(text=text, id=f"text {place}") for place, text in enumerate(texts)]
    job = await engine.submit_ingest(sources, build=False)
    await engine.job(job.id, wait_seconds=60)


async def built(engine: LeanRAG, mode: AskedMode = "auto") -> Generation:
    job = await engine.submit_build(order=BuildRequest(mode=mode))
    ended = await engine.job(job.id, wait_seconds=60)
    assert ended.status == "done", ended.message
    held = await engine._stores.documents.collection("default")
    assert held is not None
    assert held.generation is not None
    return held.generation


async def rows(engine: LeanRAG, generation: Generation) -> dict[str, bytes]:
    """The vector of every text of a generation."""
    texts = await read_indexed_texts(engine._stores, generation)
    found: dict[str, bytes] = {}
    for space, held in texts.items():
        vectors = await engine._stores.vectors.fetch(space, [id_ for id_, _ in held])
        assert vectors.keys() == {id_ for id_, _ in held}
        found |= {text: vectors[id_].tobytes() for id_, text in held}
    return found


def parts(texts: Iterable[str]) -> set[str]:
    """What is embedded of these texts: of an entity its names, of a long text its windows."""
    return {str(text) for text in texts}


def probed(asked: Sequence[str]) -> Sequence[str]:
    """What every build asks for: the first text, which shows whether the service still gives the same vectors."""
    return asked[:1]


async def test_a_rebuild_of_the_same_documents_asks_the_service_for_no_vector(
    tmp_path: Path, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served(tmp_path, embedding_server)) as engine:
        await ingested(engine, TEXTS)
        first = await built(engine)
        assert first.record.embedded.reused == 0
        before = await rows(engine, first)
        embedding_server.requests.clear()
        second = await built(engine)
        assert embedding_server.texts == probed(embedding_server.texts)
        assert second.record.embedded == EmbeddingCounts(0, first.record.embedded.anew)
        assert await rows(engine, second) == before


def last_lines(server: Any) -> list[str]:
    """What was asked for, without titles and names."""
    return [text.rpartition("\n")[2] for text in server.texts]


async def test_a_first_build_that_breaks_off_goes_on_where_it_had_embedded(
    tmp_path: Path, embedding_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_vectors, "PORTION", 1)
    async with await LeanRAG.open(served(tmp_path, embedding_server)) as engine:
        await ingested(engine, TEXTS)
        upsert, written = engine._stores.vectors.upsert, list[str]()

        async def break_off(space: str, ids: Sequence[str], rows: Vectors) -> None:
            if len(written) == 2:
                raise Cancelled("The power is out.")
            await upsert(space, ids, rows)
            written.extend(ids)

        with monkeypatch.context() as broken:
            broken.setattr(engine._stores.vectors, "upsert", break_off)
            job = await engine.job((await engine.submit_build()).id, wait_seconds=60)
            assert job.status == "cancelled"
        assert {*TEXTS} <= {*last_lines(embedding_server)}
        embedding_server.requests.clear()
        generation = await built(engine)
        assert {*TEXTS[1:]} & {*last_lines(embedding_server)} == {TEXTS[2]}
        await rows(engine, generation)


async def test_only_what_changed_is_embedded_and_the_vectors_are_those_of_a_build_from_nothing(
    tmp_path: Path, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served(tmp_path / "grown", embedding_server)) as engine:
        await ingested(engine, TEXTS)
        before = await rows(engine, await built(engine))
        await ingested(engine, [*TEXTS, NEW])
        embedding_server.requests.clear()
        after = await built(engine, "rebuild")
        grown = await rows(engine, after)
        asked = set(embedding_server.texts) - set(probed(embedding_server.texts))
        assert asked & parts(grown) == parts(grown.keys() - before.keys())
        assert after.record.embedded.reused > 0
    async with await LeanRAG.open(served(tmp_path / "at once", embedding_server)) as engine:
        await ingested(engine, [*TEXTS, NEW])
        assert await rows(engine, await built(engine)) == grown


async def test_kept_vectors_are_those_of_the_published_generation_alone(
    tmp_path: Path, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served(tmp_path, embedding_server)) as engine:
        for texts in (TEXTS, [*TEXTS, NEW]):
            await ingested(engine, texts)
            generation = await built(engine)
            kept = await engine._stores.adjacencies.find_vectors(generation)
            layers = (await read_hierarchy(engine._stores, generation)).layers
            spaces = generation.record.spaces
            for kind, space, part in (
                ("entities", spaces.entities, layers[:1]),
                ("aggregates", spaces.aggregates, layers[1:]),
            ):
                ids = [each.id for layer in part for each in layer.entities]
                held = await engine._stores.vectors.fetch(space, ids)
                assert [row.tobytes() for row in kept[kind]] == [held[id_].tobytes() for id_ in ids]
            assert len(list((tmp_path / "arrays").glob("*-vectors"))) == 1
        job, _ = await engine.submit_delete(["text 0"])
        assert job is not None
        await engine.job(job.id, wait_seconds=60)
        assert not list((tmp_path / "arrays").glob("*-vectors"))


async def test_an_update_reads_no_vector_of_a_passage_or_base_entity_that_stays(
    tmp_path: Path, embedding_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await LeanRAG.open(served(tmp_path, embedding_server)) as engine:
        await ingested(engine, TEXTS)
        spaces = (await built(engine)).record.spaces
        vectors, asked = engine._stores.vectors, []
        fetch = vectors.fetch

        async def heard(space: str, ids: Sequence[str]) -> Any:
            asked.append(space)
            return await fetch(space, ids)

        monkeypatch.setattr(vectors, "fetch", heard)
        await ingested(engine, [*TEXTS, NEW])
        after = await built(engine, "update")
        assert not {spaces.windows, spaces.entities} & {*asked}
        assert len(await vectors.ids(spaces.windows)) == after.record.vectors["windows"] == len(TEXTS) + 1
        # What was kept can be lost.
        await engine._stores.adjacencies.sweep("default", ())
        await ingested(engine, [*TEXTS, NEW, "Edmund Halley saw a comet."])
        again = await built(engine, "update")
        assert spaces.entities in asked
        assert spaces.windows not in asked
        assert again.record.embedded.reused > 0


async def test_an_update_reads_the_text_of_no_passage_that_stays(
    tmp_path: Path, embedding_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await LeanRAG.open(served(tmp_path, embedding_server)) as engine:
        await ingested(engine, TEXTS)
        await built(engine)
        await ingested(engine, [*TEXTS, NEW])
        documents, read = engine._stores.documents, list[Chunk]()

        def hear(name: str) -> None:
            find = getattr(documents, name)

            async def heard(*asked: Any) -> Any:
                found = await find(*asked)
                read.extend(found)
                return found

            monkeypatch.setattr(documents, name, heard)

        for name in ("all_chunks", "chunks", "pending_chunks"):
            hear(name)
        read_now = documents.read_chunks

        def heard_now(collection: str, ids: Sequence[str]) -> list[Chunk]:
            found = read_now(collection, ids)
            read.extend(found)
            return found

        monkeypatch.setattr(documents, "read_chunks", heard_now)
        after = await built(engine, "update")
        assert {each.text for each in read} == {NEW, *probed(TEXTS)}
        assert after.record.latin
        assert after.record.embedded.reused > 0


async def test_a_passage_that_another_document_repeats_is_not_embedded_again(
    tmp_path: Path, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served(tmp_path, embedding_server)) as engine:
        await ingested(engine, TEXTS)
        await built(engine)
        await ingested(engine, [*TEXTS, NEW])
        await built(engine, "update")
        source = DocumentSource(text=NEW, id="again")
        await engine.job((await engine.submit_ingest([source], build=False)).id, wait_seconds=60)
        embedding_server.requests.clear()
        again = await built(engine, "update")
        assert NEW not in "".join(set(embedding_server.texts) - set(probed(embedding_server.texts)))
        assert len(await rows(engine, again)) > 0


async def test_an_update_from_damaged_arrays_of_windows_reads_all_passages(
    tmp_path: Path, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served(tmp_path, embedding_server)) as engine:
        await ingested(engine, TEXTS)
        await built(engine)
        (folder,) = (tmp_path / "arrays").glob("*-windows")
        np.save(folder / "digests.npy", np.load(folder / "digests.npy")[1:])
        await ingested(engine, [*TEXTS, NEW])
        grown = await rows(engine, await built(engine, "update"))
        (folder,) = (tmp_path / "arrays").glob("*-windows")
        assert len(np.load(folder / "digests.npy")) == len(TEXTS) + 1
        assert any(NEW in text for text in grown)


async def test_a_changed_title_is_embedded_anew_though_the_passage_is_the_same(
    tmp_path: Path, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served(tmp_path, embedding_server)) as engine:
        await ingested(engine, TEXTS)
        await built(engine)
        source = DocumentSource(text=TEXTS[0], id="text 0", title="On planets")
        await engine.job((await engine.submit_ingest([source], build=False)).id, wait_seconds=60)
        embedding_server.requests.clear()
        await built(engine)
        titled = [text for text in embedding_server.texts if text.startswith("On planets")]
        assert titled


async def test_where_the_vectors_are_lost_everything_is_embedded_again(
    tmp_path: Path, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served(tmp_path, embedding_server)) as engine:
        await ingested(engine, TEXTS)
        first = await built(engine)
        before = await rows(engine, first)
        await engine._stores.vectors.start_over()
        embedding_server.requests.clear()
        second = await built(engine)
        # By the repair that comes first, or by the build.
        assert set(embedding_server.texts) >= parts(before)
        assert await rows(engine, second) == before


async def test_a_fit_on_the_same_documents_is_the_same_fit_and_its_vectors_are_used_again(
    tmp_path: Path,
) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await ingested(engine, TEXTS)
        first, second = await built(engine), await built(engine)
        assert second.embedder == first.embedder
        assert second.record.embedded.anew == 0
        await ingested(engine, [*TEXTS, NEW])
        third = await built(engine)
        assert third.embedder != first.embedder
        assert third.record.embedded.reused == 0


# --- the reusing embedder ------------------------------------------------------------------


class WordCounter:
    """An embedder that keeps what it was asked for; a vector depends on the text's length alone."""

    identity, dimension = "words", 4
    unrelated = related = None
    english = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        del report
        self.asked += texts
        return np.array([self._row(text) for text in texts], dtype=np.float32).reshape(-1, self.dimension)

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        return EmbeddedQueries(await self.embed(texts))

    def _row(self, text: str) -> Vectors:
        made = np.random.default_rng(len(text)).standard_normal(self.dimension)
        return np.asarray(made / np.linalg.norm(made), dtype=np.float32)


NOTHING = EmbeddedTexts.of_pairs(())


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    opened = ChromaVectorStore(tmp_path)
    yield opened
    await opened.close()


async def shelved(store: ChromaVectorStore, texts: Sequence[str]) -> list[SpaceIndex]:
    """The vectors of ``texts`` in a space."""
    ids = [f"k{place}#0" for place in range(len(texts))]
    await store.upsert("c1-windows", ids, await WordCounter().embed(texts))
    return [SpaceIndex("c1-windows", EmbeddedTexts.of_pairs(list(zip(ids, texts, strict=True))))]


async def test_what_is_held_is_fetched_and_the_rest_embedded_in_the_order_of_the_texts(
    store: ChromaVectorStore,
) -> None:
    new = ["eeeee ffffff", "never seen", "a bb ccc", "dddd", "a bb ccc"]
    inner = WordCounter()
    embedder = ReusingEmbedder(
        inner, store, NOTHING, await shelved(store, ["a bb ccc", "dddd", "eeeee ffffff"])
    )
    found = await embedder.embed(new)
    assert inner.asked == ["never seen"]
    assert (embedder.reused, embedder.embedded) == (4, 1)
    assert np.array_equal(found, await WordCounter().embed(new))


async def test_an_entity_lies_between_its_names_and_the_windows_of_its_chunks_which_are_not_embedded_again(
    store: ChromaVectorStore,
) -> None:
    held = ["a bb ccc", "dddd", "eeeee ffffff"]
    (shelf,) = shelves = await shelved(store, held)
    inner = WordCounter()
    embedder = ReusingEmbedder(inner, store, shelf.texts, shelves)
    oak, ash = SharedText.of("Oak", ["k0", "k2", "k0"]), SharedText.of("The Ash", ["gone"])
    found = await embedder.embed(["plain words", oak, ash])
    assert inner.asked == ["plain words", "Oak", "The Ash"]
    assert (embedder.reused, embedder.embedded) == (0, 3)
    plain, own, other = await WordCounter().embed(["plain words", "Oak", "The Ash"])
    first, _, third = await WordCounter().embed(held)
    windows = (first + third) / np.linalg.norm(first + third)
    expected = [plain, (own + windows) / np.linalg.norm(own + windows), other]
    np.testing.assert_allclose(found, expected, atol=1e-6)


async def test_the_names_of_an_entity_are_not_taken_for_a_window_of_the_same_words(
    store: ChromaVectorStore,
) -> None:
    (shelf,) = shelves = await shelved(store, ["Oak", "dddd"])
    inner = WordCounter()
    embedder = ReusingEmbedder(inner, store, shelf.texts, shelves)
    await embedder.embed([SharedText.of("Oak", ["k1"]), "Oak"])
    assert inner.asked == ["Oak"]
    assert (embedder.reused, embedder.embedded) == (1, 1)


async def test_what_a_space_lacks_is_embedded_again(store: ChromaVectorStore) -> None:
    """A shelf may list an id that the space lost."""
    (shelf,) = await shelved(store, ["a bb", "ccc"])
    await store.delete(shelf.space, ["k0#0"])
    inner = WordCounter()
    await ReusingEmbedder(inner, store, NOTHING, [shelf]).embed(["a bb", "ccc"])
    assert inner.asked == ["a bb"]


async def test_progress_tells_what_is_unchanged_and_a_cancel_stops_between_two_portions(
    store: ChromaVectorStore,
) -> None:
    heard: list[Progress] = []
    embedder = ReusingEmbedder(WordCounter(), store, NOTHING, await shelved(store, ["a bb", "ccc"]))
    await embedder.embed(["a bb", "ccc"], heard.append)
    assert (embedder.reused, embedder.embedded) == (2, 0)
    assert heard[0] == Progress("embed", 0, 2, "fetching what is unchanged")

    def stop(_: Progress) -> None:
        raise Cancelled("Enough.")

    with pytest.raises(Cancelled):
        await embedder.embed(["a bb"], stop)
