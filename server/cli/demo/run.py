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
from rich.text import Text
from rich.tree import Tree

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.replies.run import answer_flat

from ..machine.install import server_command
from ..machine.session import call_tool, open_session
from ..running import command_line, follow_job, index_options

TOKEN_BUDGET = 1200

QUESTION = (
    "Which takes precedence in attribute lookup: a data descriptor, the instance dictionary or __getattr__?"
)

FACTS = (
    "always override a redefinition in an instance dictionary",
    "non-data descriptors can be overridden by instances",
    'does not define "__get__()"',
    "Called when the default attribute access fails",
)
"""Words of the reference that answer the question; which of them a reply holds is found out by each run."""

TOPICS = re.compile(
    r"async|attribute-references|await|class|del|dict|global|lambda|nonlocal|objects|raise|return|specialnames|subscriptions|types|with|yield"
)
"""The reference's data model and what goes with it: half of the reference, so that the demo is ready in half a minute. Its
question has the same figures as on the whole, with the default embedder."""


@dataclass(slots=True)
class DemoFigures:
    documents: int = 0
    passages: int = 0
    layers: list[int] = field(default_factory=list)
    relations: list[int] = field(default_factory=list)
    index_seconds: float = 0
    context_tokens: int = 0
    document_tokens: int = 0
    facts: list[bool] = field(default_factory=list)
    flat_facts: list[bool] = field(default_factory=list)
    total_seconds: float = 0


SHORT_QUESTION = "What is a context manager?"

LABEL = re.compile(r"\[(d\d+:c\d+)[^\]]*\] ?")
PARTS = re.compile(r"(?m)^(?=\[d\d+:c\d+)|^(?=### )|^(?=# )|(?<=\n)(?=\n*```)")

SEED, PATH, ANCESTOR = "yellow", "cyan", "bold green"  # Colours of the tree: as in the README's diagram


async def run_demo(data_dir: Path | None, collection: str, as_json: bool) -> None:
    """Ingest, build, serve and ask; print one screen, with ``as_json`` the figures last."""
    console = Console(stderr=as_json, highlight=False)
    figures = DemoFigures()
    started = time.perf_counter()
    settings = load_settings(data_dir=data_dir, database_url="", chroma_url="", collection=collection)
    await index_reference(console, settings, figures)
    command = [*server_command(), *index_options(settings)]
    async with open_session(command) as client:
        await show_answer(console, client, settings, figures)
    figures.total_seconds = round(time.perf_counter() - started, 1)
    show_next(console, settings, figures)
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
        job = await follow_job(engine, job)
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
    """Ask the question through the MCP client; print the lines that answer it and what flat search has of them, then the tree."""
    asked = {"query": QUESTION, "token_budget": TOKEN_BUDGET, "response_format": "detailed"}
    reply = await call_tool(client, "query_lca_context", asked)
    flat = await answer_flat(settings, [*choose_topics().values()], QUESTION, TOKEN_BUDGET)
    figures.context_tokens = reply["tokens"]
    figures.facts, figures.flat_facts = (
        [fact in " ".join(text.split()) for fact in FACTS] for text in (reply["context"], flat)
    )

    console.print(f"\n[bold]{QUESTION}[/bold]\n")
    quotes = list(find_quotes(reply["context"]))
    for fact, found, in_flat in zip(FACTS, figures.facts, figures.flat_facts, strict=True):
        if not found:
            lacks = "only flat search has it" if in_flat else "in neither reply"
            console.print(Text(f"  ✗ {fact}: {lacks}", "dim"))
            continue
        citation, place, sentence = next((each for each in quotes if fact in each[2]), ("", "", fact))
        console.print(
            Text.assemble(
                (f"  ✓ [{citation}] {place}", "dim"), ("" if in_flat else "  flat search lacks it", "yellow")
            )
        )
        for line in textwrap.wrap(sentence, 74):
            console.print(Text(f"    {line}", "green"))
    ours, theirs = (f"{sum(each)} of {len(FACTS)}" for each in (figures.facts, figures.flat_facts))
    how = "(as many tokens; BM25 and the same embedder)"
    console.print(f"\n  [bold green]{ours} facts[/bold green], [yellow]flat search {theirs}[/yellow] {how}")
    console.print(Padding(lca_tree(reply), (1, 0, 0, 2)))


def find_quotes(context: str) -> Iterator[tuple[str, str, str]]:
    """Yield the citation, the title and heading, which stand above it, and the text of each sentence of a context."""
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
                yield label[1], place, " ".join(text[start:end].split())


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


def show_next(console: Console, settings: Settings, figures: DemoFigures) -> None:
    """Print where the collection is kept, what to type next, and how little of the documents the reply is."""
    console.print("\n[bold]Next[/bold]")
    meaning = "  the same with your documents, in your MCP clients"
    console.print(Text.assemble(("  leanrag setup FOLDER", "cyan"), (meaning, "dim")))
    ask = command_line(["leanrag", "query", *index_options(settings), SHORT_QUESTION])
    console.print(Text(f"  {ask}", style="cyan"), soft_wrap=True)
    place = settings.data_dir.expanduser()
    console.print(Text(f"Kept in {place}, collection {settings.collection}.", style="dim"), soft_wrap=True)
    tokens = f"{figures.context_tokens:,} tokens of a reply instead of {figures.document_tokens:,} of the documents"
    console.print(f"\n[bold green]{tokens}[/bold green]")
