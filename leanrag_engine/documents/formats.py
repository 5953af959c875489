"""Choose the reader of a file by its name, or by its beginning; read text, Markdown and source code. Every
reader returns headings as Markdown's ``#`` lines where its format has headings, tables as records (see
``core.text.records``) and list items as ``- a``, so that later stages know one notation only."""

import re
import unicodedata
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from json import loads
from pathlib import PurePath
from pkgutil import resolve_name

from leanrag_engine.core.errors import FormatUnsupported
from leanrag_engine.core.model import JsonObject
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.core.text.language.sentences import ends_sentence, find_turn
from leanrag_engine.core.text.scripts import CJK_CHARACTER
from leanrag_engine.core.text.word_lists import read_sections, read_words
from leanrag_engine.documents.readers.lightweight import MANUAL_HEAD, write_manual

from .dates import read_date
from .decoding import decode
from .readers.cards import read_cards
from .readers.chats import read_chat, read_export
from .readers.lightweight import write_asciidoc, write_bibtex, write_org
from .readers.pages import drop_running_lines, join_cut_words, join_pages
from .readers.reading import Reading, first_heading
from .readers.tables import read_objects, read_table
from .records import format_rows, write_records

START_BYTES = 1 << 13  # How much of a file's beginning tells whether it is prose
_PHRASE = re.compile(r"\b(?:[^\W\d_]{1,40}[,;:]?[ \n]){4}[^\W\d_]{1,40}")
"""Five words in a row. Keys, markup and tables of numbers have none. A word has an end, so that the search takes time in
proportion to the text."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file. ``read`` takes the bytes and the name for messages. It raises :class:`DocumentUnreadable` if
    the bytes are of another kind or hold no text. Files of ``guarded_from`` bytes on are read in a process of its own
    (see ``guarding``): a small one can keep its parser busy for hours, or fill the memory."""

    media_type: str
    read: Callable[[bytes, str], Reading]
    guarded_from: int = 200_000


def format_of(name: str, shown: str = "", start: bytes = b"") -> Format:
    """Return the format of a file by its name, or plain text if the name says nothing and ``start``, its
    beginning, is prose. Messages quote ``shown`` (default: the name). Raises :class:`FormatUnsupported`."""
    path = PurePath(name)
    suffix = path.suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    if re.fullmatch(r"\.[1-9][a-z]{0,4}", suffix) and MANUAL_HEAD.search(start):
        return _MANUAL
    stem = path.name.lower().split(".")[0]  # Dockerfile.dev too
    if stem in read_words("files", "names_of_code"):
        return _FORMATS[".mk"]
    if stem in read_words("files", "names_of_text") or is_prose(start):
        return PLAIN
    kind = f"{suffix} files are" if suffix else "files without a suffix (other than README and the like) are"
    raise FormatUnsupported(
        f"{(shown or name)!r} cannot be read: {kind} not supported yet. Supported are .txt, .md, .rst, .html, .pdf, .docx, "
        ".xlsx, .pptx, .odt, .ods, .odp, .rtf, .epub, .eml, .mbox, .mhtml, .ipynb, source code (.py, .js, .java, …), data as text (.json, .yaml, .csv, …) "
        "and, whatever its name, prose in UTF-8.",
        "Convert it to one of these, or give its text itself.",
    )


def is_prose(start: bytes) -> bool:
    """Return whether the beginning of a file is text in UTF-8 that holds sentences."""
    try:
        # A character may be cut at the end.
        text = getincrementaldecoder("utf-8")().decode(start[:START_BYTES])
    except UnicodeDecodeError:
        return False
    if any(unicodedata.category(each) == "Cc" for each in set(text) - set("\t\n\r\f")):
        return False
    phrases = sum(len(found[0]) for found in _PHRASE.finditer(text.replace("\r\n", "\n")))
    cjk = len(CJK_CHARACTER.findall(text))
    # A low bound: configuration with comments has a share of 0.3, an SVG image 0.
    return bool(text) and max(phrases, 2 * cjk) >= 0.1 * len(text)


_FRONT_MATTER = re.compile(
    r"\A---[ \t]*\n(?=[\w\"'-]+[ \t]*:|#)(?P<fields>(?:(?!---|\.\.\.)[^\n]*\n){0,200})(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
)
_TITLE = re.compile(r"^title[ \t]*:[^\n]*", re.MULTILINE | re.IGNORECASE)
_DULL = re.compile(
    r"^(?:(?:created|css-?class(?:es)?|date|draft|last-?mod(?:ified)?|layout|modified|permalink|publish|sidebar_position|slug|toc|updated"
    r"|uu?id)[ \t]*:[^\n]*|[\w-]+[ \t]*:[ \t]*(?:\[[ \t]*\]|\"\"|''|null))[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""A field that tells a program something, or nothing: metadata has it."""
_FIELDS = re.compile(r"\A(?:[A-Z][\w-]{0,30}+:[^\n]*+\n(?:[ \t]+\S[^\n]*+\n){0,20}+){3,30}+")
_FIELD = re.compile(r"^([A-Za-z][\w-]*)[ \t]*:[ \t]+(\S[^\n]*)$", re.MULTILINE)
_ITEM = re.compile(r"\n[ \t]*-[ \t]+(\S[^\n]*)")
"""An item of a list of lines, which becomes a list in its field."""


_ESCAPED = re.compile(r"(?<!\\)(?:\\u(?!00[01])[0-9a-fA-F]{4})+")
"""Letters as JSON may write them; signs that control something stay escaped."""
_CUE = re.compile(r"(?:^[\w-]+\n)?^(?:\d+:)?\d\d:\d\d[.,]\d{3} --> [^\n]*\n", re.MULTILINE)
"""The number or name of a subtitle, and its times."""
_VOICE, _VOICE_END = re.compile(r"<v[^ <>]{0,80} ([^<>]{1,200})>"), re.compile(r"</v>")
_HEAD = re.compile(r"WEBVTT[ \t]*(?:-[ \t]*)?(?P<title>[^\n]*)")
_MAIL_START = re.compile(r"\s*\*{0,2}(?:From|Von|De|Da|Van|Subject|Betreff|Date|To)\*{0,2} ?:", re.IGNORECASE)
_BETWEEN_CUES = re.compile(r"\n[ \t]*\n")
_PAGE_BREAK = re.compile(r"(?<![^\n])[ \t]*\f+|(?<!\f)\f++(?=[\r\n]|\Z)")
"""One beside the end of a line; editors show it there."""
_LONGEST_PAGE, _MOST_PAGES = 100, 20_000  # Lines of a printed page, pages of a printed text
_OTHER_BREAK = re.compile("[\x0b\x85\u2028\u2029]")
"""These end a line of a document, but not one of a file: editors count line feeds."""


def _plain(data: bytes, name: str) -> Reading:
    raw, note = decode(data, name)
    raw = _PAGE_BREAK.sub("", raw).replace("\f", " ")
    return Reading(clean(raw), metadata=note, first_line=0 if _OTHER_BREAK.search(raw) else 1)


def _json(data: bytes, name: str) -> Reading:
    """Read JSON as it is, with its escaped letters as letters, the export of a chat as its turns, and a list of alike objects as a table."""
    reading = _plain(data, name)
    if chat := read_export(reading.text):
        return replace(chat, text=clean(chat.text))
    if table := read_objects(reading):
        return table
    title, dates = _label_json(reading.text)
    text = _ESCAPED.sub(lambda found: clean(loads(f'"{found[0]}"')), reading.text)
    return replace(reading, text=text, title=title, metadata={**dates, **reading.metadata})


def _label_json(text: str, longest: int = 1_000_000) -> tuple[str, dict[str, str]]:
    """Return the title and the dates of a ticket, a post or the like, which is one object; none of what is settings or data."""
    fields: JsonObject = {}
    with suppress(ValueError, RecursionError):
        fields = loads(text) if text.lstrip()[:1] == "{" and len(text) <= longest else {}
    said = {key.lower(): each for key, each in fields.items() if isinstance(each, str) and len(each) < 200}  # noqa: PLR2004
    dates = {
        key: clean(said[key])
        for key in ("date", "created", "created_at", "updated")
        if read_date(said.get(key, ""))
    }
    names = ("title", "subject", "name") if dates else ("title", "subject")
    return next(filter(None, map(said.get, names)), ""), dates


def _text(data: bytes, name: str) -> Reading:
    reading = _plain(data, name)
    said: Reading | None = read_chat(reading.text)
    if not said and _MAIL_START.match(reading.text):
        said = resolve_name(f"{__package__}.readers.mail:read_exported_mail")(reading.text)
    if said:
        return replace(said, metadata={**said.metadata, **reading.metadata})
    pages = decode(data, name)[0].split("\f") if b"\f" in data else ()
    # An RFC, or what was a PDF; not a list of changes that has one between releases
    if 2 < len(pages) <= _MOST_PAGES and max(page.count("\n") for page in pages) <= _LONGEST_PAGE:  # noqa: PLR2004
        pages = drop_running_lines([clean(page).strip("\n") for page in pages])
        whole = join_pages(join_cut_words(pages, keep_lines=True), "")
        return replace(whole, metadata=reading.metadata, first_line=0)
    text = join_cut_words([write_records(reading.text)], keep_lines=True)[0]
    return replace(reading, text=text, title=_find_field(reading.text))


def _cards(data: bytes, name: str) -> Reading:
    """Read a calendar or an address book, as a text if it holds neither events nor persons."""
    cards = read_cards(_plain(data, name).text)
    return Reading(cards, first_line=0) if cards else _text(data, name)


def _captions(data: bytes, name: str) -> Reading:
    """Read subtitles, and transcripts of meetings as turns: what is said, without its times."""
    text = _plain(data, name).text
    if head := _HEAD.match(text):
        text = text[head.end() :]
    text = _CUE.sub("", text)
    said = Reading(_join_cues(_VOICE_END.sub("", _VOICE.sub(r"\1: ", text))), first_line=0)
    said = read_chat(said.text) or said
    return replace(said, title=head["title"]) if head and head["title"] else said


def _join_cues(text: str, longest: int = 600) -> str:
    """Return the paragraphs of ``text`` with those joined that one speaker says, or, where none is named, that one sentence runs
    through; a long speech is several."""
    said: list[str] = []
    speaker = ""
    for cue in filter(None, (" ".join(each.split()) for each in _BETWEEN_CUES.split(text))):
        turn = find_turn(cue)
        goes_on = bool(speaker if turn is None else turn.speaker == speaker)
        whole = bool(said) and ends_sentence(said[-1])
        words = cue[turn.said :] if turn else cue
        speaker = turn.speaker if turn else speaker
        if (
            said
            and (goes_on or (not turn and not whole))
            and len(said[-1]) < (longest if whole else 4 * longest)
        ):
            said[-1] += f" {words}"
        else:
            said.append(f"{speaker}: {words}" if speaker else words)
    return "\n\n".join(said)


def _table(data: bytes, name: str) -> Reading:
    return read_table(_plain(data, name))


def _markdown(data: bytes, name: str) -> Reading:
    """Read Markdown as it is. The front matter gives the title and, from its plain fields, the metadata as well."""
    reading = _plain(data, name)
    if chat := read_markdown_chat(reading.text):
        return replace(chat, metadata={**chat.metadata, **reading.metadata})
    return read_front_matter(reading, first_heading(reading.text, "text/markdown"))


def read_markdown_chat(text: str) -> Reading | None:
    """Return the chat in a text, whose front matter becomes its title, its metadata and its first day; None if it is no chat."""
    front = _FRONT_MATTER.match(text)
    fields = _fields(front["fields"]) if front else {}
    title = fields.pop("title", "") or fields.get("channel", "")
    chat = read_chat(f"{fields.get('date', '')}\n{text[front.end() :]}" if front else text, title)
    return chat and replace(chat, metadata={**fields, **chat.metadata})


def _write_markdown(write: Callable[[str], str]) -> Callable[[bytes, str], Reading]:
    """Return a reader of a markup that ``write`` writes as Markdown, line by line."""

    def read(data: bytes, name: str) -> Reading:
        reading = _plain(data, name)
        text = write(reading.text)
        return read_front_matter(replace(reading, text=text), first_heading(text, "text/markdown"))

    return read


def read_front_matter(reading: Reading, heading: str = "") -> Reading:
    """Return what was read with the title and metadata of its front matter, if it has some."""
    fields, text = {}, reading.text
    if front := _FRONT_MATTER.match(text):
        fields, rest = _fields(front["fields"]), text[front.end() :]
        heading = first_heading(rest, "text/markdown")
        # Its lines stay to be found, but for what is for programs, and a title that is said again; a mark below them would make the last a heading.
        shown = _DULL.sub("", front["fields"])
        shown = _TITLE.sub("", shown) if fields.get("title") == heading else shown
        text = f"\n{shown}\n{rest}"
    title = fields.pop("title", "") or heading
    return replace(reading, text=write_records(text), title=title, metadata={**fields, **reading.metadata})


def _fields(front_matter: str) -> dict[str, str]:
    longest = 500  # characters; a longer value is text rather than a field
    front_matter = _ITEM.sub(r" \1,", front_matter)
    pairs = ((key.lower(), value.strip().strip("\"',")) for key, value in _FIELD.findall(front_matter))
    return {key: value for key, value in pairs if value.strip("|>+-") and len(value) <= longest}


_TEX_FIELD = re.compile(r"(?m)^[ \t]*\\(title|author|date|chapter|section)\b\*?[ \t]*(?:\[[^\]\n]*\])?\{((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}")  # fmt: skip
_TEX_UNSAID = re.compile(r"(?m)(?<![^\s{}])%.*|(?<!\\)%$|^[ \t]*\\(?:[hc]line|(?:top|c?mid|bottom)rule)\b[^&\n]*$")  # fmt: skip
_TABULAR = re.compile(r"\\begin\{(tabular[x*]?|longtable)\}(?:(?!\\begin\{)[\s\S])*?\\end\{\1\}")
_CELL_END = re.compile(r"(?<!\\)&")
_CELL_MARK = re.compile(r"\\multi(?:column|row)(?:\{[^{}]*\}){2}|\\c(?:midrule|line)\S*|\\\\(?:\[[^\]\\]*\])?|\\(?=[%&#$_])|\\[A-Za-z]+\*?|\\.|[{}~]")  # fmt: skip
_TEX_MARK = re.compile(r"\\(?:thanks|footnote|vspace)\*?\{[^{}]*\}|\\[A-Za-z]+\*?|\\.|[{}~]")


def _tex(data: bytes, name: str) -> Reading:
    """Read LaTeX with its title and date. Of what stands above the document, only they and the authors stay, on their lines."""
    reading = _plain(data, name)
    text, said = _TABULAR.sub(_write_tabular, _TEX_UNSAID.sub("", reading.text)), dict[str, str]()
    at = max(0, text.find("\\begin{document}"))
    shown, seen = list[str](), 0
    for field in _TEX_FIELD.finditer(text):
        said.setdefault(field[1], " ".join(_TEX_MARK.sub(" ", field[2]).split()).lstrip(":,;.- "))
        if field.end() <= at:
            shown += ["\n" * text.count("\n", seen, field.start()), field[0]]
            seen = field.end()
    body = "\n" * text.count("\n", seen, at) + text[at:]
    title = said.get("title") or said.get("chapter") or said.get("section", "")
    return replace(reading, text="".join([*shown, body]), title=title, date=said.get("date", ""))


def _write_tabular(found: re.Match[str]) -> str:
    lines = found[0].split("\n")
    rows = {at: _CELL_END.split(line) for at, line in enumerate(lines) if _CELL_END.search(line)}
    read = [[clean_line(_CELL_MARK.sub(" ", cell)) for cell in cells] for cells in rows.values()]
    records = dict(zip(rows, format_rows(read), strict=True))
    return "\n".join(records.get(at, line) for at, line in enumerate(lines))


def _rst(data: bytes, name: str) -> Reading:
    reading = _plain(data, name)
    return replace(reading, title=_find_field(reading.text) or first_heading(reading.text, "text/x-rst"))


def _find_field(text: str) -> str:
    """Return the title in a head of fields, as a PEP has one; "" for none."""
    head = _FIELDS.match(text)
    found = re.search(r"^Title:[ \t]*(\S[^\n]*)", head[0], re.MULTILINE) if head else None
    return found[1].strip() if found else ""


def _import_later(place: str) -> Callable[[bytes, str], Reading]:
    """Return a reader that is imported at its first file: most folders hold few formats, and their libraries are heavy."""

    def read(data: bytes, name: str) -> Reading:
        reading: Reading = resolve_name(f"{__package__}.readers.{place}")(data, name)
        return reading

    return read


PLAIN = Format("text/plain", _text)
_OFFICE = "application/vnd.openxmlformats-officedocument."
_IMPORTED = (
    (".html .htm .xhtml", "text/html", _import_later("html:read_html"), 200_000),
    (".pdf", "application/pdf", _import_later("pdf:read_pdf"), 0),
    (".docx", f"{_OFFICE}wordprocessingml.document", _import_later("office.docx:read_docx"), 0),
    (".xlsx .xlsm", f"{_OFFICE}spreadsheetml.sheet", _import_later("office.xlsx:read_xlsx"), 0),
    (".pptx", f"{_OFFICE}presentationml.presentation", _import_later("office.pptx:read_pptx"), 0),
    (".odt .ods .odp", "application/vnd.oasis.opendocument", _import_later("archives:read_odf"), 0),
    (".rtf", "application/rtf", _import_later("rtf:read_rtf"), 200_000),
    (".epub", "application/epub+zip", _import_later("archives:read_epub"), 0),
    (".eml", "message/rfc822", _import_later("mail:read_message"), 10_000),
    (".mbox", "application/mbox", _import_later("mail:read_mailbox"), 10_000),
    (".mhtml .mht", "multipart/related", _import_later("mail:read_web_archive"), 10_000),
    (".ipynb", "application/x-ipynb+json", _import_later("notebook:read_notebook"), 200_000),
)
"""Suffixes, media type, reader, and the size from which on it is guarded."""
_MANUAL = Format("text/markdown", _write_markdown(write_manual))
_FORMATS = {
    **{
        each: Format(kind, _plain) for kind, suffixes in read_sections("formats").items() for each in suffixes
    },
    **{
        suffix: Format(kind, read, guarded_from)
        for suffixes, kind, read, guarded_from in _IMPORTED
        for suffix in suffixes.split()
    },
    **dict.fromkeys((".txt", ".text"), PLAIN),
    **dict.fromkeys((".adoc", ".asciidoc"), Format("text/markdown", _write_markdown(write_asciidoc))),
    ".tex": Format("text/x-tex", _tex),
    ".bib": Format("text/markdown", _write_markdown(write_bibtex)),
    ".org": Format("text/markdown", _write_markdown(write_org)),
    **dict.fromkeys((".ics", ".vcf"), Format("text/markdown", _cards)),
    **dict.fromkeys((".vtt", ".srt"), Format("text/vtt", _captions)),
    ".csv": Format("text/csv", _table, guarded_from=5_000_000),
    ".tsv": Format("text/tab-separated-values", _table, guarded_from=5_000_000),
    ".log": Format("text/x-log", _text),
    **dict.fromkeys((".md", ".markdown"), Format("text/markdown", _markdown)),
    ".rst": Format("text/x-rst", _rst),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), Format("application/json", _json)),
}
SUPPORTED_SUFFIXES = tuple(sorted(_FORMATS))  # The suffixes that have a reader, in alphabetical order
