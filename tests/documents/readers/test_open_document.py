"""Texts, sheets and slides of LibreOffice are read with headings, lists, tables and notes."""

import io
import time
import zipfile
from pathlib import Path

import pytest

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.documents.headings import headings
from leanrag_engine.documents.loading import load

NAMES = {
    **{
        each: f"urn:oasis:names:tc:opendocument:xmlns:{each}:1.0"
        for each in ("office", "text", "table", "presentation")
    },
    "draw": "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0",
    "dc": "http://purl.org/dc/elements/1.1/",
}
DECLARED = " ".join(f'xmlns:{key}="{value}"' for key, value in NAMES.items())
META = f"<office:document-meta {DECLARED}><office:meta><dc:title>The Rock</dc:title><dc:date>2024-05-06T10:00:00</dc:date></office:meta></office:document-meta>"


MANY_CELLS = '<table:table-cell table:number-columns-repeated="1000"><text:p>x</text:p></table:table-cell>'


def pack(kind: str, body: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        content = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
        archive.writestr(
            "content.xml", f"<office:document-content {DECLARED}>{content}</office:document-content>"
        )
        archive.writestr("meta.xml", META)
    return buffer.getvalue()


def read(folder: Path, name: str, data: bytes) -> LoadedDocument:
    (folder / name).write_bytes(data)
    return load(DocumentSource(path=str(folder / name)), allowed=None, max_bytes=9_000_000)


def cells(*texts: str, more: str = "") -> str:
    found = "".join(f"<table:table-cell><text:p>{each}</text:p></table:table-cell>" for each in texts)
    return f"<table:table-row>{found}{more}</table:table-row>"


CREW = cells("Name", "Role", "Pay") + cells("Ada", "cook", "4,200") + cells("Bo", "mate", "300")
TEXT = (
    "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
    '<text:h text:outline-level="1">Arrival</text:h>'
    '<text:p>We<text:s text:c="3"/>landed<text:tab/>at<text:line-break/>dawn<text:note><text:note-citation>1</text:note-citation>'
    "<text:note-body><text:p>In fog.</text:p></text:note-body></text:note>, all of us.</text:p>"
    '<text:h text:outline-level="2">Stores</text:h><text:list><text:list-item><text:p>oil</text:p><text:list><text:list-item>'
    "<text:p>whale</text:p></text:list-item></text:list></text:list-item><text:list-item><text:p>rope</text:p></text:list-item></text:list>"
    f'<table:table table:name="T1">{CREW}</table:table><text:p>The end.</text:p>'
)


def test_a_text_of_libreoffice_is_read_with_its_headings_lists_notes_and_tables(tmp_path: Path) -> None:
    found = read(tmp_path, "log.odt", pack("text", TEXT))
    assert (found.title, found.date) == ("The Rock", "2024-05-06")
    assert found.text == (
        "# Arrival\n\nWe landed at\ndawn (In fog.), all of us.\n\n## Stores\n\n- oil\n  - whale\n- rope\n\n"
        "Table, 2 rows: Name | Role | Pay\nRow 1: Name: Ada; Role: cook; Pay: 4,200\nRow 2: Name: Bo; Role: mate; Pay: 300\n\nThe end."
    )
    assert [each.title for each in headings(found.text, found.media_type)][:2] == ["Arrival", "Stores"]


def test_the_sheets_of_a_workbook_of_libreoffice_are_records_and_repeated_cells_have_a_bound(
    tmp_path: Path,
) -> None:
    date = (
        '<table:table-cell office:date-value="2021-05-01T00:00:00"><text:p>1.5.21</text:p></table:table-cell>'
    )
    twice = '<table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell>'
    empty = '<table:table-row table:number-rows-repeated="999999999"><table:table-cell table:number-columns-repeated="999999999"/></table:table-row>'
    gap = '<table:table-row table:number-rows-repeated="2"><table:table-cell/></table:table-row>'
    rows = cells("Name", "Role", "Code", more="<table:covered-table-cell/>") + cells("Ada", more=twice) + gap
    sheets = f'<table:table table:name="Crew">{rows}{cells("Bo", "mate", more=date)}{empty}</table:table>'
    sheets += f'<table:table table:name="Ships">{CREW}</table:table>'
    assert read(tmp_path, "crew.ods", pack("spreadsheet", sheets)).text == (
        "Table Crew, 2 rows: Name | Role | Code\nRow 2: Name: Ada; Role: x; Code: x\nRow 5: Name: Bo; Role: mate; Code: 2021-05-01\n\n"
        "Table Ships, 2 rows: Name | Role | Pay\nRow 2: Name: Ada; Role: cook; Pay: 4,200\nRow 3: Name: Bo; Role: mate; Pay: 300"
    )


def test_a_row_that_repeats_without_end_is_read_often_and_the_rest_is_told(tmp_path: Path) -> None:
    row = cells("Bo", "mate", "1").replace(
        "<table:table-row>", '<table:table-row table:number-rows-repeated="5000">'
    )
    sheet = f'<table:table table:name="Crew">{cells("Name", "Role", "Pay")}{row}</table:table>'
    text = read(tmp_path, "crew.ods", pack("spreadsheet", sheet)).text
    assert text.count("Role: mate") == 1000
    assert "(the row above 4,000 more times)" in text


@pytest.mark.parametrize(
    "rows",
    [
        f'<table:table-row table:number-rows-repeated="1000">{MANY_CELLS * 20}</table:table-row>' * 20,
        '<table:table-row table:number-rows-repeated="1048576"><table:table-cell/></table:table-row>' * 2_000,
    ],
)
def test_a_sheet_that_repeats_more_cells_than_any_holds_is_refused_soon(tmp_path: Path, rows: str) -> None:
    started = time.process_time()
    with pytest.raises(DocumentUnreadable, match="repeats more than 10,000,000 cells"):
        read(tmp_path, "a.ods", pack("spreadsheet", f'<table:table table:name="A">{rows}</table:table>'))
    assert time.process_time() - started < 8


def test_slides_of_libreoffice_are_sections_with_their_notes(tmp_path: Path) -> None:
    slide = (
        '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Storm</text:p></draw:text-box></draw:frame>'
        "<draw:frame><draw:text-box><text:list><text:list-item><text:p>The lamp went out.</text:p></text:list-item></text:list></draw:text-box></draw:frame>"
        "<presentation:notes><draw:frame><draw:text-box><text:p>Say it twice.</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>"
    )
    found = read(tmp_path, "talk.odp", pack("presentation", slide + slide.replace("Storm", "Calm")))
    empty = "<presentation:notes><draw:frame/></presentation:notes>"
    assert (
        read(tmp_path, "empty.odp", pack("presentation", f"<draw:page>{empty}</draw:page>{slide}")).text[:7]
        == "# Storm"
    )
    assert found.text.startswith("# Storm\n\n- The lamp went out.\n\nNotes:\n\nSay it twice.\n\n# Calm")


@pytest.mark.parametrize("name", ["a.odt", "a.ods", "a.odp"])
def test_a_damaged_file_of_libreoffice_or_one_made_to_fill_the_memory_is_refused(
    tmp_path: Path, name: str
) -> None:
    for data in (b"no archive", pack("text", "x" * 120_000_000), pack("text", "<text:p>")):
        with pytest.raises(DocumentUnreadable, match=r"damaged|unpacks from"):
            read(tmp_path, name, data)
