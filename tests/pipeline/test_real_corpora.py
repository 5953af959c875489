"""The invariants of the hierarchy on real text: the demo's corpus and a whole book.

The oracle recounts λ and support from the relations of G0 by walking every entity's ancestors.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import anyio
import pytest
from leanrag_tests_merging import merge

from leanrag_engine.adapters.embedders.fitted import FittedEmbedderSource
from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.graphs.graph import Hierarchy
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import load
from leanrag_engine.extraction.heuristic.extract import extract
from leanrag_engine.hierarchy.build import HierarchyOptions, build

pytestmark = pytest.mark.anyio

CAP = 30


async def built(sources: list[DocumentSource]) -> Hierarchy:
    tokenizer = TiktokenTokenizer()
    texts, extracts = [], []
    for source in sources:
        document = load(source, allowed=None, max_bytes=10**8)
        chunks = chunk(document, tokenizer=tokenizer, max_tokens=512, overlap=64)
        texts += [each.indexed_text for each in chunks]
        extracts += extract(chunks, document.title)
    embedder, _ = await FittedEmbedderSource().fit(texts)
    return (
        await build(merge(extracts), embedder, HierarchyOptions(20, CAP), progress=lambda _: None)
    ).hierarchy


@pytest.fixture(scope="module", params=["python reference", "christmas carol"])
def hierarchy(request: pytest.FixtureRequest) -> Hierarchy:
    # Not an asynchronous fixture: of this scope it would hold an event loop over all tests that follow.
    if request.param == "python reference":
        # Every other topic has the shapes of all; the demo itself indexes all of them.
        sources = [DocumentSource(text=text, id=name) for name, text in sorted(topics.items())[::2]]
        return anyio.run(built, sources)
    book: Path = request.getfixturevalue("shared_data") / "christmas_carol" / "book.txt"
    return anyio.run(built, [DocumentSource(path=str(book))])


async def test_every_entity_has_one_parent_one_layer_up_and_reaches_the_root(hierarchy: Hierarchy) -> None:
    for lower, upper in zip(hierarchy.layers, hierarchy.layers[1:], strict=False):
        above = {entity.id for entity in upper.entities}
        assert all(entity.parent_id in above for entity in lower.entities)
        assert {entity.parent_id for entity in lower.entities} == above
    assert [entity.parent_id for entity in hierarchy.layers[-1].entities] == [None]


async def test_layers_shrink_and_no_cluster_exceeds_the_cap_or_is_lonely(hierarchy: Hierarchy) -> None:
    assert all(low > high for low, high in zip(hierarchy.sizes, hierarchy.sizes[1:], strict=False))
    for layer in hierarchy.layers[:-1]:
        sizes = Counter(entity.parent_id for entity in layer.entities)
        assert max(sizes.values()) <= CAP
        assert min(sizes.values()) > 1


async def test_strength_and_support_are_what_recounting_from_below_gives(hierarchy: Hierarchy) -> None:
    parent = {entity.id: entity.parent_id for layer in hierarchy.layers for entity in layer.entities}
    base = [(each.source_id, each.target_id) for each in hierarchy.layers[0].relations]
    lifted = base
    for lower, upper in zip(hierarchy.layers, hierarchy.layers[1:], strict=False):
        lifted = [(parent[source], parent[target]) for source, target in lifted]
        support = Counter(frozenset(pair) for pair in lifted if pair[0] != pair[1])
        strength = Counter(
            frozenset((parent[each.source_id], parent[each.target_id]))
            for each in lower.relations
            if parent[each.source_id] != parent[each.target_id]
        )
        told = {frozenset((each.source_id, each.target_id)): each for each in upper.relations}
        assert {pair: each.strength for pair, each in told.items()} == strength
        assert {pair: each.support for pair, each in told.items()} == support


async def test_no_two_siblings_are_called_alike_and_nothing_is_cut_mid_word(hierarchy: Hierarchy) -> None:
    for layer in hierarchy.layers[1:]:
        names = [entity.name for entity in layer.entities]
        assert len(set(names)) == len(names)
        # A cluster of which no sentence says anything has no description.
        ends = [entity.description[-40:] for entity in layer.entities if entity.description]
        assert len(ends) >= 0.8 * len(names)
        assert [end for end in ends if not end.endswith((".", "!", "?", "…", "”", '"', ")", "’", "'"))] == []
