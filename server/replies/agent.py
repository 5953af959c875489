"""Replies of the tools with which the calling agent does a model's work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from .base import Card, ReplyModel

if TYPE_CHECKING:
    from leanrag_engine.pipeline.agent_work import PendingWork, Submission

SUBMIT_TOOLS = {"extraction": "submit_extractions", "summary": "submit_summaries"}
UNITS = {"extraction": "chunks", "summary": "clusters of this layer"}


class WorkCard(Card):
    work_id: str
    title: str
    text: str


class PendingReply(ReplyModel):
    model_config = ConfigDict(serialize_by_alias=True)

    instructions: str
    item_schema: dict[str, Any] = Field(alias="schema", description="JSON schema of one item to submit")
    items: list[WorkCard]
    remaining: int
    next_cursor: str
    next_step: str

    @classmethod
    def from_engine(cls, work: PendingWork) -> PendingReply:
        if work.items:
            step = f"Do these {len(work.items)} items, then call {SUBMIT_TOOLS[work.kind]}."
        elif work.remaining:
            step = "There is no item after this cursor: call get_pending_work without it."
        else:
            step = "Nothing is left to do here. Call build_hierarchy if get_index_status says stale, then query_lca_context."
        return cls(
            instructions=work.instructions if work.items else "",
            schema=dict(work.schema) if work.items else {},
            items=[WorkCard(work_id=each.work_id, title=each.title, text=each.text) for each in work.items],
            remaining=work.remaining,
            next_cursor=work.cursor,
            next_step=step,
        )

    def to_markdown(self) -> str:
        lines = []
        if self.items:
            schema = json.dumps(self.item_schema, ensure_ascii=False, separators=(",", ":"))
            lines = [self.instructions, "", f"Schema of one item: {schema}", ""]
        for item in self.items:
            lines += [f"# work_id {item.work_id} ({item.title})", "", item.text, ""]
        lines.append(f"{self.remaining} remaining, these included.")
        if self.next_cursor:
            lines.append(f"Items after these: cursor={self.next_cursor!r}.")
        return "\n".join([*lines, f"Next: {self.next_step}"])


class Rejection(Card):
    work_id: str
    reason: str


class SubmitReply(ReplyModel):
    accepted: int
    rejected: list[Rejection]
    remaining: int
    next_step: str

    @classmethod
    def from_engine(cls, kind: str, submission: Submission) -> SubmitReply:
        if submission.rejected:
            step = f"Correct the rejected items and call {SUBMIT_TOOLS[kind]} with them again."
        elif submission.remaining:
            left = f"{submission.remaining} {UNITS[kind]} remain"
            step = f"Call get_pending_work with kind={kind!r}: {left}. Or build_hierarchy now."
        elif kind == "extraction":
            step = "Call build_hierarchy; then get_pending_work with kind='summary'."
        else:
            step = "Call build_hierarchy; then get_pending_work with kind='summary' for the layer above."
        return cls(
            accepted=len(submission.accepted),
            rejected=[Rejection(work_id=id_, reason=reason) for id_, reason in submission.rejected],
            remaining=submission.remaining,
            next_step=step,
        )

    @property
    def is_failure(self) -> bool:
        return not self.accepted and bool(self.rejected)

    def to_markdown(self) -> str:
        lines = [f"{self.accepted} accepted, {len(self.rejected)} rejected, {self.remaining} remain."]
        lines += [f"Rejected {each.work_id or '(no work_id)'}: {each.reason}" for each in self.rejected]
        return "\n".join([*lines, f"Next: {self.next_step}"])
