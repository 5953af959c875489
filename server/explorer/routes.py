"""The explorer's web application: its page and what the page asks for, all below an address with a token. Nothing writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hmac import compare_digest
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leanrag_engine.core.errors import InvalidInput, LeanRAGError, NotFound
from leanrag_engine.retrieval.request import Query

from ..engine_handle import EngineHandle
from . import data
from .page import MEDIA_TYPES, read_file

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page runs our own files alone: no script from data, nothing from elsewhere."""

HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}

PAGE_SIZE, LARGEST_PAGE = 20, 2000


class Guard:
    """Lets requests pass whose path begins with ``/explore/TOKEN/``, and adds the headers to every response."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self.token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS.items()]
            await send(message)

        parts = scope["path"].encode().split(b"/")
        given = parts[2] if parts[1:2] == [b"explore"] and len(parts) > 2 else b""  # noqa: PLR2004
        if compare_digest(given, self.token):
            await self.app(scope, receive, send_with_headers)
        else:
            refusal = _refusal(
                "Open the whole address that `leanrag explore` printed: it holds a token.", 403
            )
            await refusal(scope, receive, send_with_headers)


class Explorer:
    """What the page asks for: each method returns a value for JSON, read from ``collection``."""

    def __init__(self, collection: str) -> None:
        self._collection = collection

    async def tree(self, engine: LeanRAG, _: Request) -> object:
        return data.describe_tree(self._collection, await engine.entity_heads(collection=self._collection))

    async def links(self, engine: LeanRAG, request: Request) -> object:
        limit = _number(request, "limit", PAGE_SIZE)
        if cluster := request.query_params.get("cluster", ""):
            among = await engine.relations_within(cluster, limit=limit, collection=self._collection)
            return data.describe_links(among)
        page = await engine.inter_cluster_relations(
            layer=_number(request, "layer", 1), limit=limit, collection=self._collection
        )
        return data.describe_links(page.relations)

    async def entity(self, engine: LeanRAG, request: Request) -> object:
        return await data.load_entity(engine, request.query_params.get("ref", ""), self._collection)

    async def search(self, engine: LeanRAG, request: Request) -> object:
        """Return entities, and which of them have the text in their name or an alias."""
        text = request.query_params.get("text", "")
        page = await engine.search_entities(
            text,
            offset=_number(request, "offset", 0),
            limit=_number(request, "limit", PAGE_SIZE),
            collection=self._collection,
        )
        names = {seed.entity.id: (seed.entity.name, *seed.entity.aliases) for seed in page.found}
        named = [ref for ref, known in names.items() if text.casefold() in "\n".join(known).casefold()]
        return {"refs": [*names], "named": named, "total": page.total}

    async def passages(self, engine: LeanRAG, request: Request) -> object:
        citation = request.query_params.get("citation", "")
        page = await engine.sources(
            [citation] if citation else (),
            document=request.query_params.get("document", ""),
            neighbours=_number(request, "neighbours", 0) if citation else 0,
            offset=_number(request, "offset", 0),
            limit=_number(request, "limit", PAGE_SIZE),
            collection=self._collection,
        )
        return {"passages": [data.describe_passage(each) for each in page.chunks], "total": page.total}

    async def documents(self, engine: LeanRAG, _: Request) -> object:
        found = await engine.documents(collection=self._collection)
        return [data.describe_document(each) for each in found]

    async def history(self, engine: LeanRAG, _: Request) -> object:
        return [data.describe_history(each) for each in await engine.history(collection=self._collection)]

    async def suggestions(self, engine: LeanRAG, _: Request) -> object:
        """Return questions. Each was tried, so that the embedder is loaded when they arrive."""
        return await engine.suggest_questions(3, collection=self._collection)

    async def answer(self, engine: LeanRAG, request: Request) -> object:
        asked = Query(text=request.query_params.get("question", ""))
        result = await engine.query(asked, collection=self._collection)
        return data.describe_answer(result, engine.count_tokens)


def explorer_app(handle: EngineHandle, collection: str, token: str) -> Starlette:
    """Build the application. It closes the engine of ``handle`` when it stops."""

    @asynccontextmanager
    async def close_engine(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await handle.close()

    explorer = Explorer(collection)

    def answering(name: str) -> Route:
        async def respond(request: Request) -> Response:
            return JSONResponse(await getattr(explorer, name)(await handle.get(), request))

        return Route(f"/data/{name}", respond, methods=["GET"])

    asked = ("tree", "links", "entity", "search", "passages", "documents", "history", "suggestions", "answer")
    routes = [*map(answering, asked), Route("/{name:path}", _send_file, methods=["GET"])]
    return Starlette(
        routes=[Mount("/explore/{token}", routes=routes)],
        middleware=[
            Middleware(Guard, token=token),
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
        ],
        exception_handlers={LeanRAGError: _explain},
        lifespan=close_engine,
    )


async def _send_file(request: Request) -> Response:
    name = request.path_params["name"] or "index.html"
    return Response(read_file(name), media_type=MEDIA_TYPES[name.rpartition(".")[2]])


async def _explain(_: Request, problem: Exception) -> Response:
    return _refusal(str(problem), 404 if isinstance(problem, NotFound) else 400)


def _refusal(text: str, status: int) -> Response:
    return JSONResponse({"error": text}, status_code=status)


def _number(request: Request, name: str, default: int) -> int:
    """Return a number of the query string. Raises ``InvalidInput`` if it is none, or larger than a page may be."""
    given = request.query_params.get(name, str(default))
    most = 10**15 if name == "offset" else LARGEST_PAGE
    if given.isascii() and given.isdigit() and len(given) <= len(str(most)) and int(given) <= most:
        return int(given)
    raise InvalidInput(f"{name}={given[:30]!r} is no number up to {most}.", "Give a smaller one, from 0 on.")
