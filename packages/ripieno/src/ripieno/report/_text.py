"""How values read in tables, the same on pages and in terminals."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

__all__ = ["NOTHING", "cell_text", "is_digest", "is_numeric"]

NOTHING = "–"

_NUMBER = re.compile(r"[+\-−]?\d[\d.,]*(e[+-]?\d+)?( ?%)?")
_DIGEST = re.compile(r"[0-9a-f]{40,64}")


def cell_text(value: object) -> str:
    """Give the text of a table cell: four significant digits, ``yes`` and ``no``, a dash for nothing and NaN."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _float_text(value)
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return NOTHING
    if value.is_integer() and abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if 1e3 <= abs(value) < 1e9 else f"{value:.4g}"


def is_numeric(column: Iterable[str]) -> bool:
    """Tell whether a column of texts holds numbers (at least one) and nothing else."""
    texts = [text for text in column if text not in ("", NOTHING)]
    return bool(texts) and all(_NUMBER.fullmatch(text) for text in texts)


def is_digest(text: str) -> bool:
    """Tell whether a text is a hexadecimal digest, to be set in a fixed-width font."""
    return _DIGEST.fullmatch(text) is not None
