"""Prompts that a user chooses, and completions of their arguments and of resource addresses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from pydantic import Field

from leanrag_engine.core.errors import LeanRAGError, NotFound
from leanrag_engine.llm.prompts import Prompts

from ..engine_handle import EngineHandle
from ..replies.errors import Offered, plain, plain_line

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

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


MOST = 50  # Values of one completion; the protocol allows 100


class Completions:
    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,  # noqa: ARG002 - names mean the same everywhere
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion:
        """Return values that begin with the typed text; similar ones if there are none."""
        arguments = (context.arguments or {}) if context else {}
        try:
            engine = await self._engine.get()
            if argument.name == "collection":
                known = [each.name for each in await engine.collections() if self._engine.sees(each.name)]
                found = [each for each in known if each.casefold().startswith(argument.value.casefold())]
            else:
                named = self._engine.collection(arguments.get("collection", self._engine.settings.collection))
                found = await values(engine, argument.name, argument.value, named)
        except LeanRAGError:
            # Unknown collection, or nothing built yet.
            found = []
        visible = [plain_line(value) for value in found[:MOST]]
        return Completion(
            values=visible, total=None if len(found) > MOST else len(found), has_more=len(found) > MOST
        )


async def values(engine: LeanRAG, name: str, typed: str, collection: str) -> list[str]:
    """Return all values for the argument ``name``; [] if it cannot be completed."""
    if name in ("entity", "cluster"):
        return await engine.names_like(
            typed, aggregated=name == "cluster", limit=MOST + 1, collection=collection
        )
    if name == "document":
        documents = await engine.documents(collection=collection)
        folded = typed.casefold()
        return [each.title or each.id for each in documents if folded in (each.title or each.id).casefold()]
    return []
