"""A publish reports its progress and can be cancelled at any point before its commit, without leaving rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest
from sqlalchemy import Connection, func, inspect, select, table

from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.sql.generations import publish as publishing
from leanrag_engine.core.errors import Cancelled
from leanrag_engine.core.graphs.graph import Hierarchy
from leanrag_engine.core.model import Generation
from leanrag_engine.core.ports import Progress

pytestmark = pytest.mark.anyio

Publish = Callable[..., Awaitable[Generation]]
NAMES = [f"Node {number}" for number in range(30)]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches per table, as in a large build."""
    monkeypatch.setattr(publishing, "BATCH", 7)


async def count_rows(store: SqlDatabase) -> dict[str, int]:
    """The rows of all tables, full-text ones included."""

    def count(connection: Connection) -> dict[str, int]:
        return {
            name: connection.execute(select(func.count()).select_from(table(name))).scalar_one()
            for name in inspect(connection).get_table_names()
        }

    return await store._transactions.read(count)


@pytest.mark.usefixtures("small_batches")
async def test_progress_rises_from_zero_to_nearly_all_rows(
    store: SqlDatabase, hierarchy: Callable[..., Hierarchy], publish: Publish
) -> None:
    await store.documents.create_collection("default")
    reports: list[Progress] = []
    await publish(store, hierarchy(*NAMES), report=reports.append)
    assert {each.stage for each in reports} == {"publish"}
    for part in ("preparing", "writing"):
        steps = [(each.done, each.total) for each in reports if each.message == part]
        assert steps == sorted(steps)
        assert steps[0][0] == 0
        assert len({total for _, total in steps}) == 1
        assert 0 < steps[-1][1] - steps[-1][0] <= publishing.BATCH


@pytest.mark.usefixtures("small_batches")
async def test_a_publish_cancelled_at_any_point_leaves_the_tables_unchanged(
    store: SqlDatabase, hierarchy: Callable[..., Hierarchy], publish: Publish
) -> None:
    await store.documents.create_collection("default")
    first = await publish(store, hierarchy(*NAMES))
    before = await count_rows(store)
    reports: list[Progress] = []
    await publish(store, hierarchy(*NAMES, key="again"), report=reports.append)
    third = await count_rows(store)
    for allowed in range(len(reports)):
        left = iter(range(allowed))

        def stop(_: Progress, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Cancelled("Enough.")

        with pytest.raises(Cancelled):
            await publish(store, hierarchy(*NAMES, key="more"), report=stop)
        assert await count_rows(store) == third
    assert before != third
    assert [each.number for each in await store.generations.find_all("default")][-1] == first.number
    last = await publish(store, hierarchy(*NAMES, key="more"))
    assert [each.name for each in await store.generations.layer(last.number, 0)] == NAMES
