"""The explorer's page as one file, and what a browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from leanrag_tests_jobs import ingest, open_engine

from leanrag_engine import DocumentSource
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Document, Entity
from leanrag_engine.engine import RelationPage
from leanrag_engine.retrieval.browse.passages import SourcePage
from leanrag_mcp.explorer.page import list_files, write_page

D3_DIGEST = "ba0f5b53d3c1ec769723a43f2a723917bb49869f53298661e17be28613fbc54f"
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)><!--"


def notes() -> list[DocumentSource]:
    """Enough entities for two layers above them; a name and a title with what would be HTML."""
    towns = [
        f"Town {first}{second}" for first in "ABCDEF" for second in ("ora", "ulm", "esk", "ine", "ost", "ith")
    ]
    lines = [
        f"{town} lies on the river {near} River. {town} trades with {other}."
        for town, other, near in zip(towns, [*towns[1:], towns[0]], towns[::-1], strict=True)
    ]
    return [
        DocumentSource(text=" ".join(lines), title=f"Towns {HOSTILE}", id="towns"),
        DocumentSource(
            text=f"Town Aora was founded by Ada Byron. {HOSTILE} Ada Byron was born in Town Fith.", id="more"
        ),
    ]


class WrittenPage:
    """A page that ``write_page`` wrote, its data, and what the engine says of the same."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        found = re.findall(
            r'<script type="application/json" id="data-(\w+)">(.*?)</script>', self.text, re.DOTALL
        )
        self.data: dict[str, Any] = {name: json.loads(value) for name, value in found}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[WrittenPage, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("written")

    async def write() -> dict[str, Any]:
        async with open_engine(folder / "data") as engine:
            await ingest(engine, notes())
            await write_page(engine, "default", folder / "page.html")
            with pytest.raises(InvalidInput, match="exists already"):
                await write_page(engine, "default", folder / "page.html")
            root = await engine.root()
            return {
                "heads": await engine.entity_heads(),
                "documents": await engine.documents(),
                "root": root,
                "links": await engine.relations_within(root.id),
                "sources": await engine.sources(entity="Ada Byron"),
                "relations": await engine.relations_of("Ada Byron"),
                "passages": await engine.sources(document="d1"),
            }

    facts = anyio.run(write)
    return WrittenPage(folder / "page.html"), facts


def test_the_file_holds_what_the_engine_says(written: tuple[WrittenPage, dict[str, Any]]) -> None:
    page, facts = written
    data = page.data
    assert data["tree"]["refs"] == [each.id for each in facts["heads"]]
    assert data["tree"]["names"] == [each.name for each in facts["heads"]]
    assert len(data["tree"]["layers"]) > len({each.layer for each in facts["heads"]}) > 2
    assert sorted(data["within"][facts["root"].id]) == sorted(
        [each.source_id, each.target_id, each.strength] for each in facts["links"]
    )
    documents: list[Document] = facts["documents"]
    assert [each["title"] for each in data["documents"]] == [each.title for each in documents]
    assert len(data["history"]) == 1


def test_an_entity_in_the_file_has_its_sentences_relations_and_passages(
    written: tuple[WrittenPage, dict[str, Any]],
) -> None:
    page, facts = written
    (ada,) = [each for each in facts["heads"] if each.name == "Ada Byron"]
    details = page.data["entities"][ada.id]
    sources: SourcePage = facts["sources"]
    assert [each["text"] for each in details["sentences"]] == [each.text for each in sources.sentences]
    assert details["sentences"]
    relations: RelationPage = facts["relations"]
    assert {each["ref"] for each in details["relations"]} == {
        end for each in relations.relations for end in (each.source_id, each.target_id)
    } - {ada.id}
    assert details["passages"] == [each.citation for each in sources.chunks]
    passages: SourcePage = facts["passages"]
    kept = {each["citation"]: each for each in page.data["passages"]["d1"]}
    for chunk in passages.chunks:
        whole = kept[chunk.citation]
        assert whole["text"][chunk.start - whole["start"] :] == chunk.text


def test_the_file_runs_only_our_scripts_whatever_documents_hold(
    written: tuple[WrittenPage, dict[str, Any]],
) -> None:
    page, _ = written
    assert HOSTILE in page.data["documents"][0]["title"]
    assert "<script>document.title" not in page.text
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page.text)
    assert found
    policy = found[1]
    assert policy.startswith("default-src 'none'")
    scripts = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    digests = [
        f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts
    ]
    assert f"script-src {' '.join(digests)};" in policy
    assert "unsafe" not in policy
    bare = re.sub(r"<script.*?</script>|<style.*?</style>", "", page.text, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="([^"]*)"', bare) == ["data:,", "#panel"]


def test_names_at_the_top_of_the_modules_are_distinct() -> None:
    """In the one file all modules are one script."""
    names: list[str] = []
    for name, content in list_files().items():
        if name.endswith(".js") and name != "d3.js":
            names += re.findall(
                r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", content.decode(), re.MULTILINE
            )
    assert len(names) == len(set(names))


def test_the_page_never_makes_elements_from_text() -> None:
    for name, content in list_files().items():
        if name != "d3.js":
            assert not re.search(
                rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", content
            ), name


def test_d3_is_as_its_authors_published_it() -> None:
    assert hashlib.sha256(list_files()["d3.js"]).hexdigest() == D3_DIGEST


def test_a_browser_shows_hostile_text_as_text_and_is_led_by_the_keyboard(
    written: tuple[WrittenPage, dict[str, Any]], browse: Callable[..., Any]
) -> None:
    page, facts = written
    seen = browse("walk.mjs", page.path.as_uri())
    root: Entity = facts["root"]
    assert seen["problems"] == []
    assert seen["title"].endswith("LeanRAG explorer")
    assert seen["trail"] == [root.name]
    assert len(seen["deeper"]) == 2
    assert seen["climbed"] == [root.name]
    assert seen["found"].startswith("Ada Byron")
    assert seen["unknown"] == ["No entity is called so.", root.name]
    assert seen["closed"] == ""
    assert seen["overflow"] <= 0
    assert seen["printed"] == [True, 0]
    assert HOSTILE in seen["document"]
    assert "<script>document.title='taken'</script>" in seen["passage"]
    assert " ".join(seen["marked"].split()) == facts["sources"].sentences[0].text
