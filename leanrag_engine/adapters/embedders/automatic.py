"""The default embedder: MiniLM for English, e5 for other languages where it is installed, else the fitted one for other scripts.

The texts decide at a collection's first build; later builds keep what was chosen. The script is a clear sign of what MiniLM
cannot read: of a sentence in each of thirteen languages, its tokenizer makes single characters or nothing for 6 to 40 % of
its pieces in six languages with Latin letters, and for 98 to 100 % in seven others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio.to_thread

from leanrag_engine.core.ports import Embedder, EmbedderSource
from leanrag_engine.core.text.scripts import is_mostly_english, is_mostly_latin


@dataclass(eq=False)
class AutomaticSource:
    """Three sources as one: ``english``, ``multilingual`` (if there is one), and ``other`` for scripts other
    than Latin. ``other`` is called only where it is needed."""

    name = "auto"
    english: EmbedderSource
    multilingual: EmbedderSource
    other: Callable[[], EmbedderSource]
    has_multilingual: bool

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:
        """Fit the source that gave ``before``; if none did, the one for the language of most of ``texts``."""
        if before and await self.gave(before):
            return await (await self._source_of(before)).fit(texts, before)
        return await (await self._choose(texts)).fit(texts)

    async def gave(self, identity: str) -> bool:
        return await (await self._source_of(identity)).gave(identity)

    async def restore(self, identity: str, state: bytes) -> Embedder:
        return await (await self._source_of(identity)).restore(identity, state)

    async def unknown_words(self, identity: str, state: bytes, texts: Sequence[str]) -> float | None:
        return await (await self._source_of(identity)).unknown_words(identity, state, texts)

    async def restrict(self, identity: str, state: bytes, texts: Sequence[str]) -> tuple[str, bytes]:
        return await (await self._source_of(identity)).restrict(identity, state, texts)

    async def _choose(self, texts: Sequence[str]) -> EmbedderSource:
        if self.has_multilingual:
            english = await anyio.to_thread.run_sync(is_mostly_english, texts)
            return self.english if english else self.multilingual
        latin = await anyio.to_thread.run_sync(is_mostly_latin, texts)
        return self.english if latin else self.other()

    async def _source_of(self, identity: str) -> EmbedderSource:
        for source in (self.english, self.multilingual):
            if await source.gave(identity):
                return source
        return self.other()
