"""Everything on real input, with the real server and a real MCP client."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent
from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.table import Table
from rich.tree import Tree

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG

from ...clients.places import CLIENTS
from ..progress import follow

TOKEN_BUDGET = 1200

QUESTIONS = (
    "What does the with statement do with __enter__ and __exit__ when the body raises an exception?",
    "How does a generator function differ from a coroutine function, and what does yield do in each?",
    "Which takes precedence in attribute lookup: a data descriptor, the instance dictionary or __getattr__?",
)


@dataclass(slots=True)
class DemoFigures:
    """Measurements of the demo."""

    documents: int = 0
    layers: list[int] = field(default_factory=list)
    relations: list[int] = field(default_factory=list)
    index_seconds: float = 0
    context_tokens: list[int] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    total_seconds: float = 0


async def run_demo(data_dir: Path | None, collection: str, as_json: bool) -> None:
    """Ingest, build, serve and ask; print what a user would see, and with ``as_json`` the figures last."""
    console = Console(stderr=as_json)
    figures = DemoFigures()
    started = time.perf_counter()
    with ExitStack() as cleanup:
        folder = data_dir or Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="leanrag-demo-")))
        settings = load_settings(data_dir=folder, collection=collection)
        await index_reference(console, settings, figures)
        await ask_server(console, settings, figures)
    figures.total_seconds = round(time.perf_counter() - started, 1)
    show_clients(console)
    console.print(f"\nDone in {figures.total_seconds} s.")
    if as_json:
        sys.stdout.write(json.dumps(asdict(figures)) + "\n")


# --- index ---------------------------------------------------------------------------------


async def index_reference(console: Console, settings: Settings, figures: DemoFigures) -> None:
    size = sum(len(text.encode()) for text in topics.values()) // 1000
    console.print(Rule("1. Ingest and build", align="left"))
    console.print(f"The Python language reference on this machine: {len(topics)} documents, {size} kB.")
    sources = [DocumentSource(text=text, id=f"python/{name}") for name, text in sorted(topics.items())]
    started = time.perf_counter()
    async with await LeanRAG.open(settings) as engine:
        job = await follow(engine, await engine.submit_ingest(sources, collection=settings.collection))
        if job.status.value != "done":
            message = f"The demo's job {job.status.value}: {job.message}"
            raise SystemExit(message)
        generation = (await engine.status(settings.collection)).collection.generation
        assert generation is not None, "a finished job has built a generation"
        figures.documents = len(job.documents)
        figures.layers = [each.entities for each in generation.layers]
        figures.relations = [each.relations for each in generation.layers]
    figures.index_seconds = round(time.perf_counter() - started, 1)
    table = Table("layer", "entities", "relations", "what it holds")
    for depth, (entities, relations) in enumerate(zip(figures.layers, figures.relations, strict=True)):
        top = depth == len(figures.layers) - 1
        kind = (
            "names and terms of the documents" if not depth else "the root" if top else "aggregated entities"
        )
        table.add_row(f"G{depth}", str(entities), str(relations), kind)
    console.print(table)
    console.print(f"Indexed in {figures.index_seconds} s, without a model.")


# --- ask -----------------------------------------------------------------------------------


async def ask_server(console: Console, settings: Settings, figures: DemoFigures) -> None:
    console.print(Rule("2. The MCP server, asked by an MCP client over stdio", align="left"))
    server = StdioServerParameters(
        command=sys.executable,
        args=[
            "-P",
            "-m",
            "leanrag_mcp",
            "serve",
            f"--data-dir={settings.data_dir}",
            f"--collection={settings.collection}",
        ],
        env=dict(os.environ),
    )
    async with Client(server) as client:
        figures.tools = [tool.name for tool in (await client.list_tools()).tools]
        console.print("Tools: " + ", ".join(figures.tools))
        for number, question in enumerate(QUESTIONS):
            await ask(console, client, question, figures, draw_tree=number == 0)
        await walk(console, client)


async def ask(
    console: Console, client: Client, question: str, figures: DemoFigures, *, draw_tree: bool
) -> None:
    console.print(Rule(f"query_lca_context: {question}", align="left", style="cyan"))
    reply = await call(client, "query_lca_context", {"query": question, "token_budget": TOKEN_BUDGET})
    console.print(reply["context"], markup=False, highlight=False)
    cited = ", ".join(reply["sources"])
    console.print(f"[green]{reply['tokens']} tokens of {TOKEN_BUDGET}; sources {cited}[/green]")
    figures.context_tokens.append(reply["tokens"])
    if draw_tree:
        console.print("The LCA tree of this answer (seeds are marked *):")
        asked = {"query": question, "token_budget": TOKEN_BUDGET, "response_format": "detailed"}
        console.print(lca_tree(await call(client, "query_lca_context", asked)))


def lca_tree(reply: dict[str, Any]) -> Tree:
    """Draw the union of the LCA paths from the LCA of all seeds down to the seeds."""
    seeds = {seed["ref"] for seed in reply["seeds"]}
    nodes = {node["ref"]: node for node in reply["path"]}
    trees: dict[str, Tree] = {}
    for ref, node in sorted(nodes.items(), key=lambda item: (-item[1]["layer"], item[1]["name"])):
        label = escape(f"{'* ' if ref in seeds else ''}{node['name']} (G{node['layer']})")
        parent = trees.get(node["parent"])
        trees[ref] = parent.add(label) if parent else Tree(label)
    return trees[reply["lca"]["ref"]]


async def walk(console: Console, client: Client) -> None:
    console.print(
        Rule(
            "Step by step: search_entities, get_entity_ancestors, list_inter_cluster_relations",
            align="left",
            style="cyan",
        )
    )
    found = await call(client, "search_entities", {"query": "context manager", "layer": 0, "limit": 3})
    for entity in found["entities"]:
        console.print(
            f"  {entity['name']} ({entity['ref']}): {entity['description']}", markup=False, highlight=False
        )
    chain = await call(client, "get_entity_ancestors", {"entity": found["entities"][0]["ref"]})
    console.print(
        "  belongs to: " + " < ".join(f"{node['name']} (G{node['layer']})" for node in chain["path"]),
        markup=False,
    )
    parent = chain["path"][1]
    related = await call(client, "list_inter_cluster_relations", {"cluster": parent["ref"], "limit": 3})
    for relation in related["relations"]:
        console.print(
            f"  {relation['source']} — {relation['target']} (λ={relation['strength']}): {relation['description']}",
            markup=False,
            highlight=False,
        )


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool and return its structured content; an error result ends the demo with its text."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
    if result.is_error or result.structured_content is None:
        raise SystemExit(text)
    content: dict[str, Any] = result.structured_content
    return content


def show_clients(console: Console) -> None:
    console.print(Rule("3. Add it to your client", align="left"))
    for client in CLIENTS:
        console.print(f"  leanrag install {client} --allow-dir FOLDER", markup=False, highlight=False)
