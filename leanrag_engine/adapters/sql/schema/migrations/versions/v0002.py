"""The first schema that is kept: a copy of :mod:`leanrag_engine.adapters.sql.schema.tables` that later changes leave as it is.

Revision 0001 was never released; a store that has it is refused.
"""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    store = op.create_table(
        "store",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("vector_version", sa.Integer, nullable=False),
        sa.Column("identity", TEXT, nullable=False),
    )
    op.bulk_insert(store, [{"id": 1, "vector_version": 0, "identity": uuid.uuid4().hex[:12]}])
    _collections()
    _chunks()
    _generations()
    _entities()
    _names()
    _relations()
    _replies()
    _decisions()
    _jobs()


def _collections() -> None:
    op.create_table(
        "collections",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("name", TEXT, nullable=False, unique=True),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("last_document", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "documents",
        sa.Column(
            "collection",
            sa.Integer,
            sa.ForeignKey("collections.number", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("title", TEXT, nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("media_type", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("characters", sa.Integer, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("last_chunk", sa.Integer, nullable=False),
        sa.Column("added", sa.Integer, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("ingested_at", sa.DateTime, nullable=False),
        sa.Column("metadata", TEXT, nullable=False),
        sa.Column("date", TEXT, nullable=False),
        sa.Column("date_origin", TEXT, nullable=False),
        sa.Column("file_stamp", TEXT, nullable=False),
        sa.Column("file_digest", TEXT, nullable=False),
        sa.UniqueConstraint("collection", "id"),
    )
    op.create_index("documents_revision", "documents", ["collection", "revision", "chunks"])


def _chunks() -> None:
    op.create_table(
        "chunks",
        sa.Column("collection", sa.Integer, primary_key=True),
        sa.Column("document", sa.Integer, primary_key=True),
        sa.Column("label", sa.Integer, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("reading", TEXT, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("start", sa.Integer, nullable=False),
        sa.Column("end", sa.Integer, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("line", sa.Integer),
        sa.Column("heading", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("windows", TEXT, nullable=False),
        sa.Column("pages", TEXT, nullable=False),
        sa.UniqueConstraint("collection", "id"),
        sa.ForeignKeyConstraint(
            ["collection", "document"], ["documents.collection", "documents.number"], ondelete="CASCADE"
        ),
    )
    op.create_index("chunks_reading_order", "chunks", ["collection", "document", "number"])
    op.create_table(
        "extracts",
        sa.Column("collection", sa.Integer, primary_key=True),
        sa.Column("document", sa.Integer, primary_key=True),
        sa.Column("chunk", sa.Integer, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("method", TEXT, nullable=False),
        sa.Column("entities", TEXT, nullable=False),
        sa.Column("relations", TEXT, nullable=False),
        sa.Column("schema", TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["collection", "document", "chunk"],
            ["chunks.collection", "chunks.document", "chunks.label"],
            ondelete="CASCADE",
        ),
    )
    op.create_index("extracts_method", "extracts", ["collection", "method", "schema"])


def _generations() -> None:
    op.create_table(
        "embedders",
        sa.Column("identity", TEXT, primary_key=True),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "editions",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column(
            "collection", sa.Integer, sa.ForeignKey("collections.number", ondelete="CASCADE"), nullable=False
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "generations",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column(
            "collection", sa.Integer, sa.ForeignKey("collections.number", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("edition", sa.Integer, sa.ForeignKey("editions.number"), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("embedder", TEXT, sa.ForeignKey("embedders.identity"), nullable=False),
        sa.Column("dimension", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("layers", TEXT, nullable=False),
        sa.Column("settings", TEXT, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("generations_collection", "generations", ["collection", "number"])
    op.create_index("generations_edition", "generations", ["edition", "number"])
    op.create_index("generations_embedder", "generations", ["embedder"])
    op.create_table(
        "history",
        sa.Column("generation", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column(
            "collection", sa.Integer, sa.ForeignKey("collections.number", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("layers", TEXT, nullable=False),
        sa.Column("build", TEXT, nullable=False),
        sa.Column("embedded", TEXT, nullable=False),
        sa.Column("stale", sa.Integer, nullable=False),
        sa.Column("documents", TEXT, nullable=False),
        sa.Column("changes", TEXT, nullable=False),
    )
    op.create_index("history_collection", "history", ["collection", "generation"])


def _edition() -> sa.Column[int]:
    """Return the column by which a published row is deleted with its edition."""
    published = sa.ForeignKey("editions.number", ondelete="CASCADE")
    return sa.Column("edition", sa.Integer, published, primary_key=True)


def _lifetime() -> list[sa.Column[int]]:
    """Return the first generation that has a row, and the first one that no longer has it."""
    return [sa.Column("since", sa.Integer, primary_key=True), sa.Column("until", sa.Integer, nullable=False)]


def _index_ended(table: str) -> None:
    ended = sa.text(f"until < {2**31 - 1}")
    op.create_index(f"{table}_ended", table, ["edition", "until"], sqlite_where=ended, postgresql_where=ended)


def _entities() -> None:
    op.create_table(
        "entities",
        _edition(),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        *_lifetime(),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("layer", sa.Integer, nullable=False),
        sa.Column("parent_id", TEXT),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("type", TEXT, nullable=False),
        sa.Column("method", TEXT, nullable=False),
        sa.Column("mentions", sa.Integer, nullable=False),
        sa.Column("members", sa.Integer, nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("aliases", TEXT, nullable=False),
        sa.Column("findings", TEXT, nullable=False),
        sa.Column("chunk_ids", TEXT, nullable=False),
        sa.Column("second_parent_id", TEXT),
        sa.Column("responsibility", sa.Float, nullable=False),
        sa.Column("second_responsibility", sa.Float, nullable=False),
        sa.Column("evidence", TEXT, nullable=False),
        sa.Column("stale", TEXT, nullable=False),
        sa.Column("statements", TEXT, nullable=False),
        sa.Column("attributes", TEXT, nullable=False),
    )
    op.create_index("entities_id", "entities", ["edition", "id", "since"], unique=True)
    op.create_index("entities_parent", "entities", ["edition", "parent_id", "mentions"])
    _index_ended("entities")
    op.create_table(
        "unsettled_vectors",
        sa.Column("space", TEXT, primary_key=True),
        sa.Column("id", TEXT, primary_key=True),
        sqlite_with_rowid=False,
    )


def _names() -> None:
    op.create_table(
        "names",
        _edition(),
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("entity", sa.BigInteger, primary_key=True),
        *_lifetime(),
        sqlite_with_rowid=False,
    )
    _index_ended("names")


def _relations() -> None:
    op.create_table(
        "relations",
        _edition(),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        *_lifetime(),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("layer", sa.Integer, nullable=False),
        sa.Column("source_id", TEXT, nullable=False),
        sa.Column("target_id", TEXT, nullable=False),
        sa.Column("method", TEXT, nullable=False),
        sa.Column("strength", sa.Integer, nullable=False),
        sa.Column("weight", sa.Integer, nullable=False),
        sa.Column("support", sa.Integer, nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("chunk_ids", TEXT, nullable=False),
        sa.Column("evidence", TEXT, nullable=False),
        sa.Column("stale", TEXT, nullable=False),
        sa.Column("statements", TEXT, nullable=False),
        sa.Column("types", TEXT, nullable=False),
    )
    op.create_index("relations_source", "relations", ["edition", "source_id"])
    op.create_index("relations_target", "relations", ["edition", "target_id"])
    op.create_index("relations_strength", "relations", ["edition", "layer", "strength"])
    _index_ended("relations")


def _replies() -> None:
    op.create_table(
        "replies",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column(
            "collection", sa.Integer, sa.ForeignKey("collections.number", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("step", TEXT, nullable=False),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("finish_reason", TEXT, nullable=False),
        sa.Column("prompt_tokens", sa.Integer, nullable=False),
        sa.Column("completion_tokens", sa.Integer, nullable=False),
        sa.Column("cost", sa.Float),
        sa.Column("counted", sa.Integer, nullable=False),
        sa.Column("room", sa.Integer, nullable=False),
        sa.Column("chunk_ids", TEXT, nullable=False),
        sa.Column("text", TEXT),
    )
    kept = sa.text("text IS NOT NULL")
    op.create_index(
        "replies_kept", "replies", ["digest"], unique=True, sqlite_where=kept, postgresql_where=kept
    )
    op.create_index(
        "replies_spent",
        "replies",
        [
            *("collection", "job", "model", "step"),
            *("prompt_tokens", "completion_tokens", "cost", "counted", "room"),
        ],
    )


def _decisions() -> None:
    """Create what agents and users said of a collection."""
    op.create_table(
        "agent_texts",
        sa.Column(
            "collection",
            sa.Integer,
            sa.ForeignKey("collections.number", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("kind", TEXT, primary_key=True),
        sa.Column("task", TEXT, primary_key=True),
        sa.Column("chunk_ids", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
    )
    op.create_table(
        "corrections",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column(
            "collection",
            sa.Integer,
            sa.ForeignKey("collections.number", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("names", TEXT, nullable=False),
        sa.Column("documents", TEXT, nullable=False),
        sa.Column("chunks", TEXT, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("corrections_collection", "corrections", ["collection", "number"])
    op.create_table(
        "type_schemas",
        sa.Column(
            "collection",
            sa.Integer,
            sa.ForeignKey("collections.number", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("types", TEXT, nullable=False),
        sa.Column("decisions", TEXT, nullable=False),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", TEXT, nullable=False, unique=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("collection", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.Column("stage", TEXT, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("rate", sa.Float, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("request", TEXT, nullable=False),
        sa.Column("failures", TEXT, nullable=False),
        sa.Column("result", TEXT, nullable=False),
    )
    op.create_index("jobs_created", "jobs", ["created_at", "number"])
