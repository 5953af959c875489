"""Edit JSON, with ``comments`` and trailing commas where allowed, in place: all else stays as it is. An
edited text is parsed again and compared with the intended value."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leanrag_engine.core.model import Json


SPACE = re.compile(r"[ \t\r\n]*")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
SAME_LINE = re.compile(r"[ \t]*(?:(?://[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/)[ \t]*)*(?=\r?\n|\Z)")
LINE_END = re.compile(r"\r?\n")
FIRST_INDENT = re.compile(r'\n([ \t]+)"')
SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")


class Malformed(ValueError):
    """The text is malformed at ``line`` (from 1)."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        self.line = text.count("\n", 0, position) + 1
        self.problem = problem
        super().__init__(f"line {self.line}: {problem}")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place: ``text[start:end]``."""

    start: int
    end: int
    value: Json
    members: tuple[JsonMember, ...] | None = None


@dataclass(frozen=True, slots=True)
class JsonMember:
    """One member of an object. ``comma`` is the offset of the comma after it, -1 without one."""

    key: str
    start: int
    node: Node
    comma: int


@dataclass(frozen=True, slots=True)
class JsonDocument:
    text: str
    root: Node
    comments: bool

    @property
    def value(self) -> Json:
        return self.root.value

    def find(self, path: Sequence[str]) -> tuple[Json, int] | None:
        """Return the value at ``path`` and its line, None if it is missing. Raises :class:`Malformed` for an
        ambiguous path."""
        node, found = self.root, None
        for key in path:
            found = find_member(self, node, key)
            if found is None:
                return None
            node = found.node
        return (node.value, self.text.count("\n", 0, found.start) + 1) if found else None

    def put(self, path: Sequence[str], value: Json) -> JsonDocument:
        """Return the document with ``value`` at ``path``; missing objects on the path are created."""
        text, node, at = self.text, self.root, 0
        while (member := find_member(self, node, path[at])) and at < len(path) - 1:
            node, at = member.node, at + 1
        if member:
            entry = dump_indented(text, value, line_indent(text, member.start))
            edited = text[: member.node.start] + entry + text[member.node.end :]
        else:
            for key in reversed(path[at + 1 :]):
                value = {key: value}
            edited = insert_member(self, node, path[at], value)
        return check_edit(edited, self, set_value(self.value, path[: at + 1], value))

    def remove(self, path: Sequence[str]) -> JsonDocument:
        """Return the document without the member at ``path``, which must exist."""
        text = self.text
        *way, name = path
        parent = self.root
        for key in way:
            member = find_member(self, parent, key)
            assert member is not None
            parent = member.node
        members = parent.members or ()
        index = next(place for place, each in enumerate(members) if each.key == name)
        gone = members[index]
        end = gone.comma + 1 if gone.comma >= 0 else gone.node.end
        start = gone.start
        line_start = text.rfind("\n", 0, start) + 1
        alone = SAME_LINE.match(text, end)
        if alone and not text[line_start:start].strip():
            # Remove its lines whole, with a comment at the end of the last one.
            broken = LINE_END.match(text, alone.end())
            start, end = line_start, broken.end() if broken else alone.end()
        kept = text[:start] + text[end:]
        previous = members[index - 1].comma if index else -1
        if gone.comma < 0 and previous >= 0:
            kept = kept[:previous] + kept[previous + 1 :]
        inside = text[parent.start + 1 : gone.start] + text[gone.node.end : parent.end - 1].replace(",", "")
        if not inside.strip():
            kept = text[: parent.start + 1] + text[parent.end - 1 :]
        return check_edit(kept, self, delete_value(self.value, path))


def parse(text: str, *, comments: bool = False) -> JsonDocument:
    """Parse ``text``. Raises :class:`Malformed` with the line of the first error."""
    reader = JsonReader(text, comments)
    position = reader.skip(1 if text.startswith("\ufeff") else 0)
    root = reader.value(position, 0)
    rest = reader.skip(root.end)
    if rest < len(text):
        raise reader.report("the end", rest)
    return JsonDocument(text, root, comments)


# --- reading -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonReader:
    """Recursive descent over one text; positions are offsets."""

    text: str
    comments: bool
    decoder: json.JSONDecoder = field(default_factory=json.JSONDecoder)

    def skip(self, position: int) -> int:
        """Return the position after white space and comments."""
        while True:
            match = SPACE.match(self.text, position)
            position = match.end() if match else position
            if not self.text.startswith(("//", "/*"), position):
                return position
            comment = COMMENT.match(self.text, position)
            if not self.comments:
                raise Malformed(self.text, position, "there is a comment, which this client does not accept")
            if comment is None:
                raise Malformed(self.text, position, "this comment is not closed")
            position = comment.end()

    def value(self, position: int, depth: int) -> Node:
        deepest = 100  # protects the stack; a client's configuration has five levels
        if depth > deepest:
            raise Malformed(self.text, position, f"nested deeper than {deepest} levels")
        sign = self.text[position : position + 1]
        if sign == "{":
            return self.object(position, depth)
        if sign == "[":
            return self.array(position, depth)
        if sign == '"':
            return Node(position, *self.string(position))
        return self.scalar(position)

    def string(self, position: int) -> tuple[int, str]:
        try:
            value, end = self.decoder.raw_decode(self.text, position)
        except json.JSONDecodeError as problem:
            raise Malformed(self.text, position, f"a broken string ({problem.msg.lower()})") from problem
        return end, str(value)

    def scalar(self, position: int) -> Node:
        match = SCALAR.match(self.text, position)
        if not match:
            raise self.report("a value", position)
        try:
            return Node(position, match.end(), json.loads(match[0]))
        except json.JSONDecodeError as problem:
            raise Malformed(self.text, position, f"{match[0]!r} is not a number") from problem

    def array(self, position: int, depth: int) -> Node:
        values: list[Json] = []
        at = self.skip(position + 1)
        while not self.closes(at, "]", first=not values):
            node = self.value(at, depth + 1)
            values.append(node.value)
            at, _ = self.after(node.end, "]")
        return Node(position, at + 1, values)

    def object(self, position: int, depth: int) -> Node:
        members: list[JsonMember] = []
        at = self.skip(position + 1)
        while not self.closes(at, "}", first=not members):
            if not self.text.startswith('"', at):
                raise self.report("a name in quotes", at)
            end, key = self.string(at)
            colon = self.skip(end)
            if not self.text.startswith(":", colon):
                raise self.report("a colon", colon)
            node = self.value(self.skip(colon + 1), depth + 1)
            start = at
            at, comma = self.after(node.end, "}")
            members.append(JsonMember(key, start, node, comma))
        return Node(position, at + 1, {each.key: each.node.value for each in members}, tuple(members))

    def after(self, end: int, closing: str) -> tuple[int, int]:
        """Return the position after the comma that follows a value, or of the closing sign, and the comma's offset or -1."""
        at = self.skip(end)
        if self.text.startswith(",", at):
            return self.skip(at + 1), at
        if self.text.startswith(closing, at):
            return at, -1
        raise self.report(f"a comma or {closing!r}", at)

    def closes(self, at: int, closing: str, *, first: bool) -> bool:
        if not self.text.startswith(closing, at):
            return False
        if not first and not self.comments and self.text[:at].rstrip().endswith(","):
            raise Malformed(self.text, at, f"an extra comma before {closing!r}")
        return True

    def report(self, what: str, position: int) -> Malformed:
        """Return the error that something else than ``what`` stands at ``position``."""
        found = repr(self.text[position]) if position < len(self.text) else "the end of the file"
        return Malformed(self.text, position, f"expected {what}, found {found}")


# --- writing -------------------------------------------------------------------------------


def find_member(document: JsonDocument, node: Node, key: str) -> JsonMember | None:
    """Return the member ``key`` of an object, None if missing. Raises :class:`Malformed` for duplicate keys."""
    if node.members is None:
        raise Malformed(document.text, node.start, f"expected an object that holds {key!r}")
    found = [each for each in node.members if each.key == key]
    if len(found) > 1:
        raise Malformed(document.text, found[1].start, f"{key!r} appears a second time")
    return found[0] if found else None


def insert_member(document: JsonDocument, parent: Node, key: str, value: Json) -> str:
    """Return the text with a new last member on a line of its own."""
    text, members = document.text, parent.members or ()
    line = newline(text)
    outer = line_indent(text, parent.start)
    own_line = (
        bool(members) and not text[text.rfind("\n", 0, members[-1].start) + 1 : members[-1].start].strip()
    )
    indent = line_indent(text, members[-1].start) if own_line else outer + unit(text)
    entry = f"{json.dumps(key, ensure_ascii=False)}: {dump_indented(text, value, indent)}"
    if not members:
        inside = text[parent.start + 1 : parent.end - 1].rstrip()
        return (
            text[: parent.start + 1] + f"{inside}{line}{indent}{entry}{line}{outer}" + text[parent.end - 1 :]
        )
    last = members[-1]
    end = last.comma + 1 if last.comma >= 0 else last.node.end
    rest = SAME_LINE.match(text, end)
    place = rest.end() if rest else end
    head = text[:place] if last.comma >= 0 else text[: last.node.end] + "," + text[last.node.end : place]
    tail = "," if last.comma >= 0 else ""
    closing = "" if rest else line + outer
    return f"{head}{line}{indent}{entry}{tail}{closing}" + text[place:].removeprefix("" if rest else " ")


def dump_indented(text: str, value: Json, indent: str) -> str:
    lines = json.dumps(value, indent=unit(text), ensure_ascii=False).split("\n")
    return (newline(text) + indent).join(lines)


def newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def unit(text: str) -> str:
    """Return the indentation of one level: that of the first indented line, else two spaces."""
    match = FIRST_INDENT.search(text)
    return match[1] if match else "  "


def line_indent(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    match = re.match(r"[ \t]*", text[start:position])
    return match[0] if match else ""


def set_value(whole: Any, path: Sequence[str], value: Json) -> Any:
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
