"""The history of a collection: what each published build, deletion or rollback changed, why, and at what
cost. Generations are numbered across a data folder; entries stay when data are pruned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from .model import BuildHistory, Document, EmbeddingCounts, Generation, LayerCount, Spent

READ_GENERATIONS = 2
"""The published generation, and the one before it for queries that began before the publication. Their data are always
kept, and vectors of these alone: updates write into the spaces of the build before them."""


@dataclass(frozen=True, slots=True)
class NamedChanges:
    """How many entities changed in one way, and the names of the foremost of them by ref."""

    total: int = 0
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EntityChanges:
    """The entities that are new, gone, or described in other words, and those whose written text has become stale."""

    added: NamedChanges = NamedChanges()
    removed: NamedChanges = NamedChanges()
    changed: NamedChanges = NamedChanges()
    stale: NamedChanges = NamedChanges()


@dataclass(frozen=True, slots=True)
class GraphChanges:
    """What differs between two generations: the ``entities`` of layer 0, the ``summaries``, which are the aggregated
    entities of all layers above, and the written ``sentences`` of relations there, of which only stale ones are listed."""

    entities: EntityChanges = EntityChanges()
    summaries: EntityChanges = EntityChanges()
    sentences: EntityChanges = EntityChanges()


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """How many documents are new in a generation, have another content in it, or were deleted."""

    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Publication:
    """What the history keeps of a generation beside its record: ``changes`` to the one before, which was built from
    revision ``since`` (-1: none), ``removed`` documents, the ``job`` with its model calls, and when work ``started``."""

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    changes: GraphChanges = GraphChanges()
    since: int = -1
    removed: int = 0
    job: str = ""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One published generation of a collection, built from revision ``revision``. ``build`` says how it came
    about and why; ``documents`` and ``changes`` what differs from the generation before. It took ``seconds``, and model
    calls that used ``spent``, all steps together. ``available``: it can be rolled back to, as its data are still there."""

    number: int
    revision: int
    created_at: datetime
    layers: tuple[LayerCount, ...]
    build: BuildHistory
    documents: DocumentChanges
    changes: GraphChanges
    embedded: EmbeddingCounts
    spent: Spent
    seconds: float
    available: bool


@dataclass(frozen=True, slots=True)
class ChangedDocument:
    """A document ``added`` or ``changed``; ``pending``: the published generation lacks it as it is, after a rollback perhaps an old one."""

    document: Document
    added: bool
    changed: bool
    pending: bool


@dataclass(frozen=True, slots=True)
class CollectionChanges:
    """What changed in a collection from generation ``since`` (0: before the first) to ``published``, and after it.
    Not ``exact``: the earlier one is pruned; ``graph`` adds up what each recorded, as upper bounds."""

    since: int
    published: Generation
    documents: tuple[ChangedDocument, ...]
    removed: int
    graph: GraphChanges
    exact: bool
