"""One answer as a page of its own: the drawing, and beside it the evidence with links to the places in the files."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import quote, urlsplit

from leanrag_engine.core.model import ContextLine
from leanrag_engine.core.text.citation import format_place
from leanrag_engine.retrieval.query import QueryResult

from ..base import Count
from .accounting import count_parts, explain_value
from .lettering import FONT, escape_text, read_style
from .svg import draw_answer

# Nothing is loaded and nothing runs, whatever a document says.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

STYLE = read_style("page.css", font=FONT)


def render_page(result: QueryResult, count: Count) -> str:
    """Return the page as HTML. It needs no other file; ``count`` returns the tokens of texts."""
    account = count_parts(result.context, count)
    title = escape_text(result.query.text)
    items = "".join(
        f"<li>{_render_line(line, tokens)}</li>"
        for line, tokens in zip(list_evidence(result), account.lines, strict=True)
    )
    warnings = "".join(
        f"<p><strong>Warning:</strong> {escape_text(each)}</p>" for each in list_warnings(result)
    )
    wide = draw_answer(result, count, evidence=False)
    narrow = draw_answer(result, count, evidence=False, narrow=True)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body><main>"
        f"<section><h1>{title}</h1>{warnings}<h2>What entered the context</h2>"
        f'<p class="soft">{account.total:,} tokens: {escape_text(account.list_kinds())}.</p><ol>{items}</ol></section>'
        f'<figure><div class="wide">{wide}</div><div class="narrow">{narrow}</div></figure></main></body></html>\n'
    )


def draw_for_chat(result: QueryResult, count: Count) -> dict[str, object]:
    """Return what the page inside a chat shows: the evidence, and the drawing in the widths of a desktop and of a phone."""
    wide, narrow = (draw_answer(result, count, narrow=narrow, evidence=False) for narrow in (False, True))
    warnings, evidence = list_warnings(result), list_evidence(result)
    return {"warnings": warnings, "evidence": evidence, "wide": wide, "narrow": narrow}


def list_warnings(result: QueryResult) -> list[str]:
    """Return the warnings of an answer for people, who call no tools."""
    advice = r",[^,.:']*\b(?:get|search)_\w+[^,.']*|(?<=\.) (?:get|search)_\w+[^.']*\."
    return [re.sub(advice, "", each) for each in result.warnings]


def list_evidence(result: QueryResult) -> list[dict[str, str]]:
    """Return each line of a context with its document, place, date and link, "" where one is unknown, and why it is there."""
    dates = {each.chunk.citation: each.chunk.own_date for each in result.sources}
    return [
        {
            "citations": " ".join(line.citations),
            "kind": line.kind,
            "subject": line.subject,
            "place": format_place(line.source, line.line) + (f", page {line.page}" if line.page else ""),
            "date": dates.get(line.citations[0], "") if line.citations else "",
            "link": link_to(line),
            "text": line.text,
            "why": explain_value(line),
        }
        for line in result.context.lines
    ]


def _render_line(line: Mapping[str, str], tokens: int) -> str:
    said = {name: "\n".join(map(escape_text, text.split("\n"))) for name, text in line.items()}
    shown = said["place"] or said["subject"]
    link = f'<a href="{said["link"]}">{shown}</a>' if said["link"] else shown
    cited = " ".join(f"[{each}]" for each in said["citations"].split())
    return (
        f"<strong>{cited}</strong> {link} {said['date']}<blockquote>{said['text']}</blockquote>"
        f'<span class="soft">{said["kind"]}, {tokens:,} tokens; value {said["why"]}</span>'
    )


def link_to(line: ContextLine) -> str:
    """Return an address that opens the source of a line at its page; "" if it is neither a whole path nor on the web."""
    if urlsplit(line.source).scheme in ("http", "https"):
        return line.source
    if PurePosixPath(line.source).is_absolute():
        address = f"file://{quote(line.source)}"
    elif PureWindowsPath(line.source).is_absolute():
        address = f"file:///{quote(line.source.replace(chr(92), '/'), safe='/:')}"
    else:
        return ""
    return f"{address}#page={line.page}" if line.page else address
