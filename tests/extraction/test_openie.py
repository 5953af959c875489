"""HippoRAG's OpenIE files: what is adopted, what is left out and counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Chunk, LoadedDocument, Method
from leanrag_engine.evaluation.scratch import GivenGraph
from leanrag_engine.extraction.openie import Entry, OpenIE, Triple, extracts_from, read_openie

BABBAGE = "Charles Babbage\nCharles Babbage was born in London. He designed the Analytical Engine."
BABBAGE_ENTRY = Entry(
    BABBAGE,
    ("Charles Babbage", "Analytical Engine", "London", "1791"),
    (
        Triple("Charles Babbage", "was born in", "London"),
        Triple("Charles Babbage", "designed", "Analytical Engine"),
    ),
)


def written(tmp_path: Path, *docs: object) -> Path:
    path = tmp_path / "openie.json"
    path.write_text(json.dumps({"docs": docs, "avg_ent_chars": 3.5}))
    return path


def chunk(text: str, number: int = 1) -> Chunk:
    return Chunk(f"k{number}", "d", number, text, 0, len(text), 10)


def test_malformed_rows_are_left_out_counted_and_named(tmp_path: Path) -> None:
    triples = [
        ["A", "is", "B"],
        ["A", "is"],
        ["A", "is", "B", "now"],
        ["A", 3, "B"],
        ["A", " ", "B"],
        "A is B",
    ]
    path = written(
        tmp_path,
        {"passage": "A is B.", "extracted_entities": ["A", "", 7, "B"], "extracted_triples": triples},
        "no object",
        {"extracted_entities": ["A"]},
        {"passage": "C.", "extracted_entities": "C", "extracted_triples": [["C", "is", "C"]]},
    )
    found = read_openie(path)
    assert found.malformed == {"entities": 3, "triples": 5, "documents": 2}
    assert found.triples == 2
    assert found.entries[0].entities == ("A", "B")
    assert 'triple of document 0: ["A", "is"], expected subject, predicate and object' in found.problems[2]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("nonsense", "is not JSON"),
        ("[]", "no list of documents"),
        ('{"docs": []}', "no list"),
        ('{"docs": [1]}', "No document of"),
    ],
)
def test_the_error_for_another_file_describes_the_format(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "openie.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=said) as refused:
        read_openie(path)
    assert "extracted_triples" in refused.value.next_step
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_openie(tmp_path / "none.json")


def test_passages_are_matched_by_text_then_by_number(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"passage": "Tea\n\nTea   is GREEN.", "idx": 3, "extracted_entities": ["Tea"]},
        {"passage": "Salt is white.", "extracted_entities": ["Salt"]},
        {"idx": 2, "extracted_entities": ["Pepper"]},
    )
    passages = [
        ("Salt", "Salt is white."),
        ("Tea", "tea is green."),
        ("Pepper", "It is hot."),
        ("Rice", "Rice."),
    ]
    found = read_openie(path).match(passages)
    assert [entry.entities if entry else None for entry in found] == [("Salt",), ("Tea",), ("Pepper",), None]


def test_an_extract_says_what_the_triples_say_and_joins_the_rest_to_the_title() -> None:
    (found,) = extracts_from(BABBAGE_ENTRY, "Charles Babbage", [chunk(BABBAGE.partition("\n")[2])])
    assert found.method is Method.IMPORTED
    described = {entity.name: entity.description for entity in found.entities}
    assert described == {
        "Charles Babbage": "Charles Babbage was born in London. Charles Babbage designed Analytical Engine.",
        "Analytical Engine": "Charles Babbage designed Analytical Engine.",
        "London": "Charles Babbage was born in London.",
        "1791": "",
    }
    assert [(each.source, each.target, each.description) for each in found.relations] == [
        ("Charles Babbage", "London", "Charles Babbage was born in London."),
        ("Charles Babbage", "Analytical Engine", "Charles Babbage designed Analytical Engine."),
        ("Charles Babbage", "1791", ""),
    ]


def test_every_end_of_a_relation_is_an_entity_of_its_extract() -> None:
    entry = Entry("x", (), (Triple("the tea", "grows in", "West Bengal"), Triple("it", "is", "strong")))
    (found,) = extracts_from(entry, "Darjeeling", [chunk("The tea grows in West Bengal.")])
    names = {entity.name for entity in found.entities}
    assert names == {"Darjeeling", "the tea", "West Bengal", "it", "strong"}
    assert all({each.source, each.target} <= names for each in found.relations)


def test_of_a_split_passage_each_chunk_gets_what_it_names() -> None:
    first, second = (
        chunk("Charles Babbage was born in London."),
        chunk("Charles Babbage designed the Analytical Engine.", 2),
    )
    found = extracts_from(BABBAGE_ENTRY, "Charles Babbage", [first, second])
    assert [extract.chunk_id for extract in found] == ["k1", "k2"]
    assert [[relation.target for relation in extract.relations] for extract in found] == [
        ["London", "1791"],
        ["Analytical Engine"],
    ]


@pytest.mark.anyio
async def test_a_document_without_an_entry_is_read_heuristically() -> None:
    extractor = GivenGraph(OpenIE((BABBAGE_ENTRY,), {}, ()), {"p0": BABBAGE_ENTRY}, 1)
    beats: list[None] = []
    for id_, method in (("p0", Method.IMPORTED), ("p1", Method.HEURISTIC)):
        document = LoadedDocument(id_, "Title", BABBAGE, "text/plain")
        (found,) = await extractor(document, [chunk(BABBAGE)], lambda: beats.append(None))
        assert found.method is method
    assert beats


def test_the_real_file_has_its_185_malformed_triples(shared_data: Path) -> None:
    found = read_openie(shared_data / "openie_musique_train100.json")
    assert (len(found.entries), found.malformed) == (1890, {"triples": 185})
    held = json.loads((shared_data / "musique_train100.json").read_text(encoding="utf-8"))
    assert None not in found.match((each["title"], each["text"]) for each in held["passages"])
