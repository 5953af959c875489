"""Build the MCP server: its tools, resources, prompts and completions, and the checks of each tool call."""

import json
import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from importlib.metadata import version
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.auth.provider import TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolResult,
    ErrorData,
    GetPromptResult,
    InputRequiredResult,
    JSONRPCError,
    Tool,
)
from pydantic import ValidationError

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import LeanRAGError, OutOfTime
from leanrag_engine.core.runtime.telemetry import measure
from leanrag_engine.llm.prompts import Prompts

from .engine_handle import EngineHandle, Rights
from .protocol.prompts import Completions, add_prompts
from .protocol.resources import add_resources, create_apps
from .protocol.skills import Skills
from .protocol.tasks import Tasks
from .replies.errors import (
    Offered,
    error_result,
    internal_error,
    invalid_arguments,
    missing_right,
    unknown_arguments,
    unknown_tool,
)
from .tools.toolsets import ALL_TOOLS, COMPUTING, RIGHT_OF_TOOL, defer_tools, offers

logger = logging.getLogger(__name__)

Incoming = SessionMessage | Exception


class LeanRAGServer(MCPServer[None]):
    """An MCP server whose error results say what to do next. It refuses unknown arguments, which the SDK
    drops silently, and accepts null for one with a default."""

    offered = Offered(frozenset(), ALL_TOOLS)
    only_collection = ""
    """The only collection served; empty: any."""
    handle: EngineHandle

    async def run_stdio_async(self) -> None:
        """Serve one client over standard input and output until it closes them."""
        server = self._lowlevel_server
        async with open_stdio() as (messages, replies):
            await server.run(messages, replies, server.create_initialization_options())

    async def list_tools(self) -> list[Tool]:
        """List the tools that the caller has the right to."""
        return [each for each in await super().list_tools() if self._may_call(each.name)]

    def _may_call(self, tool: str) -> bool:
        # Tools of other programs have no row in the table.
        return self.handle.may(RIGHT_OF_TOOL.get(tool, "admin"))

    async def call_tool(  # noqa: PLR0911 - what is refused is said at once
        self, name: str, arguments: dict[str, object], context: Context[None, object] | None = None
    ) -> CallToolResult | InputRequiredResult:
        tool = self._tool_manager.get_tool(name)
        if tool is None or not self._may_call(name):
            right = RIGHT_OF_TOOL.get(name, "admin")
            return error_result(
                missing_right(name, right) if tool else unknown_tool(name, self.offered.tools)
            )
        wide = any(isinstance(each, list) and len(each) > 10_000 for each in arguments.values())  # noqa: PLR2004 - each refused value becomes an error of a kilobyte
        if wide or (RIGHT_OF_TOOL.get(name) == "read" and len(str(arguments)) > 400_000):  # noqa: PLR2004
            return error_result(f"{name} was given more than it takes at once. Give less, in several calls.")
        known = list(tool.parameters["properties"])
        required = tool.parameters.get("required", [])
        given = {key: value for key, value in arguments.items() if value is not None or key in required}
        if not given.keys() <= set(known):
            return error_result(unknown_arguments(name, given, known, self.only_collection))
        started = time.perf_counter()
        outcome = "failed"
        try:
            async with self.handle.take_turn() if name in COMPUTING else nullcontext():
                result = await super().call_tool(name, given, context)
            outcome = "answered"
        except (UnexpectedToolError, OutOfTime) as problem:
            cause = problem if isinstance(problem, OutOfTime) else problem.__cause__
            if isinstance(cause, LeanRAGError):
                return error_result(self.offered.problem(self.handle.hide_collections(cause)))
            logger.exception("Tool %s crashed", name)
            return error_result(internal_error(name, cause))
        except ToolError as problem:
            if isinstance(problem.__cause__, ValidationError):
                return error_result(invalid_arguments(name, problem.__cause__, known))
            raise
        finally:
            # No argument and no reply: both hold text of documents.
            seconds = time.perf_counter() - started
            caller = f" for {holder}" if (holder := self.handle.holder) else ""
            logger.info("Tool %s %s in %.0f ms%s", name, outcome, 1000 * seconds, caller)
            measure("tool", seconds, "s", kind=name, outcome=outcome)
        return self.offered.result(result) if isinstance(result, CallToolResult) else result

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, object] | None = None,
        context: Context[None, object] | None = None,
    ) -> GetPromptResult | InputRequiredResult:
        """Render a prompt. Raises ``MCPError`` for an unknown one and for arguments that are missing or not its own: the SDK would
        answer an internal error."""
        known = {each.name: each for each in await self.list_prompts()}
        if name not in known:
            raise MCPError(INVALID_PARAMS, f"There is no prompt {name!r}. Give one of {', '.join(known)}.")
        given, takes = arguments or {}, known[name].arguments or ()
        if missing := [each.name for each in takes if each.required and each.name not in given]:
            raise MCPError(INVALID_PARAMS, f"The prompt {name} needs the argument {' and '.join(missing)}.")
        if others := given.keys() - {each.name for each in takes}:
            taken = ", ".join(each.name for each in takes)
            raise MCPError(
                INVALID_PARAMS, f"The prompt {name} has no argument {min(others)!r}; it takes {taken}."
            )
        return await super().get_prompt(name, arguments, context)


def create_server(
    settings: Settings,
    *,
    auth: AuthSettings | None = None,
    token_verifier: TokenVerifier | None = None,
    find_rights: Callable[[], Rights] = Rights,
) -> LeanRAGServer:
    """Create the server that ``settings`` describe; the first call opens the store, unless it is open. ``auth``,
    ``token_verifier`` and ``find_rights`` control access over HTTP."""
    handle = EngineHandle(settings, find_rights)
    offered = Offered(frozenset(offer.name for offer in offers(settings)), ALL_TOOLS)
    only_collection = settings.collection if handle.fixed else ""
    tools = defer_tools(settings, handle, offered, only_collection)

    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield None
        finally:
            await handle.close()

    extensions: list[Extension] = [Tasks(handle, offered.result), Skills(offered)]
    if "query_lca_context" in offered.tools:
        extensions.append(create_apps())
    server = LeanRAGServer(
        name="leanrag",
        title="LeanRAG",
        instructions=offered.lines(Prompts(settings.prompts_dir).fill("server_instructions")),
        version=version("leanrag-mcp"),
        lifespan=lifespan,
        log_level="WARNING",
        auth=auth,
        token_verifier=token_verifier,
        tools=[*tools],
        extensions=extensions,
    )
    server.offered, server.only_collection, server.handle = offered, only_collection, handle
    add_resources(server, handle, offered)
    add_prompts(server, handle, offered)
    server.completion()(Completions(handle).complete)  # type: ignore[no-untyped-call] # the SDK's
    return server


@asynccontextmanager
async def open_stdio() -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], Any]]:
    """Yield the messages of the client, and where replies go. A line that is no message is answered: the SDK drops it, and
    its client waits for ever."""
    async with stdio_server() as (lines, replies), anyio.create_task_group() as tasks:
        sending, messages = anyio.create_memory_object_stream[Incoming]()
        tasks.start_soon(_forward, lines, sending, replies)
        yield messages, replies


async def _forward(
    lines: AsyncIterable[Incoming], messages: MemoryObjectSendStream[Incoming], replies: Any
) -> None:
    # The server has ended if nobody takes what is sent.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with messages:
            async for item in lines:
                if not isinstance(item, ValidationError):
                    await messages.send(item)
                elif refusal := _refuse(item):
                    await replies.send(SessionMessage(refusal))


def _refuse(problem: ValidationError) -> JSONRPCError | None:
    """Return the reply to a line that is no message, with its id if it has one; ``None`` to a blank line."""
    first = problem.errors(include_url=False)[0]
    code, why, content = INVALID_REQUEST, "It is no request, notification or response.", first["input"]
    if first["type"] == "json_invalid":
        if not content.strip():
            return None
        code, why = PARSE_ERROR, f"The line is no valid JSON: {first['ctx']['error']}."
        # Python reads more than JSON allows, half surrogate pairs among it.
        with suppress(ValueError, RecursionError):
            content = json.loads(content)
    id_ = content.get("id") if isinstance(content, dict) else None
    if not (type(id_) is int or (isinstance(id_, str) and id_.isprintable())):
        id_ = None
    return JSONRPCError(jsonrpc="2.0", id=id_, error=ErrorData(code=code, message=why))
