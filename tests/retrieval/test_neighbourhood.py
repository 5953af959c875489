"""The neighbourhood of an entity within some hops, with networkx's breadth-first search as the oracle."""

from __future__ import annotations

import itertools
from pathlib import Path

import networkx as nx
import pytest
from leanrag_tests_jobs import ingest, open_engine

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import DocumentSource

pytestmark = pytest.mark.anyio

CREW = ("Ada Moor", "Bo Lind", "Cy Vane", "Di Marsh", "Ed Frost", "Flo Quill")


async def test_each_entity_is_found_at_its_distance_by_a_relation_that_its_passage_states(
    tmp_path: Path,
) -> None:
    texts = [f"{one} met {other} in spring." for one, other in itertools.pairwise(CREW)]
    texts.append("Ada Moor met Cy Vane in summer.")
    sources = [DocumentSource(text=text, title=f"Note {n}", id=f"n{n}") for n, text in enumerate(texts)]
    async with open_engine(tmp_path) as engine:
        await ingest(engine, sources)
        (collection,) = await engine.collections()
        generation = collection.generation
        assert generation is not None
        relations = await engine._stores.generations.relations(generation.number, 0)
        start = (await engine.ancestors("Ada Moor"))[0]
        graph = nx.Graph([(each.source_id, each.target_id) for each in relations])
        for hops in (0, 1, 2, 3):
            expected = nx.single_source_shortest_path_length(graph, start.id, cutoff=hops)
            del expected[start.id]
            found = await engine.neighbourhood("Ada Moor", hops=hops, limit=1000)
            assert {each.entity.id: each.hops for each in found} == expected
            assert [each.hops for each in found] == sorted(each.hops for each in found)
        known = {start.id}
        for each in found:
            assert {each.via.id, each.entity.id} == {each.relation.source_id, each.relation.target_id}
            assert each.via.id in known
            known.add(each.entity.id)
            (passage, *_) = (await engine.sources(list(each.citations))).chunks
            assert passage.id in each.relation.chunk_ids
        some = await engine.neighbourhood("Ada Moor", hops=3, limit=2)
        assert some == found[:2]
        with pytest.raises(InvalidInput, match="4 hops"):
            await engine.neighbourhood("Ada Moor", hops=4)
