"""Serve MCP over streamable HTTP at ``/mcp``: admission of requests, readable refusals, start and shutdown."""

import asyncio
import logging
import socket
import sys
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from functools import partial
from importlib.metadata import version
from typing import Literal
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import anyio.to_thread
import h11
import typer
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INVALID_REQUEST
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import LOGGING_CONFIG
from uvicorn.protocols.http.h11_impl import H11Protocol

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput, LeanRAGError

from ..app import LeanRAGServer, create_server
from ..engine_handle import EngineHandle
from ..protocol.telemetry import flush_telemetry
from .settings import Address, HttpSettings, address_of
from .tokens import Access, IssuerUnavailable, TooManyRequests, access_of, rights_of_caller

logger = logging.getLogger(__name__)

HEAD_BYTES = 64 * 1024
"""Most bytes of a request line with its headers. httptools, which uvicorn prefers, keeps any number of them."""


BYTES_A_SECOND = 16 * 1024  # The slowest rate at which a client may send and read what is large

MOST_CONNECTIONS = 1_000
"""Most connections of one address, such as a proxy's: fewer where the process may not open twice as many files."""


class BoundedConnection(H11Protocol):
    """A connection that is closed if a request, head and body, is not complete after ``seconds`` or a response is not read
    by then, with a second more for every ``BYTES_A_SECOND``. An address has at most ``most`` of them."""

    seconds: float
    most: int
    held: Counter[str]
    _reading: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None
    _begun, _received = 0.0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self.held[self._peer] += 1
        # Writing counts as paused as long as the client has not taken everything.
        transport.set_write_buffer_limits(high=0)
        if self.held[self._peer] > self.most:
            self.logger.warning("%s has %d connections: another one was refused.", self._peer, self.most)
            transport.write(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 30\r\nConnection: close\r\n\r\n"
            )
            transport.close()
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The next request may have begun before.
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        patience = self.seconds + self.transport.get_write_buffer_size() / BYTES_A_SECOND
        self._writing = self.loop.call_later(patience, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._writing:
            self._writing.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in filter(None, (self._reading, self._writing)):
            timer.cancel()
        self.held[self._peer] -= 1
        if not self.held[self._peer]:
            del self.held[self._peer]
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Begin to wait for a request, or go on, unless it is complete; uvicorn bounds the time between two."""
        state = self.conn.their_state
        awaited = state is h11.SEND_BODY or (state is h11.IDLE and not self.timeout_keep_alive_task)
        if self._reading and not awaited:
            self._reading.cancel()
            self._reading = None
        elif awaited and not self._reading:
            self._begun, self._received = self.loop.time(), 0
            self._reading = self.loop.call_later(self.seconds, self._end_reading)

    def _end_reading(self) -> None:
        if self.flow.read_paused:  # what is not read does not come
            self._begun = self.loop.time()
        due = self._begun + self.seconds + self._received / BYTES_A_SECOND
        if self.loop.time() < due:
            self._reading = self.loop.call_at(due, self._end_reading)
        else:
            self.transport.close()


def count_connections() -> int:
    """Return how many connections an address may have, so that others still find files to open."""
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ImportError:
        return MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(files // 2, MOST_CONNECTIONS)


LogLevel = Literal["error", "warning", "info"]
"""No level below: debug lines of the SDK hold the text of messages."""

PATH = "/mcp"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

READY_SECONDS = 5.0  # A load balancer waits no longer either
TOO_LARGE, MISDIRECTED, FORBIDDEN, TOO_MANY, ENDING = 413, 421, 403, 429, 503
LENGTHS = {b"content-length", b"transfer-encoding"}


def run_http(settings: Settings, http: HttpSettings, log_level: LogLevel = "warning") -> None:
    """Serve until the process receives a signal to stop. Raises ``InvalidInput`` before anything is bound or opened."""
    address = address_of(http.http)
    access = access_of(http, address)
    server = create_server(
        settings, auth=access.auth, token_verifier=access.verifier, find_rights=rights_of_caller
    )
    serve_at(address, server, http, access, log_level)


def serve_at(
    address: Address,
    server: LeanRAGServer,
    http: HttpSettings,
    access: Access,
    log_level: LogLevel = "warning",
) -> None:
    """Bind, print the address, and serve ``server`` until the process receives a signal to stop."""
    with listening(address) as bound:
        address = Address(address.host, bound.getsockname()[1])
        app, said = http_app(server, http, address), greeting(address, access)
        serve_app(app, server.handle, bound, http, log_level, said)


def serve_app(
    app: ASGIApp,
    handle: EngineHandle,
    bound: socket.socket,
    http: HttpSettings,
    log_level: LogLevel,
    said: str = "",
) -> None:
    """Open the store, resume its jobs, say what is ``said`` and serve ``app`` at a bound socket until the process receives a signal to
    stop. Raises ``StoreUnusable`` if the store cannot be opened."""
    # A thread that computes keeps Python's lock for this long when another one asks for it.
    sys.setswitchinterval(0.001)
    calls = Calls(app)
    serving = Serving(configure_web_server(calls, http, log_level), calls, handle, said)
    # uvicorn shuts down cleanly on Ctrl-C and then raises the signal again.
    with suppress(KeyboardInterrupt):
        anyio.run(serving.serve, [bound])


def configure_web_server(app: ASGIApp, http: HttpSettings, log_level: LogLevel) -> uvicorn.Config:
    """Return uvicorn's settings: limits of connections, and what is logged: on standard error, an access with its time, address,
    request line and status."""
    logged = deepcopy(LOGGING_CONFIG)
    logged["handlers"]["access"]["stream"] = "ext://sys.stderr"
    logged["formatters"]["access"]["fmt"] = '%(asctime)s %(client_addr)s "%(request_line)s" %(status_code)s'
    bounds = {"seconds": http.http_head_seconds, "most": count_connections(), "held": Counter[str]()}
    return uvicorn.Config(
        app,
        http=type("Connection", (BoundedConnection,), bounds),
        h11_max_incomplete_event_size=HEAD_BYTES,
        # Longer than clients keep an idle connection, 5 s in httpx and 15 s in aiohttp: a request that is sent while
        # the server closes its connection is lost.
        timeout_keep_alive=30,
        access_log=log_level == "info",
        log_config=logged,
        log_level=log_level,
        server_header=False,
        ws="none",
    )


class Calls:
    """The running calls. Those still waiting when the server stops get an error instead of a broken connection."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._open: set[anyio.CancelScope] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if {name for name, _ in scope["headers"]} >= LENGTHS:
            # A proxy may go by the other one and take the end of the body for the next request.
            both = refusal_response(400, "Send Content-Length or Transfer-Encoding, not both.")
            await both(scope, receive, send)
            return
        started = is_whole = False

        async def receive_or_end() -> Message:
            nonlocal is_whole
            message = await receive()
            is_whole = is_whole or (message["type"] == "http.request" and not message.get("more_body", False))
            if message["type"] == "http.disconnect" and not is_whole:
                # Nobody waits for a reply. The SDK would log a traceback, which takes as long as many calls.
                call.cancel()
                await anyio.lowlevel.checkpoint()
            return message

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        with anyio.CancelScope() as call:
            self._open.add(call)
            try:
                await self.app(scope, receive_or_end, send_and_note)
            finally:
                self._open.discard(call)
        if call.cancelled_caught and started:
            await send({"type": "http.response.body", "body": b""})
        elif call.cancelled_caught:
            await refusal_response(ENDING, "The server is stopping. Call again when it has restarted.")(
                scope, receive, send
            )

    async def end_after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        for call in list(self._open):
            call.cancel()


class Serving(uvicorn.Server):
    """A web server that opens its store before it answers, and lets running calls finish for a few seconds before it stops."""

    def __init__(self, config: uvicorn.Config, calls: Calls, handle: EngineHandle, said: str) -> None:
        super().__init__(config)
        self._calls, self._handle, self._said = calls, handle, said

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._handle.get()
        if self._said:
            typer.echo(self._said, err=True)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        async with anyio.create_task_group() as tasks:
            # Jobs are interrupted too, and resume when the server starts again.
            tasks.start_soon(self._calls.end_after, 3.0)
            await super().shutdown(sockets)
            tasks.cancel_scope.cancel()
        # The signal is raised again after this, and ends the process at once.
        await anyio.to_thread.run_sync(flush_telemetry)


def listening(address: Address) -> socket.socket:
    """Return the bound socket. Raises ``InvalidInput`` if the address is taken, not this machine's, or not allowed."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family, backlog=2048)
    except OSError as problem:
        raise InvalidInput(
            f"Cannot listen at {address}: {problem.strerror or problem}.",
            "Give another address or port, or stop the program that uses this one.",
        ) from problem


def greeting(address: Address, access: Access) -> str:
    who = (
        "clients need a token of the OAuth issuer"
        if access.auth and access.auth.resource_server_url
        else "clients need a bearer token"
        if access.auth
        else "open to every program on this machine"
    )
    return f"LeanRAG serves http://{address}{PATH} ({who}). Ctrl-C stops it."


def http_app(server: LeanRAGServer, http: HttpSettings, address: Address) -> Starlette:
    """Build the ASGI application that answers at ``/mcp``, ``/health`` and ``/``."""
    server.custom_route("/health", methods=["GET"])(partial(health, server.handle))
    server.custom_route("/", methods=["GET"])(describe)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=http.http_max_request_mb * 1024 * 1024,
        session_idle_timeout=600,  # seconds; the SDK keeps 10,000 sessions for all callers together
        transport_security=TransportSecuritySettings(
            allowed_hosts=host_patterns(http, address), allowed_origins=origin_patterns(http, address)
        ),
    )
    # The middleware added last sees a request first.
    app.add_middleware(ReadableRefusals, limit_mb=http.http_max_request_mb)
    if http.http_allowed_origins:
        # A browser first asks what it may send, without a token.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=http.http_allowed_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
        )
    return app


def host_patterns(http: HttpSettings, address: Address) -> list[str]:
    """Return the allowed Host headers: this server's names. This refuses DNS rebinding by other pages."""
    names = [*http.http_allowed_hosts, *LOOPBACK_NAMES]
    if http.http_oauth_resource:
        names.append(urlsplit(http.http_oauth_resource).netloc.lower())
    names.append(socket.gethostname().lower() if address.is_wildcard else str(address).rpartition(":")[0])
    # With and without a port, unless the name includes one.
    return [form for name in dict.fromkeys(names) for form in (name, f"{name}:*")]


def origin_patterns(http: HttpSettings, address: Address) -> list[str]:
    """Return the allowed Origin headers: the configured pages, and on loopback those that this machine serves."""
    own = LOOPBACK_NAMES if address.is_loopback else ()
    return [*http.http_allowed_origins, *[f"http://{name}{port}" for name in own for port in ("", ":*")]]


async def health(handle: EngineHandle, _: Request) -> Response:
    """Tell load balancers whether the store can be read, without a word about what is indexed."""
    status, code = "ok", 200
    try:
        with anyio.fail_after(READY_SECONDS):
            await (await handle.get()).version()
    except (LeanRAGError, TimeoutError) as problem:
        logger.warning("Not ready: %s", str(problem) or "the store does not answer.")
        status, code = "unavailable", ENDING
    return JSONResponse({"status": status, "version": version("leanrag-mcp")}, code)


async def describe(_: Request) -> Response:
    """Describe the server at ``/`` without revealing what is indexed."""
    return JSONResponse(
        {
            "name": "leanrag-mcp",
            "what": f"An MCP server. Point an MCP client at {PATH}; a browser sees nothing more here.",
            "mcp": PATH,
            "health": "/health",
            "status": "ok",
            "version": version("leanrag-mcp"),
        }
    )


class ReadableRefusals:
    """Replaces the SDK's terse refusals with sentences in a JSON-RPC error; 503 while an issuer is down."""

    def __init__(self, app: ASGIApp, limit_mb: int) -> None:
        self.app = app
        self.limit_mb = limit_mb

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal: Response | None = None

        async def read(message: Message) -> None:
            nonlocal refusal
            ending = message.get("status") == ENDING and scope["path"] == PATH
            if message["type"] == "http.response.start" and (is_bare(message) or ending):
                refusal = self.explain(message["status"], Request(scope))
            if refusal is None:
                await send(message)

        try:
            await self.app(scope, receive, read)
        except IssuerUnavailable as problem:
            typer.echo(f"The OAuth issuer could not be reached to check a token: {problem}", err=True)
            words = "The authorization server cannot be reached to check the token. Try again later."
            error = {"error": "temporarily_unavailable", "error_description": words}
            refusal = JSONResponse(error, status_code=503, headers={"retry-after": "10"})
        except TooManyRequests as problem:
            refusal = refusal_response(TOO_MANY, str(problem))
            refusal.headers["retry-after"] = str(problem.retry_after)
        if refusal is not None:
            if refusal.status_code == TOO_LARGE:
                # Of a larger request, eight times the largest allowed is read and forgotten.
                await discard_body(receive, 8 * self.limit_mb * 1024 * 1024)
            await refusal(scope, receive, send)

    def explain(self, status: int, request: Request) -> Response | None:
        said = {
            TOO_LARGE: f"The request is larger than {self.limit_mb} MB, the maximum of this server. Send fewer documents "
            "at once, or their paths; the server's LEANRAG_HTTP_MAX_REQUEST_MB raises the limit.",
            MISDIRECTED: f"This server is not called {request.headers.get('host', '')!r}. If that is its name, start it "
            "with --http-allowed-host.",
            FORBIDDEN: f"Pages of {request.headers.get('origin', '')!r} may not call this server. To allow them, start it "
            "with --http-allowed-origin.",
            ENDING: "This server has as many open sessions as it takes. Try again in a few minutes, or use a client of "
            "the protocol of 2026, which needs none.",
        }.get(status)
        return refusal_response(status, said) if said else None


async def discard_body(receive: Receive, most: int) -> None:
    """Read the rest of a request's body, at most ``most`` bytes: a connection closed with unread bytes is
    reset, and its client may not see why."""
    with anyio.move_on_after(2):
        while most > 0:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                return
            most -= len(message.get("body", b""))


def is_bare(message: Message) -> bool:
    """Return whether a response is plain text for people: replies to programs are JSON or event streams."""
    kinds = [value for name, value in message["headers"] if name == b"content-type"]
    return not any(kind.startswith((b"application/json", b"text/event-stream")) for kind in kinds)


def refusal_response(status: int, text: str) -> Response:
    """Return a JSON-RPC error without a request id: the request was refused before it was read."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": text}}
    # The unread rest of the request must not be read as the next one.
    return JSONResponse(error, status_code=status, headers={"connection": "close"})
