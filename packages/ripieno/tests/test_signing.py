"""Only the owner of the private key can vouch for a message, and anyone can check it."""

import json
import os
import stat
from pathlib import Path

import mldsa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.asymmetric import mldsa as cryptography_mldsa

from ripieno.errors import InputError, IntegrityError
from ripieno.signing import (
    MAX_DETACHED_BYTES,
    Algorithm,
    algorithm_of,
    check_detached_signature,
    check_signature,
    detached_signature,
    generate_key,
    key_id,
    load_private_key,
    load_public_key,
    sign,
    write_key_pair,
)

CONTEXT = b"test/1"
EVERY_ALGORITHM = pytest.mark.parametrize("algorithm", Algorithm)


@EVERY_ALGORITHM
def test_an_independent_implementation_accepts_our_signatures(algorithm: Algorithm) -> None:
    key = generate_key(algorithm)
    signature = sign(key, b"message", context=CONTEXT)
    assert len(signature) == algorithm.signature_bytes
    other = mldsa.VerificationKey(key.public_key().public_bytes_raw())
    assert other.parameters.name == algorithm.name
    other.verify(signature, b"message", context=CONTEXT)
    with pytest.raises(mldsa.VerificationError):
        other.verify(signature, b"messagE", context=CONTEXT)
    with pytest.raises(mldsa.VerificationError):
        other.verify(signature, b"message", context=b"other")


@EVERY_ALGORITHM
def test_a_signature_holds_for_one_key_one_message_one_purpose(algorithm: Algorithm) -> None:
    key = generate_key(algorithm)
    public = key.public_key()
    assert algorithm_of(public) is algorithm
    signature = sign(key, b"message", context=CONTEXT)
    check_signature(public, signature, b"message", context=CONTEXT)
    flipped = bytes([signature[0] ^ 1]) + signature[1:]
    for wrong in (
        lambda: check_signature(public, signature, b"messagE", context=CONTEXT),
        lambda: check_signature(public, signature, b"message", context=b"other"),
        lambda: check_signature(public, flipped, b"message", context=CONTEXT),
        lambda: check_signature(public, signature[:-1], b"message", context=CONTEXT),
        lambda: check_signature(public, b"", b"message", context=CONTEXT),
        lambda: check_signature(generate_key(algorithm).public_key(), signature, b"message", context=CONTEXT),
    ):
        with pytest.raises(IntegrityError, match="not by key"):
            wrong()


@EVERY_ALGORITHM
def test_a_detached_signature_is_about_one_digest_by_one_key(algorithm: Algorithm) -> None:
    key = generate_key(algorithm)
    public, digest = key.public_key(), "0f" * 32
    data = detached_signature(key, digest)
    assert len(data) <= MAX_DETACHED_BYTES
    assert check_detached_signature(data, digest, public) == key_id(public)
    assert check_detached_signature(data, digest, None) == key_id(public)
    with pytest.raises(IntegrityError, match=f"is about '{digest}', expected is {'0e' * 32}"):
        check_detached_signature(data, "0e" * 32, public)
    with pytest.raises(IntegrityError, match="the trusted one is"):
        check_detached_signature(data, digest, generate_key(algorithm).public_key())
    with pytest.raises(IntegrityError, match="malformed"):
        check_detached_signature(data[:-1], digest, None)
    statement = json.loads(data)
    other = mldsa.VerificationKey(public.public_bytes_raw())
    other.verify(bytes.fromhex(statement["signature"]), digest.encode(), context=b"ripieno.signature/1")


def test_signatures_are_randomised() -> None:
    key = generate_key()
    assert sign(key, b"m", context=CONTEXT) != sign(key, b"m", context=CONTEXT)


@EVERY_ALGORITHM
def test_keys_come_back_from_their_files(algorithm: Algorithm, tmp_path: Path) -> None:
    public_path, name = write_key_pair(tmp_path / "key", algorithm)
    assert public_path == tmp_path / "key.pub"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    public = load_public_key(public_path)
    assert key_id(public) == name
    signature = sign(load_private_key(tmp_path / "key"), b"m", context=CONTEXT)
    check_signature(public, signature, b"m", context=CONTEXT)


def test_the_key_id_is_the_hash_that_openssl_users_can_compute() -> None:
    import hashlib

    public = cryptography_mldsa.MLDSA65PrivateKey.from_seed_bytes(bytes(32)).public_key()
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert key_id(public) == hashlib.sha256(der).hexdigest()[:16]


@pytest.mark.parametrize("existing", ["key", "key.pub"])
def test_existing_keys_are_never_overwritten(existing: str, tmp_path: Path) -> None:
    (tmp_path / existing).write_bytes(b"mine")
    with pytest.raises(InputError, match="cannot write the key file"):
        write_key_pair(tmp_path / "key")
    assert [path.name for path in tmp_path.iterdir()] == [existing]
    assert (tmp_path / existing).read_bytes() == b"mine"


def test_a_private_key_open_to_others_is_refused(tmp_path: Path) -> None:
    write_key_pair(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(InputError, match="its mode is 640"):
        load_private_key(tmp_path / "key")


def foreign_private_key() -> bytes:
    return ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def foreign_public_key() -> bytes:
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not an"),
        (b"\xff\x00", "not an"),
        (foreign_private_key(), "must hold"),
        (b"-----BEGIN PRIVATE KEY-----\n", "not an"),
    ],
)
def test_what_is_no_private_key_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(InputError, match=reason):
        load_private_key(tmp_path / "key")


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "not an"), (foreign_public_key(), "must hold"), (foreign_private_key(), "not an")]
)
def test_what_is_no_public_key_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(InputError, match=reason):
        load_public_key(tmp_path / "key")


def test_missing_keys_folders_and_pipes_are_bad_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, reason in (
        (tmp_path / "absent", "No such file"),
        (tmp_path, "regular file|directory"),
        (tmp_path / "pipe", "regular file"),
    ):
        with pytest.raises(InputError, match=reason):
            load_public_key(path)
        with pytest.raises(InputError, match=reason):
            load_private_key(path)
