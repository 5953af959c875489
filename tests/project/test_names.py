"""Names: one meaning for each class name in the whole repository, and verbs for functions."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def places() -> Any:
    """What the program that counts figures of the structure finds, by figure."""
    path = ROOT / "tests" / "programs" / "structure.py"
    spec = spec_from_file_location("leanrag_tests_structure", path)
    assert spec
    assert spec.loader
    structure = module_from_spec(spec)
    sys.modules[spec.name] = structure
    spec.loader.exec_module(structure)
    return structure.figures(ROOT)[1]


JOINTS = {"as", "at", "by", "for", "from", "in", "of", "on", "to", "with"}
"""Words that leave a participle before them without a noun: ``published_in``."""


def is_bare(name: str) -> bool:
    """Whether a name that begins with a participle has no noun: ``joined``, ``shown_by``, but not ``cited_sources``."""
    _, *rest = name.split("_")
    return not rest or rest[0] in JOINTS


def test_a_class_name_has_one_meaning(places: dict[str, list[str]]) -> None:
    """Private classes included, their leading underscore left out."""
    assert not places["classes"]


def test_no_function_is_named_by_a_bare_participle(places: dict[str, list[str]]) -> None:
    """``join`` instead of ``joined``, also for private and nested functions; a noun phrase may begin with one."""
    names = {each.rpartition(" ")[2].strip("_") for each in places["participles"]}
    assert not {each for each in names if is_bare(each)}
