"""Graphs of other programs, imported by the command line, and what works on them afterwards."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow as pa
import pytest
from leanrag_tests_forks import run as run_process
from pyarrow import parquet
from typer.testing import CliRunner, Result

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.exchange.formats import ImportFormat
from leanrag_engine.exchange.parquet import read_parquet_rows
from leanrag_mcp.cli.main import app

BOOK = (
    "Marley was dead: to begin with. Scrooge signed the register of his burial.\n\n"
    "Scrooge and Marley were partners for many years. The clerk of Scrooge was Bob Cratchit.\n\n"
    "Tiny Tim was the son of Bob Cratchit. He bore a little crutch."
)
FIRST, SECOND, THIRD = BOOK.split("\n\n")

Table = Sequence[Mapping[str, Any]]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [*words], env={"COLUMNS": "200"})


@pytest.fixture
def leanrag(tmp_path: Path) -> Callable[..., Any]:
    """Run a command on a data folder of the test's own and return its JSON."""

    def run_json(*words: str) -> Any:
        result = run(*words, "--data-dir", str(tmp_path / "index"), "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run_json


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str, Path], str]:
    """Import what cannot be taken; return what is said of it, after a look that nothing was stored."""

    def import_bad(format_: str, path: Path) -> str:
        folder = ("--data-dir", str(tmp_path / "index"))
        result = run("import", format_, str(path), *folder)
        assert result.exit_code == 1, result.output
        assert "Collection 'default' holds no document yet" in run("ls", *folder).output
        return " ".join(result.output.split())

    return import_bad


def write_tables(folder: Path, prefix: str = "", **tables: Table) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        parquet.write_table(
            pa.Table.from_pylist([dict(row) for row in rows]), folder / f"{prefix}{name}.parquet"
        )
    return folder


def graphrag_tables() -> dict[str, list[dict[str, Any]]]:
    """A small index as GraphRAG 2 writes it; the first unit begins with metadata that is not in the document."""
    return {
        "documents": [{"id": "doc", "title": "carol.txt", "text": BOOK, "creation_date": "2025-09-16 16:20:36 -0700"}],
        "text_units": [
            {"id": "u1", "text": f"title: carol.txt.\n{FIRST}", "document_id": "doc"},
            {"id": "u2", "text": SECOND, "document_id": "doc"},
            {"id": "u3", "text": THIRD, "document_id": "doc"},
        ],
        "entities": [
            {"id": "1", "title": "SCROOGE", "type": "PERSON", "description": "Scrooge is a miser.", "text_unit_ids": ["u1", "u2"]},
            {"id": "2", "title": "MARLEY", "type": "PERSON", "description": "Marley is dead.", "text_unit_ids": ["u1", "u2"]},
            {"id": "3", "title": "BOB CRATCHIT", "type": "PERSON", "description": "Bob is a clerk.", "text_unit_ids": ["u2", "u3"]},
            {"id": "4", "title": "TINY TIM", "type": "PERSON", "description": "Tim is a child.", "text_unit_ids": ["u3"]},
        ],
        "relationships": [
            {"source": "SCROOGE", "target": "MARLEY", "description": "They were partners.", "text_unit_ids": ["u2"]},
            {"source": "BOB CRATCHIT", "target": "SCROOGE", "description": "Bob works for Scrooge.", "text_unit_ids": ["u2"]},
            {"source": "BOB CRATCHIT", "target": "TINY TIM", "description": "Bob is his father.", "text_unit_ids": ["u3"]},
        ],
    }  # fmt: skip


def write_lines(path: Path, *rows: object) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def reasons(report: Mapping[str, Any]) -> dict[str, int]:
    return {each["reason"]: each["count"] for each in report["result"]["remarks"]}


def test_an_index_of_graphrag_is_taken_with_its_passages_and_answers_with_citations_into_them(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    report = leanrag("import", "graphrag", str(write_tables(tmp_path / "output", **graphrag_tables())))
    counts = {"documents": 1, "passages": 3, "entities": 4, "relations": 3}
    assert report["result"]["found"] == report["result"]["taken"] == counts
    assert report["result"]["remarks"] == []
    assert report["result"]["layers"][0] == {"layer": 0, "entities": 4, "relations": 3}

    answer = leanrag("query", "Who is the father of Tiny Tim?")
    relation = next(each for each in answer["relations"] if each["description"] == "Bob is his father.")
    assert {relation["source"], relation["target"]} == {"BOB CRATCHIT", "TINY TIM"}
    assert relation["method"] == "imported"
    assert "BOB CRATCHIT — TINY TIM: Bob is his father. [d1:c3]" in answer["context"]
    assert "[d1:c3] Tiny Tim was the son of Bob Cratchit." in answer["context"]
    (document,) = leanrag("ls")["documents"]
    assert (document["title"], document["chunks"], document["date"]) == ("carol.txt", 3, "2025-09-16")
    assert document["metadata"]["imported_from"] == "graphrag"
    shown = leanrag("show", "d1:c3")
    assert BOOK[shown["start"] : shown["end"]] == shown["text"] == THIRD
    status = leanrag("status")
    assert (status["extracts"], status["graph"]) == ({"imported": 3}, "imported graph")


def test_an_import_of_the_same_again_changes_nothing(tmp_path: Path, leanrag: Callable[..., Any]) -> None:
    folder = write_tables(tmp_path / "output", **graphrag_tables())
    first = leanrag("import", "graphrag", str(folder))
    again = leanrag("import", "graphrag", str(folder))
    assert (first["result"]["changed"], again["result"]["changed"]) == (1, 0)
    assert "generation" not in again["result"]
    assert leanrag("status")["generation"] == 1


def test_tables_of_older_releases_of_graphrag_are_taken_from_the_folder_of_a_project(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    tables = graphrag_tables()
    for entity in tables["entities"]:
        entity["name"] = entity.pop("title")
    for unit in tables["text_units"]:
        unit["document_ids"] = [unit.pop("document_id")]
    tables["documents"][0]["raw_content"] = tables["documents"][0].pop("text")
    tables["communities"] = [{"id": "0", "title": "Community 0", "level": 0, "relationship_ids": ["r1"]}]
    write_tables(tmp_path / "project/output/20240801-120000/artifacts", "create_final_", **tables)
    report = leanrag("import", "graphrag", str(tmp_path / "project"), "--no-build")
    assert report["result"]["taken"] == {"documents": 1, "passages": 3, "entities": 4, "relations": 3}
    assert report["result"]["remarks"] == []


def test_what_cannot_be_taken_of_an_index_is_counted_by_reason_and_the_rest_is_taken(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    tables = graphrag_tables()
    long_name = "Fog " * 250
    tables["entities"] += [
        {"title": "Scrooge", "type": "PERSON", "description": "He is rich.", "text_unit_ids": ["u1"]},
        {"title": long_name, "description": "It is everywhere.", "text_unit_ids": ["u1"]},
        {"title": "LONDON", "type": "CITY", "description": "", "text_unit_ids": ["nowhere"]},
        {"title": " ", "description": "Nameless.", "text_unit_ids": ["u1"]},
    ]
    tables["relationships"] += [
        {"source": "SCROOGE", "target": "Scrooge", "description": "Himself.", "text_unit_ids": ["u1"]},
        {"source": "SCROOGE", "target": "FRED", "description": "Fred is his nephew.", "text_unit_ids": ["u1"]},
        {"source": "SCROOGE", "target": "MARLEY", "description": "They were partners.", "text_unit_ids": ["u2"]},
        {"source": "SCROOGE", "target": "", "description": "He is alone.", "text_unit_ids": ["u2"]},
        {"source": "TINY TIM", "target": "SCROOGE", "description": "", "text_unit_ids": ["u3"]},
        {"source": "SCROOGE", "target": "TINY TIM", "description": "He becomes a second father.", "text_unit_ids": ["u3"]},
    ]  # fmt: skip
    tables["text_units"] += [
        {"id": "u1", "text": "Another text of the same id.", "document_id": "doc"},
        {"id": "u4", "text": " ", "document_id": "doc"},
        {"id": "u5", "text": "A passage of a lost document.", "document_id": "lost"},
    ]
    report = leanrag("import", "graphrag", str(write_tables(tmp_path / "output", **tables)))
    assert reasons(report) == {
        "entities of the same name as another, merged with it": 1,
        "entities whose name was shortened to 200 characters": 1,
        "entities without a description, taken as they are": 1,
        "references to a passage that is not there": 1,
        "entities without a name": 1,
        "relations of an entity with itself": 1,
        "ends of relations that no entity describes, taken as entities": 1,
        "relations that are there twice, taken once": 1,
        "relations without a source or a target": 1,
        "relations without a description, taken as they are": 1,
        "passages with the id of another": 1,
        "passages without text": 1,
        "passages whose document is not there, taken into a document of their own": 1,
    }
    examples = {each["reason"]: each["examples"] for each in report["result"]["remarks"]}
    assert examples["references to a passage that is not there"] == ["LONDON → nowhere"]
    # Fog, London and Fred are new; London and what has no passage is written out.
    assert report["result"]["taken"] == {"documents": 3, "passages": 5, "entities": 7, "relations": 6}
    assert report["result"]["layers"][0] == {"layer": 0, "entities": 7, "relations": 5}
    titles = {each["title"] for each in leanrag("ls")["documents"]}
    assert titles == {"carol.txt", "lost", "Entities and relations of output"}


def test_a_passage_that_is_not_in_its_document_is_joined_with_the_others(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    tables = graphrag_tables()
    tables["text_units"][1]["text"] = "Words that the document does not have."
    report = leanrag("import", "graphrag", str(write_tables(tmp_path / "output", **tables)), "--no-build")
    assert reasons(report) == {
        "documents whose text lacks some of their passages: the passages were joined": 1
    }
    assert leanrag("show", "d1:c2")["text"] == "Words that the document does not have."


def test_an_imported_collection_grows_by_documents_and_forgets_them_and_the_import(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    leanrag("import", "graphrag", str(write_tables(tmp_path / "output", **graphrag_tables())))
    note = tmp_path / "fred.md"
    note.write_text("# Fred\n\nFred is the nephew of Scrooge. Fred keeps Christmas merrily.\n")
    leanrag("ingest", str(note))
    assert {each["number"] for each in leanrag("ls")["documents"]} == {"d1", "d2"}
    assert "nephew of Scrooge" in leanrag("query", "Who is Fred?")["context"]
    leanrag("forget", "graphrag:doc")
    leanrag("build")
    assert [each["title"] for each in leanrag("ls")["documents"]] == ["Fred"]
    assert "miser" not in leanrag("query", "Who is Scrooge?")["context"]


def test_a_table_that_is_cut_off_or_has_other_columns_is_refused_and_nothing_is_stored(
    tmp_path: Path, refused: Callable[[str, Path], str]
) -> None:
    folder = write_tables(tmp_path / "output", **graphrag_tables())
    whole = (folder / "relationships.parquet").read_bytes()
    (folder / "relationships.parquet").write_bytes(whole[: len(whole) // 2])
    assert "relationships.parquet is no Parquet file, or is damaged or cut off" in refused("graphrag", folder)
    write_tables(folder, relationships=[{"from": "SCROOGE", "to": "MARLEY"}])
    assert "has no column for the source: expected source, found from, to" in refused("graphrag", folder)
    (folder / "relationships.parquet").unlink()
    assert "has no relationships.parquet" in refused("graphrag", folder)
    assert "holds no output of GraphRAG" in refused("graphrag", folder.parent / "index")
    write_tables(
        folder, relationships=graphrag_tables()["relationships"][:0] or [{"source": "", "target": ""}]
    )
    write_tables(folder, entities=[{"title": "", "description": "x"}])
    assert "holds no entity that can be taken" in refused("graphrag", folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("format_", [*ImportFormat])
def test_a_pipe_is_refused_and_not_waited_for(
    tmp_path: Path, refused: Callable[[str, Path], str], format_: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "no file or folder" in refused(format_, tmp_path / "pipe")


def test_without_pyarrow_an_import_of_tables_names_the_extra_that_brings_it(
    tmp_path: Path, refused: Callable[[str, Path], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tables(tmp_path / "output", **graphrag_tables())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'leanrag-mcp[parquet]'" in refused("graphrag", folder)


def test_a_table_that_unpacks_to_more_than_the_limit_is_refused_before_it_fills_the_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bomb.parquet"
    parquet.write_table(pa.table({"title": ["x" * 100_000] * 1_000}), path)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InvalidInput, match="unpacks to more than 10,000,000 bytes"):
        read_parquet_rows(path, most_bytes=10_000_000)


def test_an_openie_file_is_taken_with_a_document_for_each_passage(
    tmp_path: Path, leanrag: Callable[..., Any], refused: Callable[[str, Path], str]
) -> None:
    path = tmp_path / "openie.json"
    path.write_text('{"docs": [{"idx"')
    assert "is not JSON" in refused("openie", path)
    docs = [
        {
            "idx": 0,
            "passage": "Tiny Tim\nTiny Tim is the son of Bob Cratchit.",
            "extracted_entities": ["Tiny Tim", "Bob Cratchit", 7],
            "extracted_triples": [["Tiny Tim", "is the son of", "Bob Cratchit"], ["Tiny Tim", "walks"]],
        },
        {"idx": 1, "passage": "", "extracted_entities": ["Fog"], "extracted_triples": []},
    ]
    path.write_text(json.dumps({"docs": docs}))
    report = leanrag("import", "openie", str(path))
    assert report["result"]["taken"] == {"documents": 1, "passages": 1, "entities": 2, "relations": 1}
    assert report["result"]["found"]["entities"] == 3
    assert reasons(report) == {
        "malformed entities": 1,
        "malformed triples": 1,
        "passages without text": 1,
        "titles of passages, taken as entities that relate to those of the passage": 1,
    }
    answer = leanrag("query", "Whose son is Tiny Tim?")
    assert "[d1:c1] Tiny Tim is the son of Bob Cratchit." in answer["context"]


def test_an_export_to_parquet_comes_back_as_an_index_of_graphrag_with_the_same_graph_and_passages(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    note = tmp_path / "carol.md"
    note.write_text(
        f"---\nauthor: Dickens\ndate: 1843-12-19\n---\n# Carol\n\n{BOOK}\n\n# Stave Two\n\nScrooge met the Ghost of Christmas Past.\n"
    )
    leanrag("ingest", str(note))
    words = ("--data-dir", str(tmp_path / "index"))
    assert run("export", "parquet", str(tmp_path / "tables"), *words).exit_code == 0
    assert run("export", "graphml", str(tmp_path / "before.graphml"), *words).exit_code == 0
    report = leanrag("import", "graphrag", str(tmp_path / "tables"), "--communities", "--collection", "again")
    assert report["result"]["found"] == report["result"]["taken"]
    again = ("--collection", "again")
    assert run("export", "graphml", str(tmp_path / "after.graphml"), *words, *again).exit_code == 0
    before, after = (read_base(tmp_path / f"{name}.graphml") for name in ("before", "after"))
    assert before[0]
    assert before[1]
    assert after == before
    old, new = (leanrag("show", "d1:c1", *each) for each in ((), again))
    assert (old["text"], old["start"], old["end"]) == (new["text"], new["start"], new["end"])
    (document,) = leanrag("ls", *again)["documents"]
    assert document["metadata"] == {"author": "Dickens", "date": "1843-12-19", "imported_from": "graphrag"}
    assert document["date"] == "1843-12-19"
    reports = parquet.read_table(tmp_path / "tables/community_reports.parquet").to_pylist()
    assert [(each["level"], each["parent"]) for each in reports] == [(0, -1)]
    assert reports[0]["size"] == len(before[0])


def read_base(path: Path) -> tuple[dict[str, Any], dict[Any, Any]]:
    """Return descriptions and citations of G0's entities by name, and of its relations by their ends."""
    network = nx.read_graphml(path, force_multigraph=True)
    names = {id_: fields["name"] for id_, fields in network.nodes(data=True) if fields["layer"] == 0}
    return (
        {
            fields["name"]: (fields.get("description"), fields["type"], fields["citations"])
            for id_, fields in network.nodes(data=True)
            if id_ in names
        },
        {
            frozenset((names[source], names[target])): (fields.get("description"), fields["citations"])
            for source, target, fields in network.edges(data=True)
            if fields["kind"] == "relation" and source in names
        },
    )


def test_communities_of_an_index_become_the_first_hierarchy_with_their_reports(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    tables = graphrag_tables()
    names = [f"LAMP {letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWX"]
    tables["entities"] = [
        {
            "id": f"e{place}",
            "title": name,
            "description": f"{name} burns.",
            "text_unit_ids": [f"u{place % 3 + 1}"],
        }
        for place, name in enumerate(names)
    ]
    tables["relationships"] = [
        {"source": names[0], "target": names[23], "description": "Lit at once.", "text_unit_ids": ["u1"]}
    ]
    groups = [[f"e{place}" for place in range(start, start + 8)] for start in (0, 8)]
    tables["communities"] = [
        {"community": number, "level": 0, "parent": -1, "title": f"Community {number}", "entity_ids": group}
        for number, group in enumerate(groups)
    ]
    tables["communities"][0]["entity_ids"] = [*groups[0], "no entity"]
    tables["community_reports"] = [
        {
            "community": number,
            "title": f"Street {number}",
            "summary": f"Street {number} is lit by eight lamps.",
            "findings": [{"summary": "It is bright.", "explanation": "All of them burn."}],
        }
        for number in range(2)
    ]
    folder = str(write_tables(tmp_path / "output", **tables))
    report = leanrag("import", "graphrag", folder, "--communities")
    assert reasons(report)["members of communities that are no entities"] == 1
    assert report["result"]["mode"] == "update"
    assert report["result"]["reason"] == "it keeps the clusters of an import"
    path = leanrag("show", "LAMP A")["ancestors"]["path"]
    assert [each["name"] for each in path[:2]] == ["LAMP A", "Street 0"]
    assert path[1]["description"] == "Street 0 is lit by eight lamps."
    assert "Hidden" not in path[-1]["description"]
    cluster = leanrag("show", "Street 0")
    assert "It is bright." in json.dumps(cluster)
    assert cluster["stale"] == "1 joined"  # a relation with an entity outside all communities is no change

    again = run(
        "import", "graphrag", folder, "--communities", "--no-build", "--data-dir", str(tmp_path / "index")
    )
    assert again.exit_code == 1
    assert "Communities are kept by the build" in again.output
    (tmp_path / "output/text_units.parquet").unlink()
    other = run("import", "graphrag", folder, "--communities", "--data-dir", str(tmp_path / "index"))
    assert other.exit_code == 1
    assert "has a hierarchy already" in " ".join(other.output.split())


def read_layers(folder: Path) -> list[Any]:
    """Return the communities of an export with what is said of them and who belongs to them."""
    names = {
        each["id"]: each["title"] for each in parquet.read_table(folder / "entities.parquet").to_pylist()
    }
    members = {
        each["community"]: sorted(names[id_] for id_ in each["entity_ids"])
        for each in parquet.read_table(folder / "communities.parquet").to_pylist()
    }
    return sorted(
        (
            each["level"],
            each["title"],
            each["summary"],
            str(each["findings"]),
            each["written_by"],
            members[each["community"]],
        )
        for each in parquet.read_table(folder / "community_reports.parquet").to_pylist()
    )


KILLED_AMONG_ROWS = """
import os, signal, sys
from leanrag_engine.adapters.sql.dialect import fulltext
def add_and_die(connection, collection, rows):
    os.kill(os.getpid(), signal.SIGKILL)
fulltext.add_windows = add_and_die
from leanrag_mcp.cli.main import main
main()
"""


def test_an_import_that_is_killed_while_it_stores_documents_leaves_nothing_and_is_whole_the_next_time(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    tables = graphrag_tables()
    tables["documents"] = [{"id": id_, "title": id_, "text": BOOK} for id_ in ("a", "b")]
    tables["text_units"] = [
        {"id": f"u{place}", "text": text, "document_id": id_}
        for place, (text, id_) in enumerate([(FIRST, "a"), (SECOND, "a"), (THIRD, "b")], 1)
    ]
    folder = str(write_tables(tmp_path / "output", **tables))
    words = ["import", "graphrag", folder, "--data-dir", str(tmp_path / "index")]
    killed = run_process("-c", KILLED_AMONG_ROWS, *words)
    assert killed.returncode == -signal.SIGKILL
    assert leanrag("ls")["documents"] == []
    assert leanrag(*words[:3])["result"]["taken"]["passages"] == 3
    assert [each["chunks"] for each in leanrag("ls")["documents"]] == [2, 1]


def write_lightrag(folder: Path) -> Path:
    """Write a working folder as LightRAG does; entities and relations name their chunks with its separator."""
    folder.mkdir()
    chunks = {
        f"chunk-{place}": {
            "content": text,
            "full_doc_id": "doc-1",
            "chunk_order_index": place,
            "file_path": "carol.txt",
        }
        for place, text in enumerate(BOOK.split("\n\n"))
    }
    (folder / "kv_store_text_chunks.json").write_text(json.dumps(dict(reversed(chunks.items()))))
    (folder / "kv_store_full_docs.json").write_text(json.dumps({"doc-1": {"content": BOOK}}))
    graph = nx.Graph()
    graph.add_node(
        "Scrooge",
        entity_type="person",
        description="A miser.<SEP>A miser.<SEP>He signs.",
        source_id="chunk-0<SEP>chunk-1",
    )
    graph.add_node(
        '"BOB CRATCHIT"', entity_type='"PERSON"', description='"A clerk."', source_id="chunk-1<SEP>chunk-9"
    )
    graph.add_edge(
        "Scrooge",
        '"BOB CRATCHIT"',
        description="Bob is his clerk.",
        keywords="work",
        source_id="chunk-1",
        weight=1.0,
    )
    nx.write_graphml(graph, folder / "graph_chunk_entity_relation.graphml")
    (folder / "vdb_entities.json").write_text("not read")
    return folder


def test_a_working_folder_of_lightrag_is_taken_with_its_chunks_in_reading_order(
    tmp_path: Path, leanrag: Callable[..., Any], refused: Callable[[str, Path], str]
) -> None:
    folder = write_lightrag(tmp_path / "work")
    network = folder / "graph_chunk_entity_relation.graphml"
    whole = network.read_text()
    network.write_text(whole[:-40])
    assert "is no GraphML, or was cut off" in refused("lightrag", folder)
    network.write_text(whole)
    report = leanrag("import", "lightrag", str(folder))
    assert report["result"]["taken"] == {"documents": 1, "passages": 3, "entities": 2, "relations": 1}
    assert reasons(report) == {"references to a passage that is not there": 1}
    assert [each["title"] for each in leanrag("ls")["documents"]] == ["carol.txt"]
    assert leanrag("show", "d1:c2")["text"] == SECOND
    assert leanrag("show", "Scrooge")["ancestors"]["path"][0]["description"] == "A miser. He signs."
    answer = leanrag("query", "Who was the clerk of Scrooge?")
    assert "Bob is his clerk. [d1:c2]" in answer["context"]


def test_tables_of_leanrag_are_taken_with_their_chunks(tmp_path: Path, leanrag: Callable[..., Any]) -> None:
    folder = tmp_path / "mix"
    folder.mkdir()
    write_lines(
        folder / "entity.jsonl",
        {"entity_name": '"SCROOGE"', "entity_type": "PERSON", "description": "A miser.", "source_id": "h1|h2", "degree": 1},
        {"entity_name": '"TINY TIM"', "entity_type": "PERSON", "description": "A child.", "source_id": "h3", "degree": 1},
    )  # fmt: skip
    write_lines(
        folder / "relation.jsonl",
        {"src_tgt": '"SCROOGE"', "tgt_src": '"TINY TIM"', "description": "He saves him.", "weight": 1, "source_id": "h3"},
        "no object",
    )  # fmt: skip
    chunks = [{"hash_code": f"h{place}", "text": text} for place, text in enumerate(BOOK.split("\n\n"), 1)]
    (folder / "mix_chunk.json").write_text(json.dumps(chunks))
    report = leanrag("import", "leanrag", str(folder))
    assert report["result"]["taken"] == {"documents": 1, "passages": 3, "entities": 2, "relations": 1}
    assert reasons(report) == {
        "lines that are no JSON object": 1,
        "passages whose document is not there, taken into a document of their own": 3,
    }
    assert "He saves him. [d1:c3]" in leanrag("query", "Who saves Tiny Tim?")["context"]


def test_a_graph_without_text_is_written_out_so_that_each_description_can_be_cited(
    tmp_path: Path, leanrag: Callable[..., Any], refused: Callable[[str, Path], str]
) -> None:
    graph = nx.DiGraph()
    graph.add_node("n1", label="Scrooge", type="person", description="Scrooge is a miser.")
    graph.add_node("n2", label="Marley", description="Marley is a ghost.")
    graph.add_edge("n1", "n2", relation="partner of")
    graph.add_edge("n2", "n1", description="Marley warns Scrooge.")
    path = tmp_path / "graph.graphml"
    nx.write_graphml(graph, path)
    whole = path.read_text()
    path.write_text(whole.replace("<graphml", '<!DOCTYPE x [<!ENTITY a "aaaa">]><graphml', 1))
    assert "declares entities of XML" in refused("graphml", path)
    path.write_text(whole.replace("utf-8", "utf-81", 1))
    assert "is no GraphML, or was cut off: unknown encoding: utf-81" in refused("graphml", path)
    path.write_text(whole)
    report = leanrag("import", "graphml", str(path))
    assert report["result"]["taken"] == {"documents": 1, "passages": 2, "entities": 2, "relations": 2}
    assert report["result"]["found"]["documents"] == 0
    (document,) = leanrag("ls")["documents"]
    assert document["title"] == "Entities and relations of graph.graphml"
    text = leanrag("show", "d1:c1")["text"]
    assert text == "Scrooge: Scrooge is a miser.\nScrooge – Marley: partner of"
    assert "Marley warns Scrooge. [d1:c2]" in leanrag("query", "Whom does Marley warn?")["context"]


def test_tables_in_another_encoding_with_semicolons_and_a_cycle_are_taken(
    tmp_path: Path, leanrag: Callable[..., Any], refused: Callable[[str, Path], str]
) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "relations.csv").write_text("a;b\n1;2\n")
    assert "has no column for the source" in refused("csv", folder)
    people = ["Jörg Müller", "Zoë Brontë", "François Lefèvre", "Søren Ångström"]
    rows = "".join(
        f"{place};{name};Über {name} weiß man fast nichts, außer daß er grüßt.\n"
        for place, name in enumerate(people)
    )
    (folder / "entities.csv").write_bytes(f"id;name;description\n{rows}".encode("cp1252"))
    circle = "".join(
        f"{place};{(place + 1) % 4};kennt;Sie kennen sich seit {1900 + place}.\n" for place in range(4)
    )
    (folder / "relations.csv").write_text(
        f"source;target;relation;description\n{circle}0;0;mag;\n7;1;kennt;;zu viel\n"
    )
    report = leanrag("import", "csv", str(folder))
    assert reasons(report) == {
        "files in another encoding than UTF-8": 1,
        "rows with more fields than the header": 1,
        "relations of an entity with itself": 1,
        "ends of relations that no entity describes, taken as entities": 1,
        "relations without a description, taken as they are": 1,
    }
    assert report["result"]["layers"][0] == {"layer": 0, "entities": 5, "relations": 5}
    assert "Sie kennen sich seit 1902." in leanrag("query", "François Lefèvre")["context"]


def test_a_table_with_an_unnamed_column_of_row_numbers_is_taken_without_a_remark(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    path = tmp_path / "relations.csv"
    path.write_text(",source,target,description\n0,Scrooge,Marley,They were partners.\n")
    report = leanrag("import", "csv", str(path), "--no-build")
    assert set(reasons(report)) == {"ends of relations that no entity describes, taken as entities"}


def test_a_file_of_relations_alone_makes_entities_of_their_ends(
    tmp_path: Path, leanrag: Callable[..., Any]
) -> None:
    path = tmp_path / "triples.jsonl"
    write_lines(path, {"subject": "Scrooge", "predicate": "employs", "object": "Bob Cratchit"})
    report = leanrag("import", "jsonl", str(path))
    assert report["result"]["taken"] == {"documents": 1, "passages": 1, "entities": 2, "relations": 1}
    context = leanrag("query", "Whom does Scrooge employ?")["context"]
    assert "Scrooge employs Bob Cratchit." in context


def test_a_vault_of_notes_is_taken_with_links_as_relations_and_front_matter_as_metadata(
    tmp_path: Path, leanrag: Callable[..., Any], refused: Callable[[str, Path], str]
) -> None:
    vault = tmp_path / "vault"
    (vault / "People").mkdir(parents=True)
    assert "holds no entity that can be taken" in refused("obsidian", vault)
    (vault / "People/Scrooge.md").write_text(
        "---\naliases: [Ebenezer, The Miser]\nstatus: done\n---\nScrooge is a miser of London.\n\n"
        "He employs [[Bob Cratchit|his clerk]] in the [[Counting-House]]. He talks to [[Scrooge]]. ![[face.png]]\n"
    )
    (vault / "Bob Cratchit.md").write_text("Bob works for [[people/the miser#work]] every day.\n")
    (vault / "broken.md").write_bytes(b"\x00\x01\x02" * 50)
    report = leanrag("import", "obsidian", str(vault))
    assert reasons(report) == {
        "notes that cannot be read": 1,
        "links to notes that are not there, taken as entities": 1,
        "links of a note to itself": 1,
        "embedded files that are no notes": 1,
    }
    assert report["result"]["found"]["relations"] == 5
    assert report["result"]["taken"]["entities"] == report["result"]["taken"]["relations"] == 3
    scrooge = next(each for each in leanrag("ls")["documents"] if each["id"].endswith("Scrooge.md"))
    assert scrooge["metadata"]["status"] == "done"
    context = leanrag("query", "Whom does Scrooge employ?")["context"]
    assert "He employs his clerk in the Counting-House." in context
    assert leanrag("show", "Ebenezer")["ancestors"]["path"][0]["name"] == "Scrooge"


def test_a_real_index_of_graphrag_is_taken_nearly_whole(
    shared_data: Path, leanrag: Callable[..., Any]
) -> None:
    report = leanrag("import", "graphrag", str(shared_data / "christmas_carol"), "--no-build")
    assert report["result"]["found"] == {"documents": 1, "passages": 42, "entities": 529, "relations": 978}
    assert report["result"]["taken"]["passages"] == 42
    assert report["result"]["taken"]["relations"] == 977
    assert reasons(report)["relations of an entity with itself"] == 1
