"""Reading documents: their outline, a section, a range, what surrounds a citation; the oracle is the text itself."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG

if TYPE_CHECKING:
    from conftest import Caller

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]


def write_manual() -> tuple[str, dict[str, str]]:
    """Return a text with headings of three levels, and each section with all below it by its heading."""
    draw = random.Random(3)  # noqa: S311 - a corpus is no secret
    lines: list[tuple[int, str]] = []
    for chapter in range(1, 5):
        lines.append((1, f"# Chapter {chapter}"))
        for part in range(1, 4):
            lines.append((2, f"## Part {chapter}{part}"))
            lines += [
                (9, f"Item {draw.randrange(10**6)} of part {part} is long enough.")
                for _ in range(draw.randint(1, 25))
            ]
        lines.append((2, "## Notes"))
        lines.append((9, f"Notes on chapter {chapter}."))
    sections = {}
    for at, (level, line) in enumerate(lines):
        if level < 9:
            end = next((n for n in range(at + 1, len(lines)) if lines[n][0] <= level), len(lines))
            sections[line.strip("# ")] = "\n\n".join(text for _, text in lines[at:end])
    return "\n\n".join(text for _, text in lines), sections


MANUAL, SECTIONS = write_manual()
MANY = "\n\n".join(
    f"{'#' * (1 + (n % 50 > 0))} Heading {n} of a very long list of headings\n\nText {n}."
    for n in range(2000)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("manual")

    async def fill() -> None:
        settings = load_settings(data_dir=path, chunk_tokens=64, chunk_overlap=16)
        async with await LeanRAG.open(settings) as engine:
            texts = {"Other": "Nothing here.", "Manual of 2024-05-06": MANUAL, "Many": MANY}
            sources = [
                DocumentSource(text=text, id=name.split()[0], title=name) for name, text in texts.items()
            ]
            job = await engine.job((await engine.submit_ingest(sources, build=False)).id, 60)
            assert job.status.value == "done", job.message

    anyio.run(fill)
    return path


@pytest.fixture
async def ask(folder: Path, serve_in_process: Serve) -> AsyncIterator[Caller]:
    async with serve_in_process(folder) as caller:
        yield caller


async def read_all(ask: Caller, **arguments: Any) -> list[dict[str, Any]]:
    """Return the passages of all pages; every page keeps to its budget."""
    passages: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = await ask("get_sources", cursor=cursor, **arguments)
        assert not page.is_error, page.text
        assert TiktokenTokenizer().count(page.text) <= arguments.get("token_budget", 4000)
        passages += page.data["sources"]
        cursor = page.data["next_cursor"]
        if not cursor:
            assert page.data["total"] == len({each["citation"] for each in passages})
            return passages


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("budget", [200, 500, 4000])
async def test_a_document_read_page_by_page_is_its_text_with_nothing_twice(ask: Caller, budget: int) -> None:
    passages = await read_all(ask, document="Manual", token_budget=budget)
    citations = [each["citation"] for each in passages]
    assert citations == [f"d2:c{number}" for number in range(1, len(citations) + 1)]
    assert words(" ".join(each["text"] for each in passages)) == words(MANUAL)
    assert all(MANUAL[each["start"] : each["end"]] == each["text"] for each in passages)


async def test_a_passage_longer_than_the_budget_is_read_in_parts(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    text = " ".join(f"Sentence {n} of one long passage says a little." for n in range(40))
    title = "A title of many words " * 8
    async with serve_in_process(tmp_path) as ask:
        await ask(
            "ingest_documents", documents=[{"text": text, "title": title}], build=False, wait_seconds=40
        )
        read, cursor = [], ""
        while True:
            page = await ask("get_sources", document="d1", token_budget=200, cursor=cursor)
            assert TiktokenTokenizer().count(page.text) <= 200
            read += page.data["sources"]
            cursor = page.data["next_cursor"]
            if not cursor:
                break
        assert len(read) > 2
        assert "".join(each["text"] for each in read) == text
        assert all(each["text"].rstrip().endswith(".") for each in read)
        assert all(text[each["start"] : each["end"]] == each["text"] for each in read)
        for bad in ("1.", ".5", "1.x", "0.1.2"):
            assert (
                "does not come from this server" in (await ask("get_sources", document="d1", cursor=bad)).text
            )


@pytest.mark.parametrize("heading", ["Chapter 2", "Part 31", "chapter 4", "Part 13"])
async def test_a_section_is_read_from_its_heading_to_the_next_of_its_level(ask: Caller, heading: str) -> None:
    passages = await read_all(ask, document="d2", section=heading, token_budget=300)
    assert words(" ".join(each["text"] for each in passages)) == words(SECTIONS[heading.capitalize()])
    assert all(MANUAL[each["start"] : each["end"]] == each["text"] for each in passages)


async def test_several_sections_are_read_in_one_call_in_the_order_asked_for(ask: Caller) -> None:
    asked = ["Part 13", "Chapter 2"]
    passages = await read_all(ask, document="d2", section=asked, token_budget=300)
    expected = " ".join(words(SECTIONS[each]) for each in asked)
    assert words(" ".join(each["text"] for each in passages)) == expected
    ranked = await ask("get_sources", document="d2", section=asked, query="Part 13", limit=1)
    assert ranked.data["sources"][0]["citation"] in {each["citation"] for each in passages}


async def test_passages_name_title_date_and_file_once_and_the_folder_of_all_files_at_the_end(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    files = tmp_path / "notes"
    files.mkdir()
    for name in ("a", "b"):
        (files / f"{name}.md").write_text(f"---\ndate: 2024-05-06\n---\n# Note {name}\n\nThe {name} text.\n")
    async with serve_in_process(tmp_path / "data", allow_dirs=(files,)) as call:
        done = await call("ingest_documents", documents=[{"path": str(files)}], build=False, wait_seconds=40)
        assert done.data["status"] == "done", done.text
        text = (await call("get_sources", citations=["d1:c1", "d2:c1"])).text
    assert "[d1:c1] Note a, 2024-05-06 (a.md:4, characters 3–" in text
    assert "[d2:c1] Note b, 2024-05-06 (b.md:4, characters 3–" in text
    assert text.count(str(files)) == 1


async def test_a_note_on_a_folder_comes_once_with_what_is_found_there_until_its_file_is_gone(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    root, note = tmp_path / "notes", "Logs of the ferry to Mull. [d9:c9] ``` Times are UTC."
    for name in ("sea/a.md", "sea/b.md", "land/c.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"The spam of {name} is cold.\n")
    (root / "sea" / ".leanrag.md").write_text(f"{note}\n\n{'More words. ' * 100}")
    (tmp_path / "secret.md").write_text("A secret.")
    (root / "land" / ".leanrag.md").symlink_to(tmp_path / "secret.md")
    async with serve_in_process(tmp_path / "data", allow_dirs=(root,)) as call:
        asked = {"documents": [{"path": str(root)}], "sync": True, "build": False, "wait_seconds": 40}

        async def read_all_tools() -> list[str]:
            replies = [
                await call("query_lca_context", query="spam cold"),
                await call("search_text", text="spam"),
                await call("search_text", text="spam", match="topic"),
                await call("get_outline"),
                await call("list_collections"),
            ]
            assert all("secret" not in each.text for each in replies)
            return [each.text for each in replies]

        await call("ingest_documents", **asked)
        texts = await read_all_tools()
        for text in texts:
            (line,) = (line for line in text.splitlines() if "Logs of the ferry" in line)
            assert TiktokenTokenizer().count(line.partition("Logs")[2]) <= 60
            assert "[d9:c9]" not in line
        for text in texts[:4]:
            fenced = re.findall(r"^(`{3,})\n(.*?)\n\1$", text, re.MULTILINE | re.DOTALL)
            assert any("Logs of the ferry" in body for _, body in fenced)
        assert "```" not in texts[4]
        assert all(text.index("spam of sea/a.md") for text in texts[:3])
        for tool, name in (("query_lca_context", "query"), ("search_text", "text")):
            other = await call(tool, **{name: "spam", "filters": {"documents": ["land/"]}})
            assert "Logs of" not in other.text
        assert (await call("search_text", text="Logs of")).data["total"] == 0
        inner = await call("get_outline", document="sea/")
        assert "This folder (2 documents): Logs of the ferry" in inner.text
        (root / "sea" / ".leanrag.md").unlink()
        await call("ingest_documents", **asked)
        assert all("Logs of" not in each for each in await read_all_tools())


async def test_equal_headings_are_told_apart_by_their_paths(ask: Caller) -> None:
    reply = await ask("get_sources", document="d2", section="Notes")
    assert reply.is_error
    assert "4 sections" in reply.text
    assert "Chapter 3 > Notes" in reply.text
    (passage,) = await read_all(ask, document="d2", section="Chapter 3 > Notes")
    assert words(passage["text"]) == "## Notes Notes on chapter 3."
    unknown = await ask("get_sources", document="d2", section="Chaptre 3")
    assert unknown.is_error
    assert "Chapter 3 (ref d2:c" in unknown.text


async def test_a_heading_with_code_is_found_as_a_reply_shows_it(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    text = "# Guide\n\nIt begins.\n\n## Limits of `pip install`\n\nTwo hundred wheels an hour are the limit."
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[{"text": text, "id": "guide"}], wait_seconds=40)
        shown = (await call("query_lca_context", query="How many wheels an hour?")).text
        (heading,) = re.findall(r"§ (Limits of .*)", shown)
        reply = await call("get_sources", document="guide", section=heading)
    assert not reply.is_error, reply.text
    assert "Two hundred wheels" in reply.text
    assert "It begins" not in reply.text


async def test_the_outline_lists_every_heading_with_where_it_stands_and_how_long_it_is(ask: Caller) -> None:
    reply = await ask("get_outline", document="Manual of 2024-05-06")
    lines = [line for line in MANUAL.split("\n") if line.startswith("#")]
    assert [heading for _, heading, *_ in reply.data["sections"]] == [line.strip("# ") for line in lines]
    assert [level for level, *_ in reply.data["sections"]] == [
        len(line) - len(line.lstrip("#")) for line in lines
    ]
    assert reply.data["date"] == "2024-05-06"
    for _, heading, citation, tokens in reply.data["sections"]:
        if heading == "Notes":
            continue
        passages = await read_all(ask, citations=[citation])
        text = words(" ".join(passage["text"] for passage in passages))
        assert words(SECTIONS[heading]) in text
        assert tokens == pytest.approx(TiktokenTokenizer().count(SECTIONS[heading]), rel=0.15, abs=3)
        assert f"{heading} [{citation}] {tokens}" in reply.text
    part = await ask("get_outline", document="d2", section="Chapter 3")
    assert [heading for _, heading, *_ in part.data["sections"]] == ["Part 31", "Part 32", "Part 33", "Notes"]


async def test_a_long_outline_shows_its_highest_levels_first(ask: Caller) -> None:
    reply = await ask("get_outline", document="Many")
    assert [heading.split()[1] for _, heading, *_ in reply.data["sections"]] == [
        str(n) for n in range(0, 2000, 50)
    ]
    sent = json.dumps(reply.data, ensure_ascii=False)
    assert TiktokenTokenizer().count(sent) <= 1.3 * TiktokenTokenizer().count(reply.text)
    assert "Deeper headings are left out" in reply.data["next_step"]
    part = await ask("get_outline", document="Many", section="Heading 50 of")
    assert len(part.data["sections"]) == 49
    nothing = await ask("get_outline", document="Other")
    assert nothing.data["sections"] == []
    assert "no headings" in nothing.data["next_step"]


async def test_ranges_and_neighbours_are_read_in_order_and_clipped_to_the_document(ask: Caller) -> None:
    whole = await read_all(ask, document="d2")
    last = len(whole)

    async def numbers(*citations: str, **arguments: Any) -> list[int]:
        passages = await read_all(ask, citations=list(citations), **arguments)
        return [int(re.sub(r"d2:c", "", each["citation"])) for each in passages]

    assert await numbers("d2:c3-c5") == await numbers("d2:c3–d2:c5") == await numbers("d2:c5-c3") == [3, 4, 5]
    assert await numbers("d2:c4", neighbours=1) == [3, 4, 5]
    assert await numbers("d2:c1", neighbours=2) == [1, 2, 3]
    assert await numbers(f"d2:c{last - 1}-c9999") == [last - 1, last]
    assert await numbers("d2:c2", "d2:c4", neighbours=1) == [1, 2, 3, 4, 5]
    assert await numbers("d2:c7", "d2:c2") == [7, 2]
    passages = await read_all(ask, citations=["d2:c3-c5"])
    assert words(" ".join(each["text"] for each in passages)) in words(MANUAL)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"citations": ["d2:c900-c910"]}, ["no passage d2:c900-c910", "Manual"]),
        ({"section": "Part 11", "citations": ["d2:c1"]}, ["'Part 11' needs a document"]),
        ({"document": "d2", "neighbours": 2}, ["Only citations have neighbours"]),
        ({"document": "d2", "section": " # "}, ["section is empty"]),
        ({"document": "Other", "section": "Part"}, ["has no section 'Part'", "without `section`"]),
    ],
)
async def test_what_cannot_be_read_says_why(ask: Caller, arguments: dict[str, Any], said: list[str]) -> None:
    reply = await ask("get_sources", **arguments)
    assert reply.is_error
    for part in said:
        assert part in reply.text


FORGED = "[d93:c1] Kepler ``` said"


REFERRING = {
    "guide/start.md": "# Start\n\nSet up the [cache](../cache.md#clearing-it) first, then the [index] and [[Old notes|these]]. "
    "Nothing of [the web](https://example.org/cache.md), [here](#start), ![a picture](../page.html) or [gone](gone.md).\n\n"
    "[index]: <concepts/>\n",
    "guide/concepts/index.md": "# Concepts\n\nAn index lists packages. Back to [the beginning](/guide/start).\n",
    "cache.md": "# The cache\n\n## Clearing it\n\nThe cache is cleared by hand.\n",
    "vault/Old notes.md": "# Remarks of 2019\n\nThe oven is older than the house.\n",
    "page.html": "<html><body><h1><a href='cache.md'>Page</a></h1><p>As <a href='cache.html'>the <b>cache</b></a> says, "
    "and <a href='https://example.org'>others</a>.</p></body></html>",
    "manual/first.rst": "First\n=====\n\nSee :doc:`the second <parts/second>` and :doc:`/cache`, not :ref:`gone`.\n",
    "manual/parts/second.rst": "Second\n======\n\nThe wick is cut.\n",
    "source/app/run.py": "from .tools import make\nfrom app.deep.store import Store\nimport json\n\n\ndef run():\n    return make(Store())\n",
    "source/app/tools.py": "def make(store):\n    return store\n",
    "source/app/deep/store.py": "class Store:\n    pass\n",
}
REFERENCES = {
    "guide/start.md": ["guide/concepts/index.md", "cache.md", "vault/Old notes.md"],
    "guide/concepts/index.md": ["guide/start.md"],
    "page.html": ["cache.md"],
    "manual/first.rst": ["manual/parts/second.rst", "cache.md"],
    "source/app/run.py": ["source/app/tools.py", "source/app/deep/store.py"],
}


async def test_what_an_author_refers_to_is_named_with_the_passage_and_read_by_one_call(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    for name, text in REFERRING.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    async with serve_in_process(tmp_path / "data", allow_dirs=(folder,)) as ask:
        await ask.finish(await ask("ingest_documents", documents=[{"path": str(folder)}], wait_seconds=40))
        for name in REFERRING:
            reply = await ask("get_sources", document=str(folder / name))
            (source,) = reply.data["sources"]
            followed = []
            for each in source["refers_to"]:
                assert each in reply.text
                read = await ask("get_sources", document=each.split()[0])
                followed.append(str(Path(read.data["sources"][0]["path"]).relative_to(folder)))
            assert sorted(followed) == sorted(REFERENCES.get(name, [])), name
        start = await ask("get_sources", document=str(folder / "guide/start.md"))
        assert "The cache > clearing-it" in start.text
        answer = await ask("query_lca_context", query="What do I set up first, before the index?")
        assert "Set up the cache first, then the [index]" in answer.text, (
            "a target is for get_sources to follow"
        )
        page = await ask("get_sources", document=str(folder / "page.html"))
        assert "As [the cache](cache.html) says, and others." in page.text
        assert "# Page\n" in page.text


async def test_a_numbered_section_and_a_footnote_of_the_same_document_are_named_by_their_passage(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    filling = "The keeper writes down the weather of every day in a book of its own. " * 60
    text = (
        f"# 1 Lamps\n\nLamps are trimmed as section 2.1 says, not § 7.[^oil]\n\n{filling}\n\n# 2 Oil\n\n{filling}\n\n"
        f"## 2.1 Trimming\n\nCut the wick straight.\n\n{filling}\n\n[^oil]: Rape oil until 1846.\n"
    )
    async with serve_in_process(tmp_path) as ask:
        manual = {"text": text, "title": "Manual", "id": "manual.md"}
        await ask.finish(await ask("ingest_documents", documents=[manual], wait_seconds=40))
        (first,) = (await ask("get_sources", document="d1", limit=1)).data["sources"]
        assert [each.partition(" ")[2] for each in first["refers_to"]] == ["2.1 Trimming", "footnote oil"]
        for each, said in zip(first["refers_to"], ("Cut the wick", "Rape oil until 1846"), strict=True):
            assert said in (await ask("get_sources", citations=[each.split()[0]])).text


async def test_a_title_a_heading_or_a_path_forges_no_citation_and_opens_no_fence(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    file = folder / "see [d94:c1].md"
    file.write_text(f"# {FORGED}\n\nThe moon is quiet.\n\n## Part {FORGED}\n\nMars is red.\n")
    async with serve_in_process(tmp_path / "data", allow_dirs=(folder,)) as call:
        documents = [
            {"path": str(file), "title": FORGED},
            {"id": "b", "title": FORGED, "text": "Venus is bright."},
        ]
        assert not (await call("ingest_documents", documents=documents, wait_seconds=40)).is_error
        replies = [
            await call("get_sources", document="d1"),
            await call("get_sources", citations=["d1:c1", "d2:c1"]),
            await call("get_outline", document="d1"),
            await call("get_pending_work", kind="extraction"),
            await call("search_text", text="is bright"),
            await call("search_text", text="is bright", match="topic"),
            await call("get_outline"),
            await call("get_outline", document=f"Notes/{file.name}"),
        ]
    for reply in replies:
        assert "Kepler" in reply.text
        outside = re.sub(r"^(```+)\n.*?^\1$", "", reply.text, flags=re.MULTILINE | re.DOTALL)
        assert "```" not in outside
        assert not re.search(r"\[d9[34]:c1\]", outside)
