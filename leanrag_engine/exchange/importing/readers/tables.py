"""Read tables of entities and relations: CSV, JSON lines, and what LeanRAG's published code reads and writes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.exchange.importing.graph import (
    ForeignEntity,
    ForeignGraph,
    ForeignPassage,
    ForeignRelation,
    Remarks,
)

from .rows import (
    Row,
    get_ids,
    get_raw_text,
    get_text,
    list_rows,
    read_csv_rows,
    read_json,
    read_json_lines,
    refuse_columns,
)

NAMES = ("entity_name", "name", "title", "entity", "label", "id")
TYPES = ("entity_type", "type", "category")
SOURCES = ("source", "src", "src_tgt", "src_id", "subject", "from", "head")
TARGETS = ("target", "tgt", "tgt_src", "tgt_id", "object", "to", "tail")
KINDS = ("type", "relation", "predicate", "label", "keywords")
DESCRIPTIONS = ("description", "summary", "text")
PASSAGES = ("text_unit_ids", "source_id", "chunk_id", "chunk_ids", "passage")
TEXTS = ("content", "text")
KEYS = ("hash_code", "id", "chunk_id")

ReadRows = Callable[[Path, Remarks], list[Row]]


def read_csv(path: Path) -> ForeignGraph:
    """Read a CSV file of relations or of entities, or a folder with entities.csv and relations.csv."""
    return _read_tables(path, read_csv_rows, (".csv", ".tsv"))


def read_jsonl(path: Path) -> ForeignGraph:
    """Read a file of relations or of entities with a JSON object on each line, or a folder with one of each."""
    return _read_tables(path, read_json_lines, (".jsonl", ".ndjson", ".json"))


def read_leanrag(path: Path) -> ForeignGraph:
    """Read a folder with entity.jsonl, relation.jsonl and, if it is there, the chunks that they come from."""
    if not (path / "entity.jsonl").is_file():
        raise InvalidInput(
            f"{path} has no entity.jsonl.", "Give the folder that LeanRAG's extraction has written to."
        )
    return read_jsonl(path)


def _read_tables(path: Path, read: ReadRows, suffixes: Sequence[str]) -> ForeignGraph:
    remarks = Remarks()
    entities: list[Row] = []
    relations: list[Row] = []
    passages: list[Row] = []
    files = [path] if path.is_file() else _list_tables(path, suffixes)
    for file in files:
        if path.is_dir() and "chunk" in file.stem.lower():
            passages += _read_passages(file, read, remarks)
            continue
        rows = read(file, remarks)
        if _has_one(rows, SOURCES) and _has_one(rows, TARGETS):
            relations += rows
        else:
            wanted = (
                {"name": NAMES} if "relation" not in file.stem else {"source": SOURCES, "target": TARGETS}
            )
            refuse_columns(file, rows, wanted)
            entities += rows
    # Relations may name entities by their ids.
    names = {get_text(row, "id"): get_text(row, *NAMES) for row in entities if get_text(row, "id")}
    return ForeignGraph(
        path.resolve().name,
        (),
        [ForeignPassage(get_text(row, *KEYS), get_raw_text(row, *TEXTS)) for row in passages],
        [
            ForeignEntity(
                get_text(row, *NAMES),
                get_text(row, *TYPES),
                get_text(row, *DESCRIPTIONS),
                get_ids(row, *PASSAGES) if passages else (),
            )
            for row in entities
        ],
        [_read_relation(row, names, has_passages=bool(passages)) for row in relations],
        remarks=remarks,
    )


def _read_relation(row: Row, names: Mapping[str, str], *, has_passages: bool) -> ForeignRelation:
    source, target = get_text(row, *SOURCES), get_text(row, *TARGETS)
    return ForeignRelation(
        names.get(source, source),
        names.get(target, target),
        get_text(row, *DESCRIPTIONS),
        get_ids(row, *PASSAGES) if has_passages else (),
        get_text(row, *KINDS),
    )


def _list_tables(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the tables of entities, relations and chunks in a folder. Raises ``InvalidInput`` if there are none."""
    wanted = ("entit", "node", "relation", "edge", "chunk")
    found = [
        each
        for each in sorted(folder.iterdir())
        if each.is_file()
        and any(word in each.stem.lower() for word in wanted)
        and (each.suffix.lower() in suffixes or ("chunk" in each.stem.lower() and each.suffix == ".json"))
    ]
    if not found:
        raise InvalidInput(
            f"{folder} holds no table: entities and relations were expected, ending in {' or '.join(suffixes)}.",
            "Give the file or folder with the tables, or choose another format.",
        )
    return found


def _read_passages(path: Path, read: ReadRows, remarks: Remarks) -> list[Row]:
    if path.suffix == ".json":
        rows = list_rows(read_json(path, remarks), path, remarks)
    else:
        rows = read(path, remarks)
    refuse_columns(path, rows, {"text": TEXTS, "id": KEYS})
    return rows


def _has_one(rows: Sequence[Row], names: Sequence[str]) -> bool:
    return any(name in row for row in rows[:100] for name in names)
