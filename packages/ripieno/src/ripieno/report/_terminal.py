"""Tables for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ripieno._printable import printable
from ripieno.report._page import Table
from ripieno.report._text import cell_text, is_numeric

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_table"]


def print_table(table: Table, console: Console | None = None) -> None:
    """Print a table; without colours when ``NO_COLOR`` is set or the output is no terminal.

    Args:
        table: caption, headers and rows.
        console: where to print; standard output by default.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    rows = [[printable(cell_text(value)) for value in row] for row in table.rows]
    # Text everywhere: square brackets in values are no markup.
    title = Text(printable(table.caption), style="bold") if table.caption else None
    drawn = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for index, header in enumerate(table.headers):
        numeric = is_numeric(row[index] for row in rows)
        drawn.add_column(Text(printable(header)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*map(Text, row))
    (console or Console()).print(drawn)
