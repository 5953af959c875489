"""``leanrag explore``: the layers, entities and documents of a collection on a page in the browser."""

from __future__ import annotations

from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import CollectionOption, DataDir, report_errors
from ..running import read_settings, run

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

HOST = "127.0.0.1"


def explore(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write the page with all its data to this file instead, to send or keep; questions need the server.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    data_dir: DataDir = None,
    collection: CollectionOption = None,
) -> None:
    """Explore the layers from the root down in a browser: clusters, entities with their sources, documents, questions.

    The page is served to this machine alone, at an address with a token, until Ctrl-C. It only reads.

    Example: `leanrag explore`, or `leanrag explore --out notes.html`
    """
    settings = read_settings(data_dir, collection, read_only=True)
    chosen = settings.collection

    async def prepare(engine: LeanRAG) -> None:
        nonlocal chosen
        if collection is None:
            chosen = await engine.choose_collection(settings.collection)
        await engine.root(collection=chosen)
        if out is not None:
            from ...explorer.page import write_page  # noqa: PLC0415 - only with --out

            size = await write_page(engine, chosen, out.expanduser())
            typer.echo(f"Wrote {chosen} to {out} ({size / 1e6:.1f} MB). A browser opens it without a server.")

    # Before the server starts, so that what is missing is an error of this command.
    run(settings, prepare)
    if out is not None:
        return
    from ...engine_handle import EngineHandle  # noqa: PLC0415 - heavy
    from ...explorer.routes import explorer_app  # noqa: PLC0415 - heavy
    from ...http.serving import listening, serve_app  # noqa: PLC0415 - heavy
    from ...http.settings import Address, load_http_settings  # noqa: PLC0415 - heavy

    with report_errors():
        http = load_http_settings()
        with listening(Address(HOST, port)) as bound:
            token = token_urlsafe()
            url = f"http://{HOST}:{bound.getsockname()[1]}/explore/{token}/"
            typer.echo(f"Explore {chosen} at {url} (Ctrl-C stops it)", err=True)
            if not no_open:
                typer.launch(url)
            handle = EngineHandle(settings)
            serve_app(explorer_app(handle, chosen, token), handle, bound, http, "warning")
