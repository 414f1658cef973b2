"""Whether an answer repeats a key, in whatever spelling."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

__all__ = ["echoes"]

_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_LAYERS = 3
"""How often one spelling may be wrapped in another: JSON in JSON in JSON."""


def echoes(key: str, data: bytes, value: object) -> bool:
    """Tell whether an answer holds a key: as it is, base64, or behind JSON, URL or HTML escapes.

    Args:
        key: the secret.
        data: the bytes of the answer.
        value: the same, parsed; None when it is no JSON.
    """
    wanted = (key, b64encode(key.encode()).decode().rstrip("="))
    texts = [data.decode(errors="replace"), *_strings(value)]
    return any(form in spelling for text in texts for spelling in _spellings(text) for form in wanted)


def _spellings(text: str) -> Iterator[str]:
    yield text
    for decode in (_unescaped, unquote, html.unescape):
        spelling = text
        for _ in range(_LAYERS):
            decoded = decode(spelling)
            if decoded == spelling:
                break
            yield decoded
            spelling = decoded


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda hit: chr(int(hit[1] or hit[2], 16)) if hit[1] or hit[2] else hit[3], text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, Any]", value).items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(item)
