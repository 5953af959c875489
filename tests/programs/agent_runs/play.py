"""Plays three agent runs against the server over stdio and prints what the model would read, with its tokens.

Run it by hand and read it as the model would: is anything missing, repeated, too long, unclear about the next step?

    python tests/programs/agent_runs/play.py [index|drill|agent]

The agent is a script: where a model would read and think, it takes the first thing that fits.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer

SUBJECTS = (
    "with",
    "try",
    "context-managers",
    "class",
    "import",
    "async",
    "global",
    "binding",
    "del",
    "raise",
)


@dataclass
class Agent:
    """A client that prints every call and every reply as the model would see them, and adds up the tokens."""

    client: Client
    tokens: TiktokenTokenizer = field(default_factory=TiktokenTokenizer)
    read: int = 0

    async def call(self, tool: str, /, **arguments: Any) -> Mapping[str, Any]:
        print(f"\n>>> {tool}({json.dumps(arguments, ensure_ascii=False)[:600]})")
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        size = self.tokens.count(text)
        self.read += size
        print(f"<<< {size} tokens{', an error' if result.is_error else ''}\n{text}")
        return result.structured_content or {}

    def think(self, thought: str) -> None:
        print(f"\n### {thought}")


async def index_and_answer(agent: Agent, folder: Path) -> None:
    agent.think("The user: index my folder and tell me how a with statement treats an exception.")
    await agent.call("get_index_status")
    job = await agent.call("ingest_documents", documents=[{"path": str(folder)}])
    while job["status"] in ("queued", "running"):
        job = await agent.call("get_job", job_id=job["job_id"], wait_seconds=30)
    found = await agent.call(
        "query_lca_context", query="What happens to an exception inside a with statement?", token_budget=1500
    )
    await agent.call("get_sources", citations=[each["citation"] for each in found["sources"][:2]])
    agent.think("The user: add this note of mine, and forget the file about del.")
    await agent.call(
        "ingest_documents",
        documents=[{"text": "Our house rule: never catch BaseException.", "title": "House rule"}],
    )
    await agent.call("delete_documents", ids=[str(folder / "del.txt")])
    await agent.call("build_hierarchy")


async def drill_down(agent: Agent, folder: Path) -> None:
    agent.think("The user: what is there about exceptions? Go step by step.")
    await agent.call("ingest_documents", documents=[{"path": str(folder)}], wait_seconds=40)
    await agent.call("list_collections")
    found = await agent.call("search_entities", query="exception handling", limit=5)
    chain = await agent.call("get_entity_ancestors", entity=found["entities"][0]["ref"])
    await agent.call("get_cluster", cluster=chain["path"][1]["ref"], limit=8)
    await agent.call("list_inter_cluster_relations", cluster=chain["path"][1]["ref"], limit=5)
    await agent.call("get_sources", entity=found["entities"][0]["name"])
    agent.think("It mistypes a name, and asks with two sub-queries.")
    await agent.call("get_entity_ancestors", entity="excepton handler")
    await agent.call(
        "query_lca_context",
        query="How do generators and exceptions work together?",
        queries=["generator", "raise an exception"],
        token_budget=1200,
    )


async def be_the_model(agent: Agent, folder: Path) -> None:
    agent.think("The user: make the index better; there is no key, so do it yourself.")
    await agent.call(
        "ingest_documents",
        documents=[{"path": str(folder / "with.txt")}, {"path": str(folder / "raise.txt")}],
    )
    await work_through(agent, "extraction", "submit_extractions", extraction)
    await agent.call("build_hierarchy", wait_seconds=40)
    await work_through(agent, "summary", "submit_summaries", summary)
    await agent.call("build_hierarchy", wait_seconds=40)
    await agent.call("get_pending_work", kind="relation", limit=2)
    await agent.call("get_pending_work", kind="description", limit=2)
    agent.think("The user: “with” and “with statement” are the same.")
    await agent.call("merge_entities", entities=["with statement", "statement"])
    await agent.call("build_hierarchy", wait_seconds=40)
    await agent.call("get_index_status")
    await agent.call("query_lca_context", query="What does the with statement do?", token_budget=800)


async def work_through(
    agent: Agent, kind: str, submit: str, write: Callable[[Mapping[str, Any], int], dict[str, Any]]
) -> None:
    """Do all work of one kind, page by page; what is rejected is mended once."""
    work = await agent.call("get_pending_work", kind=kind, limit=3)
    number = 0
    while work.get("items"):
        items = [write(item, number + place) for place, item in enumerate(work["items"])]
        if not number:
            items[0] |= {"entities": "none"} if kind == "extraction" else {"name": ""}
        done = await agent.call(submit, items=items)
        if not number:
            agent.think("It mends what was rejected, and tries whether it may overwrite its own work.")
            again = [write(work["items"][0], number)]
            await agent.call(submit, items=again)
            other = {"entities": [], "relations": []} if kind == "extraction" else {"name": "Another name"}
            await agent.call(submit, items=[again[0] | other])
        number += len(items)
        if not done.get("accepted") and number > len(items):
            agent.think("It gives up on these: they stay heuristic.")
            break
        if not work["next_cursor"]:
            break
        work = await agent.call("get_pending_work", kind=kind, limit=3, cursor=work["next_cursor"])


def extraction(item: Mapping[str, Any], place: int) -> dict[str, Any]:
    """What a lazy model would say of a chunk: its words in backticks, each related to the next."""
    names = list(dict.fromkeys(re.findall(r"“(\w[\w ]+)”|``?(\w[\w.]+)", item["text"])))
    del place
    said = [f"{a or b} statement" if (a or b) == "with" else (a or b) for a, b in names][:5]
    said = said or re.findall(r"\b[a-z]{8,}\b", item["text"])[:3]
    said = list(dict.fromkeys(said))
    entities = [
        {"name": each, "type": "concept", "description": f"{each} as this passage tells of it."}
        for each in said
    ]
    relations = [
        {"source": near, "target": far, "description": f"{near} is told of beside {far}.", "importance": 5}
        for near, far in pairwise(said)
    ]
    return {"work_id": item["work_id"], "entities": entities, "relations": relations}


def summary(item: Mapping[str, Any], place: int) -> dict[str, Any]:
    return {
        "work_id": item["work_id"],
        "name": f"Statements and their runtime context, part {place + 1}",
        "description": "How statements enter and leave a runtime context, and how exceptions pass through it.",
        "findings": [
            {
                "summary": f"Finding {number}",
                "explanation": f"What the members have in common, number {number}.",
            }
            for number in range(1, 6)
        ],
    }


RUNS: Mapping[str, Callable[[Agent, Path], Awaitable[None]]] = {
    "index": index_and_answer,
    "drill": drill_down,
    "agent": be_the_model,
}


@asynccontextmanager
async def started(data: Path, folder: Path) -> Any:
    command = ["-P", "-m", "leanrag_mcp", "serve", f"--data-dir={data}", f"--allow-dir={folder}"]
    async with Client(
        StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    ) as client:
        yield client


async def play(names: list[str]) -> None:
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "notes"
            folder.mkdir()
            for subject in SUBJECTS:
                if subject in topics:
                    (folder / f"{subject}.txt").write_text(topics[subject], encoding="utf-8")
            print(f"\n{'=' * 20} {name} {'=' * 20}")
            async with started(Path(scratch) / "data", folder) as client:
                agent = Agent(client)
                print(f"The server's instructions:\n{client.instructions or ''}")
                await RUNS[name](agent, folder)
                print(f"\n=== {name}: the model read {agent.read} tokens.")


if __name__ == "__main__":
    anyio.run(play, sys.argv[1:] or list(RUNS))
