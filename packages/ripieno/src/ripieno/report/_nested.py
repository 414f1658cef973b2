"""Nested settings and results as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from ripieno.report._page import Table
from ripieno.report._text import NOTHING, cell_text, is_numeric

__all__ = ["flat", "shortened", "tables_of"]

MAX_VALUE_CHARACTERS = 400
SHORT_FRACTION = 7
MAX_COLUMNS = 8
"""Records with more fields than this are shown as columns, when there are no more records than this."""


def tables_of(value: Mapping[str, object], caption: str) -> list[Table]:
    """Give one table of names and values, and one more for each member that holds records of one shape.

    Records are a mapping or a list of two or more mappings with the same members.
    """
    rows: list[tuple[str, str]] = []
    tables: list[Table] = []
    for name, item in value.items():
        table = _record_table(name, item)
        if table is None:
            rows += flat(item, name)
        else:
            tables.append(table)
    return [Table(("Name", "Value"), rows, caption), *tables] if rows else tables


def flat(value: object, name: str = "") -> list[tuple[str, str]]:
    """Give nested mappings and lists as rows of dotted names and texts."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return [row for key, item in items for row in flat(item, f"{name}.{key}" if name else key)]
    if isinstance(value, list):
        entries = cast("list[object]", value)
        if any(isinstance(entry, Mapping | list) for entry in entries):
            return [row for index, entry in enumerate(entries) for row in flat(entry, f"{name}[{index}]")]
        return [(name, shortened(", ".join(map(_value_text, entries)) or NOTHING, MAX_VALUE_CHARACTERS))]
    return [(name, shortened(_value_text(value), MAX_VALUE_CHARACTERS))]


def shortened(text: str, limit: int) -> str:
    """Cut a text that is longer than ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _record_table(name: str, value: object) -> Table | None:
    records = _records(value)
    fields = list(next(iter(records.values()))) if records else []
    if len(records) < 2 or not fields or any(list(record) != fields for record in records.values()):
        return None
    caption, headers = _words(name), list(map(_words, fields))
    if len(fields) <= MAX_COLUMNS:
        return Table(("", *headers), [(key, *record.values()) for key, record in records.items()], caption)
    if len(records) <= MAX_COLUMNS:
        name_field = _name_field(records) if isinstance(value, list) else None
        names = records if name_field is None else [record[name_field] for record in records.values()]
        rows = [(_words(field), *(r[field] for r in records.values())) for field in fields if field != name_field]
        return Table(("", *names), rows, caption)
    return None


def _name_field(records: Mapping[str, Mapping[str, str]]) -> str | None:
    """The first field whose texts tell the records apart and are no numbers: a better name than a place in a list."""
    for field in next(iter(records.values())):
        texts = [record[field] for record in records.values()]
        if len(set(texts)) == len(texts) and not any(is_numeric([text]) for text in texts):
            return field
    return None


def _words(name: str) -> str:
    """Make a name breakable, so that columns can be narrow."""
    return name.replace("_", " ")


def _value_text(value: object) -> str:
    """Like `cell_text`, but what somebody typed stays as it is: whole numbers (seeds are) and short fractions."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value) and len(repr(value)) <= SHORT_FRACTION:
        return repr(value)
    return cell_text(value)


def _records(value: object) -> dict[str, dict[str, str]]:
    if isinstance(value, Mapping):
        items = list(cast("Mapping[str, object]", value).items())
    elif isinstance(value, list):
        items = [(str(index), item) for index, item in enumerate(cast("list[object]", value))]
    else:
        return {}
    if not all(isinstance(item, Mapping) for _, item in items):
        return {}
    return {key: dict(flat(item)) for key, item in items}
