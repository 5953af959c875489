"""A small corpus whose facts are known, served in process and over stdio."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

from leanrag_engine.core.config import load_settings
from leanrag_mcp.app import create_server

LIGHTHOUSE = {
    "Skerryvore": "Skerryvore is a lighthouse off Tiree. Alan Stevenson designed Skerryvore. "
    "Skerryvore was lit in 1844. Its granite tower is 48 metres high.",
    "Alan Stevenson": "Alan Stevenson was a Scottish lighthouse engineer. Alan Stevenson was the son of Robert Stevenson. "
    "He worked for the Northern Lighthouse Board in Edinburgh.",
    "Robert Stevenson": "Robert Stevenson built the Bell Rock lighthouse. Robert Stevenson was engineer to the Northern "
    "Lighthouse Board. The Bell Rock lies off Arbroath.",
    "Bell Rock": "The Bell Rock lighthouse stands on a reef in the North Sea. John Rennie advised on the Bell Rock. "
    "The Bell Rock was lit in 1811.",
    "Fresnel lens": "Augustin Fresnel invented the Fresnel lens. The Fresnel lens gathers light into a beam. "
    "Alan Stevenson brought the Fresnel lens to Scottish lighthouses.",
    "Northern Lighthouse Board": "The Northern Lighthouse Board maintains lighthouses in Scotland and the Isle of Man. "
    "The Northern Lighthouse Board was founded in 1786 in Edinburgh.",
}


@dataclass(frozen=True)
class Reply:
    """What a client got: the text that a model may read, and the structured content."""

    text: str
    data: dict[str, Any]
    is_error: bool


class Caller:
    """Calls tools and gives both sides of each reply."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Reply:
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        return Reply(text, result.structured_content or {}, bool(result.is_error))

    async def finish(self, job: Reply) -> Reply:
        """Wait for the end of a job, however busy the machine is."""
        while job.data["status"] in {"queued", "running"}:
            job = await self("get_job", job_id=job.data["job_id"], wait_seconds=40)
        return job


@asynccontextmanager
async def in_process(folder: Path, **settings: Any) -> AsyncIterator[Caller]:
    async with Client(create_server(load_settings(data_dir=folder, **settings))) as client:
        yield Caller(client)


@asynccontextmanager
async def over_stdio(folder: Path, *options: str) -> AsyncIterator[Caller]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "leanrag_mcp", "serve", "--data-dir", str(folder), *options],
        # The SDK passes on few variables; servers in this process have the same embedder.
        env={"LEANRAG_EMBEDDER": os.environ["LEANRAG_EMBEDDER"]},
    )
    async with Client(server) as client:
        yield Caller(client)


@pytest.fixture(scope="session", autouse=True)
def checked_schemas() -> Iterator[None]:
    """Clients check the schema of a tool's reply before its first call. Here each schema is checked once: each test's client
    checked the same ones again, for longer than the call itself took. Each reply is still compared with its schema."""
    check = Draft202012Validator.check_schema
    valid: set[str] = set()

    def check_once(schema: Any, *options: Any, **more: Any) -> None:
        text = json.dumps(schema)
        if text not in valid:
            check(schema, *options, **more)
            valid.add(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", staticmethod(check_once))
        yield


@pytest.fixture(scope="session")
def lighthouses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with the corpus ingested and built. Tests only read it."""
    # Not an asynchronous fixture: of this scope it would hold an event loop over all tests that follow.
    folder = tmp_path_factory.mktemp("lighthouses")

    async def fill() -> None:
        async with in_process(folder) as call:
            documents = [{"text": text, "title": title, "id": title} for title, text in LIGHTHOUSE.items()]
            reply = await call.finish(await call("ingest_documents", documents=documents, wait_seconds=40))
            assert reply.data["status"] == "done", reply.text

    anyio.run(fill)
    return folder


@pytest.fixture(scope="session")
def open_caller(lighthouses: Path) -> Iterator[tuple[BlockingPortal, Caller]]:
    """Return a caller of one server over the corpus, and the event loop of a thread in which both live."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(in_process(lighthouses)) as caller,
    ):
        yield portal, caller


@pytest.fixture
def call(open_caller: tuple[BlockingPortal, Caller]) -> Callable[..., Awaitable[Reply]]:
    """Return a caller for the tools of a server over the corpus, in process; all tests share the server."""
    portal, caller = open_caller

    async def forward(tool: str, **arguments: Any) -> Reply:
        return await to_thread.run_sync(lambda: portal.call(partial(caller, tool, **arguments)))

    return forward


@pytest.fixture
def serve_in_process() -> Callable[..., AbstractAsyncContextManager[Caller]]:
    """Return a function that opens a server on a data folder in this process."""
    return in_process


@pytest.fixture
def serve_over_stdio() -> Callable[..., AbstractAsyncContextManager[Caller]]:
    """Return a function that starts the real server on a data folder as a child process."""
    return over_stdio
