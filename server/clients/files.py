"""Change the server's own entry in the configuration file of an MCP client: every other byte stays, after a backup, atomically."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leanrag_engine.core.errors import InvalidInput, NotFound
from leanrag_engine.core.runtime.replacement import replace_file

from . import jsonc
from .places import Client

if TYPE_CHECKING:
    from leanrag_engine.core.model import JsonObject

    from .toml import TomlDocument


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one file. ``before`` and ``after`` are whole texts; ``backs_up``: a backup of the first is made;
    ``deletes``: the file goes, since nothing is left; backups in ``equal`` are needed no longer and go."""

    file: Path
    before: str
    after: str
    backs_up: bool
    deletes: bool = False
    equal: tuple[Path, ...] = ()

    @property
    def changes(self) -> bool:
        return self.before != self.after


ConfigText: TypeAlias = "jsonc.JsonDocument | TomlDocument"
"""A parsed configuration, whose edits keep every byte of the rest."""


def plan_install(client: Client, file: Path, name: str, entry: JsonObject) -> ConfigChange:
    """Plan to write ``entry`` under ``name``. What a user added to an older entry, such as ``env``, stays."""
    before, document, backs_up = read_config(client, file)
    with explain_syntax(client, file):
        present = document.find([client.servers, name])
        if present is None:
            document = document.put([client.servers, name], dict(entry))
        else:
            refuse_foreign(present, name, file)
            held = document
            for key, value in entry.items():
                if present[0].get(key) != value:
                    document = document.put([client.servers, name, key], value)
            # A backup that has the same but for our entry suffices.
            backs_up = document.text != before and not find_alike(client, file, name, held)
    return ConfigChange(file, before, document.text, backs_up)


def plan_uninstall(client: Client, file: Path, name: str) -> ConfigChange:
    """Plan to remove the server called ``name``. Raises :class:`NotFound` if there is none."""
    before, document, _ = read_config(client, file)
    with explain_syntax(client, file):
        present = document.find([client.servers, name])
        if present is None:
            raise NotFound(f"{file} has no server called {name!r}.", list_servers(document.value, client))
        refuse_foreign(present, name, file)
        alike = find_alike(client, file, name, document)
        document = document.remove([client.servers, name])
    # The file as it was before an install, to the byte.
    originals = [text for text, has_ours in alike.values() if not has_ours]
    deletes = not originals and not strip_layout(client, document.text)
    if not (originals or deletes):
        return ConfigChange(file, before, document.text, backs_up=True)
    after = originals[-1] if originals else document.text
    return ConfigChange(file, before, after, backs_up=False, deletes=deletes, equal=tuple(alike))


def find_alike(client: Client, file: Path, name: str, document: ConfigText) -> dict[Path, tuple[str, bool]]:
    """Return the backups of ``file`` that differ from ``document`` in no more than our server ``name``: text, and whether it has that."""
    rest = document.remove([client.servers, name])
    # The file may have been without any servers before.
    left = [rest, rest.remove([client.servers])] if rest.value.get(client.servers) == {} else [rest]
    found = {}
    for backup in list_backups(file.resolve()):
        with suppress(UnicodeDecodeError, jsonc.Malformed):
            text = backup.read_bytes().decode("utf-8")
            document = parse_config(client, text)
            present = document.find([client.servers, name])
            if has_ours := bool(present and is_ours(present[0])):
                document = document.remove([client.servers, name])
            bare = strip_layout(client, document.text)
            alike = [each for each in left if strip_layout(client, each.text) == bare]
            if alike and (not bare or document.value in [each.value for each in alike]):
                found[backup] = text, has_ours
    return found


def strip_layout(client: Client, text: str) -> str:
    """Return a configuration without white space; "" if it has no server, setting or comment."""
    bare = "".join(text.split())
    return "" if bare in ("{}", f'{{"{client.servers}":{{}}}}') else bare


def list_backups(file: Path) -> list[Path]:
    """Return the numbered backups of a file."""
    numbered = re.compile(rf"{re.escape(file.name)}\.bak\d+")
    return [each for each in sorted(file.parent.iterdir()) if numbered.fullmatch(each.name)]


def find_installed_command(client: Client, file: Path, name: str) -> list[str]:
    """Return the program and arguments of the server called ``name``, empty without one."""
    _, document, _ = read_config(client, file)
    with explain_syntax(client, file):
        present = document.find([client.servers, name])
    return command_words(present[0]) if present else []


def command_words(entry: object) -> list[str]:
    """Return the program and arguments of an entry, whichever client's form it has."""
    values = entry if isinstance(entry, dict) else {}
    command = values.get("command") or []
    words = [*(command if isinstance(command, list) else [command]), *(values.get("args") or [])]
    return [str(word) for word in words]


def print_config(client: Client, name: str, entry: JsonObject) -> str:
    """Return a configuration that holds only this entry, as text to paste."""
    value = {client.servers: {name: dict(entry)}}
    if client.toml:
        from .toml import print_tables  # noqa: PLC0415 - one client of many needs it

        return print_tables(value)
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def list_servers(value: Mapping[str, object], client: Client) -> str:
    servers = value.get(client.servers)
    names = ", ".join(servers) if isinstance(servers, Mapping) else ""
    return f"It has: {names}." if names else "It has none."


def read_config(client: Client, file: Path) -> tuple[str, ConfigText, bool]:
    """Return the text, the parsed document and whether the file exists; a missing or blank file holds nothing."""
    try:
        before = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return "", parse_config(client, ""), False
    except UnicodeDecodeError as problem:
        raise InvalidInput(
            f"{file} is not UTF-8 text (byte {problem.start}).",
            f"{client.title} cannot read it either: save it as UTF-8. Nothing was written.",
        ) from problem
    except OSError as problem:
        raise InvalidInput(f"{file} cannot be read: {problem.strerror}.", "Nothing was written.") from problem
    with explain_syntax(client, file):
        document = parse_config(client, before)
    return before, document, True


def parse_config(client: Client, text: str) -> ConfigText:
    if client.toml:
        from . import toml  # noqa: PLC0415 - one client of many needs it

        return toml.parse(text)
    return jsonc.parse(text if text.strip() else "{}\n", comments=client.comments)


@contextmanager
def explain_syntax(client: Client, file: Path) -> Iterator[None]:
    """Raise ``InvalidInput`` in place of ``Malformed``."""
    try:
        yield
    except jsonc.Malformed as problem:
        raise InvalidInput(
            f"{file}, line {problem.line}: {problem.problem}.",
            f"Fix it first ({client.title} reads this file), or add what --print shows by hand. Nothing was written.",
        ) from problem


def is_ours(entry: object) -> bool:
    return any("leanrag" in word for word in command_words(entry))


def refuse_foreign(present: tuple[Any, int], name: str, file: Path) -> None:
    """Raise ``InvalidInput`` if the entry starts another server than this one."""
    value, line = present
    if not is_ours(value):
        raise InvalidInput(
            f"{file}, line {line}: the server {name!r} is a different one: it does not start leanrag.",
            "Choose another --name, or change that entry by hand. Nothing was written.",
        )


def apply_change(plan: ConfigChange) -> Path | None:
    """Back up the file and replace it; return the backup, if one is needed. Raises :class:`InvalidInput` if it cannot, or has changed."""
    # A symbolic link to the file, as in a dotfiles repository, stays a link, and the backup lies beside what it names.
    file = plan.file.resolve()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        now = file.read_bytes() if file.exists() else b""
        if now != plan.before.encode("utf-8"):
            raise InvalidInput(
                f"{file} was changed by another program just now.", "Run this again. Nothing was written."
            )
        backup = back_up(file, now) if plan.backs_up else None
        if plan.deletes:
            file.unlink()
        else:
            replace_file(file, plan.after.encode("utf-8"), private=True)
        for each in plan.equal:
            each.unlink()
    except OSError as problem:
        raise InvalidInput(
            f"{plan.file} cannot be written: {problem.strerror}. It is as it was.",
            "Check the room on the disk and the file's permissions, or add what --print shows by hand.",
        ) from problem
    return backup


def back_up(file: Path, content: bytes) -> Path:
    """Create a numbered backup in the same folder; an existing equal backup is used instead."""
    number = 1
    while (backup := file.with_name(f"{file.name}.bak{number}")).exists():
        if backup.read_bytes() == content:
            return backup
        number += 1
    replace_file(backup, content, private=True)
    shutil.copystat(file, backup)
    return backup
