"""Create the schema from the tables, and change that of an older store with alembic: a file in ``versions`` for each change."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, insert, inspect

from leanrag_engine.adapters.sql.schema.tables import REVISION, metadata, store
from leanrag_engine.core.errors import StoreUnusable

FOLDER = Path(__file__).parent


def list_revisions(folder: Path = FOLDER) -> list[str]:
    """Return all revisions that ``folder`` can reach, oldest first."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - only a store of another schema needs alembic

    return [step.revision for step in reversed(list(ScriptDirectory(str(folder)).walk_revisions()))]


def upgrade(connection: Connection, stored: str | None, folder: Path = FOLDER) -> None:
    """Run every step after ``stored`` within the transaction that ``connection`` is in; None: create the newest schema."""
    from alembic.migration import MigrationContext  # noqa: PLC0415 - as above
    from alembic.operations import Operations  # noqa: PLC0415 - as above
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - as above

    script = ScriptDirectory(str(folder))
    context = MigrationContext.configure(connection)
    if stored is None:
        _create(connection)
        context.stamp(script, "head")
        return
    steps = list(script.iterate_revisions("head", stored))
    with Operations.context(context):
        for step in reversed(steps):
            step.module.upgrade()
            context.stamp(script, step.revision)


def _create(connection: Connection) -> None:
    for table in metadata.tables.values():
        for index in table.indexes:
            # Here, as the tables can name PostgreSQL's condition only at the price of an import of its dialect.
            index.dialect_options[connection.dialect.name]["where"] = index.dialect_options["sqlite"]["where"]
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(store).values(id=1, vector_version=0, identity=uuid.uuid4().hex[:12]))


@dataclass(frozen=True, slots=True)
class StorePlace:
    """How errors name a store, what else could be opened, and what to do where it contains foreign tables."""

    kind: str
    name: str
    elsewhere: str
    if_foreign: str

    def check_revision(self, connection: Connection, stored: str | None, known: Sequence[str]) -> None:
        """Raise ``StoreUnusable`` for a ``stored`` revision that is not ``known``, and for foreign tables."""
        if stored is None and inspect(connection).get_table_names():
            raise StoreUnusable(f"{self.name} contains tables that LeanRAG did not make.", self.if_foreign)
        if stored is not None and stored not in known:
            raise self.make_schema_error(stored, read_only=False)

    def make_schema_error(self, stored: str | None, *, read_only: bool) -> StoreUnusable:
        """Return the error for a schema that is not ours."""
        message = f"{self.kind} {self.name} has schema {stored or 'none'}, this version of LeanRAG reads {REVISION}."
        if read_only and (stored is None or stored in list_revisions()):
            return StoreUnusable(message, "Open it once for writing to upgrade it.")
        is_newer = stored and stored > REVISION
        reader = "a newer version of LeanRAG" if is_newer else "the version of LeanRAG that wrote it"
        return StoreUnusable(message, f"Use {reader}, or {self.elsewhere}.")
