"""What the tests of builds share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from leanrag_engine.core.graphs.graph import Hierarchy
from leanrag_engine.core.model import Generation
from leanrag_engine.pipeline.index import Stores, read_hierarchy, read_indexed_texts, restore_embedder
from leanrag_engine.pipeline.repair import wrap_embedder


@pytest.fixture(scope="session")
def read_build() -> Callable[[Stores, Generation], Awaitable[Hierarchy]]:
    """Read the layers of a published build; every vector of its texts must be as if embedded now."""

    async def read(stores: Stores, generation: Generation) -> Hierarchy:
        hierarchy = await read_hierarchy(stores, generation)
        texts = await read_indexed_texts(stores, generation)
        embedder = wrap_embedder(stores, generation, await restore_embedder(stores, generation), texts)
        for space, rows in texts.items():
            ids = [id_ for id_, _ in rows]
            found = await stores.vectors.fetch(space, ids) if ids else {}
            assert found.keys() == set(ids), space
            known = [(id_, text) for id_, text in rows if embedder.knows(text)]
            if known:
                expected = await embedder.embed([text for _, text in known])
                assert np.allclose(np.stack([found[id_] for id_, _ in known]), expected, atol=1e-5), space
        return hierarchy

    return read
