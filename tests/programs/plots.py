"""Plot the figures of the page of measurements: ``python tests/programs/plots.py .docs/figures.svg`` (needs matplotlib).

The figures are read from the tables of ``.docs/measurements.md`` and kept in the picture's description, by which a test sees whether it is
up to date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / ".docs" / "measurements.md"

Figures = dict[str, dict[str, list[float]]]
"""The numbers of each cell, by the names of its column and its row."""

COLOURS = ("#0072b2", "#d55e00", "#009e73")
"""Okabe and Ito's palette, which people with any colour vision tell apart; markers differ too."""


def read_figures(text: str) -> tuple[Figures, Figures]:
    """Return the figures of the first two tables below "Measurements": recall, and coverage by tokens."""
    section = text.split("\n## Measurements\n")[1].split("\n## ", maxsplit=1)[0]
    recall, coverage = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[:2]
    return _read_table(recall), _read_table(coverage)


def _read_table(table: str) -> Figures:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    head, _, *body = rows
    return {
        column: {_shorten(row[0]): [float(each) for each in row[place].split("/")] for row in body}
        for place, column in enumerate(head)
        if place
    }


def _shorten(name: str) -> str:
    return re.split(r"[,:]", name.replace("`", ""))[0]


def draw(path: Path, recall: Figures, coverage: Figures) -> None:
    """Write both plots as one picture."""
    from matplotlib import rc_context  # noqa: PLC0415 - reading the figures does without
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "leanrag", "font.size": 9}):
        figure = Figure(figsize=(9.6, 3.2), layout="constrained")
        axes = figure.subplots(1, 1 + len(coverage), sharey=True, width_ratios=[1.3, *[1] * len(coverage)])
        sets = [name for name, values in recall.items() if all(len(each) == 1 for each in values.values())]
        ways = list(recall[sets[0]])
        for number, way in enumerate(ways):
            places = [place + number * 0.4 for place in range(len(sets))]
            bars = axes[0].bar(
                places, [recall[name][way][0] for name in sets], 0.36, color=COLOURS[number], label=way
            )
            axes[0].bar_label(bars, fmt="%.1f", fontsize=8)
        axes[0].set_xticks(
            [place + 0.2 for place in range(len(sets))], [name.replace(" ", "\n") for name in sets]
        )
        axes[0].set_title("recall@5, percent")
        for each, (name, values) in zip(axes[1:], coverage.items(), strict=True):
            for number, (way, points) in enumerate(values.items()):
                each.plot([1000, 2000, 4000], points, "osD"[number] + "-", color=COLOURS[number], label=way)
            each.set_title(f"facts found: {name}", fontsize=9)
            each.set_xlabel("tokens of context")
            each.set_xticks([1000, 2000, 4000], ["1,000", "2,000", "4,000"])
        for each in axes:
            each.set_ylim(0, 100)
            each.spines[["top", "right"]].set_visible(False)
            each.grid(axis="y", color="#e3e3e3")
            each.set_axisbelow(True)
        axes[-1].legend(loc="lower right", frameon=False)
        figure.savefig(path, metadata={"Description": json.dumps([recall, coverage]), "Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), *read_figures(PAGE.read_text(encoding="utf-8")))
