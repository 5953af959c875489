"""The server over real HTTP: a real process on a loopback port, the SDK's client and bare requests."""

from __future__ import annotations

import json
import logging
import platform
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from leanrag_tests_forks import Fork
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient
from typer.testing import CliRunner

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.engine import LeanRAG
from leanrag_mcp.app import create_server
from leanrag_mcp.cli.main import app
from leanrag_mcp.engine_handle import EngineHandle
from leanrag_mcp.http.serving import configure_web_server, count_connections, health, http_app
from leanrag_mcp.http.settings import Address, HttpSettings

pytestmark = pytest.mark.anyio

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105 - of a server that lives for a test
ERAS = ("legacy", "2026-07-28")
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@dataclass(frozen=True)
class Served:
    """A running server: its address, its process, and what it said on standard error after its greeting."""

    url: str
    process: Fork | subprocess.Popen[str]
    said: list[str]

    @property
    def root(self) -> str:
        return self.url.removesuffix("/mcp")


def command(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-P", "-m", "leanrag_mcp", "serve", "--data-dir", str(folder), *options]


@contextmanager
def serve(
    folder: Path, *options: str, http: str = "127.0.0.1:0", anew: bool = False, **environment: str
) -> Iterator[Served]:
    """Run the command until the block ends; ``anew``: in a new interpreter, as a shell does."""
    import os  # noqa: PLC0415 - only this function needs it

    words, env = command(folder, "--http", http, *options), {**os.environ, **environment}
    child = (
        subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=env)
        if anew
        else Fork(words[words.index("serve") :], stderr=subprocess.PIPE, env=env)
    )
    assert child.stderr
    # The web server may log lines of its own before.
    greeting = next((line for line in child.stderr if "LeanRAG" in line), "")
    # An unread pipe fills up, and then the server waits for ever to log a line.
    said: list[str] = []
    drain = threading.Thread(target=said.extend, args=(child.stderr,), daemon=True)
    drain.start()
    try:
        assert "LeanRAG serves http://" in greeting, greeting
        yield Served(next(word for word in greeting.split() if word.startswith("http://")), child, said)
    finally:
        child.kill()
        child.wait()
        drain.join()
        child.stderr.close()


@asynccontextmanager
async def client_of(url: str, era: str = "auto", token: str = "") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=era) as client:
            yield client


async def call_tool(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    return result.structured_content or {}


def post(url: str, *, content: bytes | None = None, **headers: str) -> httpx2.Response:
    """One request as any program could send it."""
    body = json.dumps(PING).encode() if content is None else content
    accepted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    # Headers are bytes: some of those sent here are no ASCII.
    sent = {name: value.encode("latin-1") for name, value in (accepted | headers).items()}
    return httpx2.post(url, content=body, headers=sent, timeout=30)


@pytest.fixture(scope="module")
def open_server(lighthouses: Path) -> Iterator[Served]:
    with serve(lighthouses, "--read-only", anew=True) as server:
        yield server


@pytest.fixture(scope="module")
def token_server(lighthouses: Path) -> Iterator[Served]:
    """One that asks for a token, lets one page in and takes a megabyte."""
    options = (
        "--read-only",
        "--http-allowed-host",
        "rag.example",
        "--http-allowed-origin",
        "https://app.example",
    )
    with serve(lighthouses, *options, LEANRAG_HTTP_TOKEN=TOKEN, LEANRAG_HTTP_MAX_REQUEST_MB="1") as server:
        yield server


@pytest.mark.parametrize("era", ERAS)
async def test_both_eras_list_and_call_tools(open_server: Served, era: str) -> None:
    async with client_of(open_server.url, era) as client:
        assert "query_lca_context" in {tool.name for tool in (await client.list_tools()).tools}
        reply = await call_tool(client, "query_lca_context", query="Who designed Skerryvore?")
        assert "Alan Stevenson" in reply["context"]


async def test_many_clients_of_both_eras_are_served_at_once(open_server: Served) -> None:
    answers: list[str] = []

    async def ask(era: str, question: str) -> None:
        async with client_of(open_server.url, era) as client:
            answers.append((await call_tool(client, "query_lca_context", query=question))["context"])

    async with anyio.create_task_group() as tasks:
        for era in ERAS * 3:
            tasks.start_soon(ask, era, "When was Skerryvore lit?")
    assert len(set(answers)) == 1
    assert len(answers) == 6
    assert "1844" in answers[0]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library has no arenas")
async def test_all_threads_of_a_server_allocate_from_two_arenas(open_server: Served) -> None:
    async with client_of(open_server.url) as client, anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(partial(call_tool, client, "search_entities", query=f"lighthouse {number}"))
    assert count_further_arenas(open_server.process.pid) <= 1


def count_further_arenas(pid: int) -> int:
    """Return the number of reservations of glibc for arenas beside the first: of 64 MB, at a multiple of that."""
    size, count = 64 << 20, 0
    mapped: dict[int, tuple[int, str]] = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        area, rights, *_, inode = line.split()[:5]
        start, end = (int(each, 16) for each in area.split("-"))
        mapped[start] = (end, rights if inode == "0" else "of a file")
    for start, (middle, rights) in mapped.items():
        if start % size == 0 and rights == "rw-p":
            end, rest = mapped.get(middle, (0, ""))
            count += rest == "---p" and end == start + size
    return count


async def test_two_clients_see_what_the_other_wrote(tmp_path: Path) -> None:
    with serve(tmp_path) as server:
        async with client_of(server.url, "legacy") as one, client_of(server.url, "2026-07-28") as other:
            async with anyio.create_task_group() as tasks:
                for client, moon in ((one, "Io"), (other, "Titan")):
                    document = {"text": f"{moon} is a moon. {moon} was seen by Galileo.", "id": moon}
                    tasks.start_soon(ingest, client, document)
            for client in (one, other):
                assert (await call_tool(client, "get_index_status"))["documents"] == 2


async def ingest(client: Client, document: dict[str, str]) -> None:
    reply = await call_tool(client, "ingest_documents", documents=[document], wait_seconds=40)
    assert reply["status"] == "done", reply


# --- who is let in ---------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_the_right_token_opens_and_a_wrong_one_does_not(token_server: Served, era: str) -> None:
    async with client_of(token_server.url, era, TOKEN) as client:
        assert (await call_tool(client, "get_index_status"))["documents"] == 6
    for wrong in ("", "another-token-altogether", TOKEN[:-1], TOKEN + "x"):
        with pytest.raises((MCPError, ExceptionGroup)):
            async with client_of(token_server.url, era, wrong) as client:
                await client.list_tools()


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer \xff"])
def test_a_refusal_without_the_token_reveals_nothing(token_server: Served, header: str) -> None:
    reply = post(token_server.url, **({"authorization": header} if header else {}))
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"].startswith("Bearer ")
    assert TOKEN not in reply.text
    assert set(reply.json()) == {"error", "error_description"}


def test_a_token_in_the_address_is_no_token(token_server: Served) -> None:
    assert post(f"{token_server.url}?access_token={TOKEN}").status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil"]
)
def test_a_page_that_rebinds_its_name_is_refused(open_server: Served, host: str) -> None:
    reply = post(open_server.url, host=host)
    assert reply.status_code == 421
    assert host in reply.json()["error"]["message"]
    assert "--http-allowed-host" in reply.json()["error"]["message"]


def test_a_name_that_was_allowed_is_served_at_any_port(token_server: Served) -> None:
    # 400: it got as far as the protocol, which misses a handshake.
    for host in ("rag.example", "rag.example:8443", "localhost:1234"):
        assert post(token_server.url, authorization=f"Bearer {TOKEN}", host=host).status_code == 400
    assert post(token_server.url, authorization=f"Bearer {TOKEN}", host="rag.example.evil").status_code == 421


def test_a_foreign_page_is_refused_and_an_allowed_one_is_not(token_server: Served) -> None:
    token = {"authorization": f"Bearer {TOKEN}"}
    refused = post(token_server.url, **token, origin="https://evil.example")
    assert refused.status_code == 403
    assert "https://evil.example" in refused.json()["error"]["message"]
    assert "access-control-allow-origin" not in refused.headers
    allowed = post(token_server.url, **token, origin="https://app.example")
    assert allowed.status_code == 400
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"


def test_a_browser_may_ask_first_without_a_token(token_server: Served) -> None:
    asks = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,mcp-method",
    }
    reply = httpx2.options(token_server.url, headers={"origin": "https://app.example", **asks})
    assert reply.status_code == 200
    assert "authorization" in reply.headers["access-control-allow-headers"]
    assert (
        httpx2.options(token_server.url, headers={"origin": "https://evil.example", **asks}).status_code
        == 400
    )


def test_a_request_that_is_too_large_is_refused_with_the_limit(token_server: Served) -> None:
    reply = post(token_server.url, content=b" " * (1 << 20) + b"{}", authorization=f"Bearer {TOKEN}")
    assert reply.status_code == 413
    assert "larger than 1 MB" in reply.json()["error"]["message"]
    assert (
        post(token_server.url, content=b" " * (1 << 20), authorization=f"Bearer {TOKEN}").status_code != 413
    )


def test_a_session_more_than_the_server_keeps_is_refused_with_the_reason(tmp_path: Path) -> None:
    served = create_server(load_settings(data_dir=tmp_path))
    application = http_app(served, HttpSettings(), Address("127.0.0.1", 80))
    served.session_manager.max_sessions = 1
    assert served.session_manager.session_idle_timeout == 600
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    }
    headers = {"accept": "application/json, text/event-stream"}
    with TestClient(application, base_url="http://127.0.0.1") as client:
        first, second = (client.post("/mcp", json=opening, headers=headers) for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 503)
    assert "as many open sessions as it takes" in second.json()["error"]["message"]


def test_a_stream_without_a_declared_size_is_cut_off_too(token_server: Served) -> None:
    host, port = token_server.root.removeprefix("http://").split(":")
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode())
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(17):
            connection.sendall(piece)
        assert connection.recv(1000).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("path", ["/mcp", "/health"])
def test_a_request_with_two_lengths_is_refused_and_its_connection_is_closed(
    open_server: Served, path: str
) -> None:
    """A proxy that goes by the other length takes the rest of the body for the next request, of another client perhaps."""
    host, port = open_server.root.removeprefix("http://").split(":")
    request = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    received = b""
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(request.encode())
        while piece := connection.recv(4096):
            received += piece
    assert received.startswith(b"HTTP/1.1 400")
    assert received.count(b"HTTP/1.1") == 1
    assert b"Transfer-Encoding" in received


# --- what a token may do ---------------------------------------------------------------------

RIGHTS = """
[operator]
sha256 = "{operator}"
right = "admin"

[desk]
sha256 = "{desk}"
right = "write"
collections = ["moons"]

[screen]
sha256 = "{screen}"
right = "read"
collections = ["moons"]

[reviewer]
sha256 = "{reviewer}"
right = "read"
collections = ["moons", "comets"]

[gauge]
sha256 = "{gauge}"
right = "read"
requests_per_minute = 2
"""
HOLDERS = ("operator", "desk", "screen", "reviewer", "gauge")


@pytest.fixture(scope="module")
def rights_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One with five tokens, each the name of its holder four times."""
    folder = tmp_path_factory.mktemp("rights")
    hashes = {name: sha256((name * 4).encode()).hexdigest() for name in HOLDERS}
    (folder / "tokens.toml").write_text(RIGHTS.format(**hashes), encoding="utf-8")
    (folder / "secret.txt").write_text("Kerberos is a moon of Pluto.", encoding="utf-8")
    options = ("--allow-dir", str(folder))
    with serve(folder / "data", *options, LEANRAG_HTTP_TOKENS_FILE=str(folder / "tokens.toml")) as server:
        yield server


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert result.is_error, result.structured_content
    return str(result.content)


@pytest.mark.parametrize("era", ERAS)
async def test_a_token_reaches_its_collections_alone_and_does_what_its_right_allows(
    rights_server: Served, era: str
) -> None:
    url = rights_server.url
    texts = {
        "moons": "Io is a moon of Jupiter. Galileo saw Io.",
        "comets": "Halley is a comet. Halley returns.",
    }
    async with client_of(url, era, "operator" * 4) as operator:
        for collection, text in texts.items():
            document = {"text": text, "id": collection}
            job = await call_tool(
                operator, "ingest_documents", documents=[document], collection=collection, wait_seconds=40
            )
        assert {each.name for each in (await operator.list_tools()).tools} >= {"delete_documents"}
    async with client_of(url, era, "screen" * 4) as screen:
        tools = {each.name for each in (await screen.list_tools()).tools}
        assert "query_lca_context" in tools
        assert not tools & {"ingest_documents", "delete_documents", "merge_entities", "submit_summaries"}
        # The only collection that it sees need not be named.
        assert "Galileo" in (await call_tool(screen, "query_lca_context", query="Who saw Io?"))["context"]
        assert "needs the right write" in await refused(screen, "build_hierarchy")
        # What exists is refused in the words of what does not.
        there = await refused(screen, "query_lca_context", query="Halley", collection="comets")
        absent = await refused(screen, "query_lca_context", query="Halley", collection="planets")
        assert there.replace("comets", "planets") == absent
        assert "There is no collection" in there
        listed = json.dumps(await call_tool(screen, "list_collections"))
        status = json.dumps(await call_tool(screen, "get_index_status"))
        resource = str(await screen.read_resource("leanrag://collections"))
        for text in (listed, status, resource):
            assert "moons" in text
            assert "comets" not in text
        with pytest.raises(MCPError):
            await screen.read_resource("leanrag://comets/documents")
        there = await refused(screen, "get_job", job_id=job["job_id"])
        absent = await refused(screen, "get_job", job_id="job-000000000000")
        assert there.replace(job["job_id"], "job-000000000000") == absent
    async with client_of(url, era, "reviewer" * 4) as reviewer:
        listed = await call_tool(reviewer, "list_collections")
        assert {each["name"] for each in listed["collections"]} == {"moons", "comets"}
        resource = str(await reviewer.read_resource("leanrag://collections"))
        assert "moons" in resource
        assert "Vulcan" not in resource
        for tool in ("query_lca_context", "get_index_status"):
            arguments = {"query": "Vulcan"} if tool == "query_lca_context" else {}
            told = await refused(reviewer, tool, **arguments)
            assert "moons" in told
            assert "comets" in told
    async with client_of(url, era, "desk" * 4) as desk:
        await call_tool(
            desk, "ingest_documents", documents=[{"text": "Io has volcanoes.", "id": f"io-{era}"}]
        )
        assert "admin" in await refused(desk, "delete_documents", ids=["moons"])
        file = str(Path(rights_server.process.args[-1]).parent)  # type: ignore[index, arg-type] # a list of strings
        assert "admin" in await refused(desk, "ingest_documents", documents=[{"path": file}])
        assert "There is no collection" in await refused(desk, "build_hierarchy", collection="comets")


async def test_a_token_that_may_not_delete_replaces_no_document_either(rights_server: Served) -> None:
    async def text_of(client: Client) -> str:
        return str(await call_tool(client, "get_sources", document="mars", collection="moons"))

    async with client_of(rights_server.url, token="operator" * 4) as operator:
        mars = {"id": "mars", "text": "Deimos is a moon of Mars."}
        await call_tool(operator, "ingest_documents", documents=[mars], collection="moons", wait_seconds=40)
    async with client_of(rights_server.url, token="desk" * 4) as desk:
        other = [{"id": "mars", "text": "Nothing."}, {"id": "phobos", "text": "Phobos is a moon of Mars."}]
        reply = await call_tool(desk, "ingest_documents", documents=other, wait_seconds=40)
        ends = {each["id"]: (each["status"], each.get("error", "")) for each in reply["documents"]}
        assert ends["phobos"] == ("added", "")
        assert ends["mars"][0] == "failed"
        assert "needs the right admin" in ends["mars"][1]
        assert "Deimos" in await text_of(desk)
    async with client_of(rights_server.url, token="operator" * 4) as operator:
        mars = {"id": "mars", "text": "Mars has two moons."}
        await call_tool(operator, "ingest_documents", documents=[mars], collection="moons", wait_seconds=40)
        assert "two moons" in await text_of(operator)


async def test_a_token_beyond_its_requests_a_minute_is_told_when_to_come_again(rights_server: Served) -> None:
    sent = [post(rights_server.url, authorization=f"Bearer {'gauge' * 4}") for _ in range(3)]
    assert [each.status_code for each in sent[:2]] != [429, 429]
    assert sent[2].status_code == 429
    assert int(sent[2].headers["retry-after"]) == 30
    assert "2 requests a minute" in sent[2].text
    # The others are not concerned.
    assert post(rights_server.url, authorization=f"Bearer {'screen' * 4}").status_code != 429
    assert post(rights_server.url, authorization="Bearer unknown-to-this-server").status_code == 401


# --- what it tells ----------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["open_server", "token_server"])
def test_health_needs_no_token_and_shows_only_the_version(
    server: str, request: pytest.FixtureRequest
) -> None:
    root = request.getfixturevalue(server).root
    for host in ("localhost", "10.0.0.7:8000"):
        reply = httpx2.get(f"{root}/health", headers={"host": host})
        assert reply.status_code == 200
        assert reply.json() == {"status": "ok", "version": version("leanrag-mcp")}
    assert httpx2.post(f"{root}/health").status_code == 405


def test_the_root_says_what_this_is_and_where_a_client_connects(token_server: Served) -> None:
    reply = httpx2.get(f"{token_server.root}/")
    assert reply.status_code == 200
    said = reply.json()
    assert (said["name"], said["mcp"], said["status"]) == ("leanrag-mcp", "/mcp", "ok")
    assert "MCP client" in said["what"]


async def test_the_access_log_names_requests_and_tools_but_holds_no_text_of_documents(tmp_path: Path) -> None:
    with serve(tmp_path, "--log-level", "info") as server:
        async with client_of(server.url) as client:
            await call_tool(
                client, "ingest_documents", documents=[{"text": "The quagga was seen by Sparrman."}]
            )
            await call_tool(client, "query_lca_context", query="Who saw the quagga?")
        assert httpx2.get(f"{server.root}/nowhere").status_code == 404
    log = "".join(server.said)
    assert '"POST /mcp HTTP/1.1" 200' in log
    assert '"GET /nowhere HTTP/1.1" 404' in log
    (line,) = (each for each in server.said if "Tool query_lca_context answered in" in each)
    assert line.endswith(" ms\n")
    assert "quagga" not in log
    assert "Sparrman" not in log


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}',
        b'{"jsonrpc": "2.0", "id": {}, "method": "initialize", "params": {}}',
        b"[" * 10_000,
        "\u202e\U0001f9ed\x00".encode(),
    ],
)
@pytest.mark.parametrize("revision", ["", "2025-11-25", "2026-07-28", "1999-01-01", "\xff"])
def test_no_reply_to_nonsense_holds_a_traceback(open_server: Served, body: bytes, revision: str) -> None:
    reply = post(open_server.url, content=body, **({"mcp-protocol-version": revision} if revision else {}))
    assert 400 <= reply.status_code < 500
    assert "Traceback" not in reply.text
    assert "site-packages" not in reply.text


def test_unknown_paths_and_methods_are_refused_without_a_traceback(open_server: Served) -> None:
    for path in ("/mcp/x", "/docs", "/.well-known/oauth-protected-resource/mcp"):
        assert httpx2.get(open_server.root + path).status_code in {404, 400}
    assert httpx2.put(open_server.url).status_code == 405


# --- how it starts and ends -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (("--http", "0.0.0.0:0"), {}, "LEANRAG_HTTP_TOKEN"),
        (("--http", "[::]:0"), {}, "LEANRAG_HTTP_TOKEN"),
        (("--http", "192.0.2.1:0"), {}, "LEANRAG_HTTP_TOKEN"),
        (("--http", "rag.example:0"), {}, "LEANRAG_HTTP_TOKEN"),
        (("--http", "0.0.0.0:0"), {"LEANRAG_HTTP_TOKEN": "guess-me"}, "16 or more"),
        (("--http", "192.0.2.1:0"), {"LEANRAG_HTTP_TOKEN": TOKEN}, "Cannot listen at 192.0.2.1:0"),
        (("--http", "8000"), {}, "HOST:PORT"),
        (("--http", "127.0.0.1:99999"), {}, "HOST:PORT"),
        (("--http", "::1:8000"), {}, "HOST:PORT"),
        (("--http", "127.0.0.1:0", "--http-token-file", "/does/not/exist"), {}, "/does/not/exist"),
        (("--http", "127.0.0.1:0"), {"LEANRAG_HTTP_MAX_REQUEST_MB": "many"}, "LEANRAG_HTTP_MAX_REQUEST_MB"),
        (("--http", "127.0.0.1:0"), {"LEANRAG_HTTP_OAUTH_ISSUER": "http://issuer.example"}, "https://"),
        (
            ("--http", "127.0.0.1:0"),
            {"LEANRAG_HTTP_OAUTH_ISSUER": "https://issuer.example"},
            "do not fit together",
        ),
        (("--http", "127.0.0.1:0", "--http-allowed-origin", "*"), {}, "not an origin"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_next_step(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    environment: dict[str, str],
    said: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    # In this process: one of its own spends seconds on its imports. The next test starts one.
    monkeypatch.setattr(
        logging.root, "handlers", []
    )  # else that of the closed stream would serve later tests
    ran = CliRunner().invoke(app, ["serve", "--data-dir", str(tmp_path / "data"), *options])
    assert ran.exit_code == 1
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not any(value in ran.stderr for name, value in environment.items() if name == "LEANRAG_HTTP_TOKEN")
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_named(open_server: Served, tmp_path: Path) -> None:
    taken = open_server.root.removeprefix("http://")
    ran = subprocess.run(
        command(tmp_path, "--http", taken), capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 1
    assert f"Cannot listen at {taken}" in ran.stderr


def test_a_store_that_cannot_be_opened_ends_the_server_at_its_start(tmp_path: Path) -> None:
    (tmp_path / "graph.sqlite3").write_bytes(b"no database at all" * 99)
    ran = subprocess.run(
        command(tmp_path, "--http", "127.0.0.1:0"), capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 1
    assert "graph.sqlite3" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("answers", [True, False])
async def test_a_server_whose_database_cannot_be_read_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    class Broken(EngineHandle):
        async def get(self) -> LeanRAG:
            if not answers:
                await anyio.sleep_forever()
            raise StoreUnusable("The database is away.", "Start it.")

    monkeypatch.setattr("leanrag_mcp.http.serving.READY_SECONDS", 0.1)
    reply = await health(Broken(load_settings(data_dir=tmp_path)), Request({"type": "http"}))
    assert (reply.status_code, json.loads(reply.body)["status"]) == (503, "unavailable")


def test_a_token_may_come_from_a_file_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with serve(tmp_path / "data", "--http-token-file", str(file), http="0.0.0.0:0", anew=True) as server:
        url = server.url.replace("//0.0.0.0", "//127.0.0.1")
        assert post(url).status_code == 401
        assert post(url, authorization=f"Bearer {TOKEN}").status_code == 400
        assert TOKEN not in " ".join(server.process.args)  # type: ignore[arg-type] # a list, as given above


LONG = [
    {
        "text": "\n\n".join(f"{planet} passes in front of star Kepler-{star}." for star in range(120)),
        "id": planet,
    }
    for planet in ("Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune")
]


async def test_a_job_goes_on_after_its_server_was_stopped_and_started_again(tmp_path: Path) -> None:
    # The end by SIGKILL is that of a server over standard input and output, in test_processes.py.
    with ExitStack() as stack:
        first = stack.enter_context(serve(tmp_path))
        # The handshake client keeps a stream open: it must not hold the end up.
        job_id = await end_during_job(first)
        assert await anyio.to_thread.run_sync(state_of, tmp_path, job_id) == "interrupted"
        # The port is free again at once, and clients come back to the same address.
        second = stack.enter_context(serve(tmp_path, http=first.root.removeprefix("http://")))
        assert second.url == first.url
        with anyio.fail_after(40):  # no client has to call first
            while await anyio.to_thread.run_sync(state_of, tmp_path, job_id) != "done":
                await anyio.sleep(0.2)
        async with client_of(second.url) as client:
            job = await call_tool(client, "get_job", job_id=job_id, wait_seconds=40)
            assert job["status"] == "done", job
            assert (await call_tool(client, "get_index_status"))["documents"] == len(LONG)


async def end_during_job(server: Served) -> str:
    """Begin a job, end its server while the client listens, and check that the client gets an error."""
    job_id = ""
    try:
        async with client_of(server.url, "legacy") as client:
            job_id = (await call_tool(client, "ingest_documents", documents=LONG, wait_seconds=0))["job_id"]
            server.process.send_signal(signal.SIGTERM)
            await anyio.to_thread.run_sync(server.process.wait, 30)
            with pytest.raises(MCPError):
                await client.list_tools()
    except (ExceptionGroup, httpx2.HTTPError):
        assert job_id
    return job_id


def state_of(folder: Path, job_id: str) -> str:
    ran = CliRunner().invoke(app, ["status", "--data-dir", str(folder), "--json"])
    states = {job["job_id"]: job["status"] for job in json.loads(ran.stdout)["jobs"]}
    return str(states[job_id])


@pytest.mark.parametrize(
    ("era", "how", "code"), [(ERAS[0], signal.SIGINT, 0), (ERAS[1], signal.SIGTERM, -signal.SIGTERM)]
)
async def test_a_server_stops_on_a_signal_while_clients_wait(
    tmp_path: Path, era: str, how: signal.Signals, code: int
) -> None:
    with serve(tmp_path) as server:
        try:
            async with client_of(server.url, era) as client, anyio.create_task_group() as tasks:
                job = await call_tool(client, "ingest_documents", documents=LONG, wait_seconds=0)
                tasks.start_soon(check_refusal_while_waiting, client, job["job_id"])
                await call_tool(client, "get_job", job_id=job["job_id"])
                server.process.send_signal(how)
                assert await anyio.to_thread.run_sync(server.process.wait, 30) == code
        except (ExceptionGroup, httpx2.HTTPError):
            assert server.process.returncode == code
    assert not [line for line in server.said if "Traceback" in line or "Error" in line]


async def check_refusal_while_waiting(client: Client, job_id: str) -> None:
    """Check that the call ends with the interruption or with the end of the server, whichever is first."""
    with suppress(MCPError):
        job = await call_tool(client, "get_job", job_id=job_id, wait_seconds=40)
        assert job["status"] == "interrupted"


def test_stdio_starts_without_a_web_server() -> None:
    code = (
        "import sys, leanrag_mcp.cli.main; from leanrag_mcp.app import create_server;"
        "from leanrag_engine.core.config import load_settings; from leanrag_mcp.http.settings import load_http_settings;"
        "load_http_settings(); create_server(load_settings());"
        "print(*sorted({'jwt', 'leanrag_mcp.http.serving', 'leanrag_mcp.http.tokens'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


# --- clients that mean harm ----------------------------------------------------------------


async def read_to_end(stream: anyio.abc.SocketStream) -> bytes:
    """Return what the server sends until it closes the connection."""
    received = b""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError), anyio.fail_after(60):
        while True:
            received += await stream.receive()
    return received


async def test_a_connection_that_never_completes_its_headers_or_body_is_closed(tmp_path: Path) -> None:
    with serve(tmp_path, LEANRAG_HTTP_HEAD_SECONDS="1") as served:
        address = httpx2.URL(served.url)
        for begun in (b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
            async with await anyio.connect_tcp(address.host, address.port or 0) as stream:
                if begun:
                    await stream.send(begun)
                assert await read_to_end(stream) == b""
        head = f"POST {address.path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n"
        head += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 99\r\n\r\n{"
        async with await anyio.connect_tcp(address.host, address.port or 0) as stream:
            await stream.send(head.encode())
            assert await read_to_end(stream) == b""
        async with httpx2.AsyncClient(timeout=60) as http:
            for _ in range(2):
                assert (await http.get(f"{served.root}/health")).status_code == 200


async def test_bodies_that_trickle_are_ended_and_a_clean_client_is_answered_beside_them(
    tmp_path: Path,
) -> None:
    with serve(tmp_path, LEANRAG_HTTP_HEAD_SECONDS="1") as served:
        address = httpx2.URL(served.url)
        head = f"POST {address.path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nContent-Type: application/json\r\n"
        head += "Accept: application/json, text/event-stream\r\nContent-Length: 999\r\n\r\n{"
        whole = f"GET /health HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n\r\n"

        async def trickle(begun: str) -> None:
            async with await anyio.connect_tcp(address.host, address.port or 0) as stream:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await stream.send(begun.encode())
                    while True:
                        with anyio.move_on_after(0.2):
                            await stream.receive()
                        await stream.send(b" ")

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(100):
                    # A request may also begin together with one before it.
                    group.start_soon(trickle, whole + head if number % 2 else head)
                async with client_of(served.url) as client:
                    await call_tool(client, "get_index_status")
        assert served.said == []


async def test_a_body_that_takes_longer_than_a_request_may_but_keeps_coming_is_read(tmp_path: Path) -> None:
    with serve(tmp_path, LEANRAG_HTTP_HEAD_SECONDS="0.5") as served:
        began = anyio.current_time()

        async def come() -> AsyncIterator[bytes]:
            while anyio.current_time() < began + 1.5:
                yield b" " * 30_000
                with anyio.move_on_after(0.1):
                    await anyio.Event().wait()
            yield b"{}"

        async with httpx2.AsyncClient(timeout=60) as http:
            reply = await http.post(served.url, content=come())
        assert reply.status_code in (400, 406, 415)


def test_a_client_that_does_not_read_its_responses_loses_its_connection(tmp_path: Path) -> None:
    with serve(tmp_path, LEANRAG_HTTP_HEAD_SECONDS="1") as served, socket.socket() as client:
        address = httpx2.URL(served.url)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect((address.host, address.port))
        meta = {"protocolVersion": ERAS[1], "clientCapabilities": {}}
        params = {"_meta": {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}}
        body = json.dumps(PING | {"method": "tools/list", "params": params})
        head = f"POST {address.path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nContent-Type: application/json\r\n"
        head += f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n"
        head += f"MCP-Protocol-Version: {ERAS[1]}\r\nMCP-Method: tools/list\r\n\r\n"
        with pytest.raises(ConnectionError):
            client.sendall(20_000 * (head + body).encode())


async def test_an_address_has_so_many_connections_and_another_address_is_still_answered(
    tmp_path: Path,
) -> None:
    with serve(tmp_path) as served:
        address = httpx2.URL(served.url)
        async with AsyncExitStack() as held:
            for _ in range(count_connections()):
                await held.enter_async_context(await anyio.connect_tcp(address.host, address.port or 0))
            async with await anyio.connect_tcp(address.host, address.port or 0) as stream:
                assert b"503" in await read_to_end(stream)
            if sys.platform == "linux":  # others have one address of this kind
                transport = httpx2.AsyncHTTPTransport(local_address="127.0.0.2")
                async with httpx2.AsyncClient(transport=transport, timeout=60) as http:
                    assert (await http.get(f"{served.root}/health")).status_code == 200
        async with httpx2.AsyncClient(timeout=60) as http:
            assert (await http.get(f"{served.root}/health")).status_code == 200
        assert any("another one was refused" in line for line in served.said)


def test_an_idle_connection_is_closed_by_the_client_of_the_sdk_before_the_server_closes_it() -> None:
    server = configure_web_server(Starlette(), HttpSettings(), "warning")
    kept = httpx2.Limits().keepalive_expiry
    assert kept is not None
    assert server.timeout_keep_alive > kept


async def test_headers_without_end_are_refused_and_not_kept(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        address = httpx2.URL(served.url)
        async with await anyio.connect_tcp(address.host, address.port or 0) as stream:
            await stream.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
            with suppress(anyio.BrokenResourceError):
                for number in range(1_000):
                    await stream.send(f"X-{number}: {'a' * 1_000}\r\n".encode())
            received = await read_to_end(stream)
        assert not received or received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
