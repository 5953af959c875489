"""Tools that a client can list at once, and whose code is imported by their first call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from typing import Any, TypedDict

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata

from leanrag_engine.core.config import Settings

from ..engine_handle import EngineHandle
from ..replies.errors import Offered
from .toolsets import ToolEntry, offers


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
    return [
        defer_tool(entry, definitions[entry.name], handle, offered, only_collection)
        for entry in offers(settings)
    ]


def defer_tool(
    entry: ToolEntry, definition: Definition, handle: EngineHandle, offered: Offered, only_collection: str
) -> DeferredTool:
    parameters = definition["arguments"]
    if only_collection:
        del parameters["properties"]["collection"]
    return DeferredTool(
        fn=lambda: entry.load(handle),
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
