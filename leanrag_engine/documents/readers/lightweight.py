"""Write AsciiDoc and Org as Markdown, line by line, so that citations name the lines of the file."""

import re
from collections.abc import Iterator

_ENTRY = re.compile(r":([\w-]+)!?:(?:[ \t]+(.*))?$")
_VERBATIM = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|```.*)$")
_DROPPED = re.compile(
    r"(?:={4,}|\*{4,}|_{4,}|--|[|!]===|\+|\[\[.*\]\]|\[.*\]|//(?!/).*|(?:end)?if\w*::.*|(?:image|include|toc)::.*)$"
)
_SOURCE, _NOTE = (
    re.compile(r"\[(?:source)?,\s*(\w+).*\]$"),
    re.compile(r"\[(NOTE|TIP|WARNING|IMPORTANT|CAUTION)\]$"),
)
_TITLE = re.compile(r"(={1,6})[ \t]+(\S.*)$")
_BULLET, _NUMBER = re.compile(r"(\*{1,6}|-)[ \t]+(.*)$"), re.compile(r"(\.{1,6})[ \t]+(.*)$")
_LINK = re.compile(r"(?:link:)?((?:https?|ftp)://[^\s\[\]]{1,500})\[([^\[\]]{0,300})\]")
_INLINE = re.compile(
    r"<<[^<>,\n]{1,200}(?:,([^<>\n]{1,300}))?>>|(?:xref|link):[^\s\[\]]{1,300}\[([^\[\]]{0,300})\]|(?:pass|footnote):\w*\[([^\[\]]{0,300})\]|\[\[[\w.-]{1,200}\]\]"
)


def write_asciidoc(text: str) -> str:
    """Return AsciiDoc as Markdown: headings, blocks of code, lists and links; what is for its processor is left out."""
    return "\n".join(_asciidoc_lines(text))


def _asciidoc_lines(text: str) -> Iterator[str]:
    values: dict[str, str] = {}
    verbatim = language = ""
    in_table = False
    for line in map(str.rstrip, text.split("\n")):
        if verbatim:
            closes = line == verbatim or (verbatim == "```" and line == "```")
            hidden = verbatim[0] == "/"
            verbatim = "" if closes else verbatim
            yield "" if hidden else "```" if closes else line
        elif _VERBATIM.match(line):
            verbatim = "```" if line[0] == "`" else line
            yield "" if line[0] == "/" else line if line[0] == "`" else f"```{language}"
            language = ""
        elif entry := _ENTRY.match(line):
            values[entry[1]] = entry[2] or ""
            yield ""
        elif source := _SOURCE.match(line):
            language = source[1]
            yield ""
        elif note := _NOTE.match(line):
            yield f"**{note[1].title()}**"
        elif _DROPPED.match(line):
            in_table ^= line == "|==="
            yield ""
        elif in_table:
            yield _asciidoc_line(" ".join(line.split("|")).strip(), values)
        else:
            yield _asciidoc_line(line, values)


def _asciidoc_line(line: str, values: dict[str, str]) -> str:
    line = re.sub(r"\{([\w-]+)\}", lambda found: values.get(found[1], found[0]), line)
    line = _LINK.sub(lambda found: f"[{_label(found[2]) or found[1]}]({found[1]})", line)
    line = _INLINE.sub(lambda found: _label(found[1] or found[2] or found[3] or ""), line)
    line = line.replace("`+", "`").replace("+`", "`").removesuffix(" +")
    if title := _TITLE.match(line):
        return f"{'#' * len(title[1])} {title[2]}"
    for mark, item in ((_BULLET, "-"), (_NUMBER, "1.")):
        if found := mark.match(line):
            return f"{'  ' * (len(found[1]) - 1)}{item} {found[2]}"
    return re.sub(r"^\.(?=[^\s.])", "", line)


def _label(text: str) -> str:
    """Return the text of a link without what says how it opens."""
    return re.sub(r"(?:[ \t]*\^\S{0,3})?,window=\w+$|\^$", "", text)


_ORG_TITLE = re.compile(r"#\+title:[ \t]*(.*)$", re.IGNORECASE)
_ORG_BLOCK = re.compile(r"[ \t]*#\+(begin|end)_(?:src|example|quote)\b[ \t]*(\S*)", re.IGNORECASE)
_ORG_DROPPED = re.compile(r"[ \t]*(?:#\+\w+.*|# .*|:[\w@-]+:.*)$")
_ORG_LINK = re.compile(r"\[\[([^\[\]\n]{1,500})\]\[([^\[\]\n]{1,500})\]\]")


def write_org(text: str) -> str:
    """Return Org as Markdown: headings, blocks of code, tables and links; settings and properties are left out."""
    return "\n".join(_org_lines(text))


def _org_lines(text: str) -> Iterator[str]:
    fenced = False
    for line in map(str.rstrip, text.split("\n")):
        if block := _ORG_BLOCK.match(line):
            fenced = block[1].lower() == "begin"
            yield f"```{block[2]}" if fenced else "```"
        elif fenced:
            yield line
        elif title := _ORG_TITLE.match(line):
            yield f"# {title[1]}"
        elif heading := re.match(r"(\*{1,6})[ \t]+(\S.*)$", line):
            yield f"{'#' * len(heading[1])} {heading[2]}"
        elif _ORG_DROPPED.match(line):
            yield ""
        elif re.match(r"[ \t]*\|[-+]+\|$", line):  # below the head of a table
            yield line.replace("+", "|")
        else:
            yield _ORG_LINK.sub(r"[\2](\1)", line)
