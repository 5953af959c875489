"""Plot figures: recall by depth, and coverage against tokens."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from leanrag_engine.core.errors import InvalidInput

from .run import RetrievalFigures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg", ".pdf")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
"""Okabe and Ito's palette, which colour-blind readers can distinguish; markers differ too."""

MARKERS = "osD^vPX"

INK, GRID = "#333333", "#e3e3e3"


def check_plot(path: Path) -> None:
    """Raise ``InvalidInput`` if a plot cannot be written to ``path``."""
    if find_spec("matplotlib") is None:
        raise InvalidInput(
            "A plot needs matplotlib, which is not installed.", "Install the extra 'plot': leanrag-mcp[plot]."
        )
    if path.suffix.lower() not in FORMATS:
        raise InvalidInput(
            f"A plot cannot be written as {path.name!r}.", f"Give a file that ends with {', '.join(FORMATS)}."
        )
    if not path.parent.is_dir():
        raise InvalidInput(f"There is no folder {path.parent} for the plot.", "Create it, or choose another.")


def plot(path: Path, title: str, compared: Sequence[tuple[str, RetrievalFigures]]) -> None:
    """Write one plot of the named figures to ``path``. Raises ``InvalidInput`` as :func:`check_plot`, and if
    it cannot."""
    check_plot(path)
    # An extra that takes 0.3 s to import. Not pyplot, which needs global state and a display.
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(10.5, 4.6), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2)
    _recall(left, compared)
    _coverage(right, compared)
    for axes in (left, right):
        _plain(axes)
    figure.suptitle(title, color=INK, fontsize=13, fontweight="bold")
    if len(compared) > 1:
        handles, labels = right.get_legend_handles_labels()
        columns = min(len(compared), len(COLOURS))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    try:
        figure.savefig(path)
    except OSError as problem:
        raise InvalidInput(
            f"The plot {path} cannot be written: {problem.strerror}.", "Choose another file."
        ) from problem


def _recall(axes: Axes, compared: Sequence[tuple[str, RetrievalFigures]]) -> None:
    """Draw bars in one group per depth, each with its value on top, which is smaller if there are many bars."""
    most_in_large_print = 3
    depths = list(compared[0][1].recall)
    width = 0.8 / len(compared)
    for number, (name, figures) in enumerate(compared):
        shift = (number - (len(compared) - 1) / 2) * width
        places = [group + shift for group in range(len(depths))]
        values = [figures.recall[depth] for depth in depths]
        bars = axes.bar(places, values, 0.92 * width, label=name, color=COLOURS[number % len(COLOURS)])
        axes.bar_label(
            bars, fmt="%.1f", fontsize=8 if len(compared) <= most_in_large_print else 6, color=INK, padding=2
        )
    axes.set_xticks(range(len(depths)), [f"first {depth}" for depth in depths])
    axes.set_ylim(0, 105)
    axes.set_ylabel("gold passages found (%)", color=INK)
    axes.set_title("Recall", color=INK, fontsize=11)


def _coverage(axes: Axes, compared: Sequence[tuple[str, RetrievalFigures]]) -> None:
    """Draw lines from budget to budget over the actual tokens of the contexts."""
    for number, (name, figures) in enumerate(compared):
        budgets = list(figures.coverage)
        tokens = [figures.tokens[budget] for budget in budgets]
        values = [figures.coverage[budget] for budget in budgets]
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        axes.plot(tokens, values, label=name, color=colour, marker=marker, linewidth=2, markersize=6)
        if len(compared) == 1:
            for budget, x, y in zip(budgets, tokens, values, strict=True):
                axes.annotate(
                    f"budget {budget:,}",
                    (x, y),
                    (0, -14),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                    color=INK,
                )
    axes.set_ylim(0, 105)
    axes.set_xlim(left=0)
    axes.margins(x=0.08)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("mean tokens of the context", color=INK)
    axes.set_ylabel("gold passages in the context (%)", color=INK)
    asked = ", ".join(f"{budget:,}" for budget in compared[0][1].coverage)
    axes.set_title(f"Coverage at budgets of {asked} tokens", color=INK, fontsize=11)


def _plain(axes: Axes) -> None:
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
