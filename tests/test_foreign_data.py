"""Every reader of a file or text that somebody else wrote either reads it or refuses it with an error of this project."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.evaluation.answers.rubric import MEASURES, read_choices, read_scores
from leanrag_engine.evaluation.datasets import read_set
from leanrag_engine.evaluation.replies.reply_set import read_reply_set
from leanrag_engine.extraction.openie import read_openie
from leanrag_engine.extraction.schemas.reading import parse_schema
from leanrag_engine.llm.batching import read_object

Json = Any

QUESTION_SET = {
    "passages": [{"title": "Rock", "text": "Reid kept the lamp."}, {"title": "Sea", "text": "It is wet."}],
    "queries": [{"question": "Who kept it?", "answers": ["Reid"], "gold": [0], "id": "q1"}],
}
LINE = {"input": "Who kept it?", "context": "Reid kept the lamp.", "answers": ["Reid"], "_id": "q1"}
REPLY_SET = {
    "questions": [{"id": "q1", "question": "Who?", "facts": [{"any": ["Reid"]}], "queries": ["keeper"]}]
}
OPENIE = {
    "docs": [
        {
            "idx": 0,
            "passage": "Reid kept it.",
            "extracted_entities": ["Reid"],
            "extracted_triples": [["Reid", "kept", "it"]],
        }
    ]
}
SCHEMA = {
    "entities": {"keeper": "who tends a lamp", "ship": None},
    "relations": {"tends": None, "sails": "moves on water"},
    "attributes": ["height"],
}
VERDICT = {measure: {"reason": "Clear.", "score": 7, "winner": 1} for measure in MEASURES}

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["", " ", "\ud800", "\x00", "a" * 3_000, "(", "[[", "0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=4,
)


def places(value: Json, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values beneath ``value``."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


@st.composite
def changed(draw: st.DrawFn, valid: Json) -> Json:
    """A valid value in which up to three parts are replaced, removed or repeated."""
    value = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(value)))
        if not path:
            return draw(VALUES)
        *outer, last = path
        holder = value
        for key in outer:
            holder = holder[key]
        action = draw(st.sampled_from(["replace", "remove", "repeat"]))
        if action == "replace":
            holder[last] = draw(VALUES)
        elif action == "remove":
            del holder[last]
        elif isinstance(holder, list):
            holder.append(holder[last])
        else:
            holder[draw(st.text(max_size=6))] = holder[last]
    return value


def in_file(read: Callable[[Path], object], name: str) -> Callable[[Path, str], object]:
    def write_and_read(folder: Path, text: str) -> object:
        (folder / "docs").mkdir(exist_ok=True)
        path = folder / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return read(folder if name == "questions.json" else path)

    return write_and_read


READERS: dict[str, tuple[Json, Callable[[Path, str], object]]] = {
    "question set": (QUESTION_SET, in_file(read_set, "set.json")),
    "question set in lines": (LINE, in_file(read_set, "set.jsonl")),
    "reply set": (REPLY_SET, in_file(read_reply_set, "questions.json")),
    "OpenIE": (OPENIE, in_file(read_openie, "openie.json")),
    # JSON is YAML.
    "schema": (SCHEMA, lambda _, text: parse_schema(text, "given", "given.yaml")),
    "scores": (VERDICT, lambda _, text: read_scores(text)),
    "choices": (VERDICT, lambda _, text: read_choices(text)),
    "reply": (VERDICT, lambda _, text: read_object(text)),
}


@pytest.mark.parametrize("kind", READERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.data())
def test_a_changed_part_is_read_or_refused_and_never_ends_in_another_error(
    kind: str, data: st.DataObject, tmp_path: Path
) -> None:
    valid, read = READERS[kind]
    read(tmp_path, json.dumps(valid))
    text = json.dumps(data.draw(changed(valid)), ensure_ascii=data.draw(st.booleans()))
    with suppress(LeanRAGError):
        read(tmp_path, text)
