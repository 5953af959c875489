"""pydantic-ai's toolset. Its model reads the structured content alone."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from contract import Answer, place, play
from fastmcp.client.transports import StdioTransport
from pydantic_ai import ModelRetry
from pydantic_ai.mcp import MCPToolset


async def main() -> None:
    where = place()
    toolset: MCPToolset[Any] = MCPToolset(
        where.url or StdioTransport(where.command, where.arguments, keep_alive=False)
    )
    async with toolset:

        async def call(tool: str, arguments: dict[str, Any]) -> Answer:
            try:
                result = await toolset.direct_call_tool(tool, arguments)
            except ModelRetry as problem:
                return Answer(problem.message, is_error=True)
            return Answer("", result) if isinstance(result, dict) else Answer(str(result))

        tools = [tool.name for tool in await toolset.list_tools()]
        await play(f"pydantic-ai {version('pydantic-ai-slim')}", tools, call)


if __name__ == "__main__":
    asyncio.run(main())
