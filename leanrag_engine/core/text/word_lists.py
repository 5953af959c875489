"""Read the lists of words in ``data/``. A file has sections: a line ``[name]``, then words separated by white space.
Lines that start with ``# `` are comments."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("data")


def read_words(file: str, section: str) -> frozenset[str]:
    """Return the words of one section of ``data/<file>.txt``."""
    return read_sections(file)[section]


@cache
def read_sections(file: str) -> Mapping[str, frozenset[str]]:
    """Return the words of ``data/<file>.txt`` by section."""
    found: dict[str, set[str]] = {}
    words: set[str] = set()
    for line in (_FOLDER / f"{file}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            words = found.setdefault(line[1:-1], set())
        elif not line.startswith("# "):
            words.update(line.split())
    return {name: frozenset(words) for name, words in found.items()}
