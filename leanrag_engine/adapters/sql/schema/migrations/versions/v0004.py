"""The vectors of tokens have a table; the next build of a collection fills it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    # Not the table of today's code: a later step that changes it starts from this one.
    text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    place = ["collection", "document", "chunk"]
    op.create_table(
        "token_vectors",
        *(sa.Column(name, sa.Integer, primary_key=True) for name in place),
        sa.Column("embedder", text, nullable=False),
        sa.Column("counts", text, nullable=False),
        sa.Column("tokens", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(
            place, ["chunks.collection", "chunks.document", "chunks.label"], ondelete="CASCADE"
        ),
    )
