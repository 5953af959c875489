"""A publish tells how far it is and can be stopped anywhere before its commit: then nothing of it is left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, func, select, table, text

from leanrag_engine.adapters.sqlite import SqliteDatabase
from leanrag_engine.adapters.sqlite.generations import publish as publishing
from leanrag_engine.core.errors import Cancelled
from leanrag_engine.core.model import Generation, Hierarchy
from leanrag_engine.core.ports import Progress

pytestmark = pytest.mark.anyio

Publish = Callable[..., Awaitable[Generation]]
NAMES = [f"Node {number}" for number in range(30)]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several to each table, as a large build has."""
    monkeypatch.setattr(publishing, "BATCH", 7)


def counts(store: SqliteDatabase) -> dict[str, int]:
    """The rows of all tables, full-text ones included."""
    engine = create_engine(f"sqlite:///{Path(store.path)}")
    with engine.begin() as connection:
        names = [
            row[0] for row in connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
        ]
        found = {
            name: connection.execute(select(func.count()).select_from(table(name))).scalar_one()
            for name in names
        }
    engine.dispose()
    return found


@pytest.mark.usefixtures("small_batches")
async def test_progress_runs_from_nothing_to_nearly_all_rows_without_stepping_back(
    store: SqliteDatabase, hierarchy: Callable[..., Hierarchy], publish: Publish
) -> None:
    await store.documents.create_collection("default")
    heard: list[Progress] = []
    await publish(store, hierarchy(*NAMES), report=heard.append)
    assert {each.stage for each in heard} == {"publish"}
    for part in ("preparing", "writing"):
        steps = [(each.done, each.total) for each in heard if each.message == part]
        assert steps == sorted(steps)
        assert steps[0][0] == 0
        assert len({total for _, total in steps}) == 1
        assert 0 < steps[-1][1] - steps[-1][0] <= publishing.BATCH


@pytest.mark.usefixtures("small_batches")
async def test_a_publish_stopped_anywhere_leaves_the_generation_before_and_not_a_row_more(
    store: SqliteDatabase, hierarchy: Callable[..., Hierarchy], publish: Publish
) -> None:
    await store.documents.create_collection("default")
    first = await publish(store, hierarchy(*NAMES))
    before = counts(store)
    heard: list[Progress] = []
    await publish(store, hierarchy(*NAMES, key="again"), report=heard.append)
    third = counts(store)
    for allowed in range(len(heard)):
        left = iter(range(allowed))

        def stop(_: Progress, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Cancelled("Enough.")

        with pytest.raises(Cancelled):
            await publish(store, hierarchy(*NAMES, key="more"), report=stop)
        assert counts(store) == third
    assert before != third
    assert [each.number for each in await store.generations.find_all("default")][-1] == first.number
    last = await publish(store, hierarchy(*NAMES, key="more"))
    assert [each.name for each in await store.generations.layer(last.number, 0)] == NAMES
