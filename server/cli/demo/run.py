"""One screen on real input, with the real server and a real MCP client."""

import json
import re
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from mcp.client import Client
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text
from rich.tree import Tree

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.replies.run import answer_flat

from ..machine.install import command_line, index_options, server_command
from ..machine.session import call_tool, open_session
from ..progress import follow

TOKEN_BUDGET = 1200

QUESTIONS = (
    "Which takes precedence in attribute lookup: a data descriptor, the instance dictionary or __getattr__?",
    "What does the with statement do with __enter__ and __exit__ when the body raises an exception?",
    "How does a generator function differ from a coroutine function, and what does yield do in each?",
)

FACTS = (
    "always override a redefinition in an instance dictionary",
    "non-data descriptors can be overridden by instances",
    'does not define "__get__()"',
    "Called when the default attribute access fails",
)
"""Words of the reference that answer the first question; which of them a reply holds is found out by each run."""

TOPICS = re.compile(
    r"async|attribute-references|await|class|del|dict|global|lambda|nonlocal|objects|raise|return|specialnames|subscriptions|types|with|yield"
)
"""The reference's data model and what goes with it: half of the reference, so that the demo is ready in half a minute. Its
question has the same figures as on the whole, with the default embedder."""


@dataclass(slots=True)
class DemoFigures:
    """Measurements of the demo."""

    documents: int = 0
    passages: int = 0
    layers: list[int] = field(default_factory=list)
    relations: list[int] = field(default_factory=list)
    index_seconds: float = 0
    context_tokens: list[int] = field(default_factory=list)
    document_tokens: int = 0
    facts: list[bool] = field(default_factory=list)
    flat_facts: list[bool] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    total_seconds: float = 0


SHORT_QUESTION = "What is a context manager?"

LABEL = re.compile(r"\[(d\d+:c\d+)[^\]]*\] ?")
PARTS = re.compile(r"(?m)^(?=\[d\d+:c\d+)|^(?=### )|^(?=# )|(?<=\n)(?=\n*```)")

SEED, PATH, ANCESTOR = "yellow", "cyan", "bold green"
"""Colours of the tree: as in the README's diagram."""


@dataclass(frozen=True, slots=True)
class DemoQuote:
    """A sentence of a context, and where it stands."""

    citation: str
    place: str
    sentence: str


async def run_demo(data_dir: Path | None, collection: str, full: bool, as_json: bool) -> None:
    """Ingest, build, serve and ask; print one screen, with ``full`` the rest too, with ``as_json`` the figures last."""
    console = Console(stderr=as_json, highlight=False)
    figures = DemoFigures()
    started = time.perf_counter()
    settings = load_settings(data_dir=data_dir, database_url="", chroma_url="", collection=collection)
    await index_reference(console, settings, figures)
    command = [*server_command(), *index_options(settings)]
    async with open_session(command) as client:
        await show_answer(console, client, settings, figures)
        if full:
            await show_rest(console, client, figures)
    figures.total_seconds = round(time.perf_counter() - started, 1)
    show_next(console, settings, figures, full=full)
    if as_json:
        sys.stdout.write(json.dumps(asdict(figures)) + "\n")


def choose_topics() -> dict[str, str]:
    """Return the topics by name; another version of Python may lack one."""
    return {name: text for name, text in sorted(topics.items()) if TOPICS.fullmatch(name)}


async def index_reference(console: Console, settings: Settings, figures: DemoFigures) -> None:
    texts = choose_topics()
    size = sum(len(text.encode()) for text in texts.values()) // 1000
    console.print(
        f"[bold]Half of the Python language reference on this machine[/bold]: {len(texts)} documents, {size} kB"
    )
    sources = [DocumentSource(text=text, id=f"python/{name}") for name, text in texts.items()]
    started = time.perf_counter()
    async with await LeanRAG.open(settings) as engine:
        job = await engine.submit_ingest(sources, collection=settings.collection)
        job = await follow(engine, job)
        if job.status.value != "done":
            raise LeanRAGError(f"The demo's job {job.status.value}: {job.message}", "Run it again.")
        found = (await engine.status(settings.collection)).collection
        assert found.generation is not None, "a finished job has built a generation"
        figures.document_tokens = sum(engine.count_tokens([*texts.values()]))
        figures.documents, figures.passages = found.documents, found.chunks
        figures.layers = [each.entities for each in found.generation.layers]
        figures.relations = [each.relations for each in found.generation.layers]
    figures.index_seconds = round(time.perf_counter() - started, 1)
    layers = " → ".join(f"{each:,}" for each in figures.layers)
    new = any(each.status != "unchanged" for each in job.documents)
    how = f"indexed in {figures.index_seconds:.0f} s, no model" if new else "indexed before"
    console.print(f"{figures.passages} passages, entities by layer {layers}, {how}")


async def show_answer(console: Console, client: Client, settings: Settings, figures: DemoFigures) -> None:
    """Ask the first question through the MCP client; print the lines that answer it and what flat search has of them, then
    the tree."""
    figures.tools = [tool.name for tool in (await client.list_tools()).tools]
    asked = {"query": QUESTIONS[0], "token_budget": TOKEN_BUDGET, "response_format": "detailed"}
    reply = await call_tool(client, "query_lca_context", asked)
    flat = await answer_flat(settings, [*choose_topics().values()], QUESTIONS[0], TOKEN_BUDGET)
    figures.context_tokens.append(reply["tokens"])
    figures.facts, figures.flat_facts = (
        [fact in " ".join(text.split()) for fact in FACTS] for text in (reply["context"], flat)
    )

    console.print(f"\n[bold]{QUESTIONS[0]}[/bold]\n")
    quotes = list(find_quotes(reply["context"]))
    for fact, found, in_flat in zip(FACTS, figures.facts, figures.flat_facts, strict=True):
        if not found:
            lacks = "only flat search has it" if in_flat else "in neither reply"
            console.print(Text(f"  ✗ {fact}: {lacks}", "dim"))
            continue
        quote = next((each for each in quotes if fact in each.sentence), DemoQuote("", "", fact))
        console.print(
            Text.assemble(
                (f"  ✓ [{quote.citation}] {quote.place}", "dim"),
                ("" if in_flat else "  flat search lacks it", "yellow"),
            )
        )
        for line in textwrap.wrap(quote.sentence, 74):
            console.print(Text(f"    {line}", "green"))
    ours, theirs = (f"{sum(each)} of {len(FACTS)}" for each in (figures.facts, figures.flat_facts))
    how = "(as many tokens; BM25 and the same embedder)"
    console.print(f"\n  [bold green]{ours} facts[/bold green], [yellow]flat search {theirs}[/yellow] {how}")
    console.print(Padding(lca_tree(reply), (1, 0, 0, 2)))


def find_quotes(context: str) -> Iterator[DemoQuote]:
    """Yield each sentence of a context, with the citation, title and heading that stand above it."""
    title, heading = "", ""
    for part in PARTS.split(context):
        if part.startswith("### "):
            title, heading = part[4:].strip(), ""
        elif part.startswith("# "):
            heading = part[2:].strip()
        elif label := LABEL.match(part):
            place = " › ".join(filter(None, (title, heading)))
            text = part[label.end() :].replace("```", "")
            for start, end in sentences(text):
                yield DemoQuote(label[1], place, " ".join(text[start:end].split()))


def lca_tree(reply: dict[str, Any]) -> Tree:
    """Draw the union of the LCA paths from the LCA of all seeds down to the seeds."""
    seeds = {seed["ref"] for seed in reply["seeds"]}
    nodes = {node["ref"]: node for node in reply["path"]}
    top = reply["lca"]["ref"]
    trees: dict[str, Tree] = {}
    for ref, node in sorted(nodes.items(), key=lambda item: (-item[1]["layer"], item[1]["name"])):
        style = ANCESTOR if ref == top else SEED if ref in seeds else PATH
        kind = "  the lowest common ancestor" if ref == top else ""
        label = Text.assemble((node["name"], style), (kind, "dim"), no_wrap=True, overflow="ellipsis")
        parent = trees.get(node["parent"])
        trees[ref] = parent.add(label) if parent else Tree(label, guide_style="dim")
    return trees[top]


def show_next(console: Console, settings: Settings, figures: DemoFigures, *, full: bool) -> None:
    """Print where the collection is kept, what to type next, and how little of the documents the reply is."""
    rows = [("leanrag setup FOLDER", "the same with your documents, in your MCP clients")]
    if not full:
        rows.append(("leanrag demo --full", "whole contexts, three questions, the other tools"))
    console.print("\n[bold]Next[/bold]")
    for command, meaning in rows:
        console.print(Text.assemble((f"  {command:22}", "cyan"), (meaning, "dim")))
    ask = command_line(["leanrag", "query", *index_options(settings), SHORT_QUESTION])
    console.print(Text(f"  {ask}", style="cyan"), soft_wrap=True)
    place = settings.data_dir.expanduser()
    console.print(Text(f"Kept in {place}, collection {settings.collection}.", style="dim"), soft_wrap=True)
    tokens = f"{figures.context_tokens[0]:,} tokens of a reply instead of {figures.document_tokens:,} of the documents"
    console.print(f"\n[bold green]{tokens}[/bold green]")


async def show_rest(console: Console, client: Client, figures: DemoFigures) -> None:
    """Print the context of each question, then one entity with what is above and beside it, then the tools."""
    figures.context_tokens.clear()
    for question in QUESTIONS:
        console.print(Rule(f"query_lca_context: {question}", align="left", style="cyan"))
        reply = await call_tool(
            client, "query_lca_context", {"query": question, "token_budget": TOKEN_BUDGET}
        )
        console.print(reply["context"], markup=False)
        console.print(
            f"[green]{reply['tokens']} tokens of {TOKEN_BUDGET}; sources {', '.join(reply['sources'])}[/green]"
        )
        figures.context_tokens.append(reply["tokens"])
    await walk(console, client)
    console.print(Rule(f"{len(figures.tools)} tools", align="left", style="cyan"))
    console.print(", ".join(figures.tools))


async def walk(console: Console, client: Client) -> None:
    steps = "search_entities, get_entity_ancestors, list_inter_cluster_relations"
    console.print(Rule(f"Step by step: {steps}", align="left", style="cyan"))
    found = await call_tool(client, "search_entities", {"query": "context manager", "layer": 0, "limit": 3})
    for entity in found["entities"]:
        console.print(f"  {entity['name']} ({entity['ref']}): {entity['description']}", markup=False)
    chain = await call_tool(client, "get_entity_ancestors", {"entity": found["entities"][0]["ref"]})
    path = " < ".join(f"{node['name']} (G{node['layer']})" for node in chain["path"])
    console.print(f"  belongs to: {path}", markup=False)
    parent = chain["path"][1]
    related = await call_tool(client, "list_inter_cluster_relations", {"cluster": parent["ref"], "limit": 3})
    for relation in related["relations"]:
        ends = f"{relation['source']} — {relation['target']}"
        console.print(f"  {ends} (λ={relation['strength']}): {relation['description']}", markup=False)
