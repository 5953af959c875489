"""Separate what the author of a mail wrote from what follows it: the earlier mail that is quoted, signatures, footers of lists."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from leanrag_engine.core.text.cleaning import clean

_FOOTER_LINES = 12  # Most lines of a signature or footer
_FOOTER = re.compile(r"--|_{10,99}")
_WROTE = re.compile(
    r"(?:On|Am|Le|El|Il|Op|Den)\b.{4,250}?\b(?:wrote|schrieb|a écrit|escribió|ha scritto|schreef|skrev)\b[^:]{0,80}:"
)
"""The line above a quote, with its author."""
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
_HEAD_LINE = re.compile(
    rf"{_MARK}|_{{10}}|\*{{0,2}}(?:{_FROM}|{_SENT}|To|An|À|Para|Aan|Cc|Reply-To|{_SUBJECT}) ?:", re.IGNORECASE
)


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
    authors = ((_find_author(lines, end), end) for end in range(marked + 1, len(lines)))
    dated = (at for at, end in authors if 0 < at < end and re.search(r"[\d@]", "".join(lines[at:end])))
    return min(next(heads, len(lines)), next(dated, len(lines)))


def _find_author(lines: Sequence[str], end: int) -> int:
    """Return where the words before line ``end`` begin that name the author of a quote; ``end`` if there are none."""
    tried = range(end - 1, max(end - 4, -1), -1) if end and lines[end - 1].rstrip().endswith(":") else ()
    return next((at for at in tried if _WROTE.fullmatch(" ".join(lines[at:end]).strip())), end)


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
