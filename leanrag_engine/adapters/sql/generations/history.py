"""The history of a collection: a row for each generation that was ever published, which stays when the generation goes."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from leanrag_engine.adapters.sql import replies
from leanrag_engine.adapters.sql.schema.tables import documents, from_json, generations, history
from leanrag_engine.core.history import DocumentChanges, GraphChanges, HistoryEntry, Publication
from leanrag_engine.core.model import BuildHistory, EmbeddingCounts, Entity, Generation, LayerCount, Spent


def record(connection: Connection, collection: int, generation: Generation, publication: Publication) -> None:
    """Add the row of a generation that was just published in collection number ``collection``."""
    connection.execute(
        insert(history).values(
            generation=generation.number,
            collection=collection,
            revision=generation.revision,
            created_at=generation.created_at,
            job=publication.job,
            seconds=max(0.0, (datetime.now(UTC) - publication.started).total_seconds()),
            layers=[(each.layer, each.entities, each.relations) for each in generation.layers],
            build=generation.record.history,
            embedded=generation.record.embedded,
            stale=generation.record.stale,
            documents=_count_documents(connection, collection, generation, publication),
            changes=publication.changes,
        )
    )


def find_all(connection: Connection, collection: int) -> list[HistoryEntry]:
    spent = replies.sum_spending_by_job(connection, collection)
    statement = (
        select(history, generations.c.number.label("kept"))
        .outerjoin(generations, generations.c.number == history.c.generation)
        .where(history.c.collection == collection)
        .order_by(history.c.generation.desc())
    )
    # Only a build has a job here; other calls of models, such as answers, are recorded without one.
    return [_entry(row, spent.get(row.job) if row.job else None) for row in connection.execute(statement)]


def forget_names(connection: Connection, collection: int, remaining: Iterable[Entity]) -> None:
    """Remove from all entries of the collection every name that no entity of ``remaining`` has; totals stay."""
    known = {(each.id, each.name) for each in remaining}
    here = history.c.collection == collection
    changed = []
    for row in connection.execute(select(history.c.generation, history.c.changes).where(here)):
        changes = row.changes
        for kinds in changes.values():
            for change in kinds.values():
                change["names"] = {ref: name for ref, name in change["names"].items() if (ref, name) in known}
        changed.append({"this": row.generation, "left": changes})
    if changed:
        statement = update(history).where(history.c.generation == bindparam("this"))
        connection.execute(statement.values(changes=bindparam("left")), changed)


def _count_documents(
    connection: Connection, collection: int, generation: Generation, publication: Publication
) -> DocumentChanges:
    """Count the documents of a build that came in or changed since the revision of the generation before."""
    since = publication.since
    count = func.count()
    counted = select(count.filter(documents.c.added > since), count.filter(documents.c.added <= since)).where(
        documents.c.collection == collection,
        documents.c.revision > since,
        documents.c.revision <= generation.revision,
    )
    added, changed = connection.execute(counted).one()
    return DocumentChanges(added, changed, publication.removed)


def _entry(row: Row[Any], spent: Spent | None) -> HistoryEntry:
    return HistoryEntry(
        number=row.generation,
        revision=row.revision,
        created_at=row.created_at,
        layers=tuple(LayerCount(*counts) for counts in row.layers),
        build=from_json(BuildHistory, row.build),
        documents=from_json(DocumentChanges, row.documents),
        changes=from_json(GraphChanges, row.changes),
        embedded=from_json(EmbeddingCounts, row.embedded),
        spent=spent or Spent(""),
        seconds=row.seconds,
        available=row.kept is not None,
    )
