"""Review records of how node updates of a federated learner would travel: envelopes, replay ledger, preflight.

Nothing is sent here. Node updates become a chain of envelopes per node; replaying a batch recomputes every
identifier; a preflight says whether a declared transport may be reviewed for deployment. All hashes are the
SHA-256 of compact sorted JSON in which every number is written as a float (profile ``ascii-floats``).

The field ``envelope_signature`` is a digest without a key: whoever changes a record can compute a new one. Use
`scpn_phase_orchestrator.supervisor.federated_attestation` to vouch for a batch with a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ripieno.canonical import ASCII_FLOATS
from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.supervisor._review_fields import (
    boolean,
    finite_number,
    hex_digest,
    integer,
    named_numbers,
    non_empty_text,
)

__all__ = [
    "GENESIS_HASH",
    "SCHEMA_NAME",
    "SCHEMA_VERSION",
    "FederatedTransportEnvelope",
    "FederatedTransportReplayLedger",
    "TransportDeploymentPreflightManifest",
    "build_signed_transport_envelopes",
    "build_transport_deployment_preflight_manifest",
    "replay_federated_transport_batch",
    "validate_federated_transport_batch",
    "validate_transport_deployment_preflight_manifest",
]

SCHEMA_NAME = "federated_transport_envelope"
SCHEMA_VERSION = "0.1.0"
GENESIS_HASH = "0" * 64
"""Parent of the first envelope of every node."""

NODE_UPDATE_KEYS = (
    "node_id",
    "policy_delta",
    "sample_count",
    "local_loss",
    "previous_audit_hash",
    "privacy_epsilon_spent",
    "clipped_l2_norm",
    "clip_scale",
    "accepted",
    "rejection_reasons",
    "update_hash",
)
"""The keys of a node update: these, all of them, and no other."""

LIVE_TRANSPORTS = ("rest", "grpc", "kafka")
TRANSPORTS = ("jsonl", *LIVE_TRANSPORTS)
DECLARATION_KEYS = (
    "transport",
    "endpoint",
    "owner",
    "auth_policy",
    "tls",
    "secure_channel",
    "replay_supported",
    "local_path_evidence",
    "operator_approved",
)
"""What a transport declaration may say."""

_RAW_DATA_MARKS = ("raw_data", "raw_time_series", "raw_data_series")


@dataclass(frozen=True)
class FederatedTransportEnvelope:
    """One node update with its place in the batch and in the chain of its node.

    Attributes:
        schema_name: always `SCHEMA_NAME`.
        schema_version: always `SCHEMA_VERSION`.
        batch_id: hash (or name) of the batch.
        sequence_position: place in the batch, from 1.
        node_id: who sent the update.
        node_sequence: place among the updates of this node, from 1.
        parent_envelope_hash: ``envelope_hash`` of the node's envelope before, or 64 zeros.
        node_update_hash: ``update_hash`` of the record.
        node_update_record: the record as ordered pairs of key and value.
        envelope_id: hash of the place.
        envelope_signature: hash of place, record and flags; it has no key.
        envelope_hash: hash of identifier and signature.
        transport_execution_permitted: always ``False``.
        raw_data_export_permitted: always ``False``.
        operator_review_required: always ``True``.
    """

    schema_name: str
    schema_version: str
    batch_id: str
    sequence_position: int
    node_id: str
    node_sequence: int
    parent_envelope_hash: str
    node_update_hash: str
    node_update_record: tuple[tuple[str, Any], ...]
    envelope_id: str
    envelope_signature: str
    envelope_hash: str
    transport_execution_permitted: bool = False
    raw_data_export_permitted: bool = False
    operator_review_required: bool = True

    def to_audit_record(self) -> dict[str, Any]:
        """Give the envelope as JSON values; the update record stays a list of pairs."""
        return {
            **self.__dict__,
            "node_update_record": [[key, value] for key, value in self.node_update_record],
        }


@dataclass(frozen=True)
class FederatedTransportReplayLedger:
    """What a batch amounts to once every envelope was derived again.

    Attributes:
        schema_name: always `SCHEMA_NAME`.
        schema_version: always `SCHEMA_VERSION`.
        batch_id: the batch.
        envelope_count: number of envelopes.
        envelope_ids: their identifiers, in order.
        node_last_sequences: pairs of node and number of its envelopes, sorted by node.
        replay_hash: hash over all envelopes.
    """

    schema_name: str
    schema_version: str
    batch_id: str
    envelope_count: int
    envelope_ids: tuple[str, ...]
    node_last_sequences: tuple[tuple[str, int], ...]
    replay_hash: str

    def to_audit_record(self) -> dict[str, Any]:
        """Give the ledger as JSON values."""
        return {
            **self.__dict__,
            "envelope_ids": list(self.envelope_ids),
            "node_last_sequences": [list(pair) for pair in self.node_last_sequences],
        }


def require_schema(schema_name: str, schema_version: str) -> None:
    """Accept the one schema there is.

    Raises:
        ValidationError: another name or version.
    """
    if schema_name != SCHEMA_NAME:
        raise ValidationError(f"schema_name must be {SCHEMA_NAME!r}, got {schema_name!r}")
    if schema_version != SCHEMA_VERSION:
        raise ValidationError(f"schema_version must be {SCHEMA_VERSION!r}, got {schema_version!r}")


def _refuse_raw_data(value: object) -> None:
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            if isinstance(key, str) and any(mark in key.lower() for mark in _RAW_DATA_MARKS):
                raise ValidationError("raw time-series content is not permitted in transport records")
            _refuse_raw_data(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            _refuse_raw_data(item)


def _rejection_reasons(value: object) -> list[str]:
    if not isinstance(value, list | tuple):
        raise ValidationError(f"rejection_reasons must be a list of strings, got {value!r:.80}")
    return [non_empty_text(item, "rejection_reasons[]") for item in cast("Sequence[object]", value)]


def checked_node_update(record: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Check a node update and give it as pairs in the order of `NODE_UPDATE_KEYS`.

    Raises:
        ValidationError: raw data, a missing or unknown key, or a value of the wrong kind.
    """
    if not isinstance(record, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError(f"a node update must be a mapping, got {type(record).__name__}")
    _refuse_raw_data(record)
    missing = [key for key in NODE_UPDATE_KEYS if key not in record]
    unknown = sorted(str(key) for key in record if key not in NODE_UPDATE_KEYS)
    if missing or unknown:
        parts = ([f"missing {missing}"] if missing else []) + ([f"unknown {unknown}"] if unknown else [])
        raise ValidationError(f"a node update must have exactly the documented keys: {'; '.join(parts)}")
    checked: dict[str, Any] = {
        "node_id": non_empty_text(record["node_id"], "node_id"),
        "policy_delta": named_numbers(record["policy_delta"], "policy_delta"),
        "sample_count": integer(record["sample_count"], "sample_count"),
        "previous_audit_hash": hex_digest(record["previous_audit_hash"], "previous_audit_hash"),
        "accepted": boolean(record["accepted"], "accepted"),
        "rejection_reasons": _rejection_reasons(record["rejection_reasons"]),
        "update_hash": hex_digest(record["update_hash"], "update_hash"),
    }
    for key in ("local_loss", "privacy_epsilon_spent", "clipped_l2_norm", "clip_scale"):
        checked[key] = finite_number(record[key], key)
    return tuple((key, checked[key]) for key in NODE_UPDATE_KEYS)


def _envelope(
    batch_id: str, position: int, sequence: int, parent: str, record: tuple[tuple[str, Any], ...]
) -> FederatedTransportEnvelope:
    values = dict(record)
    place = {
        "schema_name": SCHEMA_NAME,
        "schema_version": SCHEMA_VERSION,
        "batch_id": batch_id,
        "sequence_position": position,
        "node_id": values["node_id"],
        "node_sequence": sequence,
        "parent_hash": parent,
        "node_update_hash": values["update_hash"],
    }
    envelope_id = ASCII_FLOATS.hash(place)
    signature = ASCII_FLOATS.hash(
        {
            **place,
            "node_update_record": [list(pair) for pair in record],
            "transport_execution_permitted": False,
            "raw_data_export_permitted": False,
            "operator_review_required": True,
        }
    )
    return FederatedTransportEnvelope(
        schema_name=SCHEMA_NAME,
        schema_version=SCHEMA_VERSION,
        batch_id=batch_id,
        sequence_position=position,
        node_id=values["node_id"],
        node_sequence=sequence,
        parent_envelope_hash=parent,
        node_update_hash=values["update_hash"],
        node_update_record=record,
        envelope_id=envelope_id,
        envelope_signature=signature,
        envelope_hash=ASCII_FLOATS.hash({"envelope_id": envelope_id, "envelope_signature": signature}),
    )


def build_signed_transport_envelopes(
    records: Sequence[Mapping[str, Any]],
    *,
    schema_name: str = SCHEMA_NAME,
    schema_version: str = SCHEMA_VERSION,
    batch_id: str | None = None,
) -> tuple[FederatedTransportEnvelope, ...]:
    """Chain node updates into envelopes, one chain per node.

    Args:
        records: node updates with exactly the keys of `NODE_UPDATE_KEYS`, in the order of the batch.
        schema_name: only `SCHEMA_NAME` is known.
        schema_version: only `SCHEMA_VERSION` is known.
        batch_id: a name for the batch; by default the hash of schema and update hashes.

    Raises:
        ValidationError: no record, or one that is not allowed; the message names the key.
    """
    require_schema(schema_name, schema_version)
    checked = [checked_node_update(record) for record in records]
    if not checked:
        raise ValidationError("records must be non-empty")
    if batch_id is None:
        hashes = [dict(record)["update_hash"] for record in checked]
        batch_id = ASCII_FLOATS.hash({"schema_name": schema_name, "schema_version": schema_version, "records": hashes})
    non_empty_text(batch_id, "batch_id")
    last: dict[str, FederatedTransportEnvelope] = {}
    envelopes: list[FederatedTransportEnvelope] = []
    for position, record in enumerate(checked, start=1):
        node_id = dict(record)["node_id"]
        before = last.get(node_id)
        sequence, parent = (1, GENESIS_HASH) if before is None else (before.node_sequence + 1, before.envelope_hash)
        last[node_id] = _envelope(batch_id, position, sequence, parent, record)
        envelopes.append(last[node_id])
    return tuple(envelopes)


def validate_federated_transport_batch(envelopes: Sequence[FederatedTransportEnvelope]) -> None:
    """Derive every envelope of a batch again and compare.

    Raises:
        ValidationError: empty, mixed batches, a gap, a duplicate, a changed flag, or a parent, sequence, signature or
            hash that does not follow; the message names the envelope.
    """
    if not envelopes:
        raise ValidationError("envelopes must be non-empty")
    batch_id = envelopes[0].batch_id
    identifiers: set[str] = set()
    for position, envelope in enumerate(envelopes, start=1):
        place = f"envelope {position}"
        require_schema(envelope.schema_name, envelope.schema_version)
        if envelope.batch_id != batch_id:
            raise ValidationError(f"{place} belongs to batch {envelope.batch_id!r}, the first one to {batch_id!r}")
        if envelope.sequence_position != position:
            raise ValidationError(f"{place} must have sequence_position {position}, got {envelope.sequence_position!r}")
        if envelope.envelope_id in identifiers:
            raise ValidationError(f"{place} repeats the envelope_id {envelope.envelope_id}")
        identifiers.add(envelope.envelope_id)
    records = [dict(envelope.node_update_record) for envelope in envelopes]
    derived = build_signed_transport_envelopes(records, batch_id=batch_id)
    for position, (envelope, expected) in enumerate(zip(envelopes, derived, strict=True), start=1):
        found, wanted = envelope.to_audit_record(), expected.to_audit_record()
        for field, value in wanted.items():
            if found[field] != value or type(found[field]) is not type(value):
                raise ValidationError(f"envelope {position}: {field} does not follow: {found[field]!r:.100}")


def replay_federated_transport_batch(
    envelopes: Sequence[FederatedTransportEnvelope],
) -> FederatedTransportReplayLedger:
    """Validate a batch and sum it up.

    Raises:
        ValidationError: as `validate_federated_transport_batch`.
    """
    validate_federated_transport_batch(envelopes)
    batch_id = envelopes[0].batch_id
    last = {envelope.node_id: envelope.node_sequence for envelope in envelopes}
    return FederatedTransportReplayLedger(
        schema_name=SCHEMA_NAME,
        schema_version=SCHEMA_VERSION,
        batch_id=batch_id,
        envelope_count=len(envelopes),
        envelope_ids=tuple(envelope.envelope_id for envelope in envelopes),
        node_last_sequences=tuple(sorted(last.items())),
        replay_hash=ASCII_FLOATS.hash(
            {
                "schema_name": SCHEMA_NAME,
                "schema_version": SCHEMA_VERSION,
                "batch_id": batch_id,
                "envelopes": [envelope.to_audit_record() for envelope in envelopes],
            }
        ),
    )


@dataclass(frozen=True)
class TransportDeploymentPreflightManifest:
    """Whether a declared transport may be reviewed for carrying a batch. It permits nothing.

    Attributes:
        schema_name: always `SCHEMA_NAME`.
        schema_version: always `SCHEMA_VERSION`.
        batch_id: the replayed batch.
        transport: one of `TRANSPORTS`.
        transport_endpoint: where it would go.
        transport_audit_record: ordered pairs of what was declared.
        replay_ledger_hash: ``replay_hash`` of the ledger.
        transport_audit_hash: hash of declaration and ledger.
        preflight_id: hash of batch, declaration, ledger and endpoint.
        preflight_signature: hash of everything and the flags; it has no key.
        preflight_hash: hash of identifier, signature and audit hash.
        transport_execution_permitted: always ``False``.
        raw_data_export_permitted: always ``False``.
        operator_review_required: always ``True``.
        non_actuating: always ``True``.
    """

    schema_name: str
    schema_version: str
    batch_id: str
    transport: str
    transport_endpoint: str
    transport_audit_record: tuple[tuple[str, Any], ...]
    replay_ledger_hash: str
    transport_audit_hash: str
    preflight_id: str
    preflight_signature: str
    preflight_hash: str
    transport_execution_permitted: bool = False
    raw_data_export_permitted: bool = False
    operator_review_required: bool = True
    non_actuating: bool = True

    def to_audit_record(self) -> dict[str, Any]:
        """Give the manifest as JSON values."""
        return {**self.__dict__, "transport_audit_record": [list(pair) for pair in self.transport_audit_record]}


def _secure_channel(declaration: Mapping[str, Any]) -> bool:
    given = [boolean(declaration[key], key) for key in ("tls", "secure_channel") if key in declaration]
    if len(set(given)) > 1:
        raise ValidationError("tls and secure_channel must agree when both are given")
    return bool(given and given[0])


def _optional_boolean(declaration: Mapping[str, Any], key: str) -> bool:
    return boolean(declaration[key], key) if key in declaration else False


def _live_declaration(declaration: Mapping[str, Any]) -> dict[str, Any]:
    owner = non_empty_text(declaration.get("owner"), "owner")
    auth_policy = non_empty_text(declaration.get("auth_policy"), "auth_policy")
    if not _optional_boolean(declaration, "operator_approved"):
        raise ValidationError("operator approval is required for live transport")
    if not _optional_boolean(declaration, "replay_supported"):
        raise ValidationError("replay support must be true for live transport")
    if not _secure_channel(declaration):
        raise ValidationError("live transport must use TLS or secure_channel")
    return {
        "owner": owner,
        "auth_policy": auth_policy,
        "secure_channel": True,
        "replay_supported": True,
        "operator_approved": True,
        "local_path_evidence": "",
    }


def _file_declaration(declaration: Mapping[str, Any]) -> dict[str, Any]:
    for key in ("owner", "auth_policy"):
        if declaration.get(key) not in (None, ""):
            raise ValidationError(f"{key} is not allowed for jsonl transport, which stays on this machine")
    if _secure_channel(declaration):
        raise ValidationError("TLS and secure_channel are not allowed for jsonl transport, which stays on this machine")
    if not _optional_boolean(declaration, "replay_supported"):
        raise ValidationError("jsonl transport must declare replay support")
    return {
        "owner": "",
        "auth_policy": "",
        "secure_channel": False,
        "replay_supported": True,
        "operator_approved": _optional_boolean(declaration, "operator_approved"),
        "local_path_evidence": non_empty_text(declaration.get("local_path_evidence"), "local_path_evidence"),
    }


def build_transport_deployment_preflight_manifest(
    declaration: Mapping[str, Any],
    *,
    replay_ledger: FederatedTransportReplayLedger,
    schema_name: str = SCHEMA_NAME,
    schema_version: str = SCHEMA_VERSION,
) -> TransportDeploymentPreflightManifest:
    """Check the declaration of a transport for a replayed batch.

    A live transport (``rest``, ``grpc``, ``kafka``) needs an owner, an authentication policy, the operator's
    approval, replay support and a secure channel, asked for in this order. A file (``jsonl``) needs replay support
    and the evidence of its path, and has none of the others.

    Args:
        declaration: with keys of `DECLARATION_KEYS` only.
        replay_ledger: from `replay_federated_transport_batch`.
        schema_name: only `SCHEMA_NAME` is known.
        schema_version: only `SCHEMA_VERSION` is known.

    Raises:
        ValidationError: what is declared may not be reviewed; the message names the rule.
        TypeError: the ledger is no ledger.
    """
    require_schema(schema_name, schema_version)
    if not isinstance(replay_ledger, FederatedTransportReplayLedger):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"replay_ledger must be a FederatedTransportReplayLedger, got {type(replay_ledger).__name__}")
    require_schema(replay_ledger.schema_name, replay_ledger.schema_version)
    hex_digest(replay_ledger.replay_hash, "replay_hash")
    unknown = sorted(str(key) for key in declaration if key not in DECLARATION_KEYS)
    if unknown:
        raise ValidationError(f"unknown declaration keys {unknown}; known are {list(DECLARATION_KEYS)}")
    transport = non_empty_text(declaration.get("transport"), "transport").strip().lower()
    if transport not in TRANSPORTS:
        raise ValidationError(f"transport must be one of {', '.join(TRANSPORTS)}, got {declaration.get('transport')!r}")
    endpoint = non_empty_text(declaration.get("endpoint"), "endpoint")
    declared = _live_declaration(declaration) if transport in LIVE_TRANSPORTS else _file_declaration(declaration)
    manifest = _preflight_manifest(
        replay_ledger.batch_id,
        replay_ledger.replay_hash,
        tuple({"transport": transport, "endpoint": endpoint, **declared}.items()),
    )
    validate_transport_deployment_preflight_manifest(manifest)
    return manifest


def _preflight_manifest(
    batch_id: str, replay_ledger_hash: str, audit_record: tuple[tuple[str, Any], ...]
) -> TransportDeploymentPreflightManifest:
    pairs = [list(pair) for pair in audit_record]
    values = dict(audit_record)
    schema: dict[str, Any] = {"schema_name": SCHEMA_NAME, "schema_version": SCHEMA_VERSION, "batch_id": batch_id}
    audit_hash = ASCII_FLOATS.hash({"transport_audit_record": pairs, "replay_ledger_hash": replay_ledger_hash})
    signature = ASCII_FLOATS.hash(
        {
            **schema,
            "transport": values["transport"],
            "transport_endpoint": values["endpoint"],
            "transport_audit_record": pairs,
            "replay_ledger_hash": replay_ledger_hash,
            "transport_execution_permitted": False,
            "raw_data_export_permitted": False,
            "operator_review_required": True,
            "non_actuating": True,
        }
    )
    preflight_id = ASCII_FLOATS.hash(
        {
            **schema,
            "transport_audit_hash": audit_hash,
            "replay_ledger_hash": replay_ledger_hash,
            "transport_endpoint": values["endpoint"],
        }
    )
    return TransportDeploymentPreflightManifest(
        **schema,
        transport=values["transport"],
        transport_endpoint=values["endpoint"],
        transport_audit_record=audit_record,
        replay_ledger_hash=replay_ledger_hash,
        transport_audit_hash=audit_hash,
        preflight_id=preflight_id,
        preflight_signature=signature,
        preflight_hash=ASCII_FLOATS.hash(
            {"preflight_id": preflight_id, "preflight_signature": signature, "transport_audit_hash": audit_hash}
        ),
    )


def validate_transport_deployment_preflight_manifest(manifest: TransportDeploymentPreflightManifest) -> None:
    """Derive a preflight manifest again from what it declares and compare.

    Raises:
        ValidationError: a field does not follow; the message names it.
    """
    require_schema(manifest.schema_name, manifest.schema_version)
    derived = _preflight_manifest(manifest.batch_id, manifest.replay_ledger_hash, manifest.transport_audit_record)
    found = manifest.to_audit_record()
    for field, value in derived.to_audit_record().items():
        if found[field] != value:
            raise ValidationError(f"preflight manifest: {field} does not follow: {found[field]!r:.100}")
