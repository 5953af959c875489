"""Who writes what a build needs written: the configured models, within the caps of the build's order, or nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from leanrag_engine.adapters.wiring import chat_model, same_service
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import BuildOrder
from leanrag_engine.core.ports import ChatModel
from leanrag_engine.llm.batching import ModelWork
from leanrag_engine.llm.budget import Budget, Caps, ForecastModel, Ledger, PayingModel

from .index import Workshop

REASONS = 5
"""Reasons that are told for each step whose tasks were left heuristic."""


@dataclass(frozen=True, slots=True)
class Staff:
    """``reading`` reads chunks, ``writing`` writes summaries and relations; None where nobody does."""

    reading: ModelWork | None = None
    writing: ModelWork | None = None
    upgrade: bool = False

    def names(self) -> dict[str, str]:
        """Who does what."""
        if self.reading is None or self.writing is None:
            return {}
        return {"reading": self.reading.model.name, "writing": self.writing.model.name}

    def fallbacks(self) -> Iterator[tuple[str, str, int]]:
        """The commonest reasons why tasks were left heuristic: step, reason, count."""
        if self.writing:
            # Both note theirs in one place.
            for step, reasons in self.writing.fallbacks.reasons.items():
                yield from ((step, reason, count) for reason, count in reasons.most_common(REASONS))


NOBODY = Staff()


def caps_of(order: BuildOrder, settings: Settings) -> Caps:
    return Caps(
        order.max_calls or settings.max_calls or None,
        order.max_tokens or settings.max_tokens or None,
        order.max_cost or settings.max_cost or None,
    )


def check_order(order: BuildOrder, settings: Settings) -> None:
    """Raises ``InvalidInput`` for an upgrade without a model."""
    if order.upgrade and not settings.llm_model:
        raise InvalidInput(
            "There is no chat model to upgrade with: the setting llm_model is empty.",
            "Set LEANRAG_LLM_MODEL, such as openai/gpt-4o-mini; or let a calling agent do the work.",
        )


@asynccontextmanager
async def staffed(
    workshop: Workshop, collection: str, job_id: str, order: BuildOrder
) -> AsyncIterator[Staff]:
    """The models of the settings at work on one build. Raises ``InvalidInput`` if one cannot be called at all,
    or its price is unknown where dollars are capped."""
    async with _models(workshop.settings) as models:
        if not models:
            yield NOBODY
            return
        ledger = Ledger(workshop.graph, collection, job_id)
        budget = await Budget.open(
            caps_of(order, workshop.settings), models, workshop.graph, collection, job_id
        )
        yield _at_work(
            [PayingModel(model, ledger, budget, workshop.tokenizer, redo=order.upgrade) for model in models],
            workshop.settings,
            order,
        )


@asynccontextmanager
async def forecasting(
    workshop: Workshop, collection: str, order: BuildOrder
) -> AsyncIterator[tuple[Staff, list[ForecastModel]]]:
    """The same models, counting what they would be asked; nothing is sent."""
    async with _models(workshop.settings) as models:
        counting = [
            ForecastModel(model, workshop.graph, collection, workshop.tokenizer, redo=order.upgrade)
            for model in models
        ]
        yield (_at_work(counting, workshop.settings, order) if counting else NOBODY), counting


@asynccontextmanager
async def _models(settings: Settings) -> AsyncIterator[list[ChatModel]]:
    """The one that writes, then the one that reads if it is another; none without a setting."""
    async with AsyncExitStack() as stack:
        models = []
        if settings.llm_model:
            models.append(await chat_model(settings, settings.llm_model, settings.llm_api_base))
            stack.push_async_callback(models[-1].close)
        if settings.llm_model and settings.extraction_model not in ("", settings.llm_model):
            name = settings.extraction_model
            address = settings.extraction_api_base or same_service(settings, name)
            models.append(await chat_model(settings, name, address))
            stack.push_async_callback(models[-1].close)
        yield models


def _at_work(models: Sequence[ChatModel], settings: Settings, order: BuildOrder) -> Staff:
    writing = ModelWork(models[0], settings.llm_batch)
    reading = replace(writing, model=models[-1])
    return Staff(reading, writing, order.upgrade)


async def answerer(settings: Settings) -> ChatModel:
    """The model that answers questions. Raises ``InvalidInput`` if none is configured, or it cannot be called."""
    if not settings.llm_model:
        raise InvalidInput(
            "There is no chat model to answer with: the setting llm_model is empty.",
            "Set LEANRAG_LLM_MODEL, such as openai/gpt-4o-mini; or retrieve the context and answer from it.",
        )
    return await chat_model(settings, settings.llm_model, settings.llm_api_base)


def paying(model: ChatModel, workshop: Workshop, collection: str) -> ChatModel:
    """The model, noting what its answers use and giving kept ones again; where nothing may be written, as it is."""
    if workshop.settings.read_only:
        return model
    ledger = Ledger(workshop.graph, collection, "")
    return PayingModel(model, ledger, Budget(Caps()), workshop.tokenizer)
