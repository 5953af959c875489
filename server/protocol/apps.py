"""The apps extension (``io.modelcontextprotocol/ui`` 2026-01-26): hosts that show pages draw an answer. The
page ``ANSWER_APP`` shows the drawing in the ``_meta`` of a query's result, which no model reads."""

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
