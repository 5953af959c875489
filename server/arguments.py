"""Arguments that several tools share, with the limits that the schema tells the model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

CollectionName = Annotated[str, Field(description="Which corpus; 'default' is the server's own")]
EntityName = Annotated[str, Field(description="Name or ref")]
JobId = Annotated[str, Field(description="As returned by ingest_documents or build_hierarchy")]
WaitSeconds = Annotated[float, Field(ge=0, le=40, description="How long to wait for the end, at most 40")]
Limit = Annotated[int, Field(ge=1, le=100)]
Cursor = Annotated[str, Field(description="next_cursor of the page before")]
ResponseFormat = Literal["concise", "detailed"]
