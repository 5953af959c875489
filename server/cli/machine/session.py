"""A session of a real MCP client with the server, started as a client starts it."""

import os
import shlex
from collections.abc import Sequence
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

from leanrag_engine.core.errors import LeanRAGError, first_error


def open_session(command: Sequence[str]) -> Client:
    """Return a client that starts ``command`` when it is entered and speaks to it over standard input and output."""
    program, *arguments = command
    return Client(StdioServerParameters(command=program, args=arguments, env=dict(os.environ)))


async def list_tools(command: Sequence[str]) -> list[str]:
    """Start the server and return the names of its tools. Raises :class:`LeanRAGError` if it does not start or answer in time."""
    try:
        # A first start reads the packages from the disk.
        with anyio.fail_after(60):
            async with open_session(command) as client:
                return [tool.name for tool in (await client.list_tools()).tools]
    except (OSError, ExceptionGroup) as problem:
        raise LeanRAGError(
            f"The server does not answer: {first_error(problem) if isinstance(problem, ExceptionGroup) else problem}.",
            f"Start it by hand to see why: {shlex.join(command)}",
        ) from problem


async def call_tool(client: Client, tool: str, arguments: dict[str, object]) -> dict[str, Any]:
    """Call a tool and return its structured content. Raises :class:`LeanRAGError` with the text of an error result."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    if result.is_error or result.structured_content is None:
        raise LeanRAGError(
            "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        )
    content: dict[str, Any] = result.structured_content
    return content
