"""Checks of single fields that the configs of several arenas share; each message names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from workers.official_arenas.protocol import OfficialArenaError

__all__ = ["is_loopback", "require_positive", "require_whole"]

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def require_whole(values: Mapping[str, Any], name: str, low: int, high: int, where: str = "Retail config") -> None:
    """Require an integer within two bounds; a boolean is none.

    Raises:
        OfficialArenaError: it is missing, of another type or out of bounds.
    """
    if type(values.get(name)) is not int or not low <= values[name] <= high:
        expected = str(low) if low == high else f"{low}..{high}"
        raise OfficialArenaError(f"{where} {name} must be the integer {expected}")


def require_positive(values: Mapping[str, Any], name: str, where: str = "Retail config") -> None:
    """Require a number that is finite and greater than zero.

    Raises:
        OfficialArenaError: it is missing or no such number.
    """
    value = values.get(name)
    if type(value) not in {int, float} or not math.isfinite(cast("float", value)) or cast("float", value) <= 0:
        raise OfficialArenaError(f"{where} {name} must be a positive finite number")


def is_loopback(value: object) -> bool:
    """Tell whether a text is the plain HTTP address of an endpoint on this machine: no user, no query."""
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return False
    plain = parts.username is None and parts.password is None and not parts.query and not parts.fragment
    return parts.scheme in {"http", "https"} and parts.hostname in _LOOPBACK and plain
