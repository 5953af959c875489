"""The apps extension: hosts that show pages inside the chat show an answer drawn. Other clients see no difference.

Specification: ``io.modelcontextprotocol/ui`` 2026-01-26. The page is the resource ``ANSWER_APP``, which the query tool names;
a host gives it the tool's result, and the page shows the drawing in the result's ``_meta``, which no model reads.
"""

from __future__ import annotations

from importlib.resources import files

from mcp.server.apps import Apps

from ..tools.toolsets import ANSWER_APP


def create_apps() -> Apps:
    """Return the extension with the page of an answer."""
    apps = Apps()
    apps.add_html_resource(
        ANSWER_APP,
        files(__package__).joinpath("answer_app.html").read_text(encoding="utf-8"),
        name="answer_app",
        title="Answer drawn",
        description="The page that shows an answer of query_lca_context inside the chat: its seeds, what joins them, and the evidence.",
        prefers_border=True,
    )
    return apps
