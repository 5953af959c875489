"""FastMCP's client."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from contract import Answer, place, play
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    where = place()
    async with Client(
        where.url or StdioTransport(where.command, where.arguments, keep_alive=False)
    ) as client:

        async def call(tool: str, arguments: dict[str, Any]) -> Answer:
            result = await client.call_tool(tool, arguments, raise_on_error=False)
            text = "\n".join(block.text for block in result.content if block.type == "text")
            return Answer(text, result.structured_content or {}, result.is_error)

        tools = [tool.name for tool in await client.list_tools()]
        await play(f"fastmcp {version('fastmcp-slim')}", tools, call)


if __name__ == "__main__":
    asyncio.run(main())
