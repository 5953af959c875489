"""MCP Python SDK 1.x: the handshake that most installed clients still speak."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from contract import Answer, Place, place, play
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


@asynccontextmanager
async def streams(where: Place) -> AsyncIterator[tuple[Any, Any]]:
    if where.url:
        async with streamablehttp_client(where.url) as (reading, writing, _):
            yield reading, writing
    else:
        async with stdio_client(StdioServerParameters(command=where.command, args=where.arguments)) as both:
            yield both


async def main() -> None:
    async with streams(place()) as (reading, writing), ClientSession(reading, writing) as session:
        began = await session.initialize()

        async def call(tool: str, arguments: dict[str, Any]) -> Answer:
            result = await session.call_tool(tool, arguments)
            text = "\n".join(block.text for block in result.content if block.type == "text")
            return Answer(text, result.structuredContent or {}, result.isError)

        tools = [tool.name for tool in (await session.list_tools()).tools]
        await play(f"mcp {version('mcp')} {began.protocolVersion}", tools, call)


if __name__ == "__main__":
    asyncio.run(main())
