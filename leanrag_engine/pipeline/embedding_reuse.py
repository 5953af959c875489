"""Embed only what changed: vectors of the previous build are found by their texts and reused.

Equal identities mean equal vectors, so a text that the published build embedded under the same identity is fetched
from its vector space. What cannot be fetched is embedded again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio.to_thread
import numpy as np

from leanrag_engine.core.errors import InvalidInput, StoreUnusable
from leanrag_engine.core.model import Generation, Vectors, content_id, window_id
from leanrag_engine.core.ports import (
    Embedder,
    Progress,
    ProgressReport,
    VectorStore,
    Windows,
    ignore_progress,
)

from .index import Stores, read_indexed_texts

logger = logging.getLogger(__name__)

PORTION = 5_000
"""Rows fetched between two checks whether the work should stop: a fraction of a second."""


@dataclass(frozen=True, slots=True)
class SpaceIndex:
    """The content of one vector space: the id of each text, by the digest of the text."""

    space: str
    ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BuildIndex:
    """The spaces of one build, by how their texts were embedded: ``whole`` as one row each, ``windows`` as one or more."""

    whole: tuple[SpaceIndex, ...] = ()
    windows: tuple[SpaceIndex, ...] = ()


@dataclass(slots=True)
class ReusingEmbedder:
    """An :class:`leanrag_engine.core.ports.Embedder` that embeds with ``inner`` only what the shelves do not hold.

    ``reused`` and ``embedded`` count texts so far.
    """

    inner: Embedder
    vectors: VectorStore
    shelves: BuildIndex = field(default_factory=BuildIndex)
    reused: int = 0
    embedded: int = 0

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        """See the Protocol."""
        held = await self._fetch_unchanged(
            self.shelves.whole, texts, report or ignore_progress, several=False
        )
        fresh = [place for place in range(len(texts)) if place not in held]
        self._count(held, fresh)
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        for place, (row, *_) in held.items():
            rows[place] = row
        if fresh:
            wanted = [texts[place] for place in fresh]
            rows[fresh] = await self.inner.embed(wanted, _after(held, texts, report))
        return rows

    async def embed_windows(self, texts: Sequence[str], report: ProgressReport | None = None) -> Windows:
        """See the Protocol."""
        held = await self._fetch_unchanged(
            self.shelves.windows, texts, report or ignore_progress, several=True
        )
        fresh = [place for place in range(len(texts)) if place not in held]
        self._count(held, fresh)
        if not held:
            return await self.inner.embed_windows(texts, report)
        rows = [(place, row) for place, windows in held.items() for row in windows]
        if fresh:
            wanted = [texts[place] for place in fresh]
            made = await self.inner.embed_windows(wanted, _after(held, texts, report))
            rows += [(fresh[owner], row) for owner, row in zip(made.owners, made.vectors, strict=True)]
        rows.sort(key=lambda each: each[0])  # stable: the windows of a text keep their order
        return Windows(np.stack([row for _, row in rows]), tuple(place for place, _ in rows))

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See the Protocol."""
        return await self.inner.embed_queries(texts)

    def _count(self, held: Mapping[int, object], fresh: Sequence[int]) -> None:
        self.reused += len(held)
        self.embedded += len(fresh)

    async def _fetch_unchanged(
        self, shelves: Sequence[SpaceIndex], texts: Sequence[str], report: ProgressReport, *, several: bool
    ) -> dict[int, list[Vectors]]:
        """Return the vectors of texts that the previous build embedded, by the positions of the texts."""
        held: dict[int, list[Vectors]] = {}
        if not shelves:
            return held
        digests = await anyio.to_thread.run_sync(lambda: [content_id("", text) for text in texts])
        for shelf in shelves:
            ids = {
                place: shelf.ids[digest]
                for place, digest in enumerate(digests)
                if place not in held and digest in shelf.ids
            }
            for places in _portions(list(ids), PORTION):
                report(Progress("embed", len(held), len(texts), "fetching what is unchanged"))
                held |= await self._fetch(
                    shelf.space, {place: ids[place] for place in places}, several=several
                )
        return held

    async def _fetch(self, space: str, ids: Mapping[int, str], *, several: bool) -> dict[int, list[Vectors]]:
        """Return the first window of each id's text, or all of them if ``several``."""
        held: dict[int, list[Vectors]] = {}
        sought, number = dict(ids), 0
        while sought:
            found = await self._rows(space, [window_id(id_, number) for id_ in sought.values()])
            sought = {place: id_ for place, id_ in sought.items() if window_id(id_, number) in found}
            for place, id_ in sought.items():
                held.setdefault(place, []).append(found[window_id(id_, number)])
            if not several:
                break
            number += 1
        return held

    async def _rows(self, space: str, ids: Sequence[str]) -> dict[str, Vectors]:
        try:
            found = await self.vectors.fetch(space, list(dict.fromkeys(ids)))
        except (StoreUnusable, InvalidInput) as problem:
            logger.info("Vectors of %s cannot be used again: %s", space, problem)
            return {}
        return {id_: row for id_, row in found.items() if row.shape == (self.dimension,)}


async def reuse_vectors(stores: Stores, before: Generation | None, embedder: Embedder) -> ReusingEmbedder:
    """Return ``embedder``, which reuses the vectors of the build ``before`` if they have the same identity."""
    shelves = BuildIndex()
    if before is not None and (before.embedder, before.dimension) == (embedder.identity, embedder.dimension):
        shelves = await index_build(stores, before)
    return ReusingEmbedder(embedder, stores.vectors, shelves)


async def index_build(stores: Stores, generation: Generation) -> BuildIndex:
    """Return the content of a build's spaces, without the chunks of documents ingested later.

    For a chunk of which only the title changed, the space may hold the old vector or the new one under the same id.
    """
    spaces = generation.record.spaces
    texts = await read_indexed_texts(stores, generation, spaces)
    later = {chunk.id for chunk in await stores.documents.pending_chunks(generation.collection)}
    whole, windows = [], []
    for space, held in texts.items():
        ids = await anyio.to_thread.run_sync(_by_digest, [each for each in held if each[0] not in later])
        if space != spaces.chunks:
            whole.append(SpaceIndex(space, ids))
        elif await _is_complete(stores, generation, space):
            windows.append(SpaceIndex(space, ids))
    return BuildIndex(tuple(whole), tuple(windows))


def _by_digest(texts: Sequence[tuple[str, str]]) -> dict[str, str]:
    return {content_id("", text): id_ for id_, text in texts}


async def _is_complete(stores: Stores, generation: Generation, space: str) -> bool:
    """Return whether a space of chunks holds all windows: their number per text is not stored."""
    try:
        return await stores.vectors.count(space) >= generation.record.vectors["chunks"]
    except StoreUnusable:
        return False


def _portions(places: Sequence[int], size: int) -> list[Sequence[int]]:
    return [places[start : start + size] for start in range(0, len(places), size)]


def _after(
    held: Mapping[int, object], texts: Sequence[str], report: ProgressReport | None
) -> ProgressReport | None:
    """Return a report that counts the reused texts as done while the rest is embedded."""
    if report is None or not held:
        return report

    def report_rest(step: Progress) -> None:
        said = f"{len(held)} of {len(texts)} texts unchanged"
        report(replace(step, done=step.done + len(held), total=len(texts), message=said))

    return report_rest
