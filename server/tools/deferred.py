"""Tools that a client can list at once, and whose code is imported by their first call."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from inspect import cleandoc
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


def define(tool: Tool) -> Definition:
    """Return the definition of a complete tool. Its schema forbids unknown arguments; the server refuses them."""
    assert tool.output_schema is not None
    return {
        "description": cleandoc(tool.description),
        "arguments": shorten_input(tool.parameters) | {"additionalProperties": False},
        "reply": shorten_output(tool.output_schema),
    }


LEFT_OUT = frozenset({"title", "minItems", "maxItems", "minLength", "maxLength", "minimum"})
"""Keywords that a published schema leaves out, to save tokens. Calls are checked by the full schema all the same, and an
error says what was expected."""


def shorten_input(schema: Any, definitions: dict[str, Any] | None = None) -> Any:
    """Return the schema of arguments as a client sees it: without the keywords ``LEFT_OUT``, empty defaults (which say
    no more than that the argument is optional) and null; definitions stand where they are used."""
    if isinstance(schema, list):
        return [shorten_input(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        return shorten_input(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        types = [each for each in schema["anyOf"] if each.get("type") != "null"]
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        # A value of several plain types, such as one of metadata, needs no list of them.
        return shorten_input(rest | (types[0] if len(types) == 1 else {}), definitions)
    return {
        key: {name: shorten_input(each, definitions) for name, each in value.items()}
        if key == "properties"
        else shorten_input(value, definitions)
        for key, value in schema.items()
        if not _is_left_out(key, value)
    }


def _is_left_out(key: str, value: object) -> bool:
    if key == "default":
        # A flag without a default is false, a number 0. Other defaults are shown: they say what
        # happens without the argument.
        return not value or (isinstance(value, dict) and not any(value.values()))
    if key == "additionalProperties" and value is True:
        return True
    if key == "maximum":
        return value in (100, 10**9)
    return key in LEFT_OUT or key == "$defs" or (key == "additionalProperties" and value in (False, {}))


def shorten_output(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a reply as a client sees it: without titles and descriptions, without
    ``additionalProperties`` (false would forbid a later version more keys, true says nothing), and without the inner lists
    of required keys: all are, and the lists take a tenth of its tokens. A definition that is used once stands there."""
    uses = Counter(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema)))
    definitions = schema.get("$defs", {})

    def shorten(part: Any, *, top: bool = False) -> Any:
        if isinstance(part, list):
            return [shorten(each) for each in part]
        if not isinstance(part, dict):
            return part
        name = part.get("$ref", "").rpartition("/")[2]
        if uses[name] == 1:
            return shorten(definitions[name])
        if {frozenset(each) for each in part.get("anyOf", ())} == {frozenset({"type"})}:
            # Plain types: one keyword with a list says the same in a third of the tokens.
            part = {"type": [each["type"] for each in part["anyOf"]]}
        return {
            key: {name: shorten(each) for name, each in value.items()}
            if key == "properties"
            else shorten(value)
            for key, value in part.items()
            if key not in ("title", "description", "$defs")
            and not (key == "additionalProperties" and isinstance(value, bool))
            and (top or key != "required")
        }

    shared = {name: shorten(each) for name, each in definitions.items() if uses[name] > 1}
    shortened: dict[str, Any] = shorten(schema, top=True)
    return ({"$defs": shared} if shared else {}) | shortened


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
