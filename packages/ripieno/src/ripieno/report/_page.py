"""One self-contained HTML page from sections; it runs no script and loads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal

from ripieno.errors import InputError
from ripieno.report._figures import with_unique_ids
from ripieno.report._text import cell_text, is_digest, is_numeric

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Figure", "Section", "Table", "Verdict", "render_page"]


@dataclass(frozen=True)
class Figure:
    """A picture with its words.

    Attributes:
        svg: one ``<svg>`` element, e.g. from `figure_to_svg`.
        caption: what the reader should see in it.
        alt: what somebody who cannot see it should know.
    """

    svg: str
    caption: str
    alt: str

    def __post_init__(self) -> None:
        if not self.svg.lstrip().startswith("<svg"):
            raise InputError(f"svg must be one <svg> element, got {self.svg[:40]!r}")
        if not self.alt.strip():
            raise InputError(f"alt must describe the figure {self.caption!r}, it is empty")


@dataclass(frozen=True)
class Table:
    """Rows under headers; see `ripieno.report` for how values read.

    Attributes:
        headers: one text per column.
        rows: one value per column each.
        caption: what the table shows.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.headers):
                raise InputError(
                    f"row {number} of table {self.caption!r} has {len(row)} cells, expected {len(self.headers)}"
                )


@dataclass(frozen=True)
class Section:
    """A part of a page: heading, paragraphs (separated by blank lines), figures, tables."""

    heading: str
    text: str = ""
    figures: Sequence[Figure] = field(default=())
    tables: Sequence[Table] = field(default=())


@dataclass(frozen=True)
class Verdict:
    """What a page says before anything else.

    Attributes:
        tone: ``good``, ``warning`` or ``bad``.
        word: one word or two.
        text: one sentence.
    """

    tone: Literal["good", "warning", "bad"]
    word: str
    text: str


def render_page(
    *, title: str, lead: str, sections: Sequence[Section], footer: str = "", verdict: Verdict | None = None
) -> str:
    """Give a complete HTML page; every text is escaped, every resource is inside.

    Args:
        title: of the page and of the browser tab.
        lead: one or two sentences under the title.
        sections: in reading order; four or more get a list of contents.
        footer: small print.
        verdict: what the page says before anything else.
    """
    numbers = {"figure": 0, "table": 0}
    views = [_section_view(section, f"s{index}", numbers) for index, section in enumerate(sections, start=1)]
    template = _environment().get_template("page.html.j2")
    return template.render(title=title, lead=lead, sections=views, footer=footer, verdict=verdict)


def _section_view(section: Section, identifier: str, numbers: dict[str, int]) -> Mapping[str, object]:
    return {
        "id": identifier,
        "heading": section.heading,
        "paragraphs": [part.strip() for part in re.split(r"\n\s*\n", section.text) if part.strip()],
        "figures": [_figure_view(figure, numbers) for figure in section.figures],
        "tables": [_table_view(table, numbers) for table in section.tables],
    }


def _figure_view(figure: Figure, numbers: dict[str, int]) -> Mapping[str, object]:
    from markupsafe import Markup

    numbers["figure"] += 1
    prefix = f"f{numbers['figure']}-"
    # The only text of the page that is not escaped: it must be SVG, and the page's policy lets it run and load nothing.
    svg = Markup(with_unique_ids(figure.svg, prefix))  # noqa: S704 - explained above
    return {"number": numbers["figure"], "svg": svg, "caption": figure.caption, "alt": figure.alt}


def _table_view(table: Table, numbers: dict[str, int]) -> Mapping[str, object]:
    numbers["table"] += 1
    rows = [[cell_text(value) for value in row] for row in table.rows]
    numeric = [is_numeric(row[column] for row in rows) for column in range(len(table.headers))]
    return {
        "number": numbers["table"],
        "caption": table.caption,
        "headers": list(zip(table.headers, numeric, strict=True)),
        "rows": [
            [
                {"text": text, "class": "number" if is_number else "digest" if is_digest(text) else ""}
                for text, is_number in zip(row, numeric, strict=True)
            ]
            for row in rows
        ],
    }


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("ripieno"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
