"""Merging and splitting entities: facts that survive rebuilds, are listed and can be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from leanrag_tests_jobs import build, finish, ingest, open_engine

from leanrag_engine.core.errors import InvalidInput, NotFound, NotReady
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG

pytestmark = pytest.mark.anyio

TEXTS = {
    "one": "Ewan Reid kept the light at Skerry. Ewan Reid wrote to Moira Kerr.",
    "two": "E. Reid of Skerry sent oil to Moira Kerr. The oil came late to E. Reid.",
    "three": "Moira Kerr painted the tower at Tiree. Moira Kerr met Calum Boyd.",
}
NOTES = [DocumentSource(text=text, id=name, title=f"Note {name}") for name, text in TEXTS.items()]
LATER = DocumentSource(text="In Oban Ewan Reid met E. Reid and Moira Kerr.", id="late", title="Later note")


async def mentions(engine: LeanRAG, name: str) -> list[str]:
    """The documents that mention an entity, by their ids."""
    entity = (await engine.ancestors(name))[0]
    chunks = await engine._stores.documents.chunks("default", entity.chunk_ids)
    return sorted(each.document_id for each in chunks)


async def test_a_merged_pair_stays_merged_when_documents_come_and_when_all_is_built_from_scratch(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, NOTES)
        assert await mentions(engine, "Ewan Reid") == ["one"]
        made = await engine.merge_entities(["Ewan Reid", "E. Reid"])
        assert (made.ref, made.name) == ("merge-1", "Ewan Reid")
        assert (await engine.status()).collection.stale
        assert await mentions(engine, "E. Reid") == ["two"]  # it takes effect at the next build
        assert (await build(engine)).corrections.applied == ("merge-1",)
        assert await mentions(engine, "Ewan Reid") == ["one", "two"]
        assert (await engine.ancestors("E. Reid"))[0].name == "Ewan Reid"
        await ingest(engine, [LATER])
        assert await mentions(engine, "Ewan Reid") == ["late", "one", "two"]
    async with open_engine(tmp_path) as engine:
        job, _ = await engine.submit_delete([*TEXTS, "late"])
        await finish(engine, job)
        await ingest(engine, [*NOTES, LATER])
        assert await mentions(engine, "E. Reid") == ["late", "one", "two"]


async def test_a_split_entity_stays_split_when_documents_come_and_when_all_is_built_from_scratch(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, NOTES)
        assert await mentions(engine, "Moira Kerr") == ["one", "three", "two"]
        made = await engine.split_entity("Moira Kerr", "Moira Kerr (painter)", ["three"])
        assert made.ref == "split-1"
        await build(engine)
        other = [DocumentSource(text="Moira Kerr wrote to Calum Boyd. It rained.", id="four", title="Note")]
        await ingest(engine, other)
        expected = {"Moira Kerr": ["four", "one", "two"], "Moira Kerr (painter)": ["three"]}
        assert {name: await mentions(engine, name) for name in expected} == expected
        job, _ = await engine.submit_delete([*TEXTS, "four"])
        await finish(engine, job)
        await ingest(engine, [*NOTES, *other])
        assert {name: await mentions(engine, name) for name in expected} == expected


async def test_a_split_by_citation_moves_the_mentions_of_that_passage(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, NOTES)
        await engine.split_entity("Moira Kerr", "Moira Kerr (painter)", ["d3:c1"])
        await build(engine)
        assert await mentions(engine, "Moira Kerr (painter)") == ["three"]


async def test_corrections_are_listed_and_each_can_be_undone(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, NOTES)
        one = await engine.merge_entities(["Ewan Reid", "E. Reid"], "Keeper Reid")
        two = await engine.split_entity("Moira Kerr", "Moira Kerr (painter)", ["d3"])
        assert await engine.merge_entities(["Ewan Reid", "E. Reid"], "Keeper Reid") == one
        assert await engine.corrections() == [one, two]
        await build(engine)
        assert await mentions(engine, "Keeper Reid") == ["one", "two"]
        with pytest.raises(NotFound) as unknown:
            await engine.undo_correction("merge-9")
        assert next(each.ref for each in unknown.value.candidates) == "merge-1"
        assert await engine.undo_correction("merge-1") == one
        assert (await build(engine)).corrections.applied == ("split-2",)
        assert await mentions(engine, "Ewan Reid") == ["one"]
        assert await engine.corrections() == [two]


async def test_a_correction_may_be_taken_back_by_its_names(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, NOTES)
        merged = await engine.merge_entities(["Ewan Reid", "E. Reid"])
        divided = await engine.split_entity("Moira Kerr", "Moira Kerr (painter)", ["three"])
        await build(engine)
        with pytest.raises(NotFound, match="no merge of 'Ewan Reid' and 'Moira Kerr'"):
            await engine.merge_entities(["Ewan Reid", "Moira Kerr"], undo=True)
        with pytest.raises(NotFound, match="no split"):
            await engine.split_entity("Moira Kerr", "Somebody", undo=True)
        assert await engine.merge_entities(["e. reid", "Ewan Reid"], undo=True) == merged
        assert await engine.split_entity("Moira Kerr", "moira kerr (painter)", undo=True) == divided
        assert not await engine.corrections()


async def test_a_correction_whose_entities_are_gone_is_kept_and_reported_as_without_effect(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, NOTES)
        await engine.merge_entities(["Ewan Reid", "E. Reid"])
        job, _ = await engine.submit_delete(["two"])
        await finish(engine, job)
        result = await build(engine)
        assert (result.corrections.applied, result.corrections.idle) == ((), ("merge-1",))
        assert result.figures()["corrections"] == {"applied": [], "without_effect": ["merge-1"]}
        assert [each.ref for each in await engine.corrections()] == ["merge-1"]
        await ingest(engine, [NOTES[1]])
        assert await mentions(engine, "Ewan Reid") == ["one", "two"]


async def test_corrections_that_cannot_be_are_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        with pytest.raises(NotReady):
            await engine.merge_entities(["a", "b"])
        await ingest(engine, NOTES)
        root = (await engine.root()).id
        for wrong, error, words in (
            (["Ewan Reid"], InvalidInput, "two entities"),
            (["Ewan Reid", "ewan reid"], InvalidInput, "one entity already"),
            (["Ewan Reid", root], InvalidInput, "aggregated entity"),
            (["Ewan Reid", "E. Reed"], NotFound, "E. Reid"),
        ):
            with pytest.raises(error, match=words):
                await engine.merge_entities(wrong)
        with pytest.raises(InvalidInput, match="another entity"):
            await engine.merge_entities(["Ewan Reid", "E. Reid"], "Moira Kerr")
        for said, error, words in (
            (("moira kerr", ["one"]), InvalidInput, "has now"),
            (("M. K.", []), InvalidInput, "mentioned in d1:c1, d2:c1, d3:c1"),
            (("  ", ["one"]), InvalidInput, "empty"),
            (("M. K.", ["oen"]), NotFound, "one"),
            (("M. K.", ["d9:c1"]), NotFound, "d9:c1"),
        ):
            with pytest.raises(error, match=words):
                await engine.split_entity("Moira Kerr", *said)
        with pytest.raises(InvalidInput, match="not mentioned there"):
            await engine.split_entity("Ewan Reid", "E. R.", ["three"])
        assert not await engine.corrections()
        assert not (await engine.status()).collection.stale
