"""Replies of the tools with which the calling agent does a model's work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from ..base import Card, ReplyModel, quote_lines

if TYPE_CHECKING:
    from leanrag_engine.pipeline.agent.items import PendingWork, Submission

SUBMIT_TOOLS = {"extraction": "submit_extractions"}  # The other kinds share one tool
UNITS = {
    "extraction": "chunks",
    "summary": "clusters of this layer",
    "relation": "relations",
    "description": "entities",
}
AFTER = {
    "extraction": "get_pending_work with kind='description' or 'summary'",
    "description": "get_pending_work with kind='summary'",
    "summary": "get_pending_work with kind='summary' for the layer above, then 'relation'",
    "relation": "query_lca_context",
}


def submit_tool(kind: str) -> str:
    return SUBMIT_TOOLS.get(kind, "submit_summaries")


class WorkCard(Card):
    work_id: str
    title: str
    text: str


class PendingReply(ReplyModel):
    model_config = ConfigDict(serialize_by_alias=True)

    instructions: str
    item_schema: dict[str, Any] = Field(alias="schema", description="JSON schema of one item to submit")
    items: list[WorkCard]
    names_in_use: list[str]
    remaining: int
    tokens: int
    note: str
    next_cursor: str
    next_step: str

    @classmethod
    def from_engine(cls, work: PendingWork) -> PendingReply:
        if work.items:
            step = f"Do these {len(work.items)} items, then call {submit_tool(work.kind)}."
        elif work.remaining:
            step = "There is no item after this cursor: call get_pending_work without it."
        else:
            step = (
                "Nothing is left to do here. Call build_hierarchy if get_index_status says stale, "
                f"then {AFTER[work.kind]}."
            )
        return cls(
            instructions=work.instructions,
            schema=dict(work.schema or {}),
            items=[WorkCard(work_id=each.work_id, title=each.title, text=each.text) for each in work.items],
            names_in_use=list(work.names),
            remaining=work.remaining,
            tokens=work.tokens,
            note=work.note,
            next_cursor=work.cursor,
            next_step=step,
        )

    def to_markdown(self) -> str:
        lines = []
        if self.item_schema:
            schema = json.dumps(self.item_schema, ensure_ascii=False, separators=(",", ":"))
            lines = [self.instructions, "", f"Schema of one item: {schema}", ""]
        for item in self.items:
            lines += [f"# work_id {item.work_id} ({item.title})", "", item.text, ""]
        if self.names_in_use:
            lines += ["Names in use near here (data from documents); use the same for the same things:"]
            lines += [quote_lines(self.names_in_use)]
        lines.append(
            f"{self.remaining} remaining, these included; about {self.tokens} tokens to read in all."
        )
        lines += [self.note] if self.note else []
        if self.next_cursor:
            lines.append(f"Items after these: cursor={self.next_cursor!r}.")
        return "\n".join([*lines, f"Next: {self.next_step}"])


class Rejection(Card):
    work_id: str
    reason: str


class SubmitReply(ReplyModel):
    accepted: int
    replaced: list[str]
    rejected: list[Rejection]
    remaining: int
    next_step: str

    @classmethod
    def from_engine(cls, submission: Submission) -> SubmitReply:
        kind = submission.kind
        if submission.rejected:
            step = f"Correct the rejected items and call {submit_tool(kind)} with them again."
        elif submission.remaining:
            left = f"{submission.remaining} {UNITS[kind]} to go"
            step = (
                f"Call get_pending_work with kind={kind!r} and the next_cursor of its last page: {left}. "
                "Or build_hierarchy now."
            )
        else:
            step = f"Call build_hierarchy; then {AFTER[kind]}."
        if submission.outside:
            step += f" Not in the schema, so kept apart (passages): {', '.join(submission.outside)}."
        return cls(
            accepted=len(submission.accepted),
            replaced=[f"{id_}: {earlier}" for id_, earlier in submission.replaced],
            rejected=[Rejection(work_id=id_, reason=reason) for id_, reason in submission.rejected],
            remaining=submission.remaining,
            next_step=step,
        )

    @property
    def is_failure(self) -> bool:
        return not self.accepted and bool(self.rejected)

    def to_markdown(self) -> str:
        lines = [f"{self.accepted} accepted, {len(self.rejected)} rejected, {self.remaining} remain."]
        lines += [f"Replaced {each}." for each in self.replaced]
        lines += [f"Rejected {each.work_id or '(no work_id)'}: {each.reason}" for each in self.rejected]
        return "\n".join([*lines, f"Next: {self.next_step}"])
