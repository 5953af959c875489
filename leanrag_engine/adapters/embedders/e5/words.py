"""The tokenizer of XLM-RoBERTa: words in the pieces whose probabilities have the greatest product. The
tokenizers library builds its tables of these 250,000 pieces in more than a second and 300 MB, and they would
have to be written to a file first; here a word is divided once and remembered. No piece reaches over a space."""

import re
from functools import lru_cache

from leanrag_engine.adapters.embedders.pretrained import Span

from .weights import E5Weights

BEGIN, END, PADDING = 0, 2, 1
WORDLESS = {3, 6}  # Tokens that say nothing: what is not known, and a space before it
UNKNOWN = 3
SPACE = "▁"  # Stands for the space before a word

_WORD = re.compile(r"\S+")


class PieceTokenizer:
    """Divides texts into tokens. It may be used by several threads at once."""

    def __init__(self, weights: E5Weights) -> None:
        self._places = {piece: place for place, piece in enumerate(weights.pieces)}
        self._scores = weights.scores
        self._changes = weights.changes
        self._longest = max(map(len, weights.pieces))
        self._unknown = min(weights.scores) - 10
        self._divide = lru_cache(maxsize=1 << 16)(self._divide_word)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of ``text`` without those that mark its ends."""
        return [token for word in text.split() for token, _ in self._pieces(word)]

    def spans(self, text: str) -> list[Span]:
        """Return the place of each token in ``text``; that of the whole word where its characters are changed."""
        spans: list[Span] = []
        for match in _WORD.finditer(text):
            start, stop = match.span()
            pieces = self._pieces(match[0])
            if sum(size for _, size in pieces) != stop - start:
                spans += [(start, stop)] * len(pieces)
                continue
            for _, size in pieces:
                spans.append((start, start + size))
                start += size
        return spans

    def _pieces(self, word: str) -> list[tuple[int, int]]:
        """Return each token and the number of its characters; a change can put spaces into a word."""
        return [piece for part in word.translate(self._changes).split() for piece in self._divide(part)]

    def _divide_word(self, word: str) -> list[tuple[int, int]]:
        text = SPACE + word
        # The best sum of scores up to each character, the token that ends there, and its first character.
        best: list[tuple[float, int, int]] = [(0.0, UNKNOWN, 0)]
        for end in range(1, len(text) + 1):
            found = (best[end - 1][0] + self._unknown, UNKNOWN, end - 1)
            for start in range(max(end - self._longest, 0), end):
                place = self._places.get(text[start:end])
                if place is not None and (score := best[start][0] + self._scores[place]) > found[0]:
                    found = (score, place, start)
            best.append(found)
        pieces: list[tuple[int, int]] = []
        end = len(text)
        while end:
            _, place, start = best[end]
            pieces.append((place, end - max(start, 1)))
            end = start
        return pieces[::-1]
