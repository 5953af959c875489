"""The windows of a collection; those of chunks that the published build knew are kept, as an id is made of
text, headings and windows, so that an update reads the texts of new chunks alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Digests
from leanrag_engine.core.graphs.rows import Ids, Places, make_ids
from leanrag_engine.core.graphs.texts import EmbeddedTexts
from leanrag_engine.core.model import Chunk, ChunkHead, Collection
from leanrag_engine.core.text.scripts import count_latin_excess
from leanrag_engine.pipeline.index import Stores, texts_of_windows


@dataclass(frozen=True, slots=True, eq=False)
class IndexedChunks:
    """The chunks of a collection and the texts of their windows in reading order; ``counts`` of windows by chunk,
    ``excesses`` of Latin words by window, and the chunks ``pending`` since the build whose vectors are reused."""

    heads: Sequence[ChunkHead]
    windows: EmbeddedTexts
    counts: NDArray[np.int32]
    excesses: NDArray[np.float32]
    pending: Sequence[Chunk]

    def is_mostly_latin(self) -> bool:
        """Return whether most words are in Latin letters."""
        return bool(self.excesses.sum(dtype=np.float64) >= 0)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what the next update needs of the windows."""
        return {
            "chunks": make_ids(each.id for each in self.heads),
            "counts": self.counts,
            "ids": self.windows.ids,
            "digests": self.windows.digests,
            "excesses": self.excesses,
        }


@dataclass(frozen=True, slots=True, eq=False)
class _KnownWindows:
    """The windows of the published build: the place of each chunk by its id, the first window of each and their number."""

    places: Mapping[str, int]
    starts: Places
    counts: NDArray[np.int32]
    ids: Ids
    digests: Digests
    excesses: NDArray[np.float32]

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]] | None) -> Self | None:
        """Read what :meth:`IndexedChunks.arrays` gave; None if these are other arrays."""
        names = ("chunks", "counts", "ids", "digests", "excesses")
        if arrays is None or not arrays.keys() >= {*names}:
            return None
        chunks, counts, ids, digests, excesses = (arrays[name] for name in names)
        if len(chunks) != len(counts) or not counts.sum() == len(ids) == len(digests) == len(excesses):
            return None
        places = {id_.decode("ascii"): place for place, id_ in enumerate(chunks.tolist())}
        return cls(places, np.cumsum(counts) - counts, counts, ids, digests, excesses)


async def index_chunks(stores: Stores, collection: Collection, *, anew: bool = False) -> IndexedChunks:
    """Return the chunks of a collection; ``anew``: all texts are read."""
    name, published = collection.name, collection.generation
    known = None
    if published is not None and not anew:
        known = _KnownWindows.of_arrays(await stores.adjacencies.find_arrays("windows", published))
    if known is None:
        chunks = await stores.documents.all_chunks(name)
        pending = await stores.documents.pending_chunks(name) if published else chunks
        return await anyio.to_thread.run_sync(_index_read, chunks, pending)
    heads = await stores.documents.chunk_heads(name)
    pending = await stores.documents.pending_chunks(name)
    held = {each.id: each for each in pending}
    lacking = [each.id for each in heads if each.id not in held and each.id not in known.places]
    held |= {each.id: each for each in await stores.documents.chunks(name, lacking)} if lacking else {}
    read = partial(stores.documents.read_chunks, name)
    return await anyio.to_thread.run_sync(_index_known, heads, held, known, pending, read)


def _index_read(chunks: Sequence[Chunk], pending: Sequence[Chunk]) -> IndexedChunks:
    heads = [ChunkHead(each.id, each.document_id, each.number, each.title) for each in chunks]
    counts = np.array([len(each.windows) for each in chunks], dtype=np.int32)
    texts = texts_of_windows(chunks)
    return IndexedChunks(heads, EmbeddedTexts.of_pairs(texts), counts, _count_excesses(texts), pending)


def _count_excesses(texts: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
    return np.array([count_latin_excess(text) for _, text in texts], dtype=np.float32)


def _index_known(
    heads: Sequence[ChunkHead],
    held: Mapping[str, Chunk],
    known: _KnownWindows,
    pending: Sequence[Chunk],
    read: Callable[[Sequence[str]], Sequence[Chunk]],
) -> IndexedChunks:
    """Return the chunks of which those ``held`` are read already, and the others ``known``."""
    places = np.array([-1 if each.id in held else known.places[each.id] for each in heads], dtype=np.intp)
    counts = np.zeros(len(heads), dtype=np.int32)
    stays = places >= 0
    counts[stays] = known.counts[places[stays]]
    own = np.flatnonzero(~stays).tolist()
    counts[own] = [len(held[heads[place].id].windows) for place in own]
    starts = np.cumsum(counts) - counts
    texts = texts_of_windows([held[heads[place].id] for place in own])
    made = EmbeddedTexts.of_pairs(texts)
    owners = np.repeat(np.arange(len(heads)), counts)
    numbers = np.arange(len(owners)) - starts[owners]
    is_old = stays[owners]
    old = (known.starts[places[owners]] + numbers)[is_old]
    ids = np.empty(len(owners), dtype=np.result_type(known.ids, made.ids))
    digests = np.empty(len(owners), dtype=np.uint64)
    excesses = np.empty(len(owners), dtype=np.float32)
    ids[is_old], digests[is_old], excesses[is_old] = known.ids[old], known.digests[old], known.excesses[old]
    ids[~is_old], digests[~is_old], excesses[~is_old] = made.ids, made.digests, _count_excesses(texts)

    def read_texts(wanted: Sequence[int]) -> list[str]:
        chosen = owners[np.asarray(wanted, dtype=np.intp)].tolist()
        lacking = list(dict.fromkeys(id_ for place in chosen if (id_ := heads[place].id) not in held))
        at_hand = {**held, **{each.id: each for each in read(lacking)}} if lacking else held
        windows = {place: at_hand[heads[place].id].indexed_windows for place in dict.fromkeys(chosen)}
        return [
            windows[place][number][1]
            for place, number in zip(chosen, numbers[list(wanted)].tolist(), strict=True)
        ]

    return IndexedChunks(heads, EmbeddedTexts(ids, digests, read_texts), counts, excesses, pending)
