"""The table of tools: toolset, title and annotations of each; a new tool is a new row. A client can list them at once, and
their code is imported by their first call."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.resources import files
from pkgutil import resolve_name
from typing import Any, TypedDict

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp_types import ToolAnnotations

from leanrag_engine.core.config import Settings

from ..engine_handle import EngineHandle, Right
from ..replies.errors import Offered

READ = "read:ReadTools"
MANAGE = "manage:ManageTools"
AGENT = "manage:AgentTools"
# Each names a module of this package and a class in it whose methods are tools, constructed with the server's engine handle.
# They are imported by the first call, not by the start.


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool: the method ``name`` of a ``group`` (a module and a class)."""

    toolset: str
    group: str
    name: str
    title: str
    writes: bool = False
    destructive: bool = False
    needs_model: bool = False
    meta: Mapping[str, object] = field(default_factory=dict)
    """Hints for some hosts; others ignore them, and ask before a call by ``annotations``."""

    @property
    def annotations(self) -> ToolAnnotations:
        return ToolAnnotations(
            title=self.title,
            read_only_hint=not self.writes,
            destructive_hint=self.destructive,
            idempotent_hint=True,
            open_world_hint=False,
        )

    @property
    def right(self) -> Right:
        """Return the right that a caller needs."""
        if self.destructive:
            return "admin"
        return "write" if self.writes else "read"

    def load(self, handle: EngineHandle) -> Callable[..., object]:
        """Import the tool's function. Its docstring is what a model reads, its signature what the tool takes and gives."""
        function: Callable[..., object] = getattr(
            resolve_name(f"{__package__}.{self.group}")(handle), self.name
        )
        return function

    def is_offered(self, settings: Settings) -> bool:
        """Return whether a server with these settings offers the tool. A read-only one has no agent tools at all:
        pending work is useless where results cannot be submitted."""
        is_possible = not (settings.read_only and (self.writes or self.toolset == "agent"))
        has_model = bool(settings.llm_model) or not self.needs_model
        return self.toolset in settings.toolsets and is_possible and has_model


LONG_RESULT = {"anthropic/maxResultSizeChars": 200_000}
"""The largest token_budget in characters: a longer result would be saved to a file that the model must open."""
ANSWER_APP = "ui://leanrag/answer"  # The page that hosts with MCP Apps show for an answer
MAIN_TOOL = {
    "anthropic/alwaysLoad": True,
    **LONG_RESULT,
    "ui": {"resourceUri": ANSWER_APP},
    "openai/outputTemplate": ANSWER_APP,
}
"""Its definition is always in the context, where others may have to be searched for first. Its answers are shown as a
page; ChatGPT's older name for that is the last one."""
ASK_USER = {"anthropic/requiresUserInteraction": True}
"""Every call needs the user's consent, whatever else is allowed."""

TOOLS = (
    ToolEntry("read", READ, "query_lca_context", "Answer from the documents", meta=MAIN_TOOL),
    ToolEntry("read", READ, "answer_question", "Let the server's model answer", needs_model=True),
    ToolEntry("read", READ, "search_entities", "Search entities"),
    ToolEntry("read", READ, "get_entity_ancestors", "Show what an entity belongs to"),
    ToolEntry("read", READ, "get_cluster", "Look into a cluster"),
    ToolEntry("read", READ, "list_inter_cluster_relations", "List relations between clusters"),
    ToolEntry("read", READ, "get_outline", "Show the headings of a document"),
    ToolEntry("read", READ, "search_text", "Find exact text or a pattern"),
    ToolEntry("read", READ, "get_sources", "Read passages", meta=LONG_RESULT),
    ToolEntry("read", READ, "get_index_status", "Show what is indexed"),
    ToolEntry("read", READ, "get_history", "Show what changed"),
    ToolEntry("read", READ, "list_collections", "List collections and documents"),
    ToolEntry("manage", MANAGE, "ingest_documents", "Ingest documents", writes=True),
    ToolEntry("manage", MANAGE, "build_hierarchy", "Build the hierarchy", writes=True),
    ToolEntry(
        "manage", MANAGE, "delete_documents", "Delete documents", writes=True, destructive=True, meta=ASK_USER
    ),
    ToolEntry("manage", MANAGE, "get_job", "Watch a job"),
    ToolEntry("manage", MANAGE, "cancel_job", "Cancel a job", writes=True),
    ToolEntry("manage", MANAGE, "merge_entities", "Merge entities", writes=True),
    ToolEntry("manage", MANAGE, "split_entity", "Split an entity", writes=True),
    ToolEntry("agent", AGENT, "get_pending_work", "Get work that needs a model"),
    ToolEntry("agent", AGENT, "submit_extractions", "Submit extractions", writes=True),
    ToolEntry("agent", AGENT, "submit_summaries", "Submit summaries", writes=True),
)

ALL_TOOLS = frozenset(offer.name for offer in TOOLS)
RIGHT_OF_TOOL = {offer.name: offer.right for offer in TOOLS}
COMPUTING = frozenset(each.name for each in TOOLS if not (each.writes or each.needs_model)) - {"get_job"}
"""Tools whose calls do not wait for a job, a model or a lock: they take the processor."""


def offers(settings: Settings) -> list[ToolEntry]:
    """Return the tools that a server with these settings offers."""
    return [each for each in TOOLS if each.is_offered(settings)]


class Definition(TypedDict):
    description: str
    arguments: dict[str, Any]
    reply: dict[str, Any]


def load_definitions() -> Mapping[str, Definition]:
    """Read the definition of every tool, by its name."""
    text = files(__package__).joinpath("definitions.json").read_text(encoding="utf-8")
    definitions: dict[str, Definition] = json.loads(text)
    return definitions


class DeferredTool(Tool):
    """A tool as it is listed. ``fn`` loads the function that a call runs."""

    @cached_property
    def complete(self) -> Tool:
        """The tool with its function and the types that check its arguments and its reply."""
        return Tool.from_function(self.fn())

    async def run(
        self, arguments: dict[str, object], context: Context[Any, Any], convert_result: bool = False
    ) -> object:
        """Run the tool. Errors are those of ``Tool.run``."""
        return await self.complete.run(arguments, context, convert_result=convert_result)


def defer_tools(
    settings: Settings, handle: EngineHandle, offered: Offered, only_collection: str
) -> list[DeferredTool]:
    """Return the tools of a server with these settings. They take no collection where only one is served."""
    definitions = load_definitions()
    tools = []
    for entry in offers(settings):
        definition = definitions[entry.name]
        parameters = definition["arguments"]
        if only_collection:
            del parameters["properties"]["collection"]
        tools.append(
            DeferredTool(
                fn=partial(entry.load, handle),
                name=entry.name,
                title=entry.title,
                description=offered.lines(definition["description"]),
                parameters=parameters,
                fn_metadata=FuncMetadata(arg_model=ArgModelBase, output_schema=definition["reply"]),
                is_async=True,
                context_kwarg=None,
                annotations=entry.annotations,
                meta=dict(entry.meta) or None,
            )
        )
    return tools
