"""Read mail: one message (EML), a mailbox (MBOX), and pages that a browser saved as one file (MHTML)."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from email.errors import MessageError
from email.header import decode_header
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.policy import EmailPolicy
from email.utils import parsedate_to_datetime
from itertools import groupby

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import NO_METADATA
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.documents.dates import find_date
from leanrag_engine.documents.decoding import SUPERSETS
from leanrag_engine.documents.notices import QUOTED, SIGNATURE

from .html import read_html
from .reading import MALFORMED, Reading, reading_as

_MESSAGE_START = re.compile(
    rb"^From [^\n]{0,300}?\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b[^\n]{0,300}?\d:\d\d[^\n]*\n", re.MULTILINE
)
"""The line before each message of a mailbox, with sender and time; within a message, such a line is written ">From"."""
_READ = ("text/plain", "text/html", "text/markdown", "text/x-patch", "text/x-diff")
_SHOWN = ("From", "To", "Cc", "Date")
_Mail = tuple[list[str], list[str], list[str]]


def read_message(data: bytes, name: str) -> Reading:
    """Read one message: its heading is the subject, then sender, receivers, date and text. Attachments are
    named only. Raises :class:`DocumentUnreadable` if it has neither sender nor subject nor text."""
    with reading_as("a mail message", name):
        message = _parse(data)
        text = _write(_read(message, name), set())
        subject, date = _read_header(message, "Subject"), _read_date(message)
    if not (subject or _read_header(message, "From")):
        raise DocumentUnreadable(
            f"{name!r} is no mail message: it has neither a sender nor a subject.",
            "Save the message again as EML, or give its text itself.",
        )
    # Its own day, whatever day its subject names.
    return Reading(clean(text), subject, metadata={"date": date} if date else NO_METADATA)


def read_exported_mail(text: str) -> Reading | None:
    """Return the mail that was saved as a text, which begins with its fields; None for any other text."""
    head, _, body = text.strip().partition("\n\n")
    lines = head.split("\n")
    fields = dict(map(_read_field, lines)) if all(":" in line for line in lines) else {}
    if not body or not {"From", "Date", "Subject"} <= fields.keys():
        return None
    own, quoted, footer = split_body(body)
    shown = [f"{field}: {fields[field]}" for field in _SHOWN if field in fields]
    mail = _write(([f"# {fields['Subject']}", "", *shown, "", *own], quoted, footer), set())
    day = find_date(fields["Date"])
    return Reading(
        mail, fields["Subject"], metadata={"date": day} if day else NO_METADATA, media_type="message/rfc822"
    )


def _read_field(line: str) -> tuple[str, str]:
    name, _, value = line.replace("*", "").partition(":")
    known = (field for field, form in _FIELDS.items() if re.fullmatch(form, name.strip(), re.IGNORECASE))
    return next(known, ""), value.strip()


def read_mailbox(data: bytes, name: str) -> Reading:
    """Read every message of a mailbox, in its order. Raises :class:`DocumentUnreadable` if there is none."""
    _, *parts = _MESSAGE_START.split(data)
    if not parts:
        raise DocumentUnreadable(
            f"{name!r} is no mailbox: no line gives a sender and a time after 'From '.",
            "Export the folder again as MBOX.",
        )
    with reading_as("a mailbox", name):
        messages = [_parse(part.replace(b"\n>From ", b"\nFrom ")) for part in parts]
        mails = [_read(message, name) for message in messages]
        told = {each for own, _, _ in mails for each in list_told(own)}
        text = "\n\n".join(_write(mail, told) for mail in mails)
        dates = sorted(filter(None, map(_read_date, messages)))
    period = {"first_date": dates[0]} if dates[1:] else {}
    return Reading(clean(text), date=dates[-1] if dates else "", metadata=period)


def read_web_archive(data: bytes, name: str) -> Reading:
    """Read the page in a file that a browser saved whole. Raises :class:`DocumentUnreadable` if it holds none."""
    with reading_as("MHTML", name):
        message = _parse(data)
        page = next((part for part in message.walk() if part.get_content_type() == "text/html"), None)
        content = page.get_payload(decode=True) if page else None
    if not isinstance(content, bytes):
        raise DocumentUnreadable(f"{name!r} holds no HTML page.", "Save the page as HTML.")
    return read_html(content, name)


class _ShortHeaders(EmailPolicy):
    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        most = 10_000 if name.title() in (*_SHOWN, "Subject") else 1_000  # time and memory are squared
        return name, value if len(value) <= most else f"{value[:most]} …"


def _parse(data: bytes) -> EmailMessage:
    # The class is given; by their types, the policy alone decides what is made.
    return BytesParser(EmailMessage, policy=_ShortHeaders()).parsebytes(data)  # type: ignore[return-value]


def _read(message: MIMEPart, name: str, level: int = 1, deepest: int = 4) -> _Mail:
    """Return the lines of a message, with those of the messages in it as sections, those of the mail that it quotes, and those of footers."""
    head = [f"{'#' * level} {_read_header(message, 'Subject') or 'No subject'}", ""]
    head += [f"{field}: {value}" for field in _SHOWN if (value := _read_header(message, field))]
    unread, inner = list[str](), list[MIMEPart]()
    own, quoted, footer = split_body(_read_part(message, name, unread, inner))
    if level < deepest:
        for each in inner:
            own += ["", *_write(_read(each, name, level + 1), set(), level + 1).split("\n")]
    else:
        unread += [_read_header(each, "Subject") or "a message" for each in inner]
    attached = ["", f"Attachments (not read): {', '.join(unread)}"] if unread else []
    return [*head, "", *own, *attached], quoted, footer


def _write(mail: _Mail, told: set[str], level: int = 1) -> str:
    """Return a message with what follows its text in sections, but for what is ``told`` in others; its footer is told from then on."""
    own, quoted, footer = mail
    tails = ((QUOTED, drop_told(quoted, told)), (SIGNATURE, drop_told(footer, told)))
    told.update(list_told(footer))
    return "\n".join([*own, *(f"\n#{'#' * level} {title}\n\n{text}" for title, text in tails if text)])


def _read_part(part: MIMEPart, name: str, unread: list[str], inner: list[MIMEPart]) -> str:
    """Return the text of a part and of those in it; messages go to ``inner``, what is not read to ``unread`` by its name or its kind."""
    kind, file = part.get_content_type(), clean_line(part.get_filename() or "")
    if kind == "message/rfc822":
        inner += part.iter_parts()
    elif part.is_multipart():
        texts = [text for each in part.iter_parts() if (text := _read_part(each, name, unread, inner))]
        if kind == "multipart/alternative" and texts:
            # A plain text beside a page may only say that there is a page.
            enough = 0.75 * max(len(text.split()) for text in texts)
            return next(text for text in texts if len(text.split()) >= enough)
        return "\n\n".join(texts)
    elif part.get_content_maintype() == "multipart":  # without a boundary all parts are one text
        return str(part.get_payload()).strip()
    elif kind in _READ and not part.is_attachment():
        return _read_text(part, name)
    else:
        unread.append(file or kind)
    return ""


def _read_text(part: MIMEPart, name: str) -> str:
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    if part.get_content_type() == "text/html":
        return read_html(content, name).text if content.strip() else ""
    try:
        return str(part.get_content()).strip()
    except (LookupError, ValueError):  # an encoding that does not exist, or not of texts
        return content.decode("utf-8", "replace").strip()


def _read_header(message: MIMEPart, field: str) -> str:
    try:
        value = str(message[field] or "")
    except MALFORMED:  # the library parses a header when it is asked for it
        return ""
    if "\ufffd" in value:  # signs beyond the encoding that is named, or cut between two encoded words
        raw = next(str(each) for key, each in message.raw_items() if key.lower() == field.lower())
        with suppress(MessageError, *MALFORMED):
            words = [(each, SUPERSETS.get(name or "", name or "ascii")) for each, name in decode_header(raw)]
            value = "".join(
                str(each, name, "replace") if isinstance(each, bytes) else each for each, name in words
            )
    return clean_line(value)


def _read_date(message: EmailMessage) -> str:
    try:
        return parsedate_to_datetime(_read_header(message, "Date")).date().isoformat()
    except (ValueError, TypeError):
        return ""


# --- what follows the author's own text: the earlier mail that is quoted, signatures, footers of lists ---

_FOOTER_LINES = 12  # Most lines of a signature or footer
_FOOTER = re.compile(r"--|_{10,99}")
_WROTE = re.compile(
    r"(?:On|Am|Le|El|Il|Op|Den)\b.{4,250}?\b(?:wrote|schrieb|a écrit|escribió|ha scritto|schreef|skrev)\b[^:]{0,80}:"
)
"""The line above a quote, with its author."""
_QUOTING = re.compile(
    rf"{_WROTE.pattern}|(?:[^\W_](?:[^:>]|(?<=\d):(?=\d)){{1,90}}\b(?:wrote|writes|schrieb|schreibt|a écrit|escribió|ha scritto|schreef|skrev|пишет)|Quoting [^:]{{2,90}}) ?:"
    r"|\* .{2,80} \[[\d .:/-]{6,40}\] ?:|\d.{8,40} <\S+@\S+> ?:"
)
"""The same where the quote is marked, so that the line needs not begin with its day: *Inès wrote:*."""
_MARK = (
    r"-{3,60} ?(?:Original Message|Forwarded message|Ursprüngliche Nachricht|Original-Nachricht|Weitergeleitete Nachricht"
    r"|Message d['’]origine|Mensaje original|Messaggio originale) ?-{3,60}$"
)
_FROM, _SENT = "(?:From|Von|De|Da|Van)", "(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado|Inviato|Verzonden)"
_SUBJECT = "(?:Subject|Betreff|Objet|Asunto|Oggetto|Onderwerp)"
_EARLIER = re.compile(
    rf"^(?:{_MARK}|(?:_{{10,99}}\n\n?)?\*{{0,2}}{_FROM} ?:[^\n]{{1,300}}\n(?:[^\n]{{1,300}}\n)?\*{{0,2}}{_SENT} ?:"
    rf"(?=(?:[^\n]{{0,300}}\n){{1,4}}?\*{{0,2}}{_SUBJECT} ?:))",
    re.MULTILINE | re.IGNORECASE,
)
"""The head of an earlier mail that stands below without marks."""
_TO = "(?:To|An|À|Para|Aan)"
_HEAD_LINE = re.compile(
    rf"{_MARK}|_{{10}}|\*{{0,2}}(?:{_FROM}|{_SENT}|{_TO}|Cc|Reply-To|{_SUBJECT}) ?:", re.IGNORECASE
)
_FIELDS = {"From": _FROM, "To": _TO, "Cc": "Cc", "Date": _SENT, "Subject": _SUBJECT}


def split_body(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return the lines that the author of a mail wrote, the mail quoted below them, and footers. Quotes that are answered in
    between, and a mail of nothing but quotes, are its author's own."""
    own = clean(text).strip().split("\n")
    quoted, footer = list[str](), list[str]()  # From the last line up
    at, tail = _find_earlier(own), quoted
    while at:
        tail += ["", *reversed(own[at + (tail is footer) :])]
        del own[at:]
        while own and not own[-1].strip():
            own.pop()
        ends = ((_find_quote(own), quoted), (_find_footer(own), footer))
        at, tail = next((each for each in ends if each[0] < len(own)), (0, quoted))
    return own, quoted[::-1], footer[::-1]


def _find_earlier(lines: Sequence[str]) -> int:
    """Return the line on which an earlier mail without marks begins; how many lines there are if none does."""
    text = "\n".join(lines)
    heads = (text.count("\n", 0, found.start()) for found in _EARLIER.finditer(text) if found.start())
    marked = max((at for at, line in enumerate(lines, 1) if line.startswith(">")), default=0)
    authors = ((_find_author(lines, end, _WROTE), end) for end in range(marked + 1, len(lines)))
    dated = (at for at, end in authors if 0 < at < end and re.search(r"[\d@]", "".join(lines[at:end])))
    return min(next(heads, len(lines)), next(dated, len(lines)))


def _find_author(lines: Sequence[str], end: int, form: re.Pattern[str] = _QUOTING) -> int:
    """Return where the words before line ``end`` begin that name the author of a quote; ``end`` if there are none."""
    tried = range(end - 1, max(end - 4, -1), -1) if end and lines[end - 1].rstrip().endswith(":") else ()
    return next((at for at in tried if form.fullmatch(" ".join(lines[at:end]).strip())), end)


def _find_quote(lines: Sequence[str]) -> int:
    at = len(lines)
    while at and lines[at - 1].lstrip()[:1] in (">", ""):
        at -= 1
    return _find_author(lines, at) if at < len(lines) else at


def _find_footer(lines: Sequence[str]) -> int:
    for at in range(len(lines) - 1, max(len(lines) - _FOOTER_LINES, 0), -1):
        if lines[at].startswith(">"):
            break
        if _FOOTER.fullmatch(lines[at].strip()):
            return at
    return len(lines)


def list_told(lines: Sequence[str]) -> Iterator[str]:
    """Yield the paragraphs and lines by which :func:`drop_told` knows them again."""
    for _, bare in _read_paragraphs(lines):
        yield from (" ".join(bare), *bare)


def drop_told(lines: Sequence[str], told: set[str]) -> str:
    """Return the paragraphs that are not ``told`` elsewhere; "" if that leaves heads of quotes alone."""
    parts = list(_read_paragraphs(lines))
    kept = [each for each in parts if not (" ".join(each[1]) in told or told.issuperset(each[1]))]
    if len(kept) == len(parts):
        return "\n".join(lines).strip()
    if all(not _find_author(bare, len(bare)) or all(map(_HEAD_LINE.match, bare)) for _, bare in kept):
        return ""
    return "\n\n".join("\n".join(part) for part, _ in kept)


def _read_paragraphs(lines: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the lines of each paragraph, as they are and without marks; a quote within a quote is another one."""
    marked = ((line, line.lstrip("> \t")) for line in lines)
    for _, group in groupby(marked, key=lambda each: each[1] and each[0].removesuffix(each[1]).count(">")):
        part = [(line, " ".join(bare.split())) for line, bare in group if bare]
        if part:
            yield [line for line, _ in part], [bare for _, bare in part]
