"""The prompts that a user can pick in a client: answer a question, research, index a folder, extract as an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from pydantic import Field

from leanrag_engine.core.errors import NotFound
from leanrag_engine.llm.prompts import Prompts

from ..engine_handle import EngineHandle
from ..replies.errors import Offered, plain

CollectionArgument = Annotated[str, Field(description="Which corpus; leave out for the default one")]


@dataclass(frozen=True, slots=True)
class UserPrompts:
    """The texts of the prompts that the server offers."""

    prompts: Prompts
    engine: EngineHandle

    def answer_with_leanrag(
        self,
        question: Annotated[str, Field(description="What you want to know")],
        collection: CollectionArgument = "",
    ) -> str:
        """Answer a question from your documents, with citations."""
        return self.prompts.fill("answer_with_leanrag", question=plain(question), scope=scope_of(collection))

    async def deep_research(
        self,
        question: Annotated[str, Field(description="What is to be researched")],
        collection: CollectionArgument = "",
    ) -> str:
        """Research a question in rounds: split it, retrieve, reflect, repeat, then report with citations."""
        scope = scope_of(collection) + await self._describe_schema(collection)
        return self.prompts.fill("deep_research", question=plain(question), scope=scope)

    async def _describe_schema(self, collection: str) -> str:
        """Return sentences that name the types of the collection's schema; empty if it has none, or there is no such collection."""
        try:
            named = await self.engine.choose(plain(collection).strip() or "default")
            types = await (await self.engine.get()).list_schema_types(collection=named)
        except NotFound:
            return ""
        return f" The documents were read by a schema: type the sub-queries by it. {types}" if types else ""

    def index_folder(
        self,
        folder: Annotated[str, Field(description="Path of a folder or file that the server may read")],
        collection: CollectionArgument = "",
    ) -> str:
        """Index a folder of documents and say what is in it."""
        return self.prompts.fill("index_folder", folder=plain(folder), scope=scope_of(collection))

    def run_agent_extraction(self, collection: CollectionArgument = "") -> str:
        """Make the index better with your own model: read chunks and summarise clusters, without any key."""
        return self.prompts.fill("run_agent_extraction", scope=scope_of(collection))


def add_prompts(server: MCPServer[None], handle: EngineHandle, offered: Offered) -> None:
    """Register the prompts whose necessary tools are offered."""
    texts = UserPrompts(Prompts(handle.settings.prompts_dir), handle)
    known: tuple[tuple[Callable[..., str | Awaitable[str]], str, str], ...] = (
        (texts.answer_with_leanrag, "Answer from my documents", "query_lca_context"),
        (texts.deep_research, "Research in my documents", "query_lca_context"),
        (texts.index_folder, "Index a folder", "ingest_documents"),
        (texts.run_agent_extraction, "Extract and summarise as the agent", "submit_extractions"),
    )
    for function, title, needs in known:
        if needs in offered.tools:
            prompt = Prompt.from_function(function, title=title)
            if handle.fixed:
                prompt.arguments = [each for each in prompt.arguments or () if each.name != "collection"]
            server.add_prompt(prompt)


def scope_of(collection: str) -> str:
    """Return the sentence that names the collection; empty for the default one."""
    name = plain(collection).strip()
    return f" Pass collection={name!r} in every call." if name not in ("", "default") else ""
