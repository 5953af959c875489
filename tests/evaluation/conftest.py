"""A tiny corpus whose answers are known by heart, and a set of questions on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TINY: dict[str, Any] = {
    "name": "tiny",
    "passages": [
        {
            "title": "Ada Lovelace",
            "text": "Ada Lovelace wrote the first program. She worked with Charles Babbage.",
        },
        {
            "title": "Charles Babbage",
            "text": "Charles Babbage was born in London. He designed the Analytical Engine.",
        },
        {"title": "Darjeeling tea", "text": "Darjeeling tea grows in West Bengal. It is picked in spring."},
        {"title": "Assam tea", "text": "Assam tea grows along the Brahmaputra. It is strong and dark."},
        {"title": "Glass", "text": "Glass is made of sand. Murano is known for its glass."},
    ],
    "queries": [
        {
            "id": "q1",
            "question": "Where does Assam tea grow?",
            "answer": "the Brahmaputra",
            "type": "one",
            "gold": [3],
        },
        {
            "id": "q2",
            "question": "Where was the man born with whom Ada Lovelace worked?",
            "answer": "London",
            "aliases": ["Greater London"],
            "type": "two",
            "gold": [0, 1],
        },
        {"id": "q3", "question": "What is Murano known for?", "answer": "glass", "type": "one", "gold": [4]},
    ],
}


@pytest.fixture
def tiny() -> dict[str, Any]:
    """Return a set that a test may change."""
    copied: dict[str, Any] = json.loads(json.dumps(TINY))
    return copied


@pytest.fixture
def tiny_path(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(TINY), encoding="utf-8")
    return path
