"""Let one reading token ask for the costliest things while another one asks plain questions, and compare what that one waits.

    python tests/programs/hostile.py [--calls 10000] [--clients 8] [--documents 300]

The plain client first asks alone, then beside the others. Prints one JSON line: p50 and p99 in milliseconds of its calls alone and
beside, megabytes that the server gained, what the hostile calls were answered. Exit code 1 if its p99 beside is more than five
times that alone, the server gained more than 300 MB, or a call got no answer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
from load import PEOPLE, PLACES, Figures, documents, finish, serve
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

TOKENS = {"operator": "admin", "clean": "read", "hostile": "read"}
LONG = " ".join(f"{person} {place}" for person in PEOPLE for place in PLACES)[:9_900]
COSTLY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("query_lca_context", {"query": LONG, "queries": [LONG[number:] for number in range(16)], "token_budget": 32_000, "top_k": 100, "seeds": 100}),
    ("query_lca_context", {"query": "Who repaired what, where?", "mode": "global", "token_budget": 32_000, "response_format": "detailed"}),
    ("query_lca_context", {"query": "lamp", "entities": PEOPLE * 2, "seen": [f"d{number}:c1" for number in range(1, 900)]}),
    ("search_entities", {"query": LONG, "limit": 100}),
    ("search_entities", {"query": "Who was it?", "layer": 1, "limit": 100}),
    ("search_text", {"text": r"(?:\w+\s+){1,40}(?:\w*a\w*e\w*\s+){1,40}zzz", "match": "pattern", "limit": 100}),
    ("search_text", {"text": r"(a|aa|[a-z])+(b|bb|[a-z])+(c|cc|[a-z])+$$", "match": "pattern"}),
    ("search_text", {"text": "(?:" + "[ab]c" * 150 + "){10000}", "match": "pattern"}),
    ("search_text", {"text": "(?s)" + "(" * 250 + "." + ")" * 250 + "*", "match": "pattern"}),
    ("search_text", {"text": "e", "limit": 100}),
    ("search_text", {"text": "e", "by_document": True}),
    ("search_text", {"text": LONG[:1000], "match": "topic", "limit": 100}),
    ("search_text", {"text": f"{LONG[:900]} nowhere", "limit": 100}),
    ("get_sources", {"citations": [f"d{number}:c1" for number in range(1, 51)], "neighbours": 5, "token_budget": 20_000}),
    ("get_sources", {"entity": "Ewan Reid", "query": LONG[:2000], "token_budget": 20_000}),
    ("get_sources", {"citations": [1] * 200_000}),
    ("query_lca_context", {"query": "lamp", "filters": {"metadata": {"author": "a|" * 400_000}}}),
    ("query_lca_context", {"query": "lamp", "filters": {"documents": [f"nowhere {number}" for number in range(1000)]}}),
    ("get_entity_ancestors", {"entity": LONG[:900]}),
    ("list_inter_cluster_relations", {"limit": 100}),
    ("get_outline", {"document": "Report 1"}),
    ("get_index_status", {}),
)  # fmt: skip


@asynccontextmanager
async def connect(address: str, name: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {name * 4}"}, timeout=120) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        yield client


async def ask_plainly(client: Client, seconds: list[float], number: int) -> None:
    started = time.perf_counter()
    query = f"Who repaired the lamp at {PLACES[number % len(PLACES)]} with {PEOPLE[number % len(PEOPLE)]}?"
    result = await client.call_tool("query_lca_context", {"query": query})
    assert isinstance(result, CallToolResult)
    assert not result.is_error
    seconds.append(time.perf_counter() - started)


async def attack(client: Client, left: list[int], ends: Counter[str], chance: random.Random) -> None:
    while left:
        left.pop()
        tool, arguments = chance.choice(COSTLY)
        try:
            result = await client.call_tool(tool, arguments)
            assert isinstance(result, CallToolResult)
            ends["refused" if result.is_error else "answered"] += 1
        except Exception as problem:  # noqa: BLE001 - whatever a client may see is counted
            ends[f"failed: {problem!r}"[:120]] += 1


async def run(process: psutil.Process, address: str, calls: int, clients: int, held: int) -> dict[str, Any]:
    alone, beside, ends = list[float](), list[float](), Counter[str]()
    async with connect(address, "operator") as operator:
        await finish(operator, Figures(0), "ingest_documents", documents=documents(range(held)))
    async with connect(address, "clean") as clean:
        for tool, arguments in COSTLY[:3]:  # what a server holds after its first calls
            await clean.call_tool(tool, arguments)
        for number in range(200):
            await ask_plainly(clean, alone, number)
        before = most = process.memory_info().rss
        left = list(range(calls))
        async with anyio.create_task_group() as group:
            for number in range(clients):
                group.start_soon(be_hostile, address, left, ends, number)
            while left:
                await ask_plainly(clean, beside, len(beside))
                most = max(most, process.memory_info().rss)
    figures = {name: percentiles(each) for name, each in (("alone", alone), ("beside", beside))}
    return {
        "hostile calls": sum(ends.values()), "ends": dict(ends.most_common(8)), "plain calls beside": len(beside),
        "p50, p99 (ms)": figures, "times as long": round(figures["beside"][1] / figures["alone"][1], 1),
        "gained (MB)": (most - before) >> 20,
    }  # fmt: skip


async def be_hostile(address: str, left: list[int], ends: Counter[str], number: int) -> None:
    async with connect(address, "hostile") as client:
        await attack(client, left, ends, random.Random(number))  # noqa: S311 - no secret


def percentiles(seconds: list[float]) -> list[int]:
    ordered = sorted(seconds)
    return [round(1000 * ordered[len(ordered) * share // 100]) for share in (50, 99)]


def main(calls: int, clients: int, held: int, folder: Path) -> dict[str, Any]:
    tables = (
        f'[{name}]\nsha256 = "{sha256((name * 4).encode()).hexdigest()}"\nright = "{right}"\n'
        for name, right in TOKENS.items()
    )
    (folder / "tokens.toml").write_text("\n".join(tables))
    os.environ["LEANRAG_HTTP_TOKENS_FILE"] = str(folder / "tokens.toml")
    with serve(folder / "data", "") as (process, address):
        return anyio.run(run, process, address, calls, clients, held)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--documents", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        figures = main(given.calls, given.clients, given.documents, Path(scratch))
    print(json.dumps(figures))
    failed = any(each.startswith("failed") for each in figures["ends"])
    sys.exit(failed or figures["times as long"] > 5 or figures["gained (MB)"] > 300)
