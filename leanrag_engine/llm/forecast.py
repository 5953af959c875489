"""A chat model that counts what a job would ask, without a call."""

from dataclasses import dataclass, replace

from leanrag_engine.core.errors import CapReached
from leanrag_engine.core.model import Spent
from leanrag_engine.core.ports import ChatModel, ChatRequest, Reply, ReplyStore, Tokenizer

from .budget import cost_of, count_prompt
from .cache import ModelWrapper, digest_of


@dataclass(frozen=True, slots=True)
class StepForecast:
    """What a step will request. ``completion_tokens`` are estimated from earlier replies; ``guessed``: there are
    none. ``cost`` is in US dollars, ``None`` if no price is known."""

    step: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    guessed: bool


class ForecastModel(ModelWrapper):
    """A :class:`leanrag_engine.core.ports.ChatModel` that returns stored replies and counts all other
    requests, raising ``CapReached``: a dry run continues with the heuristic result."""

    def __init__(
        self,
        model: ChatModel,
        replies: ReplyStore,
        collection: str,
        tokenizer: Tokenizer,
        *,
        redo: bool = False,
    ) -> None:
        super().__init__(model)
        self._replies = replies
        self._collection = collection
        self._tokenizer = tokenizer
        self._redo = redo
        self._counts: dict[str, Spent] = {}
        """By step: its calls, our count of the tokens of their prompts, and the room of their replies."""
        self._counted: set[str] = set()

    async def complete(self, request: ChatRequest) -> Reply:
        """Return the stored reply. Raises ``CapReached`` if there is none."""
        digest = digest_of(self.name, request)
        kept = None if self._redo and request.anew else await self._replies.find(digest)
        if kept is not None:
            return kept
        if digest not in self._counted:
            self._counted.add(digest)
            count = self._counts.get(request.step, Spent(request.step))
            counted = count.counted + count_prompt(self._tokenizer, request)
            room = count.room + request.max_tokens
            self._counts[request.step] = replace(count, calls=count.calls + 1, counted=counted, room=room)
        raise CapReached("A forecast makes no call.")

    async def forecast(self) -> list[StepForecast]:
        """Return what was counted so far, in the order of the steps' first requests."""
        known = [
            await self._replies.spending(self._collection, model=self.name),
            await self._replies.spending(None, model=self.name),
            await self._replies.spending(None),
        ]
        counted = sum(each.counted for each in known[1])
        scale = sum(each.prompt_tokens for each in known[1]) / counted if counted else 1.0
        steps = []
        for step, count in self._counts.items():
            # Of their room, what replies of the step took: from the first of ``known`` that has any.
            found = (each for rows in known for each in rows if each.step == step and each.room)
            share = next((each.completion_tokens / each.room for each in found), None)
            sent = round(scale * count.counted)
            # Without any earlier reply: a guess, not tuned.
            completion = round((0.3 if share is None else share) * count.room)
            cost = None if self.price is None else cost_of(self.price, sent, completion)
            steps.append(StepForecast(step, count.calls, sent, completion, cost, share is None))
        return steps
