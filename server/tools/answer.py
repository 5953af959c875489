"""The tool that retrieves and answers in one call. Offered only if a chat model is configured."""

from typing import Annotated, Literal

from mcp_types import CallToolResult
from pydantic import Field

from ..replies.query import AnswerReply
from .arguments import CollectionName, ToolGroup


class AnswerTools(ToolGroup):
    async def answer_question(
        self,
        question: Annotated[str, Field(min_length=1, max_length=10_000)],
        strategy: Annotated[
            Literal["one_shot", "iterative", "global"],
            Field(
                description="iterative: divide the question, retrieve, say what is missing, retrieve that; slower. "
                "global: read the summaries of all documents page by page, with a budget of 16,000 or more"
            ),
        ] = "one_shot",
        rounds: Annotated[int, Field(ge=2, le=8, description="Most rounds of iterative")] = 4,
        open: Annotated[bool, Field(description="Let the model add what it knows; else it declines")] = False,
        token_budget: Annotated[int, Field(ge=200, le=32_000, description="Of all evidence")] = 4000,
        collection: CollectionName = "default",
    ) -> Annotated[CallToolResult, AnswerReply]:
        """Answer a question from the documents with the server's own model: retrieves the evidence, writes an \
answer with citations, and checks each citation against the evidence. Use query_lca_context to see the \
evidence and reason yourself. Returns the answer, its sources, and `sufficient`: false \
where the evidence does not settle the question. Next: get_sources to read what is cited."""
        engine, named = await self._open(collection)
        answered = await engine.answer(
            question,
            token_budget=token_budget,
            rounds=rounds if strategy == "iterative" else 1,
            mode="global" if strategy == "global" else "lca",
            open_mode=open,
            collection=named,
        )
        return AnswerReply.from_engine(answered).to_result()
