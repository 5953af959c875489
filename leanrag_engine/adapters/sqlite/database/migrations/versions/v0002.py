"""The runner-up parent of each entity, which chunk each part of a description was taken from, no mentions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Older generations have no runner-up and do not know where their sentences come from."""
    op.add_column("entities", sa.Column("second_parent_id", sa.Text))
    op.add_column("entities", sa.Column("responsibility", sa.Float, nullable=False, server_default="1"))
    op.add_column(
        "entities", sa.Column("second_responsibility", sa.Float, nullable=False, server_default="0")
    )
    # The walk over the graph reads a chunk's entities from arrays.
    op.drop_table("mentions")
    for table in ("entities", "relations"):
        op.add_column(table, sa.Column("evidence", sa.Text, nullable=False, server_default="[]"))
