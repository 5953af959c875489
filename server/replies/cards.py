"""From the engine's nouns to the published models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.text.citation import format_document
from leanrag_engine.core.text.shortening import one_line, shorten

from .errors import READ_ONLY
from .health import embedder_name, health_card
from .models import (
    Ancestor,
    AncestorsReply,
    ClusterReply,
    CollectionCard,
    CollectionsReply,
    DocumentCard,
    EntityCard,
    FindingCard,
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
    ReplyModel,
    SearchReply,
    SeedCard,
    SourceCard,
    SourcesReply,
    SourceText,
    StatusReply,
)

if TYPE_CHECKING:
    from leanrag_engine.core.model import Chunk, Document, Entity, Generation, Group, Relation, Spent
    from leanrag_engine.core.model import Collection as Held
    from leanrag_engine.engine import EntityPage, RelationPage
    from leanrag_engine.pipeline.status import Status
    from leanrag_engine.retrieval.browse import ClusterView, SourcePage
    from leanrag_engine.retrieval.query import QueryResult

    Count = Callable[[Sequence[str]], list[int]]
    """Tokens of each text."""

Card = TypeVar("Card", bound=ReplyModel)

BRIEF = 240
"""Characters of a description in a concise reply."""

GLIMPSE = 80
"""Characters of what a concise answer repeats from its context: enough to recognise it."""

QUOTE = 400
"""Characters of a passage that a detailed answer repeats."""

SUMMARY = 1200
"""Characters of a summary in a chain of ancestors."""

CONCISE_RELATIONS = 3
DETAILED_RELATIONS = 15

REPLY_TOKENS = 7200
"""Tokens of a whole answer as JSON, for the context's default budget."""

PAGE_TOKENS = 5500
"""Tokens that the items of one reply may take, as JSON; what does not fit comes on the next page. Clients warn from
10,000 tokens on, and the frame of a reply needs some too."""

CURSOR_LENGTH = 10
"""Digits that no cursor of ours has: SQLite's integers end somewhere."""


def query_reply(result: QueryResult, count: Count | None = None, *, detailed: bool) -> QueryReply:
    """With ``count``, the relations that there is room for; else all that the format has."""
    subgraph = result.subgraph
    names = {node.id: node.name for node in (*subgraph.path, *(seed.entity for seed in subgraph.seeds))}
    relations = [*subgraph.inter_cluster_relations, *subgraph.base_relations]
    reply = QueryReply(
        query=shorten_line(result.query.text, SUMMARY),
        context=result.context.text,
        seeds=[
            SeedCard(ref=seed.entity.id, name=seed.entity.name, score=round(seed.score, 4))
            for seed in subgraph.seeds
        ],
        groups=[group_card(group) for group in subgraph.groups],
        lca=lca_card(subgraph.lca) if subgraph.lca else None,
        path=[step(node) for node in subgraph.path],
        relations=[
            relation_card(each, names, detailed=detailed)
            for each in relations[: DETAILED_RELATIONS if detailed else CONCISE_RELATIONS]
        ],
        sources=[
            source_card(each.chunk, QUOTE)
            if detailed
            # What the context cites it quotes.
            else source_card(each.chunk, 0 if each.chunk.citation in result.context.cited else GLIMPSE)
            for each in result.sources
        ],
        tokens=result.context.tokens,
        truncated=result.context.truncated,
        next_step=query_next_step(result),
        warnings=list(result.warnings),
    )
    return within_bounds(reply, count) if count else reply


def within_bounds(reply: QueryReply, count: Count) -> QueryReply:
    """``reply`` with quotes and relations only as far as they fit: both stand in the context too."""
    bare = [each.model_copy(update={"quote": ""}) for each in reply.sources]
    frame = reply.model_copy(update={"relations": [], "sources": bare})
    quotes = [each.quote for each in reply.sources]
    needed, *lengths = count([frame.model_dump_json(), *quotes])
    room = max(REPLY_TOKENS - needed, 0)
    quoted = sum(lengths) <= room // 2
    room -= sum(lengths) if quoted else 0
    relations = fitting(reply.relations, count, room) if room else []
    return frame.model_copy(update={"relations": relations, "sources": reply.sources if quoted else bare})


def query_next_step(result: QueryResult) -> str:
    if result.needs_build:
        return "Answer from `context`. Call build_hierarchy, so that later answers use the whole corpus and its hierarchy."
    if not result.sources:
        return "Nothing matched: ask with other words, or call search_entities to see what there is."
    return "Answer from `context`, citing its marks. To dig deeper: get_sources, get_entity_ancestors or list_inter_cluster_relations."


def source_card(chunk: Chunk, length: int) -> SourceCard:
    return SourceCard(
        citation=chunk.citation,
        document=shorten_line(chunk.title, GLIMPSE),
        quote=shorten_line(chunk.text, length) if length else "",
    )


def group_card(group: Group) -> GroupCard:
    return GroupCard(
        lca=lca_card(group.lca),
        seeds=[NamedRef(ref=seed.id, name=seed.name) for seed in group.seeds],
        path=[step(node) for node in group.path],
    )


def lca_card(entity: Entity) -> LcaCard:
    return LcaCard(
        ref=entity.id,
        name=entity.name,
        layer=entity.layer,
        description=shorten_line(entity.description, GLIMPSE),
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
        description=relation.description if detailed else shorten_line(relation.description, GLIMPSE),
    )


def search_reply(page: EntityPage, offset: int, count: Count) -> SearchReply:
    entities = fitting(
        [
            EntityCard(
                ref=seed.entity.id,
                name=seed.entity.name,
                type=seed.entity.type,
                layer=seed.entity.layer,
                description=shorten_line(seed.entity.description, BRIEF),
                score=round(seed.score, 4),
            )
            for seed in page.found
        ],
        count,
    )
    return SearchReply(
        entities=entities,
        total=page.total,
        next_cursor=cursor_after(offset, len(entities), page.total),
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
                description=shorten_line(node.description, SUMMARY),
                members=node.members,
            )
            for node in chain
        ],
        did_you_mean=[],
    )


def cluster_reply(view: ClusterView, offset: int, count: Count, *, detailed: bool) -> ClusterReply:
    entity = view.entity
    names = {id_: end.name for id_, end in view.ends.items()}
    shown = view.relations[: DETAILED_RELATIONS if detailed else CONCISE_RELATIONS]
    relations = fitting(
        [relation_card(each, names, detailed=detailed) for each in shown], count, PAGE_TOKENS // 3
    )
    members = fitting(
        [member(each, BRIEF if detailed else GLIMPSE) for each in view.members], count, PAGE_TOKENS // 2
    )
    return ClusterReply(
        ref=entity.id,
        name=entity.name,
        layer=entity.layer,
        description=shorten_line(entity.description, SUMMARY),
        method=entity.method.value,
        findings=[
            FindingCard(
                summary=each.summary,
                explanation=shorten_line(each.explanation, SUMMARY if detailed else BRIEF),
            )
            for each in entity.findings
        ],
        parent=NamedRef(ref=view.parent.id, name=view.parent.name) if view.parent else None,
        members=members,
        total_members=entity.members,
        relations=relations,
        next_cursor=cursor_after(offset, len(members), entity.members),
    )


def member(entity: Entity, length: int) -> Member:
    return Member(
        ref=entity.id,
        name=entity.name,
        type=entity.type,
        description=shorten_line(entity.description, length),
    )


def relations_reply(page: RelationPage, offset: int, count: Count) -> RelationsReply:
    relations = fitting([relation_card(each, page.names, detailed=True) for each in page.relations], count)
    return RelationsReply(
        relations=relations,
        total=page.total,
        next_cursor=cursor_after(offset, len(relations), page.total),
    )


def sources_reply(page: SourcePage, offset: int, count: Count) -> SourcesReply:
    sources = fitting([source_text(each) for each in page.chunks], count)
    return SourcesReply(
        sources=sources,
        total=page.total,
        next_cursor=cursor_after(offset, len(sources), page.total),
        problems=list(page.problems),
    )


def source_text(chunk: Chunk) -> SourceText:
    return SourceText(
        citation=chunk.citation,
        document=chunk.title,
        start=chunk.start,
        end=chunk.end,
        page=chunk.page,
        text=chunk.text,
    )


def collections_reply(
    kept: Sequence[Held],
    chosen: str,
    documents: Sequence[Document],
    offset: int,
    limit: int,
    count: Count,
) -> CollectionsReply:
    cards = [document_card(each) for each in documents[offset : offset + limit]]
    shown = fitting(cards, count, PAGE_TOKENS // 2)
    step = (
        "Call query_lca_context with a question."
        if documents
        else "Call ingest_documents with paths or texts."
    )
    return CollectionsReply(
        collections=fitting([collection_card(each) for each in kept], count, PAGE_TOKENS // 2),
        collection=chosen,
        documents=shown,
        total_documents=len(documents),
        next_cursor=cursor_after(offset, len(shown), len(documents)),
        next_step=step,
    )


def collection_card(held: Held) -> CollectionCard:
    generation = held.generation
    return CollectionCard(
        name=held.name,
        documents=held.documents,
        chunks=held.chunks,
        entities=generation.layers[0].entities if generation else 0,
        layers=len(generation.layers) if generation else 0,
        embedder=embedder_of(generation) if generation else "",
        summaries=str(generation.settings.get("summaries", "heuristic")) if generation else "",
        created_at=held.created_at.isoformat(timespec="seconds"),
        built_at=generation.created_at.isoformat(timespec="seconds") if generation else "",
        stale=bool(held.documents) and held.stale,
    )


def embedder_of(generation: Generation) -> str:
    return str(generation.settings.get("embedder") or generation.embedder)


def document_card(document: Document) -> DocumentCard:
    metadata = {key: shorten_line(str(value), GLIMPSE) for key, value in document.metadata.items()}
    return DocumentCard(
        id=document.id,
        number=format_document(document.number),
        title=shorten_line(document.title, BRIEF),
        chunks=document.chunks,
        ingested_at=document.ingested_at.isoformat(timespec="seconds"),
        metadata=metadata,
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
        embedder_name=embedder_name(generation),
        layers=[
            LayerCard(layer=each.layer, entities=each.entities, relations=each.relations)
            for each in (generation.layers if generation else ())
        ],
        health=health_card(generation),
        extracts=dict(status.extracts),
        made_by=count_methods(generation),
        spent={each.step or "other": format_spent(each) for each in status.spent},
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


def count_methods(generation: Generation | None) -> dict[str, int]:
    """How many aggregated entities of a build were made by each method."""
    counts: Counter[str] = Counter()
    for layer in generation.settings.get("methods", ()) if generation else ():
        counts.update(layer["entities"])
    return dict(counts)


def format_spent(spent: Spent) -> str:
    """What one step used; the cost where the price is known."""
    cost = f", ${spent.cost:.4f}" if spent.cost else ""
    unpriced = f", {spent.unpriced} of unknown price" if spent.unpriced else ""
    return (
        f"{spent.calls} calls, {spent.prompt_tokens} tokens in, {spent.completion_tokens} out{cost}{unpriced}"
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


def shorten_line(text: str, limit: int) -> str:
    """Return ``text`` on one line, cut at a word to about ``limit`` characters, with an ellipsis for what is missing."""
    mark = " …"
    return shorten(one_line(text), limit + len(mark), mark)


def fitting(cards: Sequence[Card], count: Count, tokens: int = PAGE_TOKENS) -> list[Card]:
    """The first of ``cards`` that take at most so many tokens together, and at least one."""
    sizes = accumulate(count([card.model_dump_json() for card in cards]))
    return [
        card
        for place, (card, size) in enumerate(zip(cards, sizes, strict=True))
        if size <= tokens or not place
    ]
