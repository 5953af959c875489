r"""RTF is read as its words, headings and rows, and never as control words."""

from pathlib import Path

import pytest

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.documents.loading import load

LOG = rb"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0 Arial;}}{\stylesheet{\s1 heading 1;}}{\info{\author Bo}}{\header Page 1}
\pard\plain\s1\outlinelevel0\b Arrival\par
\pard\plain We landed at \'80\'e9 {\b dawn} \endash  \u8364?5 \uc0\u-10179\u-8704 , {\field{\*\fldinst HYPERLINK "x"}{\fldrslt all
 of us}}.\line It rained.\par{\pict ffd8}
\trowd\cellx1\pard\intbl Name\cell Role\cell Pay\cell\trowd\cellx1\row
\trowd\cellx1\pard\intbl Ada\cell cook\cell 4,200\cell\row
\pard {\listtext\'b7\tab}oil\par}"""


def read(folder: Path, data: bytes) -> LoadedDocument:
    (folder / "log.rtf").write_bytes(data)
    return load(DocumentSource(path=str(folder / "log.rtf")), allowed=None, max_bytes=9_000_000)


def test_rtf_is_read_as_its_words_headings_and_rows(tmp_path: Path) -> None:
    assert read(tmp_path, LOG).text == (
        "# Arrival\n\nWe landed at €é dawn – €5 😀, all of us.\nIt rained.\n\n"
        "Name | Role | Pay | \nAda | cook | 4,200 | \n· oil"
    )


def test_other_code_pages_and_unclosed_groups_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, rb"{\rtf1\ansicpg1251 \'cc\'e0\'ff{\b k").text == "Маяk"


def test_a_picture_as_bytes_and_counts_that_nobody_writes_hide_no_text(tmp_path: Path) -> None:
    for data in (
        rb"{\rtf1 before {\pict\bin4 {{\b}{\pict\bin5 \bin9} after}",
        rb"{\rtf1 before \bin900 \uc999999999\u32 and not much after}",
        rb"{\rtf1 before \uc-4\u32 after}",
        rb"{\rtf1 before " + b"{" * 100_000 + b"}" * 100_000 + b" after}",
    ):
        found = read(tmp_path, data).text
        assert found.startswith("before")
        assert found.endswith("after"), data[:60]


def test_many_rows_that_nothing_ends_cost_no_time(tmp_path: Path) -> None:
    assert read(tmp_path, rb"{\rtf1 a" + rb"\trowd x" * 200_000 + rb"\par{" * 200_000).text.startswith("a")


@pytest.mark.parametrize("data", [b"no RTF", rb"{\rtf1\ansicpg99 \'cc}"])
def test_what_is_no_rtf_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DocumentUnreadable, match="as RTF"):
        read(tmp_path, data)
