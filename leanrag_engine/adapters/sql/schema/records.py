"""Build records as JSON columns, and what is said of records with other fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from leanrag_engine.core.model import (
    BuildHistory,
    BuildRecord,
    CorrectionEffects,
    Distribution,
    EmbeddingCounts,
    HierarchyHealth,
    LayerHealth,
    MethodCounts,
    SchemaEffects,
    SeedMeetings,
    TypeProposal,
    VectorSpaces,
)


class UnknownFields(ValueError):
    """A stored record has not the fields that this version writes."""


@contextmanager
def expect_fields() -> Iterator[None]:
    """Raise :class:`UnknownFields` if reading the record inside fails: a field is missing, unknown or of another form."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise UnknownFields(f"{type(problem).__name__}: {problem}") from problem


def record_to_json(record: BuildRecord) -> dict[str, Any]:
    """Return the record as the JSON column stores it."""
    return {
        **asdict(record),
        "spaces": record.spaces.by_kind(),
        "methods": [asdict(each) for each in record.methods],
    }


def record_from_json(stored: Mapping[str, Any]) -> BuildRecord:
    """Return the record that a JSON column holds. Raises :class:`UnknownFields` for another version's."""
    with expect_fields():
        return _record_from_json(stored)


def _record_from_json(stored: Mapping[str, Any]) -> BuildRecord:
    health = stored["health"]
    return BuildRecord(
        **{
            **stored,
            "spaces": VectorSpaces(**stored["spaces"]),
            "health": None if health is None else _health_from_json(health),
            "methods": tuple(MethodCounts(**each) for each in stored["methods"]),
            "embedded": EmbeddingCounts(**stored["embedded"]),
            "history": BuildHistory(**stored["history"]),
            "corrections": CorrectionEffects(
                **{key: tuple(refs) for key, refs in stored["corrections"].items()}
            ),
            "schema": schema_effects_from_json(stored["schema"]),
        }
    )


def schema_effects_from_json(stored: Mapping[str, Any] | None) -> SchemaEffects | None:
    """Return what a schema did in a build; None of a build without one."""
    if stored is None:
        return None
    proposals = tuple(TypeProposal(**each) for each in stored["proposals"])
    return SchemaEffects(**{**stored, "proposals": proposals})


def _health_from_json(stored: Mapping[str, Any]) -> HierarchyHealth:
    met = stored["meetings"]
    return HierarchyHealth(
        **{
            **stored,
            "layers": tuple(map(_layer_from_json, stored["layers"])),
            "meetings": SeedMeetings(
                **{**met, "pairs": _shares_by_layer(met["pairs"]), "sets": _shares_by_layer(met["sets"])}
            ),
        }
    )


def _layer_from_json(stored: Mapping[str, Any]) -> LayerHealth:
    sizes = stored["sizes"]
    return LayerHealth(
        **{
            **stored,
            "strength": Distribution(**stored["strength"]),
            "sizes": None if sizes is None else Distribution(**sizes),
        }
    )


def _shares_by_layer(stored: Mapping[str, float]) -> dict[int, float]:
    """Return the shares by number of layer: JSON turned the numbers into text."""
    return {int(layer): share for layer, share in stored.items()}
