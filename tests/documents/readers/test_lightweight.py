"""AsciiDoc and Org are read with their headings, code and lists, each line in its place."""

from pathlib import Path

import pytest

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.documents.loading import load

ASCIIDOC = """= Guide to the Lamp
:version: 3.7
// a comment
[[start]]
== Start {version}
.Settings
[source,python]
----
# no heading
----
[NOTE]
====
See <<start,the start>> and https://a.example/x[the page ^,window=_blank].
====
* one
** two
. first
|===
| Name | `+size+`
|===
////
hidden
////
=== Oil"""
ASCIIDOC_READ = """# Guide to the Lamp



## Start 3.7
Settings

```python
# no heading
```
**Note**

See the start and [the page](https://a.example/x).

- one
  - two
1. first

Name   `size`




### Oil"""
ORG = """#+TITLE: Lamp notes
#+AUTHOR: Ann
* Oil
:PROPERTIES:
:ID: 1
:END:
See [[https://a.example][the page]].
** Buy
#+BEGIN_SRC python
* no heading
#+END_SRC"""
ORG_READ = """# Lamp notes

# Oil



See [the page](https://a.example).
## Buy
```python
* no heading
```"""


@pytest.mark.parametrize(
    ("name", "text", "title", "read"),
    [
        ("guide.adoc", ASCIIDOC, "Guide to the Lamp", ASCIIDOC_READ),
        ("notes.org", ORG, "Lamp notes", ORG_READ),
    ],
)
def test_headings_code_lists_and_links_are_read_and_every_line_keeps_its_place(
    tmp_path: Path, name: str, text: str, title: str, read: str
) -> None:
    (tmp_path / name).write_text(text)
    found = load(DocumentSource(path=str(tmp_path / name)), allowed=None, max_bytes=10_000)
    assert (found.title, found.media_type) == (title, "text/markdown")
    assert found.text.split("\n") == read.split("\n")
    assert found.text.count("\n") == text.count("\n")


def test_pages_of_a_plain_text_have_their_numbers_and_no_running_heads(tmp_path: Path) -> None:
    said = [
        "The lamp is lit at dusk.",
        "It burns oil and is\ntrimmed",
        "by the keeper.",
        "Fog is rung in.",
        "The end.",
    ]
    pages = [
        f"RFC 99          The Lamp       May 1996\n\n\n{text}\n\n\nAda        [Page {at}]\n"
        for at, text in enumerate(said, 1)
    ]
    (tmp_path / "rfc99.txt").write_text("\f".join(pages))
    found = load(DocumentSource(path=str(tmp_path / "rfc99.txt")), allowed=None, max_bytes=10_000)
    assert found.text.count("The Lamp") == 1
    assert found.text.count("[Page") <= 1
    assert [page.number for page in found.pages] == [1, 2, 3, 4, 5]
    assert all(text in found.text for text in said)
    assert found.text[found.pages[3].start :].lstrip().startswith("Fog")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NEWS.txt", "Version 1.2\n\n\f\nVersion 1.1\n"),
        ("lamp.py", "import os\n\f\ndef light():\n    return os\n\n\f\ndef snuff():\n    return 1\n"),
        ("changes.txt", "\f".join(["Version 1.2\n" + "* Mended the wick.\n" * 150] * 4)),
        ("editor.txt", "paragraph-separate: [\f]*$\nThe end.\n"),
        ("page.txt", "The lamp is lit.\nIt burns oil.\n\f"),
    ],
)
def test_a_page_break_leaves_the_lines_of_the_file_known(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = load(DocumentSource(path=str(tmp_path / name)), allowed=None, max_bytes=100_000)
    assert found.first_line == 1
    assert found.text.rstrip() == text.replace("[\f]", "[ ]").replace("\f", "").rstrip()
