"""Read mail: one message (EML), a mailbox (MBOX), and pages that a browser saved as one file (MHTML)."""

import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.utils import parsedate_to_datetime

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.text.cleaning import clean, clean_line

from .html import read_html
from .reading import MALFORMED, Reading, reading_as

_MESSAGE_START = re.compile(rb"^From [^\n]*\n", re.MULTILINE)
"""The line before each message of a mailbox; within a message, such a line is written ">From"."""
_SHOWN = ("From", "To", "Cc", "Date")


def read_message(data: bytes, name: str) -> Reading:
    """Read one message: its heading is the subject, then sender, receivers, date and text. Attachments are
    named only. Raises :class:`DocumentUnreadable` if it has neither sender nor subject nor text."""
    with reading_as("a mail message", name):
        message = _parse(data)
        text = "\n".join(_format_message(message, name))
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
            f"{name!r} is no mailbox: no line begins with 'From '.", "Export the folder again as MBOX."
        )
    with reading_as("a mailbox", name):
        messages = [_parse(part.replace(b"\n>From ", b"\nFrom ")) for part in parts]
        text = "\n\n".join("\n".join(_format_message(message, name)) for message in messages)
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


def _format_message(message: EmailMessage, name: str) -> Iterator[str]:
    yield f"# {_read_header(message, 'Subject') or 'No subject'}"
    yield ""
    yield from (f"{field}: {value}" for field in _SHOWN if (value := _read_header(message, field)))
    yield ""
    yield _read_body(message, name)
    parts = message.iter_attachments() if message.is_multipart() else ()
    files = [clean_line(each.get_filename() or "") or _name_message(each) for each in parts]
    if named := ", ".join(filter(None, files)):
        yield from ("", f"Attachments (not read): {named}")


def _name_message(part: EmailMessage) -> str:
    """Return the subject of a message that is attached without a name, "" for any other part."""
    if part.get_content_type() != "message/rfc822":
        return ""
    return next(filter(None, (_read_header(each, "Subject") for each in part.iter_parts())), "a message")


def _read_body(message: EmailMessage, name: str) -> str:
    body = message.get_body(("plain", "html"))
    if body is None:
        # Without a boundary the library keeps all parts as one text.
        whole = message.get_payload() if message.get_content_maintype() == "multipart" else ""
        return whole.strip() if isinstance(whole, str) else ""
    if body.get_content_type() == "text/html":
        content = body.get_payload(decode=True)
        return read_html(content, name).text if isinstance(content, bytes) and content.strip() else ""
    try:
        return str(body.get_content()).strip()
    except (LookupError, ValueError):  # an encoding that does not exist, or not of texts
        content = body.get_payload(decode=True)
        return content.decode("utf-8", "replace").strip() if isinstance(content, bytes) else ""


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
