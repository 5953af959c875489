"""Create and change the schema with alembic: one file in ``versions`` for each change.

A step after which the keyword index is made in another way drops the tables of the windows: who opens the store for
writing makes those that are missing.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from leanrag_engine.adapters.sql.schema.tables import REVISION
from leanrag_engine.core.errors import StoreUnusable

FOLDER = Path(__file__).parent


def list_revisions(folder: Path = FOLDER) -> list[str]:
    """Return all revisions that ``folder`` can reach, oldest first."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - only a store of another schema needs alembic

    script = ScriptDirectory(str(folder))
    return [step.revision for step in reversed(list(script.walk_revisions()))]


def upgrade(connection: Connection, stored: str | None, folder: Path = FOLDER) -> None:
    """Run every step after ``stored`` (``None``: all) within the transaction that ``connection`` is in."""
    from alembic.migration import MigrationContext  # noqa: PLC0415 - as above
    from alembic.operations import Operations  # noqa: PLC0415 - as above
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - as above

    script = ScriptDirectory(str(folder))
    context = MigrationContext.configure(connection)
    steps = list(script.iterate_revisions("head", stored or "base"))
    with Operations.context(context):
        for step in reversed(steps):
            step.module.upgrade()
            context.stamp(script, step.revision)


def make_schema_error(store: str, stored: str | None, elsewhere: str, *, read_only: bool) -> StoreUnusable:
    """Return the error for a ``store`` whose schema is not ours; ``elsewhere`` is what else could be opened."""
    message = f"{store} has schema {stored or 'none'}, this version of LeanRAG reads {REVISION}."
    if read_only and (stored is None or stored in list_revisions()):
        return StoreUnusable(message, "Open it once for writing to upgrade it.")
    reader = (
        "a newer version of LeanRAG"
        if stored and stored > REVISION
        else "the version of LeanRAG that wrote it"
    )
    return StoreUnusable(message, f"Use {reader}, or {elsewhere}.")
