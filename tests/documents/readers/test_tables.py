"""Tables of every kind are read as records: each row names its columns and its number, and stays whole."""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
from pathlib import Path

import docx
import pytest
from openpyxl import Workbook
from openpyxl.utils import get_column_letter

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import Chunk, DocumentSource, LoadedDocument
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import load
from leanrag_engine.extraction.heuristic.extract import extract


def read(folder: Path, name: str, content: str | bytes) -> LoadedDocument:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(DocumentSource(path=str(path)), allowed=[folder], max_bytes=100_000_000)


def cut(document: LoadedDocument) -> list[Chunk]:
    return chunk(document, tokenizer=TiktokenTokenizer(), max_tokens=256, overlap=32)


def word_file() -> bytes:
    document = docx.Document()
    document.add_paragraph("Table 1: The crew")
    table = document.add_table(0, 3)
    for row in (("Name", "Role", "Pay"), ("Ada Lund", "cook", "4,200"), ("Bo Moss", "mate", "300")):
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


MARKDOWN = "Table 1: The crew\n\n| Name | Role | Pay |\n|---|:-:|--:|\n| Ada Lund | cook | 4,200 |\n| Bo Moss | mate | 300 |\n"
HTML = (
    "<table><caption>The crew</caption><tr><th>Name<th>Role<th>Pay</tr><tr><td>Ada Lund<td>cook<td>4,200</tr>"
    "<tr><td>Bo Moss<td>mate<td>300</tr></table>"
)
CSV = 'Name,Role,Pay\nAda Lund,cook,"4,200"\nBo Moss,mate,300\n'


@pytest.mark.parametrize(
    ("name", "content", "first"),
    [
        ("crew.md", MARKDOWN, 1),
        ("crew.txt", MARKDOWN, 1),
        ("crew.html", HTML, 1),
        ("crew.docx", word_file(), 1),
        ("crew.csv", CSV, 2),
        ("crew.tsv", "Name\tRole\tPay\nAda Lund\tcook\t4,200\nBo Moss\tmate\t300\n", 2),
        ("semicolons.csv", "Name;Role;Pay\nAda Lund;cook;4,200\nBo Moss;mate;300\n", 2),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_a_row_of_any_table_names_its_columns_and_its_number(
    tmp_path: Path, name: str, content: str | bytes, first: int
) -> None:
    document = read(tmp_path, name, content)
    assert re.search(r"^Table[^\n]*, 2 rows: Name \| Role \| Pay$", document.text, re.MULTILINE)
    rows = [line for line in document.text.split("\n") if line.startswith("Row ")]
    assert rows == [
        f"Row {first}: Name: Ada Lund; Role: cook; Pay: 4,200",
        f"Row {first + 1}: Name: Bo Moss; Role: mate; Pay: 300",
    ]
    assert [each.heading.endswith("Name | Role | Pay") for each in cut(document)[-1].windows][-1]


@pytest.mark.parametrize(
    ("name", "content"), [("crew.md", MARKDOWN), ("crew.html", HTML), ("crew.docx", word_file())]
)
def test_the_caption_of_a_table_heads_its_rows(tmp_path: Path, name: str, content: str | bytes) -> None:
    windows = [each for part in cut(read(tmp_path, name, content)) for each in part.windows]
    assert "The crew, 2 rows" in windows[-1].heading


@pytest.mark.parametrize("titles", [1, 2, 5])
def test_lines_of_one_cell_above_a_sheet_leave_its_names_of_columns(tmp_path: Path, titles: int) -> None:
    book = Workbook()
    sheet = book.worksheets[0]
    for number in range(titles):
        sheet.append([f"Title {number}"])
        sheet.append([])
    for row in (["Name", "Role", "Pay"], ["Ada Lund", "cook", 4200], ["Bo Moss", "mate", 300]):
        sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    text = read(tmp_path, "crew.xlsx", file.getvalue()).text
    assert text.startswith("".join(f"Title {number}\n\n" for number in range(titles)) + "Table ")
    assert f"\nRow {2 * titles + 2}: Name: Ada Lund; Role: cook; Pay: 4200" in text


def test_a_row_of_a_csv_file_is_cited_by_the_line_on_which_it_begins(tmp_path: Path) -> None:
    content = 'Name,Notes\n\nAda,"one\ntwo, and ""three"""\nBo,\n,\nCy,last\n'
    document = read(tmp_path, "notes.csv", content)
    (only,) = cut(document)
    for name, line in (("Ada", 3), ("Bo", 5), ("Cy", 7)):
        assert only.line_at(document.text.index(f"Name: {name}")) == line
    assert 'Notes: one two, and "three"' in document.text


def test_a_quotation_mark_that_nothing_closes_hides_no_row(tmp_path: Path) -> None:
    rows = "".join(f"{number},row{number}\n" for number in range(300))
    text = read(tmp_path, "torn.csv", f'Id,Text\nx,"open\n{rows}').text
    assert text.count("\nRow ") == 301
    assert "Id: 299; Text: row299" in text


def test_a_large_table_begins_with_what_its_columns_hold(tmp_path: Path) -> None:
    rows = "".join(
        f"p{number},{'cook' if number % 3 else 'mate'},{number * 10},2024-01-{number % 28 + 1:02d}\n"
        for number in range(300)
    )
    document = read(tmp_path, "crew.csv", f"Id,Role,Pay,Since\n{rows}")
    chunks = cut(document)
    first = chunks[0].quote(chunks[0].windows[0])
    assert first == (
        "Columns: Id: 300 different texts, such as p0, p1, p2; Role: most often cook (200), mate (100); "
        "Pay: numbers from 0 to 2990; Since: dates from 2024-01-01 to 2024-01-28"
    )
    assert chunks[0].windows[0].heading == "Table, 300 rows: Id | Role | Pay | Since"
    quoted = [
        line
        for part in chunks
        for each in part.windows
        for line in part.quote(each).split("\n")
        if "Row" in line
    ]
    assert quoted == [line for line in document.text.split("\n") if line.startswith("Row")]


def test_names_in_a_small_table_are_entities_and_those_of_a_large_one_are_not(tmp_path: Path) -> None:
    def names(rows: int) -> set[str]:
        content = "Name,Role\n" + "".join(
            f"Ada Lund{'abcdefgh'[number % 8]},cook\n" for number in range(rows)
        )
        document = read(tmp_path, f"{rows}.csv", content)
        return {entity.name for each in extract(cut(document), document.title) for entity in each.entities}

    assert {f"Ada Lund{letter}" for letter in "abcdefgh"} <= names(20)
    assert not any("Ada" in name for name in names(2_000))


def test_what_only_looks_like_a_table_stays_as_it_is(tmp_path: Path) -> None:
    text = "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```\n\na | b\n\nLine\n----\n\n| a | b |\n|---|---|\n"
    assert read(tmp_path, "x.md", text).text == text
    pairs = "<table><tr><td>Born</td><td>in Oslo</td></tr><tr><td>Died</td><td>in Graz</td></tr></table>"
    assert read(tmp_path, "x.html", pairs).text == "| Born | in Oslo |\n| Died | in Graz |"


# --- what a workbook says of itself --------------------------------------------------------


def with_dimension(content: bytes, dimension: str) -> bytes:
    made = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as before,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for part in before.namelist():
            data = before.read(part)
            if part == "xl/worksheets/sheet1.xml":
                data = re.sub(rb'<dimension ref="[^"]*"', f'<dimension ref="{dimension}"'.encode(), data)
                assert f'"{dimension}"'.encode() in data
            after.writestr(part, data)
    return made.getvalue()


def workbook(cells: dict[str, str]) -> bytes:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for place, value in cells.items():
        sheet[place] = value
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_rows_beyond_the_size_that_a_workbook_states_are_read(tmp_path: Path) -> None:
    content = workbook(
        {"A1": "Name", "B1": "Role"}
        | {f"{column}{row}": f"{column.lower()}{row}" for row in range(2, 52) for column in "AB"}
    )
    text = read(tmp_path, "x.xlsx", with_dimension(content, "A1")).text
    assert [line for line in text.split("\n") if line.startswith("Row")] == [
        f"Row {row}: Name: a{row}; Role: b{row}" for row in range(2, 52)
    ]


def test_a_sheet_of_two_far_cells_is_read_for_what_it_holds(tmp_path: Path) -> None:
    content = workbook({"A1": "here", "XFD1048576": "far away"})
    text = read(tmp_path, "x.xlsx", content).text
    assert text == "Table Sheet, 2 rows\nRow 1: here\nRow 1048576: XFD: far away"


def test_a_sheet_whose_rows_reach_to_the_last_column_is_refused_before_it_fills_the_memory(
    tmp_path: Path,
) -> None:
    far = workbook({"A1": "here"} | {f"XFD{row}": "far" for row in range(1, 700)})
    with pytest.raises(DocumentUnreadable, match="more than 10,000,000 cells"):
        read(tmp_path, "x.xlsx", far)


def test_cells_merged_downwards_cost_no_time_in_rows_that_do_not_reach_them(tmp_path: Path) -> None:
    columns = [get_column_letter(column) for column in range(2, 9_000)]
    rows = workbook({"MHA1": "far"} | {f"A{row}": "lamp" for row in range(2, 30_000)})
    merged = "".join(f'<mergeCell ref="{column}1:{column}1000000"/>' for column in columns)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(rows)) as before, zipfile.ZipFile(made, "w") as after:
        for part in before.namelist():
            after.writestr(part, before.read(part).replace(b"</sheetData>", f"</sheetData>{merged}".encode()))
    started = time.process_time()
    assert "Row 29999: lamp" in read(tmp_path, "x.xlsx", made.getvalue()).text
    assert time.process_time() - started < 4


def test_a_semicolon_in_a_cell_is_a_comma_so_that_one_divides_cells_alone(tmp_path: Path) -> None:
    found = read(tmp_path, "roster.csv", "date,early,late\n2024-01-08,Amsel; Priestley,Doro; Kwame\n")
    assert found.text.endswith("Row 2: date: 2024-01-08; early: Amsel, Priestley; late: Doro, Kwame")


def objects(count: int = 6) -> list[dict[str, object]]:
    return [
        {"sku": f"F{n}", "price": n + 0.5, "to": {"city": "Gent"}, "tags": ["a", "b"], "note": None}
        for n in range(1, count + 1)
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("stock.json", json.dumps(objects(), indent=1)),
        ("stock.json", json.dumps({"total": 6, "items": objects()}, indent=1)),
        ("stock.json", json.dumps(objects())),
        ("stock.jsonl", "\n".join(map(json.dumps, objects()))),
        ("stock.ndjson", "\n".join(map(json.dumps, objects()))),
    ],
)
def test_a_list_of_alike_objects_in_json_is_a_table(name: str, content: str, tmp_path: Path) -> None:
    document = read(tmp_path, name, content)
    assert "Table, 6 rows: sku | price | to.city | tags" in document.text
    row = "Row 2: sku: F2; price: 2.5; to.city: Gent; tags: a, b"
    assert document.text.count(row) == 1
    assert ("total" in document.text) == ("total" in content)
    (found,) = [each for each in cut(document) if row in each.text]
    lines = content.split("\n")
    own = next(
        number for number, line in enumerate(lines) if '"F2"' in line
    )  # the line before is that of the object's brace
    apart = len(lines) > 6
    assert found.line_at(found.start + found.text.index(row)) == (own if apart else None)


def test_names_in_objects_are_kept_to_their_last_sign(tmp_path: Path) -> None:
    content = [{"No.": n, "No": 10 * n, "of": {"": n}} for n in range(1, 6)]
    assert "Row 2: No.: 2; No: 20; of.: 2" in read(tmp_path, "a.json", json.dumps(content)).text


@pytest.mark.parametrize(
    "content",
    [
        objects(4),
        [{"title": f"Note {n}", "text": "All that was said on that day. " * 20} for n in range(9)],
        [{f"key {n}": n} for n in range(9)],
        [{"id": n, "parts": [{"x": 1}]} for n in range(9)],
        {"name": "shop", "text": "What it is. " * 50, "items": objects(5)},
    ],
)
def test_json_of_another_kind_stays_as_it_is(content: object, tmp_path: Path) -> None:
    assert read(tmp_path, "a.json", json.dumps(content, indent=1)).text.startswith(("[\n", "{\n"))
