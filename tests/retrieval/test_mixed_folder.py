"""A folder as people have it, of notes, a chat and a table: what is asked comes first, and what is not stays out."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from leanrag_tests_jobs import finish, open_engine

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.query import QueryResult
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

NOTES = {
    "permit.md": "# Greenhouse, second meeting\n\nThe permit costs 310 euro and takes six weeks. Priya has filed it under KB-2025-0417.\n",
    "heating.md": "# Greenhouse, fourth meeting\n\nThe heat pump won, three votes to one. It is installed in week 41.\n",
    "bees.md": "# Notes on the bees\n\nThe sensor under the hive sends its weight every ten minutes. If the readings stop, first "
    "check the fuse behind the shed, then the battery.\n",
    "tools.md": "# Shed\n\nThe hedge trimmer is dull. One of the wheelbarrows has a flat tyre, the ladder is new.\n",
    "presse.md": "# Wartung\n\nAlle 500 Stunden ist das Öl zu wechseln, in staubiger Umgebung alle 300 Stunden.\n",
    "chat.txt": "[12/08/2025, 18:02:11] Kwame: who took the long ladder??\n"
    "[12/08/2025, 18:03:40] Priya: me, sorry. I needed it for the vents. back tomorrow\n"
    "[13/08/2025, 07:15:20] Dag: ladder is back. also: somebody left the hose running all night\n"
    "[13/08/2025, 07:20:00] Ottilie: that was the timer, it is broken. I check it first thing tomorrow\n"
    "[15/08/2025, 16:50:31] Priya: perfect. and who feeds the cat while I am in Bergen?\n"
    "[15/08/2025, 16:52:10] Dag: I do. 22nd to 29th right?\n"
    "[15/08/2025, 16:52:50] Priya: yes!! thank you\n",
    "radio.log": "2024-11-07 21:48:03 gust of 41 m/s at the gate, wind from north\n2024-11-07 21:52:17 sensor link was lost\n",
    "storm.md": "# Storm\n\nThe dome of the greenhouse was dry on 8 November 2024, the morning after.\n",
    "2024-11-09.md": "# Repairs\n\nTwo panes of the dome were replaced, the gutter was cleared.\n",
    "invoice.md": "# Glazier\n\nThe visit of 9 November 2024 cost 80 euro, to be paid by the treasurer.\n",
    "routes.py": "import heapq\n\n\ndef find_route(network, start, goal, weights=None, forbidden=()):\n"
    '    """Return the stops of the cheapest route from start to goal."""\n'
    + "".join(
        f"    # stage {number}: look at the stops beside the last one and leave out what is forbidden\n"
        f"    stops_{number} = [each for each in network[start] if each not in forbidden]\n"
        f"    heapq.heapify(stops_{number})\n\n"
        for number in range(12)
    )
    + "    return goal\n",
    "members.csv": "member,plot,size,fee,paid\n"
    + "".join(f"{name},P{number},{20 + number},{90 + number},no\n" for number, name in enumerate(
        ["Asante", "Brandvold", "Raman", "Lindqvist", "Okafor", "Petrov", "Nakamura", "Dubois", "Haugen", "Silva", "Kowalczyk", "Novak", "Moreau", "Eriksen"]
    )),
}  # fmt: skip


async def ask(engine: LeanRAG, question: str) -> QueryResult:
    return await engine.query(Query(question, token_budget=1000))


def first_document(result: QueryResult) -> str:
    heading = re.search(r"^### (.+)$", result.context.text, re.MULTILINE)
    return heading[1] if heading else ""


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LeanRAG]:
    folder = tmp_path_factory.mktemp("mixed")
    for name, text in NOTES.items():
        folder.joinpath(name).write_text(text, encoding="utf-8")
    async with open_engine(tmp_path_factory.mktemp("data")) as held:
        await finish(held, await held.submit_ingest([DocumentSource(path=str(folder))], allowed=None))
        yield held


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("The sensor readings stopped, what do I check first?", "bees.md"),
        ("How much does the permit cost?", "permit.md"),
        ("Which heating was chosen and when is it installed?", "heating.md"),
        ("Who feeds the cat and when?", "chat.txt"),
    ],
)
async def test_a_chat_comes_first_only_if_it_is_what_was_asked_for(
    engine: LeanRAG, question: str, document: str
) -> None:
    assert document in first_document(await ask(engine, question))


@pytest.mark.parametrize(("word", "document"), [("KB-2025-0417", "permit.md"), ("wheelbarrows", "tools.md")])
async def test_a_word_asked_alone_is_answered_by_what_holds_it_and_no_more(
    engine: LeanRAG, word: str, document: str
) -> None:
    result = await ask(engine, word)
    assert document in first_document(result)
    assert result.context.text.count("###") == 1
    assert result.context.tokens < 150


async def test_turns_of_a_chat_stand_behind_their_days(engine: LeanRAG) -> None:
    lines = (await ask(engine, "Who feeds the cat and when?")).context.text.splitlines()
    asked = next(line for line in lines if "who feeds the cat" in line)
    answered = lines[lines.index(asked) + 1]
    assert "2025-08-15 [16:50:31] Priya" in asked
    assert answered.startswith("[16:52:10] Dag: I do. 22nd to 29th"), "the day is said once"


async def test_what_happened_on_a_day_is_found_however_the_day_is_written(engine: LeanRAG) -> None:
    for question, said in (
        ("What happened on 13 August 2025?", "somebody left the hose running all night"),
        ("What happened on November 7, 2024?", "sensor link was lost"),
    ):
        context = (await ask(engine, question)).context
        assert said in context.text
        assert context.tokens < 350


async def test_a_document_of_the_day_counts_as_one_that_says_the_day(engine: LeanRAG) -> None:
    text = (await ask(engine, "What happened on 9 November 2024?")).context.text
    assert "Two panes of the dome were replaced" in text
    assert "cost 80 euro" in text


async def test_what_happened_in_a_month_is_more_than_what_names_it(engine: LeanRAG) -> None:
    text = (await ask(engine, "What happened in November 2024?")).context.text
    for said in ("Two panes of the dome", "The dome of the greenhouse was dry", "cost 80 euro"):
        assert said in text


async def test_code_is_quoted_with_its_signature_once(engine: LeanRAG) -> None:
    text = (await ask(engine, "How does find_route leave out forbidden stops, stage by stage?")).context.text
    quoted = text.partition("routes.py")[2].split("```")[1]
    source = NOTES["routes.py"]
    assert quoted.count("stops_") > 6
    assert quoted.count("def find_route") == 1
    for part in re.split(r"\[d\d+:c\d+\](?: \(line \d+\))?|\[…\]|: …\n", quoted):
        assert part.strip("\n ") in source


async def test_of_a_table_the_rows_that_hold_most_of_a_question_are_shown_and_no_others(
    tmp_path: Path,
) -> None:
    first, last = (
        ("Anna", "Bela", "Cora", "Dina", "Ella", "Finn"),
        ("Abel", "Dorn", "Falk", "Hahn", "Jung", "Kern"),
    )
    names = [f"{one} {other}" for one in first for other in last]
    rows = [
        f"{name},{('Sales', 'Legal', 'Garage', 'Kitchen', 'Archive')[n % 5]},{4000 + n},2024-0{n % 9 + 1}-10"
        for n, name in enumerate(names)
    ]
    path = tmp_path / "staff.csv"
    path.write_text("\n".join(["name,department,phone,start", *rows]), encoding="utf-8")
    async with open_engine(tmp_path / "data") as engine:
        await finish(engine, await engine.submit_ingest([DocumentSource(path=str(path))], allowed=None))
        one = (await ask(engine, "What is the phone number of Dina Falk?")).context
        several = (await ask(engine, "List all people in Legal.")).context
        figure = (await ask(engine, "List all people in Legal with a phone above 4011.")).context
    place = names.index("Dina Falk")
    assert f"staff.csv:{place + 2}" in one.text
    assert re.findall(r"Row (\d+): name: Dina Falk; department: Sales; phone: (\d+)", one.text) == [
        (str(place + 2), str(4000 + place))
    ]
    assert one.text.count("name: ") == 1
    assert re.findall("department: (\\w+)", several.text) == ["Legal"] * 7
    assert figure.text.count("name: ") > 10


async def test_a_row_of_the_member_that_is_named_is_no_weak_evidence(engine: LeanRAG) -> None:
    result = await ask(engine, "What does Eriksen pay and how big is the plot?")
    assert "member: Eriksen; plot: P13; size: 33; fee: 103" in result.context.text
    assert not any("Weak" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Wie oft muss das Öl gewechselt werden?", "Alle 500 Stunden"),
        ("Wann ist das Öl zu wechseln?", "Alle 500 Stunden"),
        ("What did the permit cost in the end?", "310 euro"),
        ("What does Eriksen owe?", "fee: 103"),
        ("Who rides the wheelbarrows?", "flat tyre"),
    ],
)
async def test_a_word_that_names_nothing_is_not_said_to_stand_nowhere(
    engine: LeanRAG, question: str, answer: str
) -> None:
    result = await ask(engine, question)
    assert answer in result.context.text
    assert not any("No document has" in warning for warning in result.warnings)
