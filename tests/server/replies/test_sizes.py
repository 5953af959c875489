"""Every reply of every tool over a collection of 1,200 entities, counted; and both sides of it compared."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from conftest import Caller, Reply

pytestmark = pytest.mark.anyio

MOST = 8000
SYLLABLES = ["ba", "ko", "ri", "tu", "mel", "sar", "vin", "dor", "pel", "gha", "nis", "zu"]


def corpus() -> list[DocumentSource]:
    """1,600 named towns; each document tells of many at length."""
    draw = random.Random(7)  # noqa: S311 - a corpus is no secret
    names = sorted({"".join(draw.choices(SYLLABLES, k=4)).capitalize() + " Town" for _ in range(12000)})
    draw.shuffle(names)
    towns = names[:1600]
    sources = []
    for n in range(0, len(towns), 40):
        lines = []
        for town, second in zip(towns[n : n + 40 : 2], towns[n + 1 : n + 40 : 2], strict=True):
            other = draw.choice(towns)
            lines.append(
                f"{town} trades salt with {second} and woven cloth with {other} along the river, where all ferrymen "
                "have quarrelled with all millers for as long as anybody can remember."
            )
        sources.append(
            DocumentSource(text="\n\n".join(lines), id=f"book-{n}", title=f"Book of towns {n} " + "x" * 150)
        )
    return sources


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("towns")

    async def fill() -> None:
        async with await LeanRAG.open(load_settings(data_dir=folder)) as engine:
            job = await engine.job((await engine.submit_ingest(corpus())).id, 300)
            assert job.status.value == "done", job.message
            status = await engine.status()
            assert status.collection.generation
            assert status.collection.generation.layers[0].entities >= 1200

    anyio.run(fill)
    return folder


@pytest.fixture
async def ask(
    towns: Path, serve_in_process: Callable[..., AbstractAsyncContextManager[Caller]]
) -> AsyncIterator[Caller]:
    async with serve_in_process(towns) as call:
        yield call


def leaves(value: Any, key: str = "") -> list[tuple[str, str]]:
    """Every text and number in structured content, with its key."""
    if isinstance(value, dict):
        return [leaf for name, each in value.items() for leaf in leaves(each, name)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each, key)]
    return [] if value in (None, "") or isinstance(value, bool) else [(key, str(value))]


TOLD_OTHERWISE = {
    # "1 passages of 40", "d3:c1" instead of a count, "next page" by its cursor: said in words.
    *("total", "total_documents", "total_members", "layer", "chunks", "level"),
    *("clustering", "kind", "collection"),
}


def check(reply: Reply, what: str) -> None:
    assert not reply.is_error, reply.text
    tokens = TiktokenTokenizer()
    assert tokens.count(reply.text) <= MOST, what
    assert tokens.count(json.dumps(reply.data, ensure_ascii=False)) <= MOST, what
    said = re.sub(r"(?<=\d),(?=\d{3})", "", " ".join(reply.text.split()))
    for key, leaf in leaves({key: each for key, each in reply.data.items() if key != "health"}):
        if key not in TOLD_OTHERWISE:
            assert " ".join(leaf.split()) in said, f"{what}: {key}={leaf!r} is not in the text"


def check_query(reply: Reply, what: str) -> None:
    """A query's text is its context; the structured content repeats it, and lists what it rests on."""
    assert not reply.is_error, reply.text
    tokens = TiktokenTokenizer()
    assert reply.text == reply.data["context"], what
    assert tokens.count(reply.text) == reply.data["tokens"] <= MOST, what
    assert tokens.count(json.dumps(reply.data, ensure_ascii=False)) <= MOST, what
    for warning in reply.data["warnings"]:
        assert warning in reply.text, what


async def test_no_reply_is_too_long_and_both_sides_say_the_same(ask: Caller) -> None:
    found = await ask("search_entities", query="salt and copper trade", limit=100)
    check(found, "search, 100")
    assert found.data["next_cursor"], "what did not fit comes on the next page"
    entity = found.data["entities"][0]["ref"]
    chain = await ask("get_entity_ancestors", entity=entity)
    check(chain, "ancestors")
    for node in chain.data["path"][1:]:
        for form in ("concise", "detailed"):
            check(
                await ask("get_cluster", cluster=node["ref"], limit=100, response_format=form),
                f"cluster {form}",
            )
    check(await ask("get_entity_ancestors", entity=entity, max_layers=1), "ancestors, 1")
    for mode in ("lca", "local", "global", "naive"):
        for form in ("concise", "detailed"):
            asked = {
                "query": "Which towns trade salt along the river?",
                "mode": mode,
                "response_format": form,
            }
            check_query(await ask("query_lca_context", **asked), f"query {mode} {form}")
    check(await ask("list_inter_cluster_relations", limit=100), "relations, 100")
    check(await ask("get_sources", citations=[f"d{n}:c1" for n in range(1, 51)], limit=50), "50 citations")
    check(await ask("get_sources", entity=chain.data["path"][1]["ref"], limit=100), "sources of a cluster")
    check(await ask("get_sources", document="d1", limit=100), "sources of a document")
    check(await ask("get_outline", document="d1"), "outline")
    check(await ask("search_text", text="trades salt", limit=100), "matches, 100")
    check(
        await ask("search_text", text=r"\b\w{4}\b", match="pattern", limit=100), "matches of a pattern, 100"
    )
    check(await ask("list_collections"), "collections")
    check(await ask("get_outline"), "documents")
    check(await ask("search_text", text="salt|cloth", match="topic", limit=100), "a topic, 100")
    check(await ask("search_text", text="river", by_document=True, by_date=True), "documents with a text")
    check(await ask("get_index_status"), "status")
    check(await ask("get_pending_work", limit=5), "work")


@pytest.mark.parametrize("budget", [500, 1000, 4000])
async def test_a_concise_reply_keeps_to_its_budget_and_the_structured_content_is_hardly_longer(
    ask: Caller, budget: int
) -> None:
    tokens = TiktokenTokenizer()
    for mode in ("lca", "local", "global", "naive"):
        reply = await ask(
            "query_lca_context",
            query="Which towns trade salt along the river?",
            mode=mode,
            token_budget=budget,
        )
        assert not reply.is_error, reply.text
        text, structured = (
            tokens.count(each) for each in (reply.text, json.dumps(reply.data, ensure_ascii=False))
        )
        assert budget / 2 < text <= budget, mode
        assert structured <= 1.3 * text, f"{mode}: {structured} tokens for a text of {text}"


async def test_pages_that_were_cut_short_go_on_where_they_ended(ask: Caller) -> None:
    seen: list[str] = []
    cursor = ""
    while True:
        page = await ask("get_outline", cursor=cursor)
        seen += [row[1] for row in page.data["sections"]]
        cursor = page.data["next_cursor"]
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == len(corpus())


async def test_the_replies_of_the_writing_tools_are_bounded_too(
    serve_in_process: Callable[..., AbstractAsyncContextManager[Caller]], tmp_path: Path
) -> None:
    long = "title " * 2000
    async with serve_in_process(tmp_path) as call:
        documents = [{"text": f"Ceres {n}.", "id": f"{n}-" + "i" * 500, "title": long} for n in range(150)]
        documents += [{"path": "/etc/" + "p" * 900 + str(n)} for n in range(50)]
        reply = await call("ingest_documents", documents=documents, build=False, wait_seconds=40)
        job = await call("get_job", job_id=reply.data["job_id"])
        gone = await call("delete_documents", ids=["u" * 5000 + str(n) for n in range(100)])
        for each in (reply, job, gone):
            assert TiktokenTokenizer().count(each.text) <= MOST
            assert TiktokenTokenizer().count(json.dumps(each.data)) <= MOST
