"""Replies about entities and relations: search, ancestors, one cluster, relations between clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from leanrag_engine.core.text.shortening import count_things

from .base import (
    LIMITS,
    Card,
    Count,
    NamedRef,
    ReplyModel,
    cursor_after,
    cursor_lines,
    fit_page,
    quote_lines,
    shorten_line,
    warning_lines,
)

if TYPE_CHECKING:
    from leanrag_engine.core.model import Entity, Finding, Relation, Seed
    from leanrag_engine.engine import EntityPage, RelationPage
    from leanrag_engine.retrieval.browse.entities import ClusterView
    from leanrag_engine.retrieval.browse.neighbourhood import Neighbour
    from leanrag_engine.retrieval.search.crediting import FoundPassages


def format_found(found: FoundPassages | None, item: Entity | Relation | Finding) -> str:
    """Say how many of the passages found for the query lie beneath an item, and which are most about it; "" without a query."""
    if found is None:
        return ""
    beneath = found.beneath(item)
    best = sorted(beneath, key=lambda id_: -beneath[id_])[:3]
    cited = "".join(f" [{found.citations[id_]}]" for id_ in best)
    return f"{len(beneath)} of {len(found.values)} passages found{cited and ':'}{cited}"


def list_warnings(found: FoundPassages | None) -> list[str]:
    """Return what the search for the query warns of."""
    return list(found.warnings) if found else []


# --- search --------------------------------------------------------------------------------


class EntityCard(NamedRef):
    type: str
    layer: int
    description: str
    score: float

    @classmethod
    def from_engine(cls, seed: Seed) -> EntityCard:
        description = shorten_line(describe_entity(seed.entity), LIMITS.brief)
        return cls.to(seed.entity, description=description, score=round(seed.score, 4))


def describe_entity(entity: Entity) -> str:
    """Return the attributes of an entity, which are short, and its description."""
    attributes = "; ".join(map(str, entity.attributes))
    return f"({attributes}) {entity.description}" if attributes else entity.description


class SearchReply(ReplyModel):
    entities: list[EntityCard]
    total: int
    next_cursor: str
    warnings: list[str]

    @classmethod
    def from_engine(cls, page: EntityPage, offset: int, count: Count) -> SearchReply:
        entities = fit_page([EntityCard.from_engine(seed) for seed in page.found], count)
        return cls.of(page, entities=entities, next_cursor=cursor_after(offset, len(entities), page.total))

    def to_markdown(self) -> str:
        lines = ["No entity matches."]
        if self.entities:
            cards = [
                f"- {each.name} ({each.ref}; {each.type}, layer {each.layer}; {each.score}): {each.description}"
                for each in self.entities
            ]
            lines = [
                f"{count_things(self.total, 'entity', 'entities')}, best first; quoted from documents:",
                quote_lines(cards),
            ]
        return "\n".join([*lines, *warning_lines(self.warnings), *cursor_lines(self.next_cursor)])


# --- ancestors -----------------------------------------------------------------------------


class Ancestor(NamedRef):
    layer: int
    description: str
    members: int
    found: str


class AncestorsReply(ReplyModel):
    path: list[Ancestor] = Field(description="from the entity itself up to the root")
    also_in: str
    neighbours: list[str] = Field(description="nearest first, with citations")
    warnings: list[str]

    @classmethod
    def from_engine(
        cls,
        chain: Sequence[Entity],
        neighbours: Sequence[Neighbour] = (),
        found: FoundPassages | None = None,
        second: Entity | None = None,
    ) -> AncestorsReply:
        path = [
            Ancestor.to(
                node,
                description=shorten_line(describe_entity(node), LIMITS.summary),
                found=format_found(found, node),
            )
            for node in chain
        ]
        return cls(
            path=path,
            also_in=f"{second.name} ({second.id})" if second else "",
            neighbours=[format_neighbour(each, found) for each in neighbours],
            warnings=list_warnings(found),
        )

    def to_markdown(self) -> str:
        cards = []
        for node in self.path:
            members = f", {node.members} members" if node.members else ""
            about = f"{node.ref}{members}{node.found and f'; {node.found}'}"
            cards.append(f"- layer {node.layer}: {node.name} ({about}): {node.description}")
        title = (
            f"{self.path[0].name} ({self.path[0].ref}), from itself up to the root; quoted from documents:"
        )
        if self.also_in:
            cards.append(f"- partly in another cluster: {self.also_in}")
        lines = [title, quote_lines(cards)]
        if self.neighbours:
            lines += [
                "Within these hops of it, nearest first; quoted from documents:",
                quote_lines(self.neighbours),
            ]
        return "\n".join([*lines, *warning_lines(self.warnings)])


def format_neighbour(each: Neighbour, found: FoundPassages | None) -> str:
    """Format an entity with the relation that leads to it and the passages that state it."""
    said = shorten_line(describe_relation(each.relation), LIMITS.glimpse)
    cited = "".join(f" [{citation}]" for citation in each.citations)
    beneath = f"; {format_found(found, each.entity)}" if found else ""
    return f"- {each.hops}: {each.entity.name} ({each.entity.id}{beneath}), from {each.via.name}{said and f': {said}'}{cited}"


# --- relations -----------------------------------------------------------------------------


class RelationCard(Card):
    source: str
    target: str
    source_ref: str
    target_ref: str
    layer: int
    kind: str = Field(description="base or inter_cluster")
    strength: int = Field(description="λ: relations of the layer below that join the two")
    support: int = Field(description="distinct base relations beneath")
    method: str
    description: str
    found: str

    @classmethod
    def from_engine(
        cls,
        relation: Relation,
        names: Mapping[str, str],
        found: FoundPassages | None = None,
        *,
        detailed: bool = False,
    ) -> RelationCard:
        """Build the card; ``names`` holds the names of entities by id."""
        description = describe_relation(relation)
        return cls.of(
            relation,
            source=names.get(relation.source_id, relation.source_id),
            target=names.get(relation.target_id, relation.target_id),
            source_ref=relation.source_id,
            target_ref=relation.target_id,
            kind="inter_cluster" if relation.layer else "base",
            method=relation.method.value,
            description=description if detailed else shorten_line(description, LIMITS.glimpse),
            found=format_found(found, relation),
        )

    def to_line(self) -> str:
        ends = f"{self.source} ({self.source_ref}) — {self.target} ({self.target_ref})"
        facts = f"{self.kind}, layer {self.layer}, strength {self.strength}, support {self.support}"
        said = f": {self.description}" if self.description else ""
        return f"{ends} [{facts}, {self.method}{self.found and f'; {self.found}'}]{said}"


def describe_relation(relation: Relation) -> str:
    """Return the types that a schema gave a relation, which are short, and its description: without a model, examples."""
    types = f"({', '.join(relation.types)}) " if relation.types else ""
    examples = relation.layer and relation.method == "heuristic" and relation.strength > 1
    return (
        f"{types}{f'{relation.strength} relations, for example: ' if examples else ''}{relation.description}"
    )


class RelationsReply(ReplyModel):
    relations: list[RelationCard]
    total: int
    next_cursor: str
    warnings: list[str]

    @classmethod
    def from_engine(
        cls, page: RelationPage, offset: int, count: Count, found: FoundPassages | None = None
    ) -> RelationsReply:
        cards = [RelationCard.from_engine(each, page.names, found, detailed=True) for each in page.relations]
        relations = fit_page(cards, count)
        return cls.of(
            page,
            relations=relations,
            next_cursor=cursor_after(offset, len(relations), page.total),
            warnings=list_warnings(found),
        )

    def to_markdown(self) -> str:
        lines = ["No relation matches."]
        if self.relations:
            order = "those with most found" if self.relations[0].found else "strongest"
            lines = [
                f"{count_things(self.total, 'relation')}, {order} first; quoted from documents:",
                quote_lines([f"- {relation.to_line()}" for relation in self.relations]),
            ]
        return "\n".join([*lines, *warning_lines(self.warnings), *cursor_lines(self.next_cursor)])


# --- one entity ----------------------------------------------------------------------------


class EntityReply(ReplyModel):
    ancestors: AncestorsReply
    relations: list[RelationCard]
    sources: list[str] = Field(description="citations of the passages that mention it")

    @classmethod
    def from_engine(
        cls,
        chain: Sequence[Entity],
        relations: RelationPage,
        citations: Sequence[str],
        neighbours: Sequence[Neighbour] = (),
        second: Entity | None = None,
    ) -> EntityReply:
        return cls(
            ancestors=AncestorsReply.from_engine(chain, neighbours, second=second),
            relations=[RelationCard.from_engine(each, relations.names) for each in relations.relations],
            sources=list(citations),
        )

    def to_markdown(self) -> str:
        lines = [self.ancestors.to_markdown()]
        if self.relations:
            cards = [f"- {relation.to_line()}" for relation in self.relations]
            lines += ["Relations, strongest first; quoted from documents:", quote_lines(cards)]
        if self.sources:
            lines.append(f"Passages: {' '.join(f'[{each}]' for each in self.sources)}")
        return "\n".join(lines)


# --- the tree ------------------------------------------------------------------------------


class TreeNode(NamedRef):
    layer: int
    members: int
    children: list[TreeNode]

    def to_lines(self) -> list[str]:
        """Draw what is below this node, a line for each."""
        missing = self.members - len(self.children)
        rows = [[each.to_title(), *each.to_lines()] for each in self.children]
        rows += [[f"… {missing} more"]] if missing and self.children else []
        lines = []
        for place, (title, *below) in enumerate(rows):
            last = place == len(rows) - 1
            lines.append(f"{'└─' if last else '├─'} {title}")
            lines += [f"{'   ' if last else '│  '}{each}" for each in below]
        return lines

    def to_title(self) -> str:
        members = f", {self.members} members" if self.members else ""
        return f"{shorten_line(self.name, LIMITS.glimpse)} ({self.ref}{members})"


# --- one cluster ---------------------------------------------------------------------------


class FindingCard(Card):
    summary: str
    explanation: str
    found: str


class Member(NamedRef):
    type: str
    description: str
    found: str

    @classmethod
    def from_engine(cls, entity: Entity, length: int, found: FoundPassages | None = None) -> Member:
        description = shorten_line(entity.description, length)
        return cls.to(entity, description=description, found=format_found(found, entity))


class ClusterReply(NamedRef, ReplyModel):
    layer: int
    description: str
    method: str
    stale: str = Field(
        description="members that joined, left, changed or were cut since it was written; empty: none"
    )
    findings: list[FindingCard]
    parent: NamedRef | None
    members: list[Member]
    total_members: int
    relations: list[RelationCard]
    next_cursor: str
    warnings: list[str]

    @classmethod
    def from_engine(cls, view: ClusterView, offset: int, count: Count, *, detailed: bool) -> ClusterReply:
        entity = view.entity
        names = {id_: end.name for id_, end in view.ends.items()}
        most = LIMITS.detailed_relations if detailed else LIMITS.concise_relations
        relations = [
            RelationCard.from_engine(each, names, view.found, detailed=detailed)
            for each in view.relations[:most]
        ]
        length = LIMITS.brief if detailed else LIMITS.glimpse
        members = fit_page(
            [Member.from_engine(each, length, view.found) for each in view.members],
            count,
            LIMITS.page_tokens // 2,
        )
        explained = LIMITS.summary if detailed else LIMITS.brief
        return cls.to(
            entity,
            description=shorten_line(entity.description, LIMITS.summary),
            method=entity.method.value,
            stale=str(entity.stale or ""),
            findings=[
                FindingCard(
                    summary=each.summary,
                    explanation=shorten_line(each.explanation, explained),
                    found=format_found(view.found, each),
                )
                for each in entity.findings
            ],
            parent=NamedRef.to(view.parent) if view.parent else None,
            members=members,
            total_members=entity.members,
            relations=fit_page(relations, count, LIMITS.page_tokens // 3),
            next_cursor=cursor_after(offset, len(members), entity.members),
            warnings=list_warnings(view.found),
        )

    def to_markdown(self) -> str:
        parent = f"under {self.parent.name} ({self.parent.ref})" if self.parent else "the root"
        title = f"{self.name} ({self.ref}; layer {self.layer}, {parent}); quoted from documents:"
        stale = f"; stale, members since: {self.stale}" if self.stale else ""
        cards = [f"Description ({self.method}{stale}): {self.description}"]
        cards += [
            f"Finding: {each.summary.removesuffix('.')}{each.found and f' ({each.found})'}: {each.explanation}"
            for each in self.findings
        ]
        order = "those with most found" if any(each.found for each in self.members) else "most mentioned"
        cards.append(f"Members, {len(self.members)} of {self.total_members}, {order} first:")
        cards += [
            f"- {each.name} ({each.ref}; {each.type}{each.found and f'; {each.found}'}): {each.description}"
            for each in self.members
        ]
        cards += [f"Relation: {relation.to_line()}" for relation in self.relations]
        more = [*warning_lines(self.warnings), *cursor_lines(self.next_cursor)]
        return "\n".join([title, quote_lines(cards), *more])
