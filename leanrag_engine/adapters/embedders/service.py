"""Embedders behind a service: any embedding model that litellm reaches, with its key from the environment. litellm's
synchronous calls are used, in threads: the asynchronous ones bind their connections to the event loop that made
them. :mod:`leanrag_engine.adapters.chat.model` silences litellm and decides which failures are retried."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import numpy as np

from leanrag_engine.adapters.chat.model import (
    address_options,
    advice,
    check_model,
    find_listed,
    foreign_errors,
    format_address,
    import_litellm,
    map_lasting_error,
    may_be_retried,
    quote_error,
    retry_policy,
)
from leanrag_engine.core.errors import (
    InvalidInput,
    LeanRAGError,
    ModelUnavailable,
    StoreUnusable,
    open_task_group,
)
from leanrag_engine.core.model import EmbeddedQueries, Vectors, content_id
from leanrag_engine.core.ports import Embedder, Progress, ProgressReport, UnmeasuredEmbedder
from leanrag_engine.core.runtime.telemetry import watch

from .pretrained import (
    EmbeddingWindows,
    PretrainedSource,
    Role,
    Windows,
    check_rows,
    pool_windows,
    rough_tokens,
)

_KIND = "litellm"
_PREFIX = "litellm/"

_BATCH, _BATCH_TOKENS = 64, 64_000  # Most texts and (roughly counted) tokens in one call
_INPUT_TYPES = {
    "cohere": {"document": "search_document", "query": "search_query"},
    "bedrock": {"document": "search_document", "query": "search_query"},
    "voyage": {"document": "document", "query": "query"},
}
"""Input types for services that distinguish queries from documents."""


@dataclass(frozen=True, slots=True)
class LitellmModel:
    """A model, its address and limits. ``window``: tokens that it reads at once; 0: as litellm lists it. ``seconds`` limits one attempt."""

    model: str
    api_base: str = ""
    window: int = 0
    seconds: float = 60.0
    attempts: int = 5
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep

    @property
    def name(self) -> str:
        return _PREFIX + self.model

    @property
    def where(self) -> str:
        return format_address(self.api_base)

    @property
    def key(self) -> str:
        """Return the beginning of an identity: the model's name and window, but not the address, which may change."""
        slug = re.sub(r"[^A-Za-z0-9]+", "-", self.model).strip("-")[:40]
        return f"{_KIND}-{slug}-{content_id('', self.model, str(self.window))}-"


class LitellmSource(PretrainedSource):
    """One model of a service. ``name`` is ``litellm/`` and the model as litellm writes it."""

    def __init__(self, model: LitellmModel) -> None:
        self.name = model.name
        self._model = model

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:  # noqa: ARG002 - the port's arguments
        """Embed the first of ``texts`` and return the model, with its dimension as its state."""
        room = await anyio.to_thread.run_sync(_room, self._model)
        sample = next((text for text in texts if text.strip()), "dimension")
        (row,) = await _call(self._model, [sample[:200]], "document")
        return LitellmEmbedder(self._model, len(row), room), json.dumps({"dimension": len(row)}).encode()

    async def gave(self, identity: str) -> bool:
        return identity.startswith(self._model.key)

    async def restore(self, identity: str, state: bytes) -> Embedder:
        """Return the model without a call. Raises ``StoreUnusable`` if ``state`` is damaged."""
        try:
            dimension = int(json.loads(state)["dimension"])
        except (ValueError, KeyError, TypeError) as problem:
            raise StoreUnusable(
                f"The stored state of the embedder {identity!r} is damaged.", "Build the collection anew."
            ) from problem
        return LitellmEmbedder(self._model, dimension, await anyio.to_thread.run_sync(_room, self._model))


class LitellmEmbedder(UnmeasuredEmbedder):
    """A model behind a service: concurrent calls, each tried again after a temporary failure. ``room``: tokens that it reads at once, roughly."""

    def __init__(self, model: LitellmModel, dimension: int, room: int) -> None:
        self.identity = f"{model.key}{dimension}"
        self.dimension = dimension
        self._model = model
        self._room = room

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        run = _EmbeddingRun(self._model, self.dimension, "document", report)
        return pool_windows(await run.embed(await self._pieces(texts)), len(texts))

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        """Return the rows of queries, marked as such for services that distinguish them; gives up after seconds."""
        # A user waits for a query, and keyword search can replace it.
        model = self._model
        hasty = replace(model, seconds=min(model.seconds, 15.0), attempts=min(model.attempts, 2))
        run = _EmbeddingRun(hasty, self.dimension, "query", None)
        return EmbeddedQueries(pool_windows(await run.embed(await self._pieces(texts)), len(texts)))

    async def _pieces(self, texts: Sequence[str]) -> EmbeddingWindows:
        cut = partial(EmbeddingWindows.of, texts, map(rough_tokens, texts), self._room)
        return await anyio.to_thread.run_sync(cut)


@dataclass(slots=True)
class _EmbeddingRun:
    """The embedding of one list of texts. ``done`` counts the windows that have their row."""

    model: LitellmModel
    dimension: int
    role: Role
    report: ProgressReport | None
    done: int = 0
    places: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(4))

    async def embed(self, pieces: EmbeddingWindows) -> Windows:
        rows = np.zeros((len(pieces.texts), self.dimension), dtype=np.float32)
        async with open_task_group() as everything:
            everything.start_soon(self._beat, len(pieces.texts))
            async with anyio.create_task_group() as calls:
                for batch in pieces.batches(_BATCH, _BATCH_TOKENS):
                    calls.start_soon(self._batch, pieces, batch, rows)
            everything.cancel_scope.cancel()
        return Windows(rows, pieces.owners)

    async def _batch(self, pieces: EmbeddingWindows, batch: list[int], rows: Vectors) -> None:
        texts = [pieces.texts[place] for place in batch]
        async with self.places:
            given = await _call(self.model, texts, self.role)
        rows[batch] = check_rows(given, texts, self.dimension, self.model.name)
        self.done += len(batch)

    async def _beat(self, total: int) -> None:
        """Report the progress, also during a slow call, which the user may want to stop."""
        while self.report is not None:
            self.report(Progress("embed", self.done, total))
            await anyio.sleep(0.5)


# --- one call ------------------------------------------------------------------------------


async def _call(model: LitellmModel, texts: list[str], role: Role) -> list[list[float]]:
    """Return the service's rows for ``texts``, in order, after as many attempts as the model allows."""
    litellm = await anyio.to_thread.run_sync(_litellm)
    call = partial(
        litellm.embedding,
        model=model.model,
        input=texts,
        timeout=model.seconds,
        max_retries=0,
        num_retries=0,
        encoding_format="float",
        drop_params=True,
        **address_options(litellm, model.model, model.api_base),
    )
    # Only some services accept it.
    if kinds := _INPUT_TYPES.get(model.model.partition("/")[0]):
        call = partial(call, input_type=kinds[role])
    try:
        patient = retry_policy(model.attempts, model.sleep)
        with watch("embedding", model.model) as embedding:
            reply: Any = await patient(anyio.to_thread.run_sync, call, abandon_on_cancel=True)
            embedding.note(texts=len(texts), attempts=patient.statistics.get("attempt_number", 1))
    except foreign_errors(litellm) as problem:
        failure = problem
    else:
        return _rows_of(reply, texts, model)
    # Outside the handler: the provider's error may hold a key, and would become the context of this one.
    raise _map_error(litellm, model, failure)


def _rows_of(reply: Any, texts: list[str], model: LitellmModel) -> list[list[float]]:
    rows = sorted(getattr(reply, "data", None) or [], key=lambda each: each.get("index") or 0)
    if len(rows) != len(texts) or not all(isinstance(each.get("embedding"), list) for each in rows):
        raise InvalidInput(
            f"The embedder {model.name!r} gave {len(rows)} rows for {len(texts)} texts.",
            "Check that it is an embedding model, or set another one.",
        )
    return [each["embedding"] for each in rows]


def _litellm() -> Any:
    """Import litellm without the retries of OpenAI's library, which reads ``max_retries=0`` as "not given"."""
    litellm = import_litellm()
    litellm.DEFAULT_MAX_RETRIES = 0
    return litellm


def _room(model: LitellmModel) -> int:
    """Return the tokens that the model reads at once. Raises ``InvalidInput`` if the model cannot be called at all."""
    litellm = _litellm()
    check_model(litellm, model.model, needs_key=not model.api_base)
    # A small window for unknown models: services cut longer texts silently.
    return model.window or int(find_listed(litellm, model.model).get("max_input_tokens") or 512)


# --- errors --------------------------------------------------------------------------------


def _map_error(litellm: Any, model: LitellmModel, problem: Exception) -> LeanRAGError:
    """Map the provider's error to one of ours, by what the caller can do."""
    who, where = f"the embedder {model.name!r}", model.where
    if lasting := map_lasting_error(litellm, model.model, who, where, problem):
        return lasting
    if isinstance(problem, litellm.ContextWindowExceededError):
        return InvalidInput(
            f"A text is longer than {who}{where} reads: {quote_error(problem)}",
            "Set embedder_window to the number of tokens that it reads at once.",
        )
    if may_be_retried(problem):
        return ModelUnavailable(
            f"The service of {who}{where} does not answer, after {model.attempts} attempts: {quote_error(problem)}",
            advice(problem, where),
        )
    return InvalidInput(
        f"The service of {who}{where} rejected the request: {quote_error(problem)}",
        "Check the model's name and the address of its service.",
    )
