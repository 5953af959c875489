"""The rows of a layer of which most are those of the published build: these are read only where they are asked for.
Ids are sorted and found in arrays, as numbers of eight characters each: comparing strings takes several times as long."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.bytes_]
Places = NDArray[np.intp]


_WORD = 8


def make_ids(ids: Iterable[str]) -> Ids:
    """Return ids as an array, in UTF-8."""
    texts = list(ids)
    data = "".join(texts)
    width = max(map(len, texts), default=0)
    if width and data.isascii() and len(data) == width * len(texts):  # all are of one length
        return np.frombuffer(data.encode(), dtype=f"S{width}").copy()
    return np.array([id_.encode() for id_ in texts], dtype=np.bytes_)


def decode_ids(ids: Ids) -> list[str]:
    return b"\n".join(ids.tolist()).decode().split("\n") if len(ids) else []


def _number_words(ids: Ids) -> NDArray[np.uint64]:
    """Return the words of the ids as numbers, (words, n), the first word first; in their order ids are in theirs."""
    width = max(1, -(-ids.dtype.itemsize // _WORD))
    words = ids.astype(f"S{width * _WORD}").view(">u8").reshape(len(ids), width)
    return np.ascontiguousarray(words.T, dtype=np.uint64)


def sort_ids(ids: Ids) -> Places:
    """Return the places of the ids in ascending order; equal ones in the order of their places."""
    first, *others = _number_words(ids)
    order = np.argsort(first)
    found = first[order]
    tied = np.zeros(len(ids), dtype=bool)
    np.equal(found[1:], found[:-1], out=tied[1:])
    tied[:-1] |= tied[1:]
    rows = order[tied]
    order[tied] = rows[np.lexsort((rows, *(word[rows] for word in reversed(others)), first[rows]))]
    return order


class SortedIds:
    """Finds ids among others, which are distinct, perhaps ``ascending``: sorting takes less time than a dictionary."""

    def __init__(self, ids: Ids, *, ascending: bool = False) -> None:
        self._order = None if ascending else sort_ids(ids)
        self._ids = ids if self._order is None else ids[self._order]
        self._words = _number_words(self._ids)[0]

    def find(self, wanted: Ids) -> Places:
        """Return the place of each wanted id, −1 for those that are not there."""
        held = self._ids
        if not len(held) or not len(wanted):
            return np.full(len(wanted), -1, dtype=np.intp)
        places = np.searchsorted(self._words, _number_words(wanted)[0])
        places = np.minimum(places, len(held) - 1)
        missed = np.flatnonzero(held[places] != wanted)
        # Those that are not there, and those whose first word is that of several.
        places[missed] = np.minimum(np.searchsorted(held, wanted[missed]), len(held) - 1)
        absent = missed[held[places[missed]] != wanted[missed]]
        found = np.asarray(places if self._order is None else self._order[places])
        found[absent] = -1
        return found


def find_ids(wanted: Ids, ids: Ids) -> Places:
    """Return the place of each wanted id among ascending ``ids``; see :class:`SortedIds`."""
    return SortedIds(ids, ascending=True).find(wanted)


def look_up(wanted: NDArray[Any], numbers: NDArray[Any], values: Places, *, missing: int) -> Places:
    """Return the value of each wanted number, ``missing`` for those that are not among the sorted ``numbers``."""
    if not len(numbers):
        return np.full(len(wanted), missing, dtype=np.intp)
    places = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[places] == wanted, values[places], missing)


def has_twins(ids: Ids) -> bool:
    """Return whether two ids are equal."""
    mixed = np.zeros(len(ids), dtype=np.uint64)
    for word in _number_words(ids):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) ^ word
    mixed.sort()
    twins = bool((mixed[1:] == mixed[:-1]).any())
    return twins and len(set(ids.tolist())) < len(ids)


class Identified(Protocol):
    """An entity or a relation."""

    @property
    def id(self) -> str: ...


R = TypeVar("R")
T = TypeVar("T", bound=Identified)

_PORTION = 20_000  # LayerRows that are read at a time where all of them are wanted


@dataclass(frozen=True, eq=False)
class StoredRows(Generic[T]):
    """The rows of a published layer: ``columns`` of equal length by name, ``ids`` among them, and how to ``read`` the rows at some places."""

    columns: Mapping[str, NDArray[Any]]
    read: Callable[[Sequence[int]], Sequence[T]]
    _read_rows: dict[int, T] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.columns["ids"])

    @cached_property
    def _places(self) -> SortedIds:
        return SortedIds(self.columns["ids"])

    def find(self, ids: Sequence[str]) -> Places:
        """Return the places of the rows with these ids, −1 where there is none."""
        return self._places.find(make_ids(ids))

    def select(self, places: Sequence[int]) -> list[T]:
        """Return the rows at these places."""
        held = self._read_rows
        missing = sorted({place for place in places if place not in held})
        if missing:
            held.update(zip(missing, self.read(missing), strict=True))
        return [held[place] for place in places]


class ReadTogether(Sequence[R]):
    """A sequence whose items are read when they are asked for, several with one :meth:`select`."""

    @abstractmethod
    def select(self, numbers: Sequence[int]) -> list[R]:
        """Return the items of these numbers; those that were not read yet are read together."""

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> list[R]: ...

    def __getitem__(self, index: int | slice) -> R | list[R]:
        numbers = range(len(self))[index]
        return self.select([numbers])[0] if isinstance(numbers, int) else self.select(numbers)


class LayerRows(ReadTogether[T]):
    """A sequence of rows: those of ``stored`` at ``places``, and the ``own`` ones, by their numbers, where the place is −1."""

    def __init__(self, stored: StoredRows[T], places: Places, own: Mapping[int, T]) -> None:
        self.stored = stored
        self.places = places
        self.own = own

    @classmethod
    def of_stored(cls, stored: StoredRows[T]) -> "LayerRows[T]":
        """Return all stored rows in their order."""
        return cls(stored, np.arange(len(stored)), {})

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[T]:
        for start in range(0, len(self), _PORTION):
            yield from self.select(range(start, min(start + _PORTION, len(self))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def select(self, numbers: Sequence[int]) -> list[T]:
        places = self.places[np.asarray(numbers, dtype=np.intp)].tolist()
        held = iter(self.stored.select([place for place in places if place >= 0]))
        return [
            self.own[number] if place < 0 else next(held)
            for number, place in zip(numbers, places, strict=True)
        ]

    def find(self, ids: Sequence[str]) -> list[int]:
        """Return the numbers of the rows with these ids, −1 where there is none."""
        own = {row.id: number for number, row in self.own.items()}
        stored = self.numbers[self.stored.find(ids)].tolist()
        return [own.get(id_, number) for id_, number in zip(ids, stored, strict=True)]

    @cached_property
    def numbers(self) -> Places:
        """The number of each stored row, −1 if it is not among these; that of place −1 is −1."""
        numbers = np.full(len(self.stored) + 1, -1, dtype=np.intp)
        held = np.flatnonzero(self.places >= 0)
        numbers[self.places[held]] = held
        return numbers

    def replace(self, rows: Mapping[int, T]) -> "LayerRows[T]":
        """Return the sequence with other rows at some numbers."""
        if not rows:
            return self
        places = self.places.copy()
        places[[*rows]] = -1
        return LayerRows(self.stored, places, {**self.own, **rows})

    def column(self, name: str, make: Callable[[Sequence[T]], NDArray[Any]]) -> NDArray[Any]:
        """Return a stored column for the rows, which ``make`` computes for the own ones."""
        held = self.stored.columns[name]
        numbers = np.flatnonzero(self.places < 0)
        if not len(numbers):
            return np.asarray(held[self.places])
        made = make([self.own[number] for number in numbers.tolist()])
        if not len(held):
            return made
        found = held[self.places].astype(np.result_type(held, made), copy=False)
        found[numbers] = made
        return np.asarray(found)


def select_rows(rows: Sequence[R], numbers: Sequence[int]) -> list[R]:
    """Return the rows, or texts, of these numbers; stored ones are read together."""
    return rows.select(numbers) if isinstance(rows, ReadTogether) else [rows[number] for number in numbers]


def read_rows(rows: Sequence[T], numbers: Sequence[int]) -> None:
    """Read stored rows together that will be asked for one by one."""
    if isinstance(rows, LayerRows):
        rows.select(numbers)


def replace_rows(rows: Sequence[T], changed: Mapping[int, T]) -> Sequence[T]:
    """Return the sequence with other rows at some numbers."""
    if isinstance(rows, LayerRows) or not changed:
        return rows.replace(changed) if isinstance(rows, LayerRows) else rows
    found = list(rows)
    for number, row in changed.items():
        found[number] = row
    return tuple(found)


def compose_rows(held: Sequence[T], places: Places, own: Mapping[int, T]) -> Sequence[T]:
    """Return the rows of ``held`` at ``places``, and where the place is −1 the ``own`` ones, by their numbers."""
    if not isinstance(held, LayerRows):
        return tuple(
            [own[number] if place < 0 else held[place] for number, place in enumerate(places.tolist())]
        )
    stored = np.append(held.places, -1)[places]
    others = np.flatnonzero((stored < 0) & (places >= 0)).tolist()
    return LayerRows(held.stored, stored, {**{each: held.own[int(places[each])] for each in others}, **own})


def find_rows(rows: Sequence[T], ids: Sequence[str]) -> list[int]:
    """Return the numbers of the rows with these ids, −1 where there is none."""
    if isinstance(rows, LayerRows):
        return rows.find(ids)
    numbers = {row.id: number for number, row in enumerate(rows)} if ids else {}
    return [numbers.get(id_, -1) for id_ in ids]


@dataclass(frozen=True, slots=True, eq=False)
class RowMatches(Generic[T]):
    """What differs between two sequences of rows: ``origins`` (n,), each row's number before, −1 for new
    ones; ``differing`` rows by number, each with the one before; and the numbers before of those ``gone``."""

    origins: Places
    differing: Mapping[int, tuple[T | None, T]]
    gone: Places


def match_rows(before: Sequence[T], after: Sequence[T]) -> RowMatches[T]:
    """Return what differs. Of stored rows only those that are not the same are read."""
    origins = find_same(before, after)
    rest = np.flatnonzero(origins < 0).tolist()
    now = select_rows(after, rest)
    found = find_rows(before, [row.id for row in now])
    origins[rest] = found
    then = iter(select_rows(before, [number for number in found if number >= 0]))
    differing = {
        number: (next(then) if origin >= 0 else None, row)
        for number, origin, row in zip(rest, found, now, strict=True)
    }
    return RowMatches(origins, differing, find_missing(origins, len(before)))


def find_missing(origins: Places, count: int) -> Places:
    """Return which of the places below ``count`` are not among ``origins``, which may hold −1."""
    left = np.ones(count, dtype=bool)
    left[origins[origins >= 0]] = False
    return np.flatnonzero(left)


def find_same(before: Sequence[T], after: Sequence[T]) -> Places:
    """Return for each row of ``after`` the number of the row of ``before`` that it is itself; an equal one may get −1."""
    if isinstance(before, LayerRows) and isinstance(after, LayerRows) and before.stored is after.stored:
        found = np.asarray(before.numbers[after.places])
        held = {id(row): number for number, row in before.own.items()}
        for number, row in after.own.items():
            found[number] = held.get(id(row), -1)
        return found
    return _find_identical(before, after)


def _find_identical(before: Sequence[T], after: Sequence[T]) -> Places:
    found = np.full(len(after), -1, dtype=np.intp)
    ranks: dict[int, int] = {}
    following = 0
    old = list(before)
    for number, row in enumerate(after):
        # Most rows follow each other: looking them up takes longer.
        if following < len(old) and old[following] is row:
            rank = following
        else:
            ranks = ranks or {id(each): rank for rank, each in enumerate(old)}
            rank = ranks.get(id(row), -1)
            if rank < 0:
                continue
        found[number] = rank
        following = rank + 1
    return found
