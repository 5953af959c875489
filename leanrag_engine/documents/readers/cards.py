"""Read calendars (iCalendar, RFC 5545) and address books (vCard, RFC 6350): a section for each event, task and person."""

import re
from collections.abc import Iterator

_FIELDS = {
    "DTSTART": "Start", "DTEND": "End", "DUE": "Due", "RRULE": "Repeats", "LOCATION": "Place", "ORGANIZER": "Organiser",
    "ATTENDEE": "With", "DESCRIPTION": "Description", "STATUS": "Status", "CATEGORIES": "Categories", "URL": "Link",
    "NICKNAME": "Nickname", "ORG": "Organisation", "TITLE": "Title", "ROLE": "Role", "TEL": "Phone", "EMAIL": "Mail",
    "ADR": "Address", "BDAY": "Birthday", "NOTE": "Note", "N": "Name",
    "EXDATE": "Except", "X-WR-CALDESC": "Description",
}  # fmt: skip
"""How fields are called. Of others, which may be of any program, the name is written as words."""
_MACHINE = re.compile(
    r"UID|PRODID|VERSION|DTSTAMP|SEQUENCE|REV|CREATED|LAST-MODIFIED|TRANSP|CALSCALE|METHOD|RELATED-TO|CLIENTPIDMAP|PHOTO|LOGO"
    r"|SOUND|KEY|REFRESH-INTERVAL|X-(?:PUBLISHED-TTL|WR-RELCALID|AB(?:UID|ADR|SHOWAS|LABEL)|ALT-DESC"
    r"|(?:APPLE|MOZ|MS-OLK|MICROSOFT-CDO|MICROSOFT-DIS|LIC|EVOLUTION)-.*)"
)
_ENCODED = re.compile(r";ENCODING=\"?B(?:ASE64)?\b|\ndata:", re.IGNORECASE)
_Field = tuple[str, str, str, str]  # Name, parameters, value and group
_NAMES = ("SUMMARY", "FN", "X-WR-CALNAME", "N")
_READ = frozenset(["VCALENDAR", "VEVENT", "VTODO", "VJOURNAL", "VCARD"])
_LINE = re.compile(r'(?:([\w-]+)\.)?([\w-]+)((?:;[\w-]+=(?:"[^"]*"|[^";:]++)*+)*+):(.*)')
_WORD = re.compile(r"\w+")
_CALLED = re.compile(r';CN=(?:"([^"]*)"|([^;:]*))', re.IGNORECASE)
_KIND = re.compile(r";TYPE=\"?([\w,-]+)", re.IGNORECASE)
_TIME = re.compile(r"(1[89]\d\d|2[01]\d\d)(0\d|1[0-2])([0-2]\d|3[01])(?:T(\d\d)(\d\d)\d\d(Z?))?")


def read_cards(text: str) -> str:
    """Return the events, tasks and persons of a file as Markdown; "" if there are none."""
    return "\n\n".join(filter(None, map(_write, _find_cards(re.sub(r"\r?\n[ \t]", "", text)))))


def _find_cards(text: str) -> Iterator[list[_Field]]:
    """Yield the fields of each card that are no data; what is nested in it, such as an alarm, is left out."""
    fields, open_ = list[_Field](), list[str]()
    for found in filter(None, map(_LINE.fullmatch, text.splitlines())):
        name, value = found[2].upper(), found[4].strip()
        if name == "BEGIN":
            if open_ == ["VCALENDAR"]:  # what is said of it ends
                yield fields
                fields = []
            open_.append(value.upper())
        elif name == "END":
            if open_ and open_.pop() in _READ:
                yield fields
                fields = []
        elif (
            open_
            and open_[-1] in _READ
            and _WORD.search(value)
            and not _ENCODED.search(f"{found[3]}\n{value}")
        ):
            fields.append((name, found[3], value, found[1] or ""))
    yield fields  # of a file that was cut


def _write(fields: list[_Field]) -> str:
    named = [each for name in _NAMES for each in fields if each[0] == name][:1]
    lines = [f"{'#' if each[0] == 'X-WR-CALNAME' else '##'} {_show(*each)}\n" for each in named]
    said = set(_WORD.findall(lines[0])) if lines else set()
    # Apple's programs name a field by another one of its group: item1.X-ABLabel:_$!<Spouse>!$_
    labels = {group: value.strip("_$!<>") for name, _, value, group in fields if name == "X-ABLABEL"}
    for field in fields:
        name, given, value, group = field
        if (
            field in named
            or _MACHINE.fullmatch(name)
            or (name == "N" and said.issuperset(_WORD.findall(value)))
        ):
            continue
        label = labels.get(group) or _FIELDS.get(name) or name.removeprefix("X-").replace("-", " ").title()
        kind = f" ({found[1].lower()})" if (found := _KIND.search(given)) else ""
        lines.append(f"{label}{kind}: {_show(*field)}")
    return "\n".join(lines)


def _show(name: str, given: str, value: str, _: str) -> str:
    """Return a value as a person writes it: times, the name of somebody, else its text."""
    parts = value.split(",")
    if name != "TEL" and all(map(_TIME.fullmatch, parts)):
        return ", ".join(_TIME.sub(_show_time, each) for each in parts)
    address = value.removeprefix("mailto:")
    if called := _CALLED.search(given):
        return f"{called[1] or called[2]} <{address}>"
    return (
        ", ".join(filter(None, _unescape(address).split(";")))
        if name in ("ADR", "ORG", "N")
        else _unescape(address)
    )


def _show_time(time: re.Match[str]) -> str:
    year, month, day, hour, minute, universal = time.groups()
    return f"{year}-{month}-{day}" + (f" {hour}:{minute}{' UTC' * bool(universal)}" if hour else "")


def _unescape(value: str) -> str:
    return re.sub(r"\\(.)", lambda sign: " " if sign[1] in "nN" else sign[1], value)
