"""A PostgreSQL database: what is refused and why, whose turn it is to write, and a ranking that equals SQLite's."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from anyio.abc import TaskGroup
from leanrag_tests_jobs import finish
from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine import make_url

from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.sql.schema.tables import REVISION, metadata
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import Busy, InvalidInput, LeanRAGError, LockLost, StoreUnusable
from leanrag_engine.core.graphs.graph import GenerationContent, Graph, Hierarchy
from leanrag_engine.core.history import Publication
from leanrag_engine.core.jobs import JobStatus
from leanrag_engine.core.model import BuildRecord, DocumentSource, Entity, Generation, ReadDocument
from leanrag_engine.core.ports import LockHolder
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.building import generation

pytestmark = pytest.mark.anyio

MakeParcel = Callable[..., Any]
Publish = Callable[..., Awaitable[Generation]]
StartChild = Callable[..., Any]

SECRET = "s3cret-pass"  # noqa: S105 - no one's


async def open_refused(address: str, *, read_only: bool = False) -> str:
    with pytest.raises(LeanRAGError) as caught:
        await SqlDatabase.connect(address, read_only=read_only)
    assert caught.value.next_step
    assert SECRET not in str(caught.value)
    return str(caught.value)


def execute(address: str, statement: str) -> None:
    import psycopg  # noqa: PLC0415 - without a server the driver need not be there

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(statement)


def end_connections(address: str) -> None:
    """Do what a restart of the server does, or a proxy that ends connections."""
    execute(
        address,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def change(address: str, **parts: Any) -> str:
    return make_url(address).set(**parts).render_as_string(hide_password=False)


# --- what is refused -----------------------------------------------------------------------


async def test_a_server_that_is_down_is_named_without_the_password(postgres_server: str) -> None:
    message = await open_refused(change(postgres_server, port=1, password=SECRET))
    assert ":1/postgres" in message
    assert "refused" in message
    assert "LEANRAG_DATABASE_URL" in message


async def test_a_wrong_password_or_name_is_refused_with_the_server_s_reason(postgres_server: str) -> None:
    assert "nowhere" in await open_refused(change(postgres_server, database="nowhere"))
    assert "nobody_here" in await open_refused(
        change(postgres_server, username="nobody_here", password=SECRET)
    )


@pytest.mark.parametrize(
    "address",
    [
        "mysql://a:s3cret-pass@b/c",
        "s3cret-pass",
        "postgresql://a:s3cret-pass@b",
        "postgresql://a:s3@cret-pass@b/c",
    ],
)
async def test_what_is_no_address_is_refused_without_repeating_it(postgres_server: str, address: str) -> None:
    del postgres_server  # the driver is there
    assert "postgresql://user:password@host:5432/database" in await open_refused(address)


async def test_a_database_with_another_encoding_is_refused(postgres_server: str) -> None:
    execute(postgres_server, "CREATE DATABASE leanrag_latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    try:
        message = await open_refused(change(postgres_server, database="leanrag_latin"))
    finally:
        execute(postgres_server, "DROP DATABASE leanrag_latin WITH (FORCE)")
    assert "LATIN1" in message
    assert "UTF8" in message


async def test_a_server_that_is_too_old_is_refused_with_both_versions(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leanrag_engine.adapters.sql.dialect.postgres import server  # noqa: PLC0415 - as above

    monkeypatch.setattr(server, "OLDEST", 99)
    message = await open_refused(postgres_database)
    assert "99" in message
    assert "PostgreSQL 1" in message


async def test_tables_of_another_program_are_refused(postgres_server: str) -> None:
    execute(postgres_server, "CREATE DATABASE leanrag_theirs TEMPLATE template0")
    address = change(postgres_server, database="leanrag_theirs")
    try:
        assert "no store yet" in await open_refused(address, read_only=True)
        execute(address, "CREATE TABLE theirs (value integer)")
        assert "did not make" in await open_refused(address)
    finally:
        execute(postgres_server, "DROP DATABASE leanrag_theirs WITH (FORCE)")


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_newer_schema_is_refused_with_both_versions(postgres_database: str, read_only: bool) -> None:
    execute(postgres_database, "UPDATE alembic_version SET version_num = '9999'")
    message = await open_refused(postgres_database, read_only=read_only)
    assert "9999" in message
    assert REVISION in message


async def test_a_database_opened_for_reading_refuses_to_write(postgres_database: str) -> None:
    store = await SqlDatabase.connect(postgres_database, read_only=True)
    with pytest.raises(StoreUnusable, match="cannot be written to"):
        await store.documents.create_collection("other")
    assert await store.documents.collections() == []
    await store.close()


async def test_a_row_with_an_unknown_foreign_key_is_refused(postgres_database: str) -> None:
    store = await SqlDatabase.connect(postgres_database, read_only=False)
    with pytest.raises(InvalidInput, match="foreign key"):
        await store._transactions.write(
            lambda connection: connection.execute(text("INSERT INTO names VALUES (99, 'key', 1, 1, 2)"))
        )
    await store.close()


async def test_the_migrations_make_the_schema_that_the_code_uses(postgres_database: str) -> None:
    def compare(connection: Connection) -> tuple[list[Any], set[tuple[str, str | None]]]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        made = {
            (table, index["name"])
            for table in inspect(connection).get_table_names()
            for index in inspect(connection).get_indexes(table)
            if "duplicates_constraint" not in index
        }
        return compare_metadata(context, metadata), made

    store = await SqlDatabase.connect(postgres_database, read_only=False)
    differences, made = await store._transactions.read(compare)
    await store.close()
    assert differences == []
    assert made == {(table.name, index.name) for table in metadata.tables.values() for index in table.indexes}


async def test_a_search_after_the_server_dropped_all_connections_works(
    postgres_database: str, parcel: MakeParcel
) -> None:
    store = await SqlDatabase.connect(postgres_database, read_only=False)
    await store.documents.create_collection("default")
    each = parcel("x", "Some words here.")
    await store.documents.put_all("default", [each])
    end_connections(postgres_database)
    assert len(await store.documents.search_windows("default", "words", 5)) == 1
    await store.documents.create_collection("other")
    await store.close()


# --- whose turn it is ----------------------------------------------------------------------


async def test_a_write_behind_another_process_s_write_raises_busy_and_readers_do_not_wait(
    postgres_database: str, parcel: MakeParcel, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg  # noqa: PLC0415 - as above

    from leanrag_engine.adapters.sql.dialect.postgres import server  # noqa: PLC0415 - as above

    monkeypatch.setattr(server, "LOCK_SECONDS", 0.05)
    store = await SqlDatabase.connect(postgres_database, read_only=False)
    await store.documents.create_collection("default")
    each = parcel("x", "Some words here.")
    with psycopg.connect(postgres_database) as other:
        other.execute(f"SELECT pg_advisory_xact_lock({server.KEY % server.TRANSACTION})")
        with pytest.raises(Busy, match="lock timeout"):
            await store.documents.put_all("default", [each])
        assert await store.documents.all_chunks("default") == []
        assert await store.jobs.claim("none", "a", "b") is False  # jobs wait for no build
    await store.documents.put_all("default", [each])
    assert len(await store.documents.all_chunks("default")) == 1
    await store.close()


HOLDS = """
from leanrag_engine.adapters.sql.dialect.postgres.writer_lock import PostgresWriterLock

async def main():
    async with PostgresWriterLock(sys.argv[1]).hold("build of collection default", waiting=print):
        say("held")
        wait()

anyio.run(main)
"""


async def test_the_writer_is_named_to_others_and_its_death_lets_the_next_one_write(
    postgres_database: str, child: StartChild
) -> None:
    from leanrag_engine.adapters.sql.dialect.postgres.writer_lock import PostgresWriterLock  # noqa: PLC0415

    lock = PostgresWriterLock(postgres_database)
    assert await lock.holder() is None
    writer = child(HOLDS, postgres_database)
    assert writer.read_line() == "held"
    seen: list[LockHolder | None] = []

    def waiting(holder: LockHolder | None) -> None:
        seen.append(holder)
        writer.kill()

    with anyio.fail_after(60):
        async with lock.hold("ingest", waiting=waiting):
            assert seen[0]
            assert seen[0].pid == writer.pid
            assert seen[0].purpose == "build of collection default"
            held = await PostgresWriterLock(postgres_database).holder()
            assert held
            assert held.purpose == "ingest"
    assert await lock.holder() is None


async def test_a_holder_whose_connection_is_lost_writes_nothing_more_and_is_stopped(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leanrag_engine.adapters.sql.dialect.postgres import writer_lock  # noqa: PLC0415

    monkeypatch.setattr(writer_lock, "WATCH_SECONDS", 0.05)
    lock = writer_lock.PostgresWriterLock(postgres_database)
    store = await SqlDatabase.connect(postgres_database, read_only=False)

    async def work(*, write: bool) -> None:
        async with lock.hold("build", waiting=lambda _: None):
            await store.documents.create_collection("held")
            end_connections(postgres_database)
            async with writer_lock.PostgresWriterLock(postgres_database).hold("next", waiting=lambda _: None):
                pass
            if write:
                await store.documents.create_collection("lost")
            await anyio.sleep_forever()

    with anyio.fail_after(60):
        for write in (True, False):
            with pytest.raises(LockLost, match="may write now"):
                await work(write=write)
            # Outside, whoever has no lock writes as before.
            await store.documents.create_collection(f"after {write}")
    assert {each.name for each in await store.documents.collections()} == {
        "held",
        "after True",
        "after False",
    }
    await store.close()


@pytest.mark.parametrize("alone", [True, False], ids=["build", "ingest"])
async def test_a_build_that_lost_the_lock_does_not_bring_back_what_another_process_deleted(
    postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, alone: bool
) -> None:
    build, go_on, builds = generation.build_generation, threading.Event(), list[int]()

    async def wait_to_build(stores: Any, *given: Any) -> Generation:
        builds.append(len(await stores.documents.find_all("default")))
        await anyio.to_thread.run_sync(go_on.wait, abandon_on_cancel=True)
        return await build(stores, *given)

    monkeypatch.setattr(generation, "build_generation", wait_to_build)
    sources = [DocumentSource(text=f"Kepler-{n} shines in Lyra.", id=f"k{n}") for n in range(3)]

    def opened(name: str) -> Awaitable[LeanRAG]:
        return LeanRAG.open(load_settings(data_dir=tmp_path / name, database_url=postgres_database))

    async with await opened("first") as first, await opened("second") as second:
        job = await first.submit_ingest(sources, build=not alone)
        if alone:
            await finish(first, job)
            job = await first.submit_build()
        while not builds:
            await anyio.sleep(0.01)
        end_connections(postgres_database)
        deletion, _ = await second.submit_delete(["k1"])
        assert deletion is not None
        await finish(second, deletion)
        go_on.set()
        ended = await first.job(job.id, wait_seconds=60)
        held = (await first.status()).collection
        assert held.documents == 2
        if alone:
            assert (ended.status, builds, held.stale) == (JobStatus.DONE, [3, 2], False)
        else:
            assert (ended.status, builds, held.stale) == (JobStatus.FAILED, [3], True)
            assert "writer lock was lost" in ended.message


async def test_a_wait_for_the_lock_survives_a_restart_of_the_server(postgres_database: str) -> None:
    from leanrag_engine.adapters.sql.dialect.postgres.writer_lock import PostgresWriterLock  # noqa: PLC0415

    lock, waits = PostgresWriterLock(postgres_database), list[LockHolder | None]()
    done = anyio.Event()

    async def wait() -> None:
        async with lock.hold("second", waiting=waits.append):
            done.set()

    async def hold(group: TaskGroup) -> None:
        async with lock.hold("first", waiting=lambda _: None):
            group.start_soon(wait)
            while not waits:
                await anyio.sleep(0.01)
            end_connections(postgres_database)
            await done.wait()
            await anyio.sleep_forever()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            with pytest.raises(LockLost):
                await hold(group)


# --- keyword search ------------------------------------------------------------------------

SENTENCES = (
    "The mill by the river grinds corn.",
    "Running mills ran corn to the river's mouth; the miller runs.",
    "parse_http_header reads HTTPServer.headers() since v2.0",
    "语义聚合与层次检索技术。检索很快。",
    "吾輩は猫である。名前はまだ無い。",
    "서울에서 만난 사람은 작가이다.",
    "C++ and C# are not .NET, it's said: don't 'quote' me \\ ever",
    "Café crème à la façon de Zoë, naïve café.",
    "Какие слова стоят в этом тексте?",
)
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "ivory", "jasper")


async def test_the_same_rows_have_the_same_scores_as_on_sqlite(
    postgres_database: str, tmp_path: Path, parcel: MakeParcel, publish: Publish
) -> None:
    """The tolerance of the two rankings: none for rows and order, 1e-9 of a score for rounding."""
    chance = random.Random(7)  # noqa: S311 - repeatable
    texts = [*SENTENCES, *(" ".join(chance.choices(WORDS, range(10, 0, -1), k=9)) for _ in range(300))]
    entities = tuple(
        Entity(f"e{place}", each[:20], description=each, aliases=(each[-9:],), parent_id="r")
        for place, each in enumerate(texts)
    )
    built = Hierarchy((Graph(entities, ()), Graph((Entity("r", "All amber", layer=1),), ())))
    queries = [
        *SENTENCES,
        *WORDS,
        "river mills",
        "http header",
        "检索 技术",
        "cafe naive",
        "nowhere",
        "title",
        *(" ".join(chance.sample(WORDS, 3)) for _ in range(20)),
    ]
    found = []
    for store in (
        await SqlDatabase.open(tmp_path, read_only=False),
        await SqlDatabase.connect(postgres_database, read_only=False),
    ):
        await store.documents.create_collection("default")
        each = parcel("x", *texts, title="A title of amber")
        await store.documents.put_all("default", [ReadDocument(each.document, each.chunks, ())])
        other = parcel("y", *texts[:50], title="Gone")
        await store.documents.put_all("default", [ReadDocument(other.document, other.chunks, ())])
        await store.documents.put_all("default", [_replaced(parcel)])
        number = (await publish(store, built)).number
        hits = [
            *[await store.documents.search_windows("default", query, 40) for query in queries],
            *[await store.generations.search_entities(number, query, 40) for query in queries],
            *[await store.generations.search_entities(number, query, 40, 1) for query in queries],
        ]
        alike = [
            [each.id for each in await store.generations.similar_entities(number, query, 5)]
            for query in queries
        ]
        found.append((hits, alike))
        await store.close()
    (on_sqlite, alike_sqlite), (on_postgres, alike_postgres) = found
    assert sum(map(len, on_sqlite)) > 500
    for first, second in zip(on_sqlite, on_postgres, strict=True):
        assert [hit.id for hit in first] == [hit.id for hit in second]
        assert [hit.score for hit in first] == pytest.approx([hit.score for hit in second], rel=1e-9)
    assert alike_sqlite == alike_postgres


def _replaced(parcel: MakeParcel) -> ReadDocument:
    each = parcel("y", "Only this amber is left.", title="Left")
    return ReadDocument(each.document, each.chunks, ())


async def test_nothing_of_a_deleted_document_stays_in_any_table(
    postgres_database: str, parcel: MakeParcel, publish: Publish
) -> None:
    store = await SqlDatabase.connect(postgres_database, read_only=False)
    await store.documents.create_collection("default")
    for name, words in (("kept", "Some words here."), ("gone", "The xyzzyplugh word of Xyzzyplugh here.")):
        each = parcel(name, words)
        await store.documents.put_all("default", [each])
    entities = (Entity("a", "Xyzzyplugh", description="Some xyzzyplugh.", parent_id="r"),)
    root = Graph((Entity("r", "All", layer=1),), ())
    await publish(store, Hierarchy((Graph(entities, ()), root)), 2)
    assert await _count_traces(store, "xyzzyplugh") > 3
    left = Hierarchy((Graph((Entity("b", "Some", parent_id="r"),), ()), root))
    await store.documents.delete(
        "default", ["gone"], GenerationContent(left, "toy", 4, b"fit", BuildRecord()), Publication()
    )
    assert await _count_traces(store, "xyzzyplugh") == 0
    assert await _count_traces(store, "words") > 0
    await store.close()


async def _count_traces(store: SqlDatabase, letters: str) -> int:
    """Return the number of rows, of all tables, that contain ``letters`` in either case."""

    def count(connection: Connection) -> int:
        return sum(
            int(
                connection.exec_driver_sql(
                    f"SELECT count(*) FROM {table} AS row WHERE row::text ILIKE %s",  # noqa: S608 - our tables
                    (f"%{letters}%",),
                ).scalar_one()
            )
            for table in inspect(connection).get_table_names()
        )

    return await store._transactions.read(count)


# --- a server that freezes -----------------------------------------------------------------


class Relay:
    """A server on loopback that passes everything on to another one until it falls silent, as one that freezes: its
    system goes on taking connections."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.silent = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._behind))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), target:
            while data := source.recv(65_536):
                if not self.silent:
                    target.sendall(data)

    def close(self) -> None:
        self._listening.close()


async def test_a_server_that_freezes_ends_what_waits_for_it_and_is_used_again_when_it_is_back(
    postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = pytest.importorskip("leanrag_engine.adapters.sql.dialect.postgres.connecting")
    relay = Relay(make_url(postgres_database).port or 5432)
    monkeypatch.setattr(connecting, "SILENCE_SECONDS", 0.3)
    monkeypatch.setitem(connecting.CONNECTION, "connect_timeout", 2)
    settings = load_settings(data_dir=tmp_path, database_url=change(postgres_database, port=relay.port))
    async with await LeanRAG.open(settings) as engine:
        await finish(engine, await engine.submit_ingest([DocumentSource(id="a", text="Ada met Isla.")]))
        relay.silent = True
        with anyio.fail_after(60), pytest.raises(StoreUnusable, match=r"does not answer|timeout"):
            await engine.documents()
        relay.silent = False
        assert [each.id for each in await engine.documents()] == ["a"]
    relay.close()
