"""The prompts that a user may pick in a client: how to answer, to research, to index, to extract as an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from pydantic import Field

from leanrag_engine.llm.prompts import prompt

from ..engine_handle import EngineHandle
from ..replies.errors import Offered, plain

CollectionArgument = Annotated[str, Field(description="Which corpus; leave out for the default one")]


def answer_with_leanrag(
    question: Annotated[str, Field(description="What you want to know")], collection: CollectionArgument = ""
) -> str:
    """Answer a question from your documents, with citations."""
    return prompt("answer_with_leanrag", question=plain(question), scope=scope_of(collection))


def deep_research(
    question: Annotated[str, Field(description="What is to be researched")],
    collection: CollectionArgument = "",
) -> str:
    """Research a question in rounds: split it, retrieve, reflect, repeat, then report with citations."""
    return prompt("deep_research", question=plain(question), scope=scope_of(collection))


def index_folder(
    folder: Annotated[str, Field(description="Path of a folder or file that the server may read")],
    collection: CollectionArgument = "",
) -> str:
    """Index a folder of documents and say what is in it."""
    return prompt("index_folder", folder=plain(folder), scope=scope_of(collection))


def run_agent_extraction(collection: CollectionArgument = "") -> str:
    """Make the index better with your own model: read chunks and summarise clusters, without any key."""
    return prompt("run_agent_extraction", scope=scope_of(collection))


PROMPTS: tuple[tuple[Callable[..., str], str, str], ...] = (
    (answer_with_leanrag, "Answer from my documents", "query_lca_context"),
    (deep_research, "Research in my documents", "query_lca_context"),
    (index_folder, "Index a folder", "ingest_documents"),
    (run_agent_extraction, "Extract and summarise as the agent", "submit_extractions"),
)
"""Each with its title and the tool without which it would lead nowhere."""


def add_prompts(server: MCPServer[None], handle: EngineHandle, offered: Offered) -> None:
    """Register those that can be followed with the tools that are offered."""
    for function, title, needs in PROMPTS:
        if needs in offered.tools:
            made = Prompt.from_function(function, title=title)
            if handle.fixed:
                made.arguments = [each for each in made.arguments or () if each.name != "collection"]
            server.add_prompt(made)


def scope_of(collection: str) -> str:
    named = plain(collection).strip()
    return f" Pass collection={named!r} in every call." if named not in ("", "default") else ""
