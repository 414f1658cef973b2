"""Texts and JSON values with places for captured texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

__all__ = ["Template"]

_PLACE = re.compile(r"\$\$\{|\$\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A JSON value in whose strings ``${name}`` stands for a captured text and ``$${`` for ``${`` itself.

    Attributes:
        value: the value, any JSON.
    """

    value: Any

    def fill(self, captured: Mapping[str, str]) -> Any:
        """Give the value with every place filled; filled-in text is never searched for places again."""
        return _fill(self.value, captured)

    def names(self) -> frozenset[str]:
        """Give the names of all places."""
        return frozenset(
            place[1] for text in _strings(self.value) for place in _PLACE.finditer(text) if place[1] is not None
        )


def _fill(value: Any, captured: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _PLACE.sub(lambda place: "${" if place[1] is None else captured[place[1]], value)
    if isinstance(value, Mapping):
        return {key: _fill(item, captured) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_fill(item, captured) for item in cast("list[Any]", value)]
    return value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[Any]", value):
            yield from _strings(item)
