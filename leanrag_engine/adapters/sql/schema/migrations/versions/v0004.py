"""The vectors of tokens have a table; the next build of a collection fills it."""

from __future__ import annotations

from alembic import op

from leanrag_engine.adapters.sql.schema.tables import token_vectors

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    token_vectors.create(op.get_bind())
