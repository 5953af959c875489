"""Tell what a long text is about at some place from what it mentions everywhere, by residual IDF: how far the
parts of the text with a word are fewer than chance would have them (Church and Gale 1995)."""

from __future__ import annotations

from collections import Counter
from math import exp, log2


class Spread:
    """Counts phrases, and the parts of about ``words`` words of a text that have each of them."""

    def __init__(self, words: int = 250) -> None:
        self._size = words
        self._words = 0
        self._counts: Counter[str] = Counter()
        self._parts: Counter[str] = Counter()
        self._last: dict[str, int] = {}

    def add(self, found: Counter[str], words: int) -> None:
        """Add the next sentence: its phrases and the number of its words."""
        part = self.parts
        self._words += words
        self._counts.update(found)
        for key in found:
            if self._last.get(key) != part:
                self._last[key] = part
                self._parts[key] += 1

    @property
    def parts(self) -> int:
        return 1 + self._words // self._size

    def residual(self, key: str, *, fewest: int = 40) -> float:
        """Return the residual IDF of a phrase that occurs; 0 in a text of less than ``fewest`` parts, which tell too little."""
        if self.parts < fewest:
            return 0.0
        by_chance = self.parts * (1 - exp(-self._counts[key] / self.parts))
        return log2(by_chance / self._parts[key])
