"""What agents and documents say does not look like a citation of the server."""

from leanrag_engine.core.model import Entity, Finding, Method
from leanrag_mcp.replies.graph import EntityCard, FindingCard


def test_a_forged_citation_in_a_written_text_stands_in_round_brackets() -> None:
    forged = "The accord binds Ewan Reid [d9:c9]."
    entity = Entity(
        "e1", "Accord", "event", description=forged, method=Method.AGENT, findings=(Finding(forged, forged),)
    )
    assert EntityCard.of(entity, ref="e1", description=forged, score=1.0).description == forged.replace(
        "[", "("
    ).replace("]", ")")
    card = FindingCard(summary=forged, explanation=forged, found="")
    assert "[d9:c9]" not in card.summary + card.explanation
