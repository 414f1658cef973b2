"""The form that guards of a protocol net have, for those who check it and those who evaluate it."""

from __future__ import annotations

import math
import re

__all__ = ["split_guard"]

_GUARD = re.compile(r"\s*([A-Za-z_]\w*)\s*(>=|<=|==|>|<)\s*(\S+)\s*", re.ASCII)


def split_guard(text: str) -> tuple[str, str, float] | None:
    """Give metric, comparison and finite threshold of a guard such as ``R_0 > 0.7``; None when it is none."""
    match = _GUARD.fullmatch(text)
    if match is None:
        return None
    try:
        threshold = float(match[3])
    except ValueError:
        return None
    return (match[1], match[2], threshold) if math.isfinite(threshold) else None
