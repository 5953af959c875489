"""Segment Chinese with jieba and Japanese with Sudachi, which write no spaces between words. Without Sudachi, an extra, the few
Japanese words of other texts are cut where their script changes; a Japanese text is refused (:func:`require_japanese`)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.text.scripts import is_japanese, is_mostly_latin

if TYPE_CHECKING:
    from sudachipy import Dictionary, Morpheme, Tokenizer


_per_thread = threading.local()
"""Lazy cache of a Sudachi tokenizer for each thread: tokenizers are not thread-safe."""

_dictionary_lock = threading.Lock()

_OF_ONE_SCRIPT = re.compile("[ぁ-ゖ]+|[ァ-ヺー]+|[^ぁ-ゖァ-ヺー]+")


def segment(run: str, *, japanese: bool, search: bool) -> list[str]:
    """Cut a run of Han and kana into words; ``search`` adds the words within long Chinese words."""
    if japanese:
        if not has_japanese():
            return _OF_ONE_SCRIPT.findall(run)
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
    from sudachipy import Dictionary  # noqa: PLC0415 - only Japanese pays for it

    return Dictionary(dict="small")


@cache
def has_japanese() -> bool:
    """Return whether the extra [ja] is installed."""
    return find_spec("sudachidict_small") is not None and find_spec("sudachipy") is not None


def require_japanese(text: str) -> None:
    """Raise ``InvalidInput`` if most of ``text`` is Japanese and what cuts it into words is not installed: 115 MB."""
    if is_japanese(text) and not is_mostly_latin([text]) and not has_japanese():
        raise InvalidInput(
            "The text is Japanese, and the packages that cut it into words are not installed.",
            'Install the extra [ja], 115 MB: pip install "leanrag-mcp[ja]". Then give the document again.',
        )
