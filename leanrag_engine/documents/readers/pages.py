"""Join the pages of a text, without running heads and page numbers."""

import re
from collections import Counter
from collections.abc import Sequence

from leanrag_engine.core.model import NO_METADATA, Page
from leanrag_engine.core.text.language.parts_of_speech import is_english_word

from .reading import Reading

_PAGE_NUMBER = re.compile(r"(?<![\w.,/-])[1-9]\d{0,3}(?![\w/-]|[.,]\d)")
_NAMING = re.compile(r"\b(?!(?:page|seite|página|pagina|pág|of|von|de|sur|p|s)\b)[^\W\d_]", re.IGNORECASE)
"""A letter of a word that belongs to no page number."""
_SENTENCE_END = re.compile(r"[.!?。！？][\"'”’»)\]]*$")
_PRINTED = re.compile(
    r"\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}, \d{1,2}:\d\d(?: [AP]M)?(?: .*)?|[a-z]+://\S+ +\d+/\d+"
)
"""What browsers print above and below a page."""
_CUT_WORD = re.compile(
    r"(?<![^\W\d_])(?P<left>[^\W\d_]{2,}+)[-\u2010][ \t]*\n(?P<indent>[ \t]*)(?!(?:and|or|und|oder|to|bis)\b)"
    r"(?P<right>[^\W\d_]{2,}+)(?P<rest>[^\s-]{0,40}+)(?P<space>[ \t]*)"
)
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_PRINTED_LINE, _LONGEST = "\1printed", 400


def drop_running_lines(pages: Sequence[str]) -> list[str]:
    """Remove page numbers, and all but the first of the first and last lines that most pages share to the letter or but for the
    number of the page. What differs from page to page, such as the number of an invoice, stays."""
    split = [page.split("\n") for page in pages]
    first: dict[str, int] = {}
    for at in (0, -1, 0, -1):  # a running head may follow a page number
        keys = [_running_keys(lines[at].strip(), number) for number, lines in enumerate(split)]
        shared = Counter(key for own in keys for key in own)
        # Two equal lines may be chance; of a book, left and right pages have their own.
        running = {key for key, times in shared.items() if times > max(0.4 * len(pages), 2)} | {_PRINTED_LINE}
        for number, (lines, own) in enumerate(zip(split, keys, strict=True)):
            found = running & own
            again = any(first.setdefault(key, number) != number for key in found)
            numbered = any(key.startswith("\0") for key in found)  # It would look like a heading
            if len(lines) > 1 and found and (again or numbered or not _NAMING.search(lines[at])):
                del lines[at]
    return ["\n".join(lines).strip("\n") for lines in split]


def _running_keys(line: str, number: int) -> set[str]:
    """Return the forms in which a line may come again on other pages: itself, unless it states something, and with each number that
    may be that of the page as its distance from ``number``."""
    if _PRINTED.fullmatch(line):
        return {_PRINTED_LINE}
    keys = {line} if line and ":" not in line else set[str]()
    for found in _PAGE_NUMBER.finditer(line) if len(line) <= _LONGEST else ():
        rest = f"{line[: found.start()]} {line[found.end() :]}"
        # "Invoice 7" is no running head, "7 Our FAQ" is.
        if not found.start() or not _NAMING.search(rest) or len(rest.split()) > 2:  # noqa: PLR2004
            keys.add(f"{line[: found.start()]}\0{int(found[0]) - number}{line[found.end() :]}")
    return keys


def join_cut_words(pages: Sequence[str], *, keep_lines: bool = False) -> list[str]:
    """Join words cut at a line end; the rest of the document decides whether the hyphen stays. ``keep_lines``: in a text that
    people typed, whose hyphens mostly belong there, and whose lines are those of its file."""
    text = "\n".join(pages)
    cuts = [*_CUT_WORD.finditer(text)]
    if not cuts:
        return [*pages]
    known = Counter(word[0] for word in _WORD.finditer(_CUT_WORD.sub("\n", text).lower()))
    votes = [_keeps_hyphen(cut, known) for cut in cuts]
    # If one cut within a word is certain, this document cuts words.
    usual = (keep_lines or True in votes) and False not in votes

    def whole(cut: re.Match[str]) -> str:
        keeps = _keeps_hyphen(cut, known)
        apart = usual or (keep_lines and all(map(is_english_word, cut.group("left", "right"))))
        word = f"{cut['left']}{'-' if (apart if keeps is None else keeps) else ''}{cut['right']}{cut['rest']}"
        if not keep_lines:
            return word + cut["space"]
        return f"{word}\n{cut['indent']}" if cut["space"] else cut[0]  # An empty line would end the paragraph

    return [_CUT_WORD.sub(whole, page) for page in pages]


def _keeps_hyphen(cut: re.Match[str], known: Counter[str]) -> bool | None:
    """Return whether the hyphen stays; ``None`` if neither form nor both parts are words of the document, and no English one is cut."""
    left, right = cut["left"].lower(), cut["right"].lower()
    if cut["right"][0].isupper() or cut.string[max(0, cut.start() - 1)] == "-":
        return True
    whole, compound = known[left + right], known[f"{left}-{right}"]
    if whole != compound:
        return compound > whole
    if is_english_word(left + right) and not all(map(is_english_word, (left, right))):
        return False
    return True if all(part[3:] and known[part] for part in (left, right)) else None


def join_pages(pages: Sequence[str], title: str) -> Reading:
    """Join the pages into one text, without a blank line within a sentence that continues on the next page."""
    starts: list[Page] = []
    parts: list[str] = []
    length = 0
    for number, page in enumerate(pages, 1):
        if not page:
            continue
        if parts:
            parts.append("\n" if page[0].islower() and not _SENTENCE_END.search(parts[-1]) else "\n\n")
            length += len(parts[-1])
        starts.append(Page(number, length))
        parts.append(_add_paragraphs(page))
        length += len(parts[-1])
    missing = _ranges([number for number, page in enumerate(pages, 1) if not page])
    return Reading(
        "".join(parts), title, tuple(starts), {"pages_without_text": missing} if missing else NO_METADATA
    )


def _add_paragraphs(page: str) -> str:
    """Add the paragraph breaks that PDFs lack, after a sentence that ends well before the margin."""
    lines = page.split("\n")
    lengths = [*map(len, lines)]
    for at, line in enumerate(lines):
        near = sorted(lengths[max(0, at - 8) : at + 9])  # The page may have a wide title or table
        if line and len(line) < 0.75 * near[-3:][0] and _SENTENCE_END.search(line):
            lines[at] += "\n"
    return re.sub("\n{3,}", "\n\n", "\n".join(lines).rstrip("\n"))


def _ranges(numbers: Sequence[int]) -> str:
    """Format ``[1, 2, 3, 7]`` as ``1-3, 7``."""
    held = set(numbers)
    firsts = [number for number in numbers if number - 1 not in held]
    pairs = zip(firsts, [number for number in numbers if number + 1 not in held], strict=True)
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in pairs)
