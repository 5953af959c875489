"""Read mail: one message (EML), a mailbox (MBOX), and pages that a browser saved as one file (MHTML)."""

import re
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.utils import parsedate_to_datetime

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.text.cleaning import clean, clean_line

from .html import read_html
from .mail_tails import drop_told, list_told, split_body
from .reading import MALFORMED, Reading, reading_as

_MESSAGE_START = re.compile(
    rb"^From [^\n]*\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b[^\n]*\d:\d\d[^\n]*\n", re.MULTILINE
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
    return Reading(clean(text), subject, date=date)


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
    return Reading(clean(text), date=dates[-1] if dates else "")


def read_web_archive(data: bytes, name: str) -> Reading:
    """Read the page in a file that a browser saved whole. Raises :class:`DocumentUnreadable` if it holds none."""
    with reading_as("MHTML", name):
        message = _parse(data)
        page = next((part for part in message.walk() if part.get_content_type() == "text/html"), None)
        content = page.get_payload(decode=True) if page else None
    if not isinstance(content, bytes):
        raise DocumentUnreadable(f"{name!r} holds no HTML page.", "Save the page as HTML.")
    return read_html(content, name)


def _parse(data: bytes) -> EmailMessage:
    return BytesParser(EmailMessage, policy=policy.default).parsebytes(data)


def _read(message: EmailMessage, name: str) -> _Mail:
    """Return the lines of a message, those of the mail that it quotes, and those of footers."""
    head = [f"# {_read_header(message, 'Subject') or 'No subject'}", ""]
    head += [f"{field}: {value}" for field in _SHOWN if (value := _read_header(message, field))]
    unread: list[str] = []
    own, quoted, footer = split_body(_read_part(message, name, unread))
    attached = ["", f"Attachments (not read): {', '.join(unread)}"] if unread else []
    return [*head, "", *own, *attached], quoted, footer


def _write(mail: _Mail, told: set[str]) -> str:
    """Return a message with what follows its text in sections, but for what is ``told`` in others; its footer is told from then on."""
    own, quoted, footer = mail
    tails = (("Quoted mail", drop_told(quoted, told)), ("Mail signature", drop_told(footer, told)))
    told.update(list_told(footer))
    return "\n".join([*own, *(f"\n## {title}\n\n{text}" for title, text in tails if text)])


def _read_part(part: MIMEPart, name: str, unread: list[str]) -> str:
    """Return the text of a part and of those in it; what is not read goes to ``unread`` by its name, its subject or its kind."""
    kind, file = part.get_content_type(), clean_line(part.get_filename() or "")
    if kind == "message/rfc822":
        subjects = (_read_header(each, "Subject") for each in part.iter_parts())
        unread.append(file or next(filter(None, subjects), "a message"))
    elif part.is_multipart():
        texts = [text for each in part.iter_parts() if (text := _read_part(each, name, unread))]
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
        return clean_line(str(message[field] or ""))
    except MALFORMED:  # the library parses a header when it is asked for it
        return ""


def _read_date(message: EmailMessage) -> str:
    try:
        return parsedate_to_datetime(_read_header(message, "Date")).date().isoformat()
    except (ValueError, TypeError):
        return ""
