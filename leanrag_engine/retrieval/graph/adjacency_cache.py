"""Where a generation's adjacency comes from: this process's memory, a file, or else the graph store. Beside it stands what
the next update starts from: the vectors of the published generation's entities (a vector store takes ten times as long to
give them all), the index of the mentions that G0 was merged from, the columns of all layers, and digests of the windows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.core.graphs.graph import Digests, Flags, Graph, Weights, digest_text, digest_texts
from leanrag_engine.core.graphs.rows import Ids, Places, find_ids, find_same, make_ids, select_rows, sort_ids
from leanrag_engine.core.graphs.stored import StoredPlaces, pack_layers
from leanrag_engine.core.model import Chunk, ChunkHead, Generation, Vectors, content_id
from leanrag_engine.core.ports import ArrayStore, DocumentStore, GenerationStore
from leanrag_engine.core.runtime.threads import run_blocking
from leanrag_engine.core.text.language.names import name_key

from .adjacency import Adjacency, EdgeKind

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
        await self._arrays.drop_all_but(prefix_of(collection), {*map(key_of, generations), *of_newest})

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


@dataclass(frozen=True, slots=True, eq=False)
class PreviousAdjacency:
    """The adjacency of the build before, and its layers: in an update the mentions of entities that did not change come from
    there, and rows are read only of the others."""

    adjacency: Adjacency
    layers: Sequence[Graph]


class _Edges(NamedTuple):
    """Edges in columns: their nodes, kinds and strengths, each (m,)."""

    near: NDArray[np.int32]
    far: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    strengths: Weights


class _Mentions(NamedTuple):
    """Mentions in columns: the number of the entity, counted over all layers, and the place of the chunk, −1 for one that
    does not exist."""

    entities: Places
    chunks: Places


def make_adjacency(
    layers: Sequence[Graph],
    chunks: Iterable[Chunk | ChunkHead],
    name_keys: Mapping[str, str] = MappingProxyType({}),
    before: PreviousAdjacency | None = None,
) -> Adjacency:
    """Build from the layers G0 … Gk and the chunks that they were built from. O(n log n). ``name_keys`` are keys of names,
    as far as they are known: making one takes longer than anything else here. What ``before`` is only saves time."""
    held = list(chunks)
    ids = make_ids(each.id for each in held)
    order = sort_ids(ids)
    chunk_ids = ids[order]
    titles, title_keys = _digest_titles([held[place].title for place in order.tolist()], before)
    ids = np.concatenate([make_ids(()), *(layer.nodes.ids for layer in layers)])
    order = sort_ids(ids)
    entity_ids = ids[order]
    places = np.empty(len(ids), dtype=np.int32)
    places[order] = np.arange(len(ids))
    nodes = places + np.int32(len(chunk_ids))
    sizes = [len(layer.entities) for layer in layers]
    mentions = _collect_mentions(layers, chunk_ids, before, entity_ids, places)
    incomplete = np.zeros(len(ids), dtype=bool)
    incomplete[places[mentions.entities[mentions.chunks < 0]]] = True
    keys = np.concatenate([digest_texts(()), *(layer.nodes.find_name_keys(name_keys) for layer in layers)])
    parents = [find_ids(layer.nodes.parents, entity_ids) for layer in layers]
    edges = [_join_chunks(mentions, nodes, keys, title_keys)]
    if layers:
        edges.append(_join_base(layers[0], nodes[: sizes[0]]))
    return Adjacency(
        chunk_ids,
        titles,
        title_keys,
        entity_ids,
        np.repeat(np.arange(len(layers), dtype=np.uint8), sizes)[order],
        np.concatenate([np.empty(0, dtype=np.int32), *parents]).astype(np.int32)[order],
        incomplete,
        *_make_rows(_Edges(*map(np.concatenate, zip(*edges, strict=True))), len(chunk_ids) + len(ids)),
    )


def _digest_titles(titles: Sequence[str], before: PreviousAdjacency | None) -> tuple[Digests, Digests]:
    """Return the digests of the titles, and those of their keys as names."""
    known: dict[int, int] = {}
    if before is not None:
        held = before.adjacency
        known = dict(zip(held.titles.tolist(), held.title_keys.tolist(), strict=True))
    numbers = {title: number for number, title in enumerate(dict.fromkeys(titles))}
    digests = digest_texts(numbers)
    pairs = zip(numbers, digests.tolist(), strict=True)
    keys = [known[digest] if digest in known else digest_text(name_key(title)) for title, digest in pairs]
    places = np.fromiter(map(numbers.__getitem__, titles), dtype=np.intp)
    return digests[places], np.array(keys, dtype=np.uint64)[places]


def _collect_mentions(
    layers: Sequence[Graph],
    chunk_ids: Ids,
    before: PreviousAdjacency | None,
    entity_ids: Ids,
    places: NDArray[np.int32],
) -> _Mentions:
    """Return all mentions, by entity in the order of the layers; ``places`` (n,) are those of the entities in ``entity_ids``."""
    total = len(places)
    if before is None:
        return _read_mentions(layers, np.zeros(total, dtype=bool), chunk_ids)
    old_places = find_ids(entity_ids, before.adjacency.entity_ids)[places]
    known = _find_unchanged(layers, before.layers) & (old_places >= 0)
    known[known] = ~before.adjacency.incomplete[old_places[known]]
    numbers = np.flatnonzero(known)
    carried = _carry_mentions(before.adjacency, numbers, old_places[numbers], chunk_ids)
    read = _read_mentions(layers, known, chunk_ids)
    found = _Mentions(*(np.concatenate(pair) for pair in zip(carried, read, strict=True)))
    order = np.argsort(found.entities, kind="stable")
    return _Mentions(found.entities[order], found.chunks[order])


def _find_unchanged(layers: Sequence[Graph], before: Sequence[Graph]) -> Flags:
    """Return which entities of all ``layers`` are the same ones in the layer of their number ``before``."""
    old = [*before[: len(layers)], *[Graph((), ())] * (len(layers) - len(before))]
    found = [find_same(then.entities, now.entities) >= 0 for then, now in zip(old, layers, strict=True)]
    return np.concatenate([np.zeros(0, dtype=bool), *found])


def _carry_mentions(held: Adjacency, numbers: Places, old_places: Places, chunk_ids: Ids) -> _Mentions:
    """Return the mentions that an adjacency holds of the entities at ``old_places``, whose ``numbers`` are these now."""
    count = len(held.chunk_ids)
    # The mentions of an entity come first in its row.
    base = held.offsets[count]
    before = np.concatenate([[0], np.cumsum(held.targets[base:] < count)])
    starts, stops = held.offsets[old_places + count], held.offsets[old_places + count + 1]
    counts = before[stops - base] - before[starts - base]
    edges = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return _Mentions(np.repeat(numbers, counts), find_ids(held.chunk_ids, chunk_ids)[held.targets[edges]])


def _read_mentions(layers: Sequence[Graph], known: Flags, chunk_ids: Ids) -> _Mentions:
    """Return the mentions of the entities but the ``known`` ones (n,) from their rows, each once."""
    numbers = np.flatnonzero(~known)
    bounds = [0, *accumulate([len(layer.entities) for layer in layers])]
    cuts = np.searchsorted(numbers, bounds).tolist()
    parts = zip(layers, bounds, cuts, cuts[1:], strict=False)
    rows = [
        select_rows(layer.entities, (numbers[start:stop] - first).tolist())
        for layer, first, start, stop in parts
    ]
    cited = [each.chunk_ids for each in chain.from_iterable(rows)]
    entities = np.repeat(numbers, [len(each) for each in cited])
    found = find_ids(make_ids(chain.from_iterable(cited)), chunk_ids)
    _, first = np.unique(entities * (len(chunk_ids) + 1) + found, return_index=True)
    chosen = np.sort(first)
    return _Mentions(entities[chosen], found[chosen])


def _join_chunks(mentions: _Mentions, nodes: NDArray[np.int32], keys: Digests, title_keys: Digests) -> _Edges:
    there = mentions.chunks >= 0
    entities, chunks = mentions.entities[there], mentions.chunks[there]
    titled = title_keys[chunks] == keys[entities]
    return _Edges(
        nodes[entities],
        chunks.astype(np.int32),
        np.where(titled, EdgeKind.TITLE, EdgeKind.MENTION).astype(np.uint8),
        np.ones(len(chunks)),
    )


def _join_base(base: Graph, nodes: NDArray[np.int32]) -> _Edges:
    """Return the edges of the relations of layer 0, whose entities are ``nodes``."""
    near, far = nodes[base.ends].T
    kinds = np.full(len(near), EdgeKind.RELATION, dtype=np.uint8)
    return _Edges(near, far, kinds, 1.0 + np.log(np.maximum(base.edges.weights, 1)))


def _group(keys: NDArray[Any], count: int) -> tuple[NDArray[np.int64], Places]:
    """Return where the keys 0, 1, … below ``count`` begin in their order, and the places of the keys in that order, those of
    equal ones ascending. Faster than sorting: O(n)."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - it takes long to import, and a query finds its adjacency made

    rows = np.arange(len(keys) + 1)
    grouped = csr_array((np.ones(len(keys), dtype=bool), keys, rows), shape=(len(keys), count)).tocsc()
    return grouped.indptr.astype(np.int64), grouped.indices


def _make_rows(
    edges: _Edges, nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.float32]]:
    offsets, order = _group(np.concatenate([edges.near, edges.far]), nodes)
    targets = np.concatenate([edges.far, edges.near])[order]
    place = np.where(order < len(edges.near), order, order - len(edges.near))
    return offsets, targets, edges.kinds[place], edges.strengths.astype(np.float32)[place]
