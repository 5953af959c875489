"""A reader gets one generation from start to end, and nothing of a document that was deleted meanwhile."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from leanrag_engine.adapters.sql.dialect.sqlite import opening
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import NotFound
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.core.runtime.threads import current_chain
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

DELETED = "The zyzzyvaq beetle lives on Skerryvore. Professor Brobdingnag discovered the zyzzyvaq beetle."
TOPICS = ("Tiree", "Barra", "Jura", "Islay", "Coll")
QUESTION = "Who discovered the zyzzyvaq beetle on Skerryvore?"


def ask(mode: str) -> Callable[[LeanRAG], Awaitable[object]]:
    return lambda engine: engine.query(Query(QUESTION, mode=mode))


READS: dict[str, tuple[Callable[[LeanRAG], Awaitable[object]], str, bool]] = {
    "names found": (ask("lca"), "entities_by_name", True),
    "seeds loaded": (ask("lca"), "entities", True),
    "keyword table gone": (ask("lca"), "search_entities", False),
    "relations gone": (ask("lca"), "relations_among", False),
    "passages loaded": (ask("lca"), "chunks", True),
    "neighbours loaded": (ask("local"), "relations_of", True),
    "layer loaded": (ask("global"), "layer", True),
    "passages found": (ask("naive"), "search_windows", True),
    "root gone": (LeanRAG.root, "layer", False),
    "page of entities": (lambda engine: engine.search_entities("beetle Skerryvore"), "search_entities", True),
    "passages of an entity": (lambda engine: engine.sources(entity="Skerryvore"), "chunks", True),
}
"""What is read, the method of the store at which the deletion happens, and whether after its call or before."""


async def _ingest(engine: LeanRAG, sources: list[DocumentSource], *, build: bool = True) -> None:
    job = await engine.job((await engine.submit_ingest(sources, build=build)).id, 60)
    assert job.status == "done", job.failures


async def _delete(engine: LeanRAG) -> None:
    job, _ = await engine.submit_delete(["secret"])
    assert job
    assert (await engine.job(job.id, 60)).status == "done"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built collection with one document that is going to be deleted."""
    folder = tmp_path_factory.mktemp("reading")

    async def fill() -> None:
        async with await LeanRAG.open(load_settings(data_dir=folder)) as engine:
            plain = [
                DocumentSource(
                    text=f"{each} lies west of Skerryvore. {each} has a lighthouse by Alan Stevenson.",
                    title=each,
                    id=each,
                )
                for each in TOPICS
            ]
            await _ingest(engine, [*plain, DocumentSource(text=DELETED, title="Beetles", id="secret")])

    anyio.run(fill)
    return folder


@pytest.fixture(autouse=True)
def _impatient_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    # A deletion waits so long for readers; here it happens in the midst of a reading, which waits for it.
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.2)


@pytest.fixture
async def engine(built: Path, tmp_path: Path) -> AsyncIterator[LeanRAG]:
    shutil.copytree(built, tmp_path / "data")
    async with await LeanRAG.open(load_settings(data_dir=tmp_path / "data")) as engine:
        yield engine


def _store_of(engine: LeanRAG, method: str) -> object:
    stores = engine._stores
    return stores.documents if hasattr(stores.documents, method) else stores.generations


class Interruption:
    """Runs ``write`` once, right before or after the first call of one method of the graph store."""

    def __init__(
        self, engine: LeanRAG, method: str, write: Callable[[], Awaitable[None]], *, after: bool
    ) -> None:
        self._store = _store_of(engine, method)
        self._method = method
        self._write = write
        self._after = after
        self.calls = 0

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        original = getattr(type(self._store), self._method)
        if self.calls > 1:
            return await original(self._store, *args, **kwargs)
        if not self._after:
            await self._interrupt()
        result = await original(self._store, *args, **kwargs)
        if self._after:
            await self._interrupt()
        return result

    async def _interrupt(self) -> None:
        if current_chain() is None:
            await self._write()
        else:  # this is a worker thread
            anyio.from_thread.run(self._write)


@pytest.mark.parametrize("case", READS)
async def test_no_reader_tells_of_a_document_that_was_deleted_in_mid_query(
    engine: LeanRAG, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    read, method, after = READS[case]
    interruption = Interruption(engine, method, lambda: _delete(engine), after=after)
    monkeypatch.setattr(_store_of(engine, method), method, interruption)
    # What a warning says of the question's own words is no text of a document.
    reply = re.sub(r"No document has '\w+'", "", repr(await read(engine)).replace(QUESTION, ""))
    assert interruption.calls > 1
    assert "Skerryvore" in reply
    assert "zyzzyvaq" not in reply
    assert "Brobdingnag" not in reply


async def test_an_entity_that_is_deleted_while_it_is_looked_up_is_not_found(
    engine: LeanRAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _store_of(engine, "entities_by_name"),
        "entities_by_name",
        Interruption(engine, "entities_by_name", lambda: _delete(engine), after=True),
    )
    with pytest.raises(NotFound):
        await engine.ancestors("Professor Brobdingnag")


async def test_a_known_entity_is_found_although_its_generation_goes_while_it_is_looked_up(
    engine: LeanRAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _store_of(engine, "entities"),
        "entities",
        Interruption(engine, "entities", lambda: _delete(engine), after=False),
    )
    chain = await engine.ancestors("Skerryvore")
    assert chain[0].name == "Skerryvore"
    assert chain[-1].parent_id is None


async def test_a_build_that_is_published_in_mid_query_leaves_the_reader_its_generation(
    engine: LeanRAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await engine.query(Query("Who discovered the zyzzyvaq beetle?"))

    async def publish() -> None:
        await _ingest(engine, [DocumentSource(text="Mull is near Iona.", title="Mull", id="mull")])

    interruption = Interruption(engine, "entities_by_name", publish, after=True)
    monkeypatch.setattr(_store_of(engine, "entities_by_name"), "entities_by_name", interruption)
    during = await engine.query(Query("Who discovered the zyzzyvaq beetle?"))
    assert interruption.calls == 1
    assert during.subgraph == before.subgraph
    assert during.context == before.context


async def test_before_any_build_too_no_reader_tells_of_a_deleted_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        sources = [
            DocumentSource(text=DELETED, title="Beetles", id="secret"),
            DocumentSource(text="Tiree lies west of Skerryvore.", title="Tiree", id="tiree"),
        ]
        await _ingest(engine, sources, build=False)
        monkeypatch.setattr(
            _store_of(engine, "chunks"),
            "chunks",
            Interruption(engine, "chunks", lambda: _delete(engine), after=True),
        )
        result = await engine.query(Query("beetle on Skerryvore"))
    assert "zyzzyvaq" not in result.context.text
    assert "Tiree" in result.context.text
