"""Read Jupyter notebooks: text as it is, code in fences, and what the code printed."""

import json
from collections.abc import Iterator
from typing import Any

from leanrag_engine.core.text.cleaning import clean, fence_for
from leanrag_engine.documents.decoding import decode
from leanrag_engine.documents.records import write_records

from .reading import Reading, first_heading, reading_as


def read_notebook(data: bytes, name: str) -> Reading:
    """Read a notebook of format 4. Raises :class:`DocumentUnreadable` if it is damaged or of another kind."""
    raw, note = decode(data, name)
    with reading_as("a notebook", name):
        notebook = json.loads(raw)
        language = notebook.get("metadata", {}).get("language_info", {}).get("name", "python")
        blocks = [block for cell in notebook["cells"] for block in _read_cell(cell, language)]
    text = write_records(clean("\n\n".join(blocks)))
    return Reading(text, first_heading(text, "text/markdown"), metadata=note)


def _read_cell(cell: Any, language: str) -> Iterator[str]:
    source = _join(cell["source"]).strip("\n")
    if cell["cell_type"] != "code":
        yield source
        return
    code = _fence(source, language) if source else ""
    printed = "\n".join(filter(None, map(_read_output, cell.get("outputs", [])))).strip("\n")
    most_characters = 4_000  # more is data rather than text
    if len(printed) > most_characters:
        printed = f"{printed[:most_characters]}\n[…]"
    output = _fence(printed, "text") if printed else ""
    short = 400  # What is no longer stays with the end of its code
    yield from filter(None, [f"{code}\n{output}".strip()] if len(printed) <= short else [code, output])


def _read_output(output: Any) -> str:
    """Return what a cell printed or returned as text; errors by their last line, images not at all."""
    if output["output_type"] == "stream":
        return _join(output["text"])
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"
    shown = output.get("data", {})
    return _join(shown.get("text/markdown") or shown.get("text/plain", ""))


def _join(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


def _fence(text: str, language: str) -> str:
    ticks = fence_for([text])
    return f"{ticks}{language}\n{text}\n{ticks}"
