"""HTML pages: what is raised above the line."""

import pytest

from leanrag_engine.documents.readers.html import read_html


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("EUR 0.42<sup>1</sup> a share", "EUR 0.42[1] a share"),
        ("10<sup>6</sup> cells, 10<sup>−3</sup> m<sup>3</sup>", "10^6 cells, 10^−3 m^3"),
        ("x<sup>2</sup>y<sup>2</sup>", "x^2y^2"),
        ("Revenue<sup>2</sup> of 2024<sup>3</sup>", "Revenue[2] of 2024[3]"),
        ('rose by 12<sup><a href="#n2">2</a></sup>', "rose by 12[2]"),
        ('<a href="#n2">12<sup>2</sup></a>', "12[2]"),
        ('the moon<sup class="reference"><a href="#c">[1]</a></sup>', "the moon[1]"),
        ("the 1<sup>st</sup> H<sub>2</sub>O", "the 1st H2O"),
        (
            "<table><tr><th>A<th>B<th>C<tr><td>x<td>0.42<sup>1</sup><td>10<sup>6</sup></table>",
            "Table, 1 row: A | B | C\nRow 1: A: x; B: 0.42[1]; C: 10^6",
        ),
    ],
)  # fmt: skip
def test_raised_figures_of_a_page_belong_to_no_number(page: str, text: str) -> None:
    assert read_html(f"<html><body>{page}</body></html>".encode(), "x.html").text == text
