"""A large corpus: words that most rows hold take no part in a search, and every other search is what it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event

from leanrag_engine.adapters.sqlite import SqliteDatabase
from leanrag_engine.adapters.sqlite.dialect import fulltext
from leanrag_engine.core.model import Hit

pytestmark = pytest.mark.anyio

BOUND = 40
"""Instead of the real bound: a row more or less is the same there, and thousands would take seconds."""
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.begin() as opened:
        fulltext.create_facts(opened, 1)
        fulltext.create_entities(opened, 1)
        yield opened
    engine.dispose()


@pytest.fixture
def low_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fulltext, "RANKED", BOUND)
    monkeypatch.setattr(fulltext, "LARGE", BOUND)


def facts(connection: Connection, texts: Sequence[str]) -> None:
    fulltext.add_facts(connection, 1, list(enumerate(texts)))


def found(connection: Connection, query: str, limit: int = 1000) -> list[int]:
    return [row for row, _ in fulltext.search_facts(connection, 1, query, limit)]


def statements(connection: Connection) -> list[str]:
    """What is asked of the database from here on."""
    asked: list[str] = []
    engine: Engine = connection.engine
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(str(given[2])))
    return asked


@pytest.mark.usefixtures("low_bound")
async def test_the_row_with_the_rare_word_comes_first_and_common_words_bring_no_row(
    connection: Connection,
) -> None:
    facts(connection, ["common words here"] * BOUND * 2 + ["common unicorn here"] + ["common words"] * BOUND)
    assert found(connection, "common unicorn words") == [2 * BOUND]


@pytest.mark.usefixtures("low_bound")
async def test_common_words_alone_bring_the_rows_of_the_rarest(connection: Connection) -> None:
    facts(connection, ["everywhere"] * BOUND + ["everywhere amber"] * (BOUND + 1) + ["everywhere"])
    assert found(connection, "everywhere amber") == list(range(BOUND, 2 * BOUND + 1))
    assert len(found(connection, "everywhere")) == 2 * BOUND + 2


@pytest.mark.usefixtures("low_bound")
async def test_a_word_that_no_row_holds_does_not_count_as_the_rarest(connection: Connection) -> None:
    facts(connection, ["everywhere"] * (BOUND + 5))
    assert len(found(connection, "nowhere everywhere \x00")) == BOUND + 5
    assert found(connection, "nowhere") == []


@pytest.mark.usefixtures("low_bound")
async def test_words_are_taken_from_the_rarest_on_until_the_bound_is_reached(connection: Connection) -> None:
    facts(connection, ["amber"] * 10 + ["birch"] * 20 + ["cedar"] * 15 + ["delta"] * 5 + ["ember"] * 10)
    # delta 5, amber 10, cedar 15: 30 in all; birch would make it 50.
    assert sorted(found(connection, "birch cedar delta amber")) == [*range(10), *range(30, 50)]
    # In all exactly the bound: nothing is left out.
    assert len(found(connection, "amber birch ember")) == BOUND


@pytest.mark.parametrize("rows", [BOUND, BOUND * 5])
async def test_up_to_the_bound_a_search_is_the_unbounded_one(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Rows and scores, in a small table and for queries with few rows in a large one."""
    rare = [
        " ".join(WORDS[(place * step) % len(WORDS)] for step in (1, 3, 4, 6)) for place in range(BOUND // 4)
    ]
    facts(connection, rare + ["filler"] * (rows - len(rare)))
    queries = [*WORDS, "heath amber delta", "fjord grove unknown", " ".join(WORDS)]
    if rows <= BOUND:
        queries += ["amber filler", "filler"]
    unbounded = [fulltext.search_facts(connection, 1, query, 1000) for query in queries]
    monkeypatch.setattr(fulltext, "RANKED", BOUND)
    monkeypatch.setattr(fulltext, "LARGE", BOUND)
    assert [fulltext.search_facts(connection, 1, query, 1000) for query in queries] == unbounded
    assert all(unbounded)


@pytest.mark.usefixtures("low_bound")
async def test_a_small_table_is_asked_once(connection: Connection) -> None:
    facts(connection, ["amber birch"] * BOUND)
    asked = statements(connection)
    found(connection, "amber birch cedar")
    assert sum("MATCH" in each for each in asked) == 1


@pytest.mark.usefixtures("low_bound")
async def test_only_the_rows_of_a_layer_count_for_a_search_of_it(connection: Connection) -> None:
    below = [fulltext.IndexedEntity("oak", "", "common word", ("oak",))] * (2 * BOUND)
    above = [fulltext.IndexedEntity("elm", "", "common word", ("elm",))] * 5
    fulltext.add_entities(connection, 1, list(enumerate(below + above)))
    layer = range(2 * BOUND, 2 * BOUND + 5)
    hits = fulltext.search_entities(connection, 1, "common elm", 100, layer)
    assert [row for row, _ in hits] == list(layer)
    hits = fulltext.search_entities(connection, 1, "common", 10, layer)
    assert len(hits) == len(layer)
    assert len(fulltext.search_entities(connection, 1, "common oak", 1000, range(2 * BOUND))) == 2 * BOUND


@pytest.mark.usefixtures("low_bound")
async def test_passages_of_many_documents_are_counted_not_their_row_numbers(connection: Connection) -> None:
    """Their row numbers are far apart, so that the largest says nothing of how many there are."""
    fulltext.create_chunks(connection, 1)
    for document in range(5):
        chunks = [fulltext.IndexedChunk(1, "", "", "common words"), fulltext.IndexedChunk(2, "", "", "rare")]
        fulltext.add_chunks(connection, 1, document, chunks)
    assert len(fulltext.search_chunks(connection, 1, "common rare", 100)) == 10


async def test_a_store_of_more_passages_than_the_bound_finds_the_rare_one(
    store: SqliteDatabase, parcel: Callable[..., Any]
) -> None:
    """With the real bound and the real store."""
    await store.documents.create_collection("default")
    texts = ["The survey mentions granite."] * fulltext.LARGE + ["The survey mentions feldspar."]
    held = parcel("x", *texts, title="")
    await store.documents.put("default", held.document, held.chunks, ())
    rare: list[Hit] = await store.documents.search_chunks("default", "Which survey mentions feldspar?", 10)
    assert [hit.id for hit in rare] == [held.chunks[-1].id]
    assert len(await store.documents.search_chunks("default", "survey mentions", 10)) == 10
