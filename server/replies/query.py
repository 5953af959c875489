"""Replies to a question: the retrieved subgraph with its context, and a written answer."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from leanrag_engine.core.text.shortening import count_things
from leanrag_engine.retrieval.context.explanation import round_parts

from .base import LIMITS, Card, Count, NamedRef, ReplyModel, fit_page, warning_lines
from .graph import RelationCard
from .sources import SourceCard

if TYPE_CHECKING:
    from leanrag_engine.engine import ModelAnswer
    from leanrag_engine.retrieval.query import QueryResult


class SeedCard(NamedRef):
    score: float


class PathStep(NamedRef):
    layer: int
    parent: str = Field(description="ref of the node one layer up; empty for the root")


class GroupCard(Card):
    lca: NamedRef
    seeds: list[NamedRef]


class EvidenceCard(Card):
    citations: list[str]
    kind: str
    text: str
    tokens: int
    kept: bool = Field(description="shown whatever its value")
    parts: dict[str, float] = Field(description="what its value is the sum of")


class QueryReply(ReplyModel):
    """``context`` is the whole text. A concise reply as JSON takes at most ``SHARE`` more tokens than it: of the lists,
    what does not fit is left out, the last ones first."""

    SHARE: ClassVar[float] = 0.25

    context: str
    tokens: int
    truncated: bool = Field(description="evidence was left out for lack of room")
    warnings: list[str]
    seeds: list[SeedCard] = Field(description="entities that the question is about; concise: as many as fit")
    sources: list[str] = Field(
        description="citations of the best passages, quoted or not; concise: as many as fit, all quoted ones are in context"
    )
    lca: NamedRef | None = Field(description="lowest common ancestor of all seeds")
    groups: list[GroupCard] = Field(description="seeds by the ancestor that joins them; detailed only")
    path: list[PathStep] = Field(description="detailed only")
    relations: list[RelationCard] = Field(description="detailed only")

    @classmethod
    def from_engine(cls, result: QueryResult, count: Count | None = None, *, detailed: bool) -> QueryReply:
        """Build the reply. With ``count``, the lists are limited by their tokens."""
        graph = result.subgraph
        names = {node.id: node.name for node in (*graph.path, *(seed.entity for seed in graph.seeds))}
        relations = [*graph.inter_cluster_relations, *graph.base_relations] if detailed else []
        reply = cls.of(
            result.context,
            context=result.context.text,
            warnings=list(result.warnings) if detailed else [],
            seeds=[SeedCard.to(seed.entity, score=round(seed.score, 2)) for seed in graph.seeds],
            sources=[each.chunk.citation for each in result.sources],
            lca=NamedRef.to(graph.lca) if graph.lca else None,
            groups=[
                GroupCard(lca=NamedRef.to(group.lca), seeds=[*map(NamedRef.to, group.seeds)])
                for group in (graph.groups if detailed else ())
            ],
            path=[
                PathStep.to(node, parent=node.parent_id or "") for node in (graph.path if detailed else ())
            ],
            relations=[
                RelationCard.from_engine(each, names, detailed=True)
                for each in relations[: LIMITS.detailed_relations]
            ],
        )
        return reply.fit(count, detailed=detailed) if count else reply

    def fit(self, count: Count, *, detailed: bool) -> QueryReply:
        """Return the reply with as many of the lists, in their order, as their tokens allow."""
        if detailed:
            bare = self.model_copy(update={"relations": []})
            (needed,) = count([bare.model_dump_json()])
            room = max(LIMITS.reply_tokens - needed, 0)
            return bare.model_copy(
                update={"relations": fit_page(self.relations, count, room) if room else []}
            )
        kept: dict[str, Any] = {"seeds": [], "sources": [], "lca": None}
        (needed,) = count([self.model_copy(update=kept).model_dump_json()])
        room = round((1 + self.SHARE) * self.tokens) - needed
        for name, texts in (
            ("sources", [f'"{citation}"' for citation in self.sources]),
            ("seeds", [seed.model_dump_json() for seed in self.seeds]),
        ):
            sizes = list(accumulate(size + 1 for size in count(texts)))
            # Of a short reply the best passage is named all the same.
            fitting = max(bisect_right(sizes, room), int(name == "sources" and bool(sizes)))
            kept[name] = getattr(self, name)[:fitting]
            room -= sizes[fitting - 1] if fitting else 0
        if self.lca and count([self.lca.model_dump_json()])[0] <= room:
            kept["lca"] = self.lca
        return self.model_copy(update=kept)

    def to_markdown(self) -> str:
        return self.context


class ExplainedReply(QueryReply):
    """A reply of the command line, with every line of its context explained. A model reads that in the detailed context."""

    evidence: list[EvidenceCard]

    @classmethod
    def explain(cls, result: QueryResult, count: Count) -> ExplainedReply:
        """Build the reply with all of its lists whole."""
        reply = QueryReply.from_engine(result, detailed=True)
        tokens = count([line.text for line in result.context.lines])
        evidence = [
            EvidenceCard.of(line, tokens=each, parts=round_parts(line.parts))
            for line, each in zip(result.context.lines, tokens, strict=True)
        ]
        return cls(**{name: getattr(reply, name) for name in QueryReply.model_fields}, evidence=evidence)


class RoundCard(Card):
    queries: list[str]
    found: list[str] = Field(description="citations that no earlier round had found")
    tokens: int
    missing: str


class UsageCard(Card):
    calls: int
    input_tokens: int
    output_tokens: int


class AnswerReply(ReplyModel):
    question: str
    answer: str
    sufficient: bool = Field(description="false: the evidence does not settle the question")
    sources: list[SourceCard] = Field(description="what the answer cites")
    unfounded: list[str] = Field(description="cited, but not in the evidence")
    tokens: int
    model: str
    usage: UsageCard = Field(description="of the model; replies from the cache cost nothing")
    rounds: list[RoundCard] = Field(description="iterative only")
    ending: str = Field(description="why there was no further round")
    next_step: str
    warnings: list[str]

    @classmethod
    def from_engine(cls, answered: ModelAnswer) -> AnswerReply:
        answer = answered.answer
        step = "Call get_sources with the citations to read them whole."
        if not answer.sufficient:
            step = "Call query_lca_context with other words or sub-queries, or ingest_documents with more."
        return cls.of(
            answer,
            question=answered.result.query.text,
            answer=answer.text,
            sources=[SourceCard.from_engine(each) for each in answered.sources],
            tokens=answered.result.context.tokens,
            model=answered.model,
            usage=UsageCard(
                calls=answered.usage.calls,
                input_tokens=answered.usage.prompt_tokens,
                output_tokens=answered.usage.completion_tokens,
            ),
            rounds=[RoundCard.of(each) for each in answered.rounds],
            ending=answered.ending,
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
        lines += warning_lines(self.warnings)
        lines += [f"Round {number}: {_format_round(each)}" for number, each in enumerate(self.rounds, 1)]
        lines += [f"It ended because {self.ending}."] if self.ending else []
        calls = count_things(self.usage.calls, "call")
        used = f"{self.usage.input_tokens} input and {self.usage.output_tokens} output tokens"
        lines += [f"By {self.model} from {self.tokens} tokens of evidence, in {calls} of {used}."]
        lines.append(f"Next: {self.next_step}")
        return "\n".join(lines)


def _format_round(card: RoundCard) -> str:
    found = f"new: {', '.join(card.found)}" if card.found else "nothing new"
    missing = f" Then missing: {card.missing}" if card.missing else ""
    return f"{'; '.join(card.queries)} ({found}; {card.tokens} tokens).{missing}"
