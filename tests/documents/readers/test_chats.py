"""Exports of chats are read as turns with speaker and time, and nothing else is taken for a chat."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.model import Chunk, DocumentSource, LoadedDocument
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import expand, load
from leanrag_engine.documents.readers.chats import read_chat, read_export
from leanrag_engine.extraction.heuristic.extract import extract

ANDROID = """12/05/2023, 21:03 - Messages and calls are end-to-end encrypted. No one outside of this chat can read them.
12/05/2023, 21:03 - Mei Lin: Hi Tomasz, the curtains arrived today!
12/05/2023, 21:05 - Tomasz Nowak: Great. Do they fit the balcony door?
The rail is 2.4 m wide.
13/05/2023, 08:15 - Mei Lin: They do. I'll hang them on Saturday
13/05/2023, 08:16 - Tomasz Nowak: <Media omitted>
"""
IPHONE = """[12.05.23, 21:03:11] Mei Lin: Hi Tomasz, the curtains arrived today!
[12.05.23, 21:05:02] Tomasz Nowak: Great. Do they fit the balcony door?
The rail is 2.4 m wide.
[13.05.23, 08:15:40] Mei Lin: They do. I'll hang them on Saturday
"""
TELEGRAM = """Mei Lin, [12.05.2023 21:03]
Hi Tomasz, the curtains arrived today!

Tomasz Nowak, [12.05.2023 21:05]
Great. Do they fit the balcony door?
The rail is 2.4 m wide.

Mei Lin, [13.05.2023 08:15]
They do. I'll hang them on Saturday
"""
SLACK = """Friday, May 12, 2023
Mei Lin  9:03 PM
Hi Tomasz, the curtains arrived today!
Tomasz Nowak  9:05 PM
Great. Do they fit the balcony door?
The rail is 2.4 m wide.
Saturday, May 13, 2023
Mei Lin  8:15 AM
They do. I'll hang them on Saturday
"""
IRC = """2023-05-12 21:03:11 <mei_lin> Hi tomasz, the curtains arrived today!
2023-05-12 21:05:02 <tomasz> Great. Do they fit the balcony door?
2023-05-13 08:15:40 <mei_lin> They do. I'll hang them on Saturday
"""
DIALOGUE = """Time: 20230512_21:03

MeiLin: Hi Tomasz, the curtains arrived today!
TomaszNowak: Great. Do they fit the balcony door?
The rail is 2.4 m wide.
MeiLin: They do. I'll hang them on Saturday
TomaszNowak: Good.
"""


def read(text: str, tmp_path: Path, name: str = "export.txt") -> LoadedDocument:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return load(DocumentSource(path=str(file)), allowed=None, max_bytes=1_000_000)


def cut(document: LoadedDocument, limit: int = 200) -> list[Chunk]:
    return chunk(document, tokenizer=TiktokenTokenizer(), max_tokens=limit, overlap=0)


@pytest.mark.parametrize("text", [ANDROID, IPHONE, TELEGRAM, SLACK])
def test_exports_of_all_kinds_become_days_and_turns(text: str, tmp_path: Path) -> None:
    found = read(text, tmp_path)
    assert found.media_type == "text/x-chat"
    paragraphs = found.text.split("\n\n")
    assert [part for part in paragraphs if part.startswith("#")] == ["# 2023-05-12", "# 2023-05-13"]
    turns = [part.partition("] ")[2] for part in paragraphs if "Mei Lin: " in part or "Nowak: " in part]
    assert turns[:3] == [
        "Mei Lin: Hi Tomasz, the curtains arrived today!",
        "Tomasz Nowak: Great. Do they fit the balcony door?\nThe rail is 2.4 m wide.",
        "Mei Lin: They do. I'll hang them on Saturday",
    ]
    assert found.title == "Conversation of Mei Lin and Tomasz Nowak, 2023-05-12 to 2023-05-13"
    assert found.metadata["date"] == "2023-05-12"


def test_what_happened_between_turns_is_kept(tmp_path: Path) -> None:
    assert "[21:03] Messages and calls are end-to-end encrypted." in read(ANDROID, tmp_path).text


MARKDOWN = """# #curtains

## 12 May 2023

**mei.lin** 21:03
Hi Tomasz, the curtains arrived today!

**tomasz** 21:05
Great. Do they fit the balcony door?
The rail is 2.4 m wide.

## 13 May 2023

**mei.lin** 08:15
They do. I'll hang them on Saturday

**ann** 08:20
Lovely.
"""


@pytest.mark.parametrize("text", [MARKDOWN, MARKDOWN.replace("**", ""), MARKDOWN.replace("\n\n", "\n")])
def test_nicknames_above_what_they_say_are_speakers(text: str, tmp_path: Path) -> None:
    found = read(text, tmp_path, "curtains.md")
    paragraphs = found.text.split("\n\n")
    assert paragraphs[1:] == [
        "# 2023-05-12",
        "[21:03] Mei.lin: Hi Tomasz, the curtains arrived today!",
        "[21:05] Tomasz: Great. Do they fit the balcony door?\nThe rail is 2.4 m wide.",
        "# 2023-05-13",
        "[08:15] Mei.lin: They do. I'll hang them on Saturday",
        "[08:20] Ann: Lovely.",
    ]
    assert found.metadata["date"] == "2023-05-12"
    entities = {entity.name: entity for entity in extract(cut(found), found.title)[0].entities}
    assert entities["Tomasz"].type == "person"
    assert "tomasz" not in entities


def test_a_speaker_in_bold_may_stand_on_the_line_of_the_turn(tmp_path: Path) -> None:
    text = "**Mei** 21:03 The curtains arrived.\n\n**Tom** (21:05): Great.\n\n**Mei** 21:06 - Do they fit?\n"
    found = read(text, tmp_path, "curtains.md")
    assert found.text.split("\n\n") == [
        "[21:03] Mei: The curtains arrived.",
        "[21:05] Tom: Great.",
        "[21:06] Mei: Do they fit?",
    ]


def test_in_a_chat_with_times_a_label_without_one_is_no_speaker(tmp_path: Path) -> None:
    found = read(
        MARKDOWN.replace("Lovely.", "Lovely. June: the blinds. Gallery: the rails."), tmp_path, "curtains.md"
    )
    people = {
        entity.name for entity in extract(cut(found), found.title)[0].entities if entity.type == "person"
    }
    assert people == {"Mei.lin", "Tomasz", "Ann"}


def test_a_timetable_in_small_letters_is_no_chat(tmp_path: Path) -> None:
    text = "breakfast 8:00\nEggs and bread.\nlunch 12:30\nSoup of the day.\ndinner 19:00\nFish.\n"
    assert read(text, tmp_path).media_type == "text/plain"


def test_nicknames_of_irc_are_speakers_even_in_a_log(tmp_path: Path) -> None:
    found = read(IRC, tmp_path, "channel.log")
    assert "[21:05:02] Tomasz: Great. Do they fit" in found.text
    assert found.text.startswith("# 2023-05-12\n\n[21:03:11] Mei_lin: Hi tomasz")


def test_plain_dialogue_takes_its_day_and_time_from_the_line_above_it() -> None:
    found = load(DocumentSource(text=DIALOGUE), allowed=(), max_bytes=10_000)
    assert found.text.startswith(
        "# 2023-05-12\n\n[21:03] MeiLin: Hi Tomasz, the curtains arrived today!\n\n[21:03] Tom"
    )
    assert found.title == "Conversation of MeiLin and TomaszNowak, 2023-05-12"


def test_a_date_that_could_be_two_days_stays_as_written(tmp_path: Path) -> None:
    text = "03/04/23, 21:03 - Ann: Hello\n03/04/23, 21:04 - Bob: Hello Ann\n03/04/23, 21:05 - Ann: Bye\n"
    found = read(text, tmp_path)
    assert found.text.startswith("# 03/04/23\n")
    assert "date" not in found.metadata


@pytest.mark.parametrize(
    "text",
    [
        "Name: Ann Lee\nAge: 34\nCity: Oslo\nColour: Red\nSize: XL\nShape: Round\n",
        "Note: keep it cool.\nNote: keep it dry.\nWarning: it burns.\nNote: shake well.\n",
        "2024-01-02 10:00:01 INFO Server: started\n2024-01-02 10:00:02 WARN Server: slow\n" * 5,
        "Jan 12 10:00:01 host sshd[311]: Accepted key\nJan 12 10:00:02 host sshd[311]: Closed\n" * 5,
        "We met at 12:03. Ann said: stay. Bob said: go.\n\nThen at 13:10 it rained and everybody went home.\n"
        * 4,
        "name: build\nsteps:\n  run: make\n  uses: cache\n  with: key\n",
        "Q: What is it?\nA: A tool.\nQ: Who wrote it?\nA: Nobody knows.\n",
    ],
)
def test_lists_of_fields_logs_and_prose_are_no_chats(text: str, tmp_path: Path) -> None:
    assert read(text, tmp_path).media_type == "text/plain"


def test_chunks_of_a_chat_end_with_a_turn(tmp_path: Path) -> None:
    text = "".join(
        f"[2023-05-12 21:{minute:02}] {'Ann Lee' if minute % 2 else 'Bob Ray'}: We talk of the fence. It is number {minute}. Is it new?\n"
        for minute in range(40)
    )
    chunks = cut(read(text, tmp_path), 64)
    assert len(chunks) > 5
    assert all(each.text.startswith(("[21:", "# 2023")) for each in chunks)
    assert all(each.text.endswith("Is it new?") for each in chunks)
    assert {each.heading for each in chunks} == {"2023-05-12"}


def test_speakers_are_persons_and_turns_keep_their_speaker(tmp_path: Path) -> None:
    (found,) = extract(cut(read(ANDROID, tmp_path)), "Conversation")
    types = {entity.name: entity.type for entity in found.entities}
    assert types["Mei Lin"] == types["Tomasz Nowak"] == "person"
    assert not [name for name in types if "Hi" in name.split() or ":" in name or "21" in name]
    told = {frozenset((each.source, each.target)): each.description for each in found.relations}
    fitting = [text for pair, text in told.items() if pair == {"Tomasz Nowak", "balcony door"}]
    assert fitting == ["[21:05] Tomasz Nowak: Great. Do they fit the balcony door? The rail is 2.4 m wide."]


def test_what_a_thread_is_about_is_an_entity(tmp_path: Path) -> None:
    text = (
        "[10:00] Ann Lee: My curtain is torn\n[10:01] Bob Ray: Which curtain?\n[10:02] Ann Lee: The one in the hall\n"
        "[10:03] Bob Ray: I can sew it. Bring the curtain on Monday\n[10:04] Ann Lee: Thanks!\n"
    )
    (found,) = extract(cut(read(text, tmp_path)), "Conversation")
    assert "curtain" in {entity.name for entity in found.entities}


def test_speakers_written_with_and_without_a_space_are_one(tmp_path: Path) -> None:
    text = (
        "[10:00] MeiLin: Hello Tomasz\n[10:01] Tomasz: Hello Mei Lin, is Mei Lin well?\n[10:02] MeiLin: Yes\n"
    )
    (found,) = extract(cut(read(text, tmp_path)), "Conversation")
    names = [entity.name for entity in found.entities if entity.name.replace(" ", "") == "MeiLin"]
    assert len(names) == 1


def test_a_chat_is_read_in_linear_time() -> None:
    line = "[2023-05-12 21:03] Ann Lee: We talk of the fence, at length, and of the gate.\n"
    found = load(DocumentSource(text=line * 5_000), allowed=(), max_bytes=10_000_000)
    starts = [part[:8] for part in found.text.split("\n\n")[1:]]
    assert set(starts) == {"[21:03] "}
    assert len(list(pairwise(starts))) == 4_999


@pytest.mark.parametrize(
    "form",
    ["[2026-03-27 09:0{0}] <{1}> {2}", "27/03/2026, 09:0{0} - {1}: {2}", "[27.03.26, 09:0{0}:00] {1}: {2}"],
)
def test_a_group_of_many_who_hardly_return_is_a_chat(form: str) -> None:
    said = {
        "Gus": "slate arrived",
        "Ines": "I frame one",
        "Pri": "who packs?",
        "Dov": "insured",
        "Noor": "room 12",
    }
    chat = read_chat("\n".join(form.format(at, *each) for at, each in enumerate(said.items())))
    assert chat is not None
    assert "[09:02] Pri: who packs?" in chat.text.replace(":00]", "]")


def test_a_transcript_has_the_day_of_its_first_line_speakers_with_their_roles_and_a_note_of_its_own() -> None:
    said = (
        "Signe Krogh (Nordhavn, logistics): Frames cost more.",
        "Jonas: How much?",
        "Signe Krogh: Ten.",
        "Jonas: I'll ask.",
    )
    first, note = "Review with Nordhavn, 19 February 2025", "Two new seats from March."
    chat = read_chat("\n\n".join([first, *said, note]))
    assert chat is not None
    assert chat.metadata["date"] == "2025-02-19"
    assert chat.title.startswith("Conversation of Signe Krogh and Jonas")
    assert chat.text.split("\n\n") == [
        "# 2025-02-19", first, "Signe Krogh: (Nordhavn, logistics) Frames cost more.", *said[1:], note
    ]  # fmt: skip


def test_people_who_write_in_a_day_of_slack_are_named_where_they_are_mentioned_without_a_list_of_people() -> (
    None
):
    messages = [
        {"type": "message", "user": "U06CALLUM", "user_profile": {"real_name": "Callum Reyes"}, "ts": "1778485800.0", "text": "Ask <@U03BEATRIZ>."},
        {"type": "message", "user": "U03BEATRIZ", "user_profile": {"display_name": "bea"}, "ts": "1778485860.0", "text": "Ok."},
        {"type": "message", "user": "U03BEATRIZ", "ts": "1778485920.0", "text": "<@U06CALLUM> done."},
    ]  # fmt: skip
    chat = read_export(json.dumps(messages))
    assert chat is not None
    assert [each[8:] for each in chat.text.split("\n\n")[1:]] == [
        "Callum Reyes: Ask @bea.", "bea: Ok.", "bea: @Callum Reyes done."
    ]  # fmt: skip


def test_dates_and_times_within_what_is_said_stay_where_turns_bear_dates() -> None:
    text = (
        "[06.01.26, 12:03:11] Ines: The deadlines are:\n4 March 2025\nand then\n31 May 2026\n"
        "[06.01.26, 12:04:00] Tom: Agenda:\n10:30 budget talk by Kirsty\n11:00 Break\n"
        "[07.01.26, 09:00:00] Ines: Thanks.\n[07.01.26, 09:01:00] Tom: See you.\n"
    )
    chat = read_chat(text)
    assert chat is not None
    assert "Ines: The deadlines are:\n4 March 2025\nand then\n31 May 2026\n" in chat.text
    assert "Tom: Agenda:\n10:30 budget talk by Kirsty\n11:00 Break\n" in chat.text


@pytest.mark.parametrize(
    "export",
    [
        [
            {"type": "message", "user": "U2", "text": "See <https://a.example/b|the offer>, 5 &gt; 4.", "ts": "1778485800.000000",
             "user_profile": {"real_name": "Tom Okafor"}},
            {"type": "message", "user": "U3", "text": "Yes.\nFrom June.", "ts": "1778486580.000100", "user_profile": {"real_name": "Priya"}},
        ],
        {"name": "Ops", "messages": [
            {"id": 1, "date_unixtime": "1778485800", "type": "message", "date": "2026-05-11T07:50:00", "from": "Tom Okafor",
             "text": ["See ", {"type": "link", "text": "the offer"}, ", 5 > 4."]},
            {"id": 2, "date_unixtime": "1778485800", "type": "service", "date": "2026-05-11T07:59:00", "actor": "Tom Okafor", "text": ""},
            {"id": 3, "date_unixtime": "1778485800", "type": "message", "date": "2026-05-11T08:03:00", "from": "Priya", "text": "Yes.\nFrom June."},
        ]},
        {"guild": {"name": "Ops"}, "messages": [
            {"timestamp": "2026-05-11T07:50:00.123+00:00", "content": "See the offer, 5 > 4.", "author": {"name": "tom", "nickname": "Tom Okafor"}},
            {"timestamp": "2026-05-11T08:03:00+00:00", "content": "Yes.\nFrom June.", "author": {"name": "Priya"}},
        ]},
    ],
)  # fmt: skip
def test_exports_of_messengers_in_json_are_read_as_turns(tmp_path: Path, export: object) -> None:
    (tmp_path / "day.json").write_text(json.dumps(export))
    chat = load(DocumentSource(path=str(tmp_path / "day.json")), allowed=None, max_bytes=10_000)
    assert (
        chat.text
        == "# 2026-05-11\n\n[07:50] Tom Okafor: See the offer, 5 > 4.\n\n[08:03] Priya: Yes.\nFrom June."
    )
    assert (chat.date, chat.title, chat.media_type) == (
        "2026-05-11",
        f"{'C' if isinstance(export, list) else 'Ops: c'}onversation of Tom Okafor and Priya, 2026-05-11",
        "text/x-chat",
    )


@pytest.mark.parametrize(
    "other", [{"messages": [{"text": "no time"}]}, {"messages": "3"}, [1, 2], {"ts": 3}, "x"]
)
def test_other_json_is_no_chat(tmp_path: Path, other: object) -> None:
    (tmp_path / "a.json").write_text(json.dumps(other))
    assert (
        load(DocumentSource(path=str(tmp_path / "a.json")), allowed=None, max_bytes=10_000).media_type
        == "application/json"
    )


@pytest.mark.parametrize("voice", ["<v {}>{}</v>", "{}: {}"])
def test_transcripts_of_meetings_are_read_as_turns(tmp_path: Path, voice: str) -> None:
    said = [
        ("Anna Smith", "The lamp is lit at six."),
        ("Tom Okafor", "Who lights it?"),
        ("Anna Smith", "Ines does."),
        ("Tom Okafor", "Good."),
    ]
    cues = (
        f"{number}\n00:0{number}:01.000 --> 00:0{number}:04.500 align:start\n{voice.format(*each)}\n"
        for number, each in enumerate(said)
    )
    (tmp_path / "call.vtt").write_text("WEBVTT\n\n" + "\n".join(cues))
    chat = load(DocumentSource(path=str(tmp_path / "call.vtt")), allowed=None, max_bytes=10_000)
    assert chat.text == "\n\n".join(f"{name}: {text}" for name, text in said)
    assert chat.title == "Conversation of Anna Smith and Tom Okafor"


def test_subtitles_are_read_without_their_times(tmp_path: Path) -> None:
    (tmp_path / "film.srt").write_text(
        "1\n00:00:01,000 --> 00:00:04,000\nThe sea was calm.\n\n2\n00:00:05,000 --> 00:00:07,000\nThen it rose.\n"
    )
    film = load(DocumentSource(path=str(tmp_path / "film.srt")), allowed=None, max_bytes=10_000)
    assert film.text == "The sea was calm.\n\nThen it rose."


def test_cues_through_which_a_sentence_or_a_speech_runs_are_one_paragraph(tmp_path: Path) -> None:
    cues = (
        "Tape seven.",
        "INTERVIEWER: When did the",
        "ship go down?",
        "MRS JELBERT: At ten past five in the",
        "morning. Eleven men were on board.",
        "INTERVIEWER: And then?",
        "MRS JELBERT: Nine",
        "came home.",
    )
    timed = (f"00:0{at}:01.000 --> 00:0{at}:04.500\n{cue}\n" for at, cue in enumerate(cues))
    (tmp_path / "tape.vtt").write_text("WEBVTT - The Morvenna\n\n" + "\n".join(timed))
    tape = load(DocumentSource(path=str(tmp_path / "tape.vtt")), allowed=None, max_bytes=10_000)
    assert tape.title == "The Morvenna"
    assert tape.text.split("\n\n") == [
        "Tape seven.",
        "INTERVIEWER: When did the ship go down?",
        "MRS JELBERT: At ten past five in the morning. Eleven men were on board.",
        "INTERVIEWER: And then?",
        "MRS JELBERT: Nine came home.",
    ]
    (tmp_path / "long.srt").write_text(
        "".join(f"{n}\n00:00:01,000 --> 00:00:02,000\nand so on\n\n" for n in range(999))
    )
    film = load(DocumentSource(path=str(tmp_path / "long.srt")), allowed=None, max_bytes=100_000)
    assert max(map(len, film.text.split("\n\n"))) < 3000


def test_what_comes_with_messages_is_named_and_no_message_of_an_export_is_lost(tmp_path: Path) -> None:
    slack = [
        {
            "type": "message",
            "bot_id": "B1",
            "text": "",
            "ts": "1778485800.000000",
            "attachments": [
                {"title": "Build 4471", "text": "failed", "fields": [{"title": "Step", "value": "link"}]}
            ],
        },
        {
            "type": "message",
            "user": "U2",
            "text": "",
            "ts": "1778486580.000000",
            "files": [{"name": "plan.pdf"}],
        },
    ]
    (tmp_path / "day.json").write_text(json.dumps(slack))
    chat = load(DocumentSource(path=str(tmp_path / "day.json")), allowed=None, max_bytes=10_000)
    assert (
        chat.text == "# 2026-05-11\n\n[07:50] Unknown: Build 4471\nfailed\nStep\nlink\n\n[08:03] U2: plan.pdf"
    )


def test_what_begins_with_a_time_below_its_speaker_is_said_by_that_speaker(tmp_path: Path) -> None:
    text = "Ann Lee  09:12\nWhen?\n\nBob Ray  09:14\n9:30 works for me\n\nAnn Lee  09:15\nFine\n\nBob Ray  09:16\nGood\n"
    assert "[09:14] Bob Ray: 9:30 works for me" in read(text, tmp_path).text


@pytest.mark.parametrize(
    ("who", "when", "said"),
    [
        ("author", "timestamp", "text"),
        ("sender", "time", "message"),
        ("from", "created_at", "body"),
        ("user", "ts", "text"),
        ("role", "timestamp", "content"),
    ],
)
def test_json_of_any_program_that_says_who_when_and_what_is_a_chat(
    who: str, when: str, said: str, tmp_path: Path
) -> None:
    turns = [("Ann Weiss", "The printer is dead."), ("Bob Lund", "Restart it.")]
    export = [{who: name, when: "2025-03-07T07:15:00Z", said: text} for name, text in turns]
    found = read(json.dumps(export), tmp_path, "day.json")
    assert (
        found.text
        == "# 2025-03-07\n\n[07:15] Ann Weiss: The printer is dead.\n\n[07:15] Bob Lund: Restart it."
    )
    comment = [{"user": {"login": "annw"}, when: "2025-03-07T07:15:00Z", said: "It is dead."}]
    if who == "user":
        assert "annw: It is dead." in read(json.dumps(comment), tmp_path, "day.json").text


def test_blocks_fields_and_answers_of_a_poll_are_read(tmp_path: Path) -> None:
    block = {"type": "section", "text": {"type": "mrkdwn", "text": "Deploy 4471 is done."}}
    slack = [{"type": "message", "bot_id": "B1", "text": "", "ts": "1778485800.000000", "blocks": [block]}]
    fields = [{"name": "Status", "value": "down"}, {"name": "Backup", "value": "down"}]
    rich = {
        "type": "rich_text_section",
        "elements": [
            {"type": "text", "text": "It is "},
            {"type": "text", "text": "down"},
            {"type": "emoji", "name": "fire"},
        ],
    }
    button = {"type": "button", "text": {"type": "plain_text", "text": "Retry"}, "value": "click_me_123"}
    slack += [
        {
            "type": "message",
            "bot_id": "B1",
            "text": "",
            "ts": "1778485801.000000",
            "blocks": [{"type": "rich_text", "elements": [rich]}, {"type": "actions", "elements": [button]}],
        }
    ]
    discord = {
        "messages": [
            {
                "timestamp": "2026-05-11T07:50:00+00:00",
                "author": {"name": "Ops"},
                "content": "",
                "embeds": [{"fields": fields}],
            }
        ]
    }
    poll = {"question": "When do we meet?", "answers": [{"text": "Monday", "voters": 2}]}
    telegram = {
        "messages": [
            {
                "date_unixtime": "1",
                "type": "message",
                "date": "2026-05-11T07:50:00",
                "from": "Ana",
                "text": "",
                "poll": poll,
            }
        ]
    }
    texts = (
        "Deploy 4471 is done.\n\n[07:50] Unknown: It is down\nRetry",
        "Status\ndown\nBackup\ndown",
        "When do we meet?\nMonday",
    )
    for export, said in zip((slack, discord, telegram), texts, strict=True):
        (tmp_path / "day.json").write_text(json.dumps(export))
        chat = load(DocumentSource(path=str(tmp_path / "day.json")), allowed=None, max_bytes=10_000)
        assert chat.text.endswith(f": {said}")


PEOPLE = [
    {"id": "U024BE7LH", "team_id": "T1", "name": "tom", "profile": {"real_name": 'Tom "Tommy" Okafor'}},
    {"id": "W0G9QF9GW", "team_id": "T1", "name": "priya", "real_name": "Priya Nair", "profile": {}},
]  # fmt: skip
CHANNELS = [{"id": "C01ABCDEF", "name": "boiler", "created": 1778485800, "creator": "U024BE7LH"}]
POSTS = [
    {"type": "message", "user": "U024BE7LH", "ts": "1778485800.000000", "text": "<@W0G9QF9GW>, see <#C01ABCDEF> on /archives/C01ABCDEF.",
     "user_profile": {"real_name": 'Tom "Tommy" Okafor'}},
    {"type": "message", "user": "W0G9QF9GW", "ts": "1778485860.000000", "text": "Done, <@U024BE7LH|tom> &amp; <@UNKNOWN99>."},
    {"type": "message", "user": "U024BE7LH", "ts": "1778485920.000000", "text": "Thanks."},
]  # fmt: skip


def write_slack(folder: Path, people: object = PEOPLE) -> Path:
    day = folder / "general" / "2026-05-11.json"
    day.parent.mkdir()
    for file, content in (
        (folder / "users.json", people),
        (folder / "channels.json", CHANNELS),
        (day, POSTS),
    ):
        file.write_text(json.dumps(content))
    return day


def test_people_and_channels_of_an_export_of_slack_have_their_names_and_their_lists_are_left_out(
    tmp_path: Path,
) -> None:
    day = write_slack(tmp_path)
    found = expand(str(tmp_path), allowed=[tmp_path])
    assert found.files == (day,)
    assert {each.path.name: each.reason for each in found.skipped} == dict.fromkeys(
        ["channels.json", "users.json"],
        "names in an export of Slack, no prose; to read it all the same, ingest it by its own path",
    )
    chat = load(DocumentSource(path=str(day)), allowed=[tmp_path], max_bytes=10_000)
    assert chat.text == (
        '# 2026-05-11\n\n[07:50] Tom "Tommy" Okafor: @Priya Nair, see #boiler on /archives/C01ABCDEF.\n\n'
        '[07:51] Priya Nair: Done, @Tom "Tommy" Okafor & <@UNKNOWN99>.\n\n[07:52] Tom "Tommy" Okafor: Thanks.'
    )
    assert chat.title == 'general: conversation of Tom "Tommy" Okafor and Priya Nair, 2026-05-11'


@pytest.mark.parametrize(
    "people",
    [
        "x",
        [
            1,
            {"id": 3},
            {"id": "U024BE7LH", "team_id": 1, "name": None},
            {"id": "\ud800", "creator": 1, "name": "\ud800"},
        ],
        {"id": "U024BE7LH"},
    ],
)
def test_a_list_of_people_that_is_none_names_nobody(tmp_path: Path, people: object) -> None:
    chat = load(DocumentSource(path=str(write_slack(tmp_path, people))), allowed=None, max_bytes=10_000)
    assert "[07:51] W0G9QF9GW: Done" in chat.text


def test_a_list_of_people_beyond_the_allowed_folder_is_not_opened(tmp_path: Path) -> None:
    day = write_slack(tmp_path)
    chat = load(DocumentSource(path=str(day)), allowed=[day.parent], max_bytes=10_000)
    assert "[07:51] W0G9QF9GW: Done" in chat.text


FORUM = """Forum: night sky
Exported on 2 March 2025

== Thread: Frost on the lens ==
[2024-11-03 18:22] mira_k: The lens freezes over before midnight.
[2024-11-04 20:10] old_owl: Mine did too.
-- try a dew strap --
[2024-11-05 07:41] mira_k: It works!

== Thread: Which tripod? ==
[2024-11-05 08:03] petra: Is the wooden one worth it?
"""


def test_the_title_of_a_thread_is_a_heading_above_its_days(tmp_path: Path) -> None:
    assert read(FORUM, tmp_path).text.split("\n\n") == [
        "Forum: night sky\nExported on 2 March 2025",
        *("# Thread: Frost on the lens", "## 2024-11-03"),
        "[18:22] Mira_k: The lens freezes over before midnight.",
        *("## 2024-11-04", "[20:10] Old_owl: Mine did too.\n-- try a dew strap --"),
        *("## 2024-11-05", "[07:41] Mira_k: It works!"),
        *("# Thread: Which tripod?", "## 2024-11-05", "[08:03] Petra: Is the wooden one worth it?"),
    ]
