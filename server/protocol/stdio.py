"""Standard input and output: a line that is no message is answered. The SDK drops it, and its client waits for ever."""

import json
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

Incoming = SessionMessage | Exception


@asynccontextmanager
async def open_stdio() -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], Any]]:
    """Yield the messages of the client, and where replies go."""
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
