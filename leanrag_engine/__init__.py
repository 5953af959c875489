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

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.config import Settings, load_settings
    from .core.errors import LeanRAGError
    from .core.model import DocumentSource
    from .engine import LeanRAG
    from .retrieval.request import Query

__all__ = ["DocumentSource", "LeanRAG", "LeanRAGError", "Query", "Settings", "load_settings"]

# Dependencies send nothing of their own accord: neither figures of use, nor requests for newer tables. Every process that
# uses the engine imports this package before any of these libraries. What the environment sets stays.
for _variable, _value in {
    # Reports each session, and keeps a device id and a database in the home folder; read as it is imported.
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # Chroma's: version 1.5 has the setting and sends nothing.
    "ANONYMIZED_TELEMETRY": "False",
    # litellm would download its table of prices as it is imported, and that of headers at the first call of some models.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
}.items():
    os.environ.setdefault(_variable, _value)

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
