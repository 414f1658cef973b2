"""Verify a run of any system, and sign a run folder.

Formats other than run folders come from installed packages: each entry point of the group
``ripieno.verifiers`` names one `Verifier`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from ripieno._layout import EVENTS, SIGNATURE, is_sha256
from ripieno._run_folder import RunFolderVerifier
from ripieno._verdict import (
    Check,
    SignatureState,
    Verifier,
    VerifyOptions,
    VerifyReport,
    VerifyStatus,
)
from ripieno.chain import is_being_written
from ripieno.errors import InputError, IntegrityError, RipienoError
from ripieno.files import create_only
from ripieno.signing import detached_signature, key_id, load_private_key, load_public_key

__all__ = [
    "VERIFIER_GROUP",
    "Check",
    "RunFolderVerifier",
    "SignatureState",
    "Verifier",
    "VerifyOptions",
    "VerifyReport",
    "VerifyStatus",
    "sign_run",
    "verify",
]

VERIFIER_GROUP = "ripieno.verifiers"


def verify(path: Path | str, *, expect: str | None = None, public_key: Path | None = None) -> VerifyReport:
    """Verify whatever lies at a path.

    Args:
        path: a run folder, or anything that an installed verifier knows.
        expect: digest that it must have, from a place that an attacker could not change.
        public_key: file with the key that must have signed it.

    Returns:
        The report; damage is a verdict, not an exception.

    Raises:
        InputError: ``expect`` is no SHA-256, the key file is no public key, or the reader lacks a permission.
        RipienoError: an installed verifier cannot be loaded, or failed.
    """
    if expect is not None and not is_sha256(expect):
        raise InputError(f"the expected digest must be 64 lowercase hex digits, got {expect!r:.80}")
    options = VerifyOptions(expect, None if public_key is None else load_public_key(public_key))
    path = Path(path)
    try:
        exists = path.exists()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not exists:
        return _not_a_run(path, "there is no such file or folder")
    for verifier in _verifiers():
        try:
            if verifier.recognises(path):
                return _require_what_was_pinned(verifier.verify(path, options), options)
        except (RipienoError, OSError):
            raise
        except Exception as error:  # a defect of an installed package is no verdict on the run
            name = type(verifier).__qualname__
            raise RipienoError(f"the verifier {name} failed: {type(error).__name__}: {error}") from error
    return _not_a_run(path, VerifyStatus.NOT_A_RUN.meaning)


def _verifiers() -> Iterator[Verifier]:
    yield RunFolderVerifier()
    for entry_point in sorted(metadata.entry_points(group=VERIFIER_GROUP), key=lambda entry: entry.name):
        try:
            yield entry_point.load()
        except Exception as error:  # whatever an installed package does when it is imported
            raise RipienoError(f"the verifier {entry_point.name!r} cannot be loaded: {error}") from error


def _not_a_run(path: Path, reason: str) -> VerifyReport:
    return VerifyReport(str(path), "", VerifyStatus.NOT_A_RUN, "", (), f"{path} is no run: {reason}")


def _require_what_was_pinned(report: VerifyReport, options: VerifyOptions) -> VerifyReport:
    """Hold a report that is fine in itself against what the reader trusts beforehand."""
    if not report.ok:
        return report
    rows = list(report.checks)
    if options.expect is not None:
        ok = report.digest == options.expect
        detail = "as pinned" if ok else f"the digest is {report.digest}, expected is {options.expect}"
        rows.append(Check("pinned digest", ok, detail))
    if options.public_key is not None and report.signature is not SignatureState.VALID:
        wanted = key_id(options.public_key)
        rows.append(Check("trusted key", ok=False, detail=f"a signature by key {wanted} is required, there is none"))
    problem = next((row.detail for row in rows if not row.ok), "")
    status = VerifyStatus.TAMPERED if problem else report.status
    return replace(report, status=status, checks=tuple(rows), first_problem=problem)


def sign_run(folder: Path | str, private_key: Path | str) -> Path:
    """Verify a run folder and put a detached signature over its digest into it.

    Returns:
        The signature file.

    Raises:
        InputError: no run folder, still being written, signed already, or no usable private key.
        IntegrityError: the run does not verify; nothing was signed.
    """
    folder = Path(folder)
    key = load_private_key(private_key)
    if not RunFolderVerifier().recognises(folder):
        raise InputError(f"{folder} is no run folder")
    path = folder / SIGNATURE
    with suppress(OSError, IntegrityError):  # `verify` says what is wrong with the file
        if is_being_written(folder / EVENTS):
            raise InputError(f"{folder} is still being written; a signature now would not fit its end")
    report = verify(folder)
    if not report.ok:
        raise IntegrityError(f"{folder} does not verify: {report.first_problem}")
    try:
        create_only(path, detached_signature(key, report.digest))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    return path
