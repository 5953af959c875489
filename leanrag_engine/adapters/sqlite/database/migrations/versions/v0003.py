"""What models said and what it used; what agents wrote; how fast jobs are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Nothing older stands in either table."""
    op.add_column("jobs", sa.Column("rate", sa.Float, nullable=False, server_default="0"))
    _replies()
    op.create_table(
        "summaries",
        sa.Column(
            "collection",
            sa.Integer,
            sa.ForeignKey("collections.number", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("suspect", sa.Boolean, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
    )


def _replies() -> None:
    op.create_table(
        "replies",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column(
            "collection", sa.Integer, sa.ForeignKey("collections.number", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("finish_reason", sa.Text, nullable=False),
        sa.Column("prompt_tokens", sa.Integer, nullable=False),
        sa.Column("completion_tokens", sa.Integer, nullable=False),
        sa.Column("cost", sa.Float),
        sa.Column("counted", sa.Integer, nullable=False),
        sa.Column("room", sa.Integer, nullable=False),
        sa.Column("suspect", sa.Boolean, nullable=False),
        sa.Column("chunk_ids", sa.Text, nullable=False),
        sa.Column("text", sa.Text),
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
