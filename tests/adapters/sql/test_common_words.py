"""Keyword search in a large corpus: words that most rows contain are left out, all other searches are unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine

from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.sql.dialect import fulltext
from leanrag_engine.adapters.sql.dialect.fulltext_index import (
    DEFAULT,
    FullTextIndex,
    FullTextOptions,
    RowCounts,
    RowRange,
    SearchedRows,
)
from leanrag_engine.core.model import Hit, ReadDocument, window_id

pytestmark = pytest.mark.anyio

BOUND = 40
"""Instead of the real bounds, which would need thousands of rows and take seconds."""
LOW_BOUNDS = FullTextOptions(large_table=BOUND, ranked_rows=BOUND)
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.begin() as opened:
        for open_index in fulltext.EDITION:
            open_index(opened, 1).create()
        yield opened
    engine.dispose()


def add_rows(connection: Connection, texts: Sequence[str]) -> None:
    fulltext.open_entities(connection, 1).add([(row, "", "", text) for row, text in enumerate(texts)])


def find_rows(connection: Connection, query: str, limit: int = 1000) -> list[int]:
    return [row for row, _ in search_rows(connection, query, limit, LOW_BOUNDS)]


def search_rows(
    connection: Connection, query: str, limit: int, bounds: FullTextOptions = DEFAULT
) -> list[tuple[int, float]]:
    return search(fulltext.open_entities(connection, 1), query, limit, bounds)


def search(
    index: FullTextIndex, query: str, limit: int, bounds: FullTextOptions, within: RowRange | None = None
) -> list[tuple[int, float]]:
    return fulltext.search(index, query, limit, SearchedRows(RowCounts(), within=within, options=bounds))


def record_statements(connection: Connection) -> list[str]:
    """Return a list that receives every statement from here on."""
    asked: list[str] = []
    driver: Any = connection.connection.driver_connection
    driver.set_trace_callback(
        lambda each: each.startswith("--") or asked.append(each)
    )  # -- is what FTS5 asks
    return asked


async def test_only_the_row_with_the_rare_word_is_found(connection: Connection) -> None:
    add_rows(
        connection, ["common words here"] * BOUND * 2 + ["common unicorn here"] + ["common words"] * BOUND
    )
    assert find_rows(connection, "common unicorn words") == [2 * BOUND]


async def test_a_query_of_common_words_finds_the_rows_of_the_rarest(connection: Connection) -> None:
    add_rows(connection, ["everywhere"] * BOUND + ["everywhere amber"] * (BOUND + 1) + ["everywhere"])
    assert find_rows(connection, "everywhere amber") == list(range(BOUND, 2 * BOUND + 1))
    assert len(find_rows(connection, "everywhere")) == 2 * BOUND + 2


async def test_a_common_word_decides_between_rows_that_hold_the_rare_one(connection: Connection) -> None:
    texts = ["amber filler"] * 5 + ["amber birch"] * 5 + ["birch filler"] * 2 * BOUND + ["filler"] * 3 * BOUND
    add_rows(connection, texts)
    unbounded = search_rows(connection, "birch amber", 10)
    assert [row for row, _ in unbounded] == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]
    assert search_rows(connection, "birch amber", 100, LOW_BOUNDS) == unbounded


async def test_a_word_in_half_of_all_rows_has_no_weight(connection: Connection) -> None:
    add_rows(connection, ["amber filler"] * 5 + ["amber birch"] * 5 + ["birch filler"] * 2 * BOUND)
    rare = search_rows(connection, "amber", 100, LOW_BOUNDS)
    assert search_rows(connection, "birch amber", 100, LOW_BOUNDS) == rare
    assert len(rare) == 10


async def test_a_word_that_no_row_contains_does_not_count_as_the_rarest(connection: Connection) -> None:
    add_rows(connection, ["everywhere"] * (BOUND + 5))
    assert len(find_rows(connection, "nowhere everywhere \x00")) == BOUND + 5
    assert find_rows(connection, "nowhere") == []


async def test_words_are_used_from_the_rarest_on_until_the_bound_is_reached(connection: Connection) -> None:
    add_rows(connection, ["amber"] * 10 + ["birch"] * 20 + ["cedar"] * 15 + ["delta"] * 5 + ["ember"] * 10)
    # delta 5, amber 10, cedar 15: 30 in all; birch would make it 50.
    assert sorted(find_rows(connection, "birch cedar delta amber")) == [*range(10), *range(30, 50)]
    # In all exactly the bound: nothing is left out.
    assert len(find_rows(connection, "amber birch ember")) == BOUND


@pytest.mark.parametrize("rows", [BOUND, BOUND * 5])
async def test_up_to_the_bound_a_search_equals_the_unbounded_one(connection: Connection, rows: int) -> None:
    """Compare rows and scores in a small table, and for queries that match few rows of a large one."""
    rare = [
        " ".join(WORDS[(place * step) % len(WORDS)] for step in (1, 3, 4, 6)) for place in range(BOUND // 4)
    ]
    add_rows(connection, rare + ["filler"] * (rows - len(rare)))
    queries = [*WORDS, "heath amber delta", "fjord grove unknown", " ".join(WORDS)]
    if rows <= BOUND:
        queries += ["amber filler", "filler"]
    unbounded = [search_rows(connection, query, 1000) for query in queries]
    assert [search_rows(connection, query, 1000, LOW_BOUNDS) for query in queries] == unbounded
    assert all(unbounded)


async def test_a_small_table_is_searched_with_one_statement(connection: Connection) -> None:
    add_rows(connection, ["amber birch"] * BOUND)
    asked = record_statements(connection)
    find_rows(connection, "amber birch cedar")
    assert sum("MATCH" in each for each in asked) == 1


async def test_a_search_of_a_layer_counts_only_its_rows(connection: Connection) -> None:
    below = [fulltext.IndexedEntity("oak", "", "common word", ("oak",))] * (2 * BOUND)
    above = [fulltext.IndexedEntity("elm", "", "common word", ("elm",))] * 5
    fulltext.add_entities(connection, 1, list(enumerate(below + above)))
    entities = fulltext.open_entities(connection, 1)
    layer = RowRange(2 * BOUND, 2 * BOUND + 4, count=5)
    hits = search(entities, "common elm", 100, LOW_BOUNDS, layer)
    assert [row for row, _ in hits] == list(range(layer.first, layer.last + 1))
    hits = search(entities, "common", 10, LOW_BOUNDS, layer)
    assert len(hits) == layer.count
    lower = RowRange(0, 2 * BOUND - 1, count=2 * BOUND)
    hits = search(entities, "common oak", 1000, LOW_BOUNDS, lower)
    assert len(hits) == 2 * BOUND


async def test_the_size_of_a_table_is_its_number_of_rows_not_its_largest_row_number(
    connection: Connection,
) -> None:
    """Row numbers have gaps, so the largest is not the number of rows."""
    index = fulltext.open_windows(connection, 1)
    index.create()
    for document in range(5):
        for label, text in enumerate(("common words", "rare"), 1):
            window = (0, "", "", text)
            fulltext.add_windows(connection, 1, [((document, label), window)])
    assert len(search(index, "common rare", 100, LOW_BOUNDS)) == 10


async def test_a_store_of_more_passages_than_the_bound_finds_the_rare_one(
    store: SqlDatabase, parcel: Callable[..., Any]
) -> None:
    """With the real bounds and the real store."""
    await store.documents.create_collection("default")
    texts = ["The survey mentions granite."] * DEFAULT.large_table + ["The survey mentions feldspar."]
    survey = parcel("x", *texts, title="")
    await store.documents.put_all("default", [ReadDocument(survey.document, survey.chunks, ())])
    rare: list[Hit] = await store.documents.search_windows("default", "Which survey mentions feldspar?", 10)
    assert [hit.id for hit in rare] == [window_id(survey.chunks[-1].id, 0)]
    assert len(await store.documents.search_windows("default", "survey mentions", 10)) == 10


async def test_a_word_that_became_common_counts_as_common(
    store: SqlDatabase, parcel: Callable[..., Any]
) -> None:
    await store.documents.create_collection("default")
    texts = ["granite"] * DEFAULT.large_table + ["feldspar", "opal"]
    first = parcel("x", *texts, title="")
    await store.documents.put_all("default", [ReadDocument(first.document, first.chunks, ())])
    assert len(await store.documents.search_windows("default", "feldspar opal", 10)) == 2
    second = parcel("y", *["feldspar"] * DEFAULT.ranked_rows, title="")
    await store.documents.put_all("default", [ReadDocument(second.document, second.chunks, ())])
    hits = await store.documents.search_windows("default", "feldspar opal", 10)
    assert [hit.id for hit in hits] == [window_id(first.chunks[-1].id, 0)]
