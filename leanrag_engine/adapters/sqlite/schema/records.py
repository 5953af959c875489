"""Build records as JSON columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from leanrag_engine.core.model import BuildRecord, EmbeddingCounts, MethodCounts, VectorSpaces


def record_to_json(record: BuildRecord) -> dict[str, Any]:
    """Return the record as the JSON column stores it."""
    return {
        **asdict(record),
        "spaces": record.spaces.by_kind(),
        "methods": [asdict(each) for each in record.methods],
    }


def record_from_json(stored: Mapping[str, Any]) -> BuildRecord:
    """Return the record that a JSON column holds."""
    return BuildRecord(
        **{
            **stored,
            "spaces": VectorSpaces(**stored["spaces"]),
            "methods": tuple(MethodCounts(**each) for each in stored["methods"]),
            "embedded": EmbeddingCounts(**stored["embedded"]),
        }
    )
