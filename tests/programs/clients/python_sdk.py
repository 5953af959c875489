"""MCP Python SDK 2.x, in each of the two eras of the protocol that it speaks."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from contract import Answer, place, play
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent


async def main() -> None:
    where = place()
    server: Any = where.url or StdioServerParameters(command=where.command, args=where.arguments)
    for mode in ("auto", "legacy"):
        async with Client(server, mode=mode) as client:

            async def call(tool: str, arguments: dict[str, Any], client: Client = client) -> Answer:
                result = await client.call_tool(tool, arguments)
                assert isinstance(result, CallToolResult)
                text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
                return Answer(text, result.structured_content or {}, bool(result.is_error))

            tools = [tool.name for tool in (await client.list_tools()).tools]
            await play(f"mcp {version('mcp')} {client.protocol_version}", tools, call)


if __name__ == "__main__":
    asyncio.run(main())
