"""Keyword search: any text is a valid query, and misspelt names are found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Entity, Generation, window_id
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import find_whole_words

pytestmark = pytest.mark.anyio

MakeParcel = Callable[..., Any]
Publish = Callable[..., Awaitable[Generation]]

AWKWARD = (
    '"',
    'a "quoted" phrase',
    "a-b",
    "NEAR(a b, 3)",
    "a AND OR NOT",
    "title : text",
    "{title text} : word",
    "^word*",
    "word + other",
    "'); DROP TABLE chunks; --",
    "\x00",
    "before\x00after",
    "😀",
    "\ud800",
    "(((",
    "%_\\",
    "",
    "   \n",
    "the of and",
    "x" * 10_000,
    "word " * 2_000,
    "什么是语义聚合？",
    "Какие слова?",
)


async def put(store: SqlDatabase, parcel: Any) -> list[str]:
    await store.documents.put_all("default", [parcel])
    return [window_id(chunk.id, 0) for chunk in parcel.chunks]


@pytest.fixture
async def words(store: SqlDatabase, parcel: MakeParcel, publish: Publish) -> SqlDatabase:
    await store.documents.create_collection("default")
    await put(store, parcel("x", "word other", "NEAR title and more", title="Some title"))
    entities = (Entity("e1", 'word "quoted"', parent_id="r"), Entity("e2", "100%_\\", parent_id="r"))
    await publish(store, Hierarchy((Graph(entities, ()), Graph((Entity("r", "All", layer=1),), ()))))
    return store


@pytest.mark.parametrize("query", AWKWARD)
async def test_no_text_breaks_a_search(words: SqlDatabase, query: str) -> None:
    collection = await words.documents.collection("default")
    assert collection
    assert collection.generation
    number = collection.generation.number
    for hits in (
        await words.documents.search_windows("default", query, 5),
        await words.generations.search_entities(number, query, 5),
        await words.generations.search_entities(number, query, 5, 0),
    ):
        assert all(hit.score > 0 for hit in hits)
    await words.generations.similar_entities(number, query, 5)
    await words.generations.entities_by_name(number, [query])
    assert len(await words.documents.search_windows("default", "word", 5)) == 1


@pytest.fixture(scope="module")
def any_text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlDatabase]:
    """One store for all examples."""
    # Not an asynchronous fixture: of this scope it would hold an event loop over all tests that follow.

    async def make() -> SqlDatabase:
        store = await SqlDatabase.open(tmp_path_factory.mktemp("any"), read_only=False)
        await store.documents.create_collection("default")
        return store

    store = anyio.run(make)
    yield store
    anyio.run(store.close)


@given(query=st.text(max_size=60), name=st.text(min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
async def test_any_name_is_stored_and_any_text_searched(
    any_text: SqlDatabase, publish: Publish, query: str, name: str
) -> None:
    base = Graph((Entity("e", name, description=query, parent_id="r"),), ())
    built = Hierarchy((base, Graph((Entity("r", "-", layer=1),), ())))
    generation = (await publish(any_text, built)).number
    assert await any_text.generations.layer(generation, 0) == list(base.entities)
    found = await any_text.generations.entities_by_name(generation, [name])
    assert bool(name_key(name)) == ("e" in [entity.id for entity in found])
    alike = await any_text.generations.similar_entities(generation, name, 1)
    assert not name.isalpha() or [entity.id for entity in alike] == ["e"]
    await any_text.generations.search_entities(generation, query, 3)
    await any_text.documents.search_windows("default", query, 3)
    await any_text.generations.similar_entities(generation, query, 3)


async def test_the_passage_that_holds_most_of_the_words_comes_first(
    store: SqlDatabase, parcel: MakeParcel
) -> None:
    await store.documents.create_collection("default")
    texts = ("The river runs to the sea.", "The mill by the river grinds corn.", "Corn grows on the hill.")
    ids = await put(store, parcel("x", *texts, title=""))
    hits = await store.documents.search_windows("default", "Which mills grind corn?", 5)
    assert [hit.id for hit in hits] == [ids[1], ids[2]]
    assert hits[0].score > hits[1].score > 0


async def test_a_word_in_the_title_counts_more_than_one_in_the_text(
    store: SqlDatabase, parcel: MakeParcel
) -> None:
    await store.documents.create_collection("default")
    in_text = await put(store, parcel("text", "About lighthouses and more.", title="Something else"))
    in_title = await put(store, parcel("title", "About something and more.", title="Lighthouses"))
    await put(store, parcel("neither", "About something and more.", title="Something else"))
    hits = await store.documents.search_windows("default", "lighthouse", 5)
    assert [hit.id for hit in hits] == in_title + in_text


async def test_passages_with_equal_scores_come_in_reading_order(
    store: SqlDatabase, parcel: MakeParcel
) -> None:
    await store.documents.create_collection("default")
    first = await put(store, parcel("z", "same words", "same words", title=""))
    again = await put(store, parcel("a", "same words", "same words", title=""))
    # Replaced, document z keeps its number: it is still read before a.
    await put(store, parcel("z", "same words", "same words", title=""))
    assert [hit.id for hit in await store.documents.search_windows("default", "same", 9)] == first + again


async def test_chinese_and_japanese_are_found_by_their_words(store: SqlDatabase, parcel: MakeParcel) -> None:
    await store.documents.create_collection("default")
    ids = await put(
        store, parcel("x", "语义聚合与层次检索技术。", "吾輩は猫である。名前はまだ無い。", title="")
    )
    assert [hit.id for hit in await store.documents.search_windows("default", "什么是检索？", 5)] == [ids[0]]
    assert [hit.id for hit in await store.documents.search_windows("default", "猫の名前", 5)] == [ids[1]]


async def test_word_statistics_are_separate_for_each_collection(
    store: SqlDatabase, parcel: MakeParcel
) -> None:
    """BM25 weighs a word by how rare it is: in a corpus of its own, ``rare`` must stay rare."""
    texts = ("rare common", "common words", "common things", "common places")
    for name in ("alone", "beside"):
        await store.documents.create_collection(name)
        await store.documents.put_all(name, [parcel("x", *texts, title="")])
    alone = await store.documents.search_windows("alone", "rare common", 4)
    await store.documents.create_collection("crowd")
    await store.documents.put_all("crowd", [parcel("y", *["rare"] * 50, title="")])
    assert await store.documents.search_windows("beside", "rare common", 4) == alone


# --- names ---------------------------------------------------------------------------------

PEOPLE = (
    "Ebenezer Scrooge",
    "Jacob Marley",
    "Bob Cratchit",
    "Tiny Tim",
    "Mr. Fezziwig",
    "Harley Street",
    "Fred",
    "張三",
    "Fan",
)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("Scroge", "Ebenezer Scrooge"),
        ("ebenezer scrooge", "Ebenezer Scrooge"),
        ("Marley", "Jacob Marley"),
        ("Jakob Marly", "Jacob Marley"),
        ("Crachit", "Bob Cratchit"),
        ("Tny Tim", "Tiny Tim"),
        ("Fezzywig", "Mr. Fezziwig"),
        ("Frd", "Fred"),
        ("張", "張三"),
        ("Fam", "Fan"),
    ],
)
async def test_a_misspelt_name_finds_the_intended_one(
    store: SqlDatabase, publish: Publish, asked: str, meant: str
) -> None:
    await store.documents.create_collection("default")
    crowd = [f"Crowd member {number}" for number in range(300)]
    base = tuple(Entity(f"e{i}", name, parent_id="r") for i, name in enumerate([*crowd, *PEOPLE]))
    layers = (Graph(base, ()), Graph((Entity("r", "Everyone", layer=1),), ()))
    generation = (await publish(store, Hierarchy(layers))).number
    found = await store.generations.similar_entities(generation, asked, 3)
    assert found[0].name == meant
    assert len(found) <= 3


async def test_an_alias_counts_like_a_name_and_ties_are_broken_by_mentions(
    store: SqlDatabase, publish: Publish
) -> None:
    await store.documents.create_collection("default")
    base = (
        Entity("few", "Springfield", mentions=1, parent_id="r"),
        Entity("many", "Springfield", mentions=9, parent_id="r"),
        Entity("alias", "Somewhere", aliases=("Springfeld",), mentions=1, parent_id="r"),
    )
    layers = (Graph(base, ()), Graph((Entity("r", "All", layer=1),), ()))
    generation = (await publish(store, Hierarchy(layers))).number
    assert [each.id for each in await store.generations.similar_entities(generation, "Springfield", 3)] == [
        "many",
        "few",
        "alias",
    ]
    assert [each.id for each in await store.generations.similar_entities(generation, "Springfeld", 1)] == [
        "alias"
    ]


async def test_an_entity_with_a_very_long_name_is_published_and_found(
    store: SqlDatabase, publish: Publish
) -> None:
    await store.documents.create_collection("default")
    name = "".join(map(chr, range(0x4E00, 0x4E00 + 5_000)))
    base = Graph((Entity("long", name, parent_id="r"), Entity("short", name[:900], parent_id="r")), ())
    generation = (await publish(store, Hierarchy((base, Graph((Entity("r", "All", layer=1),), ()))))).number
    found = await store.generations.entities_by_name(generation, [name])
    assert "long" in [each.id for each in found]
    assert (await store.generations.search_entities(generation, name[:2], 5, 0))[0].score > 0


# --- rare words ----------------------------------------------------------------------------


async def test_rare_words_are_counted_by_document_and_name_their_windows(
    store: SqlDatabase, parcel: MakeParcel
) -> None:
    await store.documents.create_collection("default")
    texts = ("Set max_size and call HTTPTransport.", "A café in the Straße.", "The beacon keeper ran home.")
    here = await put(store, parcel("x", *texts, title="Harbour"))
    for number in range(4):
        await put(store, parcel(f"y{number}", "common words of a beacon", title="Other"))
    asked = {
        "max_size": (1, here[:1]),
        "maxSize": (1, here[:1]),  # in another way of writing it
        "--max-size": (1, here[:1]),
        "httptransport": (1, here[:1]),
        "HTTP transport": (1, here[:1]),
        "CAFE": (1, here[1:2]),
        "strasse": (1, here[1:2]),
        "harbour": (1, here),  # in the title of each
        "keeper ran home": (1, here[2:]),
        "home ran": (0, []),
        "beacon": (4, []),  # in five
        "common": (4, []),
        "absent": (0, []),
        '"': (0, []),
        "": (0, []),
    }
    found = await store.documents.find_rare_words("default", list(asked))
    assert {each.word: (each.documents, list(each.windows)) for each in found} == asked
    assert [each.word for each in found] == list(asked)


async def test_a_word_is_counted_as_it_is_written_and_in_its_other_forms_only_where_it_stands_nowhere(
    store: SqlDatabase, parcel: MakeParcel
) -> None:
    await store.documents.create_collection("default")
    for number in range(6):
        await put(store, parcel(f"y{number}", "the mills grind", title="Other"))
        await put(store, parcel(f"z{number}", f"get_all_day_{number} of all days", title="Other"))
    ids = await put(store, parcel("x", "the milling of corn", "all_day = False", title="Other"))
    words = await store.documents.find_rare_words(
        "default", ["milling", "milled", "grinding", "all_day"], most_documents=6
    )
    counts = [("milling", 1), ("milled", 7), ("grinding", 6), ("all_day", 1)]
    assert [(each.word, each.documents) for each in words] == counts
    assert [words[0].windows, words[3].windows] == [(ids[0],), (ids[1],)]


async def test_of_a_word_in_many_windows_of_one_document_those_with_it_in_their_text_come_first(
    store: SqlDatabase, parcel: MakeParcel
) -> None:
    await store.documents.create_collection("default")
    texts = ["nothing here"] * 20 + ["the Zephyrus is a wind"]
    ids = await put(store, parcel("x", *texts, title="Zephyrus"))
    await put(store, parcel("y", *["Aquilo blows"] * 50, title="Aquilo"))
    zephyrus, aquilo = await store.documents.find_rare_words(
        "default", ["Zephyrus", "Aquilo"], most_windows=3
    )
    assert zephyrus.documents == aquilo.documents == 1
    assert zephyrus.windows == (ids[20], ids[0], ids[1])
    assert len(aquilo.windows) == 3


async def test_chinese_japanese_and_korean_words_are_counted(store: SqlDatabase, parcel: MakeParcel) -> None:
    await store.documents.create_collection("default")
    ids = await put(
        store, parcel("x", "语义聚合与层次检索技术。", "吾輩は猫である。", "서울에서 열린 회의", title="")
    )
    words = await store.documents.find_rare_words("default", ["层次检索", "猫", "서울", "检索语义"])
    assert [each.windows for each in words[:3]] == [(ids[0],), (ids[1],), (ids[2],)]


@pytest.mark.parametrize(
    ("question", "words_"),
    [
        ("What is the default of max_size?", ["default", "max_size"]),
        ("Why does `uv sync --frozen` fail?", ["uv sync --frozen", "fail"]),
        ("Who said “bah, humbug” to Scrooge's nephew?", ["bah, humbug", "said", "Scrooge", "nephew"]),
        ("Is C++ or .NET in src/main.py (v0.34.0)?", ["C++", ".NET", "src/main.py", "v0.34.0"]),
        ("Compare Ada with Bell", ["Ada", "Bell"]),
        ("How do I compare?", ["compare"]),
        ("Compare", ["Compare"]),
        ("the of", []),
        ("afterwards", ["afterwards"]),
        ("What is id_ and what _id?", ["id_", "_id"]),
        ("Are lstrip('abc') and repr(C) calls?", ["lstrip", "repr(C)", "calls"]),
        ("什么是检索", ["检索"]),
        ("Où est l'eau qu'Apache n’écoute aujourd'hui ?", ["eau", "Apache", "écoute", "aujourd'hui"]),
        ("Is O'Brien's dog d'Artagnan?", ["O'Brien", "dog", "Artagnan"]),
    ],
)
def test_the_words_of_a_question_are_its_phrases_and_its_words_as_written(
    question: str, words_: list[str]
) -> None:
    assert find_whole_words(question) == words_


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("Zephirus", ("Zephyrus",)),
        ("zehpyrus", ("Zephyrus",)),
        ("zephyru", ("Zephyrus",)),
        ("Zzephyrus", ("Zephyrus",)),
        ("max_szie", ("max_size",)),
        ("HTTPTransprot", ("HTTPTransport",)),
        ("Jawan", ()),  # no misspelt identifier
        ("javaM", ("javaN",)),
        ("src/mian.py", ("src/main.py",)),
        ("lighthouss", ("lighthouse",)),  # whose stem is a third word
        ("Müler", ("Müller",)),
        ("Маскву", ("Москву",)),
        ("sahbby", ("shabby",)),  # a part of a name
        ("rivet", ("river", "rivets")),  # what stands there more often is likelier
        ("src/main.p", ("src/main.py",)),
        ("162e1d4e", ("162e1d4e82e24f0fe3e2bd31",)),  # a beginning
        ("Zefirus", ()),  # two letters
        ("\ud800" * 6, ()),
        ('+"+"+"+"', ()),
        ("rive", ()),  # too short
        ("检索检索检索", ()),
        ("", ()),
    ],
)
async def test_a_word_with_one_wrong_letter_is_answered_with_those_of_the_documents(
    store: SqlDatabase, parcel: MakeParcel, typo: str, meant: tuple[str, ...]
) -> None:
    await store.documents.create_collection("default")
    texts = (
        "Zephyrus, the wind.",
        "Set max_size: HTTPTransport in (src/main.py), javaN.",
        "The shabby-genteel lighthouse of Müller, reverted by 162e1d4e82e24f0fe3e2bd31.",
    )
    more = ("в Москву", "a river and a river with rivets", "river")
    await put(store, parcel("x", *texts, *more, title="Other"))
    assert await store.documents.nearest_words("default", typo) == meant


async def test_a_rare_word_is_found_behind_many_windows_that_hold_other_forms_of_it(
    store: SqlDatabase, parcel: MakeParcel
) -> None:
    await store.documents.create_collection("default")
    for number in range(3):
        await put(store, parcel(f"y{number}", *["the tools are here"] * 50, title="Other"))
    ids = await put(store, parcel("x", *["more tools"] * 40, "about tooling", title="Other"))
    tooling, tools = await store.documents.find_rare_words("default", ["tooling", "tools"])
    assert (tooling.documents, tooling.windows) == (1, (ids[40],))
    assert (tools.documents, tools.windows) == (4, ())
