"""Write the vectors of a build: a rebuild into new spaces, an update into the spaces of the build that it continues.
An update writes new and changed rows before the generation is published and deletes others afterwards: readers find
theirs until the switch. Until it has ended its rows are unsettled: a later build writes them again."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import anyio.to_thread
import numpy as np

from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.graphs.rows import Places, decode_ids
from leanrag_engine.core.graphs.texts import EmbeddedTexts
from leanrag_engine.core.model import Collection, Vectors, VectorSpaces
from leanrag_engine.core.ports import Progress, ProgressReport, ignore_progress
from leanrag_engine.core.vectors import allocate
from leanrag_engine.pipeline.index import Stores, VectorRows, announce_vector_change, upsert, write_space
from leanrag_engine.pipeline.token_vectors import cut_between_chunks, embed_and_keep

from .embedding_reuse import ReusingEmbedder, SpaceIndex

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WrittenVectors:
    """The spaces of a build, how many rows each kind has, and the ids that each space holds in excess."""

    spaces: VectorSpaces
    counts: Mapping[str, int]
    excess: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _SpaceChange:
    """What makes a space hold the rows of a build: rows to write (None: it has all), and ids to delete afterwards; ``whole``: it is
    a new space, and these are all of its rows."""

    space: str
    rows: VectorRows | None
    excess: Sequence[str] = ()
    whole: bool = False


async def write_windows_early(
    stores: Stores,
    collection: Collection,
    embedder: ReusingEmbedder,
    windows: EmbeddedTexts,
    report: ProgressReport,
) -> None:
    """Embed the windows of a build that reuses none, and write each portion to their space at once: a build that breaks off
    goes on there."""
    space = VectorSpaces.of_build(collection, embedder.identity, {"windows": windows.key}).windows
    held, done = allocate(len(windows), embedder.dimension, stores.settings.data_dir), 0
    async with announce_vector_change(stores):
        for part, beside in cut_between_chunks(windows, report):
            ids = decode_ids(part.ids)
            rows = await _fetch_all(stores, space, ids)
            if rows is None:
                rows = await embed_and_keep(stores.documents, collection.name, embedder.inner, part, beside)
                await upsert(stores, space, VectorRows(ids, rows), ignore_progress)
            held[done : done + len(ids)] = rows
            done += len(ids)
    embedder.take_over(embedder.inner, [(windows.digests, held)])
    await _release(stores, len(windows))


async def write_entities_early(
    stores: Stores, collection: Collection, embedder: ReusingEmbedder, base: Graph, vectors: Vectors
) -> None:
    """Write the entities of G0 to a new space, for which a processor is free while the layers above are built."""
    texts = EmbeddedTexts.of_entities(base.entities, base.nodes)
    space = VectorSpaces.of_build(collection, embedder.identity, {"entities": texts.key}).entities
    async with announce_vector_change(stores):
        await write_space(stores, space, VectorRows(decode_ids(texts.ids), vectors), ignore_progress)
    await _release(stores, len(texts))


async def _release(stores: Stores, rows: int, *, many: int = 20_000) -> None:
    """Close the index of many rows, which a build does not search: it takes 2.7 kB a row."""
    if rows > many:
        await stores.vectors.refresh()


async def _fetch_all(stores: Stores, space: str, ids: Sequence[str]) -> Vectors | None:
    """Return the rows of a space with these ids, None if it lacks any."""
    try:
        held = await stores.vectors.fetch(space, ids)
    except StoreUnusable:
        return None
    return np.stack([held[id_] for id_ in ids]) if ids and held.keys() >= {*ids} else None


async def write_vectors(
    stores: Stores,
    collection: Collection,
    embedder: ReusingEmbedder,
    texts: Mapping[str, EmbeddedTexts],
    vectors: Mapping[str, Vectors],
    report: ProgressReport,
    *,
    in_place: bool,
) -> WrittenVectors:
    """Write the rows of a build by kind; ``vectors`` are those of ``texts`` that are embedded already.
    ``in_place``: the published spaces are changed where that is better than new ones."""
    before = collection.generation.record.spaces.by_kind() if collection.generation else {}
    shelves = {each.space: each for each in embedder.shelves} if in_place else {}
    changes: dict[str, _SpaceChange] = {}
    for kind, wanted in texts.items():
        shelf, held = shelves.get(before.get(kind, "")), vectors.get(kind)
        change = await _plan_change(stores, shelf, embedder, wanted, held, report) if shelf else None
        if change is None:
            space = VectorSpaces.of_build(collection, embedder.identity, {kind: wanted.key}).by_kind()[kind]
            rows = None
            if not await _is_complete(stores, space, len(wanted)):
                written = await _embed(embedder, wanted, report) if held is None else held
                rows = VectorRows(decode_ids(wanted.ids), written)
            change = _SpaceChange(space, rows, whole=True)
        changes[kind] = change
    async with announce_vector_change(stores):
        for kind, change in [*changes.items()]:
            if change.rows is None:
                continue
            if change.whole:
                await write_space(stores, change.space, change.rows, report)
            else:
                await stores.generations.note_unsettled(change.space, change.rows.ids)
                await upsert(stores, change.space, change.rows, report)
                if await stores.vectors.count(change.space) != len(texts[kind]) + len(change.excess):
                    excess = {*await stores.vectors.ids(change.space)}.difference(decode_ids(texts[kind].ids))
                    changes[kind] = replace(change, excess=sorted(excess))
    return WrittenVectors(
        VectorSpaces(**{kind: change.space for kind, change in changes.items()}),
        {kind: len(texts[kind]) for kind in changes},
        {change.space: change.excess for change in changes.values() if not change.whole},
    )


async def _is_complete(stores: Stores, space: str, rows: int) -> bool:
    """Return whether all rows were written early: a space's name identifies its ids and texts."""
    with suppress(StoreUnusable):
        count = await stores.vectors.count(space)
        await _release(stores, count)
        return count == rows
    return False


async def _plan_change(
    stores: Stores,
    shelf: SpaceIndex,
    embedder: ReusingEmbedder,
    texts: EmbeddedTexts,
    vectors: Vectors | None,
    report: ProgressReport,
) -> _SpaceChange | None:
    """Return what turns the space of the shelf into one with these rows; None if a new space is better."""
    try:
        rows, changed, excess = await _find_content(stores, shelf, texts)
    except StoreUnusable:
        return None
    # Beyond half of the rows a new space costs about as much, by reasoning, and its index has no deleted rows to pass by.
    if not rows or len(changed) + len(excess) > 0.5 * rows:
        return None
    chosen = texts.choose(changed)
    if vectors is None:
        embedder.reused += len(texts) - len(changed)
        written = await _embed(embedder, chosen, report)
    else:
        written = vectors[changed]
    return _SpaceChange(shelf.space, VectorRows(decode_ids(chosen.ids), written), excess)


async def _find_content(
    stores: Stores, shelf: SpaceIndex, texts: EmbeddedTexts
) -> tuple[int, Places, Sequence[str]]:
    """Return how many rows the space of the shelf has, the places of the texts that it lacks or has other ones of, and the ids
    of rows in excess. It is listed only if it may hold others than the shelf says: that takes longer than all else here."""
    places = await anyio.to_thread.run_sync(shelf.locate, texts)
    known = places >= 0
    changed = ~known
    changed[known] = shelf.texts.digests[places[known]] != texts.digests[known]
    if not await stores.generations.find_unsettled(shelf.space):
        count = await stores.vectors.count(shelf.space) - len(shelf.certain)
        if count in (0, int((~known).sum())):  # none of the new ones, or, after an ingest, all of them
            left = np.zeros(len(shelf.texts), dtype=bool)
            left[shelf.certain] = True
            left[places[known]] = False
            excess = sorted(decode_ids(shelf.texts.ids[left]))
            return len(shelf.certain) + count, np.flatnonzero(changed), excess
    present = set(await stores.vectors.ids(shelf.space))
    wanted = decode_ids(texts.ids)
    changed |= np.array([id_ not in present for id_ in wanted], dtype=bool)
    return len(present), np.flatnonzero(changed), sorted(present.difference(wanted))


async def _embed(embedder: ReusingEmbedder, texts: EmbeddedTexts, report: ProgressReport) -> Vectors:
    report(Progress("embed", 0, len(texts)))
    return await embedder.embed(texts, report)


async def settle_spaces(stores: Stores, written: WrittenVectors) -> None:
    """Delete what the spaces of the published build hold in excess, and count their rows as settled."""
    try:
        if any(written.excess.values()):
            async with announce_vector_change(stores):
                for space, ids in written.excess.items():
                    await stores.vectors.delete(space, ids)
    except StoreUnusable as problem:
        # The build is published: rows in excess only cost disk space. The next update deletes them.
        logger.warning("Vectors that are not needed any more could not be deleted: %s", problem)
        return
    for space in written.excess:
        await stores.generations.settle(space)
