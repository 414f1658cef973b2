"""ML-DSA signatures (FIPS 204): who vouches for a digest.

Keys are PEM files: the private one (PKCS #8, holding the 32-byte seed) is readable by its owner only, the
public one lies beside it. Signatures are randomised, so they stay outside of everything that is hashed.

A *detached signature* is a file of one sealed line of canonical JSON beside the thing whose digest it is about:

    {"algorithm": "ML-DSA-65", "digest": D, "format": "ripieno.signature/1", "key_id": K,
     "receipt_sha256": S, "signature": hex}

The signature covers the ASCII text of the digest, with the format name as context. The seal shows an accident
in the file even to somebody without the key.
"""

from __future__ import annotations

import hashlib
import os
import stat
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import mldsa

from ripieno.canonical import canonical_json, parse_canonical
from ripieno.errors import InputError, IntegrityError
from ripieno.files import create_only
from ripieno.receipts import SEAL, check_sealed, seal

__all__ = [
    "MAX_DETACHED_BYTES",
    "Algorithm",
    "PrivateKey",
    "PublicKey",
    "algorithm_of",
    "check_detached_signature",
    "check_signature",
    "detached_signature",
    "generate_key",
    "key_id",
    "load_private_key",
    "load_public_key",
    "sign",
    "write_key_pair",
]

PrivateKey: TypeAlias = mldsa.MLDSA44PrivateKey | mldsa.MLDSA65PrivateKey | mldsa.MLDSA87PrivateKey
PublicKey: TypeAlias = mldsa.MLDSA44PublicKey | mldsa.MLDSA65PublicKey | mldsa.MLDSA87PublicKey

MAX_KEY_FILE_BYTES = 2**16
MAX_DETACHED_BYTES = 2**16
"""Longest detached signature that is read."""

_DETACHED_FORMAT = "ripieno.signature/1"
_DETACHED_MEMBERS = {"algorithm", "digest", "format", "key_id", SEAL, "signature"}


class Algorithm(StrEnum):
    """The parameter sets of FIPS 204, weakest first."""

    ML_DSA_44 = "ML-DSA-44"
    ML_DSA_65 = "ML-DSA-65"
    ML_DSA_87 = "ML-DSA-87"

    @property
    def signature_bytes(self) -> int:
        """Length of a signature (FIPS 204, table 2)."""
        return {"ML-DSA-44": 2420, "ML-DSA-65": 3309, "ML-DSA-87": 4627}[self.value]


_PRIVATE_KINDS: dict[Algorithm, type[PrivateKey]] = {
    Algorithm.ML_DSA_44: mldsa.MLDSA44PrivateKey,
    Algorithm.ML_DSA_65: mldsa.MLDSA65PrivateKey,
    Algorithm.ML_DSA_87: mldsa.MLDSA87PrivateKey,
}
_PUBLIC_KINDS: dict[type, Algorithm] = {
    mldsa.MLDSA44PublicKey: Algorithm.ML_DSA_44,
    mldsa.MLDSA65PublicKey: Algorithm.ML_DSA_65,
    mldsa.MLDSA87PublicKey: Algorithm.ML_DSA_87,
}


def generate_key(algorithm: Algorithm = Algorithm.ML_DSA_65) -> PrivateKey:
    """Make a new private key."""
    return _PRIVATE_KINDS[algorithm].generate()


def algorithm_of(public_key: PublicKey) -> Algorithm:
    """Give the parameter set of a key."""
    return next(algorithm for kind, algorithm in _PUBLIC_KINDS.items() if isinstance(public_key, kind))


def key_id(public_key: PublicKey) -> str:
    """Give the short name of a key: 16 hex digits of the SHA-256 of its SubjectPublicKeyInfo.

    The name helps to find a key; what is trusted is always the key itself.
    """
    der = public_key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()[:16]


def write_key_pair(private_path: Path | str, algorithm: Algorithm = Algorithm.ML_DSA_65) -> tuple[Path, str]:
    """Make a key pair: the private key at the given path (mode 0600), the public one at ``<path>.pub``.

    Returns:
        Path of the public key and the key id.

    Raises:
        InputError: one of the files exists or cannot be written; neither is left behind.
    """
    private_path, public_path = Path(private_path), Path(f"{private_path}.pub")
    private_key = generate_key(algorithm)
    public_key = private_key.public_key()
    private_pem = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_pem = public_key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _create(public_path, public_pem)
    try:
        _create(private_path, private_pem)
    except InputError:
        public_path.unlink()
        raise
    return public_path, key_id(public_key)


def _create(path: Path, data: bytes) -> None:
    try:
        create_only(path, data)
    except OSError as error:
        raise InputError(f"cannot write the key file {path}: {error.strerror}") from error


def load_private_key(path: Path | str) -> PrivateKey:
    """Read a private key, which nobody but its owner may be able to read.

    Raises:
        InputError: cannot be read, open to others, or no ML-DSA private key.
    """
    data = _read_key_file(path, private=True)
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} is not an unencrypted ML-DSA private key in PEM form") from error
    if not isinstance(key, PrivateKey):
        raise InputError(f"{path} must hold an ML-DSA private key, it holds a {type(key).__name__}")
    return key


def load_public_key(path: Path | str) -> PublicKey:
    """Read a public key.

    Raises:
        InputError: cannot be read, or no ML-DSA public key.
    """
    data = _read_key_file(path, private=False)
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} is not an ML-DSA public key in PEM form") from error
    if not isinstance(key, PublicKey):
        raise InputError(f"{path} must hold an ML-DSA public key, it holds a {type(key).__name__}")
    return key


def _read_key_file(path: Path | str, *, private: bool) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor, not a path
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"the key file {path} must be a regular file")
            if private and status.st_mode & 0o077:
                mode = stat.S_IMODE(status.st_mode)
                raise InputError(f"the private key {path} must be closed to others (chmod 600), its mode is {mode:o}")
            return stream.read(MAX_KEY_FILE_BYTES)
    except OSError as error:
        raise InputError(f"cannot read the key file {path}: {error.strerror}") from error


def sign(private_key: PrivateKey, message: bytes, *, context: bytes) -> bytes:
    """Sign a message for one purpose.

    Args:
        private_key: who signs.
        message: what is signed.
        context: the purpose, at most 255 bytes; a signature for one purpose is invalid for every other.
    """
    return private_key.sign(message, context)


def check_signature(public_key: PublicKey, signature: bytes, message: bytes, *, context: bytes) -> None:
    """Check that the owner of the key signed the message for this purpose.

    Raises:
        IntegrityError: they did not.
    """
    try:
        public_key.verify(signature, message, context)
    except InvalidSignature as error:
        raise IntegrityError(f"the signature is not by key {key_id(public_key)} over this content") from error


def detached_signature(private_key: PrivateKey, digest: str) -> bytes:
    """Sign a digest (text, e.g. a hex SHA-256) and give the bytes of the file that says so."""
    public_key = private_key.public_key()
    statement = {
        "format": _DETACHED_FORMAT,
        "algorithm": algorithm_of(public_key).value,
        "key_id": key_id(public_key),
        "digest": digest,
        "signature": sign(private_key, digest.encode(), context=_DETACHED_FORMAT.encode()).hex(),
    }
    return canonical_json(seal(statement)) + b"\n"


def check_detached_signature(data: bytes, digest: str, public_key: PublicKey | None) -> str:
    """Check a detached signature: its form, what it is about and, when the trusted key is given, who made it.

    Returns:
        The key id that the file names; without a trusted key it is a claim, not a proof.

    Raises:
        IntegrityError: malformed, about another digest, or not signed by the trusted key.
    """
    statement = _parse_statement(data)
    if statement["digest"] != digest:
        raise IntegrityError(f"the signature is about {statement['digest']!r:.80}, expected is {digest}")
    if public_key is not None:
        expected = (algorithm_of(public_key).value, key_id(public_key))
        if (statement["algorithm"], statement["key_id"]) != expected:
            named = f"{statement['algorithm']} key {statement['key_id']}"
            raise IntegrityError(f"the signature is by {named}, the trusted one is {' key '.join(expected)}")
        signature = bytes.fromhex(statement["signature"])
        check_signature(public_key, signature, digest.encode(), context=_DETACHED_FORMAT.encode())
    return statement["key_id"]


def _parse_statement(data: bytes) -> dict[str, str]:
    try:
        value: Any = parse_canonical(data.removesuffix(b"\n"), max_bytes=MAX_DETACHED_BYTES)
    except InputError as error:
        raise IntegrityError(f"malformed: {error}") from error
    if not data.endswith(b"\n") or not isinstance(value, dict):
        raise IntegrityError("malformed: not one line with a JSON object")
    members = cast("dict[str, object]", value)
    if set(members) != _DETACHED_MEMBERS or not all(isinstance(item, str) for item in members.values()):
        raise IntegrityError(f"malformed: the members must be the texts {', '.join(sorted(_DETACHED_MEMBERS))}")
    check_sealed(members)
    statement = cast("dict[str, str]", members)
    if statement["format"] != _DETACHED_FORMAT or statement["algorithm"] not in set(Algorithm):
        raise IntegrityError("malformed: unknown format or algorithm")
    n_digits = 2 * Algorithm(statement["algorithm"]).signature_bytes
    text = statement["signature"]
    if len(text) != n_digits or set(text) - set("0123456789abcdef"):
        raise IntegrityError(f"malformed: the signature must be {n_digits} lowercase hex digits")
    return statement
