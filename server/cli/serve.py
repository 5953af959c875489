"""``leanrag serve``: the MCP server over standard input and output, or HTTP."""

import logging
import os
import platform
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from leanrag_engine.core.config import Settings

from ..protocol.telemetry import start_telemetry_if_asked
from .options import CollectionOption, DataDir, ReadOnly, report_errors, setting
from .running import read_settings

WAITING = (
    "This is an MCP server: it waits for a client on standard input. A client starts it by itself; "
    "`leanrag setup FOLDER` or `leanrag install CLIENT` tells it how. Ctrl-C stops it."
)


def serve(
    data_dir: DataDir = None,
    database_url: Annotated[
        str | None,
        setting(
            "DATABASE_URL",
            "PostgreSQL database that replaces the SQLite file: postgresql://user@host/name. A password is safer in the "
            "environment.",
        ),
    ] = None,
    chroma_url: Annotated[
        str | None, setting("CHROMA_URL", "Chroma server that keeps the vectors: http://host:8000.")
    ] = None,
    dask: Annotated[
        str | None, setting("DASK", "Dask scheduler whose workers read documents: tcp://host:8786.")
    ] = None,
    allow_dir: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder beneath which documents may be read; repeatable. Without one no path is read."
        ),
    ] = None,
    collection: CollectionOption = None,
    read_only: ReadOnly = False,
    toolsets: Annotated[
        str | None,
        typer.Option(
            help="Which tools are offered, separated by commas.",
            envvar="LEANRAG_TOOLSETS",
            show_default="read,manage,agent",
        ),
    ] = None,
    http: Annotated[
        str | None,
        setting(
            "HTTP",
            "Serve streamable HTTP at this address, path /mcp, instead of standard input and output.",
            metavar="HOST:PORT",
        ),
    ] = None,
    http_token_file: Annotated[
        Path | None,
        setting(
            "HTTP_TOKEN_FILE", "File with the bearer token that clients must send; or set LEANRAG_HTTP_TOKEN."
        ),
    ] = None,
    http_allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A name under which clients reach the server, such as rag.example; repeatable.",
            show_default=False,
        ),
    ] = None,
    http_allowed_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="A web page that may call the server, such as https://app.example; repeatable.",
            show_default=False,
        ),
    ] = None,
    log_level: Annotated[
        Literal["error", "warning", "info"],
        typer.Option(
            help="What goes to standard error; info: each request and tool call, without any text of them."
        ),
    ] = "warning",
) -> None:
    """Run the MCP server. An MCP client starts it over standard input and output; `leanrag install CLIENT` sets it up.

    One server for several clients: `leanrag serve --http 127.0.0.1:8000` is open to all programs on this machine.
    To be reachable from elsewhere it needs a token, `LEANRAG_HTTP_TOKEN=... leanrag serve --http 0.0.0.0:8000
    --http-allowed-host rag.example`, or an OAuth issuer (the `LEANRAG_HTTP_OAUTH_...` variables in .docs/settings.md);
    it uses plain HTTP, so put a proxy with TLS in front of it. `/health` answers without a token.
    """
    from ..http.settings import load_http_settings  # noqa: PLC0415 - the other commands serve nothing
    from ..tools.toolsets import ALL_TOOLS  # noqa: PLC0415 - the other commands have no tools

    limit_arenas()
    with report_errors():
        http_settings = load_http_settings(
            http=http,
            http_token_file=http_token_file,
            http_allowed_hosts=tuple(http_allowed_host) if http_allowed_host else None,
            http_allowed_origins=tuple(http_allowed_origin) if http_allowed_origin else None,
        )
    settings = read_settings(
        data_dir,
        collection,
        database_url=database_url,
        chroma_url=chroma_url,
        dask=dask,
        allow_dirs=tuple(allow_dir) if allow_dir else None,
        read_only=read_only or None,
        toolsets=toolsets,
    )
    for folder in settings.allow_dirs:
        if not folder.expanduser().is_dir():
            typer.echo(f"Warning: the allowed folder {folder} does not exist.", err=True)
    with report_errors():
        start_telemetry_if_asked(settings.telemetry, ALL_TOOLS)
    if not http_settings.http:
        run_stdio(settings, log_level)
        return
    from ..http.serving import run_http  # noqa: PLC0415 - stdio must not wait for a web server

    with report_errors():
        set_log_level(log_level)
        run_http(settings, http_settings, log_level)


def limit_arenas(count: int = 2) -> None:
    """Have all threads allocate from ``count`` of glibc's arenas, unless the environment says how many,
    before the first thread is started. Measured with 16 clients after 2,500 calls: 323 MB with two arenas,
    393 without a limit, in the same time; one held no less."""
    environment = os.environ
    if "MALLOC_ARENA_MAX" in environment or "malloc.arena_max" in environment.get("GLIBC_TUNABLES", ""):
        return
    if platform.libc_ver()[0] != "glibc":
        return
    import ctypes  # noqa: PLC0415 - other systems do not need it

    arena_max = -8  # M_ARENA_MAX in malloc.h
    ctypes.CDLL(None).mallopt(arena_max, count)


def run_stdio(settings: Settings, log_level: str) -> None:
    """Serve one client over standard input and output until it closes them."""
    from ..app import create_server  # noqa: PLC0415 - the other commands need no MCP server

    if sys.stdin.isatty():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the SDK waits in a thread that no interrupt ends
        typer.echo(WAITING, err=True)
    server = create_server(settings)
    set_log_level(log_level)
    server.run("stdio")


def set_log_level(level: str) -> None:
    if not sys.stderr.isatty():  # the SDK's lines are made for a terminal, 80 columns wide
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr, force=True)
    for package in ("leanrag_mcp", "leanrag_engine"):
        logging.getLogger(package).setLevel(level.upper())
