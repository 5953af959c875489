"""The entities and relations of a layer in columns: arrays with a value for each row, which steps that look
at all rows use. Those of stored rows are stored too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import METHODS, Entity, Relation, SharedText
from leanrag_engine.core.text.language.names import name_key

from .ids import Ids, make_ids, sort_ids
from .rows import LayerRows

Numbers = NDArray[np.int64]
Weights = NDArray[np.float64]
Digests = NDArray[np.uint64]
Flags = NDArray[np.bool_]

T = TypeVar("T", Entity, Relation)


def digest_text(text: str) -> int:
    """Return a number of 64 bits that tells texts apart."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def digest_texts(texts: Iterable[str]) -> Digests:
    """Return the :func:`digest_text` of each text."""
    return np.fromiter(map(digest_text, texts), dtype=np.uint64)


def digest_embedded(text: str) -> int:
    """Return the :func:`digest_text` of a text that is embedded: a :class:`SharedText` gets another vector than the same words
    in one piece, such as a window of a document that is called like an entity."""
    return digest_text(f"\x01{text}" if isinstance(text, SharedText) else text)


OPENING = 80
"""Characters: descriptions of which so many are equal begin with the same sentence."""


_WRITTEN = np.array([method.written for method in METHODS.values()])


class Columns(Generic[T]):
    """The columns of some rows, each made when it is asked for first."""

    def __init__(self, rows: Sequence[T]) -> None:
        self._rows: Sequence[T] = rows

    def _find(self, name: str, make: Callable[[Sequence[T]], NDArray[Any]]) -> NDArray[Any]:
        return self._rows.column(name, make) if isinstance(self._rows, LayerRows) else make(self._rows)

    @cached_property
    def ids(self) -> Ids:
        return self._find("ids", lambda rows: make_ids(each.id for each in rows))

    @cached_property
    def ranks(self) -> NDArray[np.intp]:
        """The rank of each id among all."""
        ranks = np.empty(len(self.ids), dtype=np.intp)
        ranks[sort_ids(self.ids)] = np.arange(len(ranks))
        return ranks

    @cached_property
    def methods(self) -> NDArray[np.uint8]:
        """The places of the methods in ``METHODS``."""
        return self._find("methods", _method_places)

    @property
    def written(self) -> Flags:
        """Which rows a model or an agent wrote."""
        return np.asarray(_WRITTEN[self.methods])

    @cached_property
    def layers(self) -> NDArray[np.int16]:
        """The layers that the rows say they are of."""
        return self._find("layers", lambda rows: np.array([each.layer for each in rows], dtype=np.int16))

    @cached_property
    def stale(self) -> Flags:
        """Which rows are written texts beneath which something has changed."""
        return self._find(
            "stale", lambda rows: np.array([each.stale is not None for each in rows], dtype=bool)
        )


def _method_places(rows: Sequence[Entity] | Sequence[Relation]) -> NDArray[np.uint8]:
    places = {method: place for place, method in enumerate(METHODS.values())}
    return np.array([places[each.method] for each in rows], dtype=np.uint8)


class EntityColumns(Columns[Entity]):
    """The columns of the entities of a layer."""

    names = (
        *("ids", "layers", "methods", "stale", "parents", "second_parents"),
        *(
            "responsibilities",
            "second_responsibilities",
            "mentions",
            "members",
            "name_keys",
            "texts",
            "openings",
        ),
    )

    def replace_parents(self, rows: Sequence[Entity]) -> EntityColumns:
        """Return the columns of rows that differ in their parents alone."""
        made = EntityColumns(rows)
        made.__dict__.update(
            {name: self.__dict__[name] for name in _WITHOUT_PARENTS if name in self.__dict__}
        )
        return made

    @cached_property
    def parents(self) -> Ids:
        return self._find("parents", lambda rows: make_ids(each.parent_id or "" for each in rows))

    @cached_property
    def second_parents(self) -> Ids:
        return self._find(
            "second_parents", lambda rows: make_ids(each.second_parent_id or "" for each in rows)
        )

    @cached_property
    def responsibilities(self) -> Weights:
        return self._find(
            "responsibilities",
            lambda rows: np.array([each.responsibility for each in rows], dtype=np.float64),
        )

    @cached_property
    def second_responsibilities(self) -> Weights:
        return self._find(
            "second_responsibilities",
            lambda rows: np.array([each.second_responsibility for each in rows], dtype=np.float64),
        )

    @cached_property
    def mentions(self) -> Numbers:
        return self._find("mentions", lambda rows: np.array([each.mentions for each in rows], dtype=np.int64))

    @cached_property
    def members(self) -> Numbers:
        return self._find("members", lambda rows: np.array([each.members for each in rows], dtype=np.int64))

    @cached_property
    def name_keys(self) -> Digests:
        """The digests of the keys of the names."""
        return self.find_name_keys()

    def find_name_keys(self, known: Mapping[str, str] = MappingProxyType({})) -> Digests:
        """Return ``name_keys``, which is then kept; ``known`` are keys by name: making one takes longer than all else here."""
        if "name_keys" not in self.__dict__:
            self.__dict__["name_keys"] = self._find(
                "name_keys",
                lambda rows: digest_texts(known.get(each.name) or name_key(each.name) for each in rows),
            )
        found: Digests = self.__dict__["name_keys"]
        return found

    @cached_property
    def texts(self) -> Digests:
        """The digests of the texts that are embedded."""
        return self._find(
            "texts",
            lambda rows: np.fromiter((digest_embedded(each.indexed_text) for each in rows), dtype=np.uint64),
        )

    @cached_property
    def openings(self) -> Digests:
        """The digests of the beginnings of the descriptions: with equal ones they begin with the same sentence."""
        return self._find("openings", lambda rows: digest_texts(each.description[:OPENING] for each in rows))


_WITHOUT_PARENTS = frozenset(EntityColumns.names) - {
    "parents",
    "second_parents",
    "responsibilities",
    "second_responsibilities",
}


class RelationColumns(Columns[Relation]):
    """The columns of the relations of a layer; their ends are in :attr:`leanrag_engine.core.graphs.graph.Graph.ends`."""

    names = ("ids", "layers", "methods", "stale", "strengths", "weights", "supports", "descriptions")

    @cached_property
    def strengths(self) -> Numbers:
        return self._find(
            "strengths", lambda rows: np.array([each.strength for each in rows], dtype=np.int64)
        )

    @cached_property
    def weights(self) -> Numbers:
        return self._find("weights", lambda rows: np.array([each.weight for each in rows], dtype=np.int64))

    @cached_property
    def supports(self) -> Numbers:
        return self._find("supports", lambda rows: np.array([each.support for each in rows], dtype=np.int64))

    @cached_property
    def descriptions(self) -> Digests:
        """The digests of the descriptions."""
        return self._find("descriptions", lambda rows: digest_texts(each.description for each in rows))
