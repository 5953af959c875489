"""The entries of a list of references in BibTeX are sections with their key, title and fields, each on its line."""

import time
from pathlib import Path

from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.documents.headings import headings
from leanrag_engine.documents.loading import load

REFERENCES = """%% This file was created with BibDesk.
@string{sl = "Soil Letters"}

@article{Alder:2011,
  Author = {{Alder}, A. and
            {Baum}, B.},
  Date-Added = {2017-12-29 17:43:38 +0000},
  Adsurl = {http://x.example/a, b = c},
  Title = "{Peat} in the north",
  Bdsk-Url-1 = {http://x},
  Year = 2011}
@book{oak, title = {Oak}, year = {1999}}
@comment{jabref-meta: x}
"""


def read(folder: Path, text: str) -> LoadedDocument:
    (folder / "refs.bib").write_text(text)
    return load(DocumentSource(path=str(folder / "refs.bib")), allowed=None, max_bytes=9_000_000)


def test_each_entry_of_bibtex_is_a_section_with_its_fields(tmp_path: Path) -> None:
    found = read(tmp_path, REFERENCES)
    assert found.title == "refs"
    assert [each.title for each in headings(found.text, found.media_type)] == [
        "Alder:2011 – Peat in the north",
        "oak – Oak; title: Oak; year: 1999",
    ]
    lines = found.text.split("\n")
    assert (lines[4], lines[8], lines[10]) == (
        "author: Alder, A. and Baum, B.",
        "title: Peat in the north",
        "year: 2011",
    )
    assert found.first_line == 1
    assert not any(word in found.text for word in ("date-added", "ads", "bdsk", "{", "jabref"))


def test_bibtex_without_prose_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, "@book{oak,\n  year = {1999}}\n").text == "## oak\nyear: 1999"


def test_braces_of_bibtex_that_nothing_closes_cost_no_time(tmp_path: Path) -> None:
    text = "@book{oak, " + "x = {" * 100_000 + ", x = {{b}" * 50_000 + '@a{b, x = "' * 50_000
    assert read(tmp_path, text).text.startswith("## oak")


def test_an_entry_has_one_title_however_many_it_names(tmp_path: Path) -> None:
    started = time.process_time()
    assert read(tmp_path, "@a{k,\n" + "title={x},\n" * 250_000).text.startswith("## k – x\ntitle: x\n")
    assert time.process_time() - started < 4
