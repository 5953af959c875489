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
from leanrag_engine.core.graphs.texts import EmbeddedTexts, digest_all
from leanrag_engine.core.model import Chunk, ChunkHead, Collection
from leanrag_engine.core.text.scripts import count_latin_excess
from leanrag_engine.pipeline.index import Stores, texts_of_windows

PORTION = 2_000  # Chunks that are read at a time: about 10 MB


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


_NO_ROWS: Any = (np.empty(0, dtype=each) for each in (np.intp, np.int32, "S1", np.uint64, np.float32))
_NOTHING = _KnownWindows({}, *_NO_ROWS)


async def index_chunks(stores: Stores, collection: Collection, *, anew: bool = False) -> IndexedChunks:
    """Return the chunks of a collection; ``anew``: all texts are read."""
    name, published = collection.name, collection.generation
    known = None
    if published is not None and not anew:
        known = _KnownWindows.of_arrays(await stores.adjacencies.find_arrays("windows", published))
    pending = await stores.documents.pending_chunks(name) if published else []
    heads = await stores.documents.chunk_heads(name)
    read = partial(stores.documents.read_chunks, name)
    return await anyio.to_thread.run_sync(_index, heads, known or _NOTHING, pending, read)


def _index(
    heads: Sequence[ChunkHead],
    known: _KnownWindows,
    pending: Sequence[Chunk],
    read: Callable[[Sequence[str]], Sequence[Chunk]],
) -> IndexedChunks:
    """Return the chunks, of which those that are not ``known`` are read in portions: the texts of all take more memory than what
    is kept of them."""
    held = {each.id: each for each in pending}

    def fetch(ids: Sequence[str]) -> dict[str, Chunk]:
        lacking = [id_ for id_ in dict.fromkeys(ids) if id_ not in held]
        return {**held, **{each.id: each for each in read(lacking)}} if lacking else held

    found = (-1 if each.id in held else known.places.get(each.id, -1) for each in heads)
    places = np.fromiter(found, dtype=np.intp, count=len(heads))
    counts = np.zeros(len(heads), dtype=np.int32)
    stays = places >= 0
    ids, digests, excesses = [known.ids[:0]], [known.digests[:0]], [known.excesses[:0]]
    own = np.flatnonzero(~stays).tolist()
    for first in range(0, len(own), PORTION):
        part = [heads[place].id for place in own[first : first + PORTION]]
        chunks = [*map(fetch(part).__getitem__, part)]
        counts[own[first : first + PORTION]] = [len(each.windows) for each in chunks]
        texts = texts_of_windows(chunks)
        ids.append(make_ids(id_ for id_, _ in texts))
        digests.append(digest_all([text for _, text in texts]))
        excesses.append(np.array([count_latin_excess(text) for _, text in texts], dtype=np.float32))
    counts[stays] = known.counts[places[stays]]
    starts = np.cumsum(counts) - counts
    owners = np.repeat(np.arange(len(heads)), counts)
    numbers = np.arange(len(owners)) - starts[owners]
    is_old = stays[owners]
    old = known.starts[places[owners[is_old]]] + numbers[is_old]

    def join(made: Sequence[NDArray[Any]], before: NDArray[Any]) -> NDArray[Any]:
        new = np.concatenate(made)
        joined = np.empty(len(owners), dtype=np.result_type(before, new))
        joined[~is_old], joined[is_old] = new, before[old]
        return joined

    def read_texts(wanted: Sequence[int]) -> list[str]:
        chosen = owners[np.asarray(wanted, dtype=np.intp)].tolist()
        at_hand = fetch([heads[place].id for place in chosen])
        own_windows = {place: at_hand[heads[place].id].indexed_windows for place in dict.fromkeys(chosen)}
        return [
            own_windows[place][number][1]
            for place, number in zip(chosen, numbers[list(wanted)].tolist(), strict=True)
        ]

    windows = EmbeddedTexts(join(ids, known.ids), join(digests, known.digests), read_texts)
    return IndexedChunks(heads, windows, counts, join(excesses, known.excesses), pending)
