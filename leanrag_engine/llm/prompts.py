"""Reads the prompts: Markdown files of the package ``leanrag_prompts`` with ``$name`` placeholders.

A user's own folder may hold some of them: a file there takes the place of the one of its name here.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from string import Template

from leanrag_engine.core.errors import InvalidInput

_own: list[Path] = []
"""The user's folder, if there is one. One for the whole process: prompts are read from everywhere."""


def use_folder(folder: Path | None) -> None:
    """Look into ``folder`` first from now on. Raises ``InvalidInput`` if it is none, or holds a Markdown file
    that bears no prompt's name or asks for other placeholders than the prompt that it replaces."""
    _own.clear()
    if folder is None:
        return
    if not folder.is_dir():
        raise InvalidInput(f"The folder of prompts {folder} does not exist.", "Give one that does, or none.")
    for path in sorted(folder.glob("*.md")):
        _check(path)
    _own.append(folder)


def prompt(name: str, **values: str) -> str:
    """The prompt ``name`` with every placeholder filled. Raises ``KeyError`` for one without a value."""
    return Template(_text(name)).substitute(values).strip()


def _text(name: str) -> str:
    for folder in _own:
        path = folder / f"{name}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return files("leanrag_prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")


def _check(path: Path) -> None:
    ours = files("leanrag_prompts").joinpath(path.name)
    if not ours.is_file():
        raise InvalidInput(
            f"There is no prompt that {path} could replace.", "Give it the name of one, or remove it."
        )
    wanted = set(Template(ours.read_text(encoding="utf-8")).get_identifiers())
    given = Template(path.read_text(encoding="utf-8"))
    if not given.is_valid() or set(given.get_identifiers()) != wanted:
        listed = ", ".join(f"${each}" for each in sorted(wanted)) or "none"
        raise InvalidInput(
            f"The prompt {path} does not have the placeholders of the one that it replaces: {listed}.",
            "Use each of them, and write any other dollar sign twice.",
        )
