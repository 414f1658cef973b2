"""Keys of signed audit records: from the environment, named by a hash, used for HMAC-SHA256.

An HMAC proves who wrote a record only among those who hold no key: whoever can check it can also make it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ripieno.canonical import strict_loads

__all__ = [
    "SIGNATURE_ALGORITHM",
    "AuditSigner",
    "audit_signer",
    "audit_verification_keys",
    "is_production_audit",
    "is_signed_by",
    "key_id_for_secret",
]

SIGNATURE_ALGORITHM = "HMAC-SHA256"
"""How signed records are signed."""

KEY_VARIABLE = "SPO_AUDIT_KEY"
KEYRING_VARIABLE = "SPO_AUDIT_KEYRING"
PRODUCTION_VARIABLES = ("SPO_AUDIT_ENV", "SPO_AUDIT_PROFILE", "SPO_ENV", "SPO_PROFILE")


@dataclass(frozen=True)
class AuditSigner:
    """Signs with one secret.

    Attributes:
        secret: the key; never shown.
        key_id: its public name.
    """

    secret: str = field(repr=False)
    key_id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_id", key_id_for_secret(self.secret))

    def sign(self, material: bytes) -> str:
        """Give the signature of some bytes as lowercase hex."""
        return hmac.digest(self.secret.encode(), material, "sha256").hex()


def key_id_for_secret(secret: str) -> str:
    """Give the public name of a secret: the first 16 hex digits of its SHA-256.

    Examples:
        >>> key_id_for_secret("test-key")
        '62af8704764faf8e'
    """
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def audit_signer() -> AuditSigner | None:
    """Give the signer that ``SPO_AUDIT_KEY`` asks for, ``None`` when it is not set.

    Raises:
        ValueError: the variable is set but empty, or is no text.
    """
    secret = os.environ.get(KEY_VARIABLE)
    return None if secret is None else AuditSigner(_usable_secret(KEY_VARIABLE, secret))


def audit_verification_keys() -> dict[str, str]:
    """Give the secrets that signatures are checked with, by key id; empty when none is configured.

    Raises:
        ValueError: ``SPO_AUDIT_KEY`` or ``SPO_AUDIT_KEYRING`` is set but unusable.
    """
    keys: dict[str, str] = {}
    text = os.environ.get(KEYRING_VARIABLE)
    if text is not None:
        keys.update(_parse_keyring(text))
    signer = audit_signer()
    if signer is not None:
        keys[signer.key_id] = signer.secret
    return keys


def is_production_audit() -> bool:
    """Tell whether the environment says that unsigned logs must not be written."""
    return any(os.environ.get(name, "").strip().lower() == "production" for name in PRODUCTION_VARIABLES)


def is_signed_by(secret: str, material: bytes, signature: str) -> bool:
    """Tell whether a signature fits, in time that does not depend on where it differs."""
    return hmac.compare_digest(AuditSigner(secret).sign(material).encode(), signature.encode(errors="replace"))


def _parse_keyring(text: str) -> Mapping[str, str]:
    if not text.strip():
        raise ValueError(f"{KEYRING_VARIABLE} must not be empty")
    try:
        value: Any = strict_loads(text)
    except ValueError as error:
        raise ValueError(f"{KEYRING_VARIABLE} must be a JSON object: {error}") from error
    if not isinstance(value, dict) or not value:
        raise ValueError(f"{KEYRING_VARIABLE} must be a JSON object of key ids and secrets")
    keys: dict[str, str] = {}
    for key_id, secret in cast("dict[str, object]", value).items():
        if not isinstance(secret, str):
            raise ValueError(f"{KEYRING_VARIABLE}: the secret of {key_id!r} must be a string")  # noqa: TRY004 - documented
        if key_id_for_secret(_usable_secret(f"{KEYRING_VARIABLE}: the secret of {key_id!r}", secret)) != key_id:
            raise ValueError(f"{KEYRING_VARIABLE}: {key_id!r} is not the key id of its secret")
        keys[key_id] = secret
    return keys


def _usable_secret(what: str, secret: str) -> str:
    if not secret:
        raise ValueError(f"{what} must not be empty")
    try:
        secret.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} must be valid UTF-8") from error
    return secret
