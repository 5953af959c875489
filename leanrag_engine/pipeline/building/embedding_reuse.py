"""Embed only what changed: a text that the published build embedded under the same identity has the same
vector, which is found by its digest, in memory or in its space."""

import logging
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import anyio.to_thread
import numpy as np

from leanrag_engine.core.errors import InvalidInput, StoreUnusable
from leanrag_engine.core.graphs.graph import Digests, Hierarchy
from leanrag_engine.core.graphs.rows import Places, decode_ids, look_up, make_ids, select_rows
from leanrag_engine.core.graphs.texts import EmbeddedTexts, digest_all
from leanrag_engine.core.model import Generation, SharedText, Vectors
from leanrag_engine.core.ports import (
    Embedder,
    EmbedderWrapper,
    Progress,
    ProgressReport,
    VectorStore,
    ignore_progress,
)
from leanrag_engine.core.vectors import allocate
from leanrag_engine.pipeline.index import Stores, embed_shared, locate_chunks, texts_by_kind, texts_of_windows
from leanrag_engine.pipeline.token_vectors import report_among

from .windows import IndexedChunks

logger = logging.getLogger(__name__)

PORTION = 50 * 1024  # Texts that are embedded at once: 75 MB of vectors of 384 dimensions


class DigestIndex:
    """Finds the places of texts by their digests; of some ``places`` alone, if they are given."""

    def __init__(self, digests: Digests, places: Places | None = None) -> None:
        some = np.arange(len(digests)) if places is None else places
        self._order: Places = some[np.argsort(digests[some], kind="stable")]
        self._sorted: Digests = digests[self._order]

    def find(self, digests: Digests) -> Places:
        """Return a place with a text of each digest, −1 where there is none."""
        return look_up(digests, self._sorted, self._order, missing=-1)


@dataclass(frozen=True, eq=False)
class SpaceIndex:
    """What the rows of one vector space were embedded from, their ``vectors`` (n, d) if at hand, and the
    places of texts that are ``doubtful``: they may not be those of the rows."""

    space: str
    texts: EmbeddedTexts
    vectors: Vectors | None = None
    doubtful: AbstractSet[int] = frozenset()

    @cached_property
    def certain(self) -> Places:
        """The places of the texts that are not in doubt."""
        mask = np.ones(len(self.texts), dtype=bool)
        mask[[*self.doubtful]] = False
        return np.flatnonzero(mask)

    @cached_property
    def places(self) -> DigestIndex:
        """Finds the certain places."""
        return DigestIndex(self.texts.digests, self.certain)

    def locate(self, texts: EmbeddedTexts) -> Places:
        """Return the place of each of these ids, −1 where there is none or its text is in doubt."""
        # An update continues with the windows that it has compared.
        places = np.arange(len(texts)) if texts is self.texts else self.texts.locate(texts.ids)
        if self.doubtful:
            places[np.isin(places, [*self.doubtful])] = -1
        return places


class ReusingEmbedder(EmbedderWrapper):
    """An :class:`leanrag_engine.core.ports.Embedder` that embeds with ``inner`` only what the shelves do not hold, entities beside the
    ``windows`` of their chunks. ``ahead`` are vectors embedded early. ``reused`` and ``embedded`` count texts so far."""

    def __init__(
        self,
        inner: Embedder,
        vectors: VectorStore,
        windows: EmbeddedTexts,
        shelves: Sequence[SpaceIndex] = (),
        folder: Path | None = None,
    ) -> None:
        super().__init__(inner)
        self.vectors = vectors
        self.windows = windows
        self.shelves = shelves
        self.folder = folder
        self.ahead: list[tuple[DigestIndex, Vectors]] = []
        self.reused = self.embedded = 0

    def take_over(self, embedder: Embedder, parts: Iterable[tuple[Digests, Vectors]]) -> None:
        """Keep vectors, given with the digests of their texts, if an embedder like this one made them, as :meth:`embed_ahead`."""
        if (embedder.identity, embedder.dimension) == (self.identity, self.dimension):
            for digests, rows in parts:
                self.ahead.append((DigestIndex(digests), rows))
                self.embedded += len(np.unique(digests))

    async def embed_ahead(self, texts: Sequence[str], report: ProgressReport) -> None:
        """Embed what the shelves do not hold, and keep it until it is asked for."""
        digests = digest_all(texts)
        fresh = await anyio.to_thread.run_sync(self._find_fresh, digests)
        if len(fresh):
            first = fresh[np.sort(np.unique(digests[fresh], return_index=True)[1])]
            wanted = await anyio.to_thread.run_sync(select_rows, texts, first.tolist())
            rows = await self.inner.embed(wanted, report)
            self.ahead.append((DigestIndex(digests[first]), rows))
            self.embedded += len(fresh)

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        rows, fetched, fresh = await self._embed(texts, report)
        self.reused += fetched
        self.embedded += fresh
        return rows

    async def _embed(self, texts: Sequence[str], report: ProgressReport | None) -> tuple[Vectors, int, int]:
        """Return the rows of texts, how many were found on shelves, and how many were embedded."""
        digests = digest_all(texts)
        rows = allocate(len(texts), self.dimension, self.folder)
        missing = await anyio.to_thread.run_sync(self._take_ahead, digests, rows)
        fresh = await self._fetch_unchanged(digests, missing, rows, report or ignore_progress)
        for start in range(0, len(fresh), PORTION):  # all at once would take as much memory as the rows
            part = fresh[start : start + PORTION]
            wanted = await anyio.to_thread.run_sync(select_rows, texts, part.tolist())
            known = len(texts) - len(fresh) + start
            beside = report and partial(report_among, report, known, len(part), len(texts))
            embed = partial(self.inner.embed, report=beside)
            rows[part] = await embed_shared(wanted, self.windows, embed, self._embed_windows)
        return rows, len(missing) - len(fresh), len(fresh)

    def knows(self, text: str) -> bool:
        """Return whether the windows of all chunks of a :class:`SharedText` are there: documents may have changed since a build."""
        chunk_ids = text.chunk_ids if isinstance(text, SharedText) else ()
        return bool((locate_chunks(self.windows, chunk_ids) >= 0).all())

    async def _embed_windows(self, windows: Sequence[str]) -> Vectors:
        """Return the rows of windows, which are not counted: they were as windows."""
        return (await self._embed(windows, None))[0]

    def _find_fresh(self, digests: Digests) -> Places:
        """Return the places of the texts that no shelf holds, and that are not embedded yet."""
        fresh = np.arange(len(digests))
        for index in (*(each for each, _ in self.ahead), *(each.places for each in self.shelves)):
            fresh = fresh[index.find(digests[fresh]) < 0]
        return fresh

    def _take_ahead(self, digests: Digests, rows: Vectors) -> Places:
        """Put what was embedded ahead into ``rows``; return the places still missing."""
        left = np.arange(len(digests))
        for index, held in self.ahead:
            left = _copy_held(index, held, digests, left, rows)
        return left

    async def _fetch_unchanged(
        self, digests: Digests, missing: Places, rows: Vectors, report: ProgressReport
    ) -> Places:
        """Put what the previous build embedded of the ``missing`` places into ``rows``; return the places still missing."""
        left = missing
        # What is at hand comes first.
        for shelf in sorted(self.shelves, key=lambda each: each.vectors is None):
            if not len(left):
                break
            if shelf.vectors is not None:
                left = await anyio.to_thread.run_sync(
                    _copy_held, shelf.places, shelf.vectors, digests, left, rows
                )
                continue
            places = await anyio.to_thread.run_sync(shelf.places.find, digests[left])
            there = places >= 0
            wanted, held = left[there], places[there]
            lost: list[int] = []
            # Between two checks whether the work should stop, 5,000 rows take a fraction of a second.
            for start in range(0, len(wanted), 5_000):
                part = slice(start, start + 5_000)
                done = len(digests) - len(left) + start - len(lost)
                report(Progress("embed", done, len(digests), "fetching what is unchanged"))
                ids = decode_ids(shelf.texts.ids[held[part]])
                fetched = await self._rows(shelf.space, ids)
                for place, id_ in zip(wanted[part].tolist(), ids, strict=True):
                    if id_ in fetched:
                        rows[place] = fetched[id_]
                    else:
                        lost.append(place)
            left = np.sort(np.concatenate((left[~there], np.array(lost, dtype=np.intp))))
        return left

    async def _rows(self, space: str, ids: Sequence[str]) -> dict[str, Vectors]:
        try:
            found = await self.vectors.fetch(space, list(dict.fromkeys(ids)))
        except (StoreUnusable, InvalidInput) as problem:
            logger.info("Vectors of %s cannot be used again: %s", space, problem)
            return {}
        return {id_: row for id_, row in found.items() if row.shape == (self.dimension,)}


def _copy_held(index: DigestIndex, vectors: Vectors, digests: Digests, left: Places, rows: Vectors) -> Places:
    """Put those of the ``vectors`` that are wanted into ``rows``; return the places of those that they lack."""
    places = index.find(digests[left])
    there = places >= 0
    wanted, held = left[there], places[there]
    breaks = np.flatnonzero(np.diff(wanted) != 1) + 1
    for first, after in pairwise((0, *breaks.tolist(), len(wanted))) if len(wanted) else ():
        # Rows that follow each other are copied at once: a copy in between takes ten times as long.
        into = rows[wanted[first] : wanted[first] + after - first]
        np.take(vectors, held[first:after], axis=0, out=into, mode="clip")
    return left[~there]


async def reuse_vectors(
    stores: Stores,
    before: Generation | None,
    hierarchy: Hierarchy | None,
    chunks: IndexedChunks,
    embedder: Embedder,
) -> ReusingEmbedder:
    """Return ``embedder``, which reuses the vectors of the build ``before``, of ``hierarchy``, if they have its identity."""
    shelves: list[SpaceIndex] = []
    same = before and (before.embedder, before.dimension) == (embedder.identity, embedder.dimension)
    if before and hierarchy and same:
        shelves = await index_build(stores, before, hierarchy, chunks)
    return ReusingEmbedder(embedder, stores.vectors, chunks.windows, shelves, stores.settings.data_dir)


async def index_build(
    stores: Stores, generation: Generation, hierarchy: Hierarchy, chunks: IndexedChunks
) -> list[SpaceIndex]:
    """Return the content of a build's spaces, with the rows of doubtful text: windows of documents ingested
    later, which may hold an old vector under the same id, the entities in them, and what an unfinished build may have changed."""
    beside = (await stores.adjacencies.of(generation)).entities_in([each.id for each in chunks.pending])
    texts = await anyio.to_thread.run_sync(texts_by_kind, chunks.windows, hierarchy.layers)
    later = {id_ for id_, _ in texts_of_windows(chunks.pending)}
    vectors = await stores.adjacencies.find_vectors(generation)
    found = []
    for kind, space in generation.record.spaces.by_kind().items():
        held = texts[kind]
        doubtful = make_ids(sorted(later.union(beside) | await stores.generations.find_unsettled(space)))
        places = (await anyio.to_thread.run_sync(held.locate, doubtful)).tolist()
        found.append(SpaceIndex(space, held, vectors.get(kind), frozenset(places) - {-1}))
    return found
