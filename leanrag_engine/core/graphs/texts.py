"""The texts of a vector space: their ids, digests that tell which are equal, and the texts themselves where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import overload

import numpy as np

from leanrag_engine.core.graphs.graph import Digests, EntityColumns, digest_embedded
from leanrag_engine.core.model import Entity, content_id

from .ids import Ids, Places, SortedIds, decode_ids, make_ids
from .rows import select_rows


class EmbeddedTexts(Sequence[str]):
    """The texts that the rows of a vector space are embedded from, by ``ids`` and ``digests``; ``read`` gives
    those at some places, in any thread."""

    def __init__(self, ids: Ids, digests: Digests, read: Callable[[Sequence[int]], list[str]]) -> None:
        self.ids = ids
        self.digests = digests
        self._read = read

    @classmethod
    def of_pairs(cls, pairs: Sequence[tuple[str, str]]) -> EmbeddedTexts:
        """Return texts that are at hand, given with their ids."""
        return cls(
            make_ids(id_ for id_, _ in pairs),
            digest_all([text for _, text in pairs]),
            lambda places: [pairs[place][1] for place in places],
        )

    @classmethod
    def of_entities(cls, entities: Sequence[Entity], nodes: EntityColumns) -> EmbeddedTexts:
        """Return the texts of entities, whose columns are ``nodes``."""
        return cls(
            nodes.ids,
            nodes.texts,
            lambda places: [each.indexed_text for each in select_rows(entities, places)],
        )

    @classmethod
    def join(cls, parts: Sequence[EmbeddedTexts]) -> EmbeddedTexts:
        """Return the texts of several sequences one after the other."""
        if not parts:
            return cls.of_pairs(())
        starts = list(accumulate(map(len, parts), initial=0))

        def read(places: Sequence[int]) -> list[str]:
            wanted = np.asarray(places, dtype=np.intp)
            owners = np.searchsorted(starts, wanted, side="right") - 1
            found: dict[int, str] = {}
            for owner in np.unique(owners).tolist():
                own = wanted[owners == owner]
                texts = parts[owner].select((own - starts[owner]).tolist())
                found.update(zip(own.tolist(), texts, strict=True))
            return [found[place] for place in places]

        return cls(
            np.concatenate([each.ids for each in parts]),
            np.concatenate([each.digests for each in parts]),
            read,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        places = range(len(self))[index]
        return self.select([places])[0] if isinstance(places, int) else self.select(places)

    def __iter__(self) -> Iterator[str]:
        start, portion = 0, 1  # most who do not want all want the first alone
        while start < len(self):
            yield from self[start : start + portion]
            start, portion = start + portion, min(4 * portion, 1_000)

    def select(self, places: Sequence[int]) -> list[str]:
        """Return the texts at these places."""
        return self._read(places) if len(places) else []

    def pairs(self) -> list[tuple[str, str]]:
        """Return all ids with their texts."""
        return list(zip(decode_ids(self.ids), self.select(range(len(self))), strict=True))

    @cached_property
    def key(self) -> str:
        """A short name of these ids with these texts."""
        return content_id("", *decode_ids(self.ids), self.digests.astype("<u8").tobytes().hex())

    @cached_property
    def _places(self) -> SortedIds:
        return SortedIds(self.ids)

    def locate(self, ids: Ids) -> Places:
        """Return the places of these ids, −1 for those that are none of its own."""
        return self._places.find(ids)

    def choose(self, kept: Places) -> EmbeddedTexts:
        """Return the texts at these places as a sequence of their own."""
        return EmbeddedTexts(
            self.ids[kept],
            self.digests[kept],
            lambda places: self.select(kept[np.asarray(places, dtype=np.intp)].tolist()),
        )


def digest_all(texts: Sequence[str]) -> Digests:
    """Return the digests of texts that are embedded, which are made only where they are not known."""
    if isinstance(texts, EmbeddedTexts):
        return texts.digests
    return np.fromiter(map(digest_embedded, texts), dtype=np.uint64, count=len(texts))


def select_texts(texts: Sequence[str], places: Sequence[int]) -> list[str]:
    """Return the texts at these places; those that were not read yet are read together."""
    return texts.select(places) if isinstance(texts, EmbeddedTexts) else [texts[place] for place in places]
