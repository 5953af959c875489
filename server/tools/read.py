"""The tools that read: the one-shot query and the steps of a deeper search."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from mcp_types import CallToolResult
from pydantic import Field

from ..engine_handle import EngineHandle
from ..replies.base import parse_cursor
from ..replies.collections import CollectionsReply
from ..replies.graph import AncestorsReply, ClusterReply, RelationsReply, SearchReply
from ..replies.query import QueryReply
from ..replies.sources import OutlineReply, SourcesReply, TextSearchReply
from ..replies.status import StatusReply
from .arguments import (
    CollectionName,
    Cursor,
    EntityName,
    Filters,
    FiltersArgument,
    Limit,
    ResponseFormat,
    Strings,
)


class ReadTools:
    """Each method is one tool; its docstring is what the model reads."""

    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    async def query_lca_context(
        self,
        query: str,
        queries: Annotated[
            Strings, Field(description="Sub-questions, searched together", max_length=16)
        ] = [],
        entities: Annotated[Strings, Field(description="Names or refs to start from", max_length=50)] = [],
        mode: Annotated[
            Literal["lca", "local", "global", "naive"],
            Field(
                description="lca: paths in the hierarchy; local: neighbours; global: summaries; naive: passages"
            ),
        ] = "lca",
        ranking: Annotated[
            Literal["spread", "fused", "paper"], Field(description="How passages are ranked")
        ] = "spread",
        seeds: Annotated[int, Field(ge=1, le=100)] = 10,
        top_k: Annotated[int, Field(ge=1, le=100, description="Most passages")] = 10,
        token_budget: Annotated[int, Field(ge=100, le=32000, description="Of the context")] = 4000,
        filters: Filters = FiltersArgument(),
        include_relations: bool = True,
        include_sources: bool = True,
        response_format: ResponseFormat = "concise",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, QueryReply]:
        """Answer a question from the documents: the tool to try first. Finds the entities that the question is \
about, joins them through their lowest common ancestor in the hierarchy, and returns a cited context within \
token_budget: the best passages, how their topics are related, and what they belong to.
        Read `context` and cite its marks, e.g. [d3:c12]. `warnings` say what is degraded. For a question with \
several parts give each part in `queries`. If the context lacks the answer: other words, mode='naive' for plain \
passages, or search_entities to explore. get_sources gives the full passages."""
        from leanrag_engine.retrieval import request  # noqa: PLC0415 - heavy: only on the first call

        engine = await self._engine.get()
        result = await engine.query(
            request.Query(
                text=query,
                sub_queries=tuple(queries),
                entities=tuple(entities),
                mode=mode,
                ranking=ranking,
                seeds=seeds,
                top_k=top_k,
                token_budget=token_budget,
                filters=request.Filters(
                    documents=tuple(filters.documents),
                    metadata=filters.metadata,
                    since=filters.since or None,
                    until=filters.until or None,
                ),
                include_relations=include_relations,
                include_sources=include_sources,
                detailed=response_format == "detailed",
            ),
            collection=self._engine.collection(collection),
        )
        detailed = response_format == "detailed"
        return QueryReply.from_engine(result, engine.count_tokens, detailed=detailed).to_result()

    async def search_entities(
        self,
        query: str,
        layer: Annotated[int, Field(ge=-1, description="-1: all; 0: base; above: aggregated")] = -1,
        limit: Limit = 10,
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, SearchReply]:
        """Find entities by meaning and keyword. Layer 0 holds the names and terms of the documents, higher layers \
hold aggregated entities that stand for whole topics. Returns name, ref, type, layer and description of each, best \
first. Next: get_entity_ancestors with a name or ref, or query_lca_context with `entities`."""
        engine = await self._engine.get()
        offset = parse_cursor(cursor)
        page = await engine.search_entities(
            query,
            layer=None if layer < 0 else layer,
            offset=offset,
            limit=limit,
            collection=self._engine.collection(collection),
        )
        return SearchReply.from_engine(page, offset, engine.count_tokens).to_result()

    async def get_entity_ancestors(
        self,
        entity: EntityName,
        max_layers: Annotated[int, Field(ge=0, description="0: up to the root")] = 0,
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, AncestorsReply]:
        """Show what an entity belongs to: the chain from the entity up to the root, each step more abstract, with \
descriptions. An unknown or ambiguous name is an error that lists the nearest candidates with their refs. Next: \
list_inter_cluster_relations with one of the ancestors as `cluster`."""
        engine = await self._engine.get()
        chain = await engine.ancestors(
            entity, max_layers=max_layers, collection=self._engine.collection(collection)
        )
        return AncestorsReply.from_engine(chain).to_result()

    async def get_cluster(
        self,
        cluster: Annotated[str, Field(description="Name or ref of an aggregated entity")],
        limit: Limit = 20,
        cursor: Cursor = "",
        response_format: ResponseFormat = "concise",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, ClusterReply]:
        """Look into one topic: an aggregated entity with its description and findings, its members (one page, most \
mentioned first), its parent and its strongest relations to other topics. Next: get_cluster of a member or of the \
parent to go down or up, get_sources with entity=… for passages."""
        engine = await self._engine.get()
        offset = parse_cursor(cursor)
        view = await engine.cluster(
            cluster, offset=offset, limit=limit, collection=self._engine.collection(collection)
        )
        detailed = response_format == "detailed"
        return ClusterReply.from_engine(view, offset, engine.count_tokens, detailed=detailed).to_result()

    async def list_inter_cluster_relations(
        self,
        cluster: Annotated[str, Field(description="Name or ref of an aggregated entity; empty: all")] = "",
        layer: Annotated[int, Field(ge=-1, description="-1: all above 0")] = -1,
        min_strength: Annotated[int, Field(ge=0, le=10**9)] = 0,
        limit: Limit = 20,
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, RelationsReply]:
        """List how topics are related: the explicit relations between aggregated entities, strongest first. `strength` \
is λ, the number of relations of the layer below that join the two; `support` the base relations beneath; `method` \
how the text was made. Give `cluster` to see one topic's neighbours, or `layer` for a whole layer. Next: \
get_sources with entity=… for the passages, or query_lca_context."""
        engine = await self._engine.get()
        offset = parse_cursor(cursor)
        page = await engine.inter_cluster_relations(
            cluster=cluster or None,
            layer=None if layer < 0 else layer,
            min_strength=min_strength,
            offset=offset,
            limit=limit,
            collection=self._engine.collection(collection),
        )
        return RelationsReply.from_engine(page, offset, engine.count_tokens).to_result()

    async def get_sources(
        self,
        citations: Annotated[Strings, Field(description="d3:c12, or ranges d3:c10-c14", max_length=50)] = [],
        neighbours: Annotated[int, Field(ge=0, le=50, description="Passages around each citation")] = 0,
        document: Annotated[str, Field(description="Instead of citations: id, title or d3")] = "",
        section: Annotated[str, Field(description="Heading within it")] = "",
        entity: Annotated[str, Field(description="Instead: name or ref")] = "",
        token_budget: Annotated[int, Field(ge=100, le=20_000)] = 4000,
        limit: Limit = 100,
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, SourcesReply]:
        """Read passages in full: behind citations and around them, of a document or one section of it in reading \
order, or those that mention an entity. Returns as many as token_budget holds; next_cursor reads on."""
        engine = await self._engine.get()
        offset = parse_cursor(cursor)
        page = await engine.sources(
            citations,
            entity,
            document,
            section=section,
            neighbours=neighbours,
            offset=offset,
            limit=limit,
            collection=self._engine.collection(collection),
        )
        return SourcesReply.from_engine(page, offset, engine.count_tokens, token_budget).to_result()

    async def get_outline(
        self,
        document: Annotated[str, Field(description="id, title or number (d3)")],
        section: Annotated[str, Field(description="Only what is below this heading")] = "",
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, OutlineReply]:
        """Show the headings of a document with their citations and sizes in tokens, to choose what to read."""
        engine = await self._engine.get()
        offset = parse_cursor(cursor)
        outline = await engine.outline(document, section, collection=self._engine.collection(collection))
        return OutlineReply.from_engine(outline, offset, engine.count_tokens).to_result()

    async def search_text(
        self,
        text: Annotated[str, Field(description="Words or sentence; any white space and quote style")],
        pattern: Annotated[bool, Field(description="text is a regular expression")] = False,
        documents: Annotated[Strings, Field(description="Only these: ids, titles, numbers (d3)")] = [],
        limit: Limit = 20,
        cursor: Cursor = "",
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, TextSearchReply]:
        """Find exact text in the documents, whatever its case, or a pattern: to check whether a quotation stands \
there verbatim, to find a name, number or code, or to count. Returns every match in reading order with its citation \
and the words around it. For meaning use query_lca_context."""
        engine = await self._engine.get()
        offset = parse_cursor(cursor)
        found = await engine.search_text(
            text,
            pattern=pattern,
            documents=documents,
            offset=offset,
            limit=limit,
            collection=self._engine.collection(collection),
        )
        return TextSearchReply.from_engine(found, offset, engine.count_tokens).to_result()

    async def get_index_status(
        self, collection: CollectionName = "default"
    ) -> Annotated[CallToolResult, StatusReply]:
        """Show what is indexed: documents, chunks, layers with their sizes, whether a build is missing or stale, how \
the extracts were made, recent jobs and failures, who is writing. Call it first when unsure; next_step says what \
to do."""
        engine = await self._engine.get()
        collection = self._engine.collection(collection)
        status = await engine.status(collection)
        if self._engine.fixed:
            # A server for one collection does not reveal the others in its data folder.
            only = tuple(each for each in status.collections if each == collection)
            status = replace(status, collections=only)
        return StatusReply.from_engine(status, read_only=self._engine.settings.read_only).to_result()

    async def list_collections(
        self,
        limit: Limit = 20,
        cursor: Cursor = "",
        collection: Annotated[str, Field(description="Whose documents are listed")] = "default",
    ) -> Annotated[CallToolResult, CollectionsReply]:
        """List collections with counts, embedder, how summaries were made and age, and the documents of \
one of them (a page): id, number, title, chunks. Use it to choose a collection, or to find a document's id for \
`filters`, get_sources or delete_documents. Next: get_index_status or query_lca_context."""
        engine = await self._engine.get()
        selected, offset = self._engine.collection(collection), parse_cursor(cursor)
        collections = await engine.collections()
        visible = [each for each in collections if each.name == selected or not self._engine.fixed]
        # A missing `default` is no error: it is the argument's default, not the caller's choice.
        is_listed = selected != "default" or selected in [each.name for each in collections]
        documents = await engine.documents(collection=selected) if collections and is_listed else []
        return CollectionsReply.from_engine(
            visible, selected, documents, offset, limit, engine.count_tokens
        ).to_result()
