"""Where a generation's adjacency comes from: this process's memory, a file, or else the graph store. Beside it stands what
the next update starts from: the vectors of the published generation's entities (a vector store takes ten times as long to
give them all), the index of the mentions that G0 was merged from, the columns of all layers, and digests of the windows."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.graphs.stored import StoredPlaces, pack_layers
from leanrag_engine.core.model import Chunk, ChunkHead, Generation, Vectors, content_id
from leanrag_engine.core.ports import ArrayStore, DocumentStore, GenerationStore
from leanrag_engine.core.runtime.threads import run_blocking

from .adjacency import Adjacency
from .adjacency_building import PreviousAdjacency, make_adjacency

KeptKind = Literal["vectors", "mentions", "columns", "windows"]
"""What is kept beside the adjacency, of the newest generation alone."""


async def read_layers(
    generations: GenerationStore, generation: Generation, *, base_relations: bool = True
) -> tuple[Graph, ...]:
    """Return all layers of a generation; layer 0 without its relations unless ``base_relations``."""
    number = generation.number
    return tuple(
        [
            Graph(
                tuple(await generations.layer(number, each.layer)),
                tuple(await generations.relations(number, each.layer))
                if each.layer or base_relations
                else (),
            )
            for each in generation.layers
        ]
    )


class AdjacencyCache:
    """The adjacency of each requested generation; ``capacity`` of them stay open in this process. May be used
    from several event loops."""

    def __init__(
        self, documents: DocumentStore, generations: GenerationStore, arrays: ArrayStore, capacity: int = 4
    ) -> None:
        self._capacity = capacity
        self._documents = documents
        self._generations = generations
        self._arrays = arrays
        self._held: dict[int, Adjacency] = {}

    async def of(self, generation: Generation) -> Adjacency:
        held = self._held.get(generation.number)
        if held is None:
            held = await self._find(generation) or await self._from_store(generation)
            self._hold(generation, held)
        return held

    async def _find(self, generation: Generation) -> Adjacency | None:
        """Return what was kept; None if nothing was."""
        held = self._held.get(generation.number)
        if held is None:
            stored = await self._arrays.load(key_of(generation))
            held = Adjacency.from_arrays(stored) if stored else None
        return held

    async def keep(
        self,
        generation: Generation,
        layers: Sequence[Graph],
        chunks: Iterable[Chunk | ChunkHead],
        name_keys: Mapping[str, str] = MappingProxyType({}),
        before: Generation | None = None,
        layers_before: Sequence[Graph] = (),
    ) -> None:
        """Make and keep the adjacency of what was just published, so that no query has to; see
        :func:`make_adjacency`. ``before`` is the generation that was published until then, with its layers."""
        held = await self._find(before) if before else None
        known = PreviousAdjacency(held, layers_before) if held else None
        made = await run_blocking(make_adjacency, layers, chunks, name_keys, known)
        self._hold(generation, made)
        await self._arrays.save(key_of(generation), made.arrays())

    async def keep_arrays(
        self, kind: KeptKind, generation: Generation, arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Keep arrays of a generation beside its adjacency. Vectors (n, d) are those of the "entities" of layer 0 and of the
        "aggregates" above, in the order of the layers; mentions the index of those that G0 was merged from; windows
        tell which ones the generation's were."""
        await self._arrays.save(_key_of_kind(generation, kind), arrays)

    async def find_arrays(self, kind: KeptKind, generation: Generation) -> dict[str, NDArray[Any]] | None:
        """Return what was kept; None if nothing was."""
        return await self._arrays.load(_key_of_kind(generation, kind))

    async def find_vectors(self, generation: Generation) -> dict[str, Vectors]:
        """Return what was kept for all entities of a kind, by kind."""
        stored = await self.find_arrays("vectors", generation) or {}
        base, *above = (each.entities for each in generation.layers)
        wanted = {"entities": base, "aggregates": sum(above)}
        return {
            kind: stored[kind]
            for kind, count in wanted.items()
            if kind in stored
            and stored[kind].shape == (count, generation.dimension)
            and stored[kind].dtype == np.float32
        }

    async def keep_columns(
        self, generation: Generation, layers: Sequence[Graph], places: StoredPlaces
    ) -> None:
        """Keep the columns of all layers, whose rows are at these ``places`` of the store."""
        await self.keep_arrays("columns", generation, await run_blocking(pack_layers, layers, places))

    async def sweep(self, collection: str, generations: Sequence[Generation]) -> None:
        """Drop the arrays of the collection's generations but ``generations``, newest first; vectors, mentions, columns
        and windows stay of the newest alone."""
        newest = generations[:1]
        of_newest = {_key_of_kind(each, kind) for each in newest for kind in get_args(KeptKind)}
        kept = {*map(key_of, generations), *of_newest}
        await self._arrays.drop_all_but(prefix_of(collection), kept)

    async def examine(self, collection: str) -> dict[str, bool]:
        """Return the keys of all that is kept of a collection, and whether each is what was stored."""
        return await self._arrays.examine(prefix_of(collection))

    async def drop_damaged(self, collection: str) -> None:
        """Drop what is no longer what was stored: it is made anew when it is needed."""
        sound = [key for key, is_sound in (await self.examine(collection)).items() if is_sound]
        await self._arrays.drop_all_but(prefix_of(collection), sound)

    def _hold(self, generation: Generation, adjacency: Adjacency) -> None:
        self._held[generation.number] = adjacency
        for old in sorted(self._held)[: -self._capacity]:
            self._held.pop(old, None)

    async def _from_store(self, generation: Generation) -> Adjacency:
        layers = await read_layers(self._generations, generation)
        found = [(len(layer.entities), len(layer.relations)) for layer in layers]
        if found != [(each.entities, each.relations) for each in generation.layers]:
            raise StoreUnusable(
                f"Generation {generation.number} of collection {generation.collection!r} is incomplete.",
                "Ask again; if that does not help, build the hierarchy again.",
            )
        chunks = await self._documents.all_chunks(generation.collection)
        made = await run_blocking(make_adjacency, layers, chunks)
        await self._arrays.save(key_of(generation), made.arrays())
        return made


def prefix_of(collection: str) -> str:
    return f"{content_id('', collection)}-"


def key_of(generation: Generation) -> str:
    """Return a key that depends also on the time of the build: another store in the same folder counts its generations anew."""
    made = content_id("", generation.created_at.isoformat())
    return f"{prefix_of(generation.collection)}{generation.number}-{made}"


def _key_of_kind(generation: Generation, kind: KeptKind) -> str:
    return f"{key_of(generation)}-{kind}"
