"""The one place where adapters are chosen and put together."""

from __future__ import annotations

from dataclasses import dataclass

from .config import Settings
from .errors import InvalidInput
from .ports import EmbedderSource, GraphStore, Tokenizer, VectorStore, WriterLock


@dataclass(frozen=True, slots=True)
class Adapters:
    """Everything outside the engine, behind its ports."""

    graph: GraphStore
    vectors: VectorStore
    embedders: EmbedderSource
    tokenizer: Tokenizer
    lock: WriterLock


async def compose(settings: Settings) -> Adapters:
    """Open the stores of ``settings.data_dir``. Raises ``StoreUnusable`` if it cannot be used as it is."""
    # Here and not at the top: the adapters' libraries take seconds to import, and only work needs them.
    from .adapters.builtin_embedder import BuiltinEmbedderSource  # noqa: PLC0415
    from .adapters.chroma_store import ChromaVectorStore  # noqa: PLC0415
    from .adapters.sql_store import SqlGraphStore  # noqa: PLC0415
    from .adapters.tiktoken_tokenizer import TiktokenTokenizer  # noqa: PLC0415
    from .adapters.writer_lock import FileWriterLock  # noqa: PLC0415

    if settings.embedder != "builtin":
        raise InvalidInput(
            f"Embedder {settings.embedder!r} is not supported yet; this version has 'builtin'.",
            "Leave the setting embedder at 'builtin'.",
        )
    folder = settings.data_dir.expanduser().absolute()
    return Adapters(
        graph=await SqlGraphStore.open(folder, read_only=settings.read_only),
        vectors=ChromaVectorStore(folder / "vectors"),
        embedders=BuiltinEmbedderSource(),
        tokenizer=TiktokenTokenizer(),
        lock=FileWriterLock(folder),
    )
