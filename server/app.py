"""Builds the MCP server: which tools it offers, what it tells the model first, how errors are worded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from difflib import get_close_matches
from importlib.metadata import version
from inspect import cleandoc
from typing import Any

from mcp.server.auth.provider import TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from leanrag_engine.config import Settings
from leanrag_engine.errors import LeanRAGError, NotReady
from leanrag_engine.prompts import prompt

from .cards import READ_ONLY
from .engine_handle import EngineHandle
from .managing import ManageTools
from .reading import ReadTools


class LeanRAGServer(MCPServer[None]):
    """An MCP server whose error results say what was wrong, what was expected and what to do next.

    It refuses unknown arguments, which the SDK would drop without a word.
    """

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        tool = self._tool_manager.get_tool(name)
        known = list(tool.parameters["properties"]) if tool else []
        if tool and not arguments.keys() <= set(known):
            return error_result(unknown_arguments(name, arguments, known))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as problem:
            cause = problem.__cause__
            if isinstance(cause, LeanRAGError):
                return error_result(self.with_tool_hint(cause))
            if isinstance(cause, ValidationError):
                return error_result(worded(name, cause, known))
            raise

    def with_tool_hint(self, problem: LeanRAGError) -> str:
        """The engine's words, and the tool that carries out the next step, if this server offers it."""
        if not isinstance(problem, NotReady):
            return str(problem)
        tool = "ingest_documents" if problem.needs == "documents" else "build_hierarchy"
        offered = self._tool_manager.get_tool(tool) is not None
        return f"{problem} {f'Tool: {tool}.' if offered else READ_ONLY}"


def create_server(
    settings: Settings, *, auth: AuthSettings | None = None, token_verifier: TokenVerifier | None = None
) -> LeanRAGServer:
    """The server with the tools that ``settings`` allow. Opens nothing: that happens on the first call.

    ``auth`` and ``token_verifier`` say who may use it over HTTP; over stdio they mean nothing.
    """
    handle = EngineHandle(settings)

    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield None
        finally:
            await handle.close()

    server = LeanRAGServer(
        name="leanrag",
        title="LeanRAG",
        instructions=prompt("server_instructions"),
        version=version("leanrag-mcp"),
        lifespan=lifespan,
        log_level="WARNING",
        auth=auth,
        token_verifier=token_verifier,
    )
    reading = ReadTools(handle)
    add(server, reading.query_lca_context, "Answer from the documents")
    add(server, reading.search_entities, "Search entities")
    add(server, reading.get_entity_ancestors, "Show what an entity belongs to")
    add(server, reading.get_cluster, "Look into a cluster")
    add(server, reading.list_inter_cluster_relations, "List relations between clusters")
    add(server, reading.get_sources, "Read the passages behind citations")
    add(server, reading.get_index_status, "Show what is indexed")
    if not settings.read_only:
        managing = ManageTools(handle)
        add(server, managing.ingest_documents, "Ingest documents", writes=True)
        add(server, managing.build_hierarchy, "Build the hierarchy", writes=True)
        add(server, managing.cancel_job, "Cancel a job", writes=True)
        add(server, managing.get_job, "Watch a job")
    return server


def add(server: LeanRAGServer, function: Any, title: str, *, writes: bool = False) -> None:
    """Register one tool. Its schema says that unknown arguments are refused; ``call_tool`` refuses them."""
    annotations = ToolAnnotations(
        title=title,
        read_only_hint=not writes,
        destructive_hint=False,
        idempotent_hint=True,
        open_world_hint=False,
    )
    server.add_tool(function, title=title, description=cleandoc(function.__doc__), annotations=annotations)
    tool = server._tool_manager.get_tool(function.__name__)  # noqa: SLF001 - the SDK has no public way; a test pins it
    assert tool is not None
    tool.parameters = without_titles(tool.parameters) | {"additionalProperties": False}
    tool.fn_metadata.output_schema = without_titles(tool.fn_metadata.output_schema)


def without_titles(schema: Any) -> Any:
    """A JSON schema without the titles that repeat its names: a quarter of its tokens."""
    if isinstance(schema, dict):
        # A property may be called title: its value is a schema, not a string.
        kept = {key: value for key, value in schema.items() if key != "title" or isinstance(value, dict)}
        return {key: without_titles(value) for key, value in kept.items()}
    return [without_titles(each) for each in schema] if isinstance(schema, list) else schema


# --- wording -------------------------------------------------------------------------------


def error_result(text: str) -> CallToolResult:
    """An error whose whole text the model reads."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def unknown_arguments(tool: str, given: Iterable[str], known: list[str]) -> str:
    """Which arguments there are none of, and what may have been meant."""
    lines = [f"{tool} cannot be called like this:"]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            lines.append(f"- there is no argument {name!r}{hint}")
    return "\n".join([*lines, f"Its arguments are: {', '.join(known)}."])


def worded(tool: str, problem: ValidationError, known: list[str]) -> str:
    """Refused arguments as sentences: the argument, its value, what was expected."""
    lines = [f"{tool} cannot be called like this:"]
    for error in problem.errors():
        where = ".".join(str(part) for part in error["loc"])
        if error["type"] == "extra_forbidden":
            lines.append(f"- there is no {where!r}.")
        elif error["type"] == "missing":
            lines.append(f"- the argument {where!r} is missing.")
        else:
            given = repr(error["input"])
            shown = given if len(given) <= 80 else given[:77] + "..."  # noqa: PLR2004 - a line's length
            lines.append(f"- {where} is {shown}: {error['msg'].lower()}.")
    lines.append(f"Its arguments are: {', '.join(known)}.")
    return "\n".join(lines)
