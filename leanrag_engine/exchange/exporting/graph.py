"""What is exported: a collection's documents and passages, and the layers of its published generation."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Chunk, Document, Entity, Relation
from leanrag_engine.core.ports import DocumentStore, GenerationStore


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

    def cite(self, chunk_ids: Iterable[str]) -> list[str]:
        """Return the citations of chunks; those of documents that were deleted since the build are left out."""
        return [self.chunks[each].citation for each in chunk_ids if each in self.chunks]


async def read_graph(
    documents: DocumentStore, generations: GenerationStore, collection: str, generation: int, layers: int
) -> ExportedGraph:
    """Read the documents of ``collection`` and the ``layers`` layers of ``generation``."""
    graphs = [
        Graph(
            tuple(await generations.layer(generation, number)),
            tuple(await generations.relations(generation, number)),
        )
        for number in range(layers)
    ]
    return ExportedGraph(
        collection,
        tuple(await documents.find_all(collection)),
        {each.id: each for each in await documents.all_chunks(collection)},
        tuple(graphs),
    )
