"""The history of a collection: what changed since a generation or a date, and which generations can be rolled back to."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import anyio.to_thread

from leanrag_engine.core.errors import Busy, Candidate, InvalidInput, NotFound
from leanrag_engine.core.graphs.graph import Hierarchy
from leanrag_engine.core.history import ChangedDocument, CollectionChanges, GraphChanges, HistoryEntry
from leanrag_engine.core.model import Collection, Generation
from leanrag_engine.hierarchy.changes.comparing import add_up, compare
from leanrag_engine.retrieval.graph.adjacency_cache import read_layers

from .index import Stores, drop_unused_spaces


async def drop_old_generations(stores: Stores, collection: Collection) -> None:
    """Delete the data of old generations, as the settings say, and the vectors that only they used."""
    with suppress(Busy):  # the next publication does it
        await stores.generations.prune(
            collection.name, stores.settings.kept_generations, timedelta(days=stores.settings.kept_days)
        )
    await drop_unused_spaces(stores, collection)


async def find_changes(
    stores: Stores, collection: Collection, published: Generation, since: str
) -> CollectionChanges:
    """Return what changed since a generation (number), a date (what was published then), or "", the one
    before the published. Raises ``NotFound`` for an unknown number, ``InvalidInput`` for neither."""
    entries = await stores.generations.history(collection.name)
    earlier = find_earlier(entries, published, since.strip())
    later = [each for each in reversed(entries) if earlier is None or each.number > earlier.number]
    graph = await _compare_stored(stores, published, earlier)
    revision = earlier.revision if earlier else -1
    return CollectionChanges(
        since=earlier.number if earlier else 0,
        published=published,
        documents=tuple(
            ChangedDocument(
                each,
                added=each.added > revision,
                changed=each.added <= revision < each.revision,
                pending=each.revision > published.revision,
            )
            for each in await stores.documents.find_all(collection.name)
            if each.revision > min(revision, published.revision)
        ),
        removed=sum(each.documents.removed for each in later),
        graph=add_up([each.changes for each in later]) if graph is None else graph,
        exact=graph is not None,
    )


def find_earlier(entries: Sequence[HistoryEntry], published: Generation, since: str) -> HistoryEntry | None:
    """Return the entry that ``since`` means, None for the time before the first one. Raises as ``find_changes``."""
    if not since:
        return next((each for each in entries if each.number < published.number), None)
    most_digits = 18  # of a number that a database holds
    if since.isdecimal() and len(since) <= most_digits:
        return find_entry(entries, int(since), published.collection)
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise InvalidInput(
            f"Changes since {since!r} cannot be found: it is neither a generation nor a date.",
            f"Give the number of a generation, such as {published.number}, or an ISO date such as 2026-01-31.",
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return next((each for each in entries if each.created_at <= moment), None)


def find_entry(entries: Sequence[HistoryEntry], number: int, collection: str) -> HistoryEntry:
    """Return the entry of that number. Raises ``NotFound`` with the newest ones if there is none."""
    for each in entries:
        if each.number == number:
            return each
    raise NotFound(
        f"Collection {collection!r} has had no generation {number}.",
        "Give one of its own; generations are numbered across all collections. The newest are:",
        _candidates(entries),
    )


async def _compare_stored(
    stores: Stores, published: Generation, earlier: HistoryEntry | None
) -> GraphChanges | None:
    """Return what differs from an earlier generation; None if its data are pruned."""
    if earlier is not None and not earlier.available:
        return None
    # Relations of layer 0 are not compared.
    read = partial(read_layers, stores.generations, base_relations=False)
    now = Hierarchy(await read(published))
    if earlier is None:
        return compare(None, now)
    kept = await _find_kept(stores, published.collection, earlier.number)
    if kept is None:
        return None
    then = Hierarchy(await read(kept))
    if not await stores.generations.exists(kept.number):
        return None  # it was pruned while it was read
    return await anyio.to_thread.run_sync(compare, then, now)


async def _find_kept(stores: Stores, collection: str, number: int) -> Generation | None:
    """Return the generation of that number, if its data are still there."""
    found = await stores.generations.find_all(collection)
    return next((each for each in found if each.number == number), None)


async def find_restorable(stores: Stores, collection: Collection, number: int) -> Generation:
    """Return the generation to roll back to. Raises ``NotFound`` if there is none, ``InvalidInput`` for the published one."""
    entries = await stores.generations.history(collection.name)
    entry = find_entry(entries, number, collection.name)
    published = collection.generation
    if published is not None and number == published.number:
        raise InvalidInput(
            f"Generation {number} is the published one.", "Give an earlier one to roll back to."
        )
    found = await _find_kept(stores, collection.name, entry.number)
    if found is not None:
        return found
    kept = [each for each in entries if each.available and published and each.number != published.number]
    why = (
        "a deletion of documents since then has removed all that was built before it"
        if any(each.build.mode == "deletion" and each.number > number for each in entries)
        else f"the last {stores.settings.kept_generations} are kept, for {stores.settings.kept_days} days"
        " (settings kept_generations and kept_days)"
    )
    raise NotFound(
        f"The data of generation {number} are gone: {why}.",
        "Roll back to one of these:" if kept else "There is no earlier one to roll back to.",
        _candidates(kept),
    )


def _candidates(entries: Sequence[HistoryEntry]) -> tuple[Candidate, ...]:
    # An error names the ten newest in place of one that cannot be used.
    return tuple(
        Candidate("", str(each.number), f"{each.build.mode} of {each.created_at.astimezone():%Y-%m-%d %H:%M}")
        for each in entries[:10]
    )
