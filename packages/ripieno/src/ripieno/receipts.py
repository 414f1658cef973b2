"""Sealed objects: a JSON object that carries the hash of the rest of itself.

A seal finds accidents. Whoever changes the object on purpose can compute a new seal, so pin the hash
elsewhere, or sign it (`ripieno.signing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ripieno.canonical import content_hash
from ripieno.errors import InputError, IntegrityError

__all__ = ["SEAL", "check_sealed", "seal"]

SEAL = "receipt_sha256"


def seal(value: Mapping[str, Any]) -> dict[str, Any]:
    """Give a copy with ``receipt_sha256``, the `content_hash` of everything else.

    Raises:
        InputError: the value is sealed already, or JSON cannot say it.
    """
    if SEAL in value:
        raise InputError(f"the value already has the key {SEAL!r}")
    return {**value, SEAL: content_hash(dict(value))}


def check_sealed(value: Mapping[str, Any]) -> None:
    """Check the seal of an object.

    Raises:
        IntegrityError: the seal is missing or does not fit.
    """
    if SEAL not in value:
        raise IntegrityError(f"the seal {SEAL!r} is missing")
    expected = content_hash({key: item for key, item in value.items() if key != SEAL})
    if value[SEAL] != expected:
        raise IntegrityError(f"the seal does not fit: {SEAL} is {value[SEAL]!r:.80}, content is {expected}")
