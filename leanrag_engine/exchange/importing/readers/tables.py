"""Read entities and relations: tables of CSV, JSON lines, and what LeanRAG's published code reads and writes; and GraphML with
networkx, of any graph and of the working folders of LightRAG and nano-graphrag."""

import re
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.exchange.importing.graph import (
    ForeignDocument,
    ForeignEntity,
    ForeignGraph,
    ForeignPassage,
    ForeignRelation,
    Remarks,
)

from .rows import (
    Row,
    find_file,
    get_ids,
    get_raw_text,
    get_text,
    list_rows,
    read_bytes,
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


_ENTITY_DECLARATION = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


def read_graphml(path: Path) -> ForeignGraph:
    """Read a graph without passages: descriptions of nodes and edges become the passages."""
    names, network = {}, _parse(path)
    for id_, fields in network.nodes(data=True):
        names[id_] = get_text(fields, "name", "label", "title", "entity_name") or str(id_).strip('" ')
    return ForeignGraph(
        path.name,
        entities=[
            ForeignEntity(
                names[id_],
                get_text(fields, "type", "entity_type", "category"),
                get_text(fields, "description", "summary"),
            )
            for id_, fields in network.nodes(data=True)
        ],
        relations=[
            ForeignRelation(
                names[source],
                names[target],
                get_text(fields, "description", "summary"),
                type=get_text(fields, "type", "relation", "label", "keywords"),
            )
            for source, target, fields in network.edges(data=True)
        ],
    )


def read_lightrag(path: Path) -> ForeignGraph:
    """Read a working folder: the graph, the chunks and the documents; vectors and the cache of replies are left out."""
    remarks = Remarks()
    chunks = find_file(path, "kv_store_text_chunks.json")
    network = find_file(path, "graph_chunk_entity_relation.graphml")
    if chunks is None or network is None:
        missing = "graph_chunk_entity_relation.graphml" if chunks else "kv_store_text_chunks.json"
        raise InvalidInput(
            f"{path} is no working folder of LightRAG or nano-graphrag: it has no {missing}.",
            "Give the folder called working_dir there; of graphs kept in another database, export GraphML.",
        )
    passages = list_rows(read_json(chunks, remarks), chunks, remarks)
    refuse_columns(chunks, passages, {"text": ("content",)})
    documents = find_file(path, "kv_store_full_docs.json")
    texts = list_rows(read_json(documents, remarks), documents, remarks) if documents else []
    titles = {get_text(row, "full_doc_id"): get_text(row, "file_path") for row in passages}
    graph = _parse(network)
    return ForeignGraph(
        path.resolve().name,
        [_read_document(row, titles) for row in texts],
        [
            ForeignPassage(get_text(row, "id"), get_raw_text(row, "content"), get_text(row, "full_doc_id"))
            for row in sorted(passages, key=_reading_order)
        ],
        [
            ForeignEntity(
                str(id_).strip('" '),
                get_text(fields, "entity_type"),
                _join_parts(get_text(fields, "description")),
                get_ids(fields, "source_id"),
            )
            for id_, fields in graph.nodes(data=True)
        ],
        [
            ForeignRelation(
                str(source).strip('" '),
                str(target).strip('" '),
                _join_parts(get_text(fields, "description")),
                get_ids(fields, "source_id"),
                type=get_text(fields, "keywords"),
            )
            for source, target, fields in graph.edges(data=True)
        ],
        remarks=remarks,
    )


def _read_document(row: Row, titles: Mapping[str, str]) -> ForeignDocument:
    id_, text = get_text(row, "id"), get_raw_text(row, "content")
    named = titles.get(id_, "") or get_text(row, "file_path")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    # LightRAG writes unknown_source where a text was given without a file.
    title = Path(named).name if named and named != "unknown_source" else first[:80] or id_
    return ForeignDocument(id_, title, text, {"date": date} if (date := get_text(row, "create_date")) else {})


def _reading_order(row: Row) -> tuple[str, int]:
    order = get_text(row, "chunk_order_index")
    return get_text(row, "full_doc_id"), int(order) if order.isdigit() else 0


def _join_parts(description: str) -> str:
    """Join what was said of an entity at different places."""
    parts = (part.strip().strip('"').strip() for part in description.split("<SEP>"))
    return " ".join(dict.fromkeys(part for part in parts if part))


def _parse(path: Path) -> Any:
    """Return the graph. Raises ``InvalidInput`` if it is damaged, or declares entities, which can blow it up to any size."""
    data = read_bytes(path)
    # Without the zeros of UTF-16.
    if _ENTITY_DECLARATION.search(data.replace(b"\0", b"")):
        raise InvalidInput(
            f"{path} declares entities of XML, which no GraphML needs.", "Export it again without a DOCTYPE."
        )
    try:
        return nx.read_graphml(BytesIO(data), force_multigraph=True)
    except (nx.NetworkXError, ParseError, LookupError, ValueError, TypeError, AttributeError) as problem:
        raise InvalidInput(
            f"{path} is no GraphML, or was cut off: {problem}.",
            "Export it again from the program that made it.",
        ) from problem
