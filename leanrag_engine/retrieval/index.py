"""One collection as a query reads it: its published generation and the stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leanrag_engine.core.errors import never_built, no_documents
from leanrag_engine.core.model import Collection, Generation, QueryTokens, Vectors, VectorSpaces
from leanrag_engine.core.ports import DocumentStore, Embedder, GenerationStore, Tokenizer, VectorStore

from .graph.adjacency import Adjacency


class BuildState(StrEnum):
    """Whether the graph that answers is the whole corpus."""

    READY = "ready"
    STALE = "stale"  # Documents came, changed or went since the published build
    MISSING = "missing"  # There is no build: keyword search over passages is all there is


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """The stores and names that a query needs. Before the first build there is no ``embedder``, no ``spaces`` and
    no ``adjacency``; browsing needs neither the first nor the last."""

    documents: DocumentStore
    generations: GenerationStore
    vectors: VectorStore
    embedder: Embedder | None
    tokenizer: Tokenizer
    collection: Collection
    spaces: VectorSpaces | None
    adjacency: Adjacency | None = None
    embedded: Mapping[str, Vectors | None] = field(default_factory=dict)
    """The vectors of texts that were embedded before; see ``embed_texts``."""
    tokens: Mapping[str, QueryTokens] = field(default_factory=dict)
    """The tokens of these texts, if the embedder has vectors of tokens."""
    version: int = 0
    """The version of the store when it was opened: it moves with every write to what queries read."""
    building: str = ""  # How far the first build is, if it runs

    @property
    def state(self) -> BuildState:
        if self.collection.generation is None:
            return BuildState.MISSING
        return BuildState.STALE if self.collection.stale else BuildState.READY

    @property
    def generation(self) -> Generation:
        """The published build. Raises ``NotReady`` if there is none."""
        if self.collection.generation is None:
            self.check_documents()
            next_step = "Build it first; until then questions are answered by keyword search over passages."
            raise never_built(self.collection.name, next_step, self.building)
        return self.collection.generation

    def check_documents(self) -> None:
        """Raise ``NotReady`` if there is nothing to search."""
        if not self.collection.documents:
            raise no_documents(self.collection.name)
