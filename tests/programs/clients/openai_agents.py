"""OpenAI Agents SDK (``agents.mcp``). Its calls end after 5 seconds unless told otherwise."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from contract import Answer, place, play

PATIENCE = 60


async def main() -> None:
    where = place()
    server: Any = (
        MCPServerStreamableHttp({"url": where.url}, client_session_timeout_seconds=PATIENCE)
        if where.url
        else MCPServerStdio(
            {"command": where.command, "args": where.arguments}, client_session_timeout_seconds=PATIENCE
        )
    )
    async with server:

        async def call(tool: str, arguments: dict[str, Any]) -> Answer:
            result = await server.call_tool(tool, arguments)
            text = "\n".join(block.text for block in result.content if block.type == "text")
            return Answer(text, result.structured_content or {}, bool(result.is_error))

        tools = [tool.name for tool in await server.list_tools()]
        await play(f"openai-agents {version('openai-agents')}", tools, call)


if __name__ == "__main__":
    asyncio.run(main())
