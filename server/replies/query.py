"""Replies to a question: the retrieved subgraph with its context, and a written answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from .base import LIMITS, Card, Count, NamedRef, ReplyModel, fit_page, quote_lines, shorten_line
from .graph import RelationCard
from .sources import SourceCard, source_lines

if TYPE_CHECKING:
    from leanrag_engine.core.model import Entity, Group
    from leanrag_engine.engine import ModelAnswer
    from leanrag_engine.retrieval.query import QueryResult


class SeedCard(NamedRef):
    score: float


class PathStep(NamedRef):
    layer: int
    parent: str = Field(description="ref of the node one layer up; empty for the root")

    @classmethod
    def from_engine(cls, entity: Entity) -> PathStep:
        return cls(ref=entity.id, name=entity.name, layer=entity.layer, parent=entity.parent_id or "")


class LcaCard(NamedRef):
    layer: int
    description: str
    is_root: bool

    @classmethod
    def from_engine(cls, entity: Entity) -> LcaCard:
        return cls(
            ref=entity.id,
            name=entity.name,
            layer=entity.layer,
            description=shorten_line(entity.description, LIMITS.glimpse),
            is_root=entity.parent_id is None,
        )

    def to_line(self) -> str:
        root = ", the root" if self.is_root else ""
        description = f": {self.description}" if self.description else ""
        return f"{self.name} ({self.ref}, layer {self.layer}{root}{description})"


class GroupCard(Card):
    lca: LcaCard
    seeds: list[NamedRef]
    path: list[PathStep]

    @classmethod
    def from_engine(cls, group: Group) -> GroupCard:
        return cls(
            lca=LcaCard.from_engine(group.lca),
            seeds=[NamedRef(ref=seed.id, name=seed.name) for seed in group.seeds],
            path=[PathStep.from_engine(node) for node in group.path],
        )


class QueryReply(ReplyModel):
    query: str
    context: str
    seeds: list[SeedCard]
    groups: list[GroupCard]
    lca: LcaCard | None
    path: list[PathStep]
    relations: list[RelationCard]
    sources: list[SourceCard]
    tokens: int
    truncated: bool
    next_step: str
    warnings: list[str]

    @classmethod
    def from_engine(cls, result: QueryResult, count: Count | None = None, *, detailed: bool) -> QueryReply:
        """Build the reply. With ``count``, only the quotes and relations that there is room for."""
        subgraph = result.subgraph
        names = {node.id: node.name for node in (*subgraph.path, *(seed.entity for seed in subgraph.seeds))}
        relations = [*subgraph.inter_cluster_relations, *subgraph.base_relations]
        most = LIMITS.detailed_relations if detailed else LIMITS.concise_relations
        # A passage that the context quotes is not quoted again in a concise reply.
        lengths = [
            LIMITS.quote if detailed else 0 if each.chunk.citation in result.context.cited else LIMITS.glimpse
            for each in result.sources
        ]
        reply = cls(
            query=shorten_line(result.query.text, LIMITS.summary),
            context=result.context.text,
            seeds=[
                SeedCard(ref=seed.entity.id, name=seed.entity.name, score=round(seed.score, 4))
                for seed in subgraph.seeds
            ],
            groups=[GroupCard.from_engine(group) for group in subgraph.groups],
            lca=LcaCard.from_engine(subgraph.lca) if subgraph.lca else None,
            path=[PathStep.from_engine(node) for node in subgraph.path],
            relations=[RelationCard.from_engine(each, names, detailed=detailed) for each in relations[:most]],
            sources=[
                SourceCard.from_engine(each.chunk, length)
                for each, length in zip(result.sources, lengths, strict=True)
            ],
            tokens=result.context.tokens,
            truncated=result.context.truncated,
            next_step=query_next_step(result),
            warnings=list(result.warnings),
        )
        return reply.fit(count) if count else reply

    def fit(self, count: Count) -> QueryReply:
        """Return the reply with only the quotes and relations that fit: the context holds both too."""
        bare = [each.model_copy(update={"quote": ""}) for each in self.sources]
        frame = self.model_copy(update={"relations": [], "sources": bare})
        needed, *lengths = count([frame.model_dump_json(), *(each.quote for each in self.sources)])
        room = max(LIMITS.reply_tokens - needed, 0)
        has_quotes = sum(lengths) <= room // 2
        room -= sum(lengths) if has_quotes else 0
        relations = fit_page(self.relations, count, room) if room else []
        sources = self.sources if has_quotes else bare
        return frame.model_copy(update={"relations": relations, "sources": sources})

    def to_markdown(self) -> str:
        lines = [self.context, *(f"Warning: {warning}" for warning in self.warnings)]
        if graph := self._graph_lines():
            lines += ["", "How the evidence is connected (quoted from documents):", quote_lines(graph)]
        cut = ", truncated" if self.truncated else ""
        lines += [
            f"Query: {self.query}",
            f"Context: {self.tokens} tokens{cut}.",
            f"Next: {self.next_step}",
        ]
        return "\n".join(lines)

    def _graph_lines(self) -> list[str]:
        """Format seeds, groups, paths, relations and sources; each node once."""
        parents = {node.ref: node.parent for node in self.path}
        lines = [
            f"Seed: {seed.name} ({seed.ref}, {seed.score}){_within(parents.get(seed.ref, ''))}"
            for seed in self.seeds
        ]
        listed = {seed.ref for seed in self.seeds}
        for group in self.groups:
            seeds = ", ".join(seed.name for seed in group.seeds)
            higher = [node for node in group.path if node.ref not in listed]
            lines.append(f"Group: {seeds} — joined by {group.lca.to_line()}; path {path_line(higher)}")
        if self.lca:
            lines.append(f"LCA of all seeds: {self.lca.to_line()}")
        listed |= {node.ref for group in self.groups for node in group.path}
        if rest := [node for node in self.path if node.ref not in listed]:
            lines.append(f"Path: {path_line(rest)}")
        lines += [f"Relation: {relation.to_line()}" for relation in self.relations]
        return lines + source_lines(self.sources)


def query_next_step(result: QueryResult) -> str:
    if result.needs_build:
        return "Answer from `context`. Call build_hierarchy, so that later answers use the whole corpus and its hierarchy."
    if not result.sources:
        return "Nothing matched: ask with other words, or call search_entities to see what there is."
    return "Answer from `context`, citing its marks. To dig deeper: get_sources, get_entity_ancestors or list_inter_cluster_relations."


def path_line(path: Sequence[PathStep]) -> str:
    """Format nodes from the highest layer down, each with its parent."""
    nodes = sorted(path, key=lambda each: -each.layer)
    return " > ".join(f"{node.name} ({node.ref}, layer {node.layer}{_within(node.parent)})" for node in nodes)


def _within(parent: str) -> str:
    return f" in {parent}" if parent else ""


class AnswerReply(ReplyModel):
    question: str
    answer: str
    sufficient: bool = Field(description="false: the evidence does not settle the question")
    sources: list[SourceCard] = Field(description="what the answer cites")
    unfounded: list[str] = Field(description="cited, but not in the evidence")
    tokens: int
    model: str
    next_step: str
    warnings: list[str]

    @classmethod
    def from_engine(cls, answered: ModelAnswer) -> AnswerReply:
        answer = answered.answer
        step = "Call get_sources with the citations to read them whole."
        if not answer.sufficient:
            step = "Call query_lca_context with other words or sub-queries, or ingest_documents with more."
        return cls(
            question=answered.result.query.text,
            answer=answer.text,
            sufficient=answer.sufficient,
            sources=[SourceCard.from_engine(each, LIMITS.brief) for each in answered.sources],
            unfounded=list(answer.unfounded),
            tokens=answered.result.context.tokens,
            model=answered.model,
            next_step=step,
            warnings=list(answered.result.warnings),
        )

    def to_markdown(self) -> str:
        lines = [self.answer, ""]
        lines += [f"Source [{each.citation}] {each.document}: {each.quote}" for each in self.sources]
        if self.unfounded:
            marks = ", ".join(self.unfounded)
            lines.append(f"Warning: the citations {marks} are not in the evidence; don't rely on them.")
        if not self.sufficient:
            lines.append("The evidence does not settle the question.")
        lines += [f"Warning: {warning}" for warning in self.warnings]
        lines += [f"By {self.model} from {self.tokens} tokens of evidence.", f"Next: {self.next_step}"]
        return "\n".join(lines)
