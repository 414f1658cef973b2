"""ML-DSA signatures (FIPS 204): who vouches for a digest.

Keys are PEM files: the private one (PKCS #8, holding the 32-byte seed) is readable by its owner only, the
public one lies beside it. Signatures are randomised, so they stay outside of everything that is hashed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import mldsa

from ripieno.errors import InputError, IntegrityError
from ripieno.files import create_only

__all__ = [
    "Algorithm",
    "PrivateKey",
    "PublicKey",
    "algorithm_of",
    "check_signature",
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
