"""Word documents: the numbers that Word counts, headings by their look, and raised signs."""

import io
from typing import Any

import docx
from docx.document import Document
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from leanrag_engine.documents.readers.office.docx import read_docx

W = nsdecls("w")
CLAUSES = [("decimal", "%1."), ("decimal", "%1.%2"), ("lowerLetter", "(%3)"), ("lowerRoman", "(%4)")]


def define_list(document: Document, number: int, levels: list[tuple[str, str]], more: str = "") -> None:
    part = document.part.numbering_part.element
    written = "".join(
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>{more}<w:lvlText w:val="{text}"/></w:lvl>'
        for at, (kind, text) in enumerate(levels)
    )
    part.insert(0, parse_xml(f'<w:abstractNum {W} w:abstractNumId="{number}">{written}</w:abstractNum>'))
    add_list(document, number, number)


def add_list(document: Document, number: int, kind: int, more: str = "") -> None:
    part = document.part.numbering_part.element
    part.append(parse_xml(f'<w:num {W} w:numId="{number}"><w:abstractNumId w:val="{kind}"/>{more}</w:num>'))


def number(paragraph: Any, list_: int, depth: int) -> Any:
    paragraph._p.get_or_add_pPr().append(
        parse_xml(f'<w:numPr {W}><w:ilvl w:val="{depth}"/><w:numId w:val="{list_}"/></w:numPr>')
    )
    return paragraph


def add_clauses(document: Document, *clauses: tuple[int, str], list_: int = 77) -> None:
    for depth, text in clauses:
        paragraph = number(document.add_paragraph(), list_, depth)
        paragraph.add_run(text).bold = depth == 0


def read(document: Document) -> str:
    data = io.BytesIO()
    document.save(data)
    return read_docx(data.getvalue(), "x.docx").text


def test_clauses_stand_with_the_numbers_that_word_counts() -> None:
    document = docx.Document()
    define_list(document, 77, CLAUSES)
    add_clauses(
        document,
        (0, "Term"),
        (1, "It begins in March."),
        (1, "It ends:"),
        (2, "in April, or"),
        (2, "in May."),
    )
    add_clauses(document, (3, "early"), (3, "late"), (0, "Law"), (1, "Irish law."), (2, "None other."))
    assert read(document) == (
        "## 1. Term\n\n1.1 It begins in March.\n1.2 It ends:\n    (a) in April, or\n    (b) in May.\n      (i) early\n"
        "      (ii) late\n\n## 2. Law\n\n2.1 Irish law.\n    (a) None other."
    )


def test_a_list_goes_on_after_other_text_and_an_empty_item_counts() -> None:
    document = docx.Document()
    define_list(document, 77, CLAUSES)
    add_clauses(document, (0, "Term"), (1, "It begins."))
    document.add_paragraph("Between.")
    add_clauses(document, (1, ""), (1, "It ends."))
    assert read(document).endswith("Between.\n\n1.3 It ends.")


def test_lists_of_one_kind_count_on_unless_one_begins_anew() -> None:
    document = docx.Document()
    define_list(document, 77, CLAUSES)
    add_list(document, 78, 77)
    anew = '<w:lvlOverride w:ilvl="1"><w:startOverride w:val="5"/></w:lvlOverride>'
    add_list(document, 79, 77, anew)
    for list_ in (77, 78, 79, 79):
        add_clauses(document, (1, "x"), list_=list_)
    assert read(document) == "1.1 x\n1.2 x\n1.5 x\n1.6 x"


def test_a_style_numbers_its_paragraphs() -> None:
    document = docx.Document()
    define_list(document, 77, [("upperRoman", "Article %1"), ("decimalZero", "Section %1.%2")], "<w:isLgl/>")
    for depth in (0, 1):
        number_of = f'<w:numPr {W}><w:ilvl w:val="{depth}"/><w:numId w:val="77"/></w:numPr>'
        style = document.styles[f"Heading {depth + 1}"]
        style.element.get_or_add_pPr().append(parse_xml(number_of))
    document.add_heading("Rent", 1)
    document.add_heading("Arrears", 2)
    document.add_heading("The tenant pays interest of 4% from the day on which a rent is due. " * 3, 2)
    number(document.add_heading("Not counted", 2), 0, 0)
    assert read(document).startswith(
        "# Article I Rent\n\n## Section 1.01 Arrears\n\nSection 1.02 The tenant pays"
    )
    assert read(document).endswith("## Not counted")


def test_bullets_and_lists_without_a_definition_keep_their_sign() -> None:
    document = docx.Document()
    define_list(document, 77, [("bullet", "·"), ("bullet", "o")])
    add_clauses(document, (0, "Plums"), (1, "ripe"))
    add_clauses(document, (0, "Pears"), list_=99)
    assert read(document) == "- Plums\n  - ripe\n- Pears"


def test_bold_lines_are_headings_where_numbered_ones_are_bold_and_no_style_is_a_heading() -> None:
    document = docx.Document()
    define_list(document, 77, CLAUSES)
    document.add_paragraph().add_run("Made in March").bold = True
    add_clauses(document, (0, "Term"), (1, "It begins."))
    document.add_paragraph().add_run("Schedule 1").bold = True
    table = document.add_table(1, 1)
    table.cell(0, 0).paragraphs[0].add_run("Rates").bold = True
    assert read(document) == "Made in March\n\n## 1. Term\n\n1.1 It begins.\n\n## Schedule 1\n\n| Rates |"
    document.add_heading("One", 1)
    document.add_heading("Two", 1)
    assert "1. Term\n1.1 It begins." in read(document)


def test_a_long_pattern_of_a_number_and_a_high_one_stay_short() -> None:
    document = docx.Document()
    define_list(document, 77, [("lowerLetter", "%1" * 5_000), ("upperRoman", "%2.")])
    anew = '<w:lvlOverride w:ilvl="1"><w:startOverride w:val="999999999"/></w:lvlOverride>'
    add_list(document, 78, 77, anew)
    add_clauses(document, (0, "x"))
    add_clauses(document, (1, "y"), list_=78)
    assert read(document) == f"## {'a' * 20} x\n\n  999999999. y"


def test_raised_figures_of_a_word_document_belong_to_no_number() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("EUR 0.42")
    paragraph.add_run("1").font.superscript = True
    paragraph.add_run(" a unit, 10")
    for part in ("-", "6"):
        paragraph.add_run(part).font.superscript = True
    paragraph.add_run(" m")
    paragraph.add_run("3").font.superscript = True
    paragraph.add_run(" of H")
    paragraph.add_run("2").font.subscript = True
    paragraph.add_run("O on the 1")
    paragraph.add_run("st").font.superscript = True
    assert read(document) == "EUR 0.42[1] a unit, 10^-6 m^3 of H2O on the 1st"
