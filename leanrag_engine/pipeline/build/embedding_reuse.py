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
from leanrag_engine.core.graphs.graph import Hierarchy
from leanrag_engine.core.model import Generation, SharedText, Vectors
from leanrag_engine.core.ports import (
    Embedder,
    Progress,
    ProgressReport,
    VectorStore,
    ignore_progress,
)
from leanrag_engine.pipeline.index import Stores, read_indexed_texts, texts_of_windows

logger = logging.getLogger(__name__)


TextKey = str | tuple[str]
"""A text, in brackets if it is one of several parts."""


@dataclass(frozen=True, slots=True, eq=False)
class SpaceIndex:
    """What the rows of one vector space were embedded from: the text by id, and an id by text.

    ``vectors`` (n, d) are at hand and need not be fetched; ``rows`` are the places of ids in them.
    """

    space: str
    texts: Mapping[str, TextKey]
    ids: Mapping[TextKey, str]
    rows: Mapping[str, int] = field(default_factory=dict)
    vectors: Vectors | None = None

    @classmethod
    def of_texts(cls, space: str, texts: Sequence[tuple[str, str]]) -> SpaceIndex:
        keys = {id_: key_text(text) for id_, text in texts}
        return cls(space, keys, {key: id_ for id_, key in keys.items()})


@dataclass(slots=True)
class ReusingEmbedder:
    """An :class:`leanrag_engine.core.ports.Embedder` that embeds with ``inner`` only what the shelves do not hold.

    ``ahead`` are vectors embedded before they are asked for, by the key of their text. ``reused`` and ``embedded``
    count texts so far.
    """

    inner: Embedder
    vectors: VectorStore
    shelves: Sequence[SpaceIndex] = ()
    ahead: dict[TextKey, Vectors] = field(default_factory=dict)
    reused: int = 0
    embedded: int = 0

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    @property
    def unrelated(self) -> float | None:
        return self.inner.unrelated

    async def embed_ahead(self, texts: Sequence[str], report: ProgressReport) -> None:
        """Embed what the shelves do not hold, and keep it until it is asked for."""
        keys = list(map(key_text, texts))
        fresh = dict(zip(keys, texts, strict=True))
        for shelf in self.shelves:
            fresh = {key: text for key, text in fresh.items() if key not in shelf.ids}
        if fresh:
            self.ahead |= dict(zip(fresh, await self.inner.embed(list(fresh.values()), report), strict=True))
            self.embedded += sum(key in fresh for key in keys)

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        """See the Protocol."""
        keys = list(map(key_text, texts))
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        missing: list[int] = []
        for place, key in enumerate(keys):
            if key in self.ahead:
                rows[place] = self.ahead[key]
            else:
                missing.append(place)
        fresh = await self._fetch_unchanged(keys, missing, rows, report or ignore_progress)
        self.reused += len(missing) - len(fresh)
        self.embedded += len(fresh)
        if fresh:
            wanted = [texts[place] for place in fresh]
            rows[fresh] = await self.inner.embed(wanted, _after(len(texts) - len(fresh), len(texts), report))
        return rows

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See the Protocol."""
        return await self.inner.embed_queries(texts)

    async def _fetch_unchanged(
        self, keys: Sequence[TextKey], missing: Sequence[int], rows: Vectors, report: ProgressReport
    ) -> list[int]:
        """Put what the previous build embedded of the ``missing`` places into ``rows``; return the places still missing."""
        left = list(missing)
        for shelf in self.shelves:
            ids = {place: shelf.ids[keys[place]] for place in left if keys[place] in shelf.ids}
            held = [place for place, id_ in ids.items() if id_ in shelf.rows]
            if shelf.vectors is not None:
                for places in _portions(held, 5_000):  # a copy of all would not stay in the processor's cache
                    rows[places] = shelf.vectors[[shelf.rows[ids[place]] for place in places]]
            found = set(held)
            # Between two checks whether the work should stop, 5,000 rows take a fraction of a second.
            for places in _portions([place for place in ids if place not in found], 5_000):
                report(
                    Progress(
                        "embed", len(keys) - len(left) + len(found), len(keys), "fetching what is unchanged"
                    )
                )
                fetched = await self._rows(shelf.space, [ids[place] for place in places])
                for place in places:
                    if ids[place] in fetched:
                        rows[place] = fetched[ids[place]]
                        found.add(place)
            left = [place for place in left if place not in found]
        return left

    async def _rows(self, space: str, ids: Sequence[str]) -> dict[str, Vectors]:
        try:
            found = await self.vectors.fetch(space, list(dict.fromkeys(ids)))
        except (StoreUnusable, InvalidInput) as problem:
            logger.info("Vectors of %s cannot be used again: %s", space, problem)
            return {}
        return {id_: row for id_, row in found.items() if row.shape == (self.dimension,)}


async def reuse_vectors(
    stores: Stores,
    before: Generation | None,
    hierarchy: Hierarchy | None,
    windows: Sequence[tuple[str, str]],
    embedder: Embedder,
) -> ReusingEmbedder:
    """Return ``embedder``, which reuses the vectors of the build ``before`` if they have the same identity.

    ``hierarchy`` are the layers of that build, ``windows`` the ids and texts of those that its collection has now.
    """
    shelves: list[SpaceIndex] = []
    if before is not None and (before.embedder, before.dimension) == (embedder.identity, embedder.dimension):
        shelves = await index_build(stores, before, hierarchy, windows)
    return ReusingEmbedder(embedder, stores.vectors, shelves)


async def index_build(
    stores: Stores,
    generation: Generation,
    hierarchy: Hierarchy | None,
    windows: Sequence[tuple[str, str]],
) -> list[SpaceIndex]:
    """Return the content of a build's spaces, without the rows of which the text is in doubt.

    These are the windows of documents ingested later (for one of which only the title changed, the space may hold the old
    vector or the new one under the same id), and what a build that did not end may have changed.
    """
    texts = await read_indexed_texts(stores, generation, hierarchy, windows)
    pending = await stores.documents.pending_chunks(generation.collection)
    later = {id_ for id_, _ in texts_of_windows(pending)}
    found = []
    vectors = await stores.adjacencies.find_vectors(generation) if hierarchy is not None else None
    base = generation.record.spaces.entities
    for space, held in texts.items():
        doubtful = later | await stores.generations.find_unsettled(space)
        certain = [each for each in held if each[0] not in doubtful]
        shelf = await anyio.to_thread.run_sync(SpaceIndex.of_texts, space, certain)
        if space == base and vectors is not None:
            # They are in the order of the entities, and so are the texts.
            rows = {id_: place for place, (id_, _) in enumerate(held)}
            shelf = replace(shelf, rows=rows, vectors=vectors)
        found.append(shelf)
    return found


def key_text(text: str) -> TextKey:
    """Return what tells texts with equal vectors: a :class:`SharedText` is embedded otherwise than the same words in one
    piece, such as a window of a document that is called like an entity."""
    return (text,) if isinstance(text, SharedText) else text


def _portions(places: Sequence[int], size: int) -> list[Sequence[int]]:
    return [places[start : start + size] for start in range(0, len(places), size)]


def _after(held: int, texts: int, report: ProgressReport | None) -> ProgressReport | None:
    """Return a report that counts the reused texts as done while the rest is embedded."""
    if report is None or not held:
        return report

    def report_rest(step: Progress) -> None:
        said = f"{held} of {texts} texts unchanged"
        # What is left is counted as the embedder does: in windows or sentences.
        report(replace(step, done=step.done + held, total=step.total + held, message=said))

    return report_rest
