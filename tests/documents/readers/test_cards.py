"""Calendars and address books are read as their events and persons."""

from __future__ import annotations

from pathlib import Path

import pytest

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.documents.loading import load

CALENDAR = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Cloud//EN\r\nBEGIN:VEVENT\r\nUID:4711@x\r\n"
    "DTSTART;TZID=Europe/Berlin:20261203T090000\r\nDTEND:20261203T103000Z\r\nSUMMARY:Board\r\n  meeting\r\n"
    "LOCATION:Room 4\\, second floor\r\nDESCRIPTION:Budget\\nHiring\r\n"
    'ATTENDEE;CN="Vogel, Martina";ROLE=CHAIR:mailto:m.vogel@x.org\r\n'
    "BEGIN:VALARM\r\nDESCRIPTION:Ring\r\nEND:VALARM\r\nEND:VEVENT\r\n"
    "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261224\r\nSUMMARY:Office closed\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)
PERSONS = (
    "BEGIN:VCARD\nVERSION:3.0\nN:Kessler;Martin;;;\nFN:Martin Kessler\nTITLE:Treasurer\nitem1.TEL;TYPE=CELL:+49 170 1234567\n"
    "ADR;TYPE=HOME:;;Quay 4;Orrendale;;;\nPHOTO;ENCODING=b:AAAA\nEND:VCARD\n"
    "BEGIN:VCARD\nFN:Ines Mara\nEMAIL:ines@x.org\nEND:VCARD\n"
)


def read(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return load(DocumentSource(path=str(path)), allowed=None, max_bytes=10**6).text


def test_each_event_of_a_calendar_is_a_section_with_its_times_as_they_are_written_elsewhere(
    tmp_path: Path,
) -> None:
    assert read(tmp_path / "team.ics", CALENDAR) == (
        "## Board meeting\n\nStart: 2026-12-03 09:00\nEnd: 2026-12-03 10:30 UTC\nPlace: Room 4, second floor\n"
        "Description: Budget Hiring\nWith: Vogel, Martina <m.vogel@x.org>\n\n## Office closed\n\nStart: 2026-12-24"
    )


def test_each_person_of_an_address_book_is_a_section(tmp_path: Path) -> None:
    assert read(tmp_path / "people.vcf", PERSONS) == (
        "## Martin Kessler\n\nTitle: Treasurer\nPhone (cell): +49 170 1234567\nAddress (home): Quay 4, Orrendale\n\n"
        "## Ines Mara\n\nMail: ines@x.org"
    )


@pytest.mark.parametrize(
    "text", ["A plain note.", "END:VCARD\nEND:VEVENT\nBEGIN:X", f"BEGIN;A={'a' * 5_000}"]
)
def test_what_holds_no_whole_card_is_read_as_text(tmp_path: Path, text: str) -> None:
    assert read(tmp_path / "a.vcf", text) == text


def test_a_card_whose_file_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    assert read(tmp_path / "a.vcf", f"{PERSONS}BEGIN:VCARD\nFN:Cut").endswith("## Cut\n")


def test_every_field_that_a_person_can_read_is_kept_and_those_of_machines_are_not(tmp_path: Path) -> None:
    person = (
        "BEGIN:VCARD\nVERSION:3.0\nN:Kessler;Martin;;Dr.;\nFN:Martin Kessler\nUID:4711\nREV:20260101T000000Z\nIMPP:xmpp:mk@x.org\n"
        "X-EMPLOYEE-ID:22334455\nTEL:22114455\nGENDER:M\nLOGO;ENCODING=b:AAAA\nX-SEAL;ENCODING=BASE64:AAAA\nKEY:data:a/b;base64,AAAA\n"
        "item1.X-ABRELATEDNAMES:Ines Mara\nitem1.X-ABLabel:_$!<Spouse>!$_\nitem2.TEL:+49 30 99\nitem2.X-ABLABEL:Boat\n"
        "X-ABUID:1:ABPerson\nX-EMPTY: ;;\nEND:VCARD\nBEGIN:VCARD\nN:Lund;Boris;;;\nEND:VCARD\n"
    )
    assert read(tmp_path / "people.vcf", person) == (
        "## Martin Kessler\n\nName: Kessler, Martin, Dr.\nImpp: xmpp:mk@x.org\nEmployee Id: 22334455\nPhone: 22114455\nGender: M\n"
        "Spouse: Ines Mara\nBoat: +49 30 99\n\n## Lund, Boris\n"
    )
    calendar = (
        "BEGIN:VCALENDAR\nVERSION:2.0\nX-WR-CALNAME:Keepers\nX-WR-CALDESC:Rock and town\nMETHOD:PUBLISH\nBEGIN:VTIMEZONE\nTZID:B\nEND:VTIMEZONE\n"
        "BEGIN:VEVENT\nSUMMARY:Watch\nDTSTAMP:20260101T000000Z\nSEQUENCE:2\nDURATION:PT2H\nEXDATE:20261224,20261231\nPRIORITY:1\nTRANSP:OPAQUE\n"
        "CONTACT:Tom\\, keeper\nX-COST-CENTRE:Oil 7\nX-MICROSOFT-CDO-BUSYSTATUS:BUSY\nRELATED-TO:4711\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    assert read(tmp_path / "team.ics", calendar) == (
        "# Keepers\n\nDescription: Rock and town\n\n"
        "## Watch\n\nDuration: PT2H\nExcept: 2026-12-24, 2026-12-31\nPriority: 1\nContact: Tom, keeper\nCost Centre: Oil 7"
    )
