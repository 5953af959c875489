"""LeanRAG: documents become a layered knowledge graph, questions get a small, cited context.

>>> import anyio, tempfile
>>> from leanrag_engine import DocumentSource, LeanRAG, Query, load_settings
>>> async def main(folder: str) -> tuple[str, ...]:
...     async with await LeanRAG.open(load_settings(data_dir=folder)) as engine:
...         text = "Ada Lovelace wrote the first program. Ada Lovelace worked with Charles Babbage."
...         job = await engine.submit_ingest([DocumentSource(text=text)])
...         await engine.job(job.id, wait_seconds=60)
...         result = await engine.query(Query("Who worked with Charles Babbage?"))
...         return result.context.cited
>>> with tempfile.TemporaryDirectory() as folder:
...     anyio.run(main, folder)
('d1:c1',)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.runtime.privacy import turn_off_reporting

if TYPE_CHECKING:
    from .core.config import Settings, load_settings
    from .core.errors import LeanRAGError
    from .core.model import DocumentSource
    from .engine import LeanRAG
    from .retrieval.request import Query

__all__ = ["DocumentSource", "LeanRAG", "LeanRAGError", "Query", "Settings", "load_settings"]

# Every process that uses the engine imports this package before any other library that reports.
turn_off_reporting()

_HOMES = {
    "DocumentSource": "core.model",
    "LeanRAG": "engine",
    "LeanRAGError": "core.errors",
    "Query": "retrieval.request",
    "Settings": "core.config",
    "load_settings": "core.config",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: the engine's libraries take seconds, the server starts without them."""
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
