"""Of a conversation, a context shows the turns that answer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from leanrag_tests_jobs import finish, ingest, open_engine

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.retrieval.request import Filters, Query
from leanrag_engine.retrieval.search.turns import cut_turns

pytestmark = pytest.mark.anyio

NEWS = {
    "2024-01-05": "I rented a small violin workshop behind the old harbour last week",
    "2024-03-11": "I just sold my first violin to a teacher from Lisbon",
    "2024-06-20": "Yesterday the city orchestra ordered four violins from my workshop",
}


def talk(day: str, news: str) -> DocumentSource:
    thanks = "\n\n".join(
        f"{who}: Thanks! Your support in {day} means a lot to me, keep going!" for who in ("Mia", "Ben") * 6
    )
    text = (
        f"# Conversation of Mia and Ben, {day}\n\nBen: Hey Mia! What's up with you?\n\n"
        f"Mia: Hey Ben! {news}. [shares a photo of a table]\n\n{thanks}"
    )
    return DocumentSource(text=text, title=f"Conversation of Mia and Ben, {day}", id=day)


async def test_a_timeline_of_conversations_is_one_block_in_order_of_date_with_the_news_and_few_thanks(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [talk(day, news) for day, news in reversed(NEWS.items())])
        result = await engine.query(
            Query("How did the violin workshop that Mia rented develop over time?", token_budget=400)
        )
    text = result.context.text
    shown = sorted((day for day in NEWS if f"{day} [" in text), key=lambda day: text.index(f"{day} ["))
    assert len(shown) > 1
    assert shown == sorted(shown)
    assert all(NEWS[day] in text for day in shown)
    assert text.count("###") == 1
    assert text.count("Your support in") < 6
    assert "[shares a photo" not in text
    assert result.context.tokens <= 400
    assert {line.citations[0] for line in result.context.lines} == set(result.context.cited)


async def test_a_question_for_a_fact_gets_the_turns_around_the_one_that_answers_whole(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [talk(day, news) for day, news in NEWS.items()])
        result = await engine.query(Query("To whom was the first violin sold?", token_budget=300))
    text = result.context.text
    assert "Ben: Hey Mia! What's up with you?\nMia: Hey Ben! I just sold my first violin" in text
    assert text.count("Your support in 2024-03-11") > 3
    assert "from Lisbon. [shares a photo of a table]" in text


async def test_a_turn_that_is_chosen_whole_for_one_text_and_in_part_for_another_stands_once(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [talk(day, news) for day, news in NEWS.items()])
        parts = ("How did the violin workshop develop over time?", "To whom was the first violin sold?")
        result = await engine.query(Query("What became of Mia?", sub_queries=parts, token_budget=1000))
    text = result.context.text
    assert "Mia: Hey Ben! I just sold my first violin" in text
    assert "Mia: Mia:" not in text
    assert all(text.count(news) < 2 for news in NEWS.values())


async def test_turns_of_a_conversation_without_a_date_are_shown_once_and_alone(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        documents = [talk(day, news) for day, news in NEWS.items()]
        plain = [
            replace(
                each, id=name, title=f"Conversation {name}", text=(each.text or "").replace(day, "spring")
            )
            for each, day, name in zip(documents, NEWS, ("one", "two", "three"), strict=True)
        ]
        await ingest(engine, plain)
        result = await engine.query(
            Query("How did the violin workshop that Mia rented develop over time?", token_budget=400)
        )
    text = result.context.text
    assert all(text.count(news) == 1 for news in NEWS.values())
    assert text.count("Your support in") < 6
    assert "[shares a photo" not in text
    assert text.count("### Conversation ") == 3


CHORES = (
    "paid a tax",
    "read about Rome",
    "lost my keys",
    "sang in the choir",
    "wrote a letter",
    "sold my bicycle",
)


async def test_a_turn_that_says_it_in_other_words_comes_before_praise_and_questions_with_the_words_asked(
    tmp_path: Path,
) -> None:
    said = (
        "I adopted a second terrier from the shelter",
        "My vet gave the puppies their injections",
        "I built a kennel",
    )
    talks = [
        DocumentSource(
            text=f"# Conversation of Ann and Bo, {day}\n\nBo: What do you do for your dogs, Ann?\n\nAnn: Hi! {news}. You are a good friend!\n\n"
            + "\n\n".join(
                f"Ann: I {did} this morning.\n\nBo: You do so much for your dogs!" for did in CHORES
            ),
            title=f"Conversation of Ann and Bo, {day}",
            id=day,
        )
        for day, news in zip(("2024-02-01", "2024-04-02", "2024-07-09"), said, strict=True)
    ]
    async with open_engine(tmp_path, embedder="minilm") as engine:
        await ingest(engine, talks)
        result = await engine.query(Query("List all that Ann did for her dogs over time.", token_budget=160))
        first = result.context.text
        assert all(f"Ann: … {news}." in first for news in said)
        assert sum(chore in first for chore in CHORES) < 4
        assert "You are a good friend" not in first
        result = await engine.query(Query("Who treated the young animals?", token_budget=600))
    assert "My vet gave the puppies their injections" in result.context.text


async def test_of_a_window_that_does_not_fit_the_turn_that_answers_is_shown(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [talk(day, news) for day, news in NEWS.items()])
        result = await engine.query(Query("To whom was the first violin sold?", token_budget=120))
    assert "I just sold my first violin to a teacher from Lisbon" in result.context.text


SALES = ["teacher", "baker", "miller", "joiner", "sailor", "doctor", "painter", "farmer", "printer", "weaver"]


def list_sales() -> DocumentSource:
    turns = [
        f"Mia: I sold the violin that I had finished in week {week} to a {SALES[week % 10]} from street number {week}."
        for week in range(1, 31)
    ]
    return DocumentSource(
        text="\n\n".join(turns), title="Conversation of Mia and Ben, 2024-03-11", id="sales"
    )


async def test_of_a_passage_that_was_shown_in_part_other_turns_come_in_the_next_reply(tmp_path: Path) -> None:
    replies: list[list[str]] = []
    seen: tuple[str, ...] = ()
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [list_sales(), *(talk(day, news) for day, news in NEWS.items())])
        for _ in range(9):
            query = Query("List everybody to whom Mia sold a violin.", token_budget=400, seen=seen)
            result = await engine.query(query)
            replies.append([line for line in result.context.text.split("\n") if "I sold the violin" in line])
            if len(replies) == 1:
                assert "Did not fit: " in result.context.text
                assert result.context.truncated
                first = set(result.context.cited)
            seen = tuple(dict.fromkeys([*seen, *result.context.cited]))
    assert "Nothing new" in result.context.text
    assert first == {"d1:c1", "d1:c2"}, "all passages of the list are seen after the first reply"
    assert len(replies[1]) > 2
    shown = [line.partition("Mia: ")[2] for reply in replies for line in reply]
    assert len(set(shown)) == len(shown)


async def test_the_latest_conversation_comes_first_where_the_latest_is_asked_for(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [talk(day, news) for day, news in NEWS.items()])
        text = (await engine.query(Query("What is the latest on the violin workshop of Mia?"))).context.text
    shown = sorted((day for day in NEWS if f"\n{day}" in text), key=lambda day: text.index(f"\n{day}"))
    assert len(shown) > 1
    assert shown == sorted(shown, reverse=True)


async def test_a_date_has_its_weekday_where_a_turn_counts_from_it(tmp_path: Path) -> None:
    news = NEWS | {"2024-06-20": "Last Friday the city orchestra ordered four violins from my workshop"}
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [talk(day, said) for day, said in news.items()])
        result = await engine.query(Query("How did the violin workshop that Mia rented develop over time?"))
    assert "\n2024-06-20 Thu [" in result.context.text
    assert "\n2024-03-11 [" in result.context.text


async def test_a_word_that_stands_nowhere_is_reported_where_it_can_be_no_verb(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [talk(day, news) for day, news in NEWS.items()])
        thing = await engine.query(Query("What mortgage did Mia pay?"))
        verb = await engine.query(Query("Did Mia mortgage it?"))
    assert "No document has 'mortgage'." in thing.warnings
    assert not any("mortgage" in each for each in verb.warnings)


async def test_conversations_beside_another_document_stand_in_order_of_date(tmp_path: Path) -> None:
    def meet(day: str, fee: str) -> DocumentSource:
        turns = [
            "Mia: Good morning.",
            f"Ben: The fee of the harbour is {fee} euros.",
            "Mia: I see.",
            "Ben: Next item.",
        ]
        return DocumentSource(text="\n\n".join(turns), title=f"Conversation of Mia and Ben, {day}", id=day)

    page = DocumentSource(
        text="The fee of the harbour pays for the lamp.\n\n" * 3, title="Harbour", id="page"
    )
    talks = [meet("2024-06-11", "20"), meet("2024-09-10", "17"), meet("2024-05-14", "12")]
    async with open_engine(tmp_path, embedder="minilm") as engine:
        await ingest(engine, [*talks, page])
        for question, fees in (
            ("What is said of the fee of the harbour?", ["12", "20", "17"]),
            ("What is the fee of the harbour now?", ["17", "20", "12"]),
        ):
            text = (await engine.query(Query(question, token_budget=1000))).context.text
            assert re.findall(r"harbour is (\d+) euros", text) == fees
            assert "### Harbour" in text


def test_a_short_sentence_with_a_figure_tells_something_and_a_greeting_does_not() -> None:
    (turn, *_) = cut_turns(
        "Ann: January 1984. Good evening!\n\nBen: And then?\n\nAnn: Nothing at all happened."
    )
    assert [part.tells for part in turn.parts] == [True, False]


def group(name: str, days: dict[str, str]) -> DocumentSource:
    small = [
        f"{who}: {said}" for said in ("fine by me then", "see you at the door") for who in ("Ada", "Ben")
    ]
    text = "\n\n".join(f"# {day}\n\nCleo: {said}\n\n" + "\n\n".join(small) for day, said in days.items())
    return DocumentSource(text=text, title=name, id=name)


@pytest.mark.parametrize("long_ago", ["2023-01-02", "2023-12-30"])
async def test_turns_of_a_long_conversation_count_and_stand_by_their_own_days(
    tmp_path: Path, long_ago: str
) -> None:
    """A group that began long ago is not older than one that began later and ended before."""
    async with open_engine(tmp_path) as engine:
        old = {long_ago: "we begin", "2024-09-01": "the anchorage of the trip is Sines from now on"}
        await ingest(
            engine,
            [
                group("Crew", old),
                group("Club", {"2024-02-01": "the anchorage of the trip is Lagos, settled"}),
            ],
        )
        text = (await engine.query(Query("What is the anchorage of the trip now?"))).context.text
    assert text.index("2024-09-01") < text.index("Sines") < text.index("2024-02-01") < text.index("Lagos")
    assert long_ago not in text.partition("Sines")[0]


async def test_turns_of_the_group_that_a_question_names_come_first(tmp_path: Path) -> None:
    dates = (
        "the date of the trip changes to {} {}",
        "new date of the trip: {} {}",
        "the date of the trip is {} {} after all",
    )
    async with open_engine(tmp_path) as engine:
        groups = [
            group(
                f"{name}: conversation of Ada, Ben and Cleo",
                {f"2024-0{n}-01": said.format(n + 10, month) for n, said in enumerate(dates, 1)},
            )
            for name, month in (("Oslo", "May"), ("Lisbon", "June"), ("Ghent", "July"), ("Turin", "August"))
        ]
        await ingest(engine, groups)
        question = Query("How did the date of the Lisbon trip change?", token_budget=300)
        text = (await engine.query(question)).context.text
    assert all(f"{n} June" in text for n in (11, 12, 13))


async def test_a_span_of_time_takes_the_days_of_a_long_conversation_and_the_mails_of_a_mailbox(
    tmp_path: Path,
) -> None:
    days = {f"2024-0{month}-01": f"the mooring costs {month}00 a year" for month in range(1, 8)}
    chat = "\n\n".join(
        f"[{day}, 12:00:00] Cleo: {said}\n\n[{day}, 12:01:00] Ben: {'that is too much for us, ' * 40}"
        for day, said in days.items()
    )
    mails = "".join(
        f"From a@example.org Mon Jan  1 10:00:00 2024\nFrom: Ada <a@example.org>\nSubject: Bees {month}\n"
        f"Date: Mon, 01 {month} 2024 10:00:00 +0000\n\nThe hive weighs much in {month}.\n\n"
        for month in ("Jan", "Apr", "Jul")
    )
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/harbour.txt").write_text(chat, encoding="utf-8")
    (tmp_path / "notes/bees.mbox").write_text(mails, encoding="utf-8")
    async with open_engine(tmp_path / "data") as engine:
        source = DocumentSource(path=str(tmp_path / "notes"))
        await finish(engine, await engine.submit_ingest([source], allowed=None))
        filters = Filters(since="2024-03-15", until="2024-05-15")
        costs = (await engine.query(Query("What does the mooring cost?", filters=filters))).context.text
        mailed = (await engine.query(Query("What does the hive weigh?", filters=filters))).context.text
    assert "500" in costs
    assert not any(f"{month}00" in costs for month in (1, 2, 7))
    assert "weighs much in Apr" in mailed


async def test_a_short_turn_is_shown_whole_where_several_things_are_asked(tmp_path: Path) -> None:
    """Its few words beside a longer sentence, *a shade darker*, may be what is asked for."""
    text = (
        "Tom: The replacement tiles came today. A shade darker.\n\n"
        "Ann: Then they are for the showers, not for the big hall of the pool.\n\n"
        "Tom: Fine. I will tell the tilers from Bergen tomorrow morning.\n"
    )
    async with open_engine(tmp_path) as engine:
        await ingest(engine, [DocumentSource(text=text, title="Tiles", id="tiles")])
        result = await engine.query(Query("What happened with the tiles, in order?", token_budget=400))
    assert "The replacement tiles came today. A shade darker." in result.context.text
