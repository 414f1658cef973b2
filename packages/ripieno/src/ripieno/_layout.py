"""What lies in a run folder: names, the manifest's members, and which artifact names are allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import Any, cast

from ripieno._portable import from_portable, require_portable_key
from ripieno.canonical import canonical_json, content_hash, parse_canonical
from ripieno.errors import InputError, IntegrityError
from ripieno.files import open_regular
from ripieno.receipts import check_sealed

FORMAT = "ripieno.run/1"
MANIFEST = "run.json"
EVENTS = "events.jsonl"
SIGNATURE = "signature.json"
PARTIAL = ".partial-"
"""How names of unfinished files begin: ``.partial-7`` is the artifact that line 7 records or would record."""
PARTIAL_MANIFEST = f"{PARTIAL}{MANIFEST}"

MAX_MANIFEST_BYTES = 64 * 2**20
MAX_NAME_BYTES = 255

_SHA256 = re.compile(r"[0-9a-f]{64}")


class RunStatus(StrEnum):
    """What ``run.json`` says about the end of a run."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


OPENING_MEMBERS: dict[str, Any] = {
    "format": str,
    "system": str,
    "kind": str,
    "config": dict,
    "config_sha256": str,
    "seeds": dict,
    "inputs": dict,
    "versions": dict,
    "git": (dict, NoneType),
    "machine": dict,
    "durability": str,
    "started_at": str,
}
"""Fixed when the run starts; their hash is the genesis of the chain of events."""
CLOSING_MEMBERS: dict[str, Any] = {
    "status": str,
    "summary": (dict, NoneType),
    "error": (dict, NoneType),
    "ended_at": str,
}
"""Written by the closing record of the chain and repeated in the final manifest."""
FINAL_MEMBERS: dict[str, Any] = {"artifacts": dict, "events": dict}
"""Added by the final manifest: what the chain amounts to."""


def is_sha256(value: object) -> bool:
    """Tell whether a value is the text of a SHA-256 as we write it."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def opening_hash(manifest: Mapping[str, Any]) -> str:
    """Give the genesis of a run's chain of events: the hash of what is fixed at the start."""
    return content_hash({name: manifest[name] for name in OPENING_MEMBERS})


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Give the only accepted bytes of a manifest.

    Raises:
        InputError: longer than a reader accepts.
    """
    data = canonical_json(dict(manifest)) + b"\n"
    if len(data) > MAX_MANIFEST_BYTES:
        raise InputError(f"{MANIFEST} may be {MAX_MANIFEST_BYTES} bytes long, got {len(data)}: record less in config")
    return data


def read_manifest_bytes(folder: Path) -> bytes:
    """Read ``run.json`` without following a link.

    Raises:
        IntegrityError: no regular file, or too large.
        OSError: missing or unreadable.
    """
    with open_regular(folder / MANIFEST) as stream:
        data = stream.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise IntegrityError(f"{MANIFEST} is longer than {MAX_MANIFEST_BYTES} bytes")
    return data


def parse_manifest(data: bytes) -> dict[str, Any]:
    """Check form, seal and members of a manifest.

    Raises:
        IntegrityError: the first thing that does not hold.
    """
    if not data.endswith(b"\n"):
        raise IntegrityError(f"{MANIFEST} does not end with a line feed (byte {len(data)})")
    try:
        value = parse_canonical(data[:-1], max_bytes=MAX_MANIFEST_BYTES)
    except InputError as error:
        raise IntegrityError(f"{MANIFEST}: {error}") from error
    if not isinstance(value, dict):
        raise IntegrityError(f"{MANIFEST} is not a JSON object")
    manifest = cast("dict[str, Any]", value)
    try:
        check_sealed(manifest)
    except IntegrityError as error:
        raise IntegrityError(f"{MANIFEST}: {error}") from error
    _check_members(manifest)
    return manifest


def _check_members(manifest: dict[str, Any]) -> None:
    members = {**OPENING_MEMBERS, "status": str}
    if manifest.get("status") != RunStatus.RUNNING:
        members |= CLOSING_MEMBERS | FINAL_MEMBERS
    expected = {*members, "receipt_sha256"}
    if set(manifest) != expected:
        wrong = sorted(set(manifest) ^ expected)
        raise IntegrityError(f"{MANIFEST}: members missing or not known: {', '.join(wrong)[:200]}")
    for name, kind in members.items():
        if not isinstance(manifest[name], kind):
            raise IntegrityError(f"{MANIFEST}: {name} has the wrong type")
    if manifest["format"] != FORMAT:
        raise IntegrityError(f"{MANIFEST}: format is {manifest['format']!r:.40}, expected {FORMAT!r}")
    if manifest["status"] not in set(RunStatus):
        raise IntegrityError(f"{MANIFEST}: status is {manifest['status']!r:.40}")
    if manifest["config_sha256"] != content_hash(manifest["config"]):
        raise IntegrityError(f"{MANIFEST}: config_sha256 is not the hash of config")


def readable_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Give a manifest with the user's numbers decoded.

    Raises:
        InputError: an unknown or malformed tag.
        IntegrityError: a member that must be a mapping is the code of a number.
    """
    decoded: dict[str, object] = {}
    for name in ("config", "seeds", "summary"):
        if name in manifest:
            decoded[name] = from_portable(manifest[name])
            if not isinstance(decoded[name], dict | NoneType):
                raise IntegrityError(f"{MANIFEST}: {name} is a number")
    return {**manifest, **decoded}


def check_artifact_name(name: str) -> PurePosixPath:
    """Check the name of an artifact: a relative POSIX path that means the same file everywhere.

    Raises:
        InputError: says what is wrong with the name.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise InputError(f"artifact name must be a relative path without empty, '.' or '..' parts, got {name!r}")
    if any(part.startswith(".") for part in parts):
        raise InputError(f"artifact name must have no part that starts with a dot, got {name!r}")
    if "\\" in name or not name.isprintable():
        raise InputError(f"artifact name must be printable and without backslashes, got {name!r}")
    if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise InputError(f"artifact name has a part longer than {MAX_NAME_BYTES} bytes: {name[:80]!r}...")
    if parts[0].casefold() in (MANIFEST, EVENTS, SIGNATURE):
        raise InputError(f"artifact name {name!r} is reserved")
    require_portable_key("artifact name", name)
    return PurePosixPath(name)
