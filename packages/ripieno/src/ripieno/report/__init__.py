"""Pages and tables for people: self-contained HTML without scripts, deterministic figures, text tables.

Three nouns: a *section* has a heading, plain text, *figures* and *tables*. `render_page` turns sections into one
HTML file that loads nothing; `render_run` writes the page of any run folder; `print_table` is for terminals.
"""

from ripieno.report._figures import FIGURE_STYLE, PALETTE, figure_to_svg, png_to_svg
from ripieno.report._page import Figure, Section, Table, Verdict, render_page
from ripieno.report._run_page import render_run, render_runs
from ripieno.report._terminal import print_table

__all__ = [
    "FIGURE_STYLE",
    "PALETTE",
    "Figure",
    "Section",
    "Table",
    "Verdict",
    "figure_to_svg",
    "png_to_svg",
    "print_table",
    "render_page",
    "render_run",
    "render_runs",
]
