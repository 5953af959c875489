"""The reply of ``leanrag doctor``: what was examined, and the command that mends what is wrong."""

from typing import Literal

from ..base import Card, ReplyModel

CheckState = Literal["ok", "note", "broken"]

SIGNS: dict[CheckState, str] = {"ok": "ok      ", "note": "note    ", "broken": "BROKEN  "}


class Check(Card):
    subject: str
    state: CheckState
    message: str
    mend: str = ""

    def to_lines(self) -> list[str]:
        lines = [f"{SIGNS[self.state]}{self.subject}: {self.message}"]
        return [*lines, f"{' ' * len(SIGNS[self.state])}-> {self.mend}"] if self.mend else lines


class DoctorReply(ReplyModel):
    version: str
    data_dir: str
    findings: list[Check]

    @property
    def is_failure(self) -> bool:
        return any(each.state == "broken" for each in self.findings)

    def to_markdown(self) -> str:
        lines = [f"leanrag-mcp {self.version}, data in {self.data_dir}"]
        for each in self.findings:
            lines += each.to_lines()
        broken = sum(each.state == "broken" for each in self.findings)
        return "\n".join([*lines, f"{broken} broken." if broken else "Nothing is broken."])
