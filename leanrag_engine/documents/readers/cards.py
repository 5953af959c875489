"""Read calendars (iCalendar, RFC 5545) and address books (vCard, RFC 6350): a section for each event, task and person."""

import re
from collections.abc import Iterator

_FIELDS = {
    "DTSTART": "Start", "DTEND": "End", "DUE": "Due", "RRULE": "Repeats", "LOCATION": "Place", "ORGANIZER": "Organiser",
    "ATTENDEE": "With", "DESCRIPTION": "Description", "STATUS": "Status", "CATEGORIES": "Categories", "URL": "Link",
    "NICKNAME": "Nickname", "ORG": "Organisation", "TITLE": "Title", "ROLE": "Role", "TEL": "Phone", "EMAIL": "Mail",
    "ADR": "Address", "BDAY": "Birthday", "NOTE": "Note",
}  # fmt: skip
"""What is read, by its name in the file; numbers, stamps and pictures are not."""
_NAMES = ("SUMMARY", "FN")
_READ = frozenset(["VEVENT", "VTODO", "VJOURNAL", "VCARD"])
_LINE = re.compile(r'(?:[\w-]+\.)?([\w-]+)((?:;[\w-]+=(?:"[^"]*"|[^";:]++)*+)*+):(.*)')
_CALLED = re.compile(r';CN=(?:"([^"]*)"|([^;:]*))', re.IGNORECASE)
_KIND = re.compile(r";TYPE=\"?([\w,-]+)", re.IGNORECASE)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")


def read_cards(text: str) -> str:
    """Return the events, tasks and persons of a file as Markdown; "" if there are none."""
    return "\n\n".join(_write(fields) for fields in _find_cards(re.sub(r"\r?\n[ \t]", "", text)) if fields)


def _find_cards(text: str) -> Iterator[list[tuple[str, str, str]]]:
    """Yield the fields of each card: name, parameters and value; what is nested in it, such as an alarm, is left out."""
    fields, open_ = list[tuple[str, str, str]](), list[str]()
    for found in filter(None, map(_LINE.fullmatch, text.splitlines())):
        name, value = found[1].upper(), found[3].strip()
        if name == "BEGIN":
            open_.append(value.upper())
        elif name == "END":
            if open_ and open_.pop() in _READ:
                yield fields
                fields = []
        elif open_ and open_[-1] in _READ and value:
            fields.append((name, found[2], value))
    yield fields  # of a file that was cut


def _write(fields: list[tuple[str, str, str]]) -> str:
    named = [_unescape(value) for name, _, value in fields if name in _NAMES]
    lines = [f"## {named[0]}\n"] if named else []
    for name, given, value in fields:
        if label := _FIELDS.get(name):
            kind = f" ({found[1].lower()})" if (found := _KIND.search(given)) else ""
            lines.append(f"{label}{kind}: {_show(name, given, value)}")
    return "\n".join(lines)


def _show(name: str, given: str, value: str) -> str:
    """Return a value as a person writes it: a time, the name of somebody, else its text."""
    if time := _TIME.fullmatch(value):
        year, month, day, hour, minute, universal = time.groups()
        clock = f" {hour}:{minute}{' UTC' * bool(universal)}" if hour else ""
        return f"{year}-{month}-{day}{clock}"
    address = value.removeprefix("mailto:")
    if called := _CALLED.search(given):
        return f"{called[1] or called[2]} <{address}>"
    return (
        ", ".join(filter(None, _unescape(address).split(";")))
        if name in ("ADR", "ORG")
        else _unescape(address)
    )


def _unescape(value: str) -> str:
    return re.sub(r"\\(.)", lambda sign: " " if sign[1] in "nN" else sign[1], value)
