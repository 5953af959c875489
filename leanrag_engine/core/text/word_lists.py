"""Read the lists of words and the patterns in ``data/``. A file has sections: a line ``[name]``, then words separated by white space, or the
parts of a regular expression. Lines that start with ``# `` are comments."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("data")


def read_words(file: str, section: str) -> frozenset[str]:
    """Return the words of one section of ``data/<file>.txt``."""
    return read_sections(file)[section]


@cache
def read_sections(file: str) -> Mapping[str, frozenset[str]]:
    """Return the words of ``data/<file>.txt`` by section."""
    return {name: frozenset(" ".join(lines).split()) for name, lines in _read_lines(file).items()}


def read_pattern(file: str, section: str) -> re.Pattern[str]:
    """Return the regular expression that the lines of a section are together, whatever the case; ``{name}`` stands for another section."""
    sections = _read_lines(file)
    joined = re.sub(r"\{([a-z_]+)\}", lambda each: "".join(sections[each[1]]), "".join(sections[section]))
    return re.compile(joined, re.IGNORECASE)


@cache
def _read_lines(file: str) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (_FOLDER / f"{file}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            lines = found.setdefault(line[1:-1], [])
        elif not line.startswith("# "):
            lines.append(line)
    return found
