"""Secrets kept out of events: what looks like one is replaced, whether a key says so or the text shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from agentinputlab.contracts.serialization import to_jsonable

__all__ = ["REDACTED", "redact", "redact_text"]

REDACTED = "<redacted>"
_SECRET_WORDS = frozenset(
    {"authorization", "cookie", "credential", "credentials", "passphrase", "passwd", "password", "secret"}
)
_SECRET_ENDINGS = (("token",), ("apikey",), ("api", "key"), ("access", "key"), ("private", "key"), ("signing", "key"))
"""Last words of a key: ``access_token`` is a secret, ``input_tokens`` and ``token_counter`` are not."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_TEXT = re.compile(
    r"\b(?:bearer\s+\S+|sk-[\w-]{4,}\S*|eyJ[\w-]{4,}\.[\w-]+\.[\w-]*)",  # the last is a JSON web token
    re.IGNORECASE,
)


def redact(value: object) -> Any:
    """Give a value as JSON with everything that looks like a secret replaced by `REDACTED`.

    Raises:
        TypeError: the value holds something that JSON cannot say.
    """
    return _redact(to_jsonable(value))


def redact_text(text: str) -> str:
    """Replace what looks like a bearer token, an ``sk-`` key or a JSON web token."""
    return _SECRET_TEXT.sub(REDACTED, text)


def _redact(value: Any) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {
            redact_text(key): REDACTED if item is not None and _is_secret_key(key) else _redact(item)
            for key, item in cast("Mapping[str, Any]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_redact(item) for item in cast("list[Any]", value)]
    return value


@lru_cache(maxsize=1024)  # the same few names come with every event
def _is_secret_key(key: str) -> bool:
    words = tuple(word.lower() for word in _WORD.findall(key))
    return any(word in _SECRET_WORDS for word in words) or any(
        words[-len(ending) :] == ending for ending in _SECRET_ENDINGS
    )
