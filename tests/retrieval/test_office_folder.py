"""A folder of contracts, mails, a chat and tables: a reply holds what was asked and little of what only surrounds it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from leanrag_tests_jobs import finish, open_engine

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

FILES = {
    "lease.md": "# Lease of the mill\n\n## § 4 Rent\n\nThe miller pays 310 euro a month. See the [rules] of the house.\n\n"
    "<!-- Anke: ask the lawyer -->\n\n[rules]: ./rules.md\n",
    "order.eml": "From: Bo Lund <bo@mill.example>\nTo: Ida Berg <ida@bakery.example>\nCc: Per Dahl <per@mill.example>, Lea Moe <lea@mill.example>\n"
    "Date: Mon, 4 Mar 2024 09:00:00 +0100\nSubject: Order of flour\nContent-Type: text/plain; charset=utf-8\n\nDear Ida,\n\n"
    "the wheat was late this year, because it rained in August. The flour comes on Thursday in sacks of 25 kilos. Each sack costs 18 euro, "
    "the tenth is free.\n\nBo\n\n-- \nBo Lund | Mill of Brandvik, Harbour Road 7, 4021 Brandvik\nTelephone 555 0142, open for flour daily\n",
    "answer.eml": "From: Ida Berg <ida@bakery.example>\nTo: Bo Lund <bo@mill.example>\nDate: Tue, 5 Mar 2024 10:00:00 +0100\n"
    "Subject: Re: Order of flour\nContent-Type: text/plain; charset=utf-8\n\nDear Bo,\n\nThursday is too late for the flour. I take the sacks of the "
    "other mill.\n\nIda\n\n-- \nIda Berg | Bakery, Mill Lane 2, 4021 Brandvik\n\nOn Mon, 4 Mar 2024 at 09:00, Bo Lund wrote:\n> Dear Ida,\n>\n"
    "> the wheat was late this year, because it rained in\n> August. The flour comes on Thursday in sacks of 25 kilos. Each sack\n"
    "> costs 18 euro, the tenth is free.\n>\n> Bo\n",
    "harvest.mbox": "".join(
        f"From {who.lower()}@mill.example Mon Mar 11 10:00:00 2024\nFrom: {who} <{who.lower()}@mill.example>\nDate: Mon, 11 Mar 2024 10:00:00 +0100\n"
        f"Subject: {crop} of the year\n\nDear all,\n\n"
        + " ".join(
            f"Field {n} of {crop.lower()} was cut on day {n} of the summer, dry and clean." for n in range(12)
        )
        + f" Buyers pay {price} crowns a sack of {crop.lower()}.\n\n"
        for who, crop, price in (("Per", "Barley", 71), ("Tor", "Spelt", 94))
    ),
    "reminder.txt": "Von: Lea Moe\nGesendet: 12 April 2024 10:05\nAn: Ida Berg\nBetreff: Rye of invoice 77\n\nDear Ida,\n\n"
    "please pay the rye by 26 April.\n\nLea\n\n--\nLea Moe, Mill of Brandvik\nPlease consider the environment before printing.\n",
    "team.txt": "[2024-06-03 09:12] Bo Lund: The millstone sounds odd this morning\n[2024-06-03 09:14] Lea Moe: ok\n[2024-06-03 09:20] Lea Moe: The bearing "
    "of the millstone is worn\n[2024-06-03 09:21] Bo Lund: 👍\n[2024-06-03 09:22] Bo Lund: Shall I stop the millstone?\n[2024-06-03 09:23] Lea Moe: ok\n"
    "[2024-06-03 09:30] Bo Lund: Stopped, a new bearing comes on Friday\n[2024-06-03 09:31] Lea Moe: thank you so much!\n",
    "customers.csv": "customer,town,days,paid 2024,note\nCafe Ruth,Bergvik,30,yes,closed in August\nInn at the Quay,Norhavn,14,no,own van\n"
    "Plum Bakery,Bergvik,14,yes,wants rye\nSchool,Sundby,30,yes,\nHotel Anker,Norhavn,14,no,big oven\nKiosk,Ostby,21,yes,cash\n",
    "mill.log": "2024-06-03T08:03:17.006Z WARN bearing temperature=91\n2024-06-03T09:31:02.551Z INFO millstone halted by hand\n",
    "grind.py": '# Copyright 2023 Bo Lund\n#\n# Licensed under the Mill License (the "License"); you may not use this file except in compliance.\n# Unless '
    'required by law, software is distributed on an "AS IS" BASIS,\n# WITHOUT WARRANTIES OF ANY KIND.\n"""How the mill grinds."""\n\n'
    'GRAIN_PER_HOUR = 40\n"""Kilos of grain that the hopper takes."""\n',
    "knee.md": "---\ntags: [health]\n---\n# Knee\n\nSide plank three times, step down slowly.\n",
}


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LeanRAG]:
    folder = tmp_path_factory.mktemp("office")
    for name, text in FILES.items():
        folder.joinpath(name).write_text(text, encoding="utf-8")
    async with open_engine(tmp_path_factory.mktemp("data"), embedder="minilm") as held:
        await finish(held, await held.submit_ingest([DocumentSource(path=str(folder))], allowed=None))
        yield held


async def ask(engine: LeanRAG, question: str) -> str:
    return (await engine.query(Query(question))).context.text


async def test_a_heading_with_the_sign_of_a_section_gets_no_second_one(engine: LeanRAG) -> None:
    assert "] § 4 Rent\nThe miller" in await ask(engine, "How much does the miller pay?")


async def test_comments_and_the_targets_of_links_are_not_shown(engine: LeanRAG) -> None:
    assert "The miller pays 310 euro a month. See the [rules] of the house.\n```" in await ask(
        engine, "How much does the miller pay?"
    )


async def test_a_short_mail_is_shown_whole_with_its_sender_and_the_names_of_who_received_it(
    engine: LeanRAG,
) -> None:
    text = await ask(engine, "When does the flour come?")
    assert (
        "] From: Bo Lund <bo@mill.example>; To: Ida Berg; Cc: Per Dahl, Lea Moe\nDear Ida,\n\nthe wheat was late"
        in text
    )
    assert "the tenth is free.\n\nBo\n```" in text


async def test_a_quote_of_a_mail_that_was_found_itself_is_not_shown(engine: LeanRAG) -> None:
    text = await ask(engine, "How much does a sack of flour cost?")
    assert text.count("18 euro") == 1
    assert "Thursday is too late" in text


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("How much does a sack of flour cost in Brandvik?", False),
        ("What is the telephone number of Bo Lund?", True),
    ],
)
async def test_the_signature_of_a_mail_is_shown_where_it_is_asked_for(
    engine: LeanRAG, question: str, shown: bool
) -> None:
    assert ("Telephone 555 0142" in await ask(engine, question)) is shown


async def test_a_mail_that_was_saved_as_a_text_has_its_subject_its_day_and_no_signature(
    engine: LeanRAG,
) -> None:
    text = await ask(engine, "By when is the rye to be paid?")
    assert "/reminder.txt), 2024-04-12\n" in text
    assert "From: Lea Moe; To: Ida Berg\nDear Ida,\n\nplease pay the rye by 26 April.\n\nLea\n```" in text


async def test_front_matter_is_shown_with_the_text_that_it_describes(engine: LeanRAG) -> None:
    text = await ask(engine, "everything tagged #health")
    assert "tags: [health]\n\n# Knee\n\nSide plank" in text


async def test_thanks_and_assent_in_a_chat_are_shown_only_where_they_answer_a_question(
    engine: LeanRAG,
) -> None:
    text = await ask(engine, "What is wrong with the millstone?")
    assert "[09:20] Lea Moe: The bearing of the millstone is worn …\n[09:22]" in text
    assert "[09:23] Lea Moe: ok\n" in text
    assert not any(each in text for each in ("[09:14]", "[09:21]", "[09:31]"))


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("Which customers are in Bergvik?", [2, 4]),
        ("Which customers have terms of 30 days?", [2, 5]),
        ("Which customers are not in Bergvik?", [2, 3, 4, 5, 6, 7]),
        ("Which customers are in Bergvik or have a big oven?", [2, 4, 6]),
        ("Which customers are in Norhavn or closed for a month?", [2, 3, 4, 5, 6, 7]),
        ("Which customers have not paid for 2024?", [3, 6]),
        ("Which customers paid in 2024?", [2, 4, 5, 7]),
        ("Who hasn't paid yet?", [3, 6]),
        ("Which customers in Bergvik have not paid?", [2, 3, 4, 5, 6, 7]),
    ],
)
async def test_a_question_for_the_rows_that_have_what_it_names_gets_these_alone(
    engine: LeanRAG, question: str, rows: list[int]
) -> None:
    assert [int(each) for each in re.findall(r"Row (\d+):", await ask(engine, question))] == rows


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What went wrong with the millstone?", "is worn"),
        ("How hot was the bearing at 08:03?", "temperature=91"),
        ("What changed with the bearing of the millstone?", "is worn"),
    ],
)
async def test_neither_verbs_and_adjectives_nor_times_are_reported_as_words_that_stand_nowhere(
    engine: LeanRAG, question: str, answer: str
) -> None:
    text = await ask(engine, question)
    assert answer in text
    assert "No document has" not in text


async def test_of_the_licence_above_source_code_holder_and_name_alone_are_shown(engine: LeanRAG) -> None:
    text = await ask(engine, "How many kilos of grain does the hopper take?")
    assert 'except in compliance.\n\n"""How the mill grinds."""\n\nGRAIN_PER_HOUR = 40' in text
    assert "# Copyright 2023 Bo Lund\n" in text
    assert "WARRANTIES" not in text


async def test_what_stands_further_down_in_a_mail_has_the_name_of_who_sent_it(engine: LeanRAG) -> None:
    text = await ask(engine, "What do buyers pay for a sack of spelt?")
    assert "94 crowns" in text
    assert re.search(r"From: (?:Per|Tor)\n… Field", text)
