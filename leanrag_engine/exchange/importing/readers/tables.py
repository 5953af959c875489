"""Read entities and relations out of rows, however their values are spelled: tables of CSV, JSON lines, and what LeanRAG's published
code reads and writes; and GraphML with networkx, of any graph and of the working folders of LightRAG and nano-graphrag."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.documents.decoding import decode
from leanrag_engine.exchange.importing.graph import (
    ForeignDocument,
    ForeignEntity,
    ForeignGraph,
    ForeignPassage,
    ForeignRelation,
    Remarks,
)

Row = Mapping[str, Any]

MOST_BYTES = 1 << 30
"""The largest file that is read. A larger one and the objects read from it would not fit into memory together."""

SURPLUS = "\0"  # The column of fields beyond the header: no file can have one of this name

_SEPARATORS = re.compile(r"<SEP>|[|;]")
"""Between ids in one text: that of LightRAG and nano-graphrag, and those of LeanRAG and of tables."""


def find_file(folder: Path, *names: str) -> Path | None:
    """Return the first of these files that is in ``folder``."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises ``InvalidInput`` if it cannot be read or is too big."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InvalidInput(
                f"{path} has {size:,} bytes; at most {MOST_BYTES:,} are read.", "Split it into parts."
            )
        return path.read_bytes()
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read: {problem.strerror}.", "Check the path.") from problem


def read_text(path: Path, remarks: Remarks) -> str:
    """Return the text of a file of any encoding. Raises ``InvalidInput`` if it is not text, or as ``read_bytes``."""
    text, metadata = decode(read_bytes(path), str(path))
    if metadata:
        remarks.add("files in another encoding than UTF-8", path.name)
    return text


def read_json(path: Path, remarks: Remarks) -> Any:
    """Return the content of a JSON file. Raises ``InvalidInput`` if it is not JSON."""
    return _parse(read_text(path, remarks), path)


def _parse(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(
            f"{path} is not JSON, or was cut off: {problem}.",
            "Export it again from the program that made it.",
        ) from problem


def read_json_lines(path: Path, remarks: Remarks) -> list[Row]:
    """Return the objects of a file with one on each line, or of a JSON array. Other lines are counted."""
    text = read_text(path, remarks)
    if text.lstrip().startswith("["):
        numbered: Iterator[tuple[int, Any]] = enumerate(_parse(text, path), 1)
    else:
        numbered = ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())
    rows: list[Row] = []
    for number, line in numbered:
        try:
            row = json.loads(line) if isinstance(line, str) else line
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            remarks.add("lines that are no JSON object", f"{path.name}, line {number}")
    return rows


def list_rows(content: Any, path: Path, remarks: Remarks) -> list[Row]:
    """Return the objects of a JSON array, or of an object of objects, whose keys are their ids then."""
    if isinstance(content, dict):
        pairs = [(key, {"id": key, **row} if isinstance(row, dict) else row) for key, row in content.items()]
    elif isinstance(content, list):
        pairs = [(str(place), row) for place, row in enumerate(content, 1)]
    else:
        raise InvalidInput(
            f"{path} holds {type(content).__name__}; objects by their ids, or a list of them, were expected.",
            "Choose the format that the file has.",
        )
    for key, row in pairs:
        if not isinstance(row, dict):
            remarks.add("entries that are no JSON object", f"{path.name}, {key}")
    return [row for _, row in pairs if isinstance(row, dict)]


def read_csv_rows(path: Path, remarks: Remarks) -> list[Row]:
    """Return the rows of a CSV file with a header, separated by commas, semicolons or tabs."""
    text = read_text(path, remarks)
    separator = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(StringIO(text), delimiter=separator, restkey=SURPLUS, restval="")
    rows: list[Row] = []
    try:
        for row in reader:
            if row.pop(SURPLUS, None):
                remarks.add("rows with more fields than the header", f"{path.name}, line {reader.line_num}")
            rows.append({key.strip().lower(): value for key, value in row.items()})
    except csv.Error as problem:
        raise InvalidInput(
            f"{path} is no CSV: {problem} (line {reader.line_num}).", "Check the quotes around that field."
        ) from problem
    return rows


def get_raw_text(row: Row, *names: str) -> str:
    """Return the first of these fields that is a text which is not empty, as it is; "" if none is."""
    return next((value for name in names if isinstance(value := row.get(name), str) and value), "")


def get_text(row: Row, *names: str) -> str:
    """Return the first of these fields that holds something, as text; "" if none does."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value == value:  # noqa: PLR0124 - NaN
            text = str(value).strip()
            # nano-graphrag and LeanRAG keep the quotes of the model's reply around names.
            if len(text) > 1 and text[0] == text[-1] == '"':
                text = text[1:-1].strip()
            if text:
                return text
    return ""


def get_ids(row: Row, *names: str) -> tuple[str, ...]:
    """Return the ids in the first of these fields that holds any: a list, or one text with separators."""
    for name in names:
        value = row.get(name)
        if isinstance(value, Sequence) and not isinstance(value, str):
            found = [str(each) for each in value if each is not None]
        else:
            found = _SEPARATORS.split(get_text(row, name))
        ids = tuple(dict.fromkeys(each.strip() for each in found if each.strip()))
        if ids:
            return ids
    return ()


def refuse_columns(path: Path, rows: Sequence[Row], wanted: Mapping[str, Sequence[str]]) -> None:
    """Raise ``InvalidInput`` unless the rows have one of the names of each wanted column."""
    if not rows:
        return
    known = {name for row in rows[:100] for name in row}
    for what, names in wanted.items():
        if known.isdisjoint(names):
            raise InvalidInput(
                f"{path} has no column for the {what}: expected {' or '.join(names)}, found {', '.join(sorted(map(str, known))) or 'none'}.",
                "Rename the column, or choose the format that the file has.",
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
    for file in [path] if path.is_file() else _list_tables(path, suffixes):
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
    is_json = path.suffix == ".json"
    rows = list_rows(read_json(path, remarks), path, remarks) if is_json else read(path, remarks)
    refuse_columns(path, rows, {"text": TEXTS, "id": KEYS})
    return rows


def _has_one(rows: Sequence[Row], names: Sequence[str]) -> bool:
    return any(name in row for row in rows[:100] for name in names)


_ENTITY_DECLARATION = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


def read_graphml(path: Path) -> ForeignGraph:
    """Read a graph without passages: descriptions of nodes and edges become the passages."""
    names, network = {}, _parse_graphml(path)
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
    graph = _parse_graphml(network)
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


def _parse_graphml(path: Path) -> Any:
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
