"""What the tools publish: the models behind every output schema.

Keys that clients rely on stay; more may be added. An entity is told by its name and its ``ref``, a
short stable handle that every tool accepts in place of the name.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from .errors import plain, plain_line

DeletionState = Literal["deleted", "deleting", "not_deleted", "unknown"]
JobState = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]


class ReplyModel(BaseModel):
    """Base of all models here: frozen, nothing beside the declared keys, and no text with anything in it that
    nobody sees. Only ``TEXTS`` have several lines: a break in a name would make the rest look like ours."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    TEXTS: ClassVar[frozenset[str]] = frozenset({"context", "text", "answer", "instructions"})

    @field_validator("*", mode="after")
    @classmethod
    def _plain(cls, value: Any, about: ValidationInfo) -> Any:
        return clean_value(value, several_lines=about.field_name in cls.TEXTS)


def clean_value(value: Any, *, several_lines: bool) -> Any:
    """``value`` with every text in it, at any depth, made plain."""
    if isinstance(value, str):
        return plain(value) if several_lines else plain_line(value)
    if isinstance(value, list):
        return [clean_value(each, several_lines=several_lines) for each in value]
    if isinstance(value, dict):
        return {
            plain_line(str(key)): clean_value(each, several_lines=several_lines)
            for key, each in value.items()
        }
    return value


class NamedRef(ReplyModel):
    ref: str
    name: str


class SeedCard(NamedRef):
    score: float


class EntityCard(NamedRef):
    type: str
    layer: int
    description: str
    score: float


class PathStep(NamedRef):
    layer: int
    parent: str = Field(description="ref of the node one layer up; empty for the root")


class LcaCard(NamedRef):
    layer: int
    description: str
    is_root: bool


class GroupCard(ReplyModel):
    lca: LcaCard
    seeds: list[NamedRef]
    path: list[PathStep]


class RelationCard(ReplyModel):
    source: str
    target: str
    source_ref: str
    target_ref: str
    layer: int
    kind: Literal["base", "inter_cluster"]
    strength: int = Field(description="λ: relations of the layer below that join the two")
    support: int = Field(description="distinct base relations beneath")
    method: str
    description: str


class SourceCard(ReplyModel):
    citation: str
    document: str
    quote: str


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


class SearchReply(ReplyModel):
    entities: list[EntityCard]
    total: int
    next_cursor: str
    warnings: list[str]


class Ancestor(NamedRef):
    layer: int
    description: str
    members: int


class AncestorsReply(ReplyModel):
    entity: NamedRef
    path: list[Ancestor] = Field(description="from the entity itself up to the root")
    did_you_mean: list[NamedRef]


class FindingCard(ReplyModel):
    summary: str
    explanation: str


class Member(NamedRef):
    type: str
    description: str


class ClusterReply(NamedRef):
    layer: int
    description: str
    method: str
    findings: list[FindingCard]
    parent: NamedRef | None
    members: list[Member]
    total_members: int
    relations: list[RelationCard]
    next_cursor: str


class RelationsReply(ReplyModel):
    relations: list[RelationCard]
    total: int
    next_cursor: str


class SourceText(ReplyModel):
    citation: str
    document: str
    start: int
    end: int
    page: int | None
    text: str


class SourcesReply(ReplyModel):
    sources: list[SourceText]
    total: int
    next_cursor: str
    problems: list[str] = Field(description="what was asked for in vain")


class CollectionCard(ReplyModel):
    name: str
    documents: int
    chunks: int
    entities: int
    layers: int
    embedder: str
    summaries: str = Field(description="how they were made")
    created_at: str
    built_at: str
    stale: bool


class DocumentCard(ReplyModel):
    id: str
    number: str
    title: str
    chunks: int
    ingested_at: str
    metadata: dict[str, str]


class CollectionsReply(ReplyModel):
    collections: list[CollectionCard]
    collection: str
    documents: list[DocumentCard] = Field(description="of `collection`")
    total_documents: int
    next_cursor: str
    next_step: str


class DeletedDocument(ReplyModel):
    id: str
    title: str
    status: DeletionState
    did_you_mean: list[str]


class DeleteReply(ReplyModel):
    job_id: str
    status: JobState
    message: str
    documents: list[DeletedDocument]
    next_step: str


class LayerCard(ReplyModel):
    layer: int
    entities: int
    relations: int


class JobCard(ReplyModel):
    job_id: str
    kind: str
    status: JobState
    stage: str
    message: str


class LayerHealthCard(ReplyModel):
    layer: int
    clusters: int
    smallest: int
    median: float
    largest: int
    tightness: float = Field(description="mean cosine of members to their cluster's mean")
    joined: float = Field(description="entities with a relation")
    inside: float = Field(description="relations within a cluster")
    strength_median: float
    strength_most: int


class HealthCard(ReplyModel):
    """How good the hierarchy is, as its build measured it. Shares are from 0 to 1."""

    clustering: str
    cluster_size: int
    cluster_cap: int
    size_reason: str
    heuristic: float = Field(description="aggregated entities made without a model")
    islands: int = Field(description="clusters cut off though relations leave them; should be 0")
    similar_pairs_below_root: float = Field(description="whose LCA is below the root")
    seed_sets_below_root: float = Field(description="sets of ten")
    layers: list[LayerHealthCard]


class StatusReply(ReplyModel):
    collection: str
    documents: int
    chunks: int
    pending_documents: int = Field(description="came in after the last build")
    built: bool
    stale: bool
    generation: int
    built_at: str
    embedder: str
    embedder_name: str
    layers: list[LayerCard]
    health: HealthCard | None = Field(description="null before the first build")
    extracts: dict[str, int] = Field(description="chunks by how their extracts were made")
    made_by: dict[str, int] = Field(description="aggregated entities by method")
    spent: dict[str, str] = Field(description="on a model, by step")
    vectors: dict[str, int]
    jobs: list[JobCard]
    writer: str = Field(description="who holds the write lock; empty if nobody")
    collections: list[str]
    next_step: str
    warnings: list[str]


class DocumentOutcome(ReplyModel):
    id: str
    title: str
    status: Literal["added", "replaced", "unchanged", "skipped", "failed"]
    chunks: int
    error: str


class IngestReply(ReplyModel):
    job_id: str
    status: JobState
    stage: str
    done: int
    total: int
    rate: float = Field(description="units of the stage per second; 0: not known")
    seconds_left: int | None = Field(description="of this stage; null: not known")
    message: str
    documents: list[DocumentOutcome]
    next_step: str


class JobReply(ReplyModel):
    job_id: str
    kind: str
    collection: str
    status: JobState
    stage: str
    done: int
    total: int
    rate: float = Field(description="units of the stage per second; 0: not known")
    seconds_left: int | None = Field(description="of this stage; null: not known")
    message: str
    failures: list[dict[str, str]]
    result: dict[str, Any]
    next_step: str


# --- arguments -----------------------------------------------------------------------------
