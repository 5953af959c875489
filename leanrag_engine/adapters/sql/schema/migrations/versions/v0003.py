"""The keyword index holds names of several parts as one word too, and letters as people type them: it is made anew."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    connection = op.get_bind()
    suffixes = ("", "_words") if connection.dialect.name == "postgresql" else ("",)
    for number in connection.execute(sa.text("SELECT number FROM collections")).scalars().all():
        for suffix in suffixes:
            op.execute(f"DROP TABLE IF EXISTS fts_windows_{number}{suffix}")
