"""Edit a TOML text in place: all else stays as it is. The result is parsed again and compared with the intended value."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomlkit
from tomlkit.items import Table

from .jsonc import Malformed, check_value, delete_value, set_value


def print_tables(value: Mapping[str, object]) -> str:
    return str(tomlkit.dumps(value))


@dataclass(frozen=True, slots=True)
class TomlDocument:
    """A parsed text. Every path is of two keys or more: the table of all servers, a server, a key of it."""

    text: str
    value: dict[str, object]

    def find(self, path: Sequence[str]) -> tuple[Any, int] | None:
        """Return the value at ``path`` and the first line that names its last key, None if it is missing."""
        value: Any = self.value
        for key in path:
            if not isinstance(value, dict):
                raise Malformed(self.text, 0, f"expected a table that holds {key!r}")
            if key not in value:
                return None
            value = value[key]
        lines = enumerate(self.text.splitlines(), 1)
        return value, next((number for number, line in lines if path[-1] in line), 1)

    def put(self, path: Sequence[str], value: object) -> "TomlDocument":
        """Return the document with ``value`` at ``path``; a missing table of servers is created."""
        document = tomlkit.parse(self.text)
        servers, *way, last = path
        if servers not in document:
            document[servers] = tomlkit.table(is_super_table=True)
        table: Any = document[servers]
        for key in way:
            table = table[key]
        try:
            table[last] = make_spaced_table(value) if isinstance(value, dict) else value
            return self.check(document.as_string(), set_value({servers: {}, **self.value}, path, value))
        except (ValueError, RuntimeError) as problem:  # tomlkit takes no table into one of a single line
            raise Malformed(
                self.text, 0, f"expected [{servers}.NAME] tables, none written in one line"
            ) from problem

    def remove(self, path: Sequence[str]) -> "TomlDocument":
        """Return the document without the value at ``path``, which must exist."""
        document = tomlkit.parse(self.text)
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        wanted = delete_value(self.value, path)
        if not wanted[path[0]]:
            del wanted[path[0]]
            del document[path[0]]
        return self.check(document.as_string(), wanted)

    def check(self, edited: str, wanted: Mapping[str, object]) -> "TomlDocument":
        ending = "\n\n" if self.text.endswith("\n\n") else "\n"
        edited = edited.rstrip() + ending if edited.strip() else ""
        if "\r\n" in self.text:
            edited = edited.replace("\r\n", "\n").replace("\n", "\r\n")
        after = parse(edited)
        check_value(after.value, wanted)
        return after


def parse(text: str) -> TomlDocument:
    """Parse ``text``. Raises :class:`Malformed` with the line of the first error."""
    try:
        return TomlDocument(text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as problem:
        said, _, place = str(problem).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        before = text.splitlines(keepends=True)[: int(line[1]) - 1 if line else None]
        raise Malformed(text, sum(map(len, before)), said[:1].lower() + said[1:]) from problem


def make_spaced_table(value: dict[str, object]) -> Table:
    """Return ``value`` as a table with an empty line after it."""
    table = tomlkit.table()
    table.update(value)
    return table.add(tomlkit.nl())
