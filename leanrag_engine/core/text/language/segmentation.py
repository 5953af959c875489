"""Segment Chinese with jieba and Japanese with Sudachi, which write no spaces between words."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from leanrag_engine.core.errors import InvalidInput

if TYPE_CHECKING:
    from sudachipy import Dictionary, Morpheme, Tokenizer


_per_thread = threading.local()
"""Lazy cache of a Sudachi tokenizer for each thread: tokenizers are not thread-safe."""

_dictionary_lock = threading.Lock()


def segment(run: str, *, japanese: bool, search: bool) -> list[str]:
    """Cut a run of Han and kana into words; ``search`` adds the words within long Chinese words."""
    if japanese:
        if search:
            return [morpheme.normalized_form() for morpheme in japanese_morphemes(run)]
        return [morpheme.dictionary_form() for morpheme in japanese_morphemes(run)]
    import rjieba  # noqa: PLC0415 - only Chinese pays for it

    pieces: list[str] = rjieba.cut_for_search(run, True) if search else rjieba.cut(run, True)
    return pieces


def tag_chinese(text: str) -> list[tuple[str, str]]:
    """Return Chinese ``text`` as (word, part of speech) pairs, with jieba's tags (``n``, ``nr``, ``v``, …)."""
    import rjieba  # noqa: PLC0415 - only Chinese pays for it

    pairs: list[tuple[str, str]] = rjieba.tag(text, True)
    return pairs


def japanese_morphemes(text: str) -> Iterator[Morpheme]:
    """Yield Sudachi's morphemes of Japanese ``text`` of any length, in order and in its shortest units."""
    tokenizer = _tokenizer()
    # Sudachi refuses more than 49,149 bytes in one call.
    for piece in _portions(text, 48_000):
        yield from tokenizer.tokenize(piece)


def _portions(text: str, limit: int) -> Iterator[str]:
    size = limit // 4  # no character takes more than four bytes
    if len(text) <= size:
        yield text
        return
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _tokenizer() -> Tokenizer:
    tokenizer: Tokenizer | None = getattr(_per_thread, "sudachi", None)
    if tokenizer is None:
        with _dictionary_lock:
            from sudachipy import SplitMode  # noqa: PLC0415 - only Japanese pays for it

            tokenizer = _per_thread.sudachi = _dictionary().tokenizer(mode=SplitMode.A)
    return tokenizer


@cache
def _dictionary() -> Dictionary:
    """Return the Japanese dictionary. Raises ``InvalidInput`` if it was uninstalled, which saves 110 MB."""
    from sudachipy import Dictionary  # noqa: PLC0415 - only Japanese pays for it

    if find_spec("sudachidict_small") is None:
        raise InvalidInput(
            "Japanese text needs the package sudachidict-small, which is not installed.",
            "Install it: pip install sudachidict-small.",
        )
    return Dictionary(dict="small")
