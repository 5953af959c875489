"""Delete documents from the database in one transaction: their rows, cached replies about them, mentions in
jobs and names in the history; what remains of the published generation replaces it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update

from leanrag_engine.core.history import Publication
from leanrag_engine.core.jobs import IngestRequest
from leanrag_engine.core.model import Generation

from . import collections as collection_rows
from . import documents, replies
from .dialect import fulltext
from .dialect.statements import among
from .generations import history
from .generations import publish as publishing
from .generations.fields import visible
from .generations.publish import Build
from .jobs import FINISHED
from .schema.tables import collections, entities, jobs, unsettled_vectors
from .schema.tables import documents as documents_table


def delete_documents(
    connection: Connection,
    name: str,
    ids: Sequence[str],
    remaining: Build | None,
    publication: Publication,
    left: Mapping[str, IngestRequest],
) -> Generation | None:
    """Delete the documents ``ids`` with all that depends on them. ``left`` are the requests of unfinished jobs without them.

    Publishes what is ``remaining`` of the published generation in its place, whose rows it may share, and deletes every older one
    of the collection; with ``None``, no entity is left and no generation either. Removes the documents from the records of jobs,
    the names that no remaining entity has from the history, and every cached reply and text of an agent that rests on
    anything but present chunks and aggregated entities whose own text the deletion left as it was. The collection's
    revision grows by one, the vector version too.
    """
    collection = collection_rows.number_of(connection, name)
    deleted = _find_names(connection, collection, ids)
    collection_rows.raise_revision(connection, collection)
    replies.cut_descriptions(connection, collection, documents.chunk_ids(connection, collection, ids))
    for id_ in ids:
        documents.remove(connection, collection, id_)
    fulltext.open_windows(connection, collection).purge()
    before = collection_rows.find_generations(connection, collection)
    untouched = _find_untouched(connection, before[0].number, remaining) if before and remaining else set()
    replies.drop_unfounded(connection, collection, untouched)
    shares_rows = remaining is not None and remaining.base is not None
    if not shares_rows:
        publishing.delete_generations(connection, before)
    generation = None
    if before and remaining:
        generation = publishing.publish(connection, collection, before[0].revision, remaining, publication)
        if shares_rows:
            publishing.delete_generations(connection, before)
            publishing.purge_words(connection, generation.number)
    history.forget_names(connection, collection, remaining.all_entities if remaining else ())
    _remove_from_jobs(connection, name, deleted, left)
    _remove_notes(connection, name, deleted.ids, left)
    collection_rows.bump_vector_version(connection)
    return generation


def _remove_notes(
    connection: Connection, name: str, gone: Collection[str], left: Mapping[str, IngestRequest]
) -> None:
    """Remove the notes on folders that lost their last document, unless a job that is ``left`` will add some."""
    number = collection_rows.number_of(connection, name)
    held = connection.scalar(select(collections.c.notes).where(collections.c.number == number)) or {}
    here = documents_table.c.collection == number
    kept = [*connection.scalars(select(documents_table.c.source).where(here))]
    kept += (each.path for request in left.values() for each in request.documents)
    notes = {
        folder: note
        for folder, note in held.items()
        if any(each.startswith(folder) for each in kept) or not any(each.startswith(folder) for each in gone)
    }
    collection_rows.put_notes(connection, name, notes)


def delete_collection(connection: Connection, name: str, job: str) -> None:
    """Delete the collection with all that depends on it, and its jobs but ``job``. Raises ``NotFound``."""
    number = collection_rows.number_of(connection, name)
    publishing.delete_generations(connection, collection_rows.find_generations(connection, number))
    fulltext.open_windows(connection, number).drop()
    connection.execute(delete(unsettled_vectors).where(unsettled_vectors.c.space.startswith(f"c{number}-")))
    connection.execute(delete(jobs).where(jobs.c.collection == name, jobs.c.id != job))
    connection.execute(delete(collections).where(collections.c.number == number))
    collection_rows.bump_vector_version(connection)


def drop_unused(connection: Connection, name: str) -> None:
    """Delete the collection if it exists and never held anything."""
    held = collection_rows.find(connection, name)
    if held and not held.revision:
        fulltext.open_windows(connection, held.number).drop()
        connection.execute(delete(collections).where(collections.c.number == held.number))


def _find_untouched(connection: Connection, generation: int, remaining: Build) -> set[str]:
    """Return the ids of the aggregated entities whose texts are the same in what remains: no deleted document fed them."""
    held = select(entities.c.id, entities.c.description).where(
        visible(entities, generation), entities.c.layer > 0
    )
    before = {row.id: row.description for row in connection.execute(held)}
    return {
        each.id for each in remaining.all_entities if each.layer and before.get(each.id) == each.description
    }


@dataclass(frozen=True, slots=True)
class _DocumentNames:
    """The ids, paths and titles by which a job may mention the deleted documents."""

    ids: frozenset[str]
    titles: frozenset[str]

    def match(self, item: Mapping[str, Any]) -> bool:
        """Return whether ``item``, a document in a job's request, result or failures, is one of them."""
        found = {item.get("id"), item.get("path"), item.get("document")} - {"", None}
        return bool(found & self.ids) or (not found and item.get("title") in self.titles)


def _find_names(connection: Connection, collection: int, ids: Collection[str]) -> _DocumentNames:
    wanted = select(documents_table.c.id, documents_table.c.source, documents_table.c.title).where(
        documents_table.c.collection == collection, among(documents_table.c.id, ids)
    )
    rows = connection.execute(wanted).all()
    known = {text for row in rows for text in (row.id, row.source) if text}
    return _DocumentNames(frozenset({*ids, *known}), frozenset(row.title for row in rows))


def _remove_from_jobs(
    connection: Connection, name: str, deleted: _DocumentNames, left: Mapping[str, IngestRequest]
) -> None:
    """Remove the documents from the jobs. The request of an unfinished one, which still needs it, becomes what is ``left``."""
    for row in connection.execute(select(jobs).where(jobs.c.collection == name)).mappings().all():
        unfinished = row["status"] not in FINISHED and left.get(row["id"], row["request"])
        record = {
            "request": unfinished or _remove_documents(row["request"], deleted),
            "result": _remove_documents(row["result"], deleted),
            "failures": [each for each in row["failures"] if not deleted.match(each)],
        }
        if any(record[field] != row[field] for field in record):
            # The last progress message may contain the title of a document.
            changed = update(jobs).where(jobs.c.number == row["number"])
            connection.execute(changed.values(message="", **record))


def _remove_documents(value: Mapping[str, Any], deleted: _DocumentNames) -> dict[str, Any]:
    listed = value.get("documents")
    if not isinstance(listed, list):
        return dict(value)
    return {**value, "documents": [each for each in listed if not deleted.match(each)]}
