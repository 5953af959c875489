"""Chats with nicknames in small letters, day lines and names of their own are read as they are meant, and logs stay logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.documents.loading import expand, load

TALK = (
    ("kestrel", "so do we trust the ferryman?"),
    ("bogdan", "he asked for a tooth"),
    ("kestrel", "teeth grow back"),
    ("fenna", "mine do"),
) * 3


def read(text: str, tmp_path: Path, name: str = "export.txt") -> LoadedDocument:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return load(DocumentSource(path=str(tmp_path / name)), allowed=None, max_bytes=5_000_000)


def days_of(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("# ")]


@pytest.mark.parametrize(
    "form", ["2024-03-02 19:{:02} {}: {}", "[2024-03-02 19:{:02}] {}: {}", "2024-03-02 19:{:02}:11\t{}\t{}"]
)
def test_a_nickname_in_small_letters_on_a_line_with_its_time_is_a_speaker(form: str, tmp_path: Path) -> None:
    text = "\n".join(form.format(at, *turn) for at, turn in enumerate(TALK))
    found = read(text, tmp_path, "tavern.log")
    assert found.title == "tavern: conversation of Kestrel, Bogdan and Fenna, 2024-03-02"
    assert found.text.split("\n\n")[1].endswith("] Kestrel: so do we trust the ferryman?")
    assert [file.name for file in expand(str(tmp_path), allowed=None).files] == ["tavern.log"]


@pytest.mark.parametrize(
    "form",
    [
        "2024-03-02 19:{:02} kernel: I/O error on sda, took 12 us",
        "2024-03-02 19:{:02} nginx: upstream timed out",
        "2024-03-02 19:{:02}:01\tscheduler\tjob 17 started",
        "[Sat May 04 22:{:02}:44 2024] Bluetooth: connected",
        "[2024-03-02 19:{:02}] worker: cannot connect to your-host",
    ],
)
def test_what_programs_write_under_their_names_stays_a_log(form: str, tmp_path: Path) -> None:
    assert read("\n".join(map(form.format, range(20))), tmp_path).media_type == "text/plain"
    assert "a log" in expand(str(tmp_path), allowed=None).skipped[0].reason


def test_in_bold_with_a_date_any_one_word_is_a_speaker(tmp_path: Path) -> None:
    posts = (
        ("Ponte_Vecchio", "Water is hard."),
        ("lime_juice", "Not citric."),
        ("Ponte_Vecchio", "It was the jet."),
        ("mod_ines", "Moved."),
    )
    text = "# Descaling without harm?\n\n" + "\n\n".join(
        f"**{who}** (2025-01-1{at} 22:03): {what}" for at, (who, what) in enumerate(posts)
    )
    found = read(text, tmp_path, "thread.md")
    assert "[22:03] Lime_juice: Not citric." in found.text
    assert "[22:03] Mod_ines: Moved." in found.text
    assert found.title.startswith("Descaling without harm? Conversation of Ponte_Vecchio, Lime_juice")


@pytest.mark.parametrize(
    "keys",
    [
        {"ts": "1778485800.000000", "user": "U2"},
        {"timestamp": "2026-05-11T07:50:00", "author": {"name": "Tom"}},
        {"date": "2026-05-11T07:50:00", "from": "Tom"},
    ],
)
def test_a_compact_export_of_a_messenger_is_read_in_a_folder(keys: dict[str, object], tmp_path: Path) -> None:
    messages = [
        {**keys, "type": "message", "text": "Shut", "content": "Shut", "id": 10**40 + n} for n in range(30)
    ]
    messages.append(
        {"type": "service", "date": "2026-05-11T08:00:00", "text": ""}
    ) if "from" in keys else None
    found = read(
        json.dumps({"name": "The door", "messages": messages}, separators=(",", ":")), tmp_path, "result.json"
    )
    assert found.media_type == "text/x-chat"
    assert found.title.startswith("The door: conversation of ")
    assert [file.name for file in expand(str(tmp_path), allowed=None).files] == ["result.json"]


def test_a_channel_and_its_server_name_an_export(tmp_path: Path) -> None:
    message = {"timestamp": "2026-05-11T07:50:00+00:00", "content": "Down again.", "author": {"name": "Tom"}}
    export = {"guild": {"name": "Heron"}, "channel": {"name": "incidents"}, "messages": [message]}
    assert (
        read(json.dumps(export), tmp_path, "a.json").title
        == "incidents, Heron: conversation of Tom, 2026-05-11"
    )


def test_a_chat_without_a_name_of_its_own_has_that_of_its_file_if_it_says_anything(tmp_path: Path) -> None:
    text = "Ann: Is it shut?\nBob: It is.\nAnn: Good.\nBob: Yes.\n"
    titles = [
        read(text, tmp_path, name).title for name in ("incidents.txt", "_chat.txt", "chat_export_2024-05.txt")
    ]
    assert titles == ["incidents: conversation of Ann and Bob", *["Conversation of Ann and Bob"] * 2]


def test_lines_that_are_mostly_a_date_open_a_day(tmp_path: Path) -> None:
    talk = "Ann: Is it shut?\nBob: It is.\n" * 2
    irssi = f"--- Log opened Sat Mar 02 2024\n{talk}--- Day changed Sat Mar 16 2024\n{talk}--- Log closed Sat May 04 22:10:44 2024\n"
    found = read(irssi, tmp_path)
    assert days_of(found.text) == ["# 2024-03-02", "# 2024-03-16"]
    assert found.text.endswith("Bob: It is.\n\n--- Log closed Sat May 04 22:10:44 2024")
    found = read(f"#tern  2025-11-18\n{talk}#tern  2025-12-01\n{talk}", tmp_path)
    assert days_of(found.text) == ["# 2025-11-18", "# 2025-12-01"]
    assert found.text.startswith("# 2025-11-18\n\n#tern  2025-11-18\n\nAnn: ")


def test_a_day_without_a_year_is_in_that_of_the_days_around_it(tmp_path: Path) -> None:
    talk = "Ann: Is it shut?\nBob: It is.\n"
    days = ("Fri 20 December", "Sun 2 Feb (2025)", "Sat 13 July", "--- 1 Sept ---", "Thu 1 Jan")
    found = read("".join(f"{day}\n{talk}" for day in days), tmp_path)
    assert days_of(found.text) == [
        "# 2024-12-20",
        "# 2025-02-02",
        "# 2025-07-13",
        "# 2025-09-01",
        "# 2026-01-01",
    ]
    assert days_of(read(f"Sat 13 July\n{talk}{talk}", tmp_path).text) == ["# Sat 13 July"]


def test_a_day_on_a_line_of_its_own_is_said_where_nothing_marks_it(tmp_path: Path) -> None:
    text = "Ann: The deadlines are:\n4 March\n- 31 May\nDue 2025-03-03\nBob: Thanks.\nAnn: Good.\nBob: Yes.\nAnn: Bye.\nBob: Bye.\n"
    assert read(text, tmp_path).text.startswith(
        "Ann: The deadlines are:\n4 March\n- 31 May\nDue 2025-03-03\n\n"
    )


def test_the_front_matter_of_a_chat_is_metadata_and_no_turn(tmp_path: Path) -> None:
    text = "---\nchannel: heron-retro\ndate: 2025-01-27\nowner: Petra\n---\n**Petra** 10:00 What went well?\n**Sam** 10:02 The plan.\n**Petra** 10:03 Good.\n"
    for found in (
        read(text, tmp_path, "retro.md"),
        load(DocumentSource(text=text), allowed=(), max_bytes=9_999),
    ):
        assert found.text.startswith("# 2025-01-27\n\n[10:00] Petra: What went well?")
        assert found.title == "heron-retro: conversation of Petra and Sam, 2025-01-27"
        assert found.metadata == {"channel": "heron-retro", "date": "2025-01-27", "owner": "Petra"}


def test_a_long_line_of_signs_costs_no_time(tmp_path: Path) -> None:
    talk = "2024-03-02 19:00 kestrel: do we trust him?\n" * 400
    lines = "".join(f"{sign * 20_000}\n{sign * 50}\n" for sign in "#-=_*A '" for _ in range(4))
    assert read(talk + lines, tmp_path).media_type == "text/x-chat"
