"""Reads the prompts: Markdown files of the package ``leanrag_prompts`` with ``$name`` placeholders."""

from __future__ import annotations

from importlib.resources import files
from string import Template


def prompt(name: str, **values: str) -> str:
    """The prompt ``name`` with every placeholder filled. Raises ``KeyError`` for one without a value."""
    text = files("leanrag_prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")
    return Template(text).substitute(values).strip()
