"""The page of a cell: what happened, for somebody who has never seen the code.

:func:`render_cell_page` makes one self-contained HTML page of a record, and of nothing else.
"""

from chamber.cell_report.page import render_cell_page

__all__ = ["render_cell_page"]
