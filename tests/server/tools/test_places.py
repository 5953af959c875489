"""Places in files: what a reply calls line N is on line N of the file, as an editor counts; the files are the oracle."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Caller

pytestmark = pytest.mark.anyio

STORIES = "\n\n".join(
    f"## Tower {number}\n\nTower {number} of Brae Haven holds\nthe bell {name}. {name} was cast in {1700 + number} by Ole Lund.\n"
    f"The keeper of tower {number} rings {name} at dusk."
    for number, name in enumerate(("Aase", "Brita", "Cara", "Dordi", "Eli", "Frida", "Gro", "Hild"), 1)
)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "bells.md").write_text(
        f"---\ntitle: The bells\nplace: Brae Haven\n---\n\n\n{STORIES}\n",
        newline="\r\n",
        encoding="utf-8-sig",
    )
    (folder / "keepers.txt").write_text(STORIES.replace("bell", "lamp").replace("Tower", "Light"))
    (folder / "feed.txt").write_text("Olga Dahl kept bees.\fOlga Dahl sold honey in Molde.\n")
    (folder / "page.html").write_text("<p>Per Moe sailed to Alta.</p>\n\n<p>Per Moe met Olga Dahl.</p>")
    return folder


@pytest.fixture
async def call(
    tmp_path: Path, library: Path, serve_in_process: Callable[..., AbstractAsyncContextManager[Caller]]
) -> AsyncIterator[Caller]:
    settings: dict[str, Any] = {"allow_dirs": [str(library)], "chunk_tokens": 64, "chunk_overlap": 8}
    async with serve_in_process(tmp_path / "data", **settings) as caller:
        await ingest(caller, library)
        yield caller


async def ingest(call: Caller, library: Path) -> None:
    reply = await call.finish(
        await call("ingest_documents", documents=[{"path": str(library)}], wait_seconds=40)
    )
    assert reply.data["status"] == "done", reply.text


def line_of(file: Path, number: int) -> str:
    return file.read_text(encoding="utf-8-sig").split("\n")[number - 1]


async def passages(call: Caller, file: Path) -> list[dict[str, Any]]:
    reply = await call("get_sources", document=str(file), token_budget=20_000)
    first, *others = reply.data["sources"]
    place = f"{file.name}:{first['line']}" if first["line"] else file.name
    assert f"[{first['citation']}] {first['document']} ({place}, characters" in reply.text
    assert f"Files are beneath {file.parent}/" in reply.text
    for each in others:
        assert f"[{each['citation']}] (line {each['line']}, characters" in reply.text
    return list(reply.data["sources"])


async def test_each_passage_names_its_file_and_the_line_that_it_begins_on_also_after_lines_were_added(
    call: Caller, library: Path
) -> None:
    files = [library / "bells.md", library / "keepers.txt"]
    for file in reversed(files):
        found = await passages(call, file)
        assert len(found) > 2
        lines = [each["line"] for each in found]
        for each in found:
            assert each["path"] == str(file)
            assert each["text"].split("\n")[0] in line_of(file, each["line"])
    for name, line in (("feed.txt", 1), ("page.html", None)):
        assert [each["line"] for each in await passages(call, library / name)] == [line]

    md = library / "bells.md"
    old = md.read_bytes()
    md.write_bytes(old.replace(b"title:", b"tags: [a, b]\r\nkind:\r\n  - note\r\ntitle:"))
    await ingest(call, library)
    again = await passages(call, md)
    assert again[-1]["line"] == lines[-1] + 3
    for each in again:
        assert each["text"].split("\n")[0] in line_of(md, each["line"])


async def test_each_excerpt_of_a_context_names_the_line_that_it_begins_on(
    call: Caller, library: Path
) -> None:
    asked = "Which bell was cast in 1703, and which lamp by Ole Lund in 1706?"
    text = (await call("query_lca_context", query=asked, token_budget=600)).text
    checked = 0
    for block in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        place = re.search(r"library/([\w.]+):(\d+)\)?\n", block)
        if not place:
            continue
        excerpts = re.finditer(r"^\[d\d+:c\d+\](?: \(line (\d+)\))?(?: § .*)?\s+(.*)$", block, re.MULTILINE)
        # The heading names the line of the first one.
        for number, match in enumerate(excerpts):
            assert (match[1] is None) == (number == 0)
            assert match[2] in line_of(library / place[1], int(match[1] or place[2]))
            checked += number > 0
    assert checked


async def test_what_supports_a_sentence_names_its_line(call: Caller) -> None:
    reply = await call("get_sources", entity="Ole Lund")
    files = {each["citation"]: each["path"] for each in reply.data["sources"]}
    support = [each for sentence in reply.data["sentences"] for each in sentence["support"]]
    assert support
    for each in support:
        assert each["text"].split()[0] in line_of(Path(files[each["citation"]]), each["line"])
        assert f"[{each['citation']}] line {each['line']}, characters" in reply.text


PAGES = [
    [
        f"Lighthouse {number} stands on Cape {name}.",
        f"Its lamp was lit by {name} Moe in {1800 + number}.",
        f"{name} Moe kept bees, and sold the honey of {1800 + number} in Molde.",
    ]
    for number, name in enumerate(("Aase", "Brita", "Cara", "Dordi", "Eli", "Frida", "Gro", "Hild", "Ida"), 1)
]


async def test_passages_excerpts_and_quotations_name_the_pages_that_they_are_on(
    tmp_path: Path,
    make_pdf: Callable[..., bytes],
    serve_in_process: Callable[..., AbstractAsyncContextManager[Caller]],
) -> None:
    file = tmp_path / "capes.pdf"
    file.write_bytes(make_pdf(PAGES))

    def assert_on_page(line: str, page: int | None) -> None:
        assert page is not None
        assert line.strip() in "\n".join(PAGES[page - 1]), (line, page)

    settings: dict[str, Any] = {"allow_dirs": [str(tmp_path)], "chunk_tokens": 200, "chunk_overlap": 20}
    async with serve_in_process(tmp_path / "data", **settings) as call:
        await ingest(call, file)
        found = (await call("get_sources", document=str(file), token_budget=20_000)).data["sources"]
        assert 1 < len(found) < len(PAGES)
        for each in found:
            assert_on_page(each["text"].split("\n")[0], each["page"])

        asked = "Who lit the lamps of the lighthouses on Cape Cara and Cape Ida?"
        text = (await call("query_lca_context", query=asked, token_budget=400)).text
        (block,) = (each for each in re.split(r"^### ", text, flags=re.MULTILINE) if "capes.pdf" in each[:80])
        pages = r"pages? (\d+)(?:–(\d+))?"
        first, last = re.search(pages, block.split("\n")[0]).groups()  # type: ignore[union-attr] # it must match
        excerpts = list(
            re.finditer(rf"^\[d\d+:c\d+\](?: \({pages}\))?\s+((?:.*\n)+?)(?=\[|```)", block, re.MULTILINE)
        )
        for each in excerpts:
            first, last = (each[1], each[2]) if each[1] else (first, last)
            lines = [line for line in each[3].split("\n") if line and "…" not in line]
            assert_on_page(lines[0], int(first))
            assert_on_page(lines[-1], int(last or first))
        assert len({each[1] for each in excerpts}) > 1, text
        assert any(each[2] for each in excerpts) or last, text

        reply = await call("get_sources", entity="Cara Moe")
        support = [each for sentence in reply.data["sentences"] for each in sentence["support"]]
        assert support
        for each in support:
            assert_on_page(each["text"].split("\n")[0], each["page"])


async def test_pages_that_are_pictures_are_told(
    tmp_path: Path,
    make_pdf: Callable[..., bytes],
    serve_in_process: Callable[..., AbstractAsyncContextManager[Caller]],
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "scan.pdf").write_bytes(make_pdf([["The first page."], [], ["The third page."]]))
    async with serve_in_process(tmp_path / "data", allow_dirs=[str(tmp_path)]) as call:
        reply = await call("ingest_documents", documents=[{"path": str(tmp_path / "notes")}], wait_seconds=40)
        reply = await call.finish(reply)
    assert "left out: 1 with pages that have no text layer (page 2 of scan.pdf)" in reply.text
