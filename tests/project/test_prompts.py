"""Every prompt is used, and its placeholders are those that the code fills."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Template

ROOT = Path(__file__).parents[2]


@cache
def calls() -> list[tuple[str, set[str]]]:
    """Name and placeholders of every call ``prompts.fill("name", placeholder=…)`` in the code."""
    return list(find_calls())


def find_calls() -> Iterator[tuple[str, set[str]]]:
    for path in [*(ROOT / "server").rglob("*.py"), *(ROOT / "leanrag_engine").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "fill"
            ):
                (name,) = node.args
                for each in (name.body, name.orelse) if isinstance(name, ast.IfExp) else (name,):
                    assert isinstance(each, ast.Constant)
                    yield str(each.value), {keyword.arg or "" for keyword in node.keywords}


def test_every_prompt_file_is_used_and_every_used_prompt_is_there() -> None:
    assert {name for name, _ in calls()} == {path.stem for path in (ROOT / "prompts").glob("*.md")}


def test_the_placeholders_of_a_prompt_are_those_that_the_code_fills() -> None:
    for name, filled in calls():
        text = (ROOT / "prompts" / f"{name}.md").read_text(encoding="utf-8")
        assert set(Template(text).get_identifiers()) == filled
