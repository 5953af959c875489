"""Spreadsheets, slides, e-books, mail and notebooks: what is read of each, and what a damaged file is answered with."""

from __future__ import annotations

import json
import re
import struct
import time
import zipfile
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from io import BytesIO
from pathlib import Path
from typing import Any

import docx
import pytest
from openpyxl import Workbook
from openpyxl.comments import Comment
from openpyxl.worksheet.worksheet import Worksheet
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import DocumentSource, LoadedDocument, Page, is_code
from leanrag_engine.documents import formats, readers
from leanrag_engine.documents.headings import headings
from leanrag_engine.documents.loading import expand, load


def read(folder: Path, name: str, content: bytes) -> LoadedDocument:
    path = folder / name
    path.write_bytes(content)
    return load(DocumentSource(path=str(path)), allowed=None, max_bytes=10_000_000)


def zipped(**parts: str) -> bytes:
    """Return an archive of parts, "__" in a name standing for a slash and "_" for a dot."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), content)
    return buffer.getvalue()


# --- spreadsheets --------------------------------------------------------------------------


def workbook() -> bytes:
    book = Workbook()
    book.properties.title = "Crew list"
    book.properties.modified = datetime(2025, 3, 4, tzinfo=UTC).replace(tzinfo=None)
    crew = book.active
    assert crew is not None
    crew.title = "Crew"
    for row in (
        ("Name", "Joined", "Pay"),
        ("Ines | Mara", datetime(2021, 5, 1), 1200.0),  # noqa: DTZ001 - spreadsheets know no time zone
        (None, None, None),
        ("Tom", datetime(2022, 1, 2, 9, 30, 15), 0.5),  # noqa: DTZ001
    ):
        crew.append(row)
    numbers = book.create_sheet("Tides")
    numbers.append((1, 2))
    numbers.append((3, 4))
    book.create_sheet("Empty")
    buffer = BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_each_sheet_is_a_table_whose_rows_name_their_columns(tmp_path: Path) -> None:
    found = read(tmp_path, "crew.xlsx", workbook())
    assert found.text == (
        "Table Crew, 2 rows: Name | Joined | Pay\nRow 2: Name: Ines | Mara; Joined: 2021-05-01; Pay: 1200\n"
        "Row 4: Name: Tom; Joined: 2022-01-02 09:30:15; Pay: 0.5\n\nTable Tides, 2 rows\nRow 1: 1; 2\nRow 2: 3; 4"
    )
    assert found.title == "Crew list"


LONG = "What is to be done when the lamp goes out and no oil is left in the tower at night of case 4471?"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", f"{LONG},Ring the bell.\nWho pays?,The treasurer.\n"),
        ("a.md", f"| {LONG} | b |\n|---|---|\n| 1 | 2 |\n"),
        ("a.html", f"<table><tr><th>{LONG}<th>b</tr><tr><td>1<td>2</tr></table>"),
    ],
)
def test_a_long_cell_of_the_first_row_is_not_cut(tmp_path: Path, name: str, text: str) -> None:
    assert LONG in read(tmp_path, name, text.encode()).text


def new_book() -> tuple[Workbook, Worksheet]:
    book = Workbook()
    assert isinstance(book.active, Worksheet)
    return book, book.active


def save(book: Workbook) -> BytesIO:
    stream = BytesIO()
    book.save(stream)
    return stream


@pytest.mark.parametrize("down", [True, False])
def test_two_rows_of_names_of_which_the_upper_is_merged_are_those_of_the_columns(
    tmp_path: Path, *, down: bool
) -> None:
    book, sheet = new_book()
    sheet.append(("Hours of 2025",))
    sheet.append(("Person", "Jan", None, "Feb", None, None))
    sheet.append((None, "plan", "actual", "plan", "actual", "late"))
    sheet.append(("Ines", 1, 2, None, 4, 5))
    sheet.append(("Tom", 6, 7, 8, 9, 0))
    for place in ("A1:F1", "B2:C2", "D2:F2", *(["A2:A3"] * down)):
        sheet.merge_cells(place)
    text = read(tmp_path, "hours.xlsx", save(book).getvalue()).text
    assert "2 rows: Person | Jan plan | Jan actual | Feb plan | Feb actual | Feb late\n" in text
    assert "Row 4: Person: Ines; Jan plan: 1; Jan actual: 2; Feb actual: 4; Feb late: 5" in text
    assert text.startswith("Hours of 2025\n")


def test_data_below_one_row_of_names_with_merged_cells_stays_data_and_keeps_its_places(
    tmp_path: Path,
) -> None:
    book, sheet = new_book()
    for row in (("Name", None, "Town"), ("Ada", "Lund", "Oslo"), ("Bo", None, "Rome")):
        sheet.append(row)
    sheet.merge_cells("A1:B1")
    text = read(tmp_path, "crew.xlsx", save(book).getvalue()).text
    assert "Row 2: Name: Ada; Lund; Town: Oslo\nRow 3: Name: Bo; Town: Rome" in text
    book, sheet = new_book()
    for row in ((1, 2, 3), (4, None, 6)):
        sheet.append(row)
    assert "Row 2: A: 4; C: 6" in read(tmp_path, "tides.xlsx", save(book).getvalue()).text


def test_formulas_that_were_never_computed_and_merged_cells_are_read(tmp_path: Path) -> None:
    book, sheet = new_book()
    for row in (
        ("Region", "Item", "Total"),
        ("North", "lamp", "=2*21"),
        (None, "bell", 7),
        ("South", "oil", None),
    ):
        sheet.append(row)
    sheet.merge_cells("A2:A3")
    text = read(tmp_path, "stock.xlsx", save(book).getvalue()).text
    assert text.splitlines()[1:] == [
        "Row 2: Region: North; Item: lamp; Total: =2*21",
        "Row 3: Region: North; Item: bell; Total: 7",
        "Row 4: Region: South; Item: oil",
    ]


def test_percentages_and_the_comments_on_cells_are_read(tmp_path: Path) -> None:
    book, sheet = new_book()
    for row in (("Item", "Margin"), ("tea", 0.153), ("milk", 0.07), ("oil", 12.5)):
        sheet.append(row)
    sheet["B2"].number_format, sheet["B3"].number_format = "0.0%", "0%"
    sheet["B4"].number_format = '0.0"%"'  # a sign, no percentage
    sheet["A3"].comment = Comment("Ask the dairy in May.", "Ana")
    lines = read(tmp_path, "margins.xlsx", save(book).getvalue()).text.splitlines()
    assert lines[1:] == [
        "Row 2: Item: tea; Margin: 15.3%",
        "Row 3: Item: milk; Margin: 7%",
        "Row 4: Item: oil; Margin: 12.5",
        "",
        "Comment on A3: Ask the dairy in May.",
    ]


def test_rows_are_read_whatever_size_a_sheet_declares_and_however_far_apart_its_cells_are(
    tmp_path: Path,
) -> None:
    book, sheet = new_book()
    for number in range(1, 301):
        sheet.append((number, f"lamp {number}"))
    wrong = BytesIO()
    with zipfile.ZipFile(save(book)) as whole, zipfile.ZipFile(wrong, "w") as written:
        for name in whole.namelist():
            written.writestr(name, re.sub(rb'dimension ref="[^"]*"', b'dimension ref="A1"', whole.read(name)))
    assert "lamp 300" in read(tmp_path, "lamps.xlsx", wrong.getvalue()).text
    book, sheet = new_book()
    sheet["A1"], sheet["XFD1048576"] = "near", "far"
    started = time.process_time()
    text = read(tmp_path, "far.xlsx", save(book).getvalue()).text
    assert time.process_time() - started < 10
    assert "near" in text
    assert "Row 1048576" in text


def test_comments_that_cannot_be_read_are_told_and_the_cells_are_read(tmp_path: Path) -> None:
    book, sheet = new_book()
    sheet.append(("lamp", "broken"))
    sheet["A1"].comment = Comment("Ask Ana.", "Ana")
    damaged = BytesIO()
    with zipfile.ZipFile(save(book)) as whole, zipfile.ZipFile(damaged, "w") as left:
        for name in whole.namelist():
            left.writestr(name, b"<no" if "comment" in name else whole.read(name))
    text = read(tmp_path, "lamp.xlsx", damaged.getvalue()).text
    assert "lamp" in text
    assert "The comments of the sheet Sheet cannot be read." in text


# --- slides --------------------------------------------------------------------------------


def slides() -> bytes:
    deck = Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "The lighthouse"
    body = first.placeholders[1].text_frame
    body.text = "Built in 1811"
    below = body.add_paragraph()
    below.text, below.level = "By Stevenson", 1
    first.notes_slide.notes_text_frame.text = "Mention the storm."
    deck.slides.add_slide(deck.slide_layouts[6])  # nothing on it
    third = deck.slides.add_slide(deck.slide_layouts[5])
    third.shapes.title.text = "Keepers"
    table = third.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    for row, cells in enumerate((("Name", "Years"), ("Reid", "1811 to 1824"))):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    buffer = BytesIO()
    deck.save(buffer)
    return buffer.getvalue()


def test_each_slide_is_a_page_under_its_title_with_table_and_notes(tmp_path: Path) -> None:
    found = read(tmp_path, "talk.pptx", slides())
    first = "# The lighthouse\n\n- Built in 1811\n  - By Stevenson\n\nNotes: Mention the storm."
    assert found.text == f"{first}\n\n# Keepers\n\n| Name | Years |\n| Reid | 1811 to 1824 |"
    assert found.pages == (Page(1, 0), Page(3, len(first) + 2))


def test_the_figures_of_a_chart_and_what_is_said_of_a_picture_are_read(tmp_path: Path) -> None:
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    data = CategoryChartData()
    data.categories = ["2023", "2024"]
    data.add_series("Wrecks", (3, 1234567.25))
    place = Inches(1), Inches(1), Inches(4), Inches(3)
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data)
    chart.chart.has_title = True
    chart.chart.chart_title.text_frame.text = "Wrecks by year"
    chart._element.nvGraphicFramePr.cNvPr.set("descr", "Columns that rise")
    stream = BytesIO()
    deck.save(stream)
    text = read(tmp_path, "wrecks.pptx", stream.getvalue()).text
    assert "Table Wrecks by year, 2 rows: Category | Wrecks\nRow 1: Category: 2023; Wrecks: 3\n" in text
    assert "Row 2: Category: 2024; Wrecks: 1234567.25" in text
    assert "[Columns that rise]" in text


def test_real_slides_and_spreadsheets_are_read(shared_data: Path, tmp_path: Path) -> None:
    for name in ("example.pptx", "example.xlsx"):
        found = read(tmp_path, name, (shared_data / "formats" / name).read_bytes())
        assert len(found.text.split()) > 5, name


# --- e-books -------------------------------------------------------------------------------

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>The Rock</dc:title><dc:creator>A. Reid</dc:creator><dc:date>1824-05-01T00:00:00Z</dc:date></metadata>
<manifest>
<item id="toc" href="toc.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="two" href="two.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="chapter%20one.xhtml" media-type="application/xhtml+xml"/>
<item id="cover" href="cover.png" media-type="image/png"/>
</manifest>
<spine><itemref idref="toc"/><itemref idref="one"/><itemref idref="cover"/><itemref idref="two"/></spine></package>"""


def page(heading: str, text: str) -> str:
    return f"<html xmlns='http://www.w3.org/1999/xhtml'><body><h1>{heading}</h1><p>{text}</p></body></html>"


def book() -> bytes:
    parts = {
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": PACKAGE,
        "OEBPS/toc.xhtml": page("Contents", "Arrival. Storm."),
        "OEBPS/chapter one.xhtml": page("Arrival", "We landed at dawn."),
        "OEBPS/two.xhtml": page("Storm", "The lamp went out."),
    }
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_the_chapters_of_a_book_are_read_in_the_order_of_its_spine(tmp_path: Path) -> None:
    found = read(tmp_path, "rock.epub", book())
    assert found.text == "# Arrival\n\nWe landed at dawn.\n\n# Storm\n\nThe lamp went out."
    assert found.title == "The Rock"
    assert found.metadata["author"] == "A. Reid"
    assert found.date == "1824-05-01"


# --- mail ----------------------------------------------------------------------------------


def message(subject: str, text: str, *, html: str = "", attached: str = "") -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, "Inès <ines@rock.example>", "tom@rock.example"
    mail["Date"] = "Tue, 04 Mar 2025 10:00:00 +0100"
    mail.set_content(text)
    if html:
        mail.add_alternative(html, subtype="html")
    if attached:
        mail.add_attachment(b"1,2", maintype="text", subtype="csv", filename=attached)
    return mail


@pytest.mark.parametrize(
    "part", ["<details><summary>{}</summary><p>{}</p></details>", "<dl><dt>{}</dt><dd>{}</dd></dl>"]
)
def test_questions_of_a_page_head_their_answers(tmp_path: Path, part: str) -> None:
    page = (
        "<h1>Lamps</h1><h3>Oil</h3>"
        + part.format("Who <b>pays</b>?", "You do.")
        + part.format("When?", "At six.")
        + "<h2>Wicks</h2>"
        + part.format("How?", "So.")
    )
    text = read(tmp_path, "faq.html", page.encode()).text
    assert text.split("\n\n") == [
        "# Lamps",
        "### Oil",
        "#### Who pays?",
        "You do.",
        "#### When?",
        "At six.",
        "## Wicks",
        "### How?",
        "So.",
    ]


def test_terms_of_a_page_and_titles_within_what_opens_it_stay_as_they_are(tmp_path: Path) -> None:
    page = b"<dl><dt>Oil</dt><dd>It burns.</dd><dt>Why?</dt></dl><details><summary><h2>Wicks</h2></summary><p>So.</p></details><pre><summary>x</summary></pre><p>End."
    assert (
        read(tmp_path, "faq.html", page).text
        == "Oil\n\nIt burns.\n\nWhy?\n\n## Wicks\n\nSo.\n\n```\nx\n```\n\nEnd."
    )


def test_a_message_is_read_with_its_subject_people_and_date(tmp_path: Path) -> None:
    mail = message("Lamp oil", "We need ten barrels.", html="<p>no</p>", attached="list.csv")
    found = read(tmp_path, "oil.eml", bytes(mail))
    assert found.title == "Lamp oil"
    assert found.date == "2025-03-04"
    assert found.text == (
        "# Lamp oil\n\nFrom: Inès <ines@rock.example>\nTo: tom@rock.example\nDate: Tue, 04 Mar 2025 10:00:00 +0100\n\n"
        "We need ten barrels.\n\nAttachments (not read): list.csv"
    )


def test_of_a_message_in_html_the_visible_text_is_read(tmp_path: Path) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "Oil", "a@b.example"
    mail.set_content("<style>p {color: red}</style><p>Ten <b>barrels</b>.</p>", subtype="html")
    text = read(tmp_path, "oil.eml", bytes(mail)).text
    assert "Ten barrels." in text
    assert "color" not in text


@pytest.mark.parametrize("charset", [b"undefined", b"idna", b"zlib", b"x-none", b'"x-\0none"'])
def test_a_charset_that_is_none_does_not_hide_the_text_of_a_mailbox(tmp_path: Path, charset: bytes) -> None:
    odd = (
        b"From a Tue Mar 04 10:00:00 2025\nSubject: Odd\nContent-Type: text/plain; charset="
        + charset
        + b"\n\nTen barrels.\n"
    )
    found = read(
        tmp_path,
        "box.mbox",
        odd + b"From a Tue Mar 04 10:00:00 2025\n" + bytes(message("Plain", "Nine barrels.")),
    )
    assert "Ten barrels." in found.text
    assert "Nine barrels." in found.text


def test_a_message_in_a_message_is_a_section_of_it(tmp_path: Path) -> None:
    mail = message("Outer", "See below.\n\n-- \nInès", attached="list.csv")
    mail.add_attachment(message("Lamp oil", "Ten barrels.\n\n> How many?"))
    assert read(tmp_path, "a.eml", bytes(mail)).text.endswith(
        "See below.\n\n## Lamp oil\n\nFrom: Inès <ines@rock.example>\nTo: tom@rock.example\nDate: Tue, 04 Mar 2025 10:00:00 +0100\n\n"
        "Ten barrels.\n\n### Quoted mail\n\n> How many?\n\nAttachments (not read): list.csv\n\n## Mail signature\n\nInès"
    )


def test_a_digest_is_read_as_its_messages(tmp_path: Path) -> None:
    digest = MIMEMultipart("digest")
    digest["Subject"], digest["From"] = "Lamps, vol. 3", "list@rock.example"
    for subject in ("Oil", "Wicks"):
        digest.attach(MIMEMessage(message(subject, f"On {subject.lower()}.")))
    found = read(tmp_path, "a.eml", bytes(digest))
    assert [line for line in found.text.split("\n") if line.startswith("#")] == [
        "# Lamps, vol. 3",
        "## Oil",
        "## Wicks",
    ]
    assert found.text.endswith("Date: Tue, 04 Mar 2025 10:00:00 +0100\n\nOn wicks.")


def test_messages_in_messages_are_read_to_some_depth_and_then_named(tmp_path: Path) -> None:
    mail = message("Mail 0", "Text 0.")
    for number in range(1, 30):
        outer = message(f"Mail {number}", f"Text {number}.")
        outer.add_attachment(mail)
        mail = outer
    text = read(tmp_path, "a.eml", bytes(mail)).text
    assert text.count("Text ") == 4
    assert text.endswith("Text 26.\n\nAttachments (not read): Mail 25")


def test_a_header_in_gb2312_may_have_the_signs_of_its_superset(tmp_path: Path) -> None:
    coded = (
        b64encode("灯塔㐂镕：油".encode("gb18030")).decode(),
        b64encode("灯".encode("gb2312")[:1]).decode(),
        b64encode("灯".encode("gb2312")[1:]).decode(),
    )
    mail = (
        "Subject: " + "\n ".join(f"=?GB2312?B?{each}?=" for each in coded) + "\nFrom: a@b.example\n\nOil.\n"
    )
    assert read(tmp_path, "a.eml", mail.encode()).title == "灯塔㐂镕：油灯"
    broken = "Subject: =?gb2312?B?//8=?= =?x-none?B?!?=\nFrom: a@b.example\n\nOil.\n"
    assert "Oil." in read(tmp_path, "a.eml", broken.encode()).text


@pytest.mark.parametrize(
    "kind", [b"multipart/mixed", b"multipart/alternative", b'multipart/mixed; boundary=""']
)
def test_a_message_whose_parts_have_no_boundary_keeps_its_text(tmp_path: Path, kind: bytes) -> None:
    mail = b"Subject: Oil\nContent-Type: " + kind + b"\n\nTen barrels.\n"
    assert "Ten barrels." in read(tmp_path, "a.eml", mail).text


def test_every_text_of_a_message_is_read_and_what_is_not_is_named(tmp_path: Path) -> None:
    mail = message("Oil", "Before the picture.")
    mail.make_mixed()
    mail.attach(part(b"\x89PNG", "image/png"))
    mail.attach(part(b"After the picture.", "text/plain"))
    mail.attach(part(b"<p>Last of <b>all</b>.</p>", "text/html"))
    text = read(tmp_path, "a.eml", bytes(mail)).text
    assert text.endswith(
        "Before the picture.\n\nAfter the picture.\n\nLast of all.\n\nAttachments (not read): image/png"
    )


def part(content: bytes, kind: str) -> EmailMessage:
    made = EmailMessage()
    made.set_content(content, *kind.split("/"), disposition="inline")
    return made


@pytest.mark.parametrize(
    ("plain", "read_of"),
    [("This message needs a reader of pages.", "page"), ("Ten barrels of oil by Friday.", "plain")],
)
def test_of_two_forms_of_a_message_the_plain_one_is_read_unless_it_says_little(
    tmp_path: Path, plain: str, read_of: str
) -> None:
    page = "<p>Ten barrels of oil by Friday.</p>" + "<p>The harbour is closed on Sunday.</p>" * 3 * (
        read_of == "page"
    )
    text = read(tmp_path, "a.eml", bytes(message("Oil", plain, html=page))).text
    assert ("barrels" in text, "harbour" in text, "reader" in text) == (True, read_of == "page", False)


def test_a_line_that_begins_with_from_begins_no_message(tmp_path: Path) -> None:
    start = b"From ines@rock.example Tue Mar 04 10:00:00 2025\n"
    mail = bytes(message("Oil", "Dear Tom,\n\nFrom tomorrow at 10:30 the lamp is lit.\n"))
    found = read(tmp_path, "box.mbox", (start + mail + b"\n") * 2)
    assert found.text.count("# Oil") == found.text.count("From tomorrow at 10:30 the lamp is lit.") == 2


def test_every_message_of_a_mailbox_is_a_section(tmp_path: Path) -> None:
    mails = [message("First", "Line\n\nFrom the rock.\n"), message("Second", "Bye.")]
    box = b"".join(
        b"From ines@rock.example Tue Mar 04 10:00:00 2025\n"
        + bytes(mail).replace(b"\nFrom the", b"\n>From the")
        + b"\n"
        for mail in mails
    )
    found = read(tmp_path, "box.mbox", box)
    assert [line for line in found.text.splitlines() if line.startswith("#")] == ["# First", "# Second"]
    assert "\nFrom the rock." in found.text


BARRELS = "We need ten barrels.\n\nThe harbour is closed on Sunday,\nsays the keeper."
QUOTED = "\n".join(f"> {line}" for line in BARRELS.split("\n"))
FOOTER = "_______________________________________________\nKeepers mailing list\nhttps://rock.example/keepers"


def read_body(tmp_path: Path, text: str) -> str:
    return read(tmp_path, "a.eml", bytes(message("Oil", text))).text.partition("+0100\n\n")[2]


@pytest.mark.parametrize(
    "above",
    [
        "On Tue, 4 Mar 2025 at 10:00, Inès <ines@rock.example> wrote:\n",
        "Inès of the rock wrote:\n",
        "Quoting Inès <ines@rock.example>:\n\n",
        "* Inès of the rock [2025-03-04 10:00]:\n",
        "04.03.2025 10:00, Inès пишет:\n",
        "2025-03-04 10:00 GMT+01:00 Inès <ines@rock.example>:\n",
        "On Tue, Mar 4, 2025 at 10:00 AM Inès of the rock\n<ines@rock.example> wrote:\n\n",
        "Am 04.03.25 um 10:00 schrieb Inès <ines@rock.example>:\n",
        "Le mar. 4 mars 2025 à 10:00, Inès <ines@rock.example> a écrit :\n",
        "",
    ],
)
def test_a_quote_at_the_end_of_a_mail_and_its_signature_are_sections_of_their_own(
    tmp_path: Path, above: str
) -> None:
    text = read_body(tmp_path, f"Eleven, I think.\n\n-- \nTom, keeper\n\n{above}{QUOTED}\n\n{FOOTER}\n")
    assert (
        text
        == f"Eleven, I think.\n\n## Quoted mail\n\n{above}{QUOTED}\n\n## Mail signature\n\nTom, keeper\n\n"
        + FOOTER.partition("\n")[2]
    )


@pytest.mark.parametrize(
    "above",
    [
        "-----Original Message-----\nFrom: Inès\nSent: Tuesday\nSubject: Oil",
        "________________________________\nVon: Inès\nGesendet: Dienstag\nBetreff: Oil",
        "From: Inès\nReply-To: Inès\nSent: Tuesday\nTo: Tom\nSubject: Oil",
        "On Tue, 4 Mar 2025 at 10:00, Inès <ines@rock.example> wrote:",
    ],
)
def test_what_stands_without_marks_below_the_head_of_an_earlier_mail_is_quoted(
    tmp_path: Path, above: str
) -> None:
    text = read_body(tmp_path, f"Eleven, I think.\n\n{above}\n\n{BARRELS}\n")
    assert text == f"Eleven, I think.\n\n## Quoted mail\n\n{above}\n\n{BARRELS}"


@pytest.mark.parametrize(
    "text",
    [
        "> We need ten barrels.\n\nEleven.\n\n> The harbour is closed\n\nSince when?",
        QUOTED,
        f"On Monday, Inès wrote:\n{QUOTED}",
        "On Monday the keeper wrote a letter.\n\nIt was long.",
        "The keeper wrote 3 rules:\n\nShut the gate.",
        "One\n\n--\n\n" + "Two is longer than any signature is.\n" * 20,
        "The ferry:\n\nFrom: the rock\nTo: the town\nDate: Tuesday\n\nThe ferry leaves at ten.",
        "On Monday, Inès wrote:\n\n> Ten?\n\nEleven. On Tuesday, Tom wrote:\n\n> Twelve?\n\nNo.",
    ],
)
def test_quotes_that_are_answered_and_mails_of_nothing_else_stay_as_they_are(
    tmp_path: Path, text: str
) -> None:
    assert read_body(tmp_path, text) == text.strip()


def test_what_a_mailbox_holds_elsewhere_is_not_quoted_again(tmp_path: Path) -> None:
    wrapped = QUOTED.replace("closed on Sunday,\n> says", "closed\n> on Sunday, says")
    texts = [
        f"Eleven.\n\n-- \nTom, keeper\n\nOn Tuesday Inès wrote:\n{wrapped}\n\n{FOOTER}\n",
        f"Twelve.\n\n-- \nTom, keeper\n\nOn Tuesday Inès wrote:\n{QUOTED}\n>\n> Or more?\n\n{FOOTER}\n",
        f"{BARRELS}\n\n{FOOTER}\n",
    ]
    start = b"From ines@rock.example Tue Mar 04 10:00:00 2025\n"
    text = read(
        tmp_path, "box.mbox", b"".join(start + bytes(message("Oil", each)) + b"\n" for each in texts)
    ).text
    bodies = [each.partition("+0100\n\n")[2].strip() for each in text.split("# Oil\n")[1:]]
    assert bodies == [
        f"Eleven.\n\n## Mail signature\n\nTom, keeper\n\n{FOOTER.partition(chr(10))[2]}",
        "Twelve.\n\n## Quoted mail\n\nOn Tuesday Inès wrote:\n\n> Or more?",
        BARRELS,
    ]


def test_a_mail_of_many_quotes_and_signatures_is_read_in_linear_time(tmp_path: Path) -> None:
    started = time.process_time()
    read_body(tmp_path, "A\n" + "> a\n-- \nb\n\n" * 20_000 + "On a\n" * 20_000 + ">\n" * 20_000)
    assert time.process_time() - started < 5


def test_a_page_that_a_browser_saved_as_one_file_is_read(tmp_path: Path) -> None:
    saved = EmailMessage()
    saved["Subject"] = "saved"
    saved.set_content(
        "<html><head><title>Rock</title></head><body><h1>Rock</h1><p>Wet.</p></body></html>", subtype="html"
    )
    saved.make_related()
    found = read(tmp_path, "rock.mhtml", bytes(saved))
    assert found.text == "# Rock\n\nWet."
    assert found.title == "Rock"


# --- notebooks -----------------------------------------------------------------------------


def notebook(*cells: dict[str, Any]) -> bytes:
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}).encode()


def test_a_notebook_is_read_as_text_code_and_what_was_printed(tmp_path: Path) -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": ["12\n", "13\n"]}
    image = {"output_type": "display_data", "data": {"image/png": "iVBOR"}}
    shown = {
        "output_type": "display_data",
        "data": {"text/plain": "<Markdown object>", "text/markdown": "**High**"},
    }
    failed = {"output_type": "error", "ename": "ValueError", "evalue": "no tide", "traceback": []}
    found = read(
        tmp_path,
        "tides.ipynb",
        notebook(
            {"cell_type": "markdown", "source": ["# Tides\n", "\n", "Twice a day."]},
            {
                "cell_type": "code",
                "source": "# not a heading\nprint(12)",
                "outputs": [printed, image, failed],
            },
            {"cell_type": "code", "source": "", "outputs": []},
            {"cell_type": "code", "source": "", "outputs": [shown]},
        ),
    )
    assert found.text == (
        "# Tides\n\nTwice a day.\n\n```python\n# not a heading\nprint(12)\n```\n```text\n12\n13\n\nValueError: no tide\n```"
        "\n\n```text\n**High**\n```"
    )
    assert found.title == "Tides"


# --- damage --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xlsx", b"no archive"),
        ("a.xlsx", workbook()[:2000]),
        ("a.xlsx", zipped(a_txt="x")),
        ("a.xlsx", b"\xd0\xcf\x11\xe0" + bytes(600)),
        ("a.pptx", b"no archive"),
        ("a.pptx", slides()[:9000]),
        ("a.pptx", workbook()),
        ("a.epub", zipped(a_txt="x")),
        ("a.epub", zipped(**{"META-INF__container_xml": "<container/>"})),
        ("a.epub", zipped(**{"META-INF__container_xml": "<conta"})),
        ("a.eml", b"\n\nno message at all"),
        ("a.mbox", b"no mailbox"),
        ("a.mhtml", b"MIME-Version: 1.0\n\nno page"),
        ("a.ipynb", b"{"),
        ("a.ipynb", b'{"worksheets": []}'),
        ("a.ipynb", b'{"cells": [{"cell_type": "code"}]}'),
        ("a.ipynb", b"[]"),
    ],
)
def test_a_damaged_file_is_refused_by_name_with_the_next_step(
    tmp_path: Path, name: str, content: bytes
) -> None:
    with pytest.raises(DocumentUnreadable) as refused:
        read(tmp_path, name, content)
    assert name in refused.value.message
    assert refused.value.next_step


def damage(content: bytes) -> dict[str, bytes]:
    """Return an archive whose parts begin with an unknown block, and one whose parts are marked as encrypted."""
    blocks, locked = bytearray(content), bytearray(content)
    with zipfile.ZipFile(BytesIO(content)) as archive:
        for part in archive.infolist():
            name_length, extra = struct.unpack_from("<HH", content, part.header_offset + 26)
            blocks[part.header_offset + 30 + name_length + extra] |= 0b111
            locked[part.header_offset + 6] |= 1
        at = archive.start_dir
        for part in archive.infolist():
            locked[at + 8] |= 1
            at += 46 + len(part.filename.encode()) + len(part.extra) + len(part.comment)
    return {"unknown block": bytes(blocks), "encrypted": bytes(locked)}


def written() -> bytes:
    document = docx.Document()
    document.add_paragraph("We landed at dawn.")
    buffer = BytesIO()
    document.save(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "make"), [("a.xlsx", workbook), ("a.pptx", slides), ("a.epub", book), ("a.docx", written)]
)
def test_an_archive_with_damaged_parts_is_refused(
    tmp_path: Path, name: str, make: Callable[[], bytes]
) -> None:
    for kind, content in damage(make()).items():
        with pytest.raises(DocumentUnreadable, match="damaged") as refused:
            read(tmp_path, name, content)
        assert name in refused.value.message, kind


@pytest.mark.parametrize("name", ["a.xlsx", "a.pptx", "a.epub", "a.odt"])
def test_an_archive_made_to_fill_the_memory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DocumentUnreadable, match="unpacks from"):
        read(tmp_path, name, zipped(a_xml="0" * 120_000_000))


def test_every_reader_is_that_of_a_format() -> None:
    folder = Path(readers.__file__).parent
    found = {
        f"{'.'.join(path.relative_to(folder).with_suffix('').parts)}:{name}"
        for path in folder.rglob("*.py")
        for name in re.findall(
            r"^def (read_\w+)\(data: bytes, name: str\) -> Reading:", path.read_text(), re.MULTILINE
        )
    }
    assert found
    assert found == set(re.findall(r'_import_later\("([\w.]+:\w+)"\)', Path(formats.__file__).read_text()))


# --- code and configuration ----------------------------------------------------------------

TERRAFORM = """\
resource "aws_db_instance" "tickets" {
  engine_version = "15.7"
  instance_class = "db.r6g.xlarge"
}

variable "region" {
  default = "eu-north-1"
}
"""


def test_terraform_without_a_comment_is_read_block_by_block(tmp_path: Path) -> None:
    (tmp_path / "rds.tf").write_text(TERRAFORM)
    (tmp_path / "Dockerfile.dev").write_text("FROM python:3.12\nRUN pip install .\n")
    found = expand(str(tmp_path), allowed=None, data_dir=tmp_path / "data")
    assert {each.name for each in found.files} == {"rds.tf", "Dockerfile.dev"}
    document = load(DocumentSource(path=str(tmp_path / "rds.tf")), allowed=None, max_bytes=10_000)
    built = load(DocumentSource(path=str(tmp_path / "Dockerfile.dev")), allowed=None, max_bytes=10_000)
    assert is_code(built.media_type)  # the licence that it may begin with is no subject
    titles = [each.title for each in headings(document.text, document.media_type)]
    assert titles == ['resource "aws_db_instance" "tickets"', 'variable "region"']


@pytest.mark.parametrize("name", ["pep-0008.rst", "pep-0008.txt"])
def test_a_document_that_begins_with_fields_is_called_by_its_title(tmp_path: Path, name: str) -> None:
    head = "PEP: 8\nTitle: Style Guide for Python Code\nAuthor: Ada <a@example.org>,\n        Bo <b@example.org>\nStatus: Active\n"
    text = f"{head}\n\nIntroduction\n============\n\nThis document gives conventions.\n"
    assert read(tmp_path, name, text.encode()).title == "Style Guide for Python Code"
    assert read(tmp_path, name, text.replace("Title: ", "").encode()).title != "Style Guide for Python Code"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (
            "The comprehensive plan.\nA compre-\n  hensive, long plan.",
            "The comprehensive plan.\nA comprehensive,\n  long plan.",
        ),
        ("Use the back-\nend here.", "Use the back-end\nhere."),
        (
            "The harbour is old. The har-\nbour is a no-\nticed one.",
            "The harbour is old. The harbour\nis a noticed\none.",
        ),
        ("A state-of-the-\nart pump.", "A state-of-the-art\npump."),
        ("Pre-\nand post-war.", "Pre-\nand post-war."),
        ("An old har-\nbour\nis here. The harbour.", "An old har-\nbour\nis here. The harbour."),
        ("- a-\n- b", "- a-\n- b"),
    ],
)
def test_words_cut_at_the_end_of_a_line_of_a_text_are_whole_and_lines_keep_their_number(
    written: str, read: str
) -> None:
    assert formats.format_of("a.txt").read(written.encode(), "a.txt").text == read


def test_long_words_without_an_end_are_read_in_linear_time() -> None:
    started = time.perf_counter()
    formats.format_of("a.txt").read(b"x" * 2_000_000 + b" " + b"x-\n" * 100_000, "a.txt")
    assert time.perf_counter() - started < 5
