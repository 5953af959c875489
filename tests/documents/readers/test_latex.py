"""LaTeX is read with its title and date, without what only its processor needs, and with each line in its place."""

from pathlib import Path

from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.documents.headings import headings
from leanrag_engine.documents.loading import load

ARTICLE = r"""\documentclass{article}
\usepackage{titlesec}
% \title{Old}
\newcommand{\lamp}{Lamp}
\title[Lamps]{The {\em Morvenna} light\thanks{For
all}: a tale}
\author{Ann Lee}  \author{Bo Moss}
\date{September 2025}
\begin{document}
\maketitle
\begin{abstract} We light it.
\end{abstract}
\section{Oil}
It burns.
\end{document}
"""


def read(text: str, tmp_path: Path) -> LoadedDocument:
    (tmp_path / "ch1.tex").write_text(text)
    return load(DocumentSource(path=str(tmp_path / "ch1.tex")), allowed=None, max_bytes=9_000_000)


def test_title_author_and_date_stay_of_what_precedes_a_document_in_latex(tmp_path: Path) -> None:
    found = read(ARTICLE, tmp_path)
    assert found.title == "The Morvenna light : a tale"
    assert found.date == "2025-09"
    assert found.text.split("\n")[:8] == [
        *[""] * 4,
        r"\title[Lamps]{The {\em Morvenna} light\thanks{For",
        "all}: a tale}",
        r"\author{Ann Lee}",
        r"\date{September 2025}",
    ]
    assert found.text.split("\n")[8:] == ARTICLE.split("\n")[8:]
    assert found.first_line == 1


def test_the_abstract_is_a_section(tmp_path: Path) -> None:
    found = read(ARTICLE, tmp_path)
    assert [(each.level, each.title) for each in headings(found.text, found.media_type)] == [
        (3, "Abstract"),
        (3, "Oil"),
    ]


def test_a_part_of_a_document_in_latex_stays_whole(tmp_path: Path) -> None:
    part = "\\input{preamble}\n\\chapter{Advection}\nIt moves.\n"
    assert read(part, tmp_path).text == part
    title = "\\begin{document}\n\\title{\\this: The Hammer}\nIt falls.\n\\end{document}\n"
    found = read(title, tmp_path)
    assert (found.text, found.title) == (title, "The Hammer")


def test_braces_that_nothing_closes_cost_no_time(tmp_path: Path) -> None:
    text = (
        "\\title{" * 50_000
        + "\n"
        + "\\title{a}{" * 20_000
        + "\n\\title{" * 50_000
        + "x" * 500_000
        + "\n\\title{"
        + "{a}" * 100_000
    )
    assert read(text, tmp_path).text.startswith("\\title{")
