"""Store the columns of all layers as arrays, and open layers of which only the columns are read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.core.graphs.graph import EntityColumns, RelationColumns
from leanrag_engine.core.model import Entity, LayerCount, Relation

from .graph import Graph, Hierarchy
from .rows import LayerRows, StoredRows

StoredPlaces = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where the entities and the relations of all layers are in a store, by numbers of its own."""

Arrays = Mapping[str, NDArray[Any]]

T = TypeVar("T", Entity, Relation)

_ENDS = "relations-ends"
_PLACES = ("entities-places", "relations-places")


def pack_layers(layers: Sequence[Graph], places: StoredPlaces) -> dict[str, NDArray[Any]]:
    """Return all columns of the layers, one layer after the other, and the ``places`` of the rows in the store."""
    return {
        **dict(zip(_PLACES, places, strict=True)),
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
    read_entities: Callable[[list[int]], Sequence[Entity]],
    read_relations: Callable[[list[int]], Sequence[Relation]],
) -> Hierarchy | None:
    """Return layers of these ``sizes`` with the columns of :func:`pack_layers`, read on demand; None for another version's."""
    entities = _choose(arrays, "entities-", (*EntityColumns.names, "places"))
    relations = _choose(arrays, "relations-", (*RelationColumns.names, "ends", "places"))
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
    columns: Mapping[str, NDArray[Any]], counts: Sequence[int], read: Callable[[list[int]], Sequence[T]]
) -> list[StoredRows[T]]:
    """Return the rows of each layer."""
    bounds = pairwise(accumulate(counts, initial=0))
    return [
        _open_rows({name: column[first:after] for name, column in columns.items()}, read)
        for first, after in bounds
    ]


def _open_rows(
    columns: Mapping[str, NDArray[Any]], read: Callable[[list[int]], Sequence[T]]
) -> StoredRows[T]:
    def read_places(numbers: Sequence[int]) -> Sequence[T]:
        found = read(columns["places"][numbers].tolist())
        if [each.id.encode() for each in found] != columns["ids"][numbers].tolist():
            raise StoreUnusable(
                "Rows of the published generation are not those that its columns were made of.",
                "Build again with the mode rebuild.",
            )
        return found

    return StoredRows(columns, read_places)


def find_places(layers: Sequence[Graph]) -> StoredPlaces | None:
    """Return where the rows of opened layers are in the store; None if they are at hand."""
    places = [
        rows.stored.columns["places"]
        for layer in layers
        for rows in (layer.entities, layer.relations)
        if isinstance(rows, LayerRows) and len(rows) == len(rows.stored)
    ]
    if len(places) < 2 * len(layers):
        return None
    return np.concatenate(places[::2]), np.concatenate(places[1::2])
