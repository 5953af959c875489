"""What a status says of the health of a build."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.model import (
    BuildRecord,
    Distribution,
    Generation,
    HierarchyHealth,
    LayerHealth,
    SeedMeetings,
)
from leanrag_mcp.replies.state.status import HealthCard, embedder_name

if TYPE_CHECKING:
    from conftest import Caller


@pytest.mark.anyio
async def test_a_status_has_the_health_in_text_and_in_data(call: Caller) -> None:
    reply = await call("get_index_status")
    health = reply.data["health"]
    assert health["clustering"] == "gmm"
    assert (health["cluster_size"], health["cluster_cap"], health["islands"]) == (20, 30, 0)
    assert health["heuristic"] == 1.0
    assert [each["layer"] for each in health["layers"]] == [
        each["layer"] for each in reply.data["layers"][:-1]
    ]
    above = reply.data["layers"][1:]
    assert [each["clusters"] for each in health["layers"]] == [each["entities"] for each in above]
    assert "Embedder: fitted (fitted-" in reply.text
    assert "size 20, at most 30" in reply.text
    assert "no semantic island" in reply.text
    for each in health["layers"]:
        assert f"- G{each['layer']} in " in reply.text
        assert f"tightness {each['tightness']:g}" in reply.text


def generation(**settings: Any) -> Generation:
    record = BuildRecord(**settings)
    return Generation(1, "default", 1, "minilm-0123", 3, datetime.fromtimestamp(0, UTC), (), record)


LAYER = LayerHealth(
    0, 60, joined=0.9, strength=Distribution(1.0, 1.0, 1.5, 7.0), heuristic_entities=1.0, clusters=20, sizes=Distribution(2.0, 3.0, 3.0, 4.0), tightness=0.512, inside=0.4, islands=1,
)  # fmt: skip
HEALTH = HierarchyHealth(
    clustering="leiden",
    cluster_size=20,
    cluster_cap=30,
    layers=(
        LAYER,
        replace(LAYER, layer=1, entities=20, clusters=3, heuristic_entities=0.5),
        replace(LAYER, layer=2, entities=3, clusters=1),
        replace(LAYER, layer=3, entities=1, clusters=0, sizes=None, heuristic_entities=0.0, islands=0),
    ),
    meetings=SeedMeetings({1: 0.5, 2: 0.2, 3: 0.3}, {2: 0.25, 3: 0.75}),
)


def test_the_record_of_a_build_is_summarised_in_few_words() -> None:
    card = HealthCard.from_engine(generation(health=HEALTH))
    assert card is not None
    assert (card.heuristic, card.islands) == (round((10 + 3) / 24, 2), 3)
    assert (card.pairs, card.sets) == (0.7, 0.25)
    lines = card.to_lines()
    assert "silhouettes" not in "".join(lines)
    assert "70 % of similar pairs" in lines[0]
    assert "3 semantic islands" in lines[0]
    assert [line[:4] for line in lines[1:]] == ["- G0", "- G1", "- G2"]
    assert "λ" not in lines[1]
    assert "λ median 1, most 7" in lines[2]
    assert "in one cluster of 4" in lines[3]
    assert TiktokenTokenizer().count("\n".join(lines)) < 250


def test_without_a_build_or_a_record_there_is_no_health() -> None:
    assert HealthCard.from_engine(None) is None
    assert HealthCard.from_engine(generation()) is None
    assert embedder_name(None) == ""


@pytest.mark.parametrize(
    ("setting", "shown"),
    [("fitted", "fitted"), ("litellm/openai/embed-3", "litellm/openai/embed-3"), ("/models/minilm/", "minilm"),
     ("C:\\models\\minilm", "minilm"), ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2")],
)  # fmt: skip
def test_an_embedder_is_called_as_in_the_settings_and_a_folder_by_its_last_name(
    setting: str, shown: str
) -> None:
    assert embedder_name(generation(embedder=setting)) == shown
