"""Merge extracts that are at hand, as most tests need it."""

from collections.abc import Mapping, Sequence
from typing import Any

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Extract
from leanrag_engine.extraction.merging import ExtractSource, PreviousMerge, merge_source


def merge(
    extracts: Sequence[Extract],
    *,
    documents: Mapping[str, str] | None = None,
    previous: Graph | None = None,
    **options: Any,
) -> Graph:
    """Return G0; ``documents`` and ``options`` as of ``ExtractSource.of`` and ``merge_source``. ``previous`` is without an
    index."""
    source = ExtractSource.of(extracts, documents)
    before = PreviousMerge(previous) if previous else None
    return merge_source(source, previous=before, **options).graph
