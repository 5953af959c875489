"""Build the MCP server: its tools, resources, prompts and completions, and the checks of each tool call."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from inspect import cleandoc
from typing import Any

from mcp.server.auth.provider import TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import ValidationError

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.llm.prompts import Prompts

from .engine_handle import EngineHandle
from .protocol.completions import Completions
from .protocol.prompts import add_prompts
from .protocol.resources import add_resources
from .protocol.tasks import Tasks
from .replies.errors import (
    Offered,
    error_result,
    internal_error,
    invalid_arguments,
    unknown_arguments,
    unknown_tool,
)
from .tools.toolsets import ALL_TOOLS, ToolEntry, functions, offers

logger = logging.getLogger(__name__)


class LeanRAGServer(MCPServer[None]):
    """An MCP server whose error results say what was wrong, what was expected and what to do next.

    It refuses unknown arguments, which the SDK would drop silently, accepts null for an argument with a
    default, and names no tool that it does not offer.
    """

    offered = Offered(frozenset(), ALL_TOOLS)
    only_collection = ""
    """The only collection served; empty: any."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        tool = self._tool_manager.get_tool(name)
        if tool is None:
            return error_result(unknown_tool(name, self.offered.tools))
        known = list(tool.parameters["properties"])
        required = tool.parameters.get("required", [])
        given = {key: value for key, value in arguments.items() if value is not None or key in required}
        if not given.keys() <= set(known):
            return error_result(unknown_arguments(name, given, known, self.only_collection))
        started = time.perf_counter()
        outcome = "failed"
        try:
            result = await super().call_tool(name, given, context)
            outcome = "answered"
        except UnexpectedToolError as problem:
            cause = problem.__cause__
            if isinstance(cause, LeanRAGError):
                return error_result(self.offered.problem(cause))
            logger.exception("Tool %s crashed", name)
            return error_result(internal_error(name, cause))
        except ToolError as problem:
            if isinstance(problem.__cause__, ValidationError):
                return error_result(invalid_arguments(name, problem.__cause__, known))
            raise
        finally:
            # No argument and no reply: both hold text of documents.
            logger.info("Tool %s %s in %.0f ms", name, outcome, 1000 * (time.perf_counter() - started))
        return self.offered.result(result) if isinstance(result, CallToolResult) else result


def create_server(
    settings: Settings, *, auth: AuthSettings | None = None, token_verifier: TokenVerifier | None = None
) -> LeanRAGServer:
    """Create the server that ``settings`` describe. Opens no store: that happens on the first call.

    ``auth`` and ``token_verifier`` control access over HTTP; over stdio they have no effect.
    """
    handle = EngineHandle(settings)
    offered = Offered(frozenset(offer.name for offer in offers(settings)), ALL_TOOLS)

    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield None
        finally:
            await handle.close()

    server = LeanRAGServer(
        name="leanrag",
        title="LeanRAG",
        instructions=offered.lines(Prompts(settings.prompts_dir).fill("server_instructions")),
        version=version("leanrag-mcp"),
        lifespan=lifespan,
        log_level="WARNING",
        auth=auth,
        token_verifier=token_verifier,
        extensions=[Tasks(handle, offered.result)],
    )
    server.offered = offered
    server.only_collection = settings.collection if handle.fixed else ""
    for offer, function in functions(settings, handle):
        add_tool(server, offer, function)
    add_resources(server, handle, offered)
    add_prompts(server, handle, offered)
    server.completion()(Completions(handle).complete)  # type: ignore[no-untyped-call] # the SDK's
    return server


def add_tool(server: LeanRAGServer, offer: ToolEntry, function: Callable[..., Any]) -> None:
    """Register one tool. Its schema forbids unknown arguments; ``call_tool`` refuses them."""
    described = server.offered.lines(cleandoc(function.__doc__ or ""))
    server.add_tool(
        function,
        title=offer.title,
        description=described,
        annotations=offer.annotations,
        meta=offer.meta or None,
    )
    tool = server._tool_manager.get_tool(offer.name)  # noqa: SLF001 - the SDK has no public way; a test pins it
    assert tool is not None
    tool.parameters = shorten_input(tool.parameters) | {"additionalProperties": False}
    if server.only_collection:
        del tool.parameters["properties"]["collection"]
    assert tool.fn_metadata.output_schema is not None
    tool.fn_metadata.output_schema = shorten_output(tool.fn_metadata.output_schema)


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


def _is_left_out(key: str, value: Any) -> bool:
    if key == "default":
        # The default of a flag without one is false; of another it is shown: it says what happens without the argument.
        return (
            value is None
            or value is False
            or value in ("", [], {})
            or (isinstance(value, dict) and not any(value.values()))
        )
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
