"""Pages of manuals are read as their words, with headings, items and code, each line in its place."""

from pathlib import Path

import pytest

from leanrag_engine.core.errors import FormatUnsupported
from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.documents.loading import expand, load

MAN = r""".\" A comment
.TH "LAMP" "1" "2022\-05\-11" "lamp\-tools" "User Commands"
.ie \n(.g .ds Aq \(aq
.de URL
\fI\\$2\fP <\\$1>\\$3
..
.if \n[.g] \{\
.  mso www.tmac
.\}
.SH NAME
lamp, lantern \- light a \fBlamp\fP
.SH "SEE HOW"
.nh
.B lamp
.RI [ oil... ]
.PP
It\(aqs lit by
.BR "lamp \-\-oil" ,
see
.BR oil (5).
.TP
\fB\-o\fR, \fB\-\-oil\fR=\fIKIND\fR
burn it
.IP \(bu 2
first
.IP second
.ie n \{\
\h'-04'\(bu\h'+03'\c
.\}
.el \{\
.sp -1
.IP \(bu 2.3
.\}
third
.SS Deep
.nf
# no heading
\&.hidden \e
.fi
.URL http://a.example "the site"
"""
MAN_READ = r"""
# lamp(1): light a lamp







## NAME
lamp, lantern - light a lamp
## SEE HOW

lamp
[oil...]

It's lit by
lamp --oil,
see
oil(5).

- -o, --oil=KIND
burn it

- first
- second







- third
### Deep
```
# no heading
.hidden \
```
http://a.example the site
"""
MDOC = r""".Dd May 11, 2022
.Dt LAMP 1
.Os
.Sh NAME
.Nm lamp
.Nd light a lamp
.Sh DESCRIPTION
.Nm
burns, as
.Xr oil 5
says, unless
.Fl D ,
is given.
.Bl -tag
.It Fl o Ar kind
burn it
.El
.Bd -literal
$ lamp
.Ed
"""
MDOC_READ = """
# lamp(1): light a lamp

## NAME
lamp
light a lamp
## DESCRIPTION
lamp
burns, as
oil(5)
says, unless
-D,
is given.

- -o kind
burn it

```
$ lamp
```
"""


def read(text: str, tmp_path: Path, name: str) -> LoadedDocument:
    (tmp_path / name).write_text(text)
    return load(DocumentSource(path=str(tmp_path / name)), allowed=None, max_bytes=9_000_000)


@pytest.mark.parametrize(("text", "shown"), [(MAN, MAN_READ), (MDOC, MDOC_READ)])
def test_a_page_of_a_manual_is_read_line_for_line(text: str, shown: str, tmp_path: Path) -> None:
    found = read(text, tmp_path, "lamp.conf.5")
    assert found.text.rstrip("\n") == shown.rstrip("\n")
    assert found.title == "lamp(1): light a lamp"
    assert found.first_line == 1
    assert found.media_type == "text/markdown"
    assert [file.name for file in expand(str(tmp_path), allowed=None).files] == ["lamp.conf.5"]


def test_a_file_with_such_a_suffix_but_without_its_macros_stays_what_it_is(tmp_path: Path) -> None:
    prose = "The lamp is lit at six, and the keeper of the tower goes to bed.\n.B is no macro here\n" * 4
    assert read(prose, tmp_path, "lamp.1").text == prose
    with pytest.raises(FormatUnsupported):
        read("1 2 3 4\n" * 40, tmp_path, "numbers.2")
    assert read(MAN, tmp_path, "lamp.txt").text.startswith(".\\")


def test_a_page_of_signs_costs_no_time(tmp_path: Path) -> None:
    signs = "".join(f"{mark}{sign * 30_000}\n" for mark in (".B ", ".Fl ", ".SH ", "") for sign in ("\\", '"', "a ", "\\[", "Fl ", "\\h'"))  # fmt: skip
    assert read(f".TH LAMP 1\n{signs}", tmp_path, "lamp.1").title == "lamp(1)"
