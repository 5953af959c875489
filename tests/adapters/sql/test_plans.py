"""How SQLite finds the rows of a list of ids: by an index, however many rows a generation has."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Select, create_engine, select

from leanrag_engine.adapters.sql import documents
from leanrag_engine.adapters.sql.dialect.statements import among, among_pairs
from leanrag_engine.adapters.sql.generations.fields import visible
from leanrag_engine.adapters.sql.schema.tables import entities, metadata, relations


@pytest.mark.parametrize(
    "column", [entities.c.id, entities.c.position, entities.c.parent_id, relations.c.source_id], ids=str
)
def test_the_rows_of_a_list_of_ids_are_found_by_an_index(column: Column[object]) -> None:
    statement = select(column.table).where(visible(column.table, 1), among(column, ["a", "b"]))
    assert f"(edition=? AND {column.name}=?" in plan_of(statement)


def test_the_rows_of_a_list_of_pairs_are_found_by_an_index() -> None:
    statement = select(entities).where(among_pairs((entities.c.edition, entities.c.position), [(1, 2)]))
    assert "(edition=? AND position=?)" in plan_of(statement)


def test_the_chunks_of_a_document_are_found_without_those_of_others() -> None:
    # Every document that comes in asks for them: 20,000 files took 28 ms of processor time each, 400 took 7.
    asked = []

    class Recorder:
        def execute(self, statement: Select[tuple[str]]) -> Recorder:
            asked.append(statement)
            return self

        def scalars(self) -> tuple[()]:
            return ()

    documents.chunk_ids(Recorder(), 1, ["a"])
    assert "SEARCH chunks USING INDEX chunks_reading_order (collection=? AND document=?)" in plan_of(*asked)


def plan_of(statement: object) -> str:
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    compiled = statement.compile(dialect=engine.dialect)  # type: ignore[attr-defined]
    values = tuple(compiled.params[name] for name in compiled.positiontup)
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", values).all()
    engine.dispose()
    return "\n".join(str(row) for row in rows)
