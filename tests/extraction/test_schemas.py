"""Schemas read from YAML: faults are named by their place; ours are right; without a schema nothing is asked otherwise."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Chunk, ExtractionSchema
from leanrag_engine.extraction.by_model.extract import extraction_kind, extraction_task, gleaning_kind
from leanrag_engine.extraction.schemas.conforming import TypeMatcher
from leanrag_engine.extraction.schemas.reading import load_schema, parse_schema, ready_schemas, write_yaml
from leanrag_engine.llm.batching import batch_request

MANY = "entities:\n" + "".join(f"  type{number}: x\n" for number in range(1000))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "entities: {ship: a}\nverbs: {sail: b}",
            "line 2: the key 'verbs' is unknown; expected only entities",
        ),
        ("entities: {ship: a}\nentities: {crew: b}", "line 2: the key 'entities' is there twice"),
        ("entities:\n  ship: a\n  Ships: b", "line 3: 'ships' is in entities twice (also line 2)"),
        ("entities:\n  ship: a\n  '': b", "line 3: a type of entities has an empty name"),
        ("entities:\n  - ship\n  - ~", "line 3: a type of entities has an empty name"),
        (f"entities:\n  {'x' * 1000}: b", "line 2: the name 'xxxxxxxx"),
        (
            f"attributes:\n  age: {'x' * 1000}",
            "line 2: the description of 'age' in attributes has 1,000 char",
        ),
        (MANY, "line 2: entities has 1,000 types; expected at most 60"),
        (
            "relations: &a\n  sails: *a",
            "line 1: relations: expected a type and, after a colon, its description",
        ),
        ("entities:\n  ship: [a, b]", "line 2: entities: expected a type and, after a colon"),
        ("entities: ship", "line 1: entities: expected a list of types, or types with descriptions"),
        ("- ship", "line 1: expected a mapping with entities, relations, attributes"),
        ("", "s.yaml: expected a mapping with entities, relations, attributes"),
        ("entities:", "line 1: there is no type; expected at least one"),
        ("entities: {ship: a", "this is no YAML"),
        ("entities: {a: b}\n---\nentities: {a: b}", "line 2: this is no YAML"),
        ("entities: {ship: '\x00'}", "s.yaml: this is no YAML"),
        ("[" * 5000, "s.yaml: the YAML is nested too deeply"),
    ],
)
def test_a_fault_is_named_by_file_line_and_what_was_expected(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_schema(text, "s", "s.yaml")
    assert problem in str(refused.value)
    assert "Correct the schema" in str(refused.value)


def test_a_name_that_is_no_schema_and_no_file_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="Did you mean people"):
        load_schema("peple")


def test_the_schemas_of_the_package_are_right_and_a_schema_that_was_written_is_read_again() -> None:
    ready = ready_schemas()
    assert set(ready) == {"people", "software", "narrative"}
    for name, schema in ready.items():
        assert schema.entities
        assert schema.relations
        assert schema.attributes
        assert parse_schema(write_yaml(schema), name, name) == schema


NAMES = st.from_regex(r"[a-zé:#\"'*&!%@-][a-z :#\"'-]{0,18}[a-z]", fullmatch=True)
TYPES = st.dictionaries(NAMES, st.text("aé:#\"'\\{}[]&*!|>%@`- ,.", max_size=30), max_size=4)


@given(TYPES, TYPES)
def test_what_is_written_as_yaml_is_read_as_the_same_types(
    entities: dict[str, str], relations: dict[str, str]
) -> None:
    try:
        first = parse_schema(json.dumps({"entities": entities, "relations": relations}), "s", "s")
    except InvalidInput:  # two names with one key, or none
        return
    assert parse_schema(write_yaml(first), "s", "s") == first


def test_a_type_is_found_by_its_forms_and_by_a_synonym_that_means_no_other() -> None:
    types = {"character": "", "company": "", "agency": ""}
    matcher = TypeMatcher(ExtractionSchema("s", types, {"works for": ""}, {}))
    assert [matcher.find("entity", each) for each in ("Characters", "person", "human being")] == [
        "character"
    ] * 3
    assert matcher.find("entity", "Companies") == "company"
    assert matcher.find("entity", "organisation") == "", "it may mean either"
    assert matcher.find("relation", "Works_For") == "works for"
    assert matcher.find("relation", "employs") == ""
    assert matcher.find("attribute", "Height") == "height", "a kind without types is open"


def test_without_a_schema_the_requests_to_a_model_are_the_same_bytes_as_before_there_were_schemas() -> None:
    chunk = Chunk("c1", "d", 1, "Ada met Bo.", 0, 11, 4)
    digests = []
    for kind in (extraction_kind(), gleaning_kind(extraction_kind())):
        request = batch_request(kind, [extraction_task(chunk)])
        messages = [(each.role, each.text) for each in request.messages]
        sent = [messages, request.max_tokens, request.schema, request.temperature, request.seed]
        digests.append(hashlib.sha256(json.dumps(sent).encode()).hexdigest())
    # Other digests mean that every cached reply to an extraction is lost: change them with the prompts only.
    assert digests == [
        "2f9077a272c0060a0fe22808bac722f5c36b7cc3fe4bd8d1036707a454921ce8",
        "a92c5d5720aea998c60bd292b09026f3cd960c8ae90993e2aeebf23d85cece31",
    ]
