"""The tool that answers by itself: context and answer in one call. Only offered where a chat model is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mcp_types import CallToolResult
from pydantic import Field

from ..engine_handle import EngineHandle
from ..replies.cards import shorten_line
from ..replies.markdown import both
from ..replies.models import ReplyModel, SourceCard
from .arguments import CollectionName

if TYPE_CHECKING:
    from leanrag_engine.engine import ModelAnswer

QUOTED = 240
"""Characters of a cited passage that the reply shows."""


class AnswerReply(ReplyModel):
    question: str
    answer: str
    sufficient: bool = Field(description="false: the evidence does not settle the question")
    sources: list[SourceCard] = Field(description="what the answer cites")
    unfounded: list[str] = Field(description="citations in the answer that no evidence bears")
    tokens: int
    model: str
    next_step: str
    warnings: list[str]


class AnswerTools:
    """Each method is one tool; its docstring is what the model reads."""

    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    async def answer_question(
        self,
        question: Annotated[str, Field(min_length=1, max_length=10_000)],
        strategy: Annotated[
            Literal["one_shot"], Field(description="Retrieve once, then answer")
        ] = "one_shot",
        token_budget: Annotated[int, Field(ge=200, le=32_000, description="Of the evidence")] = 4000,
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, AnswerReply]:
        """Answer a question from the documents with the server's own model: retrieves the evidence, writes an \
answer with citations, and checks each citation against the evidence. Use it for one plain question; use \
query_lca_context to see the evidence and reason yourself. Returns the answer, its sources, and `sufficient`: false \
where the evidence does not settle the question. Next: get_sources to read what is cited."""
        del strategy  # there is one
        engine = await self._engine.get()
        answered = await engine.answer(
            question, token_budget=token_budget, collection=self._engine.collection(collection)
        )
        return answer_result(answer_reply(answered))


def answer_reply(answered: ModelAnswer) -> AnswerReply:
    answer = answered.answer
    step = "Call get_sources with the citations to read them whole."
    if not answer.sufficient:
        step = "Call query_lca_context with other words or sub-queries, or ingest_documents with more."
    return AnswerReply(
        question=answered.result.query.text,
        answer=answer.text,
        sufficient=answer.sufficient,
        sources=[
            SourceCard(citation=each.citation, document=each.title, quote=shorten_line(each.text, QUOTED))
            for each in answered.sources
        ],
        unfounded=list(answer.unfounded),
        tokens=answered.result.context.tokens,
        model=answered.model,
        next_step=step,
        warnings=list(answered.result.warnings),
    )


def answer_result(reply: AnswerReply) -> CallToolResult:
    lines = [reply.answer, ""]
    lines += [f"Source [{each.citation}] {each.document}: {each.quote}" for each in reply.sources]
    if reply.unfounded:
        lines.append(
            f"Warning: no evidence bears the citations {', '.join(reply.unfounded)}; don't rely on them."
        )
    if not reply.sufficient:
        lines.append("The evidence does not settle the question.")
    lines += [f"Warning: {warning}" for warning in reply.warnings]
    lines += [f"By {reply.model} from {reply.tokens} tokens of evidence.", f"Next: {reply.next_step}"]
    return both(lines, reply)
