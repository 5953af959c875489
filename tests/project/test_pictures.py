"""The README's plots show the README's figures."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"


def test_the_plots_are_those_of_the_figures_in_the_readme() -> None:
    """After a change of the tables: ``python tests/programs/plots.py .docs/figures.svg``."""
    program = runpy.run_path(str(ROOT / "tests" / "programs" / "plots.py"))
    recall, coverage = program["read_figures"]((ROOT / "README.md").read_text(encoding="utf-8"))
    assert recall["MuSiQue recall@5"].keys() == {"lca", "naive"}
    assert all(len(each) == 3 for values in coverage.values() for each in values.values())
    picture = ET.parse(ROOT / ".docs" / "figures.svg")  # noqa: S314 - made by our own program
    assert json.loads(picture.findtext(f".//{DESCRIPTION}") or "") == [recall, coverage]
