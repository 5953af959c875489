"""From the engine's nouns to the published models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leanrag_engine.errors import InvalidInput

from .replies import (
    Ancestor,
    AncestorsReply,
    ClusterReply,
    EntityCard,
    Finding,
    GroupCard,
    JobCard,
    LayerCard,
    LcaCard,
    Member,
    NamedRef,
    PathStep,
    QueryReply,
    RelationCard,
    RelationsReply,
    SearchReply,
    SeedCard,
    SourceCard,
    SourcesReply,
    SourceText,
    StatusReply,
)

if TYPE_CHECKING:
    from leanrag_engine.engine import EntityPage, RelationPage, Status
    from leanrag_engine.model import Chunk, Entity, Group, Relation
    from leanrag_engine.retrieval.browsing import ClusterView
    from leanrag_engine.retrieval.querying import QueryResult

BRIEF = 240
"""Characters of a description in a concise reply."""

GLIMPSE = 80
"""Characters of what a concise answer repeats from its context: enough to recognise it."""

CONCISE_RELATIONS = 5

READ_ONLY = "This server is read-only: that takes one that is not, or the command line."

CURSOR_LENGTH = 10
"""Digits that no cursor of ours has: SQLite's integers end somewhere."""


def query_reply(result: QueryResult, *, detailed: bool, read_only: bool = False) -> QueryReply:
    subgraph = result.subgraph
    names = {node.id: node.name for node in (*subgraph.path, *(seed.entity for seed in subgraph.seeds))}
    relations = [*subgraph.inter_cluster_relations, *subgraph.base_relations]
    shown = relations if detailed else relations[:CONCISE_RELATIONS]
    return QueryReply(
        query=result.query.text,
        context=result.context.text,
        seeds=[
            SeedCard(ref=seed.entity.id, name=seed.entity.name, score=round(seed.score, 4))
            for seed in subgraph.seeds
        ],
        groups=[group_card(group, detailed=detailed) for group in subgraph.groups],
        lca=lca_card(subgraph.lca, detailed=detailed) if subgraph.lca else None,
        path=[step(node) for node in subgraph.path],
        relations=[relation_card(relation, names, detailed=detailed) for relation in shown],
        sources=[
            SourceCard(
                citation=ranked.chunk.citation,
                document=ranked.chunk.title,
                quote=ranked.chunk.text if detailed else shortened(ranked.chunk.text, GLIMPSE),
            )
            for ranked in result.sources
        ],
        tokens=result.context.tokens,
        truncated=result.context.truncated,
        next_step=query_next_step(result, read_only=read_only),
        warnings=list(result.warnings),
    )


def query_next_step(result: QueryResult, *, read_only: bool) -> str:
    if result.needs_build and not read_only:
        return "Answer from `context`; call build_hierarchy, so that later answers use the whole corpus and its hierarchy."
    if not result.sources:
        return "Nothing matched: ask with other words, or call search_entities to see what there is."
    return "Answer from `context`, citing its marks. To dig deeper: get_sources, get_entity_ancestors or list_inter_cluster_relations."


def group_card(group: Group, *, detailed: bool) -> GroupCard:
    return GroupCard(
        lca=lca_card(group.lca, detailed=detailed),
        seeds=[NamedRef(ref=seed.id, name=seed.name) for seed in group.seeds],
        path=[step(node) for node in group.path],
    )


def lca_card(entity: Entity, *, detailed: bool) -> LcaCard:
    return LcaCard(
        ref=entity.id,
        name=entity.name,
        layer=entity.layer,
        description=entity.description if detailed else shortened(entity.description, GLIMPSE),
        is_root=entity.parent_id is None,
    )


def step(entity: Entity) -> PathStep:
    return PathStep(ref=entity.id, name=entity.name, layer=entity.layer, parent=entity.parent_id or "")


def relation_card(relation: Relation, names: Mapping[str, str], *, detailed: bool = False) -> RelationCard:
    return RelationCard(
        source=names.get(relation.source_id, relation.source_id),
        target=names.get(relation.target_id, relation.target_id),
        source_ref=relation.source_id,
        target_ref=relation.target_id,
        layer=relation.layer,
        kind="inter_cluster" if relation.layer else "base",
        strength=relation.strength,
        support=relation.support,
        method=relation.method.value,
        description=relation.description if detailed else shortened(relation.description, GLIMPSE),
    )


def search_reply(page: EntityPage, offset: int) -> SearchReply:
    return SearchReply(
        entities=[
            EntityCard(
                ref=seed.entity.id,
                name=seed.entity.name,
                type=seed.entity.type,
                layer=seed.entity.layer,
                description=shortened(seed.entity.description, BRIEF),
                score=round(seed.score, 4),
            )
            for seed in page.found
        ],
        total=page.total,
        next_cursor=cursor_after(offset, len(page.found), page.total),
        warnings=list(page.warnings),
    )


def ancestors_reply(chain: Sequence[Entity]) -> AncestorsReply:
    return AncestorsReply(
        entity=NamedRef(ref=chain[0].id, name=chain[0].name),
        path=[
            Ancestor(
                ref=node.id,
                layer=node.layer,
                name=node.name,
                description=node.description,
                members=node.members,
            )
            for node in chain
        ],
        did_you_mean=[],
    )


def cluster_reply(view: ClusterView, offset: int, *, detailed: bool) -> ClusterReply:
    entity = view.entity
    names = {id_: end.name for id_, end in view.ends.items()}
    relations = view.relations if detailed else view.relations[:CONCISE_RELATIONS]
    return ClusterReply(
        ref=entity.id,
        name=entity.name,
        layer=entity.layer,
        description=entity.description,
        method=entity.method.value,
        findings=[Finding(summary=each.summary, explanation=each.explanation) for each in entity.findings],
        parent=NamedRef(ref=view.parent.id, name=view.parent.name) if view.parent else None,
        members=[
            Member(
                ref=each.id,
                name=each.name,
                type=each.type,
                description=each.description if detailed else shortened(each.description, GLIMPSE),
            )
            for each in view.members
        ],
        total_members=entity.members,
        relations=[relation_card(each, names, detailed=detailed) for each in relations],
        next_cursor=cursor_after(offset, len(view.members), entity.members),
    )


def relations_reply(page: RelationPage, offset: int) -> RelationsReply:
    return RelationsReply(
        relations=[relation_card(relation, page.names, detailed=True) for relation in page.relations],
        total=page.total,
        next_cursor=cursor_after(offset, len(page.relations), page.total),
    )


def sources_reply(chunks: Sequence[Chunk], offset: int, limit: int) -> SourcesReply:
    """One page of ``chunks``."""
    shown = chunks[offset : offset + limit]
    return SourcesReply(
        sources=[
            SourceText(
                citation=chunk.citation,
                document=chunk.title,
                start=chunk.start,
                end=chunk.end,
                page=chunk.page,
                text=chunk.text,
            )
            for chunk in shown
        ],
        total=len(chunks),
        next_cursor=cursor_after(offset, len(shown), len(chunks)),
    )


def status_reply(status: Status, *, read_only: bool = False) -> StatusReply:
    held, generation = status.collection, status.collection.generation
    return StatusReply(
        collection=held.name,
        documents=held.documents,
        chunks=held.chunks,
        pending_documents=held.pending_documents,
        built=generation is not None,
        stale=bool(held.documents) and held.stale,
        generation=generation.number if generation else 0,
        built_at=generation.created_at.isoformat(timespec="seconds") if generation else "",
        embedder=generation.embedder if generation else "",
        layers=[
            LayerCard(layer=each.layer, entities=each.entities, relations=each.relations)
            for each in (generation.layers if generation else ())
        ],
        extracts=dict(status.extracts),
        vectors=dict(status.vectors),
        jobs=[
            JobCard(
                job_id=job.id, kind=job.kind, status=job.status.value, stage=job.stage, message=job.message
            )
            for job in status.jobs
        ],
        writer=str(status.writer) if status.writer else "",
        collections=list(status.collections),
        next_step=status_next_step(status, read_only=read_only),
        warnings=list(status.warnings),
    )


def status_next_step(status: Status, *, read_only: bool) -> str:
    held = status.collection
    if held.documents and (read_only or not held.stale):
        return "Call query_lca_context with a question."
    if read_only:
        return f"There is nothing to read yet. {READ_ONLY}"
    if not held.documents:
        return "Call ingest_documents with paths or texts."
    return "Call build_hierarchy, so that every document is in the hierarchy."


# --- pages and lengths ---------------------------------------------------------------------


def offset_of(cursor: str) -> int:
    """A cursor is the number of rows before its page. Raises ``InvalidInput`` for anything else."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < CURSOR_LENGTH):
        raise InvalidInput(
            f"The cursor {cursor[:GLIMPSE]!r} is none that this server gave.",
            "Give next_cursor of the page before, or leave it out for the first page.",
        )
    return int(cursor)


def cursor_after(offset: int, shown: int, total: int) -> str:
    return str(offset + shown) if shown and offset + shown < total else ""


def shortened(text: str, limit: int) -> str:
    """At most ``limit`` characters, cut at a word, with an ellipsis where something is missing."""
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    return flat[:limit].rsplit(" ", 1)[0] + " …"
