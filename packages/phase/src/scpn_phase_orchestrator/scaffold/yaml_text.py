"""Small pieces of YAML, as a person would write them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import yaml

__all__ = ["flow_list", "plain_scalar"]

WIDTH = 110
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]+")
"""What is never a number, nor one letter that older YAML reads as a truth value."""


def plain_scalar(text: str) -> str:
    """Give a text as YAML: quoted where it would be read as something else.

    Examples:
        >>> plain_scalar("pumps"), plain_scalar("no"), plain_scalar("12")
        ('pumps', '"no"', '"12"')
    """
    is_plain = _WORD.fullmatch(text) is not None and yaml.safe_load(text) == text
    return text if is_plain else json.dumps(text)


def flow_list(key: str, items: Sequence[str], *, indent: int) -> str:
    """Give a mapping entry with a list in brackets, broken before column `WIDTH`.

    Examples:
        >>> flow_list("omegas", ["1", "2"], indent=2)
        '  omegas: [1, 2]'
    """
    pad = " " * indent
    lines, line = [], f"{pad}{key}: ["
    for position, item in enumerate(items):
        part = item + (", " if position < len(items) - 1 else "]")
        if len(line) + len(part.rstrip()) > WIDTH:
            lines.append(line.rstrip())
            line = f"{pad}  "
        line += part
    return "\n".join([*lines, line])
