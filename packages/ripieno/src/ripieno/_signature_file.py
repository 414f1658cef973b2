"""The detached signature of a run: ``signature.json``, one sealed line of canonical JSON.

    {"algorithm": "ML-DSA-65", "digest": D, "format": "ripieno.signature/1", "key_id": K,
     "receipt_sha256": S, "signature": hex}

The signature covers the ASCII text of the digest, with the format name as context. The seal shows an accident
in the file even to somebody without the key.
"""

from __future__ import annotations

from typing import Any, cast

from ripieno.canonical import canonical_json, parse_canonical
from ripieno.errors import InputError, IntegrityError
from ripieno.receipts import check_sealed, seal
from ripieno.signing import Algorithm, PrivateKey, PublicKey, algorithm_of, check_signature, key_id, sign

FORMAT = "ripieno.signature/1"
MAX_SIGNATURE_FILE_BYTES = 2**16
MEMBERS = {"algorithm", "digest", "format", "key_id", "receipt_sha256", "signature"}


def signature_file(private_key: PrivateKey, digest: str) -> bytes:
    """Sign a digest and give the bytes of the file."""
    public_key = private_key.public_key()
    statement = {
        "format": FORMAT,
        "algorithm": algorithm_of(public_key).value,
        "key_id": key_id(public_key),
        "digest": digest,
        "signature": sign(private_key, digest.encode(), context=FORMAT.encode()).hex(),
    }
    return canonical_json(seal(statement)) + b"\n"


def check_signature_file(data: bytes, digest: str, public_key: PublicKey | None) -> str:
    """Check a signature file, cryptographically when the trusted key is given.

    Returns:
        The key id that the file names.

    Raises:
        IntegrityError: malformed, about another digest, or not signed by the trusted key.
    """
    statement = _parse(data)
    if statement["digest"] != digest:
        raise IntegrityError(f"the signature is about {statement['digest']!r:.80}, this run is {digest}")
    if public_key is not None:
        expected = (algorithm_of(public_key).value, key_id(public_key))
        if (statement["algorithm"], statement["key_id"]) != expected:
            named = f"{statement['algorithm']} key {statement['key_id']}"
            raise IntegrityError(f"the signature is by {named}, the trusted one is {' key '.join(expected)}")
        signature = bytes.fromhex(statement["signature"])
        check_signature(public_key, signature, digest.encode(), context=FORMAT.encode())
    return statement["key_id"]


def _parse(data: bytes) -> dict[str, str]:
    try:
        value: Any = parse_canonical(data.removesuffix(b"\n"), max_bytes=MAX_SIGNATURE_FILE_BYTES)
    except InputError as error:
        raise IntegrityError(f"malformed: {error}") from error
    if not data.endswith(b"\n") or not isinstance(value, dict):
        raise IntegrityError("malformed: not one line with a JSON object")
    members = cast("dict[str, object]", value)
    if set(members) != MEMBERS or not all(isinstance(item, str) for item in members.values()):
        raise IntegrityError(f"malformed: the members must be the texts {', '.join(sorted(MEMBERS))}")
    check_sealed(members)
    statement = cast("dict[str, str]", members)
    if statement["format"] != FORMAT or statement["algorithm"] not in set(Algorithm):
        raise IntegrityError("malformed: unknown format or algorithm")
    n_digits = 2 * Algorithm(statement["algorithm"]).signature_bytes
    text = statement["signature"]
    if len(text) != n_digits or set(text) - set("0123456789abcdef"):
        raise IntegrityError(f"malformed: the signature must be {n_digits} lowercase hex digits")
    return statement
