"""The files of the explorer's page."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from leanrag_engine.core.errors import NotFound

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}


@cache
def list_files() -> dict[str, bytes]:
    """Return the files of the page by name."""
    folder = files(__package__).joinpath("assets")
    return {
        each.name: each.read_bytes()
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in MEDIA_TYPES
    }


def read_file(name: str) -> bytes:
    """Return a file of the page. Raises ``NotFound``."""
    found = list_files().get(name)
    if found is None:
        raise NotFound(f"The page has no file {name!r}.", "Open the address that `leanrag explore` printed.")
    return found
