"""Notebooks have the title that their headings give them, and what code printed stays with it."""

import json
from pathlib import Path

import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.headings import headings
from leanrag_engine.documents.loading import load


def read(tmp_path: Path, *cells: dict[str, object]) -> LoadedDocument:
    (tmp_path / "week-1.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))
    return load(DocumentSource(path=str(tmp_path / "week-1.ipynb")), allowed=None, max_bytes=1_000_000)


def test_a_title_within_tags_below_a_line_above_it_is_that_of_the_notebook(tmp_path: Path) -> None:
    top = "<center>\n<h4>CDS 110, Lecture 1</h4>\n<font color=blue><h1>Control of a <i>Servo</i></h1></font>\n<h3>R. Murray</h3>\n</center>\n\nWe show a servo."
    found = read(tmp_path, {"cell_type": "markdown", "source": top})
    assert found.title == "Control of a Servo"
    assert [(each.level, each.title) for each in headings(found.text, found.media_type)] == [
        (4, "CDS 110, Lecture 1"),
        (1, "Control of a Servo"),
        (3, "R. Murray"),
    ]


@pytest.mark.parametrize("above", ["### Aims\n\nWe light lamps.", "### Aims\n\n#### Oil"])
def test_a_title_below_the_heading_of_a_part_is_not_that_of_the_notebook(above: str, tmp_path: Path) -> None:
    found = read(tmp_path, {"cell_type": "markdown", "source": f"{above}\n\n# Lamps\n\nLit at six."})
    assert found.title == "week-1"


def test_what_code_printed_stays_with_its_end(tmp_path: Path) -> None:
    printed = [{"output_type": "stream", "text": "acceptance is 0.55\n"}]
    lines = "\n".join(f"value_{line} = compute({line})" for line in range(10))
    cells = [{"cell_type": "code", "source": lines, "outputs": printed} for _ in range(9)]
    found = read(tmp_path, *cells)
    parts = [part.text for part in chunk(found, tokenizer=TiktokenTokenizer(), max_tokens=256, overlap=0)]
    assert found.text.count("compute(9)\n```\n```text\nacceptance is 0.55\n```") == 9
    assert all(part.count("compute(9)") == part.count("acceptance") for part in parts)
