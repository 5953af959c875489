"""A word that only a finding contains finds its cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Entity, Finding, Generation

pytestmark = pytest.mark.anyio

MakeParcel = Callable[..., Any]
Publish = Callable[..., Awaitable[Generation]]


async def test_findings_are_searched_with_the_description_and_what_both_say_counts_once(
    store: SqlDatabase, parcel: MakeParcel, publish: Publish
) -> None:
    await store.documents.create_collection("default")
    given = parcel("x", "some text")
    await store.documents.put_all("default", [given])
    said = "Lanterns guide the ships."
    findings = (Finding("Oil is dear.", "A lantern burns a barrel a night."), Finding("Lanterns", said))
    clusters = (
        Entity("c1", "Keepers", layer=1, description=said, findings=findings, parent_id="r"),
        Entity("c2", "Sailors", layer=1, description="They see them from afar.", parent_id="r"),
    )
    base = tuple(Entity(f"e{n}", f"thing {n}", parent_id="c1") for n in range(2))
    layers = (Graph(base, ()), Graph(clusters, ()), Graph((Entity("r", "All", layer=2),), ()))
    generation = await publish(store, Hierarchy(layers))
    for word in ("barrels", "dear", "ships"):
        hits = await store.generations.search_entities(generation.number, word, 5)
        assert [hit.id for hit in hits] == ["c1"]
