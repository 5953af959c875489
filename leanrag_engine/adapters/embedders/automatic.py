"""The default embedder: MiniLM, or the fitted one for texts in scripts that MiniLM does not know.

The script decides at a collection's first build; later builds keep what it chose. It is a clear sign: of a sentence in
each of thirteen languages, MiniLM's tokenizer makes single characters or nothing for 6 to 40 % of its pieces in six
languages with Latin letters, and for 98 to 100 % in seven others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio.to_thread

from leanrag_engine.core.ports import Embedder, EmbedderSource
from leanrag_engine.core.text.scripts import is_mostly_latin


class AutomaticSource:
    """Two sources as one: ``latin`` for texts in Latin letters, ``other`` for those in other scripts.

    ``other`` is called only where it is needed.
    """

    def __init__(self, latin: EmbedderSource, other: Callable[[], EmbedderSource]) -> None:
        self._latin = latin
        self._other = other

    @property
    def name(self) -> str:
        return "auto"

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:
        """Fit the source that gave ``before``; if neither did, the one for the script of most of ``texts``."""
        if before and await self.gave(before):
            return await (await self._source_of(before)).fit(texts, before)
        latin = await anyio.to_thread.run_sync(is_mostly_latin, texts)
        return await (self._latin if latin else self._other()).fit(texts)

    async def gave(self, identity: str) -> bool:
        """Return whether ``identity`` is that of either source."""
        return await self._latin.gave(identity) or await self._other().gave(identity)

    async def restore(self, identity: str, state: bytes) -> Embedder:
        """Return the embedder from the source that gave it."""
        return await (await self._source_of(identity)).restore(identity, state)

    async def unknown_words(self, identity: str, state: bytes, texts: Sequence[str]) -> float | None:
        """Ask the source that gave ``identity``."""
        return await (await self._source_of(identity)).unknown_words(identity, state, texts)

    async def restrict(self, identity: str, state: bytes, texts: Sequence[str]) -> tuple[str, bytes]:
        """Let the source that gave ``identity`` do it."""
        return await (await self._source_of(identity)).restrict(identity, state, texts)

    async def _source_of(self, identity: str) -> EmbedderSource:
        return self._latin if await self._latin.gave(identity) else self._other()
