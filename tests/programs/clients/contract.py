"""What every client must get from the server; each program beside this file brings its library's way of asking.

A program is started as ``PROGRAM stdio COMMAND ARGUMENT...`` or ``PROGRAM http URL`` and prints one line.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

TOOLS = {
    *("query_lca_context", "search_entities", "get_entity_ancestors", "get_cluster"),
    *(
        "list_inter_cluster_relations",
        "search_text",
        "get_outline",
        "get_sources",
        "get_index_status",
        "get_history",
    ),
    *("list_collections", "ingest_documents", "build_hierarchy", "get_job", "cancel_job", "delete_documents"),
    *("merge_entities", "split_entity"),
    *("get_pending_work", "submit_extractions", "submit_summaries"),
}


@dataclass(frozen=True)
class Answer:
    """One reply as the library hands it on: text, structured content (one may be missing), error or not."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False


@dataclass(frozen=True)
class Place:
    """Where the server is: a command to start, or an address."""

    transport: str
    command: str
    arguments: list[str]
    url: str


Call = Callable[[str, dict[str, Any]], Awaitable[Answer]]


def place() -> Place:
    """From the command line."""
    transport, first, *rest = sys.argv[1:]
    return Place(transport, "" if transport == "http" else first, rest, first if transport == "http" else "")


async def play(library: str, tools: list[str], call: Call) -> None:
    """List, look, ingest, ask, and make one mistake; raises AssertionError where the server falls short."""
    assert set(tools) >= TOOLS, f"not offered: {TOOLS - set(tools)}"
    status = await call("get_index_status", {})
    assert not status.is_error, status.text
    name = "".join(part.capitalize() for part in library.replace(".", " ").split())
    text = (
        f"The {name} lighthouse stands on Muckle Flugga. Alan Stevenson designed the {name} lighthouse. "
        f"The {name} lighthouse was lit in 1854."
    )
    documents = [{"id": library, "title": f"{name} lighthouse", "text": text}]
    ingested = await call("ingest_documents", {"documents": documents, "wait_seconds": 40})
    assert not ingested.is_error, ingested.text
    assert not ingested.data or ingested.data["status"] == "done", ingested.data
    asked = await call("query_lca_context", {"query": f"Who designed the {name} lighthouse?"})
    assert "Alan Stevenson" in (asked.text or asked.data["context"]), asked
    assert not asked.data or "Alan Stevenson" in asked.data["context"], asked.data
    missed = await call("get_cluster", {"cluster": "Atlantis under the sea"})
    assert missed.is_error, missed
    assert "Atlantis under the sea" in missed.text, missed.text
    assert "Error executing tool" not in missed.text, missed.text
    seen = " and ".join(kind for kind, there in (("text", asked.text), ("structured", asked.data)) if there)
    print(
        f"{library} over {place().transport}: {len(tools)} tools; reads {seen}; error: {missed.text[:60]!r}"
    )
