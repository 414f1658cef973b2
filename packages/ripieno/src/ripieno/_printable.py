"""Text that a terminal shows and does not obey."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape control characters, which names in a hostile run folder may hold."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
