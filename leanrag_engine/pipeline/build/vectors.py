"""Write the vectors of a build: a rebuild into new spaces, an update into the spaces of the build that it continues.

An update writes only the rows whose texts are new or changed, before the generation is published, and deletes those that
it does not need after that: readers of the build before find all of theirs until the switch, and skip ids that they do
not know. Until an update has ended, the rows that it changes count as unsettled: a build after one that was killed
or cancelled writes them again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import anyio.to_thread

from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.core.model import Collection, VectorSpaces
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.pipeline.index import (
    Rows,
    Stores,
    announce_vector_change,
    embed_rows,
    upsert,
    write_space,
)

from .embedding_reuse import ReusingEmbedder, SpaceIndex, key_text

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WrittenVectors:
    """The spaces of a build, how many rows each kind has, and the ids that each space holds in excess."""

    spaces: VectorSpaces
    counts: Mapping[str, int]
    excess: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _SpaceChange:
    """What makes a space hold the rows of a build: rows to write, and ids to delete afterwards; ``whole``: it is a new
    space, and these are all of its rows."""

    space: str
    rows: Rows
    excess: Sequence[str] = ()
    whole: bool = False


async def write_vectors(
    stores: Stores,
    collection: Collection,
    embedder: ReusingEmbedder,
    texts: Mapping[str, Sequence[tuple[str, str]]],
    rows: Mapping[str, Rows],
    report: ProgressReport,
    *,
    in_place: bool,
) -> WrittenVectors:
    """Write the rows of a build by kind; ``texts`` are the ids and texts that they are embedded from.

    ``rows`` are those that are embedded already, in the same order; of the other kinds only what is written is.
    ``in_place``: the spaces of the published build are changed where that is better than new ones.
    """
    spaces = VectorSpaces.of_build(collection, embedder.identity, texts)
    before = collection.generation.record.spaces.by_kind() if collection.generation else {}
    shelves = {each.space: each for each in embedder.shelves} if in_place else {}
    changes: dict[str, _SpaceChange] = {}
    for kind, space in spaces.by_kind().items():
        shelf = shelves.get(before.get(kind, ""))
        change = (
            await _plan_change(stores, shelf, embedder, texts[kind], rows.get(kind), report)
            if shelf
            else None
        )
        if change is None:
            written = rows.get(kind) or await _embed(embedder, texts[kind], report)
            change = _SpaceChange(space, written, whole=True)
        changes[kind] = change
    async with announce_vector_change(stores):
        for kind, change in [*changes.items()]:
            if change.whole:
                await write_space(stores, change.space, change.rows, report)
            else:
                await _write_change(stores, change, report)
                if await stores.vectors.count(change.space) != len(texts[kind]) + len(change.excess):
                    excess = {*await stores.vectors.ids(change.space)}.difference(
                        id_ for id_, _ in texts[kind]
                    )
                    changes[kind] = replace(change, excess=sorted(excess))
    return WrittenVectors(
        VectorSpaces(**{kind: change.space for kind, change in changes.items()}),
        {kind: len(texts[kind]) for kind in changes},
        {change.space: change.excess for change in changes.values() if not change.whole},
    )


async def _plan_change(
    stores: Stores,
    shelf: SpaceIndex,
    embedder: ReusingEmbedder,
    texts: Sequence[tuple[str, str]],
    rows: Rows | None,
    report: ProgressReport,
) -> _SpaceChange | None:
    """Return what turns the space of the shelf into one with these rows; None if a new space is better."""
    try:
        present = await _find_present(stores, shelf, texts)
    except StoreUnusable:
        return None

    def find_changed() -> list[int]:
        return [
            place
            for place, (id_, text) in enumerate(texts)
            if id_ not in present or shelf.texts.get(id_) != key_text(text)
        ]

    changed = await anyio.to_thread.run_sync(find_changed)
    excess = sorted(present - {id_ for id_, _ in texts})
    # Beyond half of the rows a new space costs about as much, by reasoning, and its index has no deleted rows to pass by.
    if not present or len(changed) + len(excess) > 0.5 * len(present):
        return None
    if rows is None:
        embedder.reused += len(texts) - len(changed)
        written = await _embed(embedder, [texts[place] for place in changed], report)
    else:
        written = Rows([rows.ids[place] for place in changed], rows.vectors[changed])
    return _SpaceChange(shelf.space, written, excess)


async def _find_present(
    stores: Stores, shelf: SpaceIndex, texts: Sequence[tuple[str, str]]
) -> AbstractSet[str]:
    """Return the ids of the rows of the shelf's space. It is listed only if it may hold others than the shelf says: that takes
    longer than all else here."""
    if not await stores.generations.find_unsettled(shelf.space):
        others = {id_ for id_, _ in texts if id_ not in shelf.texts}
        count = await stores.vectors.count(shelf.space) - len(shelf.texts)
        if count in (0, len(others)):  # none of the new ones, or, after an ingest, all of them
            return shelf.texts.keys() | (others if count else ())
    return set(await stores.vectors.ids(shelf.space))


async def _embed(embedder: ReusingEmbedder, texts: Sequence[tuple[str, str]], report: ProgressReport) -> Rows:
    report(Progress("embed", 0, len(texts)))
    return await embed_rows(embedder, texts, report)


async def _write_change(stores: Stores, change: _SpaceChange, report: ProgressReport) -> None:
    await stores.generations.note_unsettled(change.space, change.rows.ids)
    await upsert(stores, change.space, change.rows, report)


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
