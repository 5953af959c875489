"""What supports each sentence of the graph: the documents, as they were given, are the oracle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leanrag_tests_jobs import finish

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import NotFound
from leanrag_engine.core.model import DocumentSource, Entity, Method, Relation
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.browse.support import SupportedSentence, find_quotation

PEOPLE = ("Anna Berg", "Boris Falk", "Clara Holm", "Dagny Lund", "Einar Moe", "Frida Nes", "Gunnar Os")
PLACES = ("Oslo", "Bergen", "Narvik", "Hamar", "Molde", "Alta", "Moss")
LETTERS = {
    f"l{number}": f"# Letter {number}\n\n- {one} of {place} wrote to\n  {other} in spring.\n- {other} sent {one} a map of {place}.\n\n"
    f"{one} met {third} in *{place}*,\nwhich lies   at the sea."
    for number, (one, other, third, place) in enumerate(
        zip(PEOPLE, PEOPLE[1:] + PEOPLE[:1], PEOPLE[3:] + PEOPLE[:3], PLACES, strict=True)
    )
}


@asynccontextmanager
async def built(folder: Path) -> AsyncIterator[LeanRAG]:
    async with await LeanRAG.open(load_settings(data_dir=folder, cluster_size=4, tau=1)) as engine:
        await ingest(engine, LETTERS)
        yield engine


async def ingest(engine: LeanRAG, texts: dict[str, str]) -> None:
    sources = [DocumentSource(text=text, title=id_, id=id_) for id_, text in texts.items()]
    await finish(engine, await engine.submit_ingest(sources))


async def items(engine: LeanRAG) -> list[Entity | Relation]:
    generation = (await engine.status()).collection.generation
    assert generation
    store = engine._stores.generations
    found: list[Entity | Relation] = []
    for layer in generation.layers:
        found += await store.layer(generation.number, layer.layer)
        found += await store.relations(generation.number, layer.layer)
    return found


async def support_of(engine: LeanRAG, item: Entity | Relation) -> tuple[SupportedSentence, ...]:
    ref = item.id if isinstance(item, Entity) else f"{item.source_id} — {item.target_id}"
    return (await engine.sources(entity=ref)).sentences


def stated_by(item: Entity | Relation) -> set[str]:
    """The sentences of an item on one line each, as a reader sees them."""
    texts = [item.description]
    for finding in item.findings if isinstance(item, Entity) else ():
        texts += [finding.explanation, *([finding.summary] if item.method.written else [])]
    return {" ".join(text[start:end].split()) for text in texts for start, end in sentences(text)}


async def check(engine: LeanRAG, texts: dict[str, str]) -> list[tuple[Entity | Relation, SupportedSentence]]:
    """Compare all that is stated with the documents; returns the sentences with what states them."""
    found = []
    for item in await items(engine):
        supported = await support_of(engine, item)
        uncited = stated_by(item) - {each.text for each in supported}
        assert {each.text for each in supported} <= stated_by(item)
        # Only of a cluster may be written what nothing beneath it says.
        assert not uncited or (isinstance(item, Entity) and item.layer and item.method is Method.AGENT)
        for sentence in supported:
            assert sentence.support
            found.append((item, sentence))
            for each in sentence.support:
                assert texts[each.chunk.document_id][each.start : each.end] == each.text
                assert each.chunk.start <= each.start < each.end <= each.chunk.end
                if each.match == "verbatim":
                    assert " ".join(each.text.split()).removesuffix(".") == sentence.text.removesuffix(".")
    return found


@pytest.mark.anyio
async def test_every_sentence_made_without_a_model_leads_to_the_characters_of_the_documents_that_say_it(
    tmp_path: Path,
) -> None:
    async with built(tmp_path) as engine:
        found = await check(engine, LETTERS)
        kinds = {(type(item), bool(item.layer)) for item, _ in found}
        assert len(kinds) == 4  # entities, clusters and the relations of both
        matches = {each.match for _, sentence in found for each in sentence.support}
        assert "verbatim" in matches
        # Emphasis is left out of a description: such a sentence stands in the document in other characters.
        changed = [each for _, each in found if "which lies at the sea" in each.text]
        assert changed
        assert {each.match for sentence in changed for each in sentence.support} == {"closest"}
        assert all("which lies   at the sea" in each.text for one in changed for each in one.support)


@pytest.mark.anyio
async def test_every_sentence_that_an_agent_wrote_leads_to_the_passages_nearest_to_it(tmp_path: Path) -> None:
    async with built(tmp_path) as engine:
        number = 0
        while work := (await engine.pending_work("summary", 20)).items:
            said = [summary(item.work_id, number := number + 1) for item in work]
            assert not (await engine.submit_summaries(said)).rejected
            await finish(engine, await engine.submit_build())
        work = (await engine.pending_work("relation", 20)).items
        sentence = "Members of the one circle met those of the other at the sea and sent them maps."
        assert work
        await engine.submit_summaries([{"work_id": each.work_id, "sentence": sentence} for each in work])
        await finish(engine, await engine.submit_build())
        found = await check(engine, LETTERS)
        written = [(item, each) for item, each in found if item.layer and item.method is Method.AGENT]
        assert {type(item) for item, _ in written} == {Entity, Relation}
        by_text = {each.text: each for _, each in written}
        assert {each.match for each in by_text[sentence].support} == {"closest"}
        assert any("met at the sea" in text for text in by_text)
        # A sentence without any word of the letters rests on nothing.
        assert not any(text.startswith("Сверх") for text in by_text)

        # A changed and a deleted document: what only they supported is stated no longer.
        left = {id_: text for id_, text in LETTERS.items() if id_ != "l0"}
        deletion, _ = await engine.submit_delete(["l0"])
        await finish(engine, deletion)
        for item in await items(engine):
            for each in await support_of(engine, item):
                assert all(
                    left[one.chunk.document_id][one.start : one.end] == one.text for one in each.support
                )
        left |= {"l1": "Clara Holm of Narvik keeps bees."}
        await ingest(engine, {"l1": left["l1"]})
        await check(engine, left)


def summary(work_id: str, number: int) -> dict[str, Any]:
    return {
        "work_id": work_id,
        "name": f"Correspondence circle {number}",
        "description": "People of several towns sent each other maps. Some of them met at the sea.",
        "findings": [
            {"summary": f"Circle {number} met, way {n}.", "explanation": f"Сверх{'а' * number}{'б' * n}."}
            for n in range(3)
        ],
    }


@pytest.mark.anyio
async def test_two_names_that_no_relation_joins_are_named_in_the_error(tmp_path: Path) -> None:
    async with built(tmp_path) as engine:
        known = await engine.sources(entity="Anna Berg — Boris Falk")
        assert known.sentences
        with pytest.raises(NotFound, match="No relation joins 'Anna Berg' and 'Narvik'"):
            await engine.sources(entity="Anna Berg — Narvik")
        with pytest.raises(NotFound, match="'Nobody'"):
            await engine.sources(entity="Anna Berg — Nobody")


WORDS = st.text(st.sampled_from("abc.-*'é漢字"), min_size=1, max_size=6)
SPACES = st.sampled_from([" ", "\n", "  \n ", "\t"])


@given(st.lists(st.tuples(WORDS, SPACES), min_size=1, max_size=30), st.data())
def test_words_of_a_passage_are_found_word_for_word_whatever_white_space_is_between(
    parts: list[tuple[str, str]], data: st.DataObject
) -> None:
    text = "".join(word + space for word, space in parts)
    first = data.draw(st.integers(0, len(parts) - 1))
    last = data.draw(st.integers(first, len(parts) - 1))
    wanted = [word for word, _ in parts[first : last + 1]]
    found = find_quotation(" ".join(wanted), text)
    assert found.match == "verbatim"
    assert (
        text[found.start : found.end].split() == wanted or wanted[0][0] in "漢字" or wanted[-1][-1] in "漢字"
    )


def test_a_paraphrase_is_led_to_the_sentences_with_most_of_its_words() -> None:
    text = "Ships came late. Rennie advised on the tower. Stevenson built it on the reef. Nobody slept."
    found = find_quotation("The tower on the reef was built by Stevenson, whom Rennie advised", text)
    assert found.match == "closest"
    assert text[found.start : found.end] == "Rennie advised on the tower. Stevenson built it on the reef."
    assert find_quotation("Nothing alike", text).match == "passage"
    assert find_quotation("advise", text).match != "verbatim"  # a part of a word is no word
