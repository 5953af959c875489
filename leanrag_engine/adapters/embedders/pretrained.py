"""Shared by the embedders of pretrained models: sources that fit nothing, windows of texts, batches of similar lengths, checks of rows."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import anyio.to_thread
import numpy as np

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Vectors
from leanrag_engine.core.ports import Embedder
from leanrag_engine.core.vectors import unit_rows

Span = tuple[int, int]
"""The place of a token in its text: its first character, and the one after its last."""

Role = Literal["document", "query"]

_ROUGH = re.compile(r"[A-Za-z]{1,4}|[0-9]{1,2}|\S")


class PretrainedSource:
    """What every source of a pretrained model answers alike, as it fits nothing to a collection's texts."""

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:  # noqa: ARG002 - nothing is fitted
        """Return the model with an empty state: nothing is fitted. Raises ``InvalidInput`` if it cannot be loaded."""
        return await anyio.to_thread.run_sync(self._embedder), b""

    def _embedder(self) -> Embedder:
        raise NotImplementedError

    async def restore(self, identity: str, state: bytes) -> Embedder:  # noqa: ARG002 - the port's arguments
        """Return the model, as ``fit`` does."""
        return (await self.fit(()))[0]

    async def unknown_words(self, identity: str, state: bytes, texts: Sequence[str]) -> None:
        """Return None: nothing was fitted."""

    async def restrict(self, identity: str, state: bytes, texts: Sequence[str]) -> tuple[str, bytes]:  # noqa: ARG002 - as above
        """Return both unchanged: they hold nothing of any text."""
        return identity, state


def rough_tokens(text: str) -> list[Span]:
    """Cut ``text`` into pieces so short that the model's own tokenizer, which is not available, rarely makes more."""
    return [match.span() for match in _ROUGH.finditer(text)]


def cut_windows(text: str, tokens: Sequence[Span], room: int) -> list[str]:
    """Cut ``text`` into windows of at most ``room`` of its ``tokens``; return the text itself if it fits.
    Windows are evenly spread and overlap. A short first line (the title of a passage, the names of an entity)
    is repeated in each of them: without it, the later windows would lack their topic."""
    if len(tokens) <= room:
        return [text]
    line, _, rest = text.partition("\n")
    heading = sum(start < len(line) for start, _ in tokens)
    if not rest or heading > room // 4:
        return [text[start:end] for start, end in _stretches(text, tokens, room)]
    return [f"{line}\n{text[start:end]}" for start, end in _stretches(text, tokens[heading:], room - heading)]


def _stretches(text: str, tokens: Sequence[Span], size: int) -> list[Span]:
    """Return overlapping stretches of at most ``size`` tokens, which is less than all."""
    # An eighth is shared with the next stretch, so that a sentence at a border is whole in one of them.
    overlap = size // 8
    back = min(16, overlap)
    step = size - back  # the rest is for beginning earlier, at the start of a word
    count = -(-(len(tokens) - overlap) // max(step - overlap, 1))
    starts = [round(number * (len(tokens) - step) / (count - 1)) for number in range(count)]
    first = [tokens[_word_start(text, tokens, start, back)][0] for start in starts]
    return [(begin, tokens[start + step - 1][1]) for begin, start in zip(first, starts, strict=True)]


def _word_start(text: str, tokens: Sequence[Span], token: int, back: int) -> int:
    """Return the token that begins the word of ``token``, if it is at most ``back`` tokens earlier."""
    for earlier in range(token, max(token - back, 0) - 1, -1):
        start = tokens[earlier][0]
        if not (start and text[start].isalnum() and text[start - 1].isalnum()):
            return earlier
    return token


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Texts embedded in windows: row ``i`` of the ``(m, d)`` ``vectors`` belongs to text ``owners[i]``.
    Owners ascend, and each text has one row or more, in reading order."""

    vectors: Vectors
    owners: tuple[int, ...]


def pool_windows(windows: Windows, texts: int) -> Vectors:
    """Return one L2-normalised row for each of ``texts`` texts: the mean of its windows."""
    if len(windows.owners) == texts:
        return windows.vectors
    rows = np.zeros((texts, windows.vectors.shape[1]), dtype=np.float32)
    np.add.at(rows, list(windows.owners), windows.vectors)
    return unit_rows(rows)


def repeat_windows(
    windows: Windows, distinct: Sequence[str], texts: Sequence[str]
) -> tuple[Windows, list[int]]:
    """Return the windows of ``texts``, given those of the ``distinct`` ones among them, and which of these each is."""
    if len(distinct) == len(texts):
        return windows, [*range(len(windows.owners))]
    rows = group((distinct[owner], row) for row, owner in enumerate(windows.owners))
    order = [(owner, row) for owner, text in enumerate(texts) for row in rows[text]]
    chosen = [row for _, row in order]
    return Windows(windows.vectors[chosen], tuple(owner for owner, _ in order)), chosen


@dataclass(frozen=True, slots=True)
class EmbeddingWindows:
    """Windows to embed: ``texts[i]`` is a window of text ``owners[i]`` and has ``sizes[i]`` tokens."""

    texts: tuple[str, ...]
    owners: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(
        cls, texts: Sequence[str], tokens: Iterable[Sequence[Span]], room: int | None
    ) -> "EmbeddingWindows":
        """Cut all ``texts`` into windows; ``room`` None means that the model reads a text of any length."""
        found = [
            (window, owner, min(len(spans), room or len(spans)))
            for owner, (text, spans) in enumerate(zip(texts, tokens, strict=True))
            for window in (cut_windows(text, spans, room) if room else [text])
        ]
        return cls(*(tuple(each) for each in zip(*found, strict=True))) if found else cls((), (), ())

    def batches(self, most: int, tokens: int) -> list[list[int]]:
        """Group places of texts by length, longest first: at most ``most`` texts and, from two on, ``tokens`` tokens together; no blank ones."""
        worded = [place for place, text in enumerate(self.texts) if text.strip()]
        worded.sort(key=lambda place: -self.sizes[place])
        batches: list[list[int]] = []
        for place in worded:
            last = batches[-1] if batches else []
            if last and len(last) < most and self.sizes[last[0]] * (len(last) + 1) <= tokens:
                last.append(place)
            else:
                batches.append([place])
        return batches


def check_rows(given: object, texts: Sequence[str], dimension: int, model: str) -> Vectors:
    """Return a model's rows for ``texts`` scaled to length 1. Raises :class:`InvalidInput` naming the first text with a wrong row."""
    rows = [np.asarray(row, dtype=np.float32) for row in given] if isinstance(given, Sequence) else given
    if not isinstance(rows, np.ndarray | list) or len(rows) != len(texts):
        raise InvalidInput(
            f"The embedder {model!r} gave {len(rows) if isinstance(rows, list) else 'no'} rows for {len(texts)} texts.",
            "Check that it is an embedding model, or set another one.",
        )
    for row, text in zip(rows, texts, strict=True):
        if row.shape != (dimension,):
            raise InvalidInput(
                f"The embedder {model!r} gave a row of {row.size} numbers for the text {text[:80]!r}, where {dimension} were expected.",
                "Check that the model is still the same one; if it changed on purpose, build the collection anew.",
            )
        if not np.isfinite(row).all():
            raise InvalidInput(
                f"The embedder {model!r} gave values that are not finite for the text {text[:80]!r}.",
                "Check the model on that text, or set another embedder.",
            )
    return unit_rows(np.asarray(rows, dtype=np.float32).reshape(len(texts), dimension))
