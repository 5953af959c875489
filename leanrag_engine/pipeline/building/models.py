"""The chat models of a build: the configured ones within the caps of its request, or none."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from leanrag_engine.adapters.wiring import chat_model, same_service
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.jobs import BuildRequest
from leanrag_engine.core.ports import ChatModel
from leanrag_engine.llm.batching import ModelWork
from leanrag_engine.llm.cache import Budget, CachedModel, Caps, ForecastModel, Ledger
from leanrag_engine.llm.prompts import Prompts
from leanrag_engine.pipeline.index import Stores


@dataclass(frozen=True, slots=True)
class BuildModels:
    """``reading`` reads chunks, ``writing`` writes summaries and, if another reads, descriptions and relations; None if no
    model does that."""

    reading: ModelWork | None = None
    writing: ModelWork | None = None
    upgrade: bool = False

    def names(self) -> dict[str, str]:
        """Return the names of the models by their work."""
        works = {"reading": self.reading, "writing": self.writing}
        return {name: each.model.name for name, each in works.items() if each}

    def fallbacks(self) -> Iterator[tuple[str, str, int]]:
        """Return the most frequent reasons why tasks were left heuristic: step, reason, count."""
        if self.writing:
            # Both models record theirs in one place.
            for step, reasons in self.writing.fallbacks.items():
                # The five most frequent reasons are reported.
                yield from ((step, reason, count) for reason, count in reasons.most_common(5))


NO_MODELS = BuildModels()


def check_order(order: BuildRequest, settings: Settings) -> None:
    """Raise ``InvalidInput`` for an upgrade without a model."""
    if order.upgrade and not settings.llm_model:
        raise InvalidInput(
            "There is no chat model to upgrade with: the setting llm_model is empty.",
            "Set LEANRAG_LLM_MODEL, such as openai/gpt-4o-mini; or let a calling agent do the work.",
        )


@asynccontextmanager
async def open_models(
    stores: Stores, collection: str, job_id: str, order: BuildRequest
) -> AsyncIterator[BuildModels]:
    """Open the configured models for one build. Raises ``InvalidInput`` if one cannot be called, or lacks a price to cap."""
    async with _open_chat_models(stores.settings) as models:
        if not models:
            yield NO_MODELS
            return
        settings, ledger = stores.settings, Ledger(stores.replies, collection, job_id)
        caps = Caps(
            order.max_calls or settings.max_calls or None,
            order.max_tokens or settings.max_tokens or None,
            order.max_cost or settings.max_cost or None,
        )
        budget = await Budget.open(caps, models, stores.replies, collection, job_id)
        cached = [CachedModel(each, ledger, budget, stores.tokenizer, redo=order.upgrade) for each in models]
        yield _assign(cached, settings, order)


@asynccontextmanager
async def open_forecast_models(
    stores: Stores, collection: str, order: BuildRequest
) -> AsyncIterator[tuple[BuildModels, list[ForecastModel]]]:
    """Open the same models so that they count requests and send none; no key is needed."""
    async with _open_chat_models(stores.settings, calls=False) as models:
        ledger = Ledger(stores.replies, collection, "")
        counting = [ForecastModel(each, ledger, stores.tokenizer, redo=order.upgrade) for each in models]
        yield (_assign(counting, stores.settings, order) if counting else NO_MODELS), counting


@asynccontextmanager
async def _open_chat_models(settings: Settings, *, calls: bool = True) -> AsyncIterator[list[ChatModel]]:
    """Open the model that writes, then the one that reads if it is another; none if none is configured."""
    async with AsyncExitStack() as stack:
        models = []
        if settings.llm_model:
            models.append(await chat_model(settings, settings.llm_model, settings.llm_api_base, calls=calls))
            stack.push_async_callback(models[-1].close)
        if settings.llm_model and settings.extraction_model not in ("", settings.llm_model):
            name = settings.extraction_model
            address = settings.extraction_api_base or same_service(settings, name)
            models.append(await chat_model(settings, name, address, calls=calls))
            stack.push_async_callback(models[-1].close)
        yield models


def _assign(models: Sequence[ChatModel], settings: Settings, order: BuildRequest) -> BuildModels:
    writing = ModelWork(models[0], settings.llm_batch, Prompts(settings.prompts_dir))
    # An upgrade asks for everything.
    reads = order.upgrade or settings.llm_writes == "all"
    return BuildModels(replace(writing, model=models[-1]) if reads else None, writing, order.upgrade)


async def open_answer_model(settings: Settings) -> ChatModel:
    """Open the model that answers questions. Raises ``InvalidInput`` if none is configured, or it cannot be called."""
    if not settings.llm_model:
        raise InvalidInput(
            "There is no chat model to answer with: the setting llm_model is empty.",
            "Set LEANRAG_LLM_MODEL, such as openai/gpt-4o-mini; or retrieve the context and answer from it.",
        )
    return await chat_model(settings, settings.llm_model, settings.llm_api_base)


def cache_replies(model: ChatModel, stores: Stores, collection: str) -> ChatModel:
    """Return the model with its replies cached and its spending recorded; unchanged if the data folder is read-only."""
    if stores.settings.read_only:
        return model
    return CachedModel(model, Ledger(stores.replies, collection, ""), Budget(Caps()), stores.tokenizer)
