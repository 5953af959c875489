"""The explorer's page: its files as the server gives them, and all of them with a collection's data as one.
Imports and exports of its scripts are each one line, so that they can be joined."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from leanrag_engine.core.errors import InvalidInput, NotFound
from leanrag_engine.core.model import JsonObject
from leanrag_engine.core.runtime.replacement import write_output

from . import data

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) )", re.MULTILINE)
_LOADED = re.compile(r'<(?:link rel="stylesheet"|script) .*?>(?:</script>)?\n')


@cache
def list_files() -> dict[str, bytes]:
    """Return the files of the page by name."""
    return {
        each.name: each.read_bytes()
        for each in files(__package__).joinpath("assets").iterdir()
        if each.name.rpartition(".")[2] in MEDIA_TYPES
    }


def read_file(name: str) -> bytes:
    """Return a file of the page. Raises ``NotFound``."""
    found = list_files().get(name)
    if found is None:
        raise NotFound(f"The page has no file {name!r}.", "Open the address that `leanrag explore` printed.")
    return found


def _order_modules(name: str, before: list[str]) -> list[str]:
    for imported in _IMPORT.findall(_read_text(name)):
        if imported not in before:
            _order_modules(imported, before)
    before.append(name)
    return before


def _read_text(name: str) -> str:
    return read_file(name).decode("utf-8")


def render_page(content: JsonObject) -> str:
    """Return the page as one file that holds ``content`` as elements, parsed when needed, and loads nothing:
    its policy allows its own scripts and styles by their digests."""
    style = _read_text("colors.css") + _read_text("style.css")
    modules = (_EXPORT.sub("", _IMPORT.sub("", _read_text(each))) for each in _order_modules("main.js", []))
    scripts = [_read_text("d3.js"), "\n".join(modules)]
    policy = (
        f"default-src 'none'; img-src data:; style-src {_digest(style)}; "
        f"script-src {' '.join(map(_digest, scripts))}; base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    first, *others = (
        f'<script type="application/json" id="data-{name}">{_encode(value)}</script>\n'
        for name, value in content.items()
    )
    body = "".join([first, *(f"<script>{script}</script>\n" for script in scripts), *others])
    page = _LOADED.sub("", _read_text("index.html"))
    page = page.replace("</head>", f"{head}</head>", 1)
    before, _, after = page.rpartition("</body>")
    return f"{before}{body}</body>{after}"


def _encode(value: object) -> str:
    """Return JSON without what could end its element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


async def write_page(engine: LeanRAG, collection: str, path: Path) -> int:
    """Write the page with all that a collection holds to a new file; return its size. Raises ``InvalidInput`` if it cannot."""
    if await anyio.Path(path).exists():
        raise InvalidInput(
            f"{path} exists already, and nothing is replaced.", "Give another path, or remove it."
        )
    graph = await engine.read_graph(collection=collection)
    history = [data.describe_history(each) for each in await engine.history(collection=collection)]

    def write() -> int:
        encoded = render_page({**data.describe_graph(graph), "history": history}).encode("utf-8")
        write_output(path, encoded)
        return len(encoded)

    return await anyio.to_thread.run_sync(write)
