"""The tables of all evaluation reports."""

from rich.box import SIMPLE_HEAD
from rich.table import Table


def make_table(title: str, *columns: str) -> Table:
    """Return a table without lines between its columns, so that more of them fit into 80 characters."""
    table = Table(
        title=title or None,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table
