"""Read the output of Microsoft GraphRAG: Parquet tables, in the column layouts from 0.1 to 2.x."""

from __future__ import annotations

from pathlib import Path

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.exchange.importing.graph import (
    ForeignDocument,
    ForeignEntity,
    ForeignGraph,
    ForeignPassage,
    ForeignRelation,
    Remarks,
)
from leanrag_engine.exchange.parquet import read_parquet_rows

from .rows import Row, find_file, get_ids, get_raw_text, get_text, refuse_columns

__all__ = ["read_graphrag"]


def read_graphrag(path: Path) -> ForeignGraph:
    """Read a project's folder or its output folder. Entities and relationships are required."""
    remarks = Remarks()
    folder = _find_output(path)
    entities = _read_table(folder, "entities", {"name": ("title", "name")})
    relations = _read_table(folder, "relationships", {"source": ("source",), "target": ("target",)})
    units = _read_table(folder, "text_units", {"text": ("text", "chunk")}, required=False)
    documents = _read_table(folder, "documents", {"id": ("id",)}, required=False)
    return ForeignGraph(
        path.resolve().name,
        [
            ForeignDocument(
                get_text(row, "id"),
                get_text(row, "title"),
                get_raw_text(row, "text", "raw_content"),
                {"date": date} if (date := get_text(row, "creation_date")) else {},
            )
            for row in documents
        ],
        [
            ForeignPassage(
                get_text(row, "id", "chunk_id"),
                get_raw_text(row, "text", "chunk"),
                get_text(row, "document_id") or next(iter(get_ids(row, "document_ids")), ""),
            )
            for row in units
        ],
        [
            ForeignEntity(
                get_text(row, "title", "name"),
                get_text(row, "type"),
                get_text(row, "description"),
                get_ids(row, "text_unit_ids"),
            )
            for row in entities
        ],
        [
            ForeignRelation(
                get_text(row, "source"),
                get_text(row, "target"),
                get_text(row, "description"),
                get_ids(row, "text_unit_ids"),
            )
            for row in relations
        ],
        remarks,
    )


def _find_output(path: Path) -> Path:
    """Return the folder with the tables: ``path``, its ``output``, or the newest run in that."""
    runs = sorted(path.glob("output/*/artifacts"), reverse=True)
    for folder in (path, path / "output", path / "artifacts", *runs):
        if _find_table(folder, "entities"):
            return folder
    raise InvalidInput(
        f"{path} holds no output of GraphRAG: entities.parquet was expected in it, or in its folder output.",
        "Give the folder that GraphRAG has written its Parquet files to.",
    )


def _find_table(folder: Path, name: str) -> Path | None:
    return find_file(folder, f"{name}.parquet", f"create_final_{name}.parquet")


def _read_table(
    folder: Path, name: str, columns: dict[str, tuple[str, ...]], *, required: bool = True
) -> list[Row]:
    path = _find_table(folder, name)
    if path is None:
        if required:
            raise InvalidInput(
                f"{folder} has no {name}.parquet.", "Give the whole output of GraphRAG: a table is missing."
            )
        return []
    rows = read_parquet_rows(path)
    refuse_columns(path, rows, columns)
    return rows
