"""Read the output of Microsoft GraphRAG: Parquet tables, in the column layouts from 0.1 to 2.x."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import METHODS, Finding, Method
from leanrag_engine.exchange.importing.graph import (
    ForeignCluster,
    ForeignDocument,
    ForeignEntity,
    ForeignGraph,
    ForeignPassage,
    ForeignRelation,
    Remarks,
)
from leanrag_engine.exchange.parquet import read_parquet_rows

from .tables import Row, find_file, get_ids, get_raw_text, get_text, refuse_columns


def read_graphrag(path: Path, *, communities: bool = False) -> ForeignGraph:
    """Read a project's folder or its output folder, its ``communities`` on request. Entities and relationships are required."""
    remarks = Remarks()
    folder = _find_output(path)
    entities = _read_table(folder, "entities", {"name": ("title", "name")})
    relations = _read_table(folder, "relationships", {"source": ("source",), "target": ("target",)})
    units = _read_table(folder, "text_units", {"text": ("text", "chunk")}, required=False)
    return ForeignGraph(
        name=path.resolve().name,
        documents=[
            ForeignDocument(
                get_text(row, "id"),
                get_text(row, "title"),
                get_raw_text(row, "text", "raw_content"),
                _read_metadata(row),
            )
            for row in _read_table(folder, "documents", {"id": ("id",)}, required=False)
        ],
        passages=[
            ForeignPassage(
                get_text(row, "id", "chunk_id"),
                get_raw_text(row, "text", "chunk"),
                get_text(row, "document_id") or next(iter(get_ids(row, "document_ids")), ""),
            )
            for row in units
        ],
        entities=[
            ForeignEntity(
                get_text(row, "title", "name"),
                get_text(row, "type"),
                get_text(row, "description"),
                get_ids(row, "text_unit_ids"),
                get_ids(row, "aliases"),
            )
            for row in entities
        ],
        relations=[
            ForeignRelation(
                get_text(row, "source"),
                get_text(row, "target"),
                get_text(row, "description"),
                get_ids(row, "text_unit_ids"),
            )
            for row in relations
        ],
        clusters=_read_clusters(folder, entities, remarks) if communities else (),
        remarks=remarks,
    )


def _read_metadata(row: Row) -> dict[str, str]:
    """Return the metadata of a document, which is an object or its JSON, and the date of its file."""
    given = row.get("metadata")
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = None
    fields = given if isinstance(given, dict) else {}
    metadata = {str(key): get_text(fields, key) for key in fields if get_text(fields, key)}
    date = get_text(row, "creation_date")
    return {"date": date, **metadata} if date else metadata


def _read_clusters(folder: Path, entities: Sequence[Row], remarks: Remarks) -> list[ForeignCluster]:
    """Return the communities with their reports, each entity in its deepest one; the levels above only where
    all of those are on one level: here each cluster has its parent exactly one layer up."""
    wanted = {"entities": ("entity_ids",), "number": ("community",), "level": ("level",)}
    communities = _read_table(folder, "communities", wanted, required=False)
    rows = _read_table(folder, "community_reports", {"number": ("community",)}, required=False)
    reports = {get_text(row, "community"): row for row in rows}
    names = {get_text(row, "id"): get_text(row, "title", "name") for row in entities}
    deepest: dict[str, Row] = {}
    for row in sorted(communities, key=_get_level):
        for id_ in get_ids(row, "entity_ids"):
            if id_ in names:
                deepest[id_] = row
            else:
                remarks.add(
                    "members of communities that are no entities", f"{get_text(row, 'title')} → {id_}"
                )
    members = group((get_text(row, "community"), names[id_]) for id_, row in deepest.items())
    levels = {_get_level(row) for row in deepest.values()}
    taken = [row for row in communities if len(levels) == 1 or get_text(row, "community") in members]
    if len(levels) > 1 and (left := len(communities) - len(taken)):
        remarks.add_many("communities that hold others, left out as these are not all on one level", left, ())
    bottom = max(levels, default=0)
    return [
        _read_cluster(
            row, reports.get(get_text(row, "community"), {}), bottom if len(levels) == 1 else None, members
        )
        for row in taken
    ]


def _read_cluster(
    row: Row, report: Row, bottom: int | None, members: Mapping[str, Sequence[str]]
) -> ForeignCluster:
    """Return a community as a cluster. ``bottom``: the level of layer 1; None: there is no other layer."""
    number = get_text(row, "community")
    layer = 1 if bottom is None else bottom - _get_level(row) + 1
    findings = report.get("findings")
    parent = get_text(row, "parent")
    return ForeignCluster(
        id=number,
        layer=layer,
        name=get_text(report, "title") or get_text(row, "title"),
        description=get_text(report, "summary"),
        findings=tuple(
            Finding(get_text(each, "summary"), get_text(each, "explanation"))
            for each in (findings if isinstance(findings, list) else ())
            if isinstance(each, dict) and get_text(each, "summary")
        ),
        # Only an export of our own says how a text was made.
        method=METHODS.get(get_text(report, "written_by"), Method.IMPORTED),
        parent="" if bottom is None or parent == "-1" else parent,
        members=tuple(members.get(number, ())) if layer == 1 else (),
    )


def _get_level(row: Row) -> int:
    level = get_text(row, "level")
    return int(level) if level.isdigit() else 0


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
    folder: Path, name: str, columns: Mapping[str, Sequence[str]], *, required: bool = True
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
