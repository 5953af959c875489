"""What is exported: a collection's documents and passages, and the layers of its published generation."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Chunk, Document, Entity, Relation
from leanrag_engine.core.ports import DocumentStore


@dataclass(frozen=True)
class ExportedGraph:
    """A collection: ``layers[0]`` is G0, the last one holds the root. ``chunks`` are by id, in reading order."""

    collection: str
    documents: tuple[Document, ...]
    chunks: Mapping[str, Chunk]
    layers: tuple[Graph, ...]

    @cached_property
    def names(self) -> dict[str, str]:
        """The names of all entities by id."""
        return {each.id: each.name for each in self.entities()}

    def entities(self) -> Iterator[Entity]:
        for layer in self.layers:
            yield from layer.entities

    def relations(self) -> Iterator[Relation]:
        for layer in self.layers:
            yield from layer.relations

    @cached_property
    def passages(self) -> Mapping[str, list[Chunk]]:
        """The passages by the ids of their documents, in reading order."""
        return group((chunk.document_id, chunk) for chunk in self.chunks.values())

    def cite(self, chunk_ids: Iterable[str]) -> list[str]:
        """Return the citations of chunks; those of documents that were deleted since the build are left out."""
        return [self.chunks[each].citation for each in chunk_ids if each in self.chunks]


async def read_graph(documents: DocumentStore, collection: str, layers: tuple[Graph, ...]) -> ExportedGraph:
    """Read the documents of a collection, of which these are the published layers."""
    return ExportedGraph(
        collection,
        tuple(await documents.find_all(collection)),
        {each.id: each for each in await documents.all_chunks(collection)},
        layers,
    )
