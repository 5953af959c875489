"""The reply that says what is indexed: counts, layers, the health of the build, jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from leanrag_engine.core.jobs import Job, JobStatus, describe_done
from leanrag_engine.core.model import Generation, LayerHealth, Spent
from leanrag_engine.core.text.shortening import count_things
from leanrag_engine.pipeline.status import Status

from ..base import LIMITS, Card, JobStatusName, ReplyModel, format_time, quote_lines, warning_lines
from ..changes import format_correction
from ..errors import READ_ONLY


class LayerCard(Card):
    layer: int
    entities: int
    relations: int


def layers_line(layers: Sequence[LayerCard]) -> str:
    return ", ".join(
        f"G{each.layer} {count_things(each.entities, 'entity', 'entities')} and {count_things(each.relations, 'relation')}"
        for each in layers
    )


class JobCard(Card):
    job_id: str
    kind: str
    status: JobStatusName
    stage: str
    progress: str = Field(description="how much of the stage is done while it runs")
    message: str

    @classmethod
    def from_engine(cls, job: Job) -> JobCard:
        done = describe_done(job) if job.status is JobStatus.RUNNING and job.total else ""
        return cls.of(job, job_id=job.id, status=job.status.value, progress=done)

    def to_line(self) -> str:
        done = f", {self.progress}" if self.progress else ""
        message = f": {self.message}" if self.message else ""
        return f"Job {self.job_id} ({self.kind}): {self.status}, {self.stage}{done}{message}"


class LayerHealthCard(Card):
    layer: int
    clusters: int
    smallest: int
    median: float
    largest: int
    tightness: float = Field(description="mean cosine of members to their cluster's mean")
    joined: float = Field(description="entities with a relation")
    inside: float = Field(description="relations within a cluster")
    modularity: float
    strength_median: float
    strength_most: int

    @classmethod
    def from_engine(cls, health: LayerHealth) -> LayerHealthCard:
        """Return the card of a layer below the root, which is in clusters."""
        assert health.sizes
        return cls.of(
            health,
            smallest=int(health.sizes.least),
            median=health.sizes.median,
            largest=int(health.sizes.most),
            tightness=round(health.tightness, 2),
            joined=round(health.joined, 2),
            inside=round(health.inside, 2),
            modularity=round(health.modularity, 2),
            strength_median=health.strength.median,
            strength_most=int(health.strength.most),
        )

    def to_line(self) -> str:
        sizes = f"one cluster of {self.largest}"
        if self.clusters > 1:
            sizes = f"{self.clusters} clusters of {self.smallest}–{self.largest} (median {self.median:g})"
        strength = f"; λ median {self.strength_median:g}, most {self.strength_most}" if self.layer else ""
        return (
            f"- G{self.layer} in {sizes},"
            f" tightness {self.tightness:g}; {_percent(self.joined)} of entities related,"
            f" {_percent(self.inside)} of relations inside a cluster (modularity {self.modularity:g}){strength}"
        )


class HealthCard(Card):
    """Quality of the hierarchy, as its build measured it. Shares are from 0 to 1."""

    clustering: str
    cluster_size: int
    cluster_cap: int
    heuristic: float = Field(description="aggregated entities made without a model")
    islands: int = Field(description="clusters cut off though relations leave them; should be 0")
    pairs: float = Field(description="similar ones whose LCA is below the root")
    sets: float = Field(description="of ten seeds, likewise")
    layers: list[LayerHealthCard]

    @classmethod
    def from_engine(cls, generation: Generation | None) -> HealthCard | None:
        """Return the health that a build recorded; None without a build or record."""
        health = generation.record.health if generation else None
        if health is None:
            return None
        *lower, top = health.layers
        above = health.layers[1:]
        entities = sum(each.entities for each in above)
        return cls.of(
            health,
            heuristic=round(sum(each.heuristic_entities * each.entities for each in above) / entities, 2),
            islands=sum(each.islands for each in lower),
            pairs=_share_below(health.meetings.pairs, top.layer),
            sets=_share_below(health.meetings.sets, top.layer),
            layers=[LayerHealthCard.from_engine(each) for each in lower],
        )

    def to_lines(self) -> list[str]:
        islands = f"{self.islands} semantic islands" if self.islands else "no semantic island"
        line = (
            f"Health: clustered by {self.clustering}, size {self.cluster_size}, at most {self.cluster_cap};"
            f" {_percent(self.heuristic)} of aggregates made without a model; {islands}."
            f" LCA below the root: {_percent(self.pairs)} of similar pairs,"
            f" {_percent(self.sets)} of sets of ten."
        )
        return [line, *(each.to_line() for each in self.layers)]


def _share_below(shares: Mapping[int, float], top: int) -> float:
    return round(sum(share for layer, share in shares.items() if layer < top), 2)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


class StatusReply(ReplyModel):
    collection: str
    documents: int
    chunks: int
    pending_documents: int = Field(description="ingested after the last build")
    built: bool
    stale: bool
    generation: int
    graph: str = Field(description="who wrote it")
    mode: str = Field(description="update or rebuild, and why")
    built_at: str
    embedder: str
    embedder_name: str
    embedder_note: str
    layers: list[LayerCard]
    health: HealthCard | None = Field(description="null before the first build")
    extracts: dict[str, int] = Field(description="chunks by how their extracts were made")
    methods: dict[str, int] = Field(description="of aggregated entities, with their numbers")
    spent: dict[str, str] = Field(description="on a model, by step")
    vectors: dict[str, int]
    types: str = Field(description="of the schema that constrains extraction; empty: it is open")
    corrections: list[str]
    jobs: list[JobCard]
    writer: str = Field(description="holder of the write lock; empty if none")
    collections: list[str]
    next_step: str
    warnings: list[str]

    @classmethod
    def from_engine(cls, status: Status, *, read_only: bool = False) -> StatusReply:
        collection, generation = status.collection, status.collection.generation
        history = generation.record.history if generation else None
        return cls.of(
            status,
            collection=collection.name,
            documents=collection.documents,
            chunks=collection.chunks,
            pending_documents=collection.pending_documents,
            built=generation is not None,
            stale=bool(collection.documents) and collection.stale,
            generation=generation.number if generation else 0,
            graph=status.graph,
            mode=f"{history.mode}, as {history.reason}" if history and history.mode else "not recorded",
            built_at=format_time(generation.created_at) if generation else "",
            embedder=generation.embedder if generation else "",
            embedder_name=embedder_name(generation),
            layers=[LayerCard.of(each) for each in (generation.layers if generation else ())],
            health=HealthCard.from_engine(generation),
            methods=dict(generation.record.summaries) if generation else {},
            spent={each.step or "other": format_spent(each) for each in status.spent},
            corrections=list_corrections(status),
            jobs=[JobCard.from_engine(job) for job in status.jobs],
            writer=str(status.writer) if status.writer else "",
            next_step=status_next_step(status, read_only=read_only),
        )

    def to_markdown(self) -> str:
        return "\n".join([*self.to_lines(), f"Next: {self.next_step}"])

    def to_lines(self) -> list[str]:
        """Format everything but the next step."""
        pending = f", {count_things(self.pending_documents, 'document')} pending (not in the last build)"
        size = f"{count_things(self.documents, 'document')}, {count_things(self.chunks, 'chunk')}"
        lines = [f"Collection {self.collection}: {size}{pending if self.pending_documents else ''}."]
        if self.built:
            stale = "stale" if self.stale else "up to date"
            layers = layers_line(self.layers)
            lines.append(
                f"Build: generation {self.generation} of {self.built_at}, {stale}. Layers: {layers}. Mode: {self.mode}. Made as: {self.graph}."
            )
            note = f" {self.embedder_note}" if self.embedder_note else ""
            lines.append(f"Embedder: {self.embedder_name} ({self.embedder}).{note}")
            lines += self.health.to_lines() if self.health else []
        else:
            lines.append("Build: none yet (stale)." if self.stale else "Build: none yet.")
        for title, counts in (
            ("Extracts", self.extracts),
            ("Aggregated entities", self.methods),
            ("Vectors", self.vectors),
        ):
            if counts:
                lines.append(
                    f"{title}: " + ", ".join(f"{count} {name}" for name, count in counts.items()) + "."
                )
        lines += [f"Spent on {step}: {used}." for step, used in self.spent.items()]
        if self.types:
            lines.append(f"Extraction by a schema. {self.types}")
        if self.corrections:
            lines += ["Corrections:", quote_lines(self.corrections)]
        lines += [job.to_line() for job in self.jobs]
        lines.append(
            f"Writer: {self.writer or 'none'}. Collections: {', '.join(self.collections) or 'none'}."
        )
        return lines + warning_lines(self.warnings)


def embedder_name(generation: Generation | None) -> str:
    """Return the embedder's name in the settings, of a folder its last part; empty without a build."""
    name = generation.embedder_name if generation else ""
    return name if name.startswith("litellm/") else name.replace("\\", "/").rstrip("/").rpartition("/")[2]


def format_spent(spent: Spent) -> str:
    """Format what one step used; the cost where the price is known."""
    cost = f", ${spent.cost:.4f}" if spent.cost else ""
    unpriced = f", {spent.unpriced} of unknown price" if spent.unpriced else ""
    return (
        f"{spent.calls} calls, {spent.prompt_tokens} tokens in, {spent.completion_tokens} out{cost}{unpriced}"
    )


def list_corrections(status: Status) -> list[str]:
    """Return a line for each of the last corrections, with its effect in the published build."""
    generation = status.collection.generation
    effects = generation.record.corrections if generation else None
    lines = [format_correction(each, effects) for each in status.corrections[-LIMITS.corrections :]]
    earlier = len(status.corrections) - len(lines)
    return [*([f"{earlier} earlier ones: leanrag corrections lists them."] if earlier else []), *lines]


def status_next_step(status: Status, *, read_only: bool) -> str:
    collection = status.collection
    if collection.documents and (read_only or not collection.stale):
        return "Call query_lca_context with a question."
    others = [each for each in status.collections if each != collection.name]
    if not collection.documents and others:
        return f"Give collection={others[0]!r} or another one, or call ingest_documents."
    if read_only:
        return f"There is nothing to read yet. {READ_ONLY}"
    if not collection.documents:
        return "Call ingest_documents with paths or texts."
    if at_work := [each.id for each in status.jobs if each.status is JobStatus.RUNNING]:
        return f"Ask: what is read already answers. Job {at_work[0]} is at work on the rest; get_job says how far it is."
    return "Call build_hierarchy, so that every document is in the hierarchy."
