"""The plots and the README show the figures of the page of measurements."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"


def test_the_plots_and_the_readme_show_the_figures_of_the_measurements() -> None:
    """After a change of the tables: ``python tests/programs/plots.py .docs/figures.svg``."""
    program = runpy.run_path(str(ROOT / "tests" / "programs" / "plots.py"))
    recall, coverage = program["read_figures"](program["PAGE"].read_text(encoding="utf-8"))
    assert recall["MuSiQue recall@5"].keys() == {"lca", "naive"}
    assert all(len(each) == 3 for values in coverage.values() for each in values.values())
    picture = ET.parse(ROOT / ".docs" / "figures.svg")  # noqa: S314 - made by our own program
    assert json.loads(picture.findtext(f".//{DESCRIPTION}") or "") == [recall, coverage]
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Figures\n")[1].split("\n## ")[0]
    shown = [tuple(map(float, re.findall(r"\b\d+\.\d\b", row))) for row in readme.splitlines() if "|" in row]
    measured = [*[*recall.values()][:2], *coverage.values()]
    assert shown[2:] == [tuple(values[0] for values in each.values()) for each in measured]
