"""Scopes: what an operator allows, bound by checksum. The software drafts them and never enables one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ripieno.errors import IntegrityError
from ripieno.files import sha256_file
from workers.official_arenas._errors import OfficialArenaError
from workers.official_arenas._evidence import Directory, open_private_root, parse_object, read_regular, sha256_bytes
from workers.official_arenas.protocol import OfficialArenaProvider, content_hash, is_sha256

__all__ = [
    "CAPTURE_SCOPE_FIELDS",
    "CAPTURE_SCOPE_PROTOCOL",
    "EXECUTION_SCOPE_FIELDS",
    "EXECUTION_SCOPE_PROTOCOL",
    "PHASE_SPLITS",
    "SCOPE_PATH_ENV",
    "SCOPE_SHA256_ENV",
    "BoundScope",
    "bind_execution_scope",
    "execution_source_hashes",
    "open_ledger_root",
    "require_frozen_config",
    "source_pins",
    "validate_authorizations",
]

CAPTURE_SCOPE_PROTOCOL = "agentinputlab.retail-capture-scope.v1"
EXECUTION_SCOPE_PROTOCOL = "agentinputlab.retail-execution-scope.v1"
SCOPE_PATH_ENV = "AILAB_RETAIL_EXECUTION_SCOPE"
SCOPE_SHA256_ENV = "AILAB_RETAIL_EXECUTION_SCOPE_SHA256"
PHASE_SPLITS: Mapping[str, str] = {"engineering": "train", "formal": "test"}
"""Phase of a scope -> official split that it may use."""
LEDGER_ROOT_MESSAGE = "Retail ledger root must be an existing owned private directory"

_SOURCE_FIELDS = (
    "provider_source_sha256",
    "worker_support_sha256",
    "worker_source_sha256",
    "protocol_source_sha256",
    "provider_helper_sha256",
)
_COMMON_FIELDS = frozenset(
    {
        "schema_version",
        "protocol",
        "source_revision",
        "phase",
        "execution_enabled",
        "output_root",
        "provider_config_sha256",
        "authorizations",
    }
)
CAPTURE_SCOPE_FIELDS = _COMMON_FIELDS | {"provider_config", "source_sha256", "expected_task_ids", "model_slot"}
EXECUTION_SCOPE_FIELDS = _COMMON_FIELDS | {*_SOURCE_FIELDS, "allowed_cell_ids"}

_AUTHORIZATION_NAMES = frozenset({"scope", "environment_models"})
_AUTHORIZATION_FIELDS = frozenset({"source_kind", "thread_id", "message_sha256"})

_HERE = Path(__file__).resolve().parent
_PREFIX = "workers/official_arenas/"
_NAMED = ("retail_capture.py", "retail_driver.py", "driver.py", "protocol.py", "capture_records.py")
_INTERNALS = (
    "_budgets.py",
    "_console.py",
    "_drafts.py",
    "_errors.py",
    "_evidence.py",
    "_first_capture.py",
    "_pair_ledger.py",
    "_pair_play.py",
    "_payloads.py",
    "_reading.py",
    "_rejections.py",
    "_replay_inventory.py",
    "_requests.py",
    "_scopes.py",
    "_snapshot_check.py",
    "_screening.py",
    "_source_files.py",
    "_trace_measurement.py",
    "_usage.py",
)
"""Everything of ours that decides what a capture or a pair does, beside the provider."""


def validate_authorizations(value: object) -> None:
    """Check the references to the human messages that allowed a scope; whether they consent, no software can tell.

    Raises:
        OfficialArenaError: other names or fields, another kind of source, a blank thread, or no digest.
    """
    if not isinstance(value, Mapping) or frozenset(cast("Mapping[str, Any]", value)) != _AUTHORIZATION_NAMES:
        raise OfficialArenaError("Retail human choice references are incomplete")
    for item in cast("Mapping[str, object]", value).values():
        if not isinstance(item, Mapping):
            raise OfficialArenaError("Retail human choice reference is invalid")
        reference = cast("Mapping[str, Any]", item)
        thread = reference.get("thread_id")
        if (
            frozenset(reference) != _AUTHORIZATION_FIELDS
            or reference["source_kind"] != "human_message"
            or not isinstance(thread, str)
            or not thread.strip()
            or not is_sha256(reference["message_sha256"])
        ):
            raise OfficialArenaError("Retail human choice reference is invalid")


def source_pins(provider: OfficialArenaProvider) -> dict[str, str]:
    """Give repository-relative name -> SHA-256 of everything that decides what a capture gives.

    Raises:
        OfficialArenaError: a file is absent or a link.
    """
    files = {_PREFIX + name: _HERE / name for name in (*_NAMED, *_INTERNALS)}
    return _hashes({**files, **provider.source_files()}, "Retail capture source or effective config differs")


def execution_source_hashes(provider: OfficialArenaProvider, entrypoint: str) -> dict[str, str]:
    """Give the five source hashes of an execution scope.

    Four are hashes of single files: of the provider's module, ``driver.py``, ``retail_driver.py`` and
    ``protocol.py``. ``provider_helper_sha256`` covers all the rest that decides an outcome: what the provider
    declares beside its module, and our own private modules; it is the hash of ``{name: sha256}``.

    Raises:
        OfficialArenaError: a file is absent or a link.
    """
    message = "Retail worker source closure differs"
    module = sys.modules[entrypoint.partition(":")[0]]
    main = Path(str(module.__file__))
    named = {"worker_support_sha256": "driver.py", "worker_source_sha256": "retail_driver.py"}
    single = {field: _HERE / name for field, name in (*named.items(), ("protocol_source_sha256", "protocol.py"))}
    rest = {_PREFIX + name: _HERE / name for name in ("capture_records.py", *_INTERNALS)}
    declared = {**provider.helper_files(), **provider.source_files()}
    taken = {main, *single.values()}
    rest.update({name: path for name, path in declared.items() if path.resolve() not in taken})
    return {
        **_hashes({"provider_source_sha256": main, **single}, message),
        "provider_helper_sha256": content_hash(_hashes(rest, message)),
    }


def _hashes(files: Mapping[str, Path], message: str) -> dict[str, str]:
    try:
        return {name: sha256_file(path) for name, path in files.items()}
    except (OSError, IntegrityError) as error:
        raise OfficialArenaError(message) from error


def read_scope(path: Path, message: str) -> bytes:
    """Read a scope file, once.

    Raises:
        OfficialArenaError: with the given message; it is absent, a link or no regular file.
    """
    try:
        return read_regular(path)
    except (OSError, ValueError, OfficialArenaError) as error:
        raise OfficialArenaError(message) from error


def parse_scope(data: bytes, checksum: str, *, fields: frozenset[str], message: str) -> dict[str, Any]:
    """Give a scope whose bytes have the checksum and whose fields are exact.

    Raises:
        OfficialArenaError: with the given message; duplicate keys and broken JSON have their own.
    """
    if sha256_bytes(data) != checksum:
        raise OfficialArenaError(message)
    scope = parse_object(data)
    if frozenset(scope) != fields:
        raise OfficialArenaError(message)
    return scope


def require_enabled(scope: Mapping[str, Any], *, protocol: str, source_revision: str, message: str) -> None:
    """Check that a scope is of this schema, protocol and revision, has a known phase, and is enabled.

    Raises:
        OfficialArenaError: with the given message.
    """
    if (
        type(scope["schema_version"]) is not int
        or scope["schema_version"] != 1
        or scope["protocol"] != protocol
        or scope["source_revision"] != source_revision
        or scope["execution_enabled"] is not True
        or not isinstance(scope["phase"], str)
        or scope["phase"] not in PHASE_SPLITS
    ):
        raise OfficialArenaError(message)


@dataclass(frozen=True, slots=True)
class BoundScope:
    """An execution scope after all checks that do not depend on the pair.

    Attributes:
        scope: its fields.
        sha256: hash of its bytes.
        allowed_cell_ids: cells that may run; None when the list of the scope is invalid.
    """

    scope: Mapping[str, Any]
    sha256: str
    allowed_cell_ids: frozenset[str] | None

    def require_cell(self, cell_id: str) -> None:
        """Check that a cell may run.

        Raises:
            OfficialArenaError: the list is invalid, or does not hold the cell.
        """
        if self.allowed_cell_ids is None:
            raise OfficialArenaError("Retail frozen cell inventory is invalid")
        if cell_id not in self.allowed_cell_ids:
            raise OfficialArenaError("Retail cell is outside its approved frozen inventory")


def bind_execution_scope(
    environment: Mapping[str, str], *, provider: OfficialArenaProvider, entrypoint: str
) -> BoundScope:
    """Read the execution scope that the environment names, once, and check all that holds for every pair.

    Raises:
        OfficialArenaError: no scope is bound, or it was changed, is not enabled, or is of other sources.
    """
    path, checksum = environment.get(SCOPE_PATH_ENV), environment.get(SCOPE_SHA256_ENV)
    if not path or not checksum or not is_sha256(checksum):
        raise OfficialArenaError("Retail requires an explicitly bound execution scope")
    message = "Retail execution scope differs"
    scope = parse_scope(read_scope(Path(path), message), checksum, fields=EXECUTION_SCOPE_FIELDS, message=message)
    require_enabled(
        scope,
        protocol=EXECUTION_SCOPE_PROTOCOL,
        source_revision=provider.source_revision,
        message="Retail execution scope is not enabled or valid",
    )
    validate_authorizations(scope["authorizations"])
    expected = execution_source_hashes(provider, entrypoint)
    if any(scope[name] != digest for name, digest in expected.items()):
        raise OfficialArenaError("Retail worker source closure differs")
    return BoundScope(scope, checksum, _cell_ids(scope["allowed_cell_ids"]))


def _cell_ids(value: object) -> frozenset[str] | None:
    if not isinstance(value, list) or not value:
        return None
    cells = cast("list[object]", value)
    if not all(is_sha256(cell) for cell in cells):
        return None
    unique = frozenset(cast("list[str]", cells))
    return unique if len(unique) == len(cells) else None


def require_frozen_config(scope: BoundScope, config_sha256: str) -> None:
    """Check that the config of a pair is the one that the scope allows.

    Raises:
        OfficialArenaError: it is another one.
    """
    if scope.scope["provider_config_sha256"] != config_sha256:
        raise OfficialArenaError("Retail frozen provider config differs")


def open_ledger_root(scope: Mapping[str, Any], *, durable: bool) -> Directory:
    """Open the ledger root that a scope names.

    Raises:
        OfficialArenaError: it is not an existing owned private directory.
    """
    root = scope["output_root"]
    if not isinstance(root, str) or not root:
        raise OfficialArenaError(LEDGER_ROOT_MESSAGE)
    return open_private_root(Path(root), message=LEDGER_ROOT_MESSAGE, durable=durable)
