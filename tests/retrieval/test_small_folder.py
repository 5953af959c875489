"""A folder of a few notes, in which nearly every word is rare: plain words of a question do not outweigh what answers it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from itertools import product
from pathlib import Path

import pytest
from leanrag_tests_jobs import finish, open_engine
from openpyxl import Workbook

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.evidence.run import QueryRun
from leanrag_engine.retrieval.request import Query, Ranking

pytestmark = pytest.mark.anyio

NOTES = {
    "electrics.md": "# Electrics\n\nTom decided for Varga Elektro, because the others could not start before Easter.\n",
    "oven.md": "# Oven decision\n\nAfter the test bake Helga chose the Unox Bakertop oven, Priya had preferred the Rational.\n",
    "kickoff.md": "# Kickoff\n\nHelga wants to reopen on 1 May 2026. We compared two ovens, the oven comes before the floor.\n",
    "bread.md": "# Bread\n\nThe oven is heated to 250 degrees, the bread proofs for 14 hours.\n",
    "cellar.md": "# Cellar\n\nThe oven needs a 63 A connection in the cellar.\n",
    "journal.md": "# Journal\n\n2026-04-25 Half marathon? Bremen is on 4 October. Week off.\n",
    "takings.md": "# Takings\n\nLunch brought 1,379 euro in calendar week twenty-five, dinner less.\n",
    "status.md": "# Status\n\nThe opening day is now 5 June 2026, as the floor is late.\n",
    "one/docs/README.md": "# Guide\n\nThe pump of the first boat runs on 40 volts.\n",
    "two/docs/README.md": "# Guide\n\nThe pump of the second boat runs on 60 volts.\n",
    "settings/reference.md": "# Reference\n\nThe table is read as `member.idle_timeout` by every plugin.\n",
    "settings/guide.md": "# Guide to settings\n\n## Idle timeout\n\nAfter ten minutes without a visitor the pump stops.\n",
    "refs.md": "# Fetched\n\n3a3c8a731d16 HEAD\n\n86b077b7a21e refs/heads/pairs\n\n4e03e4bf0f1e refs/heads/d-i\n",
    "talk/2026-03-01.txt": "Ines: I am centred, the loaf was kneaded twice.\n\nBoris: Good, kneading takes an hour.\n\nInes: Yes.\n\nBoris: See you.\n",
    "talk/2026-03-08.txt": "Ines: Is anybody kneading today?\n\nBoris: I knead it myself, as you saw.\n\nInes: Fine.\n\nBoris: See you.\n",
    "talk/2026-04-02 van.txt": "[08:00] Nadia: I drive the van to Bergen.\n[08:05] Olaf: Take the ferry.\n[08:09] Nadia: I do.\n[08:10] Olaf: Good.\n",
    "meetings/2025-08-18 steering group.md": "# Steering group, 18 August 2025\n\nThe paint will be a pale yellow from Lund.\n",
    "mast.md": "# Mast\n\nThe light of the second mast was mailed back in weekly parcels.\n",
    "post.md": "# Post\n\nLetters are answered in a week. These timelines may extend on holidays.\n",
    "LICENSE.md": "# Licence\n\nCopyright 2014 Pallets. IN NO EVENT SHALL THE COPYRIGHT HOLDER BE LIABLE IN CONTRACT OR TORT.\n",
}


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LeanRAG]:
    folder = tmp_path_factory.mktemp("small")
    for name, text in NOTES.items():
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_text(text, encoding="utf-8")
    async with open_engine(tmp_path_factory.mktemp("data"), embedder="minilm") as held:
        await finish(held, await held.submit_ingest([DocumentSource(path=str(folder))], allowed=None))
        yield held


async def read_headings(engine: LeanRAG, question: str) -> list[str]:
    result = await engine.query(Query(question, token_budget=1000))
    return re.findall(r"^### (.+)$", result.context.text, re.MULTILINE)


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("Who decided on the oven, and which one?", "oven.md"),
        ("takings for lunch in week 25", "takings.md"),
        ("Until when does the bread proof?", "bread.md"),
        ("Which connection did the oven in the cellar need on 25 April 2026?", "cellar.md"),
    ],
)
async def test_one_plain_word_of_several_a_short_number_or_a_date_does_not_put_a_passage_first(
    engine: LeanRAG, question: str, file: str
) -> None:
    assert file in (await read_headings(engine, question))[0]


async def test_the_headings_of_files_of_one_name_tell_them_apart(engine: LeanRAG) -> None:
    headings = await read_headings(engine, "How many volts does the pump of each boat need?")
    places = {each.partition(":")[0] for each in headings if "README" in each}
    assert places == {"Guide (one/docs/README.md", "Guide (two/docs/README.md"}


async def test_a_word_for_what_is_asked_for_is_not_said_to_stand_nowhere(engine: LeanRAG) -> None:
    for question in ("Which documents mention Priya?", "Which mails name Priya?"):
        assert not (await engine.query(Query(question))).warnings


@pytest.mark.parametrize(
    ("framed", "bare"),
    [
        (
            "Where do these pages mention rewards for patience or tell why a delay came?",
            "Rewards for patience or tell why a delay came?",
        ),
        (
            "What preparations for guests were made according to the notes?",
            "What preparations for guests were made?",
        ),
        ("Please tell me which preparations for guests were made", "Which preparations for guests were made"),
    ],
)
async def test_what_stands_for_the_documents_in_a_question_is_not_searched_for(
    engine: LeanRAG, framed: str, bare: str
) -> None:
    first, second = [await engine.query(Query(each, token_budget=1000)) for each in (framed, bare)]
    assert [each.chunk.id for each in first.sources] == [each.chunk.id for each in second.sources]


async def test_a_word_that_asks_for_an_order_is_not_said_to_stand_nowhere(engine: LeanRAG) -> None:
    result = await engine.query(Query("Timeline of the opening day", token_budget=1000))
    assert "Timeline" not in result.context.text


async def test_no_question_is_drawn_from_a_licence(engine: LeanRAG) -> None:
    for each in await engine.suggest_questions(10):
        assert not re.search("Pallets|TORT|Licence", each)


async def test_a_licence_is_no_entity_and_names_no_cluster(engine: LeanRAG) -> None:
    names = [each.name for each in await engine.entity_heads()]
    assert not [name for name in names if re.search("(?i)pallets|tort|licen|copyright", name)]
    assert "LICENSE.md" in (await read_headings(engine, "Which copyright holder is not liable in tort?"))[0]


async def test_of_a_passage_that_was_shown_in_part_the_rest_comes_in_the_next_replies(tmp_path: Path) -> None:
    said = [
        f"The pump of boat {number} was replaced in harbour {number} by Ines Mara in {1900 + number}."
        for number in range(1, 41)
    ]
    seen: tuple[str, ...] = ()
    shown: list[str] = []
    async with open_engine(tmp_path, embedder="minilm") as engine:
        text = "\n\n".join(
            f"{line} It had been built of iron and run for {at} years without a fault."
            for at, line in enumerate(said)
        )
        await finish(
            engine, await engine.submit_ingest([DocumentSource(text=text, title="Pumps", id="pumps")])
        )
        for _ in range(12):
            result = await engine.query(
                Query("Which pumps did Ines Mara replace?", token_budget=500, seen=seen)
            )
            shown += [line for line in said if line in result.context.text]
            seen = tuple(dict.fromkeys([*seen, *result.context.cited]))
    assert len(seen) < 12, "passages are longer than a reply"
    assert len(set(shown)) == len(shown) > 0.6 * len(said)
    assert "Nothing new" in result.context.text
    assert "Shown in part, perhaps: d1:c" in result.context.text


async def test_words_that_a_slash_joins_are_looked_up_one_by_one(engine: LeanRAG) -> None:
    result = await engine.query(Query("Which pump/oven is there?", token_budget=1000))
    assert "No document has" not in result.context.text


async def test_a_passage_that_is_deleted_while_a_question_is_answered_ends_nothing(
    engine: LeanRAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = QueryRun.load

    async def load_what_is_left(run: QueryRun, ids: Iterable[str]) -> None:
        await load(run, ids)
        for id_ in [id_ for id_, chunk in run.chunks.items() if "electrics" in chunk.source]:
            del run.chunks[id_]

    monkeypatch.setattr(QueryRun, "load", load_what_is_left)
    assert "oven.md" in (await read_headings(engine, "Who decided on the oven, and which one?"))[0]


async def test_a_sentence_of_a_document_is_found_as_a_quotation_without_marks(engine: LeanRAG) -> None:
    (heading,) = await read_headings(engine, "the others could not start before Easter")
    assert heading.endswith("electrics.md:3")


async def test_a_question_whose_answer_is_near_is_not_weak_for_a_word_that_is_strange_to_so_little(
    engine: LeanRAG,
) -> None:
    result = await engine.query(Query("Why was the Rational stove turned down?"))
    assert not any(each.startswith("Weak") for each in result.warnings)
    assert "oven.md" in result.context.text
    other = await engine.query(Query("Which vaccine does a parrot need?"))
    assert any(each.startswith("Weak") for each in other.warnings)


async def test_the_notes_of_a_weak_reply_are_whole(engine: LeanRAG) -> None:
    question = "Which vaccines do Xerxes, Yolanda, Zacharias and Quentin need for parrots in Madagascar?"
    result = await engine.query(Query(question))
    assert result.context.tokens <= 300
    assert result.context.text.startswith("\n".join(result.warnings)[:40])
    for note in result.warnings:
        assert note in result.context.text


async def test_of_dated_conversations_the_one_with_the_word_that_is_asked_alone_comes_first(
    engine: LeanRAG,
) -> None:
    first, *others = await read_headings(engine, "knead")
    assert "2026-03-08.txt" in first
    assert not any("2026-03-08.txt" in each for each in others)


async def test_an_identifier_is_first_found_where_it_is_written_so_and_then_under_a_heading_of_its_words(
    engine: LeanRAG,
) -> None:
    first, second, *_ = await read_headings(engine, "idle_timeout")
    assert "settings/reference.md" in first
    assert "settings/guide.md" in second
    assert "settings/guide.md" in (await read_headings(engine, "idle timeout"))[0]


async def test_a_number_or_identifier_that_stands_nowhere_is_answered_shortly(engine: LeanRAG) -> None:
    context = (await engine.query(Query("9f31c07be2d4"))).context
    assert "Weak evidence" in context.text
    assert "No document has '9f31c07be2d4'" in context.text
    assert context.tokens <= 300


async def test_a_long_heading_that_ends_in_the_name_of_all_there_is_does_not_define_it(
    tmp_path: Path,
) -> None:
    texts = {
        "security.md": "# Security\n\n## Reporting a bug in Lamp.js\n\nThe office answers within five days.\n",
        "people.md": "# Members\n\nA keeper whose last sign of life is more than a year ago is retired.\n",
    } | {
        f"note{at}.md": f"# Note {at}\n\nLamp.js got its oil number {at} from the ship.\n" for at in range(12)
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    async with open_engine(tmp_path / "data", embedder="minilm") as engine:
        await finish(engine, await engine.submit_ingest([DocumentSource(path=str(tmp_path))], allowed=None))
        first = (await read_headings(engine, "When is an inactive Lamp.js keeper retired?"))[0]
    assert "people.md" in first


async def test_a_misspelt_word_counts_as_what_is_meant_and_one_that_stands_nowhere_not_at_all(
    engine: LeanRAG,
) -> None:
    result = await engine.query(Query("when is the connecton due to expire", token_budget=1000))
    assert "Did you mean 'connection'?" in result.context.text
    assert "cellar.md" in (await read_headings(engine, "when is the connecton due to expire"))[0]
    text = (await engine.query(Query("Who approves the trips?"))).context.text
    assert "No document has 'trips'." in text, "an English word is not misspelt"


@pytest.mark.parametrize("question", ["Who ate eight loaves?", "Eight ovens", "who emailed the bread"])
async def test_number_words_and_forms_of_plain_words_are_not_misspelt(engine: LeanRAG, question: str) -> None:
    text = (await engine.query(Query(question))).context.text
    assert "Did you mean" not in text


async def test_a_capital_at_the_beginning_of_a_question_makes_no_name(engine: LeanRAG) -> None:
    question = "Timeline of the decisions on the oven and the electrics with all that was said"
    assert "post.md" not in (await read_headings(engine, question))[0]


async def test_a_table_with_many_columns_is_shown_under_the_heading_that_it_stands_under(
    tmp_path: Path,
) -> None:
    head = "| Kind of the tool | Name of the tool | Regular testing of each release | Target tier |\n|---|---|---|---|\n"
    tiers = (
        f"## Tier {at}\n\n{head}| Profiling | {name} | Yes | 2 |\n"
        for at, name in enumerate(("lens", "wick", "mast"), 1)
    )
    (tmp_path / "tools.md").write_text("# Tools of the lighthouse\n\n" + "\n".join(tiers))
    async with open_engine(tmp_path / "data", embedder="minilm") as engine:
        await finish(
            engine,
            await engine.submit_ingest([DocumentSource(path=str(tmp_path / "tools.md"))], allowed=None),
        )
        text = (await engine.query(Query("What is the target tier of the wick?"))).context.text
        whole = (await engine.query(Query("Give me an overview of all tools and tiers"))).context.text
    assert "§ Tier 2\nRow 1: Kind of the tool: Profiling; Name of the tool: wick" in text
    assert "§ Tier 2 > Table, 1 row\nRow 1: Kind of the tool: Profiling; Name of the tool: wick" in whole


async def test_a_typo_in_a_question_of_a_few_plain_words_is_told(engine: LeanRAG) -> None:
    text = (await engine.query(Query("varga elektro electircs easter others"))).context.text
    assert "No document has 'electircs'. Did you mean" in text


async def test_particles_of_names_make_no_question_foreign(engine: LeanRAG) -> None:
    for question, foreign in (
        ("Who is Ursula von der Leyen?", False),
        ("Where is Los Angeles?", False),
        ("Sumatra Gayo price per kilo", False),
        ("Wie hoch ist die Miete der Wohnung von Helga?", True),
    ):
        text = (await engine.query(Query(question))).context.text
        assert ("reads English alone" in text) == foreign


@pytest.mark.parametrize(
    "question", ["How did the matter of the oven end?", "Which problems come from the oven?"]
)
async def test_nouns_that_ask_for_nothing_themselves_are_not_missed(engine: LeanRAG, question: str) -> None:
    assert "No document has" not in (await engine.query(Query(question))).context.text


async def test_a_file_that_is_named_in_a_question_is_shown(engine: LeanRAG) -> None:
    for question in ("What is in Cellar.md?", "Summarise cellar.md"):
        result = await engine.query(Query(question))
        assert "No document has" not in result.context.text
        assert "cellar.md" in (await read_headings(engine, question))[0]
    assert "No document has 'attic.md'" in (await engine.query(Query("What is in attic.md?"))).context.text


async def test_how_something_with_a_label_changed_is_told_by_all_that_name_it(tmp_path: Path) -> None:
    days = [f"2025-03-{day:02}" for day in range(1, 13)]
    notes = [
        DocumentSource(id=day, text=f"# {day}\n\nWell B7 stands at {100 + at}. Soup for lunch.")
        for at, day in enumerate(days)
    ]
    others = [f"The level of {what} has not changed for years." for what in NOTES]
    async with open_engine(tmp_path, embedder="minilm") as held:
        sources = [*notes, *(DocumentSource(id=text, text=text) for text in others)]
        await finish(held, await held.submit_ingest(sources))
        reply = (await held.query(Query("How did the level in well B7 change?"))).context.text
        other = await held.query(
            Query("How did the saltiness in borehole B7 change?")
        )  # no note has the two words
    assert not any("Weak" in each for each in other.warnings)
    assert all(f"stands at {100 + at}." in other.context.text for at in range(len(days)))
    shown = re.findall(r"^### (\S+)", reply, re.MULTILINE)
    assert [each for each in shown if each in days] == days


async def test_what_a_thing_is_comes_first_although_its_name_is_everywhere(tmp_path: Path) -> None:
    noise = [
        f"Why should I use zod {number}? Use zod, as zod is fast: zod {number} or zod."
        for number in range(40)
    ]
    said = "# Readme\n\nMany thanks. **Zod** is a library that checks the shape of values."
    async with open_engine(tmp_path, embedder="minilm") as held:
        sources = [DocumentSource(id=f"n{at}", text=text) for at, text in enumerate(noise)]
        await finish(held, await held.submit_ingest([*sources, DocumentSource(id="said", text=said)]))
        for question in ("What is zod?", "what's Zod", "Explain zod."):
            first = (await held.query(Query(question))).context.lines[0]
            assert "checks the shape of values" in first.text, question


async def test_the_entry_of_an_identifier_comes_before_the_many_that_mention_it(tmp_path: Path) -> None:
    mentions = [
        f"The method __fetch__ is named here, and __fetch__ is called for reason {number}."
        for number in range(14)
    ]
    entries = (
        "store.__open__(path)\n\n   Opens the shelf.\n\nstore.__fetch__(key)\n\n   Gives the row of a key."
    )
    async with open_engine(tmp_path, embedder="minilm") as held:
        sources = [DocumentSource(id=f"n{at}", text=text) for at, text in enumerate(mentions)]
        await finish(held, await held.submit_ingest([*sources, DocumentSource(id="entries", text=entries)]))
        first = (await held.query(Query("What does __fetch__ do?"))).context.lines[0]
    assert "Gives the row of a key" in first.text


async def test_what_is_asked_of_one_word_of_code_is_told_by_what_holds_it(tmp_path: Path) -> None:
    others = [
        f"The value of a limit of kind {n} is set in the settings of the service {n}." for n in range(12)
    ]
    async with open_engine(tmp_path, embedder="minilm") as held:
        sources = [DocumentSource(id=f"n{at}", text=text) for at, text in enumerate(others)]
        code = DocumentSource(id="code", text="TOLERANCE_SECONDS = 300, as clocks differ.")
        await finish(held, await held.submit_ingest([*sources, code]))
        reply = (await held.query(Query("What is the value of TOLERANCE_SECONDS?"))).context.text
    assert "as clocks differ" in reply
    assert "of kind" not in reply


async def test_a_version_is_found_by_its_number_and_an_option_that_is_not_there_is_named(
    tmp_path: Path,
) -> None:
    changes = "".join(
        f"# v8.{minor}.0\n\nThe lamp number {minor} was added.\n\n" for minor in range(9, 0, -1)
    )
    (tmp_path / "CHANGELOG.md").write_text(changes)
    (tmp_path / "README.md").write_text(
        "# Lamp\n\nTake lamp_8.6.0_amd64.deb for size and total file lists.\n"
    )
    async with open_engine(tmp_path / "data", embedder="minilm") as held:
        await finish(
            held,
            await held.submit_ingest(
                [DocumentSource(path=str(tmp_path / name)) for name in ("CHANGELOG.md", "README.md")],
                allowed=None,
            ),
        )
        reply = await held.query(Query("What changed in lamp 8.6.0?"))
        assert reply.context.lines[0].text.startswith("The lamp number 6")
        absent = await held.query(Query("What does the option --max-size-total do?"))
        assert any("'max-size-total'" in each for each in absent.warnings)


async def test_the_row_of_a_name_and_a_month_is_found_among_many_of_either(tmp_path: Path) -> None:
    people = ("Kwame Boateng", "Odile Marchetti", "Ruth Abelson", "Noor Haddad")
    months = [f"{year}-{month:02}" for year in (2024, 2025) for month in range(1, 13)]
    rows = [f"{month},{who},{7 * at + len(who)}" for at, (month, who) in enumerate(product(months, people))]
    (tmp_path / "hours.csv").write_text("month,volunteer,hours\n" + "\n".join(rows) + "\n")
    (tmp_path / "plan.md").write_text(
        "# Plan of October 2025\n\nKwame and Ruth count the hours in October.\n"
    )
    async with open_engine(tmp_path / "data", embedder="minilm") as held:
        sources = [DocumentSource(path=str(tmp_path / name)) for name in ("hours.csv", "plan.md")]
        await finish(held, await held.submit_ingest(sources, allowed=None))
        reply = await held.query(Query("How many hours did Kwame Boateng volunteer in October 2025?"))
    assert "month: 2025-10; volunteer: Kwame Boateng" in reply.context.lines[0].text


async def test_a_row_is_shown_under_the_name_of_its_sheet(tmp_path: Path) -> None:
    rows = [[(f"CF-{n:04}", f"Crocante {n}", n * year / 100) for n in range(60)] for year in (2024, 2025)]
    book = Workbook()
    for year, sheet in zip((2024, 2025), rows, strict=True):
        page = book.create_sheet(f"Retail {year}")
        for row in (("Article", "Name", "Retail"), *sheet):
            page.append(row)
    del book["Sheet"]
    (tmp_path / "notes").mkdir()
    book.save(tmp_path / "notes/prices.xlsx")
    async with open_engine(tmp_path / "data", embedder="minilm") as engine:
        source = DocumentSource(path=str(tmp_path / "notes"))
        await finish(engine, await engine.submit_ingest([source], allowed=None))
        text = (await engine.query(Query("What is the retail price of CF-0042?"))).context.text
    for year, price in ((2024, "850.08"), (2025, "850.5")):
        assert re.search(rf"Table Retail {year}\n(?:(?!Table)[^\n]*\n)*[^\n]*{price}", text), text


async def test_a_folder_is_found_by_its_name_and_no_document_is_said_to_lack_it(engine: LeanRAG) -> None:
    assert "talk/" in (await read_headings(engine, "talk"))[0]
    for question in ("Which talk was about a loaf that was kneaded?", "Which talks were on bread?", "talks"):
        told = (await engine.query(Query(question))).warnings
        assert not any("talk" in each for each in told)


async def test_a_word_for_one_is_found_in_the_name_of_a_folder_for_many(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    for name, text in NOTES.items():
        folder.joinpath(name.replace("/", "-")).write_text(text, encoding="utf-8")
    async with open_engine(tmp_path / "data", embedder="minilm") as held:
        await finish(held, await held.submit_ingest([DocumentSource(path=str(folder))], allowed=None))
        told = (await held.query(Query("Is there an oven policy?"))).warnings
    assert not any("policy" in each for each in told)


async def test_mails_by_a_person_come_before_those_that_quote_or_name_that_person(tmp_path: Path) -> None:
    said = (
        "The cache of Luca Ferrante is stale: Luca Ferrante wrote so in a mail, and Luca Ferrante is right."
    )
    mails = {"Annika Holm": said, "Tom Berg": f"I agree. {said}", "Luca Ferrante": "It fails since Monday."}
    (tmp_path / "mails").mkdir()
    for number, (who, text) in enumerate(mails.items()):
        head = f"From: {who} <a{number}@example.org>\nSubject: News {number}\nDate: Tue, 0{number + 1} Apr 2025 10:00:00 +0000"
        (tmp_path / f"mails/{number}.eml").write_text(f"{head}\n\n{text}\n")
    async with open_engine(tmp_path / "data", embedder="minilm") as engine:
        source = DocumentSource(path=str(tmp_path / "mails"))
        await finish(engine, await engine.submit_ingest([source], allowed=None))
        assert "2.eml" in (await read_headings(engine, "Mails from Luca Ferrante"))[0]


async def test_letters_of_a_person_are_the_files_that_are_called_so(tmp_path: Path) -> None:
    letters = tmp_path / "letters"
    letters.mkdir()
    (letters / "anselm-1987.txt").write_text("Dear Wilhelm,\n\nthe yard is sold for 410,000.\n")
    (letters / "ruth-1989.txt").write_text(
        "Dear Nele,\n\nthe letters of Anselm lie in the drawer, Anselm wrote many letters.\n"
    )
    (tmp_path / "diary").mkdir()
    for day in range(9):
        said = f"In drawer {day}: letters from Anselm, a bundle of letters that Anselm tied with twine."
        (tmp_path / "diary" / f"day {day}.md").write_text(f"{said}\n\nMother asked for tea {day} times.\n")
    async with open_engine(tmp_path / "data", embedder="minilm") as held:
        sources = [DocumentSource(path=str(tmp_path / each)) for each in ("letters", "diary")]
        await finish(held, await held.submit_ingest(sources, allowed=None))
        reply = await held.query(Query("Letters from Anselm"))
    assert "the yard is sold" in reply.context.text


async def test_a_label_and_its_number_are_looked_up_as_one(tmp_path: Path) -> None:
    reports = [
        f"Report {n}.\n\nReviewer {n} asks for {thing}."
        for n, thing in ((1, "figures"), (2, "a longer title"), (3, "data"))
    ]
    async with open_engine(tmp_path, embedder="minilm") as held:
        sources = [DocumentSource(id=f"r{at}", text=text) for at, text in enumerate(reports)]
        await finish(held, await held.submit_ingest(sources))
        first = (await held.query(Query("What did Reviewer 2 ask for?"))).context.lines[0]
        absent = (await held.query(Query("What did Reviewer 7 ask for?"))).warnings
    assert "a longer title" in first.text
    assert "No document has 'Reviewer 7'." in absent


@pytest.mark.parametrize(
    ("question", "apart"),
    [
        ("Which oven does Unox sell in Bremen?", True),
        ("Which oven of Unox did Helga choose?", False),
        ("What do Unox and Bremen have to do with each other?", False),
    ],
)
async def test_names_that_no_passage_has_together_are_told(
    engine: LeanRAG, question: str, apart: bool
) -> None:
    told = (await engine.query(Query(question))).warnings
    assert ("No passage found has 'Unox' and 'Bremen' together: it may not be told." in told) is apart


async def test_what_is_told_of_others_than_the_one_who_is_asked_for_may_not_be_told(tmp_path: Path) -> None:
    texts = (
        "Ines Falk is the director. Her salary is 4,850 EUR a month, and she has thirty days of leave.",
        "Tomas Reuter guides the school classes and trains the volunteers. He speaks Danish.",
        *(f"The lamp of stairs {number} burns all night and is trimmed by Bo." for number in range(9)),
    )
    async with open_engine(tmp_path, embedder="minilm") as held:
        sources = [DocumentSource(id=f"t{at}", text=text) for at, text in enumerate(texts)]
        await finish(held, await held.submit_ingest(sources))
        asked = [
            (await held.query(Query(f"What is {who}'s salary?"))).warnings
            for who in ("Tomas Reuter", "Ines Falk")
        ]
    assert asked == [("No passage found with 'Tomas Reuter' has 'salary': it may not be told.",), ()]


async def test_a_weekday_and_a_plain_compound_are_no_names_that_stand_nowhere_else(tmp_path: Path) -> None:
    texts = (
        "The soup of Sunday has been missed twice, both times because of snow. Nobody plays then.",
        "Drums may be played until eight in the evening, on Sundays not at all. Trumpets may not.",
        *(f"The lamp of stairs {number} burns all night and is trimmed by Bo." for number in range(9)),
        "A flat for Block 7, two-bed, costs 137 a month. Block 8 is full-time staff's.",
    )
    async with open_engine(tmp_path, embedder="minilm") as held:
        sources = [DocumentSource(id=f"t{at}", text=text) for at, text in enumerate(texts)]
        await finish(held, await held.submit_ingest(sources))
        reply = await held.query(Query("Can I play drums on a Sunday evening?"))
        assert reply.sources[0].chunk.document_id == "t1"
        told = (await held.query(Query("What does a full-time place in Block 7 cost?"))).warnings
        assert not any("together" in each for each in told)


async def test_an_outline_of_code_begins_with_what_its_folder_says_of_itself_and_quotes_no_licence(
    tmp_path: Path,
) -> None:
    files = {
        "README.md": "# Lampkeeper\n\nLampkeeper is a library that keeps the lamps of a harbour burning.\n",
        "Lamp.php": "<?php\n/**\n * Copyright 2007 Harbour.\n * You may not use this file except in compliance with the License.\n */\n"
        "/** A lamp keeps its own wick and oil and tells when both run out. */\nclass Lamp {\n}\n",
    }
    (tmp_path / "lampkeeper").mkdir()
    for name, text in files.items():
        (tmp_path / "lampkeeper" / name).write_text(text)
    async with open_engine(tmp_path / "data", embedder="minilm") as engine:
        source = DocumentSource(path=str(tmp_path / "lampkeeper"))
        await finish(engine, await engine.submit_ingest([source], allowed=None))
        text = (await engine.query(Query("What is this project about?"))).context.text
    said = [line for line in text.splitlines() if re.search(r"\[d\d+:c\d+\]$", line)]
    assert said[0].startswith("- Lampkeeper is a library")
    assert any("A lamp keeps its own wick" in line for line in said)
    assert "License" not in text


async def test_an_overview_of_a_document_has_a_line_for_each_of_its_sections_and_nothing_of_others(
    tmp_path: Path,
) -> None:
    parts = {
        "Summary": "wick",
        "Oil": "oil",
        "Glass": "glass",
        "Keepers": "keeper",
        "References": "overview of lamps",
    }
    sections = (
        f"## {name}\n\nThe {word} of each lamp in the harbour was checked twice in that year. {f'It is in order, said Ada {word}. ' * 40}\n"
        for name, word in parts.items()
    )
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/lamps.md").write_text("# Harbour lamps\n\n" + "\n".join(sections))
    for number in range(3):
        text = f"# Lamp {number}\n\nAn overview of lamp {number}: it burns in the harbour, as all lamps do.\n"
        (tmp_path / f"notes/lamp{number}.md").write_text(text)
    async with open_engine(tmp_path / "data", embedder="minilm") as engine:
        source = DocumentSource(path=str(tmp_path / "notes"))
        await finish(engine, await engine.submit_ingest([source], allowed=None))
        question = "Give me an overview of the harbour lamps"
        text = (await engine.query(Query(question))).context.text
        paper = (await engine.query(Query(question, ranking=Ranking.PAPER))).context.text
    assert re.findall(r"^- (\w+): The", text, re.MULTILINE) == ["Summary", "Oil", "Glass", "Keepers"]
    assert "lamp0.md" not in text
    assert "Outline" not in paper  # whose context is as printed


async def test_the_heading_of_a_document_says_nothing_twice(engine: LeanRAG) -> None:
    headings = await read_headings(engine, "Which paint did the steering group choose?")
    headings += await read_headings(engine, "Who drives the van to Bergen?")
    assert "meetings/2025-08-18 steering group.md:3" in headings
    assert "talk/2026-04-02 van.txt: conversation of Nadia and Olaf" in headings


async def test_a_list_of_what_a_name_has_that_stands_nowhere_is_not_sought_in_other_passages(
    engine: LeanRAG,
) -> None:
    context = (await engine.query(Query("Which Kubernetes settings does the oven need?"))).context
    assert "Weak evidence" in context.text
    assert context.tokens < 300
    assert "Weak evidence" not in (await engine.query(Query("Which ovens did Priya compare?"))).context.text
