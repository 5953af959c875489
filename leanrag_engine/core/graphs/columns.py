"""The entities and relations of a layer in columns: arrays with a value for each row, which steps that look
at all rows use. Those of stored rows are stored too."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import METHODS, Entity, Relation, SharedText
from leanrag_engine.core.text.language.names import name_key

from .ids import make_ids, sort_ids
from .rows import LayerRows

Weights = NDArray[np.float64]
Digests = NDArray[np.uint64]
Flags = NDArray[np.bool_]

T = TypeVar("T", Entity, Relation)
A = TypeVar("A", bound=NDArray[Any])
S = TypeVar("S", bound=np.generic)


def digest_text(text: str) -> int:
    """Return a number of 64 bits that tells texts apart."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def digest_texts(texts: Iterable[str]) -> Digests:
    return np.fromiter(map(digest_text, texts), dtype=np.uint64)


def digest_embedded(text: str) -> int:
    """Return the :func:`digest_text` of a text that is embedded, for a :class:`SharedText` beside its chunks."""
    return digest_text("\x01".join((text, *text.chunk_ids)) if isinstance(text, SharedText) else text)


OPENING = 80  # Characters: descriptions of which so many are equal begin with the same sentence


_WRITTEN = np.array([method.written for method in METHODS.values()])
_PLACES = {method: place for place, method in enumerate(METHODS.values())}


class Column(Generic[A]):
    """A column of some :class:`Columns`, which ``make`` computes from their rows when it is asked for first."""

    def __init__(self, make: Callable[[Sequence[Any]], A]) -> None:
        self._make = make

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, columns: "Columns[Any]", _: type) -> A:
        found: A = columns.find(self._name, self._make)
        columns.__dict__[self._name] = found
        return found


def _values(attribute: str, dtype: type[S]) -> Column[NDArray[S]]:
    return Column(lambda rows: np.array([getattr(each, attribute) for each in rows], dtype=dtype))


def _digests(text_of: Callable[[Any], str]) -> Column[Digests]:
    return Column(lambda rows: digest_texts(map(text_of, rows)))


class Columns(Generic[T]):
    def __init__(self, rows: Sequence[T]) -> None:
        self._rows: Sequence[T] = rows

    def find(self, name: str, make: Callable[[Sequence[T]], Any]) -> Any:
        """Return the stored column for stored rows; ``make`` computes it for the others."""
        return self._rows.column(name, make) if isinstance(self._rows, LayerRows) else make(self._rows)

    ids = Column(lambda rows: make_ids(each.id for each in rows))
    methods = Column(lambda rows: np.array([_PLACES[each.method] for each in rows], dtype=np.uint8))
    """The places of the methods in ``METHODS``."""
    layers = _values("layer", np.int16)
    """The layers that the rows say they are of."""
    stale = Column(lambda rows: np.array([each.stale is not None for each in rows], dtype=bool))
    """Which rows are written texts beneath which something has changed."""

    @cached_property
    def ranks(self) -> NDArray[np.intp]:
        """The rank of each id among all."""
        ranks = np.empty(len(self.ids), dtype=np.intp)
        ranks[sort_ids(self.ids)] = np.arange(len(ranks))
        return ranks

    @property
    def written(self) -> Flags:
        """Which rows a model or an agent wrote."""
        return np.asarray(_WRITTEN[self.methods])


_OF_PARENTS = ("parents", "second_parents", "responsibilities", "second_responsibilities")


class EntityColumns(Columns[Entity]):
    names = (
        *("ids", "layers", "methods", "stale", *_OF_PARENTS),
        *("mentions", "members", "name_keys", "texts", "openings"),
    )

    parents = Column(lambda rows: make_ids(each.parent_id or "" for each in rows))
    second_parents = Column(lambda rows: make_ids(each.second_parent_id or "" for each in rows))
    responsibilities = _values("responsibility", np.float64)
    second_responsibilities = _values("second_responsibility", np.float64)
    mentions = _values("mentions", np.int64)
    members = _values("members", np.int64)
    name_keys = _digests(lambda each: name_key(each.name))
    """The digests of the keys of the names."""
    texts = Column(
        lambda rows: np.fromiter((digest_embedded(each.indexed_text) for each in rows), dtype=np.uint64)
    )
    """The digests of the texts that are embedded."""
    openings = _digests(lambda each: each.description[:OPENING])
    """The digests of the beginnings of the descriptions: with equal ones they begin with the same sentence."""

    def replace_parents(self, rows: Sequence[Entity]) -> "EntityColumns":
        """Return the columns of rows that differ in their parents alone."""
        made = EntityColumns(rows)
        kept = set(self.names).difference(_OF_PARENTS) & self.__dict__.keys()
        made.__dict__.update({name: self.__dict__[name] for name in kept})
        return made

    def find_name_keys(self, known: Mapping[str, str]) -> Digests:
        """Return ``name_keys``, which is then kept; ``known`` are keys by name: making one takes longer than all else here."""
        if "name_keys" not in self.__dict__:
            self.__dict__["name_keys"] = self.find(
                "name_keys",
                lambda rows: digest_texts(known.get(each.name) or name_key(each.name) for each in rows),
            )
        return self.name_keys


class RelationColumns(Columns[Relation]):
    """The columns of the relations of a layer; their ends are in :attr:`leanrag_engine.core.graphs.graph.Graph.ends`."""

    names = ("ids", "layers", "methods", "stale", "strengths", "weights", "supports", "descriptions")

    strengths = _values("strength", np.int64)
    weights = _values("weight", np.int64)
    supports = _values("support", np.int64)
    descriptions = _digests(lambda each: each.description)
    """The digests of the descriptions."""
