"""Walking the graph by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from leanrag_engine.core.errors import Ambiguous, InvalidInput, NotFound, NotReady
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Chunk, Entity, Relation, Window
from leanrag_engine.retrieval.browse import entities as browse
from leanrag_engine.retrieval.browse import passages
from leanrag_engine.retrieval.evidence.passages import find_passages
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.query import answer_query
from leanrag_engine.retrieval.request import Query
from leanrag_engine.retrieval.suggestions import ask_for_sections, is_thing, relate
from leanrag_mcp.replies.graph import AncestorsReply

if TYPE_CHECKING:
    from conftest import Corpus

pytestmark = pytest.mark.anyio


@pytest.fixture
async def index(corpus: Corpus) -> IndexSnapshot:
    return await corpus.index()


# --- names ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Caroline Herschel", "caroline  herschel", "e-caroline-herschel", " CAROLINE HERSCHEL "]
)
async def test_an_entity_is_found_by_ref_and_by_name_however_it_is_written(
    index: IndexSnapshot, name: str
) -> None:
    assert (await browse.resolve(index, name)).name == "Caroline Herschel"


async def test_entities_of_every_layer_are_found(index: IndexSnapshot) -> None:
    for name, layer in (("yeast", 0), ("Towns", 1), ("Astronomy", 2), ("Knowledge", 3)):
        assert (await browse.resolve(index, name)).layer == layer


async def test_an_unknown_name_lists_the_nearest_with_what_tells_them_apart(index: IndexSnapshot) -> None:
    with pytest.raises(NotFound, match="No entity is called 'Edmund Halley'") as caught:
        await browse.resolve(index, "Edmund Halley")
    nearest = caught.value.candidates[0]
    assert (nearest.name, nearest.ref) == ("Edmond Halley", "e-edmond-halley")
    assert nearest.hint.startswith("layer 0, person, in Sky watchers. Edmond Halley computed")
    assert "e-edmond-halley" in str(caught.value)


async def test_a_name_of_several_lists_all_of_them(corpus: Corpus, make_corpus: partial[Corpus]) -> None:
    assert corpus.hierarchy is not None
    base, first, *above = corpus.hierarchy.layers
    twin = replace(first.entities[0], id="e-twin", name="Paris", description="A cluster.")
    twice = Hierarchy((base, Graph((*first.entities, twin), first.relations), *above))
    with pytest.raises(Ambiguous) as caught:
        await browse.resolve(await make_corpus(corpus.texts, twice).index(), "Paris")
    assert {candidate.ref for candidate in caught.value.candidates} == {"e-paris", "e-twin"}
    assert {candidate.hint.split(",")[0] for candidate in caught.value.candidates} == {"layer 0", "layer 1"}


@pytest.mark.parametrize(
    ("twin", "names"),
    [
        ({"chunk_ids": ("chunk-5",)}, {"Uranus (Uranus)", "Uranus (Sourdough)"}),
        ({"type": "person"}, {"Uranus (concept)", "Uranus (person)"}),
        ({}, {"Uranus"}),
    ],
)
async def test_entities_of_one_name_are_shown_with_what_tells_them_apart(
    corpus: Corpus, make_corpus: partial[Corpus], twin: dict[str, Any], names: set[str]
) -> None:
    assert corpus.hierarchy is not None
    base, *above = corpus.hierarchy.layers
    uranus = next(each for each in base.entities if each.name == "Uranus")
    namesake = replace(uranus, id="e-twin", **twin)
    both = Hierarchy((Graph((*base.entities, namesake), base.relations), *above))
    index = await make_corpus(corpus.texts, both).index()
    found, _ = await browse.search_entities(index, "Uranus", 0, 0, 10)
    assert {seed.entity.name for seed in found if seed.entity.id in ("e-uranus", "e-twin")} == names
    assert "William Herschel" in {seed.entity.name for seed in found}
    result = await answer_query(index, Query("Uranus", entities=("e-uranus", "e-twin")))
    assert {seed.entity.name for seed in result.subgraph.seeds[:2]} == names
    assert names <= {entity.name for entity in result.subgraph.path}


async def test_who_bears_a_name_comes_before_who_bears_it_as_an_alias(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    assert corpus.hierarchy is not None
    base, *above = corpus.hierarchy.layers
    alias = replace(
        base.entities[0], id="e-alias", name="Georgium Sidus", aliases=("Uranus", "George's star")
    )
    both = Hierarchy((Graph((*base.entities, alias), base.relations), *above))
    index = await make_corpus(corpus.texts, both).index()
    assert (await browse.resolve(index, "Uranus")).id == "e-uranus"
    assert (await browse.resolve(index, "George's Star")).id == "e-alias"


async def test_an_empty_name_and_a_collection_without_a_build_are_errors(
    index: IndexSnapshot, unbuilt: Corpus
) -> None:
    with pytest.raises(InvalidInput, match="name is empty"):
        await browse.resolve(index, " \u200b")
    with pytest.raises(NotReady, match="was never built") as caught:
        await browse.resolve(await unbuilt.index(), "Uranus")
    assert caught.value.needs == "build"


# --- search --------------------------------------------------------------------------------


async def test_search_puts_the_bearer_of_the_name_first(index: IndexSnapshot) -> None:
    found, total = await browse.search_entities(index, "Caroline Herschel", None, 0, 5)
    assert found[0].entity.name == "Caroline Herschel"
    assert total >= len(found) == 5
    assert [seed.score for seed in found] == sorted((seed.score for seed in found), reverse=True)


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
async def test_search_keeps_to_its_layer(index: IndexSnapshot, layer: int) -> None:
    found, total = await browse.search_entities(
        index, "Astronomy Towns Knowledge Fermentation yeast", layer, 0, 100
    )
    assert found
    assert total == len(found)
    assert {seed.entity.layer for seed in found} == {layer}


async def test_pages_together_are_the_whole(index: IndexSnapshot) -> None:
    whole, total = await browse.search_entities(index, "Herschel comet", None, 0, 100)
    pages = [
        await browse.search_entities(index, "Herschel comet", None, offset, 2)
        for offset in range(0, total, 2)
    ]
    assert [seed for page, _ in pages for seed in page] == whole
    assert {count for _, count in pages} == {total}


async def test_a_search_by_meaning_works_without_a_shared_name(index: IndexSnapshot) -> None:
    found, _ = await browse.search_entities(index, "Who discovered eight of them?", 0, 0, 3)
    assert found[0].entity.name in ("Caroline Herschel", "comet")


@pytest.mark.parametrize(
    ("query", "layer", "offset", "limit", "said"),
    [
        ("", None, 0, 5, "query is empty"),
        ("x", 4, 0, 5, "no layer 4"),
        ("x", None, -1, 5, "cannot start at -1"),
        ("x", None, 0, 0, "hold 0"),
    ],
)
async def test_a_search_that_cannot_be_says_why(
    index: IndexSnapshot, query: str, layer: int | None, offset: int, limit: int, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        await browse.search_entities(index, query, layer, offset, limit)


# --- the hierarchy -------------------------------------------------------------------------


async def test_ancestors_lead_from_the_entity_to_the_root(index: IndexSnapshot) -> None:
    chain = await browse.ancestors(index, await browse.resolve(index, "Paris"))
    assert [node.name for node in chain] == ["Paris", "Towns", "Astronomy", "Knowledge"]
    root = chain[-1]
    assert await browse.ancestors(index, root) == [root]


async def test_the_cluster_that_holds_an_entity_in_part_is_shown_beside_its_own(index: IndexSnapshot) -> None:
    chain = await browse.ancestors(index, await browse.resolve(index, "Paris"))
    watchers = await browse.resolve(index, "Sky watchers")
    for share, expected in ((0.1, None), (0.3, watchers)):
        paris = replace(chain[0], second_parent_id=watchers.id, second_responsibility=share)
        second = await browse.second_cluster(index, paris)
        assert second == expected
        text = AncestorsReply.from_engine(chain, second=second).to_markdown()
        assert ("partly in another cluster: Sky watchers" in text) == (expected is not None)


async def test_a_cluster_shows_its_parent_members_and_relations(index: IndexSnapshot) -> None:
    view = await browse.view_cluster(index, await browse.resolve(index, "Sky watchers"), 0, 3)
    assert view.parent is not None
    assert view.parent.name == "Astronomy"
    assert len(view.members) == 3
    assert view.entity.members == 4
    assert {view.ends[each.source_id].layer for each in view.relations} == {1}
    top = await browse.view_cluster(index, await browse.resolve(index, "Knowledge"), 0, 5)
    assert top.parent is None
    assert [each.name for each in top.members] == ["Astronomy", "Food"]


async def test_relations_come_strongest_first_in_pages(index: IndexSnapshot, corpus: Corpus) -> None:
    assert corpus.hierarchy is not None
    every = [each for layer in corpus.hierarchy.layers[1:] for each in layer.relations]
    found, total = await browse.inter_cluster_relations(index, None, None, 0, 0, 100)
    assert total == len(found) == len(every)
    assert [each.strength for each in found] == sorted((each.strength for each in every), reverse=True)
    second, _ = await browse.inter_cluster_relations(index, None, None, 0, 1, 1)
    assert second == found[1:2]
    strong, _ = await browse.inter_cluster_relations(index, None, 1, 2, 0, 100)
    assert {each.layer for each in strong} == {1}
    assert min(each.strength for each in strong) >= 2


async def test_relations_of_one_cluster_touch_it(index: IndexSnapshot) -> None:
    towns = await browse.resolve(index, "Towns")
    found, _ = await browse.inter_cluster_relations(index, towns, None, 0, 0, 100)
    assert found
    assert all(towns.id in (each.source_id, each.target_id) for each in found)


async def test_a_question_ranks_what_is_beneath_by_the_passages_that_search_finds_for_it(
    index: IndexSnapshot, corpus: Corpus
) -> None:
    found = await find_passages(index, "What do brewers pitch into wort?")
    assert corpus.chunks[5].id == next(iter(found.values))
    path = [await browse.root(index)]
    while path[-1].layer > 0:
        view = await browse.view_cluster(index, path[-1], 0, 10, found)
        path.append(view.members[0])
    assert [each.name for each in path[:3]] == ["Knowledge", "Food", "Fermentation"]
    assert path[-1].name in ("wort", "beer"), (
        "only this passage names them: all of their evidence is about the question"
    )
    # An oracle that walks no arrays: a cluster has what any entity beneath it is mentioned in.
    assert corpus.hierarchy is not None
    base, clusters = corpus.hierarchy.layers[:2]
    for cluster in clusters.entities:
        own = {id_ for each in base.entities if each.parent_id == cluster.id for id_ in each.chunk_ids}
        assert found.beneath(cluster).keys() == own & found.values.keys()
    assert sum(found.beneath(path[0]).values()) == pytest.approx(sum(found.values.values())), (
        "the root has all of it"
    )


async def test_a_summary_that_reads_like_the_question_draws_nothing_without_passages(
    corpus: Corpus, make_corpus: partial[Corpus]
) -> None:
    assert corpus.hierarchy is not None
    question = "What do brewers pitch into wort?"
    layers = [
        replace(
            layer,
            entities=tuple(
                replace(each, description=question) if each.name == "Astronomy" else each
                for each in layer.entities
            ),
        )
        for layer in corpus.hierarchy.layers
    ]
    index = await make_corpus(corpus.texts, Hierarchy(tuple(layers))).index()
    found = await find_passages(index, question)
    view = await browse.view_cluster(index, await browse.root(index), 0, 10, found)
    assert [each.name for each in view.members] == ["Food", "Astronomy"]


async def test_a_question_ranks_relations_by_the_passages_beneath_both_ends(index: IndexSnapshot) -> None:
    found = await find_passages(index, "What do brewers pitch into wort?")
    relations, total = await browse.inter_cluster_relations(index, None, 1, 0, 0, 10, found)
    assert total == len(relations) > 1
    assert {relations[0].source_id, relations[0].target_id} == {"e-towns", "e-fermentation"}, "Slough brews"
    assert all(found.beneath(each).keys() for each in relations)
    first, _ = await browse.inter_cluster_relations(index, None, 1, 0, 0, 1, found)
    second, _ = await browse.inter_cluster_relations(index, None, 1, 0, 1, 1, found)
    assert [*first, *second] == relations[:2]


async def test_a_base_entity_is_no_cluster_and_layer_0_has_no_inter_cluster_relations(
    index: IndexSnapshot,
) -> None:
    paris = await browse.resolve(index, "Paris")
    with pytest.raises(InvalidInput, match="'Paris' is an entity of layer 0") as caught:
        await browse.inter_cluster_relations(index, paris, None, 0, 0, 5)
    assert "e-towns" in str(caught.value)
    with pytest.raises(InvalidInput, match="Layer 0 has no inter-cluster relations"):
        await browse.inter_cluster_relations(index, None, 0, 0, 0, 5)
    with pytest.raises(InvalidInput, match="no layer 9"):
        await browse.inter_cluster_relations(index, None, 9, 0, 0, 5)


# --- passages ------------------------------------------------------------------------------


async def test_citations_give_their_passages_in_order(index: IndexSnapshot, unbuilt: Corpus) -> None:
    for each in (index, await unbuilt.index()):
        page = await passages.sources(each, ["d3:c1", "[d1:c1]"], 0, 10)
        assert [chunk.title for chunk in page.chunks] == ["Uranus", "Comets"]


async def test_an_entity_gives_the_passages_that_mention_it(index: IndexSnapshot, corpus: Corpus) -> None:
    page = await passages.sources_of_item(index, await browse.resolve(index, "yeast"), 0, 100)
    assert [chunk.id for chunk in page.chunks] == [each.id for each in corpus.chunks if "yeast" in each.text]


async def test_a_cluster_gives_passages_of_what_is_beneath_it(index: IndexSnapshot) -> None:
    page = await passages.sources_of_item(index, await browse.resolve(index, "Food"), 0, 100)
    assert {chunk.title for chunk in page.chunks} <= {"Sourdough", "Brewing"}
    assert page.chunks


async def test_what_is_no_citation_and_a_citation_of_nothing_are_told_apart(index: IndexSnapshot) -> None:
    with pytest.raises(InvalidInput, match="'page 3' is not a citation") as invalid:
        await passages.sources(index, ["page 3"], 0, 10)
    assert "d3:c12" in str(invalid.value)
    with pytest.raises(NotFound, match="no passage d3:c9, d99:c1") as caught:
        await passages.sources(index, ["d3:c9", "d99:c1"], 0, 10)
    assert [(each.name, each.hint) for each in caught.value.candidates] == [("Uranus", "has d3:c1 to d3:c1")]


async def test_a_bad_citation_does_not_spoil_the_good_ones(index: IndexSnapshot) -> None:
    page = await passages.sources(index, ["page 3", "d1:c1", "d99:c1"], 0, 10)
    assert [chunk.citation for chunk in page.chunks] == ["d1:c1"]
    assert ["page 3" in page.problems[0], "d99:c1" in page.problems[1]] == [True, True]


async def test_a_document_gives_its_passages_by_number_title_or_id(index: IndexSnapshot) -> None:
    for name in ("d3", "uranus"):
        page = await passages.sources_of_document(index, name, 0, 10)
        assert [chunk.citation for chunk in page.chunks] == ["d3:c1"]
    with pytest.raises(NotFound, match="'Uranos'") as caught:
        await passages.sources_of_document(index, "Uranos", 0, 10)
    assert caught.value.candidates[0].name == "Uranus"


def test_questions_about_two_things_begin_with_those_that_documents_dwell_on() -> None:
    names = {"Ewan Reid": 4, "Skerry": 3, "lace tucker": 1, "plump sister": 1, "niece": 9}
    entities = {name: Entity(name, name, mentions=count, parent_id="a") for name, count in names.items()}
    things = {id_: each for id_, each in entities.items() if is_thing(each)}
    assert set(entities) - set(things) == {"niece"}
    stated = [
        Relation("in passing", "lace tucker", "plump sister", weight=2),
        Relation("dwelt on", "Ewan Reid", "Skerry", weight=2),
    ]
    asked = [each.text for each in relate(things, stated)]
    assert asked == [
        "What do Ewan Reid and Skerry have to do with each other?",
        "What do lace tucker and plump sister have to do with each other?",
    ]


def test_questions_about_sections_read_as_a_person_asks_and_say_no_word_twice() -> None:
    def write(title: str, *headings: str) -> list[Chunk]:
        windows = tuple(Window(place, place + 1, heading) for place, heading in enumerate(headings))
        text = "Rinse it well, and the Press too."
        return [Chunk(title, title, 1, text, 0, len(text), 1, title=title, windows=windows)]

    chunks = [
        *write("How to bottle juice", "Cleaning", "Bottle sizes", "Press", "Harnby Bank"),
        *write("Shipping - Orrendale Orchard", "Shipping and returns", "Prices"),
    ]
    assert sorted(each.text for each in ask_for_sections(chunks)) == [
        'What does "How to bottle juice" say about Harnby Bank?',
        'What does "How to bottle juice" say about Press?',
        'What does "How to bottle juice" say about cleaning?',
        'What does "Shipping - Orrendale Orchard" say about prices?',
    ]
