"""Resources: what is indexed, as Markdown at ``leanrag://collections`` and ``leanrag://COLLECTION/…``, as tools return it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property, wraps
from importlib.resources import files
from typing import TYPE_CHECKING

from mcp.server.apps import Apps
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp_types import CallToolResult, TextContent

from leanrag_engine.core.errors import Ambiguous, InvalidInput, LeanRAGError, NotFound, NotReady

from ..engine_handle import EngineHandle
from ..replies.errors import Offered, plain, without_steps
from ..tools.toolsets import ANSWER_APP

if TYPE_CHECKING:
    from ..tools.read import ReadTools

MARKDOWN = "text/markdown"

# Document ids may be paths, and names contain any character. No file is read by these parameters.
ANY_NAME = ResourceSecurity(exempt_params=frozenset({"collection", "entity", "cluster", "document"}))


class Resources:
    """Each method returns the text of one kind of resource, that of the corresponding tool."""

    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    @cached_property
    def _tools(self) -> ReadTools:
        from ..tools.read import ReadTools  # noqa: PLC0415 - the start must not wait for it

        return ReadTools(self._engine)

    async def collections(self) -> str:
        """List every collection with its counts, models and age."""
        return text_of(await self._tools.list_collections(collection=self._engine.settings.collection))

    async def documents(self, collection: str) -> str:
        """List the folders and documents of a collection, the first page of them."""
        return text_of(await self._tools.get_outline(collection=collection))

    async def hierarchy(self, collection: str) -> str:
        """Show the layers of a collection, and its topics from the root down two layers."""
        engine = await self._engine.get()
        status = text_of(await self._tools.get_index_status(collection=collection))
        root = await engine.root(collection=collection)
        topics = text_of(await self._tools.get_cluster(root.id, limit=30, collection=collection))
        return f"{status}\n\n{topics}"

    async def entity(self, collection: str, entity: str) -> str:
        """Show what an entity is, what it belongs to up to the root, and where it is mentioned."""
        chain = text_of(await self._tools.get_entity_ancestors(entity, collection=collection))
        sources = text_of(await self._tools.get_sources(entity=entity, limit=3, collection=collection))
        return f"{chain}\n\n{sources}"

    async def cluster(self, collection: str, cluster: str) -> str:
        """Show a topic: its summary, findings, members and relations."""
        return text_of(await self._tools.get_cluster(cluster, limit=50, collection=collection))

    async def document(self, collection: str, document: str) -> str:
        """Show the passages of a document (id, title, file name or number such as d3) in reading order."""
        return text_of(await self._tools.get_sources(document=document, collection=collection))

    async def chunk(self, collection: str, citation: str) -> str:
        """Show one passage by its citation, such as d3:c12."""
        return text_of(await self._tools.get_sources([citation], collection=collection))


def check_collection(handle: EngineHandle, collection: str) -> str:
    """Return the collection of an address. Raises ``NotFound`` if the caller does not see it."""
    if handle.fixed and collection != handle.settings.collection:
        raise NotFound(
            f"There is no collection {collection!r} here.",
            f"This server serves {handle.settings.collection!r} alone.",
        )
    return handle.collection(collection)


def add_resources(server: MCPServer[None], handle: EngineHandle, offered: Offered) -> None:
    """Register all resources if this server offers the tools that read."""
    if "get_sources" not in offered.tools:
        return
    kinds = Resources(handle)
    for address, method, title in (
        ("leanrag://collections", kinds.collections, "Collections"),
        ("leanrag://{collection}/documents", kinds.documents, "Documents"),
        ("leanrag://{collection}/hierarchy", kinds.hierarchy, "Hierarchy"),
        ("leanrag://{collection}/entity/{entity}", kinds.entity, "Entity"),
        ("leanrag://{collection}/cluster/{cluster}", kinds.cluster, "Cluster"),
        ("leanrag://{collection}/document/{document}", kinds.document, "Document"),
        ("leanrag://{collection}/chunk/{citation}", kinds.chunk, "Passage"),
    ):
        register = server.resource(
            address,
            name=method.__name__,
            title=title,
            description=method.__doc__,
            mime_type=MARKDOWN,
            security=ANY_NAME,
        )
        register(explain_errors(method, handle, offered))


def explain_errors(
    method: Callable[..., Awaitable[str]], handle: EngineHandle, offered: Offered
) -> Callable[..., Awaitable[str]]:
    """Wrap ``method``: it gets a collection that the caller sees, and its errors become the protocol's, with messages to act on."""

    @wraps(method)
    async def read(**parameters: str) -> str:
        try:
            if "collection" in parameters:
                parameters["collection"] = check_collection(handle, parameters["collection"])
            return await method(**parameters)
        except (NotFound, Ambiguous, InvalidInput, NotReady) as problem:
            raise ResourceNotFoundError(plain(offered.problem(handle.hide_collections(problem)))) from problem
        except LeanRAGError as problem:
            raise ResourceError(plain(str(problem))) from problem

    return read


def text_of(result: CallToolResult) -> str:
    """Return the text of a tool's reply without its lines about the next call."""
    return without_steps("\n".join(block.text for block in result.content if isinstance(block, TextContent)))


def create_apps() -> Apps:
    """Return the extension with the page of an answer."""
    apps = Apps()
    apps.add_html_resource(
        ANSWER_APP,
        files(__package__).joinpath("answer_app.html").read_text(encoding="utf-8"),
        name="answer_app",
        title="Answer drawn",
        description="The page that shows an answer of query_lca_context inside the chat: the evidence, and beneath it the seeds and what joins them.",
        prefers_border=True,
    )
    return apps
