"""The rest of the demo, on request: whole contexts, and the hierarchy step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.rule import Rule

from ..machine.session import call_tool
from .figures import QUESTIONS, TOKEN_BUDGET

if TYPE_CHECKING:
    from mcp.client import Client
    from rich.console import Console

    from .figures import DemoFigures


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
