"""Count tokens by tiktoken's o200k_base encoding, offline: the vocabulary is found in litellm's wheel without
importing that, and checked by its published digest."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from leanrag_engine.core.errors import LeanRAGError

if TYPE_CHECKING:
    from tiktoken import Encoding

_VOCABULARY = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The name under which tiktoken caches o200k_base: the SHA-1 of its address."""

_VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

_WORD_END = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_SPLIT_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _WORD_END,
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _WORD_END,
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""How the encoding splits text before it merges bytes. A test compares it with tiktoken's own."""

_PART = 8_192
"""Texts with more characters are counted in parts: tiktoken's splitter overflows its stack on a
megabyte of spaces, and older releases need minutes for a megabyte of one letter."""

_LINE_END = re.compile(r"\n(?=[^\s/])")
_SEAM = re.compile(r"(?<=\S)(?= [^\W\d_])|(?<=\n)(?=[^\s/])|(?<=[^\W_])(?=[。、，！？；：][^\W_])")
"""Places where the split pattern always splits, so that the counts of the parts add up to that of the whole."""

_LATIN = re.compile(r"[\0-\u017f\u2000-\u2fff]*")
_LATIN_BYTES = bytes([*range(0x80), *range(0x80, 0xC0), 0xC2, 0xC3, 0xC4, 0xC5, 0xE2])
"""The bytes of these characters in UTF-8."""

_encoding_lock = threading.Lock()


class TiktokenTokenizer:
    """Implements :class:`leanrag_engine.core.ports.Tokenizer`. The vocabulary (3.6 MB) is read at the first
    count. Special tokens are ordinary text. Counts equal tiktoken's, but for runs of more than 16,384 characters
    without a seam. Raises :class:`LeanRAGError` if the vocabulary is missing. Safe to share between threads."""

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``; those of the last few thousand lines are kept, as a context grows piece by piece."""
        # From a newline to the next: looking around each character takes longer than counting.
        *lines, last = _LINE_END.split(text)
        return sum([_count_line(f"{line}\n") for line in lines]) + _count_line(last)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each of ``texts``, in order (about 14 MB a second)."""
        encoding = _encoding_for("".join(texts))
        return [_count(text, encoding) for text in texts]


def _count(text: str, encoding: Encoding | None = None) -> int:
    encoding = encoding or _encoding_for(text)
    if len(text) <= _PART:
        return len(encoding.encode_ordinary(text))
    return sum(len(encoding.encode_ordinary(part)) for part in _parts(text))


_count_line = lru_cache(maxsize=1 << 12)(_count)


def _parts(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _PART:
        seam = _SEAM.search(text, start + _PART, start + 2 * _PART)
        end = seam.start() if seam else start + 2 * _PART
        yield text[start:end]
        start = end
    yield text[start:]


def _encoding_for(text: str) -> Encoding:
    """Return the encoding, or the part of it that counts this text alike and is read in half of the time."""
    # An encoding joins bytes that stand in the text and no others.
    part = text.isascii() or _LATIN.fullmatch(text) is not None
    with _encoding_lock:
        return _read_latin() if part and not _read_whole.cache_info().currsize else _read_whole()


@cache
def _read_whole() -> Encoding:
    """Read the vocabulary once for the process."""
    return _make_encoding(_tokens())


@cache
def _read_latin() -> Encoding:
    """Read the tokens that have no byte but those of Latin letters, digits and general punctuation in UTF-8."""
    return _make_encoding(
        token if token.isascii() or not token.translate(None, _LATIN_BYTES) else b"" for token in _tokens()
    )


def _make_encoding(tokens: Iterable[bytes]) -> Encoding:
    """Return the encoding of the tokens, given by rank; "" is none."""
    from tiktoken import Encoding  # noqa: PLC0415 - start-up does not count tokens

    ranks = {token: rank for rank, token in enumerate(tokens) if token}
    return Encoding("o200k_base", pat_str=_SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens={})


def _tokens() -> Iterator[bytes]:
    # Lines of a token in base64 and its rank, which counts the lines from 0: the digest holds that.
    return map(a2b_base64, _vocabulary().split()[::2])


def _vocabulary() -> bytes:
    tried = _candidates()
    for path in tried:
        with suppress(OSError):
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() == _VOCABULARY_SHA256:
                return data
    places = ", ".join(str(path) for path in tried) or "no litellm is installed"
    raise LeanRAGError(
        f"The vocabulary of the o200k_base tokenizer is missing or damaged (looked at: {places}).",
        "Install litellm again, whose wheel carries it, or let TIKTOKEN_CACHE_DIR name a folder that holds"
        f" tiktoken's cache file {_VOCABULARY}.",
    )


def _candidates() -> list[Path]:
    litellm = find_spec("litellm")
    packages = (litellm.submodule_search_locations or []) if litellm else []
    folders = [Path(package, "litellm_core_utils", "tokenizers") for package in packages]
    if cached := os.environ.get("TIKTOKEN_CACHE_DIR"):
        folders.append(Path(cached))
    return [folder / _VOCABULARY for folder in folders]
