"""Write AsciiDoc, Org, BibTeX and pages of manuals (roff with the macros man or mdoc) as Markdown, line by line, so that citations name the lines of the file."""

import re
from collections.abc import Iterator, Mapping

MANUAL_HEAD = re.compile(rb"^\.(?:TH|Dt)[ \t]+\S", re.MULTILINE)
_ABOUT = re.compile(r"^(?:\.Nd[ \t]+|[^.'\n][^\n]{0,300}? \\-[ \t]+)(\S[^\n]{0,200})", re.MULTILINE)
_REQUEST = re.compile(r"[.'][ \t]*([A-Za-z]*)(.*)")
_ARGUMENT = re.compile(r'"([^"]*)"?|((?:\\.|[^\s"\\])(?:\\.|[^\s\\])*)')
_ESCAPE = re.compile(
    r"\\(?:\".*|[*nfFmMgk]?(?:\((..)|\[([^\]\n]{0,40})\])|[*nfFmMgk].|[hvwNoSXZDlLbCx]'[^'\n]{0,80}'|s[+-]?\d{1,2}|(.)?)"
)
_SIGNS = {
    "-": "-", "e": "\\", "\\": "\\", " ": " ", "~": " ", "0": " ", "'": "'", "`": "`", ".": ".", "aq": "'", "Aq": "'", "dq": '"',
    "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "bu": "•", "em": "—", "en": "–", "hy": "-", "rs": "\\", "ga": "`", "ha": "^", "ti": "~",
}  # fmt: skip
_HEADINGS = {"SH": "## ", "Sh": "## ", "SS": "### ", "Ss": "### "}
_FENCES = {"nf": True, "EX": True, "Bd": True, "fi": False, "EE": False, "Ed": False}
_FONTS = {"B": " ", "I": " ", "SM": " ", "SB": " ", "UR": " ", "MT": " ", "Nd": " ", "BR": "", "BI": "", "IB": "", "IR": "", "RB": "", "RI": ""}  # fmt: skip
"""The requests that show their words, and what stands between these."""
# A macro of mdoc that shows what follows it in some way.
_MDOC = re.compile(
    r"(?<!\S)(?!It|If|To|We|He|On|Is|As|By|Of|Or|My|Be|Dd|Os|Bl|Sm|Bf)(?:[A-Z][a-z]|Br[coq])(?:\s|$)"
)


def write_manual(text: str) -> str:
    """Return a page of a manual as Markdown: headings, items, code and words; what is for its processor is left out."""
    about, subject = _ABOUT.search(text), re.search(r"^\.Nm[ \t]+([^\s\\]{1,40})", text, re.MULTILINE)
    if subject:
        text = re.sub(r"^\.Nm$", f".Nm {subject[1]}", text, flags=re.MULTILINE)
    return "\n".join(_manual_lines(text, f": {_unescape(about[1])}" if about else ""))


def _manual_lines(text: str, about: str) -> Iterator[str]:
    until = item = ""
    fenced = False
    fonts = dict(_FONTS)
    for line in map(str.rstrip, text.split("\n")):
        name, rest = found.groups() if (found := _REQUEST.match(line)) else ("", "")
        shown = "" if until else _read_request(name, rest, fonts) if found else _unescape(line)
        if until:
            until = "" if until in line else until
        elif name in {"de", "am", "ig"}:
            until = ".."
            fonts.update(dict.fromkeys(rest.split()[:1], " "))
        elif name in {"if", "ie", "el"}:  # n is a terminal
            until = "\\}" if "\\{" in rest and "\\}" not in rest and not rest.startswith(" n ") else ""
        elif name in _FENCES:
            opens = _FENCES[name] and (name != "Bd" or "-literal" in rest or "-unfilled" in rest)
            shown = "```" if opens != fenced else ""
            fenced = opens
        elif name in {"TP", "TQ", "It", "IP"}:
            item = "- " if shown or name != "IP" else ""
        if shown in {"•", "*"} and not fenced:
            item, shown = "- ", ""
        elif shown and item and not fenced:
            item, shown = "", f"{item}{shown}"
        yield shown + about if name in {"TH", "Dt"} else shown


def _read_request(name: str, rest: str, fonts: Mapping[str, str]) -> str:
    """Return the words of a request; of what is for the processor alone, none."""
    words = [_unescape(first or second) for first, second in _ARGUMENT.findall(rest)]
    if name in {"TH", "Dt"} and words:
        return f"# {words[0].lower()}({' '.join(words[1:2])})"
    if name in _HEADINGS and words:
        return _HEADINGS[name] + " ".join(words)
    if name in fonts or name == "IP":
        return fonts.get(name, "").join(words[: 1 if name == "IP" else None])
    if name == "It" or _MDOC.match(name):
        return _write_mdoc(rest if name == "It" else f"{name} {rest.strip()}")
    return ""


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _SIGNS.get(found[1] or found[2] or found[3] or "", ""), text)


def _write_mdoc(line: str) -> str:
    line = re.sub(r"(?<!\S)Fl (?=\S)", "-", re.sub(r"(?<!\S)Xr (\S+) (\d\w*)", r"\1(\2)", _unescape(line)))
    return re.sub(r" ([.,;:)])(?!\S)", r"\1", " ".join(_MDOC.sub("", line).split()))


_ENTRY = re.compile(r":([\w-]+)!?:(?:[ \t]+(.*))?$")
_VERBATIM = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|```.*)$")
_DROPPED = re.compile(
    r"(?:={4,}|\*{4,}|_{4,}|--|[|!]===|\+|\[\[.*\]\]|\[.*\]|//(?!/).*|(?:end)?if\w*::.*|(?:image|include|toc)::.*)$"
)
_SOURCE = re.compile(r"\[(?:source)?,\s*(\w++).*\]$")
_NOTE = re.compile(r"\[(NOTE|TIP|WARNING|IMPORTANT|CAUTION)\]$")
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
            if len(entry[2] or "") <= 500:  # noqa: PLR2004 - lines may name it any number of times
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


_BIB = re.compile(r"(?im)^[ \t]*@(?!comment|preamble|string)\w+[ \t]*[{(]\s*(?P<key>[^\s,{}]+)\s*,|(?<=[,\s])(?!date-|adsurl|adsnote|bdsk-)(?P<name>[a-z][\w-]*)\s*=\s*(?P<value>\{(?:[^{}]++|\{(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+\})*+\}|\"[^\"]*\"|\w+)")  # fmt: skip


def write_bibtex(text: str) -> str:
    """Return BibTeX as a heading for each entry with its key and title, and its fields; what is for programs is left out."""
    parts, head, seen = [""], 0, 0
    for found in _BIB.finditer(text):
        gap = "\n" * text.count("\n", seen, found.start()) or "; " * (seen > 0)
        name, value = (found["name"] or "").lower(), re.sub(r"[{}\"]", "", found["value"] or "")
        if name == "title" and " – " not in parts[head]:  # an entry has one
            parts[head] += f" – {' '.join(value.split())}"
        head = len(parts) if found["key"] else head
        said = f"## {found['key']}" if found["key"] else f"{name}: {' '.join(value.split())}"
        parts += [gap + said, "\n" * found[0].count("\n")]
        seen = found.end()
    return "".join(parts)
