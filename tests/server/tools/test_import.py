"""A graph that another program has made, taken over by the tool that ingests documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]

TRIPLES = [
    {"subject": "Scrooge", "predicate": "employs", "object": "Bob Cratchit"},
    {"subject": "Bob Cratchit", "predicate": "is the father of", "object": "Tiny Tim"},
    {"subject": "Scrooge", "predicate": "is", "object": "Scrooge"},
]


@pytest.fixture
def triples(tmp_path: Path) -> Path:
    path = tmp_path / "graphs" / "triples.jsonl"
    path.parent.mkdir()
    path.write_text("".join(f"{json.dumps(row)}\n" for row in TRIPLES))
    return path


async def test_a_graph_is_taken_and_built_and_the_reply_counts_what_was_not_taken(
    serve_in_process: Serve, tmp_path: Path, triples: Path
) -> None:
    async with serve_in_process(tmp_path / "index", allow_dirs=[triples.parent]) as call:
        reply = await call(
            "ingest_documents", documents=[{"path": str(triples)}], graph="jsonl", wait_seconds=40
        )
        reply = reply if reply.data["status"] == "done" else await call.finish(reply)
        assert "Taken from jsonl: 1 document, 2 passages, 3 entities, 2 relations (of 3)." in reply.text
        assert "1 relations of an entity with itself (Scrooge – Scrooge)" in reply.text
        assert reply.text.endswith("Next: Call query_lca_context with a question.")
        answer = await call("query_lca_context", query="Whose father is Bob Cratchit?")
        assert "Bob Cratchit is the father of Tiny Tim." in answer.text
        again = await call(
            "ingest_documents", documents=[{"path": str(triples)}], graph="jsonl", wait_seconds=40
        )
        assert "All of it was there already: nothing was changed." in again.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"graph": "neo4j"}, "'neo4j' is no format of an import"),
        ({"graph": "jsonl", "sync": True}, "With graph, documents holds one path and nothing else"),
        ({"graph": "jsonl", "documents": [{"text": "A"}]}, "With graph, documents holds one path"),
        (
            {"graph": "jsonl", "documents": [{"path": "/a"}, {"path": "/b"}]},
            "With graph, documents holds one",
        ),
        ({"graph": "graphml"}, "triples.jsonl"),
        ({"graph": "jsonl", "documents": [{"path": "/etc/hostname"}]}, "outside the allowed folders"),
    ],
)
async def test_what_is_no_graph_is_refused_and_nothing_is_stored(
    serve_in_process: Serve, tmp_path: Path, triples: Path, arguments: dict[str, Any], said: str
) -> None:
    async with serve_in_process(tmp_path / "index", allow_dirs=[triples.parent]) as call:
        given = {"documents": [{"path": str(triples)}], "wait_seconds": 40} | arguments
        reply = await call("ingest_documents", **given)
        assert reply.is_error, reply.text
        assert said in reply.text
        assert (await call("get_index_status")).data["documents"] == 0
