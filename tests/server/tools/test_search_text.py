"""Exact text and patterns, asked as a client asks; the oracle is the documents' own text."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import regex

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.browse import text_search
from leanrag_engine.retrieval.browse.text_search import TextSearchLimits, compile_text, search_text

if TYPE_CHECKING:
    from conftest import Caller

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]
WORDS = [
    "Straße",
    "the",
    "lamp",
    "LAMP-post",
    "don’t",
    "“quoted”",
    "naïve",
    "灯台",
    "d3",
    "x_y",
    "3.14",
    "…",
    "Лампа",
    "a",
]


async def ingest(call: Caller, text: str, title: str) -> None:
    await call("ingest_documents", documents=[{"text": text, "title": title}], wait_seconds=30)


def write_documents() -> dict[str, str]:
    """Return texts of up to 20 chunks: random words in sentences and paragraphs, under headings."""
    draw = random.Random(5)  # noqa: S311 - a corpus is no secret
    texts = {}
    for number in range(6):
        lines = []
        for part in range(4 * number + 2):
            lines.append(f"# Part {part}")
            for _ in range(6):
                lines.append(" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) + ".")
                lines.append("" if draw.random() < 0.5 else draw.choice(["the lamp", "A  LAMP"]))
        texts[f"doc {number}"] = "\n".join(lines)
    return texts


TEXTS = write_documents()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts")

    async def fill() -> None:
        settings = load_settings(data_dir=path, chunk_tokens=64, chunk_overlap=16)
        async with await LeanRAG.open(settings) as engine:
            sources = [DocumentSource(text=text, id=name, title=name) for name, text in TEXTS.items()]
            job = await engine.job((await engine.submit_ingest(sources, build=False)).id, 60)
            assert job.status.value == "done", job.message

    anyio.run(fill)
    return path


@pytest.fixture
async def ask(folder: Path, serve_in_process: Serve) -> AsyncIterator[Caller]:
    async with serve_in_process(folder) as caller:
        yield caller


async def find_all(ask: Caller, text: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the matches of all pages."""
    matches: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = await ask("search_text", text=text, limit=100, cursor=cursor, **arguments)
        assert not page.is_error, page.text
        assert page.data["complete"]
        matches += page.data["matches"]
        cursor = page.data["next_cursor"]
        if not cursor:
            assert page.data["total"] == sum(each["count"] for each in matches)
            return matches


LITERALS = [
    ("lamp", r"lamp"),
    ("amp", r"amp"),
    ("the lamp", r"the\s+lamp"),
    ("the  LAMP-post the", r"the\s+lamp-post\s+the"),
    ("don't", r"don[’']t"),
    ('"quoted" lamp', r"[“\"]quoted[”\"]\s+lamp"),
    ("灯台", "灯台"),
    ("лампа", "лампа"),
    ("straße", "straße"),
    ("3.14", r"3\.14"),
    ("...", "…"),
    ("lamp. a lamp", r"lamp\.\s+a\s+lamp"),
    ("x_", "x_"),
    ("nowhere", "nowhere"),
]


@pytest.mark.parametrize(("text", "oracle"), LITERALS)
async def test_every_place_of_a_text_is_found_once_whatever_its_case_quotes_and_white_space(
    ask: Caller, text: str, oracle: str
) -> None:
    matches = await find_all(ask, text)
    expected = {name: len(re.findall(oracle, whole, re.IGNORECASE)) for name, whole in TEXTS.items()}
    assert sum(each["count"] for each in matches) == sum(expected.values())
    found = {each["document"] for each in matches}
    again = {f"doc {int(number) - 1}" for each in matches for number in re.findall(r"d(\d+):", each["also"])}
    assert found | again == {name for name, count in expected.items() if count}


PATTERNS = [
    r"\blamp\b",
    r"^the lamp$",
    r"(?<=the )lamp",
    r"\d\.\d+",
    r"# part 1?\d",
    r"lamp.{0,9}a\b",
    r"[“”]",
    r"\p{Han}+",
]


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_a_pattern_finds_what_it_finds_in_the_whole_documents(ask: Caller, pattern: str) -> None:
    matches = await find_all(ask, pattern, match="pattern")
    oracle = pattern.replace(r"\p{Han}", "[灯台]")
    flags = re.IGNORECASE | re.MULTILINE
    assert (
        sum(each["count"] for each in matches)
        == sum(len(re.findall(oracle, whole, flags)) for whole in TEXTS.values())
        > 0
    )


async def test_the_cited_passages_hold_the_match_and_the_excerpt_shows_it(ask: Caller) -> None:
    for match in await find_all(ask, "lamp the"):
        passages = (await ask("get_sources", citations=[match["citation"].split("-")[0]])).data["sources"]
        assert "lamp" in passages[0]["text"].casefold()
        assert "lamp the" in match["excerpt"].casefold()
        assert passages[0]["document"] == match["document"]


async def test_a_search_in_one_document_finds_only_there(ask: Caller) -> None:
    matches = await find_all(ask, "lamp", filters={"documents": ["doc 3"]})
    count = len(re.findall("lamp", TEXTS["doc 3"], re.IGNORECASE))
    assert sum(each["count"] for each in matches) == count > 0
    assert {each["document"] for each in matches} == {"doc 3"}
    refused = await ask("search_text", text="lamp", filters={"documents": ["doc 33"]})
    assert refused.is_error
    assert "doc 3" in refused.text


async def test_stretches_of_a_long_document_together_find_what_one_stretch_finds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = TextSearchLimits(stretch=700, longest_match=200, batch=3)
    async with await LeanRAG.open(load_settings(data_dir=folder)) as engine:
        index = await engine._snapshots.open("default")
        for text, pattern in [*((text, False) for text, _ in LITERALS), *((text, True) for text in PATTERNS)]:
            whole = await search_text(index, text, 0, 10_000, pattern=pattern)
            with monkeypatch.context() as patch:
                patch.setattr(text_search, "LIMITS", small)
                parts = await search_text(index, text, 0, 10_000, pattern=pattern)
            assert [each.citation for each in parts.matches] == [each.citation for each in whole.matches], (
                text
            )
            assert parts.total == whole.total


async def test_no_compiled_pattern_is_kept(ask: Caller) -> None:
    held = regex.compile("never asked for before").pattern and len(regex._main._cache)
    for match in ("exact", "pattern"):
        await find_all(ask, "keeper of the light", match=match)
    assert len(regex._main._cache) == held


@pytest.mark.parametrize("pattern", [r"(?:(\w)|(\w)|(.))*[!9]{2}", r"(a|a)*(b|.)*[!9]{2}"])
async def test_a_pattern_that_would_run_for_ever_ends_with_what_it_found(
    tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "LIMITS", TextSearchLimits(seconds=0.3))
    # In a line of this length each of the patterns runs for much longer than the test may take.
    source = DocumentSource(text="lamp " * 4000, id="one line", title="One line")
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await engine.job((await engine.submit_ingest([source], build=False)).id, 60)
        index = await engine._snapshots.open("default")
        with anyio.fail_after(60):
            found = await search_text(index, pattern, 0, 10, pattern=True)
        assert not found.complete


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (f"{'(' * 150}.{')' * 150}*", "a lamp", ["a lamp"]),
        (r"(?P<one>l)(?<two>a)(?:m)(?=p)", "lamp", ["lam"]),
        (r"[(]l(a)\(|[^](](m)[])]", "(la( xm)", ["(la(", "xm)"]),
        (r"(l)(a)\2", "laa", ["laa"]),
    ],
)
def test_groups_of_a_pattern_keep_nothing_and_find_the_same(
    pattern: str, text: str, found: list[str]
) -> None:
    expression = compile_text(pattern, pattern=True)
    assert [each[0] for each in expression.finditer(text) if each[0]] == found
    assert expression.groups == 2 * ("\\2" in pattern), (
        "each kept what it matched: 6 GB for 100,000 characters"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"text": " \u200b"}, ["text is empty", "Give the words"]),
        ({"text": "(", "match": "pattern"}, ["'('", "not a regular expression", "match='pattern'"]),
        ({"text": "(" * 500, "match": "pattern"}, ["not a regular expression"]),
        ({"text": r"\w{99999999}", "match": "pattern"}, ["too costly", "200,000"]),
        ({"text": f"(?:{'[ab]c' * 150}){{10000}}", "match": "pattern"}, ["too costly"]),
        ({"text": r"a\\{100000}", "match": "pattern"}, ["too costly"]),
        ({"text": "(?x)(?:ab){1 0#\n0 0 0 0}", "match": "pattern"}, ["too costly"]),
        ({"text": r"(?:(?:a{300}){300}){300}", "match": "pattern"}, ["too costly"]),
        ({"text": r"a(?R)?b", "match": "pattern"}, ["too costly", "no recursion"]),
        ({"text": r"(a)(b)(c)(d)\1", "match": "pattern"}, ["too costly", "at most 3 groups"]),
        ({"text": "x" * 1001}, ["1,001 characters", "at most 1,000"]),
    ],
)
async def test_a_text_that_cannot_be_searched_says_why(
    ask: Caller, arguments: dict[str, Any], said: list[str]
) -> None:
    reply = await ask("search_text", **arguments)
    assert reply.is_error
    for part in said:
        assert part in reply.text


async def test_a_quotation_is_found_without_its_marks_and_a_changed_one_shows_what_stands_there(
    serve_in_process: Serve, lighthouses: Path
) -> None:
    async with serve_in_process(lighthouses) as ask:
        for text in ("“Alan Stevenson designed Skerryvore.”", "'Alan Stevenson designed  skerryvore'"):
            reply = await ask("search_text", text=text)
            assert [each["document"] for each in reply.data["matches"]] == ["Skerryvore"]
        for text in (
            "Alan Stevenson built Skerryvore in 1843.",
            '"Skerryvore was lit in 1843. Its granite tower is 50 metres high."',
        ):
            changed = await ask("search_text", text=text)
            assert changed.data["total"] == 0
            assert changed.data["nearest"]["document"] == "Skerryvore"
            assert changed.data["nearest"]["excerpt"] in changed.text
            assert "does not stand there word for word" in changed.text
        assert (
            changed.data["nearest"]["excerpt"]
            == "Skerryvore was lit in 1844. Its granite tower is 48 metres high."
        )
        other = await ask(
            "search_text", text="Skerryvore was lit in 1843.", filters={"documents": ["Bell Rock"]}
        )
        assert (other.data["nearest"] or {"document": "Bell Rock"})["document"] == "Bell Rock"
        assert (await ask("search_text", text="Nothing of this stands anywhere")).data["nearest"] is None


@pytest.mark.parametrize("arguments", [{}, {"match": "pattern"}])
async def test_a_text_that_stands_outside_the_filters_alone_is_not_said_to_stand_nowhere(
    serve_in_process: Serve, lighthouses: Path, arguments: dict[str, Any]
) -> None:
    async with serve_in_process(lighthouses) as ask:
        within = {"filters": {"documents": ["Bell Rock"]}, **arguments}
        reply = await ask("search_text", text="designed Skerryvore", **within)
        nowhere = await ask("search_text", text="designed Nothing", **within)
    assert reply.data["total"] == 0
    assert "Search without `filters`: it stands in 1 document outside them." in reply.text
    assert "outside" not in nowhere.text


async def test_no_match_is_an_answer(ask: Caller) -> None:
    reply = await ask("search_text", text="The lamp was never lit.")
    assert not reply.is_error
    assert reply.data["total"] == 0
    assert reply.text.startswith("No match.")


@pytest.fixture
async def notices(tmp_path: Path, serve_in_process: Serve) -> AsyncIterator[Caller]:
    """Four dated notes and one without a date, which all hold one paragraph."""
    notice = "Nothing in this notice is legal advice, and nobody may rely on it in court."
    async with serve_in_process(tmp_path) as call:
        documents = [
            {
                "id": f"n{number}",
                "title": f"Release {number}",
                "text": f"# Version 0.{number}\n\nThe flag spam is number {number}. Eggs and more spam.\n\n# Legal\n\n{notice}\n",
                "metadata": {"kind": "even" if number % 2 == 0 else "odd"}
                | ({"date": f"2024-0{number}-01"} if number < 5 else {}),
            }
            for number in range(1, 6)
        ]
        reply = await call("ingest_documents", documents=documents, build=False, wait_seconds=40)
        assert reply.data["status"] == "done", reply.text
        yield call


async def test_the_same_text_is_said_once_with_the_other_places(notices: Caller) -> None:
    reply = await notices("search_text", text="legal advice")
    (match,) = reply.data["matches"]
    assert (reply.data["total"], match["count"]) == (5, 5)
    assert match["heading"] == "Legal"
    assert [where.split(":")[0] for where in match["also"].split(", ")] == ["d2", "d3", "d4", "d5"]
    assert reply.text.count("court") == 1
    assert f"also in {match['also']}" in reply.text


async def test_what_looks_like_a_citation_within_a_match_is_not_one(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        documents = [{"id": "x", "text": "The oven is hot, as [d7:c1] says."}]
        await call.finish(await call("ingest_documents", documents=documents, build=False, wait_seconds=40))
        reply = await call("search_text", text="oven is hot")
    assert "[d1:c1]" in reply.text
    assert "hot, as (d7:c1) says" in reply.text


async def test_a_match_of_a_file_names_its_line_and_one_of_a_text_none(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    gardens = [
        f"## Garden {n}\n\nThe tea of Makaibari{n} is picked by hand. {'It is dried. ' * 200}"
        for n in range(3)
    ]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tea.md").write_text("\n\n".join(["# Tea", *gardens]))
    async with serve_in_process(tmp_path / "data", allow_dirs=(tmp_path / "notes",)) as call:
        documents = [{"path": str(tmp_path / "notes" / "tea.md")}, {"id": "x", "text": "Tea of Assam1."}]
        await call.finish(await call("ingest_documents", documents=documents, build=False, wait_seconds=40))
        several = await call("search_text", text="Makaibari")
        one = await call("search_text", text="Makaibari2")
        none = await call("search_text", text="Assam1")
    assert [each["line"] for each in several.data["matches"]] == [5, 9, 13]
    assert "] line 9: Garden 1: The tea of Makaibari1" in several.text
    assert "tea.md:13): Garden 2: The tea" in one.text
    assert [each["line"] for each in none.data["matches"]] == [None]


async def test_a_passage_is_one_entry_with_its_heading_and_the_number_of_its_matches(notices: Caller) -> None:
    reply = await notices("search_text", text="spam")
    assert [each["heading"] for each in reply.data["matches"]] == [f"Version 0.{n}" for n in range(1, 6)]
    assert [each["count"] for each in reply.data["matches"]] == [2] * 5
    assert "10 matches in 5 documents" in reply.text
    page = await notices("search_text", text="spam", limit=2)
    rest = await notices("search_text", text="spam", cursor=page.data["next_cursor"])
    assert [each["document"] for each in page.data["matches"] + rest.data["matches"]] == [
        f"Release {n}" for n in range(1, 6)
    ]


@pytest.mark.parametrize(
    ("filters", "found", "undated"),
    [
        ({"metadata": {"kind": "even"}}, ["Release 2", "Release 4"], 0),
        ({"since": "2024-02-15"}, ["Release 3", "Release 4"], 1),
        ({"until": "2024-01-31"}, ["Release 1"], 1),
        ({"documents": ["d5", "Release 1"]}, ["Release 1", "Release 5"], 0),
        ({"documents": ["d5"], "metadata": {"kind": "odd"}}, ["Release 5"], 0),
        ({"metadata": {"kind": "even|odd"}, "until": "2024-02-01"}, ["Release 1", "Release 2"], 1),
    ],
)
async def test_a_search_for_text_has_the_filters_of_a_query(
    notices: Caller, filters: dict[str, Any], found: list[str], undated: int
) -> None:
    reply = await notices("search_text", text="spam", filters=filters)
    assert [each["document"] for each in reply.data["matches"]] == found
    assert ("Left out for lack of a date: 1 document." in reply.text) is bool(undated)


@pytest.mark.parametrize("tool", ["search_text", "query_lca_context"])
async def test_tags_of_front_matter_and_folders_are_filters_of_all_tools(
    tmp_path: Path, serve_in_process: Serve, tool: str
) -> None:
    notes = {
        "sea/a.md": "tags: [oban, ferry]",
        "sea/b.md": "tags:\n  - mull\n  - ferry",
        "land/c.md": "tags: mull",
    }
    for name, fields in notes.items():
        file = tmp_path / "notes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\n{fields}\n---\nThe spam of {name}.\n")
    async with serve_in_process(tmp_path / "data", allow_dirs=(tmp_path,)) as call:
        await call("ingest_documents", documents=[{"path": str(tmp_path)}], build=False, wait_seconds=40)
        for filters, found in (
            ({"metadata": {"tags": "ferry"}}, ["sea/a.md", "sea/b.md"]),
            ({"metadata": {"tags": "mull|oban"}}, list(notes)),
            ({"metadata": {"tags": "mull"}, "documents": ["sea/"]}, ["sea/b.md"]),
            ({"documents": ["notes/sea/"]}, ["sea/a.md", "sea/b.md"]),
        ):
            asked = {"text" if tool == "search_text" else "query": "spam", "filters": filters}
            reply = await call(tool, **asked)
            assert {name for name in notes if f"The spam of {name}." in reply.text} == set(found), filters
        refused = await call(tool, **asked | {"filters": {"metadata": {"tags": "tea"}}})
        assert "tags has these values: ferry, mull, oban." in refused.text


async def test_a_match_is_under_the_heading_that_it_stands_under_wherever_its_passage_begins(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    sections = [f"## Version {number}\n\nIt has the flag spam{number}." for number in range(200)]
    async with serve_in_process(tmp_path) as call:
        documents = [{"id": "log", "text": "# Log\n\n" + "\n\n".join(sections)}]
        await call("ingest_documents", documents=documents, build=False, wait_seconds=40)
        for number in (3, 77, 190):
            (match,) = (await call("search_text", text=f"spam{number}.")).data["matches"]
            assert match["heading"].endswith(f"Version {number}")


CHATS = {
    "2024-05-02": [
        "Ada: Hello Ben! What a day.",
        (
            "Ben: Hi Ada. We adopted a dog named Buddy yesterday. He sleeps on the couch, barks at the postman, hides his "
            "toys under the bed, steals socks from the basket and howls whenever a siren passes by our street at night. "
            "My girlfriend wanted a cat, but the shelter had none that week. Now we walk for an hour each morning."
        ),
        "Ada: Lovely, buddy!",
    ],
    "2024-05-01": ["Ada: Don't give up, buddy!", "Ben: I will not.", "Ada: Good."],
    "2024-05-03": ["Ben: The gf and I went hiking.", "Ada: With Buddy?", "Ben: Yes, he hiked all day."],
}


@pytest.fixture
async def chats(tmp_path: Path, serve_in_process: Serve) -> AsyncIterator[Caller]:
    """Three dated conversations, the earliest of them added as the second."""
    async with serve_in_process(tmp_path) as call:
        documents = [
            {"id": day, "title": f"Chat of {day}", "text": "\n\n".join(turns), "metadata": {"date": day}}
            for day, turns in CHATS.items()
        ]
        reply = await call("ingest_documents", documents=documents, wait_seconds=40)
        assert reply.data["status"] == "done", reply.text
        yield call


async def test_a_match_is_quoted_in_whole_sentences_with_its_speaker_and_every_cut_marked(
    chats: Caller,
) -> None:
    (short,) = (await chats("search_text", text="went hiking")).data["matches"]
    assert (short["date"], short["excerpt"]) == ("2024-05-03", "Ben: The gf and I went hiking.")
    (long,) = (await chats("search_text", text="wanted a cat")).data["matches"]
    assert long["excerpt"] == "Ben: … My girlfriend wanted a cat, but the shelter had none that week."
    (two,) = (await chats("search_text", text=r"Hello|Lovely", match="pattern")).data["matches"]
    assert two["excerpt"] == "Ada: Hello Ben! What a day. … Ada: Lovely, buddy!"
    (many,) = (
        await chats("search_text", text=r"\b[AB]\w\w: ", match="pattern", filters={"documents": ["d3"]})
    ).data["matches"]
    assert many["count"] == 3
    assert many["excerpt"] == "Ben: The gf and I went hiking. Ada: With Buddy? Ben: Yes, he hiked all day."
    (cut,) = (await chats("search_text", text=r"\w+", match="pattern", filters={"documents": ["d3"]})).data[
        "matches"
    ]
    assert cut["excerpt"].endswith(" …")


async def test_passages_and_documents_come_by_date_where_that_is_asked(chats: Caller) -> None:
    asked: dict[str, Any] = {"text": "Ada", "by_document": True}
    in_order = await chats("search_text", **asked)
    assert [each["date"] for each in in_order.data["matches"]] == list(CHATS)
    by_date = await chats("search_text", **asked, by_date=True)
    assert [each["date"] for each in by_date.data["matches"]] == sorted(CHATS)
    page = await chats("search_text", **asked, by_date=True, limit=2)
    rest = await chats("search_text", **asked, by_date=True, cursor=page.data["next_cursor"])
    assert page.data["matches"] + rest.data["matches"] == by_date.data["matches"]
    assert "Here 1–2 of 3" in page.text


async def test_a_page_of_a_topic_has_the_best_in_order_of_date_and_the_next_one_those_after_them(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    texts = {
        "2024-05": "red nets, old boats",
        "2024-01": "red nets, old ropes",
        "2024-03": "red nets, old boats",
    }
    async with serve_in_process(tmp_path) as call:
        documents = [
            {"id": day, "text": f"{each}.", "metadata": {"date": day}} for day, each in texts.items()
        ]
        documents += [{"id": "other", "text": "Boats."}]
        documents[2]["text"] += " On the pier."
        await call("ingest_documents", documents=documents, build=False, wait_seconds=40)
        asked = {"text": "red nets old boats", "match": "topic", "by_date": True}
        page = await call("search_text", **asked, limit=2)
        assert [each["date"] for each in page.data["matches"]] == ["2024-03", "2024-05"]
        assert "Here the best 1–2 of 3." in page.text
        rest = await call("search_text", **asked, cursor=page.data["next_cursor"])
        assert [each["date"] for each in rest.data["matches"]] == ["2024-01"]
        whole = await call("search_text", **asked)
        assert [each["date"] for each in whole.data["matches"]] == sorted(texts)


async def test_a_topic_quotes_the_nearest_statement_with_the_reply_to_a_question_and_what_a_short_reply_is_about(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    chat = [
        "Ada: The dog barks.",
        "Ben: Was the couch grey? [shares a photo]",
        "Ada: No, red.",
        "Ben: I sold it in May to my sister.",
    ]
    async with serve_in_process(tmp_path) as call:
        documents = [{"id": f"c{n}", "text": f"Ada: The dog sleeps for {n} hours."} for n in range(3)]
        documents += [{"id": "d", "text": "\n\n".join(chat)}]
        await call.finish(await call("ingest_documents", documents=documents, wait_seconds=40))
        for topic, turns in (("the dog on the couch", chat[1:3]), ("red", chat[1:3]), ("sold", chat[3:])):
            reply = await call("search_text", text=topic, match="topic", filters={"documents": ["d"]})
            assert [each["excerpt"] for each in reply.data["matches"]] == [" ".join(turns)]


async def test_a_topic_lists_all_forms_of_its_words_and_a_name_apart_from_the_plain_word(
    chats: Caller,
) -> None:
    async def list_days(text: str, **arguments: Any) -> list[str]:
        reply = await chats("search_text", text=text, match="topic", by_document=True, **arguments)
        return [each["date"] for each in reply.data["matches"]]

    assert await list_days("hikes") == ["2024-05-03"]
    assert await list_days("All conversations that mention Buddy") == ["2024-05-02", "2024-05-03"]
    assert await list_days("girlfriend") == ["2024-05-02"]
    assert await list_days("girlfriend|gf") == ["2024-05-02", "2024-05-03"]
    assert await list_days("girlfriend|gf", filters={"since": "2024-05-03"}) == ["2024-05-03"]
    # *went* is a form of *go* that shares no stem with it.
    assert await list_days("goes hiking") == ["2024-05-03"]


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("Strasse", "Die Straße nach Oban ist gesperrt."),
        ("Петр", "Маяк зажигал Пётр Смирнов."),
        ("שלום", "הוא אמר שָׁלוֹם לכולם."),
        ("caf\u00e9", "Two cafes opened in Oban."),
        ("灯塔", "这座灯塔建于一八一一年。"),
        ("灯台", "灯台守は塔に住んでいる。"),
        ("build isolation", "The flag --no-build-isolation turns it off."),
        ("hard links", "It needs hardlinks."),
        ("pre-release", "A prerelease came out."),
        ("studies", "She was studying the reef."),
    ],
)
async def test_a_topic_is_found_however_its_words_are_written(
    tmp_path: Path, serve_in_process: Serve, topic: str, text: str
) -> None:
    async with serve_in_process(tmp_path) as call:
        documents = [{"id": "a", "text": text}, {"id": "b", "text": "General Stone sold herring."}]
        await call("ingest_documents", documents=documents, build=False, wait_seconds=40)
        reply = await call("search_text", text=topic, match="topic")
        assert [each["excerpt"] for each in reply.data["matches"]] == [text]
        assert "Only words were compared: there is no build yet." in reply.text
        # The stem of *generator* is that of *general*.
        assert not (await call("search_text", text="generators", match="topic")).data["matches"]


async def test_equal_sides_of_a_topic_count_once_and_too_many_are_refused(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    async with serve_in_process(tmp_path) as call:
        documents = [{"id": "a", "text": "The lighthouse keeper lives in the tower."}]
        await call("ingest_documents", documents=documents, build=False, wait_seconds=40)
        same = await call("search_text", text="tower| |" * 100, match="topic")
        assert same.data["total"] == 1
        many = await call("search_text", text="|".join(f"tower {n}" for n in range(21)), match="topic")
        assert "21 topics were given, at most 20 are taken" in many.text


async def test_a_topic_says_how_many_there_are_where_the_list_ends_and_what_stands_nowhere(
    chats: Caller,
) -> None:
    reply = await chats("search_text", text="adopting a dog from Zanzibar", match="topic", by_document=True)
    assert reply.data["entries"] == reply.data["documents"] == 1
    assert reply.text.startswith("1 document on it, all with every word of it.")
    assert "Nowhere: Zanzibar." in reply.text
    part = await chats("search_text", text="couch toys siren hiking", match="topic")
    (match,) = part.data["matches"]
    assert match["partial"]
    assert "~ " in part.text
    assert "0 with every word of it, the others (~)" in part.text
    none = await chats("search_text", text="volcanoes", match="topic")
    assert not none.data["matches"]
    assert "Nothing on it" in none.text
    assert "Nowhere: volcanoes." in none.text
    empty = await chats("search_text", text=" | ", match="topic")
    assert empty.is_error
    assert "The topic is empty" in empty.text


async def test_a_topic_is_found_by_all_names_that_the_graph_has_for_what_it_names(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    texts = [
        "Ewan Reid keeps the ferry at Oban. Ewan Reid was born on Mull.",
        "In winter E. Reid repairs the nets. The harbour pays E. Reid for it.",
        "Moira Ker sells herring in Oban.",
    ]
    async with serve_in_process(tmp_path) as call:
        documents = [{"text": text, "id": f"n{number}"} for number, text in enumerate(texts)]
        await call.finish(await call("ingest_documents", documents=documents, wait_seconds=40))
        await call("merge_entities", entities=["Ewan Reid", "E. Reid"])
        await call.finish(await call("build_hierarchy", wait_seconds=40))
        reply = await call("search_text", text="Ewan Reid", match="topic")
        assert [each["citation"] for each in reply.data["matches"]] == ["d1:c1", "d2:c1"]
        assert "2 documents on it, all with every word of it." in reply.text
        assert "Also looked for: E. Reid." in reply.text


async def test_a_topic_of_one_word_says_where_it_stands_within_longer_ones(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    texts = ("The firewall keeps them out.", "Open the port with firewalld_rule.")
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[{"text": each} for each in texts], wait_seconds=30)
        found = await call("search_text", text="firewall", match="topic")
        assert found.data["documents"] == 1
        assert "1 more document has it within longer words: match='exact'." in found.text
        beyond = await call("search_text", text="the", cursor="99")
        assert "None is left for this page." in beyond.text


async def test_an_alternative_of_which_a_word_stands_nowhere_lists_nothing_of_its_other_word(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    texts = ("The precompiled file is shipped.", "A binary star has two suns.", "Binary numbers are short.")
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[{"text": each} for each in texts], wait_seconds=30)
        found = await call("search_text", text="precompiled|prebuilt binary", match="topic")
        assert [each["excerpt"] for each in found.data["matches"] if not each["partial"]] == [texts[0]]


async def test_what_explains_a_term_is_quoted_with_it_and_a_term_with_what_explains_it(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    text = (
        "OPTIONS\n\n"
        "**-A, --all-tagged**\n    Use all hosts of the list. Currently in beta.\n\n"
        "onchange\n   Run this command after a download.\n\n"
        "FLAGS\n   -q, --quiet\n          Say nothing.\n\n"
        "4.8.1: 2018-03-09\n\t* Core: Fix the cache\n\t* Core: Add an exporter\n\n"
        "def load(path):\n    return exporter_of(path)\n"
    )
    said = {
        "Currently in beta": "**-A, --all-tagged** … Currently in beta.",
        "onchange": "onchange Run this command after a download.",
        "--quiet": "-q, --quiet Say nothing.",
        "Add an exporter": "4.8.1: 2018-03-09 … * Core: Add an exporter",
        "exporter_of": "return exporter_of(path)",
    }
    async with serve_in_process(tmp_path) as call:
        await ingest(call, text, "Manual")
        for wanted, quoted in said.items():
            found = await call("search_text", text=wanted)
            assert found.data["matches"][0]["excerpt"].endswith(quoted), found.text


async def test_a_post_within_a_thread_bears_its_own_date(tmp_path: Path, serve_in_process: Serve) -> None:
    posts = (
        "From: ada\nDate: Thu, 5 Jul 2018 10:00:00 +0000\nSubject: lamp\n\nThe lamp is broken.",
        "From: bob\nDate: 2018-11-04T01:03:06Z\nSubject: Re: lamp\n\nThe lamp is mended.",
    )
    async with serve_in_process(tmp_path) as call:
        await ingest(call, "\n\n---\n\n".join(posts), "Thread")
        for wanted, day in (("lamp is broken", "2018-07-05"), ("lamp is mended", "2018-11-04")):
            for match in ("exact", "topic"):
                found = await call("search_text", text=wanted, match=match)
                assert f"] Thread: {day}: " in found.text
                assert f"The {wanted}." in found.text


async def test_a_range_that_ends_before_it_says_so(tmp_path: Path, serve_in_process: Serve) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[{"text": "The lamp is lit."}], wait_seconds=30)
        found = await call("get_sources", citations=["d1:c1-c9"])
        assert "There is no d1:c9: the document ends with d1:c1." in found.text
        assert "The lamp is lit." in found.text


async def test_what_a_person_wrote_is_quoted_where_the_name_heads_or_signs_it(
    tmp_path: Path, serve_in_process: Serve
) -> None:
    posts = (
        "From: ada\nDate: 2018-07-05\nSubject: lamp\n\nThe lamp is broken. Who mends it?",
        "From: bob\nDate: 2018-11-04\nSubject: Re: lamp\n\nI have mended it.\n\n-- zoe",
    )
    async with serve_in_process(tmp_path) as call:
        await ingest(call, "\n\n------\n".join(posts), "Thread")
        for wanted, said in (
            ("ada", "The lamp is broken."),
            ("bob", "I have mended it."),
            ("zoe", "I have mended it. -- zoe"),
        ):
            found = await call("search_text", text=wanted)
            assert found.data["matches"][0]["excerpt"].endswith(said), found.text
