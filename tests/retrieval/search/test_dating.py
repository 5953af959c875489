"""Documents gain by their dates where a question names one, or asks for what holds now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from leanrag_tests_jobs import ingest, open_engine

from leanrag_engine.core.model import FILE_TIME, Chunk, DocumentSource, Window
from leanrag_engine.retrieval.request import Query
from leanrag_engine.retrieval.search.dating import (
    find_named_dates,
    put_newer_first,
    put_other_dates_back,
    weigh_dates,
)
from leanrag_engine.retrieval.search.relevance import RankedWindow

pytestmark = pytest.mark.anyio


def dated(document: str, date: str, origin: str = "title") -> Chunk:
    return Chunk(document, document, 1, "x", 0, 1, 1, date=date, date_origin=origin)


def test_the_newest_document_gains_most_where_the_question_asks_for_what_holds_now() -> None:
    notes = [dated(f"doc{place}", f"2024-0{place}-01") for place in (1, 2, 3)]
    assert weigh_dates("What is the ceiling now?", notes, 0.6, 1.0) == {"doc1": 0.0, "doc2": 0.3, "doc3": 0.6}
    assert not weigh_dates("What was the ceiling?", notes, 0.6, 1.0)
    assert not weigh_dates("What is it now?", [dated("a", "")], 0.6, 1.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What did they eat on October 24, 2023?", ["2023-10-24"]),
        ("What was decided on 3 July 2023, and in August?", ["2023-07-03", "-08"]),
        ("What happened between March and June 2019?", ["2019-03", "2019-04", "2019-05", "2019-06"]),
        ("Sales from November 2019 to January 2020", ["2019-11", "2019-12", "2020-01"]),
        ("Which motions of 2018 were carried?", ["2018"]),
        ("What was decided in 2021 and 2022?", ["2021", "2022"]),
        ("What was built from 2016 to 2018?", ["2016", "2017", "2018"]),
        ("Who came in the summer of 2012?", ["2012-06", "2012-07", "2012-08"]),
        ("Who wrote in the early 1990s?", ["1990", "1991", "1992", "1993", "1994"]),
        ("Where was it in the 1980s?", ["198"]),
        ("What does motion M-2018-07 say of the budget 2009/10?", []),
        ("What happened in July and August, in order?", ["-07", "-08"]),
        ("Which dog had he in May 2023?", ["2023-05"]),
        ("What may they do? They march on.", []),
        ("Which mission landed on Mars?", []),
        ("What was new in 2021?", ["2021"]),
        ("How many screws of 2000 mm?", []),
    ],
)
def test_days_months_and_years_that_a_question_names_are_found(text: str, named: list[str]) -> None:
    assert find_named_dates(text) == named


def test_documents_of_a_named_date_gain_by_how_near_they_are() -> None:
    notes = [
        dated("day", "2023-07-24"),
        dated("week", "2023-07-17"),
        dated("month", "2023-09-24"),
        dated("vague", "2023-07"),
        dated("file", "2023-07-24", FILE_TIME),
    ]
    assert weigh_dates("What was said on July 24, 2023?", notes, 0.6, 1.0) == {
        "day": 1.0,
        "week": 0.5,
        "month": 0.0,
        "vague": 0.0,
    }
    july = weigh_dates("What was said in July, as of now?", notes, 0.6, 1.0)
    assert july == {"day": 1.0, "week": 1.0, "month": 0.0, "vague": 1.0}


def test_the_time_of_a_file_is_no_date_beside_documents_that_have_one() -> None:
    minutes, copied = dated("doc1", "2024-01-01", "file name"), dated("doc2", "2026-01-01", FILE_TIME)
    assert set(weigh_dates("What is the ceiling now?", [minutes, copied], 0.6, 1.0)) == {"doc1"}
    assert set(weigh_dates("What is the ceiling now?", [copied], 0.6, 1.0)) == {"doc2"}


def statements(*said: tuple[str, str, float], heading: str = "") -> list[RankedWindow]:
    """Windows with a date, a text and a value, each of another document."""
    return [
        RankedWindow(
            Chunk(
                f"c{n}",
                f"doc{n}",
                1,
                text,
                0,
                len(text),
                1,
                date=date,
                windows=(Window(0, len(text), heading),),
            ),
            0,
            value,
            value,
        )
        for n, (date, text, value) in enumerate(said)
    ]


@pytest.mark.parametrize("asked", ["Who is the treasurer now?", "Wer ist derzeit treasurer?"])
def test_a_newer_statement_stands_before_an_older_one_that_says_no_more_of_the_question(asked: str) -> None:
    found = statements(
        ("2024-06-14", "The treasurer is Tom.", 5.0),
        ("2025-11-08", "The treasurer is Hannah.", 4.5),
        ("2023-01-01", "The treasurer is Ned.", 4.0),
        ("2026-01-01", "The pontoon has lights.", 3.9),
        ("", "Ask the treasurer.", 3.8),
    )
    ranked = put_newer_first(found, asked)
    assert [each.chunk.id for each in ranked] == ["c1", "c0", "c2", "c3", "c4"]
    assert [each.chunk.id for each in ranked if each.older] == ["c0", "c2"]
    assert ranked[0].value == pytest.approx(ranked[0].explain().recent + 4.5)
    assert ranked[0].value > ranked[1].value
    assert put_newer_first(found, "Who was the treasurer?") == found


def test_a_newer_statement_of_another_amount_stands_first_where_one_thing_is_asked_for() -> None:
    found = statements(
        ("2023-11-06", "The roof leaks. Admission for adults stays at 7 EUR in the coming season.", 5.0),
        ("2024-10-14", "From the next season adults pay 9 EUR admission. The crane turns again.", 4.5),
        ("2025-02-10", "The boiler for adults who pay no admission cost 2,600 francs.", 4.4),
    )
    ranked = put_newer_first(found, "How much is admission for adults?")
    assert [(each.chunk.id, each.older) for each in ranked] == [("c1", False), ("c0", True), ("c2", False)]
    for other in ("How did admission for adults change?", "How much was admission for adults in 2023?"):
        assert put_newer_first(found, other) == found
    moved = statements(
        ("2025-02-02", "The ferry to Bergen leaves on 2 June.", 5.0),
        ("2025-03-16", "As the exam was put off, the ferry to Bergen leaves on 9 June.", 4.5),
    )
    assert put_newer_first(moved, "When does the ferry to Bergen leave?")[0].chunk.id == "c1"


@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        (
            "The yearly fee is 14,400 euros plus tax.",
            "2. The yearly fee becomes 16,750 from 1 May.",
            "What is the yearly fee?",
        ),
        (
            "The yearly fee is €980 a visit.",
            "The yearly fee is €890 with oil.",
            "How high is the yearly fee?",
        ),
        (
            "The hirer pays a deposit of 7,500 euros before the crane is handed over.",
            "to the hire of the crane by Mill AG.\n\nThe deposit is raised to 9,000.",
            "How high is the deposit for the crane?",
        ),
    ],
)
def test_a_newer_amount_may_lack_the_unit_and_its_sentence_what_the_document_is_about(
    before: str, after: str, question: str
) -> None:
    found = statements(("2022-03-03", before, 5.0), ("2024-11-12", after, 4.5))
    assert [each.chunk.id for each in put_newer_first(found, question)] == ["c1", "c0"]
    assert put_newer_first(found, f"{question[:-1]} in 2022?") == found
    said = "The yearly fee and the deposit for the crane were spoken of in 2024, for 3 hours, and in room 5."
    of_year = statements(("2022-03-03", before, 5.0), ("2024-11-12", said, 4.5))
    assert put_newer_first(of_year, question) == of_year


def test_a_newer_document_that_shares_one_word_of_many_makes_none_older() -> None:
    found = statements(
        ("2024-05-27", "The cost of a membership goes up to 52 euros.", 5.0),
        ("2025-10-12", "The trip has a cost of 20 each.", 4.5),
        ("2025-11-01", "A new member brings a friend at no cost.", 4.4),
    )
    older = [
        each
        for each in put_newer_first(found[1:], "What is the harvest fee, its cost and its reason now?")
        if each.older
    ]
    assert not older


def test_a_heading_tells_the_date_of_what_stands_below_it() -> None:
    (old,) = statements(("2025-01-01", "The winch lifts 4 tonnes.", 5.0), heading="2025-03-04")
    (new,) = statements(("2024-12-31", "The winch lifts 3 tonnes.", 4.9), heading="21 October 2025")
    new = replace(new, chunk=replace(new.chunk, id="new"))
    assert [each.chunk.id for each in put_newer_first([old, new], "What does the winch lift now?")] == [
        "new",
        "c0",
    ]


async def test_of_like_notes_that_of_the_month_that_is_named_comes_first(tmp_path: Path) -> None:
    months = ("January", "February", "March", "April", "June", "July")
    sources = [
        DocumentSource(
            text=f"The keeper painted the north door of the boat house {colour}.",
            title=f"Log of 2023-{number:02d}-11",
            id=f"log{number}",
        )
        for number, colour in zip(
            (1, 2, 3, 4, 6, 7), ("red", "blue", "grey", "white", "green", "black"), strict=True
        )
    ]
    async with open_engine(tmp_path) as engine:
        await ingest(engine, sources)
        for place, month in enumerate(months):
            found = await engine.query(Query(f"In which colour did the keeper paint the door in {month}?"))
            assert found.sources[0].chunk.document_id == f"log{(1, 2, 3, 4, 6, 7)[place]}"


@pytest.mark.parametrize(
    "title",
    [
        "# Second amendment to the lease of the mill",
        "# Second amendment\n\nto the lease of the mill of 3 March 2022\n\nSoren, 5 May 2024",
        "# Second amendment\n\nto the lease of the mill of 4 April 2021\n\nSoren, 5 May 2024",
    ],
)
async def test_what_amends_a_section_is_shown_before_it_although_it_has_no_word_of_the_question(
    tmp_path: Path, title: str
) -> None:
    lease = (
        "# Lease of the mill\n\nAgreed on 3 March 2022\n\n## § 1 Object\n\nThe mill at the brook with its pond and the barn behind it is let for the grinding of rye and oats.\n\n"
        "## § 4 Payment\n\nThe miller pays within 14 days of the invoice, and by transfer alone.\n\n"
        "## § 5 Repairs\n\nThe owner mends the wheel and the dam, the miller mends what stands under the roof.\n"
    )
    amendment = (
        f"{title}\n\n1. § 5 is extended: the owner mends the roof as well.\n2. § 4 is replaced: 21 days.\n"
    )
    others = [
        f"# Field {crop}\n\nThe {crop} is cut in week {at}, the invoice for {crop} is paid by the buyers in {at + 1} days."
        for at, crop in enumerate(
            ("rye", "oats", "spelt", "barley", "wheat", "maize", "flax", "hemp", "peas")
        )
    ]
    async with open_engine(tmp_path, embedder="minilm") as engine:
        await ingest(engine, [DocumentSource(text=each) for each in (lease, amendment, *others)])
        found = await engine.query(Query("Within how many days does the miller pay an invoice?"))
    shown = found.context.text
    first = 0 < shown.find("§ 4 is replaced: 21 days") < shown.index("within 14 days")
    assert first == ("2021" not in title)  # that is another lease


async def test_a_heading_that_repeats_title_and_date_is_not_shown(tmp_path: Path) -> None:
    talk = (
        "# Conversation of Ann and Bo, 2023-02-03\n\nBo: When do we sail?\n\nAnn: We sail on Friday at noon.\n\n"
        "Bo: I bring the ropes.\n\n## Afterwards\n\nThe boat needs a new sail before Friday.\n"
    )
    source = DocumentSource(text=talk, title="Conversation of Bo and Ann", metadata={"date": "2023-02-03"})
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [source])
        text = (await engine.query(Query("When do they sail?"))).context.text
        assert "We sail on Friday" in text
        assert text.count("2023-02-03") == 1
        text = (await engine.query(Query("What does the boat need?"))).context.text
        assert "§ Afterwards" in text or "> Afterwards" in text
        found = await engine.search_text("sail in July", match="topic")
        assert found.topic
        assert "July" not in found.topic.absent


def test_of_two_versions_of_a_file_the_later_one_is_the_newer() -> None:
    found = [
        replace(each, chunk=replace(each.chunk, source=f"/notes/travel policy {name}.md"))
        for each, name in zip(
            statements(
                ("2023-05-01", "Receipts are due in 30 days.", 5.0), ("", "Receipts are due in 14 days.", 4.5)
            ),
            ("v9 (2023)", "v10 (2025)"),
            strict=True,
        )
    ]
    for question in (
        "When are receipts due at present?",
        "Until when may I hand in bills?",
        "When are receipts due by the current version?",
    ):
        ranked = put_newer_first(found, question)
        assert [each.chunk.id for each in ranked] == ["c1", "c0"]
        assert [each.chunk.id for each in ranked if each.older] == ["c0"]


def test_the_latest_of_several_versions_comes_first_whatever_the_times_of_their_files() -> None:
    found = [
        replace(each, chunk=replace(each.chunk, source=f"/notes/man-v{number}.md", date_origin=FILE_TIME))
        for each, number in zip(
            statements(
                ("2026-03-01", "The lamp costs 1.", 5.0),
                ("2026-02-01", "The lamp costs 2.", 4.8),
                ("2026-01-01", "The lamp costs 3.", 4.6),
            ),
            ("1", "2", "2.1"),
            strict=True,
        )
    ]
    ranked = put_newer_first(found, "What does the lamp cost now?")
    assert ranked[0].chunk.id == "c2"
    assert [each.older for each in ranked] == [False, True, True]


def test_versions_are_of_one_file_only_and_go_before_dates() -> None:
    def order(*names: str) -> list[str]:
        rows = [(f"2026-0{9 - at}-01", f"The lamp costs {at}.", 5.0 - at / 10) for at in range(len(names))]
        found = [
            replace(each, chunk=replace(each.chunk, source=f"/notes/{name}"))
            for each, name in zip(statements(*rows), names, strict=True)
        ]
        return [each.chunk.source[7:] for each in put_newer_first(found, "What does the lamp cost now?")]

    assert order("man-v1.md", "man-v1.1.md")[0] == "man-v1.1.md"
    assert order("man-v2.md", "man-v2.0.md")[0] == "man-v2.md"
    assert order("man (harbour) v2.md", "man (yard) v3.md")[0] == "man (harbour) v2.md"


def test_a_later_version_of_a_file_comes_first_and_its_earlier_ones_last_whatever_is_asked_but_a_version() -> (
    None
):
    found = [
        replace(each, chunk=replace(each.chunk, source=f"/rules/lamp{name}.txt"))
        for each, name in zip(
            statements(
                ("1998-01-01", "The lamp costs 1.", 5.0),
                ("2003-01-01", "The lamp costs 2.", 4.8),
                ("2022-01-01", "The lamp costs 3.", 4.6),
                ("2024-01-01", "The boat costs 4.", 4.4),
            ),
            (".1.0", ".1.10", "", "-boat"),
            strict=True,
        )
    ]
    ranked = put_newer_first(found, "What does the lamp cost?")
    assert [each.chunk.id for each in ranked] == ["c2", "c3", "c0", "c1"]
    assert [each.older for each in ranked] == [False, False, True, True]
    for question in ("What did the lamp cost in version 1.0?", "What did the lamp cost in 1998?"):
        assert put_newer_first(found, question) == found


@pytest.mark.parametrize(("title", "name"), [("Refunds (archived)", "a"), ("Refunds", "refunds-DRAFT")])
def test_what_calls_itself_archived_or_a_draft_comes_after_what_is_alike_and_holds(
    title: str, name: str
) -> None:
    rows = (
        ("2023-06-01", "Cancel within 14 days and get everything back.", 5.0),
        ("", "Cancel within 30 days and get everything back.", 4.6),
        ("", "The boat leaves at noon.", 4.5),
    )
    found = statements(*rows)
    found[0] = replace(found[0], chunk=replace(found[0].chunk, title=title, source=f"/rules/{name}.html"))
    ranked = put_newer_first(found, "Within how many days do customers get everything back?")
    assert [each.chunk.id for each in ranked] == ["c1", "c2", "c0"]
    assert [each.older for each in ranked] == [False, False, True]
    for question in ("What does the archived text say of days?", "Within how many days by the draft?"):
        assert put_newer_first(found, question) == found
    assert put_newer_first(found[:1] + found[2:], "Within how many days?") == found[:1] + found[2:]


def test_chapters_that_are_numbered_like_versions_stay_in_their_order() -> None:
    texts = ("The lamp is lit by its keeper at dusk.", "What does the lamp cost? Oil for one winter.")
    rows = [("", text, 5.0 - at / 10) for at, text in enumerate(texts)]
    found = [
        replace(each, chunk=replace(each.chunk, source=f"/book/chapter-1.{at}.md"))
        for at, each in enumerate(statements(*rows), 1)
    ]
    assert put_newer_first(found, "Tell me about the lamp.") == found


def test_a_newer_document_need_not_have_the_title_of_the_older_one() -> None:
    found = statements(
        ("2025-01-14", "The fee is 48 euros.", 5.0), ("2025-09-09", "The fee is 45 euros.", 4.0)
    )
    titles = ("Meeting of the Lindenhof garden", "Second meeting")
    found = [
        replace(each, chunk=replace(each.chunk, title=title))
        for each, title in zip(found, titles, strict=True)
    ]
    ranked = put_newer_first(found, "What is the fee of the garden now?")
    assert [(each.chunk.id, each.older) for each in ranked] == [("c1", False), ("c0", True)]


@pytest.mark.parametrize(
    ("question", "apart"),
    [
        ("What happened in the meeting of March 2022?", True),
        ("What was said on 2 March 2022?", True),
        ("What happened since March 2022?", False),
        ("What happened in March 2022 and in May 2023?", True),
        ("What happened in March and May?", True),
        ("What happened from February to April 2022?", True),
        ("What happened from November to March?", False),
        ("What happened in 2022?", False),
        ("What happened in the meeting of March 2021?", False),
    ],
)
def test_what_is_of_other_dates_is_less_near_where_days_or_months_are_named(
    question: str, apart: bool
) -> None:
    found = statements(("2022-01-05", "One.", 5.0), ("2022-03-02", "Two.", 4.0), ("", "Three.", 3.0))
    near = [each.near for each in put_other_dates_back(found, question)]
    assert near[1:] == [each.near for each in found][1:]
    assert (near[0] < found[0].near) == apart


@pytest.mark.parametrize(
    "status", ["Status: superseded by ADR 7", "* **Status**: Deprecated", "State - withdrawn"]
)
def test_what_says_of_itself_that_it_is_replaced_stands_behind_what_is_valid(status: str) -> None:
    found = statements(
        ("", f"{status}\n\nThe pooling decision is: session pooling.", 5.0),
        ("", "Status: accepted\n\nThe pooling decision is: transaction pooling.", 4.5),
    )
    ranked = put_newer_first(found, "Which pooling decision is valid today?")
    assert [each.chunk.id for each in ranked] == ["c1", "c0"]
    assert [each.older for each in ranked] == [False, True]


def test_the_year_in_the_name_of_a_file_tells_which_edition_is_newer() -> None:
    found = statements(("", "The excess for theft is 200.", 5.0), ("", "The excess for theft is 300.", 4.9))
    named = [
        replace(each, chunk=replace(each.chunk, source=f"terms/home_{year}.md"))
        for each, year in zip(found, (2023, 2025), strict=True)
    ]
    ranked = put_newer_first(named, "What is the excess for theft now?")
    assert [each.chunk.source for each in ranked] == ["terms/home_2025.md", "terms/home_2023.md"]


def test_the_latest_statement_on_a_year_is_the_newest_that_names_it() -> None:
    said = "The outlook for revenue in 2025 is {}."
    found = statements(
        ("2024-03-01", said.format(100), 5.0),
        ("2025-08-01", said.format(120), 4.5),
        ("2026-08-01", "The outlook for revenue in 2026 is 9.", 4.4),
    )
    ranked = put_newer_first(found, "What is the latest outlook for revenue in 2025?")
    assert [(each.chunk.id, each.older) for each in ranked[:2]] == [("c1", False), ("c0", True)]
    assert put_newer_first(found, "What was the outlook for revenue in 2025?") == found


async def test_the_last_meeting_is_that_of_the_newest_minutes(tmp_path: Path) -> None:
    said = {
        "2021-03-02": "It was decided at the last meeting to repair the roof.",
        "2022-05-03": "It was decided to let the hall. The last meeting was short.",
        "2023-09-05": "We buy twelve chairs from Olsen.",
        "2024-10-01": "The choir gets the small room.",
    }
    async with open_engine(tmp_path, embedder="minilm") as engine:
        await ingest(
            engine, [DocumentSource(id=day, text=text, title=f"Minutes {day}") for day, text in said.items()]
        )
        for asked in ("What was decided at the last meeting?", "What did the most recent meeting decide?"):
            reply = await engine.query(Query(asked))
            assert "The choir gets the small room" in reply.context.lines[0].text
            assert not reply.warnings


async def test_of_a_journal_the_sections_of_the_month_that_is_named_are_shown_alone(tmp_path: Path) -> None:
    days = {
        f"20{year}-{month:02d}-08": f"We met, and {year * month} was decided."
        for year in (19, 20)
        for month in (4, 7, 10)
    }
    journal = "# Journal\n\n" + "\n\n".join(f"## {day}\n\n{text}" for day, text in days.items())
    async with open_engine(tmp_path, embedder="minilm") as engine:
        await ingest(engine, [DocumentSource(id="journal", text=journal)])
        shown = (await engine.query(Query("What was decided in April 2019?"))).context.text
    assert "76 was decided" in shown
    assert "2019-04-08" in shown.split("### ")[1]
    assert "200 was decided" not in shown


async def test_a_section_of_another_day_does_not_stand_under_the_date_of_its_document(tmp_path: Path) -> None:
    book = "Minute book\n14 February 2017\n\n# Meeting of 14 February 2017\n\nThe hall is let.\n\n# Meeting of 5 September 2017\n\nThe roof is mended by Olsen."
    async with open_engine(tmp_path, embedder="minilm") as engine:
        await ingest(engine, [DocumentSource(id="book", text=book, title="Minute book")])
        shown = (await engine.query(Query("Who mends the roof?"))).context.text
        assert "2017-02-14" not in shown
    assert "5 September 2017" in shown
