"""LangChain's MCP adapters: each tool as a LangChain tool, replies as its messages."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from contract import Answer, place, play
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools


async def main() -> None:
    where = place()
    connection: Any = (
        {"transport": "http", "url": where.url}
        if where.url
        else {"transport": "stdio", "command": where.command, "args": where.arguments}
    )
    async with MultiServerMCPClient({"leanrag": connection}).session("leanrag") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call(tool: str, arguments: dict[str, Any]) -> Answer:
            message = await tools[tool].ainvoke(
                {"name": tool, "args": arguments, "id": "1", "type": "tool_call"}
            )
            text = "\n".join(block["text"] for block in message.content if block["type"] == "text")
            data = (message.artifact or {}).get("structured_content", {})
            return Answer(text, data, message.status == "error")

        await play(f"langchain-mcp-adapters {version('langchain-mcp-adapters')}", list(tools), call)


if __name__ == "__main__":
    asyncio.run(main())
