"""One answer drawn: ``leanrag query --svg | --html | --explain``, and what of a large answer is drawn."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from leanrag_engine.core.model import (
    EXCERPT,
    Context,
    ContextLine,
    Entity,
    Group,
    Relation,
    ScoreParts,
    Seed,
    Subgraph,
)
from leanrag_engine.retrieval.index import BuildState
from leanrag_engine.retrieval.query import QueryResult
from leanrag_engine.retrieval.request import Query
from leanrag_mcp.cli.main import app
from leanrag_mcp.explorer.data import describe_answer
from leanrag_mcp.replies.drawing.lettering import measure
from leanrag_mcp.replies.drawing.page import draw_for_chat, render_page
from leanrag_mcp.replies.drawing.selection import MOST_NODES, select_graph
from leanrag_mcp.replies.drawing.svg import draw_answer

SVG = "{http://www.w3.org/2000/svg}"
QUESTION = "Who designed Skerryvore?"
HOSTILE = '</title></style><script>alert(1)</script><img src=x onerror="alert(2)">]]>&\'\x07\ufffe\u202e'


def query(data: Path, *arguments: str) -> str:
    ran = CliRunner().invoke(app, ["query", QUESTION, *arguments, "--data-dir", str(data)])
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


def count(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def answer(clusters: int, seeds: int, *, name: str = "seed", text: str = "Said.") -> QueryResult:
    """Return an answer whose seeds lie in as many clusters beneath a root, the first two of them related."""
    root = Entity("root", "everything", layer=2)
    tops = [
        Entity(f"k{place}", f"cluster {place}", layer=1, parent_id="root", mentions=9)
        for place in range(clusters)
    ]
    found = [
        Seed(Entity(f"s{place}", f"{name} {place}", parent_id=tops[place % clusters].id), 1 - place / 200)
        for place in range(seeds)
    ]
    groups = tuple(
        Group(
            top,
            tuple(seed.entity for seed in found[place::clusters]),
            (*(seed.entity for seed in found[place::clusters]), top),
        )
        for place, top in enumerate(tops[:seeds])
    )
    line = ContextLine(
        EXCERPT, ("d1:c1",), name, text, ScoreParts(meaning=1.0, keyword=0.4), source="/notes/a b.md", line=3
    )
    context = Context(f"[d1:c1] {text}", 9, truncated=False, cited=("d1:c1",), lines=(line,))
    graph = Subgraph(
        tuple(found),
        groups,
        root,
        (*(seed.entity for seed in found), *tops[:seeds], root),
        (Relation("r0", "s0", "s1"),),
        (Relation("r1", "k0", "k1", layer=1, strength=7, support=20),),
    )
    return QueryResult(Query(f"Who is {name}?"), context, graph, (), (), BuildState.READY)


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - made here


def boxes(svg: str) -> list[ET.Element]:
    """Return the boxes of the nodes, without those of the legend."""
    return [each for each in parse(svg).iter(f"{SVG}rect") if float(each.get("rx", "0")) == 7]


def test_an_answer_is_drawn_with_its_seeds_citations_and_tokens(lighthouses: Path, tmp_path: Path) -> None:
    query(lighthouses, "--svg", str(tmp_path / "a.svg"), "--html", str(tmp_path / "a.html"))
    picture = parse((tmp_path / "a.svg").read_text())
    assert picture.get("role") == "img"
    assert QUESTION in (picture.findtext(f"{SVG}title") or "")
    said = picture.findtext(f"{SVG}desc") or ""
    assert "joined by" in said
    text = " ".join(picture.itertext())
    assert "Skerryvore" in text
    assert re.search(r"\[d\d+:c\d+\] excerpt, \d+ tokens", text)
    total, parts = re.search(r"(\d+) tokens: (.*)\.$", said).groups()  # type: ignore[union-attr]
    assert sum(map(int, re.findall(r"\d+", parts))) == int(total)
    page = (tmp_path / "a.html").read_text()
    assert "default-src 'none'" in page
    assert "Alan Stevenson designed Skerryvore" in page
    assert page.index("Alan Stevenson designed Skerryvore") < page.index("<figure")


def test_a_drawing_that_cannot_be_written_is_refused_with_its_path(lighthouses: Path, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.svg"
    ran = CliRunner().invoke(app, ["query", QUESTION, "--svg", str(path), "--data-dir", str(lighthouses)])
    assert ran.exit_code == 1
    assert str(path) in ran.stderr
    assert "folder that exists" in ran.stderr


@pytest.mark.parametrize(
    "options", [[], ["--mode", "local"], ["--mode", "global"], ["--mode", "naive"], ["--ranking", "paper"]]
)
def test_explanations_name_parts_that_add_up(lighthouses: Path, options: list[str]) -> None:
    explained = query(lighthouses, "--explain", *options).split("Why each line is there")[1]
    explained, legend = explained.split("The parts of a value:\n")
    used = set(re.findall(r"(?:= |\+ )([a-z]+) \d", explained))
    assert {line.split()[0] for line in legend.splitlines()} == used
    sums = re.findall(r"tokens, ([\d.]+) = (.*?)(?:;|\n)", explained)
    assert sums
    for total, added in sums:
        assert sum(float(each) for each in re.findall(r"\d\.\d\d", added)) == pytest.approx(
            float(total), abs=1e-9
        )
    total, parts = re.search(r"\n(\d+) tokens: (.*)\.", explained).groups()  # type: ignore[union-attr]
    assert sum(map(int, re.findall(r" (\d+)", f" {parts}"))) == int(total)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_large_answer_is_capped_counted_and_never_overlaps(narrow: bool) -> None:
    result = answer(12, 100)
    drawn = select_graph(result.subgraph)
    assert len(drawn.nodes) == MOST_NODES
    assert drawn.nodes_left_out == 100 + 12 + 1 - MOST_NODES
    # Each seed has its whole path up to the root.
    parents = {link.child: link.parent for link in drawn.links}
    assert all(parents[parents[node.entity.id]] == "root" for node in drawn.nodes if node.score is not None)
    svg = draw_answer(result, count, narrow=narrow)
    assert f"{113 - MOST_NODES} nodes" in svg
    width = float(parse(svg).get("width", "0"))
    areas = [tuple(float(each.get(key, "0")) for key in ("x", "y", "width", "height")) for each in boxes(svg)]
    assert len(areas) == MOST_NODES
    assert all(x >= 0 and x + wide <= width for x, _, wide, _ in areas)
    for (x1, y1, w1, h1), (x2, y2, w2, h2) in combinations(areas, 2):
        assert x1 + w1 <= x2 or x2 + w2 <= x1 or y1 + h1 <= y2 or y2 + h2 <= y1


def test_a_seed_that_meets_the_others_only_at_the_root_is_marked_as_stray() -> None:
    svg = draw_answer(answer(3, 4), count)
    # Seeds 0 and 3 share a cluster; 1 and 2 are alone in theirs.
    assert [each.get("class") for each in boxes(svg)].count("box seed stray") == 2
    assert "meeting the others only at the root: seed 1, seed 2." in svg
    assert "stray" not in draw_answer(answer(1, 4), count).split("</style>")[1]


def points_of(path: str) -> list[tuple[float, float]]:
    """Return points of a path with one cubic curve."""
    corners = [complex(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)]
    shares = [n / 200 for n in range(201)]
    made = [
        sum(w * (1 - t) ** (3 - k) * t**k * corners[k] for k, w in enumerate((1, 3, 3, 1))) for t in shares
    ]
    return [(each.real, each.imag) for each in made]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("clusters", "seeds"), [(1, 1), (2, 5), (3, 3), (1, 6)])
def test_a_layers_heading_stands_between_the_lines_and_hides_none(
    clusters: int, seeds: int, narrow: bool
) -> None:
    picture = parse(draw_answer(answer(clusters, seeds), count, narrow=narrow))
    paths = [each.get("d", "") for each in picture.iter(f"{SVG}path")]
    lines = [point for each in paths if "C" in each for point in points_of(each)]
    headings = [each for each in picture.iter(f"{SVG}text") if (each.text or "").startswith("Layer ")]
    assert [(each.text or "")[:7] for each in headings] == ["Layer 2", "Layer 1", "Layer 0"]
    for each in headings:
        left, base = float(each.get("x", "0")), float(each.get("y", "0"))
        right = left + measure(each.text or "", 11)
        assert right <= float(picture.get("width", "0"))
        assert not [(x, y) for x, y in lines if left < x < right and base - 9 < y < base + 3]
    labels = [each for each in picture.iter(f"{SVG}text") if (each.text or "").startswith("λ")]
    assert len([each for each in picture.iter(f"{SVG}rect") if each.get("class") == "paper"]) == 1 + len(
        labels
    )


def test_relations_of_clusters_bear_their_strength() -> None:
    text = " ".join(parse(draw_answer(answer(3, 6), count)).itertext())
    assert "λ 7" in text
    assert "cluster 0 — cluster 1, λ 7, support 20" in text


def test_no_relation_is_drawn_as_wide_as_a_path_to_the_lca() -> None:
    svg = draw_answer(answer(3, 6), count)
    (path,) = map(float, re.findall(r"\.joining\{[^}]*stroke-width:([\d.]+)", svg))
    widths = [
        float(each.get("stroke-width", "0")) for each in parse(svg).iter() if each.get("class") == "bridge"
    ]
    relations = widths[:-1]  # the last one is the legend's
    assert relations
    assert max(relations) < path


def test_warnings_for_people_name_no_tools() -> None:
    warnings = {
        "The nearest follow. For more: other words, names from search_entities, or search_text.": "The nearest follow. For more: other words.",
        "An outline follows. Ask about one of its subjects, or call get_outline.": "An outline follows. Ask about one of its subjects.",
        "Stop, ask something else, or list all that has a word with search_text.": "Stop, ask something else.",
        "Shown in part, perhaps: d1:c1, d2:c3. get_sources reads them whole.": "Shown in part, perhaps: d1:c1, d2:c3.",
        "No document has 'Xyzzy', 'get_user'.": "No document has 'Xyzzy', 'get_user'.",
    }
    result = replace(answer(1, 1), warnings=tuple(warnings))
    assert draw_for_chat(result, count)["warnings"] == [*warnings.values()]
    assert describe_answer(result, count)["warnings"] == [*warnings.values()]
    assert "or search_text" not in render_page(result, count)


def test_a_drawing_is_the_same_each_time() -> None:
    assert draw_answer(answer(4, 9), count) == draw_answer(answer(4, 9), count)


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_hostile_names_and_texts_appear_as_text() -> None:
    result = answer(2, 3, name=HOSTILE, text=HOSTILE)
    lines = tuple(
        replace(result.context.lines[0], source=source) for source in ("javascript:alert(1)", HOSTILE)
    )
    result = replace(result, context=replace(result.context, lines=lines), warnings=(HOSTILE,))
    for svg in (draw_answer(result, count), draw_answer(result, count, narrow=True)):
        kinds = {each.tag.removeprefix(SVG) for each in parse(svg).iter()}
        assert kinds <= {"svg", "title", "desc", "style", "g", "rect", "path", "text"}
        assert "alert(1)" in " ".join(parse(svg).itertext())
    elements = Elements(render_page(result, count)).found
    assert not {tag for tag, _ in elements} & {"script", "img", "iframe", "object", "a"}
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]


def test_evidence_links_to_the_place_in_its_file() -> None:
    page = Elements(render_page(answer(1, 2), count)).found
    assert ("a", {"href": "file:///notes/a%20b.md"}) in page


def test_json_holds_the_parts_of_each_lines_value_best_first(lighthouses: Path) -> None:
    reply = json.loads(query(lighthouses, "--json"))
    assert reply["evidence"]
    assert {mark for each in reply["evidence"] for mark in each["citations"]} == set(
        re.findall(r"\[(d\d+:c\d+)\]", reply["context"])
    )
    values = [sum(each["parts"].values()) for each in reply["evidence"]]
    assert values == sorted(values, reverse=True)
    assert values[-1] > 0
