"""Look-ups that say what there is when a name is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

__all__ = ["named"]

Thing = TypeVar("Thing")


def named(what: str, table: Mapping[str, Thing], name: str) -> Thing:
    """Give ``table[name]``.

    Raises:
        KeyError: there is no such name; the message lists those that are.
    """
    try:
        return table[name]
    except KeyError:
        raise KeyError(f"there is no {what} {name!r}; there are: {', '.join(table) or 'none'}") from None
