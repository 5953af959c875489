"""The contract of a graph store: what every method gives, on small collections with known answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.sql.documents import RecentChunks
from leanrag_engine.core.errors import InvalidInput, NotFound
from leanrag_engine.core.graphs.graph import GenerationContent, Graph, Hierarchy
from leanrag_engine.core.history import Publication
from leanrag_engine.core.jobs import (
    BuildRequest,
    BuildResult,
    DeleteRequest,
    DeleteResult,
    Forecast,
    ImportCounts,
    ImportRequest,
    ImportResult,
    IngestOutcome,
    IngestRequest,
    IngestResult,
    Job,
    JobFailure,
    JobRequest,
    JobResult,
    JobStatus,
    LeftOut,
    ReindexRequest,
    ReindexResult,
    StepRange,
)
from leanrag_engine.core.model import (
    BuildRecord,
    Distribution,
    EmbeddingCounts,
    Entity,
    Evidence,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    Finding,
    Generation,
    HierarchyHealth,
    LayerCount,
    LayerHealth,
    Method,
    MethodCounts,
    ReadDocument,
    Relation,
    SeedMeetings,
    Spent,
    VectorSpaces,
    window_id,
)

pytestmark = pytest.mark.anyio

MakeParcel = Callable[..., Any]
MakeHierarchy = Callable[..., Hierarchy]
Publish = Callable[..., Awaitable[Generation]]

NOW = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


async def put(store: SqlDatabase, parcel: Any, collection: str = "default") -> Any:
    (stored,) = await store.documents.put_all(collection, [parcel])
    return stored


@pytest.fixture
async def filled_store(store: SqlDatabase, parcel: MakeParcel) -> SqlDatabase:
    """A collection of two documents: ``carol`` (3 chunks) and ``moons`` (2 chunks)."""
    await store.documents.create_collection("default")
    carol = (
        "Scrooge was a miser.",
        "Marley was dead: to begin with.",
        "Cratchit copied letters in the tank.",
    )
    await put(store, parcel("carol", *carol, title="A Christmas Carol", metadata={"author": "Dickens"}))
    await put(store, parcel("moons", "Io has volcanoes.", "Titan has lakes of methane.", title="Moons"))
    return store


# --- collections ---------------------------------------------------------------------------


async def test_a_collection_is_created_once_and_found_by_its_name(store: SqlDatabase) -> None:
    assert await store.documents.collection("default") is None
    made = await store.documents.create_collection("default")
    assert (made.name, made.revision, made.documents, made.generation) == ("default", 0, 0, None)
    assert await store.documents.create_collection("default") == made
    assert await store.documents.collection("default") == made
    other = await store.documents.create_collection("another")
    assert [each.name for each in await store.documents.collections()] == ["another", "default"]
    assert other.number != made.number


async def test_the_error_for_an_unknown_collection_lists_the_existing_ones(filled_store: SqlDatabase) -> None:
    for call in (
        filled_store.documents.find_all("defualt"),
        filled_store.documents.search_windows("defualt", "Scrooge", 3),
        filled_store.generations.find_all("defualt"),
        filled_store.documents.pending_chunks("defualt"),
    ):
        with pytest.raises(NotFound, match=r"'defualt'(.|\n)*- default"):
            await call


# --- documents -----------------------------------------------------------------------------


async def test_a_document_is_read_as_it_was_written(filled_store: SqlDatabase) -> None:
    document = (await filled_store.documents.find("default", ["carol"]))["carol"]
    assert document is not None
    assert (document.number, document.title, document.source) == (1, "A Christmas Carol", "/carol")
    assert (document.chunks, document.metadata, document.media_type) == (
        3,
        {"author": "Dickens"},
        "text/plain",
    )
    assert document.ingested_at.tzinfo is UTC
    assert [each.id for each in await filled_store.documents.find_all("default")] == ["carol", "moons"]
    assert await filled_store.documents.find("default", ["unknown"]) == {}


async def test_chunks_have_citation_and_title_and_the_order_of_the_ids(
    filled_store: SqlDatabase, parcel: MakeParcel
) -> None:
    reading = await filled_store.documents.all_chunks("default")
    assert [each.citation for each in reading] == ["d1:c1", "d1:c2", "d1:c3", "d2:c1", "d2:c2"]
    assert [each.title for each in reading] == ["A Christmas Carol"] * 3 + ["Moons"] * 2
    source = parcel("moons", "Io has volcanoes.", "Titan has lakes of methane.", title="Moons")
    assert [each.source for each in reading] == ["/carol"] * 3 + ["/moons"] * 2
    assert [
        replace(each, citation="", title="", source="", media_type="") for each in reading[3:]
    ] == source.chunks
    backwards = [each.id for each in reversed(reading)]
    assert await filled_store.documents.chunks("default", [*backwards, "unknown"]) == list(reversed(reading))
    cited = await filled_store.documents.chunks_by_citation(
        "default", ["d2:c2", "d1:c9", "d9:c1", "nonsense", "d1:c1"]
    )
    assert [each.citation for each in cited] == ["d2:c2", "d1:c1"]
    of_moons = await filled_store.documents.chunk_ids("default", ["moons", "unknown"])
    assert of_moons == [each.id for each in reading[3:]]


async def test_extracts_are_read_in_reading_order(store: SqlDatabase, parcel: MakeParcel) -> None:
    await store.documents.create_collection("default")
    one = parcel("one", "First words.", "Second words.")
    said = [
        Extract(
            one.chunks[1].id,
            Method.MODEL,
            (ExtractedEntity("B", "person", "b", ("Bee",)), ExtractedEntity("C")),
        ),
        Extract(one.chunks[0].id, Method.HEURISTIC, (ExtractedEntity("A"),)),
        Extract(
            one.chunks[1].id,
            Method.AGENT,
            (),
            (ExtractedRelation("B", "C", "knows"), ExtractedRelation("C", "B", "owes", 7.5)),
        ),
    ]
    await store.documents.put_all("default", [ReadDocument(one.document, one.chunks, said)])
    assert await store.documents.extracts("default") == [said[1], said[0], said[2]]
    assert await store.documents.count_extracts("default") == {"agent": 1, "heuristic": 1, "model": 1}


async def test_what_replaces_a_text_has_a_citation_that_no_other_text_had(
    filled_store: SqlDatabase, parcel: MakeParcel
) -> None:
    before = await filled_store.documents.collection("default")
    replaced = await put(filled_store, parcel("carol", "Fezziwig held a ball."))
    assert replaced.number == 1
    assert await filled_store.documents.chunks_by_citation("default", ["d1:c1"]) == []
    after = await filled_store.documents.collection("default")
    assert before
    assert after
    assert (after.revision, after.documents, after.chunks) == (before.revision + 1, 2, 3)
    first = (await filled_store.documents.all_chunks("default"))[0]
    assert (first.text, first.citation, first.number) == ("Fezziwig held a ball.", "d1:c4", 1)
    assert len(await filled_store.documents.extracts("default")) == 3
    assert await filled_store.documents.search_windows("default", "Scrooge", 5) == []
    assert len(await filled_store.documents.search_windows("default", "Fezziwig", 5)) == 1


async def test_document_numbers_are_never_reused(filled_store: SqlDatabase, parcel: MakeParcel) -> None:
    await filled_store.documents.delete("default", ["carol"], None, Publication())
    assert (await put(filled_store, parcel("carol", "Other words."))).number == 3
    assert (await put(filled_store, parcel("third", "More words."))).number == 4


async def test_a_chunk_between_old_ones_is_read_between_them_and_cited_by_a_new_number(
    store: SqlDatabase, parcel: MakeParcel
) -> None:
    await store.documents.create_collection("default")
    one, two = (
        replace(each, number=each.number * 2 - 1)
        for each in parcel("carol", "One here.", "Three here.").chunks
    )
    between = replace(two, id="between", text="Two here.", number=2, start=10, end=19)
    after = replace(two, number=3, start=20, end=31)
    document = parcel("carol", "One here.", "Three here.").document
    await store.documents.put_all("default", [ReadDocument(document, [one, replace(two, number=2)], [])])
    said = Extract(two.id, Method.AGENT, (ExtractedEntity("Three"),))
    await store.documents.put_extracts("default", [said])
    longer = replace(document, text="One here.\nTwo here.\nThree here.")
    heuristic = [Extract(each.id, Method.HEURISTIC) for each in (one, between, after)]
    await store.documents.put_all("default", [ReadDocument(longer, [one, between, after], heuristic)])
    chunks = await store.documents.all_chunks("default")
    assert [(each.text, each.citation) for each in chunks] == [
        ("One here.", "d1:c1"), ("Two here.", "d1:c3"), ("Three here.", "d1:c2"),
    ]  # fmt: skip
    assert await store.documents.chunk_labels("default", [1]) == {1: [1, 3, 2]}
    assert await store.documents.extracts("default") == [heuristic[0], heuristic[1], said]
    unread = await store.documents.heuristic_chunks("default", due=False)
    assert [each.citation for each in unread] == ["d1:c1", "d1:c3"]
    hits = await store.documents.search_windows("default", "here", 9)
    assert {hit.id.partition("#")[0] for hit in hits} == {one.id, "between", two.id}
    texts = await store.documents.passage_texts("default", [1], after=(1, 1), limit=9)
    assert [(each.text, each.label) for each in texts] == [("Two here.", 3), ("Three here.", 2)]


async def test_under_another_title_the_same_chunks_are_found_by_it_and_pending(
    store: SqlDatabase, parcel: MakeParcel, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    await store.documents.create_collection("default")
    await put(store, parcel("carol", "One here.", title="Marley"))
    held = await store.documents.collection("default")
    assert held
    await publish(store, hierarchy("Scrooge"), revision=held.revision)
    assert await store.documents.pending_chunks("default") == []
    await put(store, parcel("carol", "One here.", title="Fezziwig"))
    assert [each.citation for each in await store.documents.pending_chunks("default")] == ["d1:c1"]
    assert await store.documents.search_windows("default", "Marley", 9) == []
    assert len(await store.documents.search_windows("default", "Fezziwig", 9)) == 1


async def test_a_chunk_that_was_read_is_read_anew_after_another_connection_changed_or_deleted_it(
    store: SqlDatabase, place: Any, parcel: MakeParcel
) -> None:
    await store.documents.create_collection("default")
    made = parcel("carol", "One here.", title="Marley")
    await put(store, made)
    ids = [chunk.id for chunk in made.chunks]
    assert [each.title for each in await store.documents.chunks("default", ids)] == ["Marley"]
    other = await place.open()
    await put(other, parcel("carol", "One here.", title="Fezziwig"))
    assert [each.title for each in await store.documents.chunks("default", ids)] == ["Fezziwig"]
    await other.documents.delete("default", ["carol"], None, Publication())
    assert await store.documents.chunks("default", ids) == []
    await other.close()


def test_no_more_chunks_are_kept_than_allowed(parcel: MakeParcel) -> None:
    recent = RecentChunks(most=3)
    first, second, many = (
        {chunk.id: chunk for chunk in parcel(id_, *texts).chunks}
        for id_, texts in (("a", "ab"), ("b", "cd"), ("c", "efgh"))
    )
    recent.keep(1, 1, first)
    recent.keep(1, 1, second)
    recent.keep(1, 1, many)
    assert recent.of(1, 1) == second
    assert recent.of(1, 2) == {}
    assert recent.of(1, 1) == {}


async def test_equal_ids_in_two_collections_are_separate(
    filled_store: SqlDatabase, parcel: MakeParcel
) -> None:
    await filled_store.documents.create_collection("other")
    same = parcel("carol", "Scrooge was a miser.")
    document = await put(filled_store, same, "other")
    assert document.number == 1
    assert [each.text for each in await filled_store.documents.all_chunks("other")] == [
        "Scrooge was a miser."
    ]
    assert len(await filled_store.documents.all_chunks("default")) == 5
    hits = await filled_store.documents.search_windows("other", "Scrooge", 5)
    assert [hit.id for hit in hits] == [window_id(same.chunks[0].id, 0)]


async def test_documents_put_together_are_stored_all_or_none(store: SqlDatabase, parcel: MakeParcel) -> None:
    await store.documents.create_collection("default")
    one, two, odd = (parcel(name, f"{name} met Ada.", f"{name} left.") for name in ("one", "two", "odd"))
    read = [ReadDocument(each.document, each.chunks, each.extracts) for each in (one, two)]
    twice = ReadDocument(odd.document, [*odd.chunks, *odd.chunks], [])
    with pytest.raises(InvalidInput, match="rejected a row"):
        await store.documents.put_all("default", [*read, twice])
    assert await store.documents.find_all("default") == []
    stored = await store.documents.put_all("default", read)
    assert [(each.id, each.number, each.revision, each.chunks) for each in stored] == [
        ("one", 1, 1, 2),
        ("two", 2, 2, 2),
    ]
    assert await store.documents.find_all("default") == stored
    assert {each.id for each in await store.documents.all_chunks("default")} == {
        chunk.id for each in (one, two) for chunk in each.chunks
    }


async def test_an_inconsistent_document_is_refused_as_a_whole(
    filled_store: SqlDatabase, parcel: MakeParcel
) -> None:
    before = await filled_store.documents.collection("default")
    one, two = parcel("one", "Some words."), parcel("two", "Other words.")
    for document, chunks, extracts, named in (
        (one.document, two.chunks, [], "'two'"),
        (one.document, one.chunks, two.extracts, two.chunks[0].id),
        (one.document, [*one.chunks, *one.chunks], [], "rejected a row"),
        (replace(one.document, title="half \ud800 character"), one.chunks, [], "half a character"),
    ):
        with pytest.raises(InvalidInput, match=named):
            await filled_store.documents.put_all("default", [ReadDocument(document, chunks, extracts)])
    assert await filled_store.documents.collection("default") == before


# --- generations ---------------------------------------------------------------------------

NAMES = (
    "Ebenezer Scrooge",
    "Jacob Marley",
    "Bob Cratchit",
    "Tiny Tim",
    "Mr. Fezziwig",
    "Belle",
    "Fred",
    "Topper",
    "Fan",
)


HEALTH = HierarchyHealth(
    clustering="leiden",
    cluster_size=20,
    cluster_cap=30,
    layers=(
        LayerHealth(
            0, 9, 0.5, Distribution(1, 1, 1.0, 1), 1.0,
            clusters=3, sizes=Distribution(2.0, 3.0, 3.0, 4.0), tightness=0.75,
        ),
        LayerHealth(1, 3, 1.0, Distribution(1, 2, 2.5, 4), 0.0, tau=3),
    ),
    meetings=SeedMeetings({1: 0.75, 2: 0.25}, {2: 1.0}),
)  # fmt: skip


async def test_a_published_hierarchy_is_read_as_it_was_written(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    built = hierarchy(*NAMES)
    assert built.sizes == (9, 3, 1)
    record = BuildRecord(
        embedder="toy",
        spaces=VectorSpaces(windows="x"),
        vectors={"chunks": 2},
        tau=3,
        health=HEALTH,
        models={"reading": "a", "writing": "b"},
        methods=(MethodCounts(1, {"model": 3}, {"joined": 2}),),
        embedded=EmbeddingCounts(9, 3),
    )
    generation = await publish(filled_store, built, 2, record=record)
    counts = tuple(LayerCount(i, len(g.entities), len(g.relations)) for i, g in enumerate(built.layers))
    assert (generation.layers, generation.top, generation.revision) == (counts, 2, 2)
    assert (generation.embedder, generation.dimension, generation.collection) == ("toy", 4, "default")
    assert generation.record == record
    for number, layer in enumerate(built.layers):
        assert await filled_store.generations.layer(generation.number, number) == list(layer.entities)
    assert await filled_store.generations.layer(generation.number, 3) == []
    collection = await filled_store.documents.collection("default")
    assert collection
    assert collection.generation == generation
    assert await filled_store.generations.embedder_state(generation.number) == b"fit"


async def test_every_field_of_entities_and_relations_is_kept(
    filled_store: SqlDatabase, publish: Publish
) -> None:
    one = Entity(
        "e1", "張三", "person", 0, "一个人。", Method.MODEL, 7, 0, "root", ("Zhang San", "Z. 😀"),
        (Finding("short", "long", ("c1", "c2")), Finding("alone")), ("c2", "c1", "c2"),
        "other", 0.75, 0.125, (Evidence(0, 2, "c1"), Evidence(2, 4, "c2")),
    )  # fmt: skip
    two = Entity("e2", "quotes \" and ' and \\ and \t", parent_id="root")
    root = Entity("root", "Everyone", layer=1, method=Method.JOINED, members=2)
    joined = Relation(
        "r1", "e2", "e1", 0, "know each other", Method.AGENT, 1, 5, 1, ("c1",), (Evidence(0, 15, "c1"),)
    )
    generation = await publish(filled_store, Hierarchy((Graph((one, two), (joined,)), Graph((root,), ()))))
    assert await filled_store.generations.layer(generation.number, 0) == [one, two]
    assert await filled_store.generations.layer(generation.number, 1) == [root]
    assert await filled_store.generations.relations_of(generation.number, ["e1"], 9) == [joined]


async def test_the_published_generation_and_the_one_before_are_kept(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    made = [
        await publish(filled_store, hierarchy(*NAMES[:size]), embedder=f"fit-{size}") for size in (3, 5, 7)
    ]
    assert [each.number for each in made] == sorted({each.number for each in made})
    assert await filled_store.generations.find_all("default") == made[::-1]
    await filled_store.generations.prune("default", 1, timedelta())
    assert await filled_store.generations.find_all("default") == [made[2], made[1]]
    assert len(await filled_store.generations.layer(made[1].number, 0)) == 5
    gone = made[0].number
    assert await filled_store.generations.layer(gone, 0) == []
    assert await filled_store.generations.search_entities(gone, "Scrooge", 5) == []
    assert await filled_store.generations.similar_entities(gone, "Scrooge", 5) == []
    assert await filled_store.generations.entities_by_name(gone, ["Jacob Marley"]) == []
    assert await filled_store.generations.relations_page(
        gone, layer=None, cluster=None, min_strength=0, offset=0, limit=5
    ) == ([], 0)
    with pytest.raises(NotFound, match=f"Generation {gone}"):
        await filled_store.generations.embedder_state(gone)


async def test_publishing_in_one_collection_keeps_the_generations_of_others(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    await filled_store.documents.create_collection("other")
    content = GenerationContent(hierarchy("Alone", "Together"), "toy", 4, b"", BuildRecord())
    kept = await filled_store.generations.publish("other", 0, content, Publication())
    for _ in range(3):
        await publish(filled_store, hierarchy(*NAMES))
    await filled_store.generations.prune("default", 2, timedelta())
    assert await filled_store.generations.find_all("other") == [kept]
    assert [each.name for each in await filled_store.generations.layer(kept.number, 0)] == [
        "Alone",
        "Together",
    ]


async def test_documents_added_after_the_build_are_pending(
    filled_store: SqlDatabase, parcel: MakeParcel, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    assert len(await filled_store.documents.pending_chunks("default")) == 5
    collection = await filled_store.documents.collection("default")
    assert collection
    assert (collection.pending_documents, collection.stale) == (2, True)
    await publish(filled_store, hierarchy(*NAMES), collection.revision)
    assert await filled_store.documents.pending_chunks("default") == []
    await put(filled_store, parcel("moons", "Europa has ice."))
    await put(filled_store, parcel("new", "Ganymede is large."))
    pending = await filled_store.documents.pending_chunks("default")
    assert [each.text for each in pending] == ["Europa has ice.", "Ganymede is large."]
    after = await filled_store.documents.collection("default")
    assert after
    assert (after.pending_documents, after.stale) == (2, True)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda e, r: (replace(e, parent_id="nobody"), r), "'nobody'"),
        (lambda e, r: (replace(e, layer=1), r), "layer 1"),
        (lambda e, r: (e, replace(r, target_id="nobody")), "'nobody'"),
        (lambda e, r: (e, replace(r, layer=2)), "layer 2"),
    ],
    ids=["no parent", "wrong layer", "relation without an end", "relation in the wrong layer"],
)
async def test_an_inconsistent_hierarchy_is_not_published(
    filled_store: SqlDatabase,
    hierarchy: MakeHierarchy,
    publish: Publish,
    damage: Callable[..., Any],
    named: str,
) -> None:
    good = await publish(filled_store, hierarchy(*NAMES))
    base, *above = hierarchy(*NAMES).layers
    entity, relation = damage(base.entities[0], base.relations[0])
    bad = Graph((entity, *base.entities[1:]), (relation, *base.relations[1:]))
    with pytest.raises(InvalidInput, match=named):
        await publish(filled_store, Hierarchy((bad, *above)))
    with pytest.raises(InvalidInput, match="unique id"):
        await publish(filled_store, Hierarchy((Graph((*base.entities, base.entities[0]), ()), *above)))
    assert await filled_store.generations.find_all("default") == [good]


async def test_a_corpus_without_entities_can_be_published(
    filled_store: SqlDatabase, publish: Publish
) -> None:
    generation = await publish(filled_store, Hierarchy((Graph((), ()),)))
    assert await filled_store.generations.layer(generation.number, 0) == []
    assert await filled_store.generations.search_entities(generation.number, "Scrooge", 5) == []


async def test_readers_see_complete_generations_while_others_are_published(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    """At most one publish falls into a read: a generation is kept until the second one after it."""
    sizes = (40, 20)
    names = [f"Name {number}" for number in range(max(sizes))]
    await publish(filled_store, hierarchy(*names[: sizes[0]]))
    seen: set[int] = set()
    done, read_ended = anyio.Event(), anyio.Event()

    async def read() -> None:
        while not done.is_set():
            collection = await filled_store.documents.collection("default")
            assert collection
            assert collection.generation
            entities = await filled_store.generations.layer(collection.generation.number, 0)
            assert len(entities) == collection.generation.layers[0].entities
            seen.add(len(entities))
            read_ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        for turn in range(10):
            await publish(filled_store, hierarchy(*names[: sizes[turn % 2]]))
            read_ended = anyio.Event()
            await read_ended.wait()
        done.set()
    assert seen <= set(sizes)


# --- entities ------------------------------------------------------------------------------


@pytest.fixture
async def built(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> tuple[SqlDatabase, int, Hierarchy]:
    hierarchy_ = hierarchy(*NAMES)
    return filled_store, (await publish(filled_store, hierarchy_)).number, hierarchy_


Built = tuple[SqlDatabase, int, Hierarchy]


async def test_entities_are_returned_in_the_order_of_the_ids(built: Built) -> None:
    store, generation, hierarchy_ = built
    wanted = [hierarchy_.root, *reversed(hierarchy_.layers[0].entities)]
    ids = [entity.id for entity in wanted]
    assert await store.generations.entities(generation, [*ids, "unknown"]) == wanted
    assert await store.generations.entities(generation, []) == []


async def test_a_list_of_ids_may_be_longer_than_sqlite_has_variables(built: Built) -> None:
    store, generation, hierarchy_ = built
    ids = [f"unknown {number}" for number in range(300_000)]
    assert await store.generations.entities(generation, [*ids, hierarchy_.root.id]) == [hierarchy_.root]
    assert await store.documents.chunks("default", ids) == []
    assert await store.generations.relations_of(generation, ids, 5) == []


async def test_entities_are_found_by_any_spelling_of_their_names(
    filled_store: SqlDatabase, publish: Publish
) -> None:
    ids = (
        ("e1", "World Health Organization", ("WHO",)),
        ("e2", "Café Müller", ()),
        ("e3", "C++", ()),
        ("e4", "C", ()),
    )
    base = [Entity(id_, name, aliases=aliases, parent_id="r") for id_, name, aliases in ids]
    above = Entity("r", "who", layer=1)
    generation = (
        await publish(filled_store, Hierarchy((Graph(tuple(base), ()), Graph((above,), ()))))
    ).number

    async def find_names(*names: str) -> list[str]:
        return [entity.id for entity in await filled_store.generations.entities_by_name(generation, names)]

    assert await find_names("the WHO") == ["e1", "r"]
    assert await find_names("cafe müller", "world health organizations") == ["e1", "e2"]
    assert await find_names("c++") == ["e3"]
    assert await find_names("nobody", "", "  ") == []


async def test_members_come_page_by_page_with_most_mentions_first(built: Built) -> None:
    store, generation, hierarchy_ = built
    cluster = hierarchy_.layers[1].entities[0]
    children = [entity for entity in hierarchy_.layers[0].entities if entity.parent_id == cluster.id]
    expected = sorted(children, key=lambda entity: -entity.mentions)
    assert await store.generations.members(generation, cluster.id, 0, 10) == expected
    assert await store.generations.members(generation, cluster.id, 1, 2) == expected[1:3]
    assert await store.generations.members(generation, hierarchy_.layers[0].entities[0].id, 0, 10) == []


async def test_the_relations_of_a_layer_come_in_the_order_of_the_build(built: Built) -> None:
    store, generation, hierarchy_ = built
    for number, layer in enumerate(hierarchy_.layers):
        assert await store.generations.relations(generation, number) == list(layer.relations)
    assert await store.generations.relations(generation, 99) == []


async def test_keyword_search_over_entities_can_be_limited_to_a_layer(built: Built) -> None:
    store, generation, hierarchy_ = built
    scrooge = hierarchy_.layers[0].entities[0]
    hits = await store.generations.search_entities(generation, "What of Scrooge?", 5)
    assert hits[0].id == scrooge.id
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert await store.generations.search_entities(generation, "Scrooge", 5, layer=1) == []
    clusters = await store.generations.search_entities(generation, "cluster", 50, layer=1)
    assert {hit.id for hit in clusters} == {entity.id for entity in hierarchy_.layers[1].entities}
    assert await store.generations.search_entities(generation, "Scrooge", 5, layer=9) == []
    assert await store.generations.search_entities(generation, "Scrooge", 0) == []


# --- relations -----------------------------------------------------------------------------


def sort_by_strength(relations: list[Relation]) -> list[Relation]:
    """Sorted is stable: equally strong ones keep the order of building."""
    return sorted(relations, key=lambda relation: (-relation.strength, -relation.weight))


async def test_relations_around_and_among_entities(built: Built) -> None:
    store, generation, hierarchy_ = built
    every = [relation for layer in hierarchy_.layers for relation in layer.relations]
    ids = {entity.id for entity in hierarchy_.layers[0].entities[:4]}
    ends = [(relation, {relation.source_id, relation.target_id}) for relation in every]
    among = await store.generations.relations_among(generation, sorted(ids))
    assert among == sort_by_strength([relation for relation, both in ends if both <= ids])
    around = await store.generations.relations_of(generation, sorted(ids), 100)
    assert around == sort_by_strength([relation for relation, both in ends if both & ids])
    assert len(around) > len(among) > 0
    assert await store.generations.relations_of(generation, sorted(ids), 2) == around[:2]


@pytest.mark.parametrize("layer", [None, 0, 1, 7])
@pytest.mark.parametrize("with_cluster", [False, True])
@pytest.mark.parametrize("min_strength", [0, 2])
async def test_a_page_of_relations_is_a_slice_of_all_that_match(
    built: Built, layer: int | None, with_cluster: bool, min_strength: int
) -> None:
    store, generation, hierarchy_ = built
    cluster = hierarchy_.layers[1].entities[1].id if with_cluster else None
    every = [relation for each in hierarchy_.layers for relation in each.relations]
    fitting = sort_by_strength(
        [
            relation
            for relation in every
            if (relation.layer > 0 if layer is None else relation.layer == layer)
            and relation.strength >= min_strength
            and (cluster is None or cluster in (relation.source_id, relation.target_id))
        ]
    )
    wanted = {"layer": layer, "cluster": cluster, "min_strength": min_strength}
    assert await store.generations.relations_page(generation, offset=0, limit=100, **wanted) == (
        fitting,
        len(fitting),
    )
    assert await store.generations.relations_page(generation, offset=1, limit=1, **wanted) == (
        fitting[1:2],
        len(fitting),
    )


# --- jobs ----------------------------------------------------------------------------------

REQUESTS: dict[str, JobRequest] = {
    "ingest": IngestRequest(()),
    "import": ImportRequest("graphrag", "/graphs/output", hierarchy=True, allowed=("/graphs",)),
    "delete": DeleteRequest(()),
    "reindex": ReindexRequest(damaged_only=True),
    "forecast": BuildRequest(),
}


def job(id_: str, status: JobStatus = JobStatus.QUEUED, minutes: int = 0, **fields: Any) -> Job:
    at = NOW + timedelta(minutes=minutes)
    usual: dict[str, Any] = {"kind": "build", "collection": "default", "request": BuildRequest(upgrade=True)}
    times = {"created_at": at, "updated_at": at}
    return Job(**usual | times | {"id": id_, "status": status, "owner": "first owner"} | fields)


async def test_a_job_is_read_as_it_was_written_and_can_be_overwritten(store: SqlDatabase) -> None:
    first = job("j1")
    await store.jobs.put(first)
    assert await store.jobs.find("j1") == first
    result = BuildResult(2, (LayerCount(0, 3, 4),), (Spent("extract", 1, 2, 3, 0.5),))
    later = replace(
        first, status=JobStatus.RUNNING, stage="embed", done=3, total=9, message="on it",
        failures=(JobFailure("x", "unreadable"),), result=result, attempts=2, reached=1, updated_at=NOW + timedelta(hours=1),
    )  # fmt: skip
    await store.jobs.put(later)
    assert await store.jobs.find("j1") == later
    assert await store.jobs.find("unknown") is None


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("ingest", IngestResult((IngestOutcome("k1", "Kepler", "added", 2),))),
        ("ingest", IngestResult((), built=False)),
        ("ingest", IngestResult((), True, BuildResult(2, (LayerCount(0, 3, 4),)))),
        (
            "import",
            ImportResult(
                "graphrag",
                ImportCounts(1, 2, 3, 4),
                ImportCounts(1, 2, 3, 3),
                1,
                (LeftOut("relations of an entity with itself", 1, ("Fog – Fog",)),),
                built=True,
                build=BuildResult(2, (LayerCount(0, 3, 3),)),
            ),
        ),
        ("delete", DeleteResult(1, 2)),
        ("reindex", ReindexResult({"chunks": 3, "entities": 2})),
        (
            "forecast",
            Forecast(
                1,
                2,
                (
                    StepRange("extract", (1, 1), (20, 20), (3, 3), (0.5, 0.5)),
                    StepRange("glean", (0, 1), (0, 2), (0, 3), None),
                ),
                exact=False,
                guessed=("glean",),
                models={"reading": "small"},
            ),
        ),
    ],
)
async def test_every_result_of_a_job_comes_back_as_it_went_in(
    store: SqlDatabase, kind: str, result: JobResult
) -> None:
    done = replace(job("j1", JobStatus.DONE, result=result), kind=kind, request=REQUESTS[kind])
    await store.jobs.put(done)
    assert await store.jobs.find("j1") == done


async def test_jobs_come_newest_first(store: SqlDatabase) -> None:
    for number, status in enumerate(
        [JobStatus.DONE, JobStatus.RUNNING, JobStatus.FAILED, JobStatus.INTERRUPTED]
    ):
        await store.jobs.put(
            job(f"j{number}", status, number, collection="even" if number % 2 == 0 else "odd")
        )
    assert [each.id for each in await store.jobs.find_newest()] == ["j3", "j2", "j1", "j0"]
    assert [each.id for each in await store.jobs.find_newest("even")] == ["j2", "j0"]
    assert [each.id for each in await store.jobs.find_newest(limit=1)] == ["j3"]
    assert [each.id for each in await store.jobs.find_unfinished()] == ["j3", "j1"]


async def test_exactly_one_of_many_claims_of_a_job_succeeds(store: SqlDatabase) -> None:
    await store.jobs.put(job("j1", JobStatus.INTERRUPTED))
    won: list[str] = []

    async def claim(name: str) -> None:
        if await store.jobs.claim("j1", "first owner", name):
            won.append(name)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(claim, f"owner {number}")
    claimed = await store.jobs.find("j1")
    assert claimed
    assert [claimed.owner] == won
    assert not await store.jobs.claim("unknown", "first owner", "me")
    await store.jobs.put(job("j2", JobStatus.DONE))
    assert not await store.jobs.claim("j2", "first owner", "me")


async def test_a_cancel_request_survives_updates_of_the_job(store: SqlDatabase) -> None:
    await store.jobs.put(job("j1", JobStatus.RUNNING))
    assert await store.jobs.request_cancel("j1") is JobStatus.RUNNING
    await store.jobs.put(job("j1", JobStatus.RUNNING, done=5))
    written = await store.jobs.find("j1")
    assert written
    assert (written.cancel_requested, written.done) == (True, 5)
    assert await store.jobs.request_cancel("unknown") is None
    await store.jobs.put(job("j2", JobStatus.DONE))
    assert await store.jobs.request_cancel("j2") is JobStatus.DONE
    finished = await store.jobs.find("j2")
    assert finished
    assert not finished.cancel_requested


async def test_the_vector_version_counts_up(store: SqlDatabase) -> None:
    assert await store.generations.vector_version() == 0
    assert await store.generations.bump_vector_version() == 1
    assert await store.generations.bump_vector_version() == 2
    assert await store.generations.vector_version() == 2


async def test_a_store_serves_several_event_loops_at_once(store: SqlDatabase) -> None:
    """Jobs run in a separate event loop; writes from both loops must succeed."""
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(
                anyio.to_thread.run_sync, lambda: anyio.run(store.generations.bump_vector_version)
            )
            group.start_soon(store.generations.bump_vector_version)
    assert await store.generations.vector_version() == 16
