"""Pictures: that they are written, that they show the figures, and what is said where they cannot be."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.evaluation.retrieval import plots
from leanrag_engine.evaluation.retrieval.run import RetrievalFigures

FIGURES = RetrievalFigures(
    10, {2: 40.0, 5: 61.5, 10: 75.0}, 30.0, 0.8, {500: 50.0, 1000: 60.0}, {500: 480, 1000: 970}, 9, 20, 3
)


def test_a_picture_of_one_and_of_several_ways_is_written(tmp_path: Path) -> None:
    one, several = tmp_path / "one.png", tmp_path / "several.svg"
    plots.plot(one, "A set", [("lca", FIGURES)])
    plots.plot(several, "A set", [("lca", FIGURES), ("naive", FIGURES), ("paper", FIGURES)])
    assert one.read_bytes().startswith(b"\x89PNG")
    drawn = several.read_text(encoding="utf-8")
    for label in (
        "A set",
        "Recall",
        "61.5",
        "naive",
        "mean tokens of the context",
        "gold passages found (%)",
    ):
        assert f"<!-- {label} -->" in drawn


@pytest.mark.parametrize(
    ("name", "said"), [("plot.xyz", "cannot be written as 'plot.xyz'"), ("none/plot.png", "no folder")]
)
def test_a_picture_that_could_not_be_written_is_refused_at_once(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=said):
        plots.check_plot(tmp_path / name)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(plots, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    with pytest.raises(InvalidInput, match=r"leanrag-mcp\[plot\]"):
        plots.check_plot(tmp_path / "plot.png")
