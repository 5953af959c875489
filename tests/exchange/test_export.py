"""Exports, each read back: by networkx, by following every link of a vault."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import networkx as nx
import pytest
from typer.testing import CliRunner

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Attribute, Chunk, Document, Entity, Relation
from leanrag_engine.exchange.exporting.graph import ExportedGraph
from leanrag_engine.exchange.exporting.write import write_graph
from leanrag_engine.exchange.formats import ExportFormat
from leanrag_engine.exchange.parquet import read_parquet_rows
from leanrag_mcp.cli.main import app

HOSTILE = 'A "quoted" [[name]] | with/slash \\ and\nline <script>alert(1)</script>'


def chunk(number: int, text: str) -> Chunk:
    return Chunk(f"c{number}", "doc", number, text, 0, len(text), 5, citation=f"d1:c{number}")


@pytest.fixture
def graph() -> ExportedGraph:
    """Two entities of nearly one name and a hostile one, below a root; one of their chunks was deleted."""
    root = Entity("r", "All", layer=1, description="Everything.", members=3)
    base = (
        Entity(
            "a",
            "Rock",
            description="A rock.",
            parent_id="r",
            aliases=("Stone", "Reef"),
            attributes=(Attribute("height", "9 m", ("c1",)),),
            chunk_ids=("c1", "gone"),
        ),
        Entity("b", "ROCK", parent_id="r", chunk_ids=("c2",)),
        Entity("h", HOSTILE, description=HOSTILE, parent_id="r"),
    )
    relation = Relation(
        "ab",
        "a",
        "b",
        description="The rock\nis the ROCK.",
        weight=2,
        chunk_ids=("c2",),
        types=("part of", "near"),
    )
    document = Document(
        "doc", 1, HOSTILE, "/notes/rock.md", "text/markdown", "", 9, 2, 1, 1, datetime.now(UTC)
    )
    chunks = {each.id: each for each in (chunk(1, "First passage."), chunk(2, "Second passage."))}
    return ExportedGraph("tea ☕", (document,), chunks, (Graph(base, (relation,)), Graph((root,), ())))


def test_graphml_holds_every_node_edge_and_attribute(graph: ExportedGraph, tmp_path: Path) -> None:
    write_graph(graph, ExportFormat.GRAPHML, tmp_path / "g.graphml")
    found = nx.read_graphml(tmp_path / "g.graphml", force_multigraph=True)
    assert set(found.nodes) == {"a", "b", "h", "r"}
    assert Counter(kind for *_, kind in found.edges(data="kind")) == {"parent": 3, "relation": 1}
    assert found.nodes["a"] == {
        "name": "Rock", "type": "concept", "layer": 0, "description": "A rock.", "written_by": "heuristic",
        "mentions": 1, "aliases": "Stone; Reef", "attributes": "height: 9 m", "citations": "d1:c1",
    }  # fmt: skip
    assert found.nodes["h"]["name"] == HOSTILE
    (fields,) = (fields for *_, fields in found.edges(data=True) if fields["kind"] == "relation")
    assert (fields["description"], fields["weight"], fields["citations"]) == (
        "The rock\nis the ROCK.",
        2,
        "d1:c2",
    )


def test_json_is_what_networkx_reads_with_the_passages_beside_it(
    graph: ExportedGraph, tmp_path: Path
) -> None:
    write_graph(graph, ExportFormat.JSON, tmp_path / "g.json")
    found = json.loads((tmp_path / "g.json").read_text(encoding="utf-8"))
    network = nx.node_link_graph(found, edges="edges")
    assert network.nodes["a"]["aliases"] == ["Stone", "Reef"]
    assert network.number_of_edges() == 4
    assert [each["text"] for each in found["passages"]] == ["First passage.", "Second passage."]
    assert found["documents"][0]["title"] == HOSTILE


def test_every_link_of_a_vault_leads_to_a_note_and_a_block(graph: ExportedGraph, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    write_graph(graph, ExportFormat.VAULT, vault)
    notes = {
        note.relative_to(vault).with_suffix("").as_posix(): note.read_text() for note in vault.rglob("*.md")
    }
    assert len(notes) == 5
    assert {"Entities/Rock", "Entities/ROCK (2)", "Clusters/All"} <= set(notes)
    links = [
        link
        for text in notes.values()
        for link in re.findall(r"\[\[([^\]|]+)(?:\|[^\]]*)?\]\]", text)
        if "/" in link
    ]
    assert len(links) == 10
    for link in links:
        note, _, block = link.partition("#")
        assert note in notes
        assert not block or f"\n{block}\n" in notes[note]
    assert 'aliases: ["Stone", "Reef"]' in notes["Entities/Rock"]
    assert "\n- height: 9 m\n" in notes["Entities/Rock"]
    assert "- [[Entities/ROCK (2)|ROCK (2)]]: (part of, near) The rock is the ROCK." in notes["Entities/Rock"]


@pytest.mark.parametrize("sign", ["灯", "ü", "x", "🔔"])
def test_notes_of_long_names_get_names_that_a_file_system_takes(
    graph: ExportedGraph, tmp_path: Path, sign: str
) -> None:
    documents = tuple(replace(each, id=str(n), title=sign * 200) for n in (1, 2) for each in graph.documents)
    write_graph(replace(graph, documents=documents, chunks={}), ExportFormat.VAULT, tmp_path / "vault")
    names = sorted(each.name for each in (tmp_path / "vault" / "Documents").iterdir())
    assert len(names) == 2
    assert all(each.startswith(sign * 60) and len(each.encode()) <= 255 for each in names)


def test_every_format_holds_the_types_of_a_relation(graph: ExportedGraph, tmp_path: Path) -> None:
    for kind in ExportFormat:
        write_graph(graph, kind, tmp_path / kind)
    (edge,) = (
        each for each in json.loads((tmp_path / "json").read_text())["edges"] if each["kind"] == "relation"
    )
    assert edge["types"] == ["part of", "near"]
    (fields,) = (
        fields
        for *_, fields in nx.read_graphml(tmp_path / "graphml", force_multigraph=True).edges(data=True)
        if fields["kind"] == "relation"
    )
    assert fields["types"] == "part of; near"
    (row,) = read_parquet_rows(tmp_path / "parquet" / "relationships.parquet")
    assert row["types"] == ["part of", "near"]


@pytest.mark.parametrize("format_", ExportFormat)
def test_nothing_is_replaced_and_nothing_half_written_is_left(
    graph: ExportedGraph, tmp_path: Path, format_: ExportFormat
) -> None:
    target = tmp_path / "there"
    target.write_text("mine")
    with pytest.raises(InvalidInput, match="exists already"):
        write_graph(graph, format_, target)
    with pytest.raises(InvalidInput, match="cannot be written to"):
        write_graph(graph, format_, tmp_path / "none" / "file")
    broken = ExportedGraph("x", (), graph.chunks, (Graph((Entity("a", "A", chunk_ids=("c1",)),), ()),))
    if format_ is ExportFormat.VAULT:
        with pytest.raises(KeyError):  # a chunk without its document cannot be linked
            write_graph(broken, format_, tmp_path / "new")
    assert [each.name for each in tmp_path.iterdir()] == ["there"]
    assert target.read_text() == "mine"


def test_the_command_exports_what_was_built(tmp_path: Path) -> None:
    def leanrag(*arguments: str) -> str:
        ran = CliRunner().invoke(app, [*arguments, "--data-dir", str(tmp_path / "data")])
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    (tmp_path / "tea.md").write_text(
        "# Tea\n\nAssam tea grows along the Brahmaputra. Darjeeling tea grows near Kurseong."
    )
    leanrag("ingest", str(tmp_path / "tea.md"))
    said = leanrag("export", "graphml", str(tmp_path / "tea.graphml"))
    found = nx.read_graphml(tmp_path / "tea.graphml", force_multigraph=True)
    assert f"{len(found.nodes):,} entities" in said
    assert "Brahmaputra" in {name for _, name in found.nodes(data="name")}
    wrong = CliRunner().invoke(app, ["export", "gml", str(tmp_path / "x")])
    assert wrong.exit_code == 2
    assert "graphml" in wrong.output
