"""The tools that read: the one-shot query and the steps of a deeper search."""

from dataclasses import replace
from typing import Annotated, Literal

from mcp.server.apps import client_supports_apps
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field

from leanrag_engine.retrieval.request import Query

from ..replies.base import parse_cursor
from ..replies.changes import HistoryReply
from ..replies.graph import AncestorsReply, ClusterReply, RelationsReply, SearchReply
from ..replies.query import AnswerReply, QueryReply
from ..replies.sources import OutlineReply, ReadingCursor, SourcesReply, TextSearchReply
from ..replies.state.collections import CollectionsReply
from ..replies.state.status import StatusReply
from .arguments import (
    CollectionName,
    Cursor,
    EntityName,
    Filters,
    FiltersAgain,
    FiltersArgument,
    Limit,
    ResponseFormat,
    Strings,
    Text,
    ToolGroup,
)

DRAWING = "leanrag/drawing"
"""The key of an answer's drawing in the metadata of its result, which no model reads; in those of a call: draw."""


def shows_drawings(context: Context) -> bool:
    """Return whether the client shows MCP Apps, or the call comes from our page in a client that does without saying so."""
    try:
        asked = context.request_context.meta or {}
    except ValueError:  # called from code, without a client
        return False
    return client_supports_apps(context) or DRAWING in asked


class ReadTools(ToolGroup):
    async def query_lca_context(
        self,
        query: str,
        queries: Annotated[
            Strings, Field(description="Parts of it, or things to compare", max_length=16)
        ] = [],
        entities: Annotated[Strings, Field(description="Names or refs to start from", max_length=50)] = [],
        seen: Annotated[Strings, Field(description="Citations already read", max_length=1000)] = [],
        mode: Annotated[
            Literal["lca", "local", "global", "naive"],
            Field(
                description="local: facts around entities; global: overview of everything; naive: plain passages"
            ),
        ] = "lca",
        ranking: Annotated[
            Literal["spread", "paper"], Field(description="paper: graph first, as in LeanRAG")
        ] = "spread",
        seeds: Annotated[int, Field(ge=1, le=100)] = 5,
        top_k: Annotated[int, Field(ge=1, le=100, description="Most sources")] = 10,
        token_budget: Annotated[int, Field(le=32000, description="0: auto")] = 0,
        filters: Filters = FiltersArgument(),
        include_relations: bool = True,
        include_sources: bool = True,
        response_format: ResponseFormat = "concise",
        collection: CollectionName = "default",
        *,
        context: Context,
    ) -> Annotated[CallToolResult, QueryReply]:
        """Answer a question from the documents; try this first. Returns within token_budget the best passages and \
what links them, each cited like [d3:c12]; cite these marks. If something is missing: other words, search_text, \
get_sources."""
        engine, chosen = await self._open(collection)
        asked = Query(
            text=query,
            sub_queries=tuple(queries),
            entities=tuple(entities),
            seen=tuple(seen),
            mode=mode,
            ranking=ranking,
            seeds=seeds,
            top_k=top_k,
            token_budget=token_budget,
            filters=filters.to_engine(),
            include_relations=include_relations,
            detailed=response_format == "detailed",
        )
        notes = self._engine.explain_choice(collection, chosen)
        result = await engine.query(asked, collection=chosen, notes=notes)
        reply = QueryReply.from_engine(result, engine.count_tokens, detailed=asked.detailed)
        answer = (reply if include_sources else reply.model_copy(update={"sources": []})).to_result()
        if not shows_drawings(context):
            return answer
        from ..replies.drawing.page import draw_for_chat  # noqa: PLC0415 - only for hosts with MCP Apps

        return answer.model_copy(update={"meta": {DRAWING: draw_for_chat(result, engine.count_tokens)}})

    async def answer_question(
        self,
        question: Annotated[str, Field(min_length=1, max_length=10_000)],
        strategy: Annotated[
            Literal["one_shot", "iterative", "global"],
            Field(
                description="iterative: divide the question, retrieve, say what is missing, retrieve that; slower. "
                "global: read the summaries of all documents page by page, with a budget of 16,000 or more"
            ),
        ] = "one_shot",
        rounds: Annotated[int, Field(ge=2, le=8, description="Most rounds of iterative")] = 4,
        open: Annotated[bool, Field(description="Let the model add what it knows; else it declines")] = False,
        token_budget: Annotated[int, Field(ge=200, le=32_000, description="Of all evidence")] = 4000,
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, AnswerReply]:
        """Answer a question from the documents with the server's own model: retrieves the evidence, writes an \
answer with citations, and checks each citation against the evidence. Use query_lca_context to see the \
evidence and reason yourself. Returns the answer, its sources, and `sufficient`: false \
where the evidence does not settle the question. Next: get_sources to read what is cited."""
        engine, named = await self._open(collection)
        answered = await engine.answer(
            question,
            token_budget=token_budget,
            rounds=rounds if strategy == "iterative" else 1,
            mode="global" if strategy == "global" else "lca",
            open_mode=open,
            collection=named,
        )
        return AnswerReply.from_engine(answered).to_result()

    async def search_entities(
        self,
        query: str,
        layer: Annotated[int, Field(ge=-1, description="-1: all")] = -1,
        limit: Limit = 10,
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, SearchReply]:
        """Find names and terms (layer 0) and topics (higher layers) by meaning and keyword; every tool takes their refs."""
        engine, named = await self._open(collection)
        offset = parse_cursor(cursor)
        page = await engine.search_entities(
            query, layer=None if layer < 0 else layer, offset=offset, limit=limit, collection=named
        )
        return SearchReply.from_engine(page, offset, engine.count_tokens).to_result()

    async def get_entity_ancestors(
        self,
        entity: EntityName,
        query: str = "",
        max_layers: Annotated[int, Field(ge=0, description="0: all")] = 0,
        hops: Annotated[int, Field(ge=0, le=3)] = 0,
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, AncestorsReply]:
        """Show the topics above an entity, and what is within `hops` relations, cited."""
        engine, named = await self._open(collection)
        chain = await engine.ancestors(entity, max_layers=max_layers, collection=named)
        found = await engine.find_passages(query, collection=named) if query else None
        near = (
            await engine.neighbourhood(chain[0].id, hops=hops, found=found, collection=named) if hops else []
        )
        second = await engine.second_cluster(chain[0].id, collection=named)
        return AncestorsReply.from_engine(chain, near, found, second).to_result()

    async def get_cluster(
        self,
        cluster: EntityName = "",
        query: Annotated[str, Field(description="Ranks all by passages found beneath")] = "",
        limit: Limit = 20,
        cursor: Cursor = "",
        response_format: ResponseFormat = "concise",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, ClusterReply]:
        """Show a topic (default: the root): description, findings, members, parent, relations."""
        engine, named = await self._open(collection)
        offset = parse_cursor(cursor)
        cluster = cluster or (await engine.root(collection=named)).id
        found = await engine.find_passages(query, collection=named) if query else None
        view = await engine.cluster(cluster, offset=offset, limit=limit, found=found, collection=named)
        detailed = response_format == "detailed"
        return ClusterReply.from_engine(view, offset, engine.count_tokens, detailed=detailed).to_result()

    async def list_inter_cluster_relations(
        self,
        cluster: EntityName = "",
        query: str = "",
        layer: Annotated[int, Field(ge=-1, description="-1: all above 0")] = -1,
        min_strength: Annotated[int, Field(ge=0, le=10**9)] = 0,
        limit: Limit = 20,
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, RelationsReply]:
        """List relations of topics, or of `cluster`, strongest first (relations one layer below)."""
        engine, named = await self._open(collection)
        offset = parse_cursor(cursor)
        found = await engine.find_passages(query, collection=named) if query else None
        page = await engine.inter_cluster_relations(
            cluster=cluster or None,
            layer=None if layer < 0 else layer,
            min_strength=min_strength,
            offset=offset,
            limit=limit,
            found=found,
            collection=named,
        )
        return RelationsReply.from_engine(page, offset, engine.count_tokens, found).to_result()

    async def get_sources(
        self,
        citations: Annotated[Strings, Field(description="d3:c12 or d3:c10-c14", max_length=50)] = [],
        neighbours: Annotated[int, Field(ge=0, le=50, description="Passages before and after each")] = 0,
        document: Annotated[str, Field(description="Instead: id, title or d3")] = "",
        section: Annotated[Strings, Field(description="Its headings", max_length=50)] = [],
        entity: Annotated[str, Field(description="Instead: name or ref; A — B: their relation")] = "",
        query: Annotated[str, Field(description="Ranks them")] = "",
        token_budget: Annotated[int, Field(ge=200, le=20_000)] = 4000,
        limit: Limit = 100,
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, SourcesReply]:
        """Read passages in full: around citations, of a document or section, or what supports each sentence of an \
entity or relation."""
        engine, named = await self._open(collection)
        begin = ReadingCursor.parse(cursor)
        page = await engine.sources(
            citations,
            entity,
            document,
            sections=[each for each in section if each],
            question=query,
            neighbours=neighbours,
            offset=begin.place,
            limit=limit,
            collection=named,
        )
        return SourcesReply.from_engine(page, begin, engine.count_tokens, token_budget).to_result()

    async def get_outline(
        self,
        document: Annotated[str, Field(description="id, title or d3; folder/")] = "",
        section: str = "",
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, OutlineReply]:
        """Show folders and documents, or a document's headings, with dates, citations and tokens."""
        engine, named = await self._open(collection)
        offset = parse_cursor(cursor)
        if not document or document.endswith("/"):
            folder = await engine.folder(document, collection=named)
            return OutlineReply.from_folder(folder, named, offset, engine.count_tokens).to_result()
        outline = await engine.outline(document, section, collection=named)
        return OutlineReply.from_engine(outline, offset, engine.count_tokens).to_result()

    async def search_text(
        self,
        text: str,
        match: Annotated[
            Literal["exact", "pattern", "topic"],
            Field(description="pattern: regular expression; topic: all on it (a|b: either)"),
        ] = "exact",
        by_document: bool = False,
        by_date: bool = False,
        filters: FiltersAgain = FiltersArgument(),
        limit: Limit = 20,
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, TextSearchReply]:
        """Find a quotation, name, number or code word for word, or list and count all on a topic."""
        engine, named = await self._open(collection)
        offset = parse_cursor(cursor)
        found = await engine.search_text(
            text,
            match=match,
            by_document=by_document,
            by_date=by_date,
            filters=filters.to_engine(),
            offset=offset,
            limit=limit,
            collection=named,
        )
        return TextSearchReply.from_engine(found, offset, engine.count_tokens).to_result()

    async def get_index_status(
        self, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, StatusReply]:
        """Show what is indexed: counts, layers, health, jobs, what is stale or missing, corrections."""
        engine = await self._engine.get()
        collection = await self._engine.choose(collection, strict=False)
        status = await engine.status(collection)
        status = replace(status, collections=tuple(filter(self._engine.sees, status.collections)))
        return StatusReply.from_engine(status, read_only=self._engine.settings.read_only).to_result()

    async def get_history(
        self,
        since: Annotated[Text, Field(description="Generation or ISO date")] = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, HistoryReply]:
        """Show what changed since a build (default: last but one) or date, and what builds cost."""
        engine, named = await self._open(collection)
        changes = await engine.changes(since, collection=named)
        entries = await engine.history(collection=named)
        return HistoryReply.from_engine(changes, entries, engine.count_tokens).to_result()

    async def list_collections(
        self, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, CollectionsReply]:
        """List the collections, with counts and state."""
        engine = await self._engine.get()
        # A caller who sees several collections may name none of them to see which there are.
        unnamed = collection == "default" and self._engine.sees_several_others
        selected = "default" if unnamed else await self._engine.choose(collection, strict=False)
        visible = [each for each in await engine.collections() if self._engine.sees(each.name)]
        if selected not in [each.name for each in visible] and selected != "default":
            await engine.documents(collection=selected)  # raises, with the names that are like it
        return CollectionsReply.from_engine(visible, selected, engine.count_tokens).to_result()
