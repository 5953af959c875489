"""Forgetting documents: their rows, what of a build only they supported, what jobs tell of them, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update

from leanrag_engine.core.model import Generation

from . import collections as collection_rows
from . import documents, replies
from .dialect import fulltext
from .dialect.statements import among
from .generations import publish as publishing
from .generations.publish import Build
from .jobs import FINISHED
from .schema.tables import documents as documents_table
from .schema.tables import embedders, generations, jobs


def delete_documents(
    connection: Connection, name: str, ids: Sequence[str], left: Build | None
) -> Generation | None:
    """See :meth:`leanrag_engine.core.ports.DocumentStore.delete`. Generations go whole, with their full-text tables:
    what a table of words once held cannot be taken out of it row by row."""
    names = _names_of(connection, name, ids)
    replies.drop(connection, name, documents.chunk_ids(connection, name, ids))
    collection = collection_rows.raise_revision(connection, name)
    for id_ in ids:
        documents.remove(connection, collection, id_)
    fulltext.purge_chunks(connection, collection)
    before = collection_rows.find_generations(connection, collection)
    for old in before:
        fulltext.drop_generation(connection, old.number)
        connection.execute(delete(generations).where(generations.c.number == old.number))
    connection.execute(delete(embedders).where(embedders.c.identity.not_in(select(generations.c.embedder))))
    generation = publishing.publish(connection, name, before[0].revision, left) if before and left else None
    _forget_in_jobs(connection, name, names)
    collection_rows.bump_vector_version(connection)
    return generation


# --- jobs ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Names:
    """By what the forgotten documents may be called in a job."""

    ids: frozenset[str]
    titles: frozenset[str]

    def tell(self, item: Mapping[str, Any]) -> bool:
        """Whether a document in a job's request, result or failures is one of them."""
        named = {item.get("id"), item.get("path"), item.get("document")} - {"", None}
        return bool(named & self.ids) or (not named and item.get("title") in self.titles)


def _names_of(connection: Connection, name: str, ids: Collection[str]) -> _Names:
    wanted = select(documents_table.c.id, documents_table.c.source, documents_table.c.title).where(
        documents_table.c.collection == collection_rows.number_of(connection, name),
        among(documents_table.c.id, ids),
    )
    rows = connection.execute(wanted).all()
    known = {text for row in rows for text in (row.id, row.source) if text}
    return _Names(frozenset({*ids, *known}), frozenset(row.title for row in rows))


def _forget_in_jobs(connection: Connection, name: str, names: _Names) -> None:
    """Finished jobs alone: one under way still needs its request."""
    rows = select(jobs).where(jobs.c.collection == name, jobs.c.status.in_(FINISHED))
    for row in connection.execute(rows).mappings().all():
        told = {
            "request": _without(row["request"], names),
            "result": _without(row["result"], names),
            "failures": [each for each in row["failures"] if not names.tell(each)],
        }
        if any(told[field] != row[field] for field in told):
            # The message may be the last thing that the job said, such as the title that it read.
            changed = update(jobs).where(jobs.c.number == row["number"])
            connection.execute(changed.values(message="", **told))


def _without(value: Mapping[str, Any], names: _Names) -> dict[str, Any]:
    listed = value.get("documents")
    if not isinstance(listed, list):
        return dict(value)
    return {**value, "documents": [each for each in listed if not names.tell(each)]}
