"""LaTeX is read with its title, date and tables, without what only its processor needs, and with each line in its place."""

from pathlib import Path

import pytest

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


TABLE = r"""\chapter*{Results} % of 2022
\section{Fluxes}
We took 5\% off. % TODO ask Per
\begin{tabular}{lrr}
\toprule
Site & 2020 & \multicolumn{1}{c}{2021} \\
\midrule \hline
Lindholm & 38.1~(33--44) & {\bf 41} \\
Osterbruch \& Sons & 5\% & 42 \\[2pt] \cmidrule(lr){2-3}
\cline{2-3}
\end{tabular}
So $a &= b$.
"""


@pytest.mark.parametrize("kind", ["tabular", "tabularx", "longtable"])
def test_rows_of_a_table_in_latex_are_records_on_their_lines_without_comments(
    kind: str, tmp_path: Path
) -> None:
    found = read(TABLE.replace("tabular", kind), tmp_path)
    assert found.title == "Results"
    assert found.text.split("\n")[:13] == [
        r"\chapter*{Results} ",
        r"\section{Fluxes}",
        r"We took 5\% off. ",
        f"\\begin{{{kind}}}{{lrr}}",
        "",
        "Table, 2 rows: Site | 2020 | 2021",
        "",
        "Row 1: Site: Lindholm; 2020: 38.1 (33--44); 2021: 41",
        "Row 2: Site: Osterbruch & Sons; 2020: 5 %; 2021: 42",
        "",
        f"\\end{{{kind}}}",
        r"So $a &= b$.",
        "",
    ]
    assert found.first_line == 1


def test_the_first_section_is_the_title_of_a_text_in_latex_without_another(tmp_path: Path) -> None:
    assert read("\\input{a}\n\\section{Wind}\nIt blows.\n", tmp_path).title == "Wind"


def test_tables_of_latex_that_nothing_ends_cost_no_time(tmp_path: Path) -> None:
    text = "\\begin{tabular}{ll} a & b\n" * 50_000 + "%" * 200_000 + "&" * 200_000
    assert read(text, tmp_path).text.startswith("\\begin{tabular}")
