"""What is left of a hierarchy without some of its chunks: recounted, and searched for words that must be gone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.graphs.restriction import cut_summary
from leanrag_engine.core.model import (
    Chunk,
    Entity,
    Evidence,
    Extract,
    ExtractedEntity,
    Finding,
    Method,
    Relation,
)
from leanrag_engine.hierarchy.changes.removal import HIDDEN, RemainingChunks, remove_chunks


def chunk(id_: str, text: str) -> Chunk:
    return Chunk(id_, f"document of {id_}", 1, text, 0, len(text), 9)


def random_hierarchy(seed: int) -> tuple[Hierarchy, dict[str, Chunk]]:
    """Entities e0… in chunks k0…, each chunk with a word of its own that its entities and relations repeat."""
    rng = np.random.default_rng(seed)
    chunks = {f"k{n}": chunk(f"k{n}", "") for n in range(12)}
    held: dict[str, list[str]] = {
        f"e{n}": sorted({f"k{m}" for m in rng.integers(12, size=2)}) for n in range(40)
    }
    words = {id_: " ".join(f"Name{e} only{id_}" for e, ids in held.items() if id_ in ids) for id_ in chunks}
    chunks = {id_: chunk(id_, words[id_]) for id_ in chunks}
    base = tuple(
        Entity(
            e,
            f"Name{e}",
            parent_id=f"a{n // 5}",
            description=" ".join(f"only{id_}" for id_ in ids),
            mentions=len(ids),
            aliases=tuple(f"only{id_}" for id_ in ids),
            chunk_ids=tuple(ids),
            evidence=evidence(ids),
            second_parent_id=f"a{(n // 5 + 1) % 8}",
        )
        for n, (e, ids) in enumerate(held.items())
    )
    pairs = sorted(
        {tuple(sorted(pair)) for pair in rng.integers(40, size=(90, 2)).tolist() if pair[0] != pair[1]}
    )
    relations = []
    for n, (first, second) in enumerate(pairs):
        ids = sorted({*held[f"e{first}"], *held[f"e{second}"]})[:2]
        relations.append(
            Relation(
                f"r{n}",
                f"e{first}",
                f"e{second}",
                description=" ".join(f"only{id_}" for id_ in ids),
                weight=len(ids),
                chunk_ids=tuple(ids),
                evidence=evidence(ids),
            )
        )
    layers = [Graph(base, tuple(relations))]
    for layer, parent, width in ((1, "b", 4), (2, "root", 2), (3, None, 1)):
        layers.append(make_layer(layers[-1], layer, parent, width))
    return Hierarchy(tuple(layers)), chunks


def evidence(ids: list[str]) -> tuple[Evidence, ...]:
    found, start = [], 0
    for id_ in ids:
        found.append(Evidence(start, start + len(f"only{id_}"), id_))
        start += len(f"only{id_}") + 1
    return tuple(found)


def make_layer(below: Graph, layer: int, parent: str | None, width: int) -> Graph:
    members = Counter(each.parent_id for each in below.entities)
    told = {id_: " ".join(e.description for e in below.entities if e.parent_id == id_) for id_ in members}
    entities = tuple(
        Entity(
            str(id_),
            f"Summary {id_}",
            layer=layer,
            description=told[id_],
            members=count,
            mentions=sum(e.mentions if layer > 1 else 1 for e in below.entities if e.parent_id == id_),
            parent_id=None if parent is None else parent if parent == "root" else f"{parent}{n // 2 % width}",
        )
        for n, (id_, count) in enumerate(sorted(members.items(), key=lambda item: str(item[0])))
    )
    return Graph(entities, tuple(join_clusters(below, layer)))


def join_clusters(below: Graph, layer: int) -> list[Relation]:
    parents = {each.id: str(each.parent_id) for each in below.entities}
    found: dict[tuple[str, str], list[Relation]] = {}
    for each in below.relations:
        first, second = sorted((parents[each.source_id], parents[each.target_id]))
        if first != second:
            found.setdefault((first, second), []).append(each)
    return [
        Relation(
            f"l{layer}-{first}-{second}",
            first,
            second,
            layer=layer,
            description=" ".join(each.description for each in beneath),
            method=Method.JOINED,
            strength=len(beneath),
            weight=sum(each.weight for each in beneath),
            support=sum(each.support for each in beneath),
        )
        for (first, second), beneath in found.items()
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("lost", [1, 4, 11])
def test_no_word_of_a_removed_chunk_is_left_and_every_figure_is_recounted(seed: int, lost: int) -> None:
    hierarchy, chunks = random_hierarchy(seed)
    gone = {f"k{n}" for n in np.random.default_rng(seed).permutation(12)[:lost]}
    living = {id_: each for id_, each in chunks.items() if id_ not in gone}
    left = remove_chunks(hierarchy, RemainingChunks(living, {}))
    assert left is not None
    for id_ in gone:
        assert not re.search(rf"\bonly{id_}\b", repr(left))
    supported = {e.id for e in hierarchy.layers[0].entities if {*e.chunk_ids} & {*living}}
    assert {e.id for e in left.layers[0].entities} == supported
    for entity in left.layers[0].entities:
        assert set(entity.chunk_ids) <= set(living)
        assert entity.mentions == len(entity.chunk_ids)
        told = [entity.description[part.start : part.end] for part in entity.evidence]
        assert told == [f"only{part.chunk_id}" for part in entity.evidence]
    for layer, (below, above) in enumerate(pairwise(left.layers), 1):
        assert {e.parent_id for e in below.entities} == {e.id for e in above.entities}
        assert {e.second_parent_id for e in below.entities} <= {None, *(e.id for e in above.entities)}
        members = Counter(e.parent_id for e in below.entities)
        assert {e.id: e.members for e in above.entities} == dict(members)
        counted = {r.id: (r.strength, r.weight, r.support) for r in join_clusters(below, layer)}
        assert {r.id: (r.strength, r.weight, r.support) for r in above.relations} == counted
    assert left.root.mentions == len(supported)
    assert HIDDEN in left.root.description
    foremost = sorted(left.layers[0].entities, key=lambda e: (-e.mentions, e.id))[:3]
    assert all(e.name in left.root.name for e in foremost), "a hidden summary is named by its members"


@pytest.mark.parametrize("seed", range(4))
def test_items_without_a_removed_chunk_are_unchanged(seed: int) -> None:
    hierarchy, chunks = random_hierarchy(seed)
    assert remove_chunks(hierarchy, RemainingChunks(chunks, {})) == hierarchy
    gone = hierarchy.layers[0].entities[0].chunk_ids[0]
    living = {id_: each for id_, each in chunks.items() if id_ != gone}
    left = remove_chunks(hierarchy, RemainingChunks(living, {}))
    assert left is not None
    fed = {e.parent_id for e in hierarchy.layers[0].entities if gone in e.chunk_ids}
    fed |= {
        e.parent_id
        for r in hierarchy.layers[0].relations
        if gone in r.chunk_ids
        for e in hierarchy.layers[0].entities
        if e.id in (r.source_id, r.target_id)
    }
    for entity in left.layers[1].entities:
        assert (entity.name == f"Summary {entity.id}") is (entity.id not in fed)


def test_without_any_chunk_there_is_no_hierarchy() -> None:
    hierarchy, _ = random_hierarchy(0)
    assert remove_chunks(hierarchy, RemainingChunks({}, {})) is None


def test_a_name_that_only_a_removed_chunk_used_is_replaced() -> None:
    entity = Entity(
        "e",
        "Board of Lights",
        type="ministry",
        parent_id="r",
        aliases=("NLB", "The Board"),
        chunk_ids=("k1", "k2", "k3"),
        description="It is a ministry.",
    )
    root = Entity("r", "Root", layer=1, members=1, description="x")
    living = RemainingChunks(
        {"k2": chunk("k2", "Ask the  board\nof the isle."), "k3": chunk("k3", "It pays.")},
        {"k3": [Extract("k3", Method.MODEL, (ExtractedEntity("nlb", "organisation"),))]},
    )
    left = remove_chunks(Hierarchy((Graph((entity,), ()), Graph((root,), ()))), living)
    assert left is not None
    (kept,) = left.layers[0].entities
    assert (kept.name, kept.aliases, kept.type) == ("NLB", ("The Board",), "concept")
    assert kept.description == ""
    assert kept.chunk_ids == ("k2", "k3")


def write_between_clusters(sentence: str, cited: Sequence[str]) -> Relation:
    """Return an agent's sentence on the clusters c0 and c1, all of which rests on each cited chunk."""
    evidence = tuple(Evidence(0, len(sentence), id_) for id_ in cited)
    return Relation("r1", "c0", "c1", layer=1, description=sentence, method=Method.AGENT, evidence=evidence)


@pytest.mark.parametrize(("cited", "stays"), [(("k0",), False), (("k0", "k1"), True), ((), True)])
def test_a_written_sentence_on_two_clusters_stays_while_one_of_its_chunks_does(
    cited: tuple[str, ...], stays: bool
) -> None:
    chunks = {id_: chunk(id_, "Ada met Bob.") for id_ in ("k0", "k1")}
    both = ("k0", "k1")
    base = Graph(
        tuple(
            Entity(id_, name, parent_id=parent, description="", mentions=2, chunk_ids=both)
            for id_, name, parent in (("e0", "Ada", "c0"), ("e1", "Bob", "c1"))
        ),
        (Relation("r0", "e0", "e1", description="", weight=2, chunk_ids=both),),
    )
    sentence = "The circles met."
    written = write_between_clusters(sentence, cited)
    clusters = tuple(
        Entity(id_, f"Circle {id_}", layer=1, parent_id="root", members=1, mentions=1) for id_ in ("c0", "c1")
    )
    root = Entity("root", "All", layer=2, members=2, mentions=2)
    hierarchy = Hierarchy((base, Graph(clusters, (written,)), Graph((root,), ())))
    gone = {"k0": chunks.pop("k0")}
    left = remove_chunks(hierarchy, RemainingChunks(chunks, {}, gone))
    assert left
    (relation,) = left.layers[1].relations
    assert relation.description == (sentence if stays else HIDDEN)
    assert [each.chunk_id for each in relation.evidence] == [id_ for id_ in cited if id_ == "k1"]


def test_a_sentence_of_a_written_summary_goes_with_the_last_passage_that_it_cites() -> None:
    text = "Io is volcanic. Europa is icy. All are moons."
    evidence = (Evidence(0, 15, "k1"), Evidence(16, 30, "k2"))
    cluster = Entity("c", "Moons", layer=1, description=text, method=Method.AGENT, evidence=evidence)
    cut = cut_summary(cluster, {"k2"})
    assert cut
    assert (cut.description, cut.evidence) == (text[16:], (Evidence(0, 14, "k2"),))
    assert cut_summary(replace(cluster, description=text[:15]), {"k2"}) is None


def test_a_written_text_goes_with_what_it_cites_although_that_lies_beneath_another_cluster() -> None:
    """A rebuild carries a summary to the cluster that most of its members are in now; one of them may be elsewhere."""
    chunks = {"k0": chunk("k0", "Ada invented the gizmotron."), "k1": chunk("k1", "Bob sold it.")}
    entities = tuple(
        Entity(f"e{n}", name, parent_id=f"c{n}", mentions=1, chunk_ids=(f"k{n}",))
        for n, name in enumerate(("Ada", "Bob"))
    )
    text = "Bob sold it. Ada invented the gizmotron."
    evidence = (Evidence(0, 12, "k1"), Evidence(13, len(text), "k0"))
    circle = Entity(
        "c1",
        "Circle",
        layer=1,
        parent_id="r",
        members=1,
        mentions=1,
        description=text,
        method=Method.AGENT,
        evidence=evidence,
        findings=(Finding("The gizmotron.", "Ada has it.", ("k0",)),),
    )
    other = Entity("c0", "Other", layer=1, parent_id="r", members=1, mentions=1)
    said = write_between_clusters("It is a gizmotron.", ["k0"])
    root = Entity("r", "All", layer=2, members=2, mentions=2)
    base = Graph((*entities, Entity("e2", "Cy", parent_id="c0", mentions=1, chunk_ids=("k1",))), ())
    gone = {"k0": chunks.pop("k0")}
    left = remove_chunks(
        Hierarchy((base, Graph((other, circle), (said,)), Graph((root,), ()))),
        RemainingChunks(chunks, {}, gone),
    )
    assert left
    (kept,) = (each for each in left.layers[1].entities if each.id == "c1")
    assert (kept.description, kept.findings, kept.evidence) == ("Bob sold it.", (), evidence[:1])
    assert kept.stale
    assert "gizmotron" not in repr(left)


def test_a_sentence_on_two_clusters_stays_where_a_cited_passage_elsewhere_still_says_it() -> None:
    chunks = {id_: chunk(id_, "Ada met Bob.") for id_ in ("k0", "k1", "k2")}
    base = Graph(
        tuple(Entity(f"e{n}", f"Cy{n}", parent_id=f"c{n}", mentions=1, chunk_ids=("k2",)) for n in range(2)),
        (Relation("r0", "e0", "e1", weight=1, chunk_ids=("k2",)),),
    )
    sentence = "Ada met Bob."
    said = write_between_clusters(sentence, ["k0", "k1"])
    clusters = tuple(
        Entity(f"c{n}", f"Circle {n}", layer=1, parent_id="r", members=1, mentions=1) for n in range(2)
    )
    root = Entity("r", "All", layer=2, members=2, mentions=2)
    gone = {"k0": chunks.pop("k0")}
    left = remove_chunks(
        Hierarchy((base, Graph(clusters, (said,)), Graph((root,), ()))), RemainingChunks(chunks, {}, gone)
    )
    assert left
    (relation,) = left.layers[1].relations
    assert (relation.description, [each.chunk_id for each in relation.evidence]) == (sentence, ["k1"])
