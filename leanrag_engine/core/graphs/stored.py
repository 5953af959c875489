"""Store the columns of all layers as arrays, and open layers of which only the columns are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import Entity, LayerCount, Relation

from .columns import EntityColumns, RelationColumns
from .graph import Graph, Hierarchy
from .rows import LayerRows, StoredRows

Arrays = Mapping[str, NDArray[Any]]

T = TypeVar("T", Entity, Relation)

_ENDS = "relations-ends"


def pack_layers(layers: Sequence[Graph]) -> dict[str, NDArray[Any]]:
    """Return all columns of the layers, one layer after the other."""
    return {
        **{
            f"entities-{name}": _join(getattr(each.nodes, name) for each in layers)
            for name in EntityColumns.names
        },
        **{
            f"relations-{name}": _join(getattr(each.edges, name) for each in layers)
            for name in RelationColumns.names
        },
        _ENDS: _join(each.ends.astype(np.int32) for each in layers),
    }


def _join(columns: Iterator[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(list(columns))


def open_layers(
    arrays: Arrays,
    sizes: Sequence[LayerCount],
    read_entities: Callable[[Sequence[int]], Sequence[Entity]],
    read_relations: Callable[[Sequence[int]], Sequence[Relation]],
) -> Hierarchy | None:
    """Return the layers of these ``sizes`` with the columns that :func:`pack_layers` gave; None if those are of another version.

    ``read_entities`` and ``read_relations`` give the rows at some places, counted over all layers.
    """
    entities = _choose(arrays, "entities-", EntityColumns.names)
    relations = _choose(arrays, "relations-", (*RelationColumns.names, "ends"))
    wanted = (sum(each.entities for each in sizes), sum(each.relations for each in sizes))
    if entities is None or relations is None or (len(entities["ids"]), len(relations["ids"])) != wanted:
        return None
    nodes = _divide(entities, [each.entities for each in sizes], read_entities)
    edges = _divide(relations, [each.relations for each in sizes], read_relations)
    return Hierarchy(
        tuple(
            Graph(LayerRows.of_stored(own), LayerRows.of_stored(joined))
            for own, joined in zip(nodes, edges, strict=True)
        )
    )


def _choose(arrays: Arrays, prefix: str, names: Sequence[str]) -> dict[str, NDArray[Any]] | None:
    found = {name: arrays[f"{prefix}{name}"] for name in names if f"{prefix}{name}" in arrays}
    return found if len(found) == len(names) and len({len(each) for each in found.values()}) == 1 else None


def _divide(
    columns: Mapping[str, NDArray[Any]], counts: Sequence[int], read: Callable[[Sequence[int]], Sequence[T]]
) -> list[StoredRows[T]]:
    """Return the rows of each layer."""
    bounds = pairwise(accumulate(counts, initial=0))
    return [
        StoredRows(
            {name: column[first:after] for name, column in columns.items()},
            partial(_read_from, first, read),
        )
        for first, after in bounds
    ]


def _read_from(
    first: int, read: Callable[[Sequence[int]], Sequence[T]], places: Sequence[int]
) -> Sequence[T]:
    return read([first + place for place in places])
