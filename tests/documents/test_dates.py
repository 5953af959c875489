"""The date of a document: what its metadata, title, file name, properties and file say, in this order."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.documents.dates import date_document, find_date, read_date
from leanrag_engine.documents.loading import load
from leanrag_engine.engine import LeanRAG

RULES = "One.\nThe tenant keeps the yard clean and pays on the first day of each month.\nThe roof is the landlord's.\n"


def read(path: Path, text: str, **source: object) -> LoadedDocument:
    path.write_text(text, encoding="utf-8")
    os.utime(path, (0, datetime(2020, 5, 17, 12, tzinfo=UTC).timestamp()))
    return load(DocumentSource(path=str(path), **source), allowed=None, max_bytes=10**6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "metadata", "date", "origin"),
    [
        ("a.md", "---\ndate: 2024-02-03\n---\n# Plan of 2023-01-01\n", {}, "2024-02-03", "metadata"),
        ("a.md", "# Plan of 2023-01-01\n\nText.", {"Published": "March 5, 2025"}, "2025-03-05", "metadata"),
        ("a.md", "# Plan of 1 January 2023\n\nText.", {}, "2023-01-01", "title"),
        ("notes_20240301.txt", "Text.", {}, "2024-03-01", "title"),
        ("2024-03-01.md", "# Weekly meeting\n\nText.", {}, "2024-03-01", "file name"),
        ("a.md", "Orrendale, 7 March 2024\n\nTo Harnby Savings Bank\n", {}, "2024-03-07", "text"),
        ("a.txt", "Harnby Savings Bank\n\nLoan 70\n22. März 2024\nDear", {}, "2024-03-22", "text"),
        (
            "a.md",
            "# Travel\n\nVersion 2, valid from 1 July 2025. Replaces version 1.\n",
            {},
            "2025-07-01",
            "text",
        ),
        ("a.md", "# Prices\n\nValid until 31 December 2027.\n", {}, "2020-05-17", "file time"),
        ("a.txt", "Social Contract\nVersion 1.0 ratified on July 5, 1997.", {}, "1997-07-05", "text"),
        (
            "a.txt",
            "Version 1.1 ratified on 26 April 2004. Supersedes the\nversion 1.0 of July 5, 1997.",
            {},
            "2004-04-26",
            "text",
        ),
        ("a.txt", "Apache License\nVersion 2.0, January 2004\n", {}, "2004-01", "text"),
        ("a.txt", "The winter of January 2004\nVersion 2.0\n", {}, "2020-05-17", "file time"),
        ("a.md", "---\nrace: 2025-09-13\n---\n# Marathon\n\nText.", {}, "2020-05-17", "file time"),
        ("a.md", "# Course\n\n5 March 2024, 10 bis 12 Uhr\n", {}, "2024-03-05", "text"),
        ("a.md", "# Travel\n\nAnn left on 1 July 2025.\n", {}, "2020-05-17", "file time"),
        ("a.txt", "One\nTwo\nThree\n22 March 2024\n", {}, "2020-05-17", "file time"),
        ("a.txt", "Betrieb\nStand: 12. März 2025\n", {}, "2025-03-12", "text"),
        ("a.txt", "The Crown\nv\nA. Miller\nCase 7\nJudgment: 20 June 2025\n", {}, "2025-06-20", "text"),
        (
            "a.txt",
            "AMENDMENT NO. 3\nto the Services Agreement of 14 February 2023\nbetween A\nand B\nDated 27 January 2026\n",
            {},
            "2026-01-27",
            "text",
        ),
        ("a.txt", "ADDENDUM\nto the Lease dated 1 June 2021\n", {}, "2020-05-17", "file time"),
        ("a.txt", "DEED\nmade the 11th day of March 2024\n", {}, "2024-03-11", "text"),
        ("a.md", "# Lamp 2024.5.3\n\nNew wick.\n", {}, "2020-05-17", "file time"),
        ("lamp-2024.1.4.md", "# Lamp\n\nNew wick.\n", {}, "2020-05-17", "file time"),
        ("a.txt", "3 April 2024: sulphur\n9 April 2024: copper\n", {}, "2020-05-17", "file time"),
        ("a.txt", "To do\n[x] guard of the saw, came on 2024-05-03\n", {}, "2020-05-17", "file time"),
        ("a.csv", "Day,Sum\n2024-03-01,5\n", {}, "2020-05-17", "file time"),
        ("a.txt", "Text of 2019-01-01.", {}, "2020-05-17", "file time"),
        ("a.txt", f"NOTICE{' ' * 60}1 July 2024\n\nThe gate is shut.\n", {}, "2024-07-01", "text"),
        (
            "a.txt",
            "Refunds\n\nEffective 15 January 2025. This version replaces the one of 1 June 2023, under which it was 14 days.\n",
            {},
            "2025-01-15",
            "text",
        ),
        ("a.txt", "By-laws\n\nLast amended 21 May 2022.\n", {}, "2022-05-21", "text"),
        (
            "a.md",
            f"# Lease\n\nThe rent is 3.\n{RULES}\nSigned on 11 April 2019 at Soren\nA. Till, B. Brandt\n",
            {},
            "2019-04-11",
            "text",
        ),
        ("a.md", f"# Contrat\n\n{RULES}\nFait à Lille, le 4 mai 2021\n\nA  B\n", {}, "2021-05-04", "text"),
        ("a.md", f"# Mietvertrag\n\n{RULES}\nSoren, den 19.02.2024\n\nA  B\n", {}, "2024-02-19", "text"),
        ("a.txt", f"Mill\nLane 3\n4 Soren\nMs Lund\nSoren, 9 April 2024\n{RULES}", {}, "2024-04-09", "text"),
        (
            "a.txt",
            f"Mill\nLane 3\nSoren N1\n\n9 April 2024\n\nDear Ms Lund,\n{RULES}",
            {},
            "2024-04-09",
            "text",
        ),
        (
            "a.md",
            '# Services\n\nThis Services Agreement (the "Agreement") is entered into as of January 5, 2021 by A and B.\n',
            {},
            "2021-01-05",
            "text",
        ),
        (
            "a.txt",
            "Ann Till\nNurse\nin Soren\nDate of birth: 3 May 1990\nDone by 3 May 2024\n",
            {},
            "2020-05-17",
            "file time",
        ),
        (
            "a.txt",
            f"Travels\n\n{RULES}\nLisbon, 3 May 2024\n{RULES}\nPorto, 5 May 2024\n{RULES}",
            {},
            "2020-05-17",
            "file time",
        ),
        ("a.txt", f"{RULES}\nHowever, the mill was shut on 3 May 2024.\n", {}, "2020-05-17", "file time"),
        ("a.txt", f"{RULES}\nSigned by Ann Till and Bo Brandt on May 3, 2024\n", {}, "2024-05-03", "text"),
        ("a.txt", f"Judgment\n\n{RULES * 7}\nLisbon, 3 May 2024\n{RULES * 5}", {}, "2020-05-17", "file time"),
        (
            "a.eml",
            "From: bo@mail.example\nSubject: Damage 04.01.2025\nDate: Thu, 16 Jan 2025 10:00:00 +0000\n\nIt leaks.\n",
            {},
            "2025-01-16",
            "metadata",
        ),
        (
            "a.html",
            "<html><head><title>News</title><meta name='date' content='2022-11-30T08:00Z'></head><p>Text of the page.",
            {},
            "2022-11-30",
            "metadata",
        ),
    ],
)
def test_the_first_source_that_has_a_date_gives_it(
    tmp_path: Path, name: str, text: str, metadata: dict[str, str], date: str, origin: str
) -> None:
    document = read(tmp_path / name, text, metadata=metadata)
    assert (document.date, document.date_origin) == (date, origin)


@pytest.mark.parametrize(("name", "date"), [("report 2023.pdf", ""), ("report.pdf", "2026-11-28")])
def test_the_day_on_which_a_file_was_made_does_not_date_what_is_of_another_year(name: str, date: str) -> None:
    assert date_document({}, "Report", file_name=name, properties="2026-11-28T10:00:00").date == date


def test_a_text_without_a_date_has_none_and_a_file_that_is_touched_is_unchanged(tmp_path: Path) -> None:
    document = load(DocumentSource(text="Text of 2019-01-01.", title="Plan"), allowed=None, max_bytes=10**6)
    assert (document.date, document.date_origin) == ("", "")
    before = read(tmp_path / "a.txt", "Text.")
    (tmp_path / "a.txt").touch()
    after = load(DocumentSource(path=str(tmp_path / "a.txt")), allowed=None, max_bytes=10**6)
    assert after.date != before.date
    assert after.digest == before.digest


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("Minutes of 12th May 1854", "1854-05-12"),
        ("Minutes, Mar. 3rd, 2024", "2024-03-03"),
        ("Protokoll 01.03.2024", "2024-03-01"),
        ("Report March 2024", "2024-03"),
        ("2024-03 report", "2024-03"),
        ("IMG_20240301_101010", "2024-03-01"),
        ("会議 2024年3月1日", "2024-03-01"),
        ("2024_3_1 call", "2024-03-01"),
        ("Studio 2000", ""),
        ("Motion M-2018-07", ""),
        ("minutes-2018-07", "2018-07"),
        ("Budget 2009/10", ""),
        ("Release v1.2.3 of 10", ""),
        ("2024-13-45", ""),
        ("20249999", ""),
        ("1/3/2024", ""),
        ("Room 192024", ""),
        ("Decision of 12 May", ""),
        ("Maybe 2024", ""),
    ],
)
def test_dates_are_found_within_titles_and_names(text: str, date: str) -> None:
    assert find_date(text) == date


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("2024-03-01T10:00:00Z", "2024-03-01"),
        ("D:20240301120000+01'00'", "2024-03-01"),
        ("Mon, 4 Mar 2024 10:00:00 +0100", "2024-03-04"),
        ("2024", "2024"),
        ("soon", ""),
    ],
)
def test_values_of_metadata_are_read_in_every_usual_notation(value: str, date: str) -> None:
    assert read_date(value) == date


@given(st.dates(), st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d %B %Y", "%B %d, %Y", "%b %d %Y"]))
def test_any_date_is_read_as_it_was_written(day: datetime, notation: str) -> None:
    written = day.strftime(notation).replace(day.strftime("%Y"), f"{day.year:04d}")
    expected = day.isoformat() if 1000 <= day.year <= 2199 else ""
    assert read_date(written) == expected


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    read_date(text)


@pytest.mark.anyio
async def test_a_stored_chunk_says_the_date_of_its_document_and_where_it_was_found(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "2026-03-04 budget.md").write_text("The ceiling is 4,200.")
    (folder / "20260305_1245.py").write_text("def ceiling() -> int:\n    return 4_300\n")
    async with await LeanRAG.open(load_settings(data_dir=tmp_path / "data")) as engine:
        job = await engine.submit_ingest([DocumentSource(path=str(folder))], allowed=None, build=False)
        await engine.job(job.id, wait_seconds=100)
        chunks = await engine._stores.documents.all_chunks("default")
    assert [(each.date, each.date_origin, each.media_type) for each in chunks] == [
        ("2026-03-04", "title", "text/markdown"),
        ("2026-03-05", "title", "text/x-python"),
    ]
