"""Opening a data folder: new, old, newer, damaged, foreign or read-only; and schema migrations."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from leanrag_tests_jobs import ingest, open_engine
from sqlalchemy import inspect, text

from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.sql.dialect.sqlite import opening
from leanrag_engine.adapters.sql.schema import migrations
from leanrag_engine.adapters.sql.schema.tables import REVISION, metadata
from leanrag_engine.core.errors import Busy, InvalidInput, NotReady, StoreUnusable
from leanrag_engine.core.model import DocumentSource

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def schemas_made_anew(open_anew: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Here stores are no copies of an empty one."""
    monkeypatch.setattr(opening, "open_engine", open_anew)


MakeParcel = Callable[..., Any]
StartChild = Callable[..., Any]


async def fill_store(folder: Path, parcel: MakeParcel) -> None:
    store = await SqlDatabase.open(folder, read_only=False)
    await store.documents.create_collection("default")
    one = parcel("x", *(f"Some words about {number}." for number in range(200)))
    await store.documents.put_all("default", [one])
    await store.close()


async def open_refused(folder: Path, *, read_only: bool = False) -> str:
    with pytest.raises(StoreUnusable) as caught:
        await SqlDatabase.open(folder, read_only=read_only)
    assert caught.value.next_step
    return str(caught.value)


# --- new and old ---------------------------------------------------------------------------


async def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    store = await SqlDatabase.open(tmp_path / "a" / "b c?d%20", read_only=False)
    await store.documents.create_collection("default")
    await store.close()
    assert (tmp_path / "a" / "b c?d%20" / opening.FILE).is_file()


async def test_reopening_a_store_finds_what_was_written(tmp_path: Path, parcel: MakeParcel) -> None:
    await fill_store(tmp_path, parcel)
    for read_only in (False, True):
        store = await SqlDatabase.open(tmp_path, read_only=read_only)
        assert len(await store.documents.all_chunks("default")) == 200
        await store.close()


async def test_a_store_opened_for_reading_refuses_to_write(tmp_path: Path, parcel: MakeParcel) -> None:
    await fill_store(tmp_path, parcel)
    store = await SqlDatabase.open(tmp_path, read_only=True)
    with pytest.raises(StoreUnusable, match="cannot be written to"):
        await store.documents.create_collection("other")
    assert [each.name for each in await store.documents.collections()] == ["default"]
    await store.close()


async def test_opening_a_missing_store_for_reading_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="no store yet"):
        await SqlDatabase.open(tmp_path / "absent", read_only=True)
    assert not (tmp_path / "absent").exists()


async def test_an_unfinished_creation_is_finished(tmp_path: Path) -> None:
    """A process that died before its first commit leaves an empty file."""
    (tmp_path / opening.FILE).touch()
    store = await SqlDatabase.open(tmp_path, read_only=False)
    assert await store.documents.collections() == []
    await store.close()


async def test_commits_wait_for_the_disk_and_readers_do_not_wait_for_writers(tmp_path: Path) -> None:
    engine = opening.open_engine(tmp_path, read_only=False)
    with engine.begin() as connection:
        settings = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    engine.dispose()
    assert settings == ["wal", 2, 1]


async def test_several_processes_may_open_a_new_folder_at_once(tmp_path: Path, child: StartChild) -> None:
    script = """
from leanrag_engine.adapters.sql import SqlDatabase
say("ready")
wait()

async def main():
    store = await SqlDatabase.open(folder, read_only=False)
    await store.documents.create_collection("default")
    say(await store.generations.bump_vector_version())
    await store.close()

anyio.run(main)
"""
    children = [child(script, tmp_path / "new") for _ in range(4)]
    assert [each.read_line() for each in children] == ["ready"] * 4
    for each in children:
        each.send_line()
    assert sorted(each.read_line() for each in children) == ["1", "2", "3", "4"]


# --- folders and files that cannot be used -------------------------------------------------


async def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("not a folder")
    assert str(path) in await open_refused(path)
    assert str(path) in await open_refused(path / "deeper")
    assert path.read_text() == "not a folder"


async def test_a_folder_without_permission_to_write_is_refused(
    tmp_path: Path, parcel: MakeParcel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_store(tmp_path, parcel)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir())
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    message = await open_refused(tmp_path)
    assert str(tmp_path) in message
    assert "read-only" in message
    assert sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()) == before


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may reach: pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="permission bits do not close a folder there")
async def test_a_store_in_a_read_only_folder_is_read_without_writing(
    open_folder: Path, tmp_path: Path, parcel: MakeParcel, child: StartChild
) -> None:
    """By a process that permission bits bind: as the superuser we give up our rights first."""
    await fill_store(open_folder, parcel)
    await fill_store(tmp_path, parcel)
    open_folder.chmod(0o555)
    script = """
import os
from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.core.errors import StoreUnusable

async def main():
    store = await SqlDatabase.open(Path(sys.argv[2]), read_only=True)  # loads all that is loaded late
    await store.documents.search_windows("default", "words", 5)
    await store.close()
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 65534)
    store = await SqlDatabase.open(folder, read_only=True)
    say(len(await store.documents.search_windows("default", "words", 500)))
    await store.close()
    try:
        await SqlDatabase.open(folder, read_only=False)
    except StoreUnusable as problem:
        say(problem)

anyio.run(main)
"""
    reader = child(script, open_folder, tmp_path)
    assert reader.read_line() == "200"
    assert f"The data folder {open_folder} cannot be written to" in reader.read_line()
    assert [path.name for path in open_folder.glob(f"{opening.FILE}*")] == [opening.FILE]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"This is not a database, whatever its name says. " * 100,
        lambda content: content[: len(content) // 2],
        lambda content: b"\0" * 100 + content[100:],
    ],
    ids=["something else", "cut off", "header wiped"],
)
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_damaged_file_is_refused_and_left_as_it_is(
    tmp_path: Path, parcel: MakeParcel, damage: Callable[[bytes], bytes], read_only: bool
) -> None:
    await fill_store(tmp_path, parcel)
    path = tmp_path / opening.FILE
    path.write_bytes(damaged := damage(path.read_bytes()))
    message = await open_refused(tmp_path, read_only=read_only)
    assert str(path) in message
    assert "damaged" in message
    assert path.read_bytes() == damaged


async def test_damage_inside_the_file_is_reported_when_it_is_read(tmp_path: Path, parcel: MakeParcel) -> None:
    await fill_store(tmp_path, parcel)
    path = tmp_path / opening.FILE
    other = sqlite3.connect(path)
    ((page,),) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'chunks'")
    other.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    store = await SqlDatabase.open(tmp_path, read_only=False)
    with pytest.raises(StoreUnusable, match="damaged"):
        await store.documents.all_chunks("default")
    await store.close()


async def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / opening.FILE).mkdir()
    for read_only in (False, True):
        message = await open_refused(tmp_path, read_only=read_only)
        assert str(tmp_path / opening.FILE) in message


async def test_a_database_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / opening.FILE
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (value)")
    other.commit()
    other.close()
    content = path.read_bytes()
    assert "did not make" in await open_refused(tmp_path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_newer_schema_is_refused_with_both_versions(
    tmp_path: Path, parcel: MakeParcel, read_only: bool
) -> None:
    await fill_store(tmp_path, parcel)
    other = sqlite3.connect(tmp_path / opening.FILE)
    other.execute("UPDATE alembic_version SET version_num = '9999'")
    other.commit()
    other.close()
    message = await open_refused(tmp_path, read_only=read_only)
    assert "9999" in message
    assert REVISION in message
    assert "newer version" in message


@pytest.mark.parametrize(
    ("read", "changed"),
    [
        ("collections", "UPDATE generations SET settings = json_remove(settings, '$.history')"),
        (
            "collections",
            "UPDATE generations SET settings = json_set(settings, '$.health', json('{\"coherence\": 1}'))",
        ),
        (
            "collections",
            "UPDATE generations SET settings = json_set(settings, '$.methods', json('[{\"drawn\": 2}]'))",
        ),
        ("jobs", "UPDATE jobs SET request = json_remove(request, '$.allowed')"),
        ("jobs", 'UPDATE jobs SET result = json(\'{"build": {"generation": 1}}\')'),
    ],
)
async def test_records_of_another_version_are_refused_with_the_folder_and_what_to_do(
    tmp_path: Path, read: str, changed: str
) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [DocumentSource(text="Ceres is a dwarf planet.", id="ceres")])
    with closing(sqlite3.connect(tmp_path / opening.FILE)) as connection, connection:
        connection.execute(changed)
    store = await SqlDatabase.open(tmp_path, read_only=True)
    with pytest.raises(StoreUnusable, match="another version of LeanRAG") as caught:
        await (store.documents.collections() if read == "collections" else store.jobs.find_newest())
    await store.close()
    assert str(tmp_path) in str(caught.value)
    assert "index the documents again" in str(caught.value)


async def test_a_full_disk_loses_no_committed_data(tmp_path: Path, parcel: MakeParcel) -> None:
    await fill_store(tmp_path, parcel)
    opened = opening.open_file(tmp_path, read_only=False)

    def limit(connection: sqlite3.Connection, _: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    opening.event.listen(opened.reader, "connect", limit)
    opened.reader.dispose()  # the connection of the check is not limited
    store = SqlDatabase(opened)
    large = parcel("large", *(f"Words {number} " * 50 for number in range(200)))
    with pytest.raises(StoreUnusable, match="full"):
        await store.documents.put_all("default", [large])
    assert [each.id for each in await store.documents.find_all("default")] == ["x"]
    assert len(await store.documents.search_windows("default", "words", 500)) == 200
    await store.close()


async def test_a_write_behind_a_held_lock_raises_busy(
    tmp_path: Path, parcel: MakeParcel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_store(tmp_path, parcel)
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.01)
    store = await SqlDatabase.open(tmp_path, read_only=False)
    other = sqlite3.connect(tmp_path / opening.FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy, match="Another process"):
        await store.documents.create_collection("other")
    assert len(await store.documents.all_chunks("default")) == 200  # readers do not wait
    other.execute("ROLLBACK")
    await store.documents.create_collection("other")
    other.close()
    await store.close()


# --- the schema ----------------------------------------------------------------------------


async def test_a_new_store_has_the_schema_that_the_code_uses(tmp_path: Path) -> None:
    engine = opening.open_engine(tmp_path, read_only=False)
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = compare_metadata(context, metadata)
        made = {
            (table, index["name"])
            for table in inspect(connection).get_table_names()
            for index in inspect(connection).get_indexes(table)
        }
        clustered = (
            connection.execute(
                text("SELECT name FROM sqlite_master WHERE sql LIKE '%WITHOUT ROWID%' ORDER BY name")
            )
            .scalars()
            .all()
        )
    engine.dispose()
    assert differences == []
    assert made == {(table.name, index.name) for table in metadata.tables.values() for index in table.indexes}
    assert clustered == ["names", "unsettled_vectors"]
    assert migrations.list_revisions()[-1] == REVISION


def test_changed_tables_have_another_revision() -> None:
    """A folder with other tables under the same revision would fail at its first query instead of being refused."""
    columns = [
        f"{table.name}.{column.name} {type(column.type).__name__} {column.nullable} {column.primary_key}"
        for table in metadata.sorted_tables
        for column in table.columns
    ]
    indexes = sorted(
        f"{index.name} {[column.name for column in index.columns]} {index.unique}"
        for table in metadata.tables.values()
        for index in table.indexes
    )
    digest = blake2b("\n".join(columns + indexes).encode(), digest_size=8).hexdigest()
    assert (REVISION, digest) == ("0005", "c4136b59d7973fe0")


async def test_a_store_of_an_unreleased_schema_is_refused_with_the_next_step(
    tmp_path: Path, parcel: MakeParcel
) -> None:
    await fill_store(tmp_path, parcel)
    engine = opening.open_engine(tmp_path, read_only=False)
    with engine.execution_options(writes=True).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0004'"))
    engine.dispose()
    for read_only in (False, True):
        message = await open_refused(tmp_path, read_only=read_only)
        assert (
            f"{tmp_path / opening.FILE} has schema 0004, this version of LeanRAG reads {REVISION}" in message
        )
        assert "Use the version of LeanRAG that wrote it, or another data folder." in message


NEXT_STEP = f"""
import sqlalchemy as sa
from alembic import op

revision = "9001"
down_revision = "{REVISION}"

def upgrade():
    op.add_column("documents", sa.Column("language", sa.Text, server_default="unknown"))
"""


@pytest.fixture
def longer_steps(tmp_path: Path) -> Path:
    """The migrations of a later version: ours and one more."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrations.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "v9001.py").write_text(NEXT_STEP)
    return folder


async def test_an_older_store_is_migrated_with_all_its_data(
    tmp_path: Path, parcel: MakeParcel, longer_steps: Path
) -> None:
    await fill_store(tmp_path, parcel)
    engine = opening.open_engine(tmp_path, read_only=False)
    assert opening.read_revision(engine) == REVISION
    opening.migrate(engine, tmp_path / opening.FILE, longer_steps)
    opening.migrate(engine, tmp_path / opening.FILE, longer_steps)  # the second to come finds it done
    assert opening.read_revision(engine) == "9001"
    with engine.begin() as connection:
        rows = connection.execute(text("SELECT id, language, chunks FROM documents")).all()
    engine.dispose()
    assert rows == [("x", "unknown", 200)]
    assert "9001" in await open_refused(tmp_path)  # to the code of this version it is newer


async def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, parcel: MakeParcel, longer_steps: Path
) -> None:
    await fill_store(tmp_path, parcel)
    (longer_steps / "versions" / "v9002.py").write_text(
        "revision, down_revision = '9002', '9001'\ndef upgrade():\n    raise RuntimeError('half way')\n"
    )
    engine = opening.open_engine(tmp_path, read_only=False)
    with pytest.raises(RuntimeError, match="half way"):
        opening.migrate(engine, tmp_path / opening.FILE, longer_steps)
    assert opening.read_revision(engine) == REVISION
    with engine.begin() as connection:
        columns = {column["name"] for column in inspect(connection).get_columns("documents")}
    engine.dispose()
    assert "language" not in columns
    store = await SqlDatabase.open(tmp_path, read_only=False)
    assert len(await store.documents.all_chunks("default")) == 200
    await store.close()


async def test_an_older_store_cannot_be_opened_read_only(
    tmp_path: Path, parcel: MakeParcel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_store(tmp_path, parcel)
    monkeypatch.setattr(opening, "REVISION", "9001")
    message = await open_refused(tmp_path, read_only=True)
    assert REVISION in message
    assert "Open it once for writing" in message


async def test_a_row_with_an_unknown_foreign_key_is_refused(tmp_path: Path, parcel: MakeParcel) -> None:
    await fill_store(tmp_path, parcel)
    store = await SqlDatabase.open(tmp_path, read_only=False)
    with pytest.raises(InvalidInput, match="FOREIGN KEY"):
        await store._transactions.write(
            lambda connection: connection.execute(text("INSERT INTO names VALUES (99, 'key', 1, 1, 2)"))
        )
    await store.close()
