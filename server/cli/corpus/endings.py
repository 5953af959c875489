"""How commands that run a job end: what was done, how long it took, and what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leanrag_engine.core.config import Settings

from ..running import leave_unless_done, print_report

if TYPE_CHECKING:
    from leanrag_engine.core.jobs import Job

    from ...replies.work.jobs import JobReply


def end(job: Job, settings: Settings, *, json: bool, following: Sequence[str] = ()) -> None:
    """Print what a job has done, or why it ended early, and leave; ``following``: the words of the next command."""
    from ...replies.work.jobs import JobReply  # noqa: PLC0415 - heavy

    reply = JobReply.from_engine(job)
    text = reply.model_dump_json() if json else "\n".join(list_lines(reply, job, settings, following))
    print_report(text, json=json)
    leave_unless_done(reply.status)


def list_lines(reply: JobReply, job: Job, settings: Settings, following: Sequence[str]) -> list[str]:
    if reply.status != "done":
        return [*reply.ending_lines(), say_early_end(job)]
    lines = [*reply.ending_lines(), say_time(job)]
    return [*lines, say_next(following, settings)] if following else lines


def say_early_end(job: Job) -> str:
    ended = "failed" if job.status.value == "failed" else f"was {job.status.value}"
    return f"The {job.kind} {ended}. {job.message}".rstrip()


def say_time(job: Job) -> str:
    seconds = (job.updated_at - job.created_at).total_seconds()
    return f"It took {seconds:.0f} s." if seconds >= 1 else "It took less than a second."


def say_next(words: Sequence[str], settings: Settings) -> str:
    from ..machine.install import command_line, index_options  # noqa: PLC0415 - not every command needs it

    return f"Next: {command_line(['leanrag', *words, *index_options(settings)])}"
