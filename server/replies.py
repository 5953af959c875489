"""What the tools publish: the models behind every output schema.

Keys that clients rely on stay; more may be added. An entity is told by its name and its ``ref``, a
short stable handle that every tool accepts in place of the name.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

JobState = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]


class Reply(BaseModel):
    """Base of all models here: frozen, and nothing beside the declared keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NamedRef(Reply):
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


class GroupCard(Reply):
    lca: LcaCard
    seeds: list[NamedRef]
    path: list[PathStep]


class RelationCard(Reply):
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


class SourceCard(Reply):
    citation: str
    document: str
    quote: str


class QueryReply(Reply):
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


class SearchReply(Reply):
    entities: list[EntityCard]
    total: int
    next_cursor: str
    warnings: list[str]


class Ancestor(NamedRef):
    layer: int
    description: str
    members: int


class AncestorsReply(Reply):
    entity: NamedRef
    path: list[Ancestor] = Field(description="from the entity itself up to the root")
    did_you_mean: list[NamedRef]


class Finding(Reply):
    summary: str
    explanation: str


class Member(NamedRef):
    type: str
    description: str


class ClusterReply(NamedRef):
    layer: int
    description: str
    method: str
    findings: list[Finding]
    parent: NamedRef | None
    members: list[Member]
    total_members: int
    relations: list[RelationCard]
    next_cursor: str


class RelationsReply(Reply):
    relations: list[RelationCard]
    total: int
    next_cursor: str


class SourceText(Reply):
    citation: str
    document: str
    start: int
    end: int
    page: int | None
    text: str


class SourcesReply(Reply):
    sources: list[SourceText]
    total: int
    next_cursor: str


class LayerCard(Reply):
    layer: int
    entities: int
    relations: int


class JobCard(Reply):
    job_id: str
    kind: str
    status: JobState
    stage: str
    message: str


class StatusReply(Reply):
    collection: str
    documents: int
    chunks: int
    pending_documents: int = Field(description="came in after the last build")
    built: bool
    stale: bool
    generation: int
    built_at: str
    embedder: str
    layers: list[LayerCard]
    extracts: dict[str, int] = Field(description="chunks by how their extracts were made")
    vectors: dict[str, int] = Field(description="rows in the vector index, by kind")
    jobs: list[JobCard]
    writer: str = Field(description="who holds the write lock; empty if nobody")
    collections: list[str]
    next_step: str
    warnings: list[str]


class DocumentOutcome(Reply):
    id: str
    title: str
    status: Literal["added", "replaced", "unchanged", "skipped", "failed"]
    chunks: int
    error: str


class IngestReply(Reply):
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


class JobReply(Reply):
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


class DocumentArgument(BaseModel):
    """One document: exactly one of ``path`` and ``text``."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(default="", description="File or folder beneath an allowed folder")
    text: str | None = Field(default=None, description="The text itself")
    title: str = ""
    id: str = Field(default="", description="Your name for it; the same id with other content replaces it")
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)


class FiltersArgument(BaseModel):
    """Which documents may take part. Empty: all."""

    model_config = ConfigDict(extra="forbid")

    documents: list[str] = Field(default_factory=list, description="ids, titles or numbers like d3")
    metadata: dict[str, str] = Field(default_factory=dict)
    since: str = Field(default="", description="ISO date of ingestion")
    until: str = ""
