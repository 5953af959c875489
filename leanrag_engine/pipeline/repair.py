"""Find damaged vectors of a published build, and write them again."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import numpy as np

from leanrag_engine.core.errors import (
    InvalidInput,
    LeanRAGError,
    ModelUnavailable,
    StoreUnreachable,
    StoreUnusable,
    never_built,
)
from leanrag_engine.core.graphs.texts import EmbeddedTexts
from leanrag_engine.core.jobs import ReindexRequest, ReindexResult
from leanrag_engine.core.model import Collection, Generation, Vectors
from leanrag_engine.core.ports import Embedder, ProgressReport

from .index import (
    Stores,
    announce_vector_change,
    embed_rows,
    embedder_trouble,
    read_indexed_texts,
    restore_embedder,
    start_over_if_damaged,
    upsert,
)
from .job_runner import JobRunner
from .status import count_expected_vectors

if TYPE_CHECKING:
    from .building.embedding_reuse import ReusingEmbedder

logger = logging.getLogger(__name__)

REPAIR_PAUSE, LONGEST_REPAIR_PAUSE = 60.0, 600.0
"""Seconds from a repair of the vector index to the next look at it; they double as long as it is not whole."""


async def rebuild_vectors(
    stores: Stores, collection: str, report: ProgressReport, *, damaged_only: bool = False
) -> ReindexResult:
    """Rewrite the published build's vector spaces, or damaged ones alone. Raises ``NotReady``, and as ``restore_embedder``."""
    held = await stores.documents.collection(collection)
    generation = held.generation if held else None
    if held is None or generation is None:
        raise never_built(collection, "Build it; that writes its vectors.")
    spaces = generation.record.spaces.by_kind()
    due = await find_damaged_spaces(stores, held) if damaged_only else list(spaces.values())
    if not due:
        return ReindexResult({})
    embedder = await restore_embedder(stores, generation)
    if not damaged_only:
        await stores.adjacencies.drop_damaged(collection)
    texts = await read_indexed_texts(stores, generation)
    reusing = wrap_embedder(stores, generation, embedder, texts)
    if spaces["windows"] in due:
        await reusing.embed_ahead([text for _, text in texts[spaces["windows"]]], report)
    rows = {space: await embed_rows(reusing, texts[space], report) for space in due}
    async with announce_vector_change(stores):
        is_whole = False
        async with start_over_if_damaged(stores):
            for space in rows:
                await stores.vectors.drop(space)
            is_whole = True
        if not is_whole and len(due) < len(spaces):
            return await rebuild_vectors(stores, collection, report)
        for space, space_rows in rows.items():
            await upsert(stores, space, space_rows, report)
            await stores.generations.settle(space)
    return ReindexResult({kind: len(rows[space].ids) for kind, space in spaces.items() if space in rows})


async def find_damaged_spaces(stores: Stores, held: Collection) -> list[str]:
    """Return the published spaces that are missing, unsearchable or lack rows. Raises ``StoreUnreachable`` if unknown."""
    generation = held.generation
    if generation is None or not held.documents:
        return []
    damaged = []
    expected = count_expected_vectors(held)
    for kind, space in generation.record.spaces.by_kind().items():
        # Ingests and deletions since the build change the number of windows.
        rows = min(expected.get(kind, 0), 1) if kind == "windows" and held.stale else expected.get(kind, 0)
        if await _is_damaged(stores, space, rows, generation.dimension):
            damaged.append(space)
    return damaged


async def _is_damaged(stores: Stores, space: str, rows: int, dimension: int) -> bool:
    try:
        if await stores.vectors.count(space) < rows:
            return True
        # Rows are counted in another file than the one that is searched.
        found = await stores.vectors.search(space, np.ones(dimension, dtype=np.float32), 1) if rows else ()
    except StoreUnreachable:
        raise
    except StoreUnusable:
        return True
    return len(found) < min(rows, 1)


@dataclass(frozen=True, slots=True)
class Damage:
    """What is no longer as written: kinds of vectors, how many kept arrays, and whether the database is older than those, as if restored."""

    vectors: tuple[str, ...]
    arrays: int
    is_old: bool


async def find_damage(stores: Stores, held: Collection) -> Damage:
    """Return the damage of a collection, but for its vectors."""
    kept = await stores.adjacencies.examine(held.name)
    numbers = [each.number for each in await stores.generations.find_all(held.name)]
    later = [int(key.split("-")[1]) > max(numbers, default=0) for key in kept]
    return Damage((), list(kept.values()).count(False), any(later))


async def find_foreign_spaces(stores: Stores, held: Collection) -> list[str]:
    """Return the published spaces that are damaged or whose vectors, in a sample, are not those of their texts. Takes
    seconds and asks no service. Raises ``StoreUnreachable`` if unknown."""
    damaged = await find_damaged_spaces(stores, held)
    generation = held.generation
    if generation is None or not held.documents or stores.embedders.name.startswith("litellm/"):
        return damaged
    try:
        embedder = await restore_embedder(stores, generation)
    except (InvalidInput, ModelUnavailable):
        return damaged
    texts = await read_indexed_texts(stores, generation)
    reusing = wrap_embedder(stores, generation, embedder, texts)
    for space, indexed in texts.items():
        if space in damaged or (held.stale and space == generation.record.spaces.windows):
            continue
        pairs = [(id_, text) for id_, text in indexed if reusing.knows(text)] if held.stale else indexed
        sample = [
            pairs[place]
            for place in sorted({*np.linspace(0, len(pairs) - 1, min(len(pairs), 50)).astype(int)})
        ]
        fresh = await reusing.embed([text for _, text in sample])
        if not await _holds(stores, space, dict(zip([id_ for id_, _ in sample], fresh, strict=True))):
            damaged.append(space)
    return damaged


async def _holds(stores: Stores, space: str, rows: Mapping[str, Vectors]) -> bool:
    """Return whether a space has these rows, and search finds them."""
    try:
        held = await stores.vectors.fetch(space, [*rows])
        found = [await stores.vectors.search(space, row, 1) for row in rows.values() if row.any()]
    except StoreUnreachable:
        raise
    except StoreUnusable:
        return False
    near = 0.99  # models round otherwise in another batch
    return all(id_ in held and held[id_] @ row >= near * (row @ row) for id_, row in rows.items()) and all(
        hits and hits[0].score >= near for hits in found
    )


def wrap_embedder(
    stores: Stores, generation: Generation, embedder: Embedder, texts: Mapping[str, Sequence[tuple[str, str]]]
) -> "ReusingEmbedder":
    """Return what embeds the ``texts`` of a build, by space, anew: its entities beside its windows."""
    from .building.embedding_reuse import ReusingEmbedder  # noqa: PLC0415 - commands that only read import no builder

    windows = EmbeddedTexts.of_pairs(texts[generation.record.spaces.windows])
    return ReusingEmbedder(embedder, stores.vectors, windows)


async def repair_first(stores: Stores, collection: str, report: ProgressReport) -> None:
    """Repair damaged spaces before a job that writes to them."""
    held = await stores.documents.collection(collection)
    if held is None or not await find_damaged_spaces(stores, held):
        return
    try:
        await rebuild_vectors(stores, collection, report, damaged_only=True)
    except (InvalidInput, ModelUnavailable) as problem:
        # Not with this embedder; a build with another one writes all spaces.
        logger.info("The vector index of %s is not repaired yet: %s", collection, problem)


class BackgroundRepair:
    """Repairs damaged vector spaces beside the jobs of a process, from ``watch`` on; others repair them in a build or ingest."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._jobs: JobRunner | None = None
        self._submitted: dict[str, str] = {}
        """The jobs that repair, by collection."""
        self._is_at_work = False

    def watch(self, jobs: JobRunner) -> None:
        """Repair what is damaged, now and when a query meets it."""
        self._jobs = jobs
        jobs.run_beside(self._repair_until_whole)

    def explain_and_repair(self, problem: LeanRAGError) -> str:
        """Return the warning about a search by meaning that failed, and begin to repair what can be repaired."""
        told = f"Search by meaning failed: {problem}"
        if isinstance(problem, StoreUnreachable):
            told += " Until then keywords alone answer."
        if self._jobs is not None and isinstance(problem, StoreUnusable):
            # A server may also come back without what it held.
            self._jobs.run_beside(self._repair_until_whole)
            if not isinstance(problem, StoreUnreachable):
                told += " It is being repaired in the background; until then keywords alone answer."
        return told

    async def _repair_until_whole(self) -> None:
        """Repair what is damaged, and look again after a pause, until nothing is. Does nothing while it is at work already."""
        if self._is_at_work:
            return
        self._is_at_work = True
        try:
            pause = REPAIR_PAUSE
            while await self._repair_damaged():
                await anyio.sleep(pause)
                pause = min(2 * pause, LONGEST_REPAIR_PAUSE)
        finally:
            self._is_at_work = False

    async def _repair_damaged(self) -> bool:
        """Submit a job for each collection with damaged spaces that none is under way for; return whether there was any, or
        the server of the vectors could not be reached."""
        assert self._jobs is not None
        is_damaged = False
        for held in await self._stores.documents.collections():
            running = await self._stores.jobs.find_state(self._submitted.get(held.name, ""))
            if running is not None and not running.status.finished:
                is_damaged = True
                continue
            if await embedder_trouble(self._stores, held.generation):
                continue  # a build with the other embedder writes all spaces
            try:
                if not await find_damaged_spaces(self._stores, held):
                    continue
            except StoreUnreachable as problem:
                logger.warning("The vector index is not examined: %s", problem)
                return True
            is_damaged = True
            job = await self._jobs.submit("reindex", held.name, ReindexRequest(damaged_only=True))
            self._submitted[held.name] = job.id
        return is_damaged
