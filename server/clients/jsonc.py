"""Edit JSON, with ``comments`` and trailing commas where allowed, in place: all else stays as it is. An
edited text is parsed again and compared with the intended value."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leanrag_engine.core.model import Json


SPACE = re.compile(r"[ \t\r\n]*")
STRING = r'"(?:[^"\\\r\n]|\\[^\r\n])*"?'
COMMENT = re.compile(rf"{STRING}|(//[^\n]*|/\*.*?\*/)|(/\*)|\A\ufeff", re.DOTALL)
EXTRA = re.compile(rf"{STRING}|(NaN|-?Infinity)|,(?=[ \t\r\n]*([}}\]]))")
SAME_LINE = re.compile(r"[ \t]*(?:(?://[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/)[ \t]*)*(?=\r?\n|\Z)")
LINE_END = re.compile(r"\r?\n")
FIRST_INDENT = re.compile(r'\n([ \t]+)"')
DECODER = json.JSONDecoder()

EXPECTED = {
    "Expecting value": "a value",
    "Expecting property name enclosed in double quotes": "a name in quotes",
    "Expecting ':' delimiter": "a colon",
    "Expecting ',' delimiter": "a comma or a closing bracket",
    "Extra data": "the end",
}
"""What should stand at the place of an error, by the decoder's message. Its other messages are about strings."""


class Malformed(ValueError):
    """The text is malformed at ``line`` (from 1)."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        self.line = text.count("\n", 0, position) + 1
        self.problem = problem
        super().__init__(f"line {self.line}: {problem}")


@dataclass(frozen=True, slots=True)
class JsonMember:
    """One member of an object, or the whole as one of nothing: its key at ``place``, its value in ``text[start:end]``,
    and the offset of the comma after it, -1 without one."""

    key: str
    place: int
    start: int
    end: int
    value: Json
    comma: int = -1


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A parsed text. ``bare`` has spaces in place of comments, ``strict`` of trailing commas too."""

    text: str
    bare: str
    strict: str
    root: JsonMember
    comments: bool

    @property
    def value(self) -> Any:
        return self.root.value

    def find(self, path: Sequence[str]) -> tuple[Any, int] | None:
        """Return the value at ``path`` and its line, None if it is missing. Raises :class:`Malformed` for an ambiguous path."""
        *way, last = self.walk(path)
        return (last.value, self.text.count("\n", 0, last.place) + 1) if len(way) == len(path) else None

    def put(self, path: Sequence[str], value: Json) -> JsonDocument:
        """Return the document with ``value`` at ``path``; missing objects on the path are created."""
        text = self.text
        *way, last = self.walk(path)
        at = len(way)
        if at == len(path):
            entry = dump_indented(text, value, line_indent(text, last.place))
            edited = text[: last.start] + entry + text[last.end :]
        else:
            for key in reversed(path[at + 1 :]):
                value = {key: value}
            edited = self.insert_member(last, path[at], value)
        return check_edit(edited, self, set_value(self.value, path[: at + 1], value))

    def remove(self, path: Sequence[str]) -> JsonDocument:
        """Return the document without the member at ``path``, which must exist."""
        text = self.text
        *_, parent, gone = self.walk(path)
        members = self.list_members(parent)
        index = members.index(gone)
        end = gone.comma + 1 if gone.comma >= 0 else gone.end
        start = gone.place
        alone = SAME_LINE.match(text, end)
        if alone and not line_before(text, start).strip():
            # Remove its lines whole, with a comment at the end of the last one.
            broken = LINE_END.match(text, alone.end())
            start, end = text.rfind("\n", 0, start) + 1, broken.end() if broken else alone.end()
        kept = text[:start] + text[end:]
        previous = members[index - 1].comma if index else -1
        if gone.comma < 0 and previous >= 0:
            kept = kept[:previous] + kept[previous + 1 :]
        inside = text[parent.start + 1 : gone.place] + text[gone.end : parent.end - 1].replace(",", "")
        if not inside.strip():
            kept = text[: parent.start + 1] + text[parent.end - 1 :]
        return check_edit(kept, self, delete_value(self.value, path))

    def walk(self, path: Sequence[str]) -> list[JsonMember]:
        """Return the whole and the members on ``path``, as far as they exist. Raises :class:`Malformed` for duplicate
        keys, and for a value on the path that is no object."""
        found = [self.root]
        for key in path:
            if not isinstance(found[-1].value, dict):
                raise Malformed(self.text, found[-1].start, f"expected an object that holds {key!r}")
            named = [each for each in self.list_members(found[-1]) if each.key == key]
            if not named:
                break
            if len(named) > 1:
                raise Malformed(self.text, named[1].place, f"{key!r} appears a second time")
            found += named
        return found

    def list_members(self, parent: JsonMember) -> list[JsonMember]:
        """Return the members of an object in order."""
        members = []
        place = skip(self.bare, parent.start + 1)
        while self.bare[place] == '"':
            key, end = DECODER.raw_decode(self.strict, place)
            start = skip(self.bare, skip(self.bare, end) + 1)
            value, end = DECODER.raw_decode(self.strict, start)
            after = skip(self.bare, end)
            comma = after if self.bare[after] == "," else -1
            members.append(JsonMember(key, place, start, end, value, comma))
            place = skip(self.bare, after + 1) if comma >= 0 else after
        return members

    def insert_member(self, parent: JsonMember, key: str, value: Json) -> str:
        """Return the text with a new last member on a line of its own."""
        text, members = self.text, self.list_members(parent)
        line = newline(text)
        outer = line_indent(text, parent.place)
        own_line = bool(members) and not line_before(text, members[-1].place).strip()
        indent = line_indent(text, members[-1].place) if own_line else outer + unit(text)
        entry = f"{json.dumps(key, ensure_ascii=False)}: {dump_indented(text, value, indent)}"
        if not members:
            inside = text[parent.start + 1 : parent.end - 1].rstrip()
            added = f"{inside}{line}{indent}{entry}{line}{outer}"
            return text[: parent.start + 1] + added + text[parent.end - 1 :]
        last = members[-1]
        end = last.comma + 1 if last.comma >= 0 else last.end
        rest = SAME_LINE.match(text, end)
        place = rest.end() if rest else end
        head = text[:place] if last.comma >= 0 else text[: last.end] + "," + text[last.end : place]
        tail = "," if last.comma >= 0 else ""
        closing = "" if rest else line + outer
        return f"{head}{line}{indent}{entry}{tail}{closing}" + text[place:].removeprefix("" if rest else " ")


# --- reading -------------------------------------------------------------------------------


def parse(text: str, *, comments: bool = False) -> JsonDocument:
    """Parse ``text``. Raises :class:`Malformed` with the line of an error."""

    def blank_comment(match: re.Match[str]) -> str:
        if match[0].startswith("/") and not comments:
            raise Malformed(text, match.start(), "there is a comment, which this client does not accept")
        if match[2]:
            raise Malformed(text, match.start(), "this comment is not closed")
        return match[0] if match[0].startswith('"') else re.sub(r"[^\r\n]", " ", match[0])

    def blank_comma(match: re.Match[str]) -> str:
        if match[1]:  # the decoder would take it
            raise expect("a value", text, match.start())
        if not match[2] or bare[: match.start()].rstrip().endswith(("{", "[", ":", ",")):
            return match[0]
        if not comments:
            raise Malformed(text, match.start(2), f"an extra comma before {match[2]!r}")
        return " "

    bare = COMMENT.sub(blank_comment, text)
    strict = EXTRA.sub(blank_comma, bare)
    start = skip(bare, 0)
    root = JsonMember("", start, start, len(bare.rstrip()), decode(strict, text))
    return JsonDocument(text, bare, strict, root, comments)


def decode(strict: str, text: str) -> Json:
    """Return the value of ``strict``. Raises :class:`Malformed` with the line in ``text``, which has the same offsets."""
    try:
        value: Json = DECODER.decode(strict)
    except json.JSONDecodeError as problem:
        if problem.msg in EXPECTED:
            raise expect(EXPECTED[problem.msg], text, problem.pos) from problem
        said = problem.msg.lower().removesuffix(" at")
        raise Malformed(text, problem.pos, f"a broken string ({said})") from problem
    except RecursionError as problem:
        raise Malformed(text, 0, "nested too deeply") from problem
    return value


def expect(what: str, text: str, position: int) -> Malformed:
    """Return the error that something else than ``what`` stands at ``position``."""
    found = repr(text[position]) if position < len(text) else "the end of the file"
    return Malformed(text, position, f"expected {what}, found {found}")


def skip(text: str, position: int) -> int:
    """Return the position after white space."""
    match = SPACE.match(text, position)
    return match.end() if match else position


# --- writing -------------------------------------------------------------------------------


def dump_indented(text: str, value: Json, indent: str) -> str:
    return (newline(text) + indent).join(json.dumps(value, indent=unit(text), ensure_ascii=False).split("\n"))


def newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def unit(text: str) -> str:
    """Return the indentation of one level: that of the first indented line, else two spaces."""
    match = FIRST_INDENT.search(text)
    return match[1] if match else "  "


def line_before(text: str, position: int) -> str:
    """Return what stands before ``position`` on its line."""
    return text[text.rfind("\n", 0, position) + 1 : position]


def line_indent(text: str, position: int) -> str:
    before = line_before(text, position)
    return before[: len(before) - len(before.lstrip(" \t"))]


def set_value(whole: Any, path: Sequence[str], value: object) -> Any:
    """Return a copy of ``whole`` with ``value`` at ``path``, of which only the last key may be missing."""
    key, *below = path
    return {**whole, key: set_value(whole[key], below, value) if below else value}


def delete_value(whole: Any, path: Sequence[str]) -> Any:
    if len(path) == 1:
        return {key: value for key, value in whole.items() if key != path[0]}
    return {**whole, path[0]: delete_value(whole[path[0]], path[1:])}


def check_edit(edited: str, before: JsonDocument, wanted: object) -> JsonDocument:
    """Parse the edited text again. Raises ``RuntimeError`` if its value is not ``wanted``."""
    after = parse(edited, comments=before.comments)
    check_value(after.value, wanted)
    return after


def check_value(value: object, wanted: object) -> None:
    if value != wanted:
        raise RuntimeError("An edit of a configuration changed more than intended; nothing was written.")
