"""Arguments that several tools share, with the limits that the schema tells the model."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field


def listed(value: Any) -> Any:
    """Some clients send one value for a list of one."""
    return [value] if isinstance(value, str | dict) else value


def parsed(value: Any) -> Any:
    """Some clients send an object as JSON in a string, also within a list."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value  # left for validation to refuse, with its own words
    return found if isinstance(found, dict) else value


CollectionName = str
"""Which corpus; ``default`` is the server's own. Its name says it: a description would stand in every tool's schema."""
EntityName = Annotated[str, Field(description="Name or ref")]
JobId = Annotated[str, Field(description="As returned by ingest_documents or build_hierarchy")]
WaitSeconds = Annotated[float, Field(ge=0, le=40, description="How long to wait for the end")]
Limit = Annotated[int, Field(ge=1, le=100)]
Cursor = Annotated[str, Field(description="next_cursor of the page before")]
ResponseFormat = Literal["concise", "detailed"]
Strings = Annotated[list[str], BeforeValidator(listed)]
