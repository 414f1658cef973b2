"""Review records for a secure aggregation: masked commitments of nodes, their weighted mean, and who may see what.

Nothing is decrypted or sent. Every node commits to a masked change of the policy by a hash. A node is

* ``accepted`` when its change lies within the clipping norm and its hashes fit;
* ``clipped`` when its change was longer, was scaled down to the norm, and its share hash fits *the scaled value*: the
  node committed to what is aggregated, so it counts;
* ``rejected`` when a hash does not fit.

A clipped node carries the reason ``masked_delta_clipped`` and still counts; every other reason rejects. All hashes are
the SHA-256 of compact sorted ASCII JSON; a record's own hash is taken while its field is empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal, cast

from ripieno.canonical import ASCII
from scpn_phase_orchestrator.exceptions import ValidationError
from scpn_phase_orchestrator.supervisor._review_fields import (
    boolean,
    finite_number,
    hex_digest,
    integer,
    named_numbers,
    non_empty_text,
    positive_number,
    unique_names,
)

__all__ = [
    "ROTATION_POLICIES",
    "FederatedSecureAggregationManifest",
    "FederatedSecureAggregationPreflightManifest",
    "SecureAggregationConfig",
    "SecureAggregationNode",
    "build_federated_secure_aggregation_manifest",
    "build_federated_secure_aggregation_preflight_manifest",
    "commitment_hash",
    "custody_continuity_hash",
    "share_hash",
]

SCHEMA_NAME = "federated_secure_aggregation_manifest"
PREFLIGHT_SCHEMA_NAME = "federated_secure_aggregation_preflight_manifest"
SCHEMA_VERSION = "0.1.0"
CLAIM_BOUNDARY = "offline_review_only_no_live_transport"
ROTATION_POLICIES = ("continuous", "manual", "scheduled")
CLIPPED_REASON = "masked_delta_clipped"
NodeState = Literal["accepted", "clipped", "rejected"]

_RAW_KEYS = ("raw_policy_delta", "policy_delta", "raw_time_series", "samples", "time_series")


@dataclass(frozen=True)
class SecureAggregationConfig:
    """Limits of an aggregation.

    Attributes:
        clipping_norm: longest change (L2) of one node, above 0.
        min_node_count: fewest nodes that count, at least 1.
        epsilon: declared privacy budget, above 0.
        delta: declared probability of failure, in (0, 1).

    Raises:
        ValidationError: a limit that is not allowed.
    """

    clipping_norm: float = 1.0
    min_node_count: int = 3
    epsilon: float = 3.0
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for field in ("clipping_norm", "epsilon", "delta"):
            object.__setattr__(self, field, positive_number(getattr(self, field), field))
        integer(self.min_node_count, "min_node_count", minimum=1)
        if self.delta >= 1.0:
            raise ValidationError(f"delta must be below 1, got {self.delta!r}")


@dataclass(frozen=True)
class SecureAggregationNode:
    """What became of the commitment of one node.

    Attributes:
        node_id: the node.
        sample_count: its weight, at least 1.
        masked_policy_delta: pairs of key and value after clipping.
        clipped_l2_norm: length of that.
        clip_scale: factor of the clipping, 1.0 when there was none.
        share_commitment: what the node committed to.
        share_commitment_hash: as the node gave it.
        share_hash: as the node gave it.
        masked_delta_hash: `share_hash` of the clipped value.
        update_hash: hash of the fields above.
        accepted: whether the node counts (states ``accepted`` and ``clipped``).
        rejection_reasons: what was found; `CLIPPED_REASON` alone does not reject.
        state: ``accepted``, ``clipped`` or ``rejected``.
    """

    node_id: str
    sample_count: int
    masked_policy_delta: tuple[tuple[str, float], ...]
    clipped_l2_norm: float
    clip_scale: float
    share_commitment: str
    share_commitment_hash: str
    share_hash: str
    masked_delta_hash: str
    update_hash: str
    accepted: bool
    rejection_reasons: tuple[str, ...]
    state: NodeState

    def to_audit_record(self) -> dict[str, Any]:
        """Give the node as JSON values."""
        return {
            **asdict(self),
            "masked_policy_delta": [list(pair) for pair in self.masked_policy_delta],
            "rejection_reasons": list(self.rejection_reasons),
        }


@dataclass(frozen=True)
class FederatedSecureAggregationManifest:
    """The weighted mean of the nodes that count, with everything it follows from.

    Attributes:
        clipping_norm: see `SecureAggregationConfig`.
        min_node_count: see `SecureAggregationConfig`.
        epsilon: see `SecureAggregationConfig`.
        delta: see `SecureAggregationConfig`.
        required_policy_keys: the keys that every node must give, sorted.
        node_count: number of commitments.
        accepted_node_count: number that count.
        clipped_node_count: number of those that were scaled down.
        rejected_node_count: number that do not count.
        total_sample_count: weight of the nodes that count.
        accepted_node_ids: their identifiers, sorted.
        aggregate_masked_delta: pairs of key and weighted mean.
        aggregate_masked_delta_hash: hash of aggregate, nodes and keys.
        nodes: every commitment, sorted by node.
        report_hash: hash of this record with this field empty.
        quorum_met: always ``True``; fewer nodes are an error.
        claim_boundary: always `CLAIM_BOUNDARY`.
        secure_aggregation_execution_permitted: always ``False``.
        raw_data_export_permitted: always ``False``.
        operator_review_required: always ``True``.
        non_actuating: always ``True``.
    """

    clipping_norm: float
    min_node_count: int
    epsilon: float
    delta: float
    required_policy_keys: tuple[str, ...]
    node_count: int
    accepted_node_count: int
    clipped_node_count: int
    rejected_node_count: int
    total_sample_count: int
    accepted_node_ids: tuple[str, ...]
    aggregate_masked_delta: tuple[tuple[str, float], ...]
    aggregate_masked_delta_hash: str
    nodes: tuple[SecureAggregationNode, ...]
    report_hash: str = ""
    quorum_met: Literal[True] = True
    claim_boundary: str = CLAIM_BOUNDARY
    secure_aggregation_execution_permitted: Literal[False] = False
    raw_data_export_permitted: Literal[False] = False
    operator_review_required: Literal[True] = True
    non_actuating: Literal[True] = True

    def to_audit_record(self) -> dict[str, Any]:
        """Give the manifest as JSON values."""
        return {
            "schema_name": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            **self.__dict__,
            "required_policy_keys": list(self.required_policy_keys),
            "accepted_node_ids": list(self.accepted_node_ids),
            "aggregate_masked_delta": [list(pair) for pair in self.aggregate_masked_delta],
            "nodes": [node.to_audit_record() for node in self.nodes],
        }

    def expected_hash(self) -> str:
        """Give the hash that ``report_hash`` must be."""
        return ASCII.hash({**self.to_audit_record(), "report_hash": ""})


def share_hash(node_id: str, masked_policy_delta: Mapping[str, float]) -> str:
    """Give the hash by which a node commits to its (clipped) change."""
    pairs = [[key, float(value)] for key, value in sorted(masked_policy_delta.items())]
    return ASCII.hash({"node_id": node_id, "masked_policy_delta": pairs})


def commitment_hash(node_id: str, share_commitment: str) -> str:
    """Give the hash of what a node committed to."""
    return ASCII.hash({"node_id": node_id, "share_commitment": share_commitment})


def custody_continuity_hash(
    node_id: str, rotation_policy: str, *, kind: Literal["key", "share"], previous_label: str, label: str
) -> str:
    """Give the hash that ties the custody of a key or a share to the custody before."""
    return ASCII.hash(
        {
            "node_id": node_id,
            "rotation_policy": rotation_policy,
            f"previous_{kind}_custody_label": previous_label,
            f"{kind}_custody_label": label,
        }
    )


def _refuse_raw_data(commitment: Mapping[str, Any]) -> None:
    if any(key in commitment for key in _RAW_KEYS) and not commitment.get("aggregated_from_masked_audit_values"):
        raise ValidationError("raw deltas or time-series require masked-audit provenance")


def _required_keys(commitments: Sequence[Mapping[str, Any]], required: Sequence[str] | None) -> tuple[str, ...]:
    if required is not None:
        return tuple(sorted(unique_names(required, "required_policy_keys")))
    keys: set[str] = set()
    for commitment in commitments:
        keys |= set(named_numbers(commitment.get("masked_policy_delta"), "masked_policy_delta"))
    return tuple(sorted(keys))


def _node(
    commitment: Mapping[str, Any], keys: tuple[str, ...], config: SecureAggregationConfig
) -> SecureAggregationNode:
    _refuse_raw_data(commitment)
    node_id = non_empty_text(commitment.get("node_id"), "node_id")
    given = named_numbers(commitment.get("masked_policy_delta"), f"masked_policy_delta of node {node_id!r}")
    missing = [key for key in keys if key not in given]
    if missing:
        raise ValidationError(f"masked_policy_delta of node {node_id!r} lacks the required keys {missing}")
    norm = math.sqrt(sum(given[key] * given[key] for key in keys))
    finite_number(norm, f"length of masked_policy_delta of node {node_id!r}")
    scale = 1.0 if norm <= config.clipping_norm else config.clipping_norm / norm
    clipped = {key: given[key] * scale for key in keys}
    delta_hash = share_hash(node_id, clipped)
    payload: dict[str, Any] = {
        "node_id": node_id,
        "sample_count": integer(commitment.get("sample_count"), "sample_count", minimum=1),
        "masked_policy_delta": tuple(clipped.items()),
        "clipped_l2_norm": math.sqrt(sum(value * value for value in clipped.values())),
        "clip_scale": scale,
        "share_commitment": non_empty_text(commitment.get("share_commitment"), "share_commitment"),
        "share_commitment_hash": hex_digest(
            commitment.get("share_commitment_hash"), "share_commitment_hash", lower=True
        ),
        "share_hash": hex_digest(commitment.get("share_hash"), "share_hash", lower=True),
        "masked_delta_hash": delta_hash,
    }
    reasons = [CLIPPED_REASON] if scale < 1.0 else []
    if payload["share_hash"] != delta_hash:
        reasons.append("share_hash_mismatch")
    if payload["share_commitment_hash"] != commitment_hash(node_id, payload["share_commitment"]):
        reasons.append("share_commitment_hash_mismatch")
    rejected = any(reason != CLIPPED_REASON for reason in reasons)
    return SecureAggregationNode(
        **payload,
        update_hash=ASCII.hash(payload),
        accepted=not rejected,
        rejection_reasons=tuple(reasons),
        state="rejected" if rejected else "clipped" if reasons else "accepted",
    )


def build_federated_secure_aggregation_manifest(
    commitments: Sequence[Mapping[str, Any]],
    *,
    required_policy_keys: Sequence[str] | None = None,
    clipping_norm: float = 1.0,
    min_node_count: int = 3,
    epsilon: float = 3.0,
    delta: float = 1e-6,
) -> FederatedSecureAggregationManifest:
    r"""Check the commitments of nodes and aggregate those that count.

    The aggregate of a key is ``sum(value * sample_count) / sum(sample_count)`` over the nodes that count; a change
    longer than the clipping norm is scaled by ``clipping_norm / length`` first. A node that commits to its scaled
    value has to find the same bits: ``length = sqrt(sum(value * value))`` over the keys in sorted order, in doubles.

    Args:
        commitments: mappings with ``node_id, sample_count, masked_policy_delta, share_commitment,
            share_commitment_hash, share_hash``.
        required_policy_keys: keys that every node must give; by default all that any node gives.
        clipping_norm: longest change (L2).
        min_node_count: fewest nodes that count.
        epsilon: declared privacy budget.
        delta: declared probability of failure.

    Raises:
        ValidationError: raw data without provenance, a field of the wrong kind, a node twice, or too few nodes that
            count (``quorum_not_met``).
    """
    config = SecureAggregationConfig(clipping_norm, min_node_count, epsilon, delta)
    if not commitments:
        raise ValidationError("commitments must be non-empty")
    for commitment in commitments:
        _refuse_raw_data(commitment)
    keys = _required_keys(commitments, required_policy_keys)
    nodes = sorted((_node(commitment, keys, config) for commitment in commitments), key=lambda node: node.node_id)
    for before, node in pairwise(nodes):
        if before.node_id == node.node_id:
            raise ValidationError(f"node_id must be unique, {node.node_id!r} is there twice")
    accepted = [node for node in nodes if node.accepted]
    if len(accepted) < config.min_node_count:
        raise ValidationError("quorum_not_met: accepted node commitments below minimum node count")
    total = sum(node.sample_count for node in accepted)
    values = [dict(node.masked_policy_delta) for node in accepted]
    aggregate = tuple(
        (key, sum(value[key] * node.sample_count for value, node in zip(values, accepted, strict=True)) / total)
        for key in keys
    )
    accepted_ids = tuple(node.node_id for node in accepted)
    unsealed: dict[str, Any] = {
        **asdict(config),
        "required_policy_keys": keys,
        "node_count": len(nodes),
        "accepted_node_count": len(accepted),
        "clipped_node_count": sum(node.state == "clipped" for node in nodes),
        "rejected_node_count": len(nodes) - len(accepted),
        "total_sample_count": total,
        "accepted_node_ids": accepted_ids,
        "aggregate_masked_delta": aggregate,
        "aggregate_masked_delta_hash": ASCII.hash(
            {
                "aggregate_masked_delta": aggregate,
                "accepted_node_ids": accepted_ids,
                "required_policy_keys": keys,
            }
        ),
        "nodes": tuple(nodes),
    }
    report_hash = FederatedSecureAggregationManifest(**unsealed).expected_hash()
    return FederatedSecureAggregationManifest(**unsealed, report_hash=report_hash)


@dataclass(frozen=True)
class FederatedSecureAggregationPreflightManifest:
    """Whether an aggregation with this custody may be reviewed for deployment. It permits nothing.

    Attributes:
        secure_aggregation_report_hash: ``report_hash`` of the aggregation.
        accepted_node_count: number of nodes that count.
        accepted_node_threshold: fewest that the operator wants.
        custody_rotation_policy: one of `ROTATION_POLICIES`.
        operator_id: who approved.
        service_owner: who would run it.
        quorum_evidence: ``{node_id, evidence_hash}``, sorted by node.
        custody_records: custody labels and continuity hashes of every node that counts, sorted by node.
        report_hash: hash of this record with this field empty.
        operator_approved: always ``True``; without approval there is no manifest.
        secure_aggregation_execution_permitted: always ``False``.
        raw_data_export_permitted: always ``False``.
        operator_review_required: always ``True``.
        non_actuating: always ``True``.
    """

    secure_aggregation_report_hash: str
    accepted_node_count: int
    accepted_node_threshold: int
    custody_rotation_policy: str
    operator_id: str
    service_owner: str
    quorum_evidence: tuple[Mapping[str, str], ...]
    custody_records: tuple[Mapping[str, str], ...]
    report_hash: str = ""
    operator_approved: Literal[True] = True
    secure_aggregation_execution_permitted: Literal[False] = False
    raw_data_export_permitted: Literal[False] = False
    operator_review_required: Literal[True] = True
    non_actuating: Literal[True] = True

    def to_audit_record(self) -> dict[str, Any]:
        """Give the manifest as JSON values."""
        return {
            "schema_name": PREFLIGHT_SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            **self.__dict__,
            "quorum_evidence": [dict(entry) for entry in self.quorum_evidence],
            "custody_records": [dict(entry) for entry in self.custody_records],
        }


def _by_node(
    entries: Sequence[Mapping[str, Any]], accepted: tuple[str, ...], name: str
) -> dict[str, Mapping[str, Any]]:
    result: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if not isinstance(entry, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{name} must hold mappings, got {type(entry).__name__}")
        node_id = non_empty_text(entry.get("node_id"), f"node_id of {name}")
        if node_id in result:
            raise ValidationError(f"{name} must be unique, node {node_id!r} is there twice")
        if node_id not in accepted:
            raise ValidationError(f"{name} must be about accepted nodes only, {node_id!r} is none")
        result[node_id] = entry
    return dict(sorted(result.items()))


def _custody_record(node_id: str, entry: Mapping[str, Any], policy: str) -> dict[str, str]:
    record = {"node_id": node_id}
    for kind in cast("tuple[Literal['key', 'share'], ...]", ("key", "share")):
        label_field, previous_field = f"{kind}_custody_label", f"previous_{kind}_custody_label"
        label = hex_digest(entry.get(label_field), label_field, lower=True)
        previous = hex_digest(entry.get(previous_field), previous_field, lower=True)
        record[label_field], record[previous_field] = label, previous
        expected = custody_continuity_hash(node_id, policy, kind=kind, previous_label=previous, label=label)
        hash_field = f"{kind}_custody_continuity_hash"
        if hash_field in entry and hex_digest(entry[hash_field], hash_field, lower=True) != expected:
            raise ValidationError(f"{hash_field} of node {node_id!r} does not fit its custody labels")
        record[hash_field] = expected
    return record


def build_federated_secure_aggregation_preflight_manifest(
    manifest: FederatedSecureAggregationManifest,
    *,
    quorum_evidence: Sequence[Mapping[str, Any]],
    custody_rotation_policy: str,
    custody_records: Sequence[Mapping[str, Any]],
    accepted_node_threshold: int,
    operator_approved: bool,
    operator_id: str,
    service_owner: str,
) -> FederatedSecureAggregationPreflightManifest:
    """Check quorum evidence and custody for an aggregation.

    Args:
        manifest: the aggregation; its hash is checked again.
        quorum_evidence: ``{node_id, evidence_hash}`` of accepted nodes, at least `accepted_node_threshold` of them.
        custody_rotation_policy: one of `ROTATION_POLICIES`.
        custody_records: for exactly the accepted nodes, ``{node_id, key_custody_label, share_custody_label,
            previous_key_custody_label, previous_share_custody_label}``, each label 64 hex digits.
        accepted_node_threshold: fewest nodes that must count, at least 1.
        operator_approved: must be ``True``.
        operator_id: who approved.
        service_owner: who would run it.

    Raises:
        TypeError: the manifest, or an entry, is of another type.
        ValidationError: any rule that does not hold; the message names it.
    """
    if not isinstance(manifest, FederatedSecureAggregationManifest):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"manifest must be a FederatedSecureAggregationManifest, got {type(manifest).__name__}")
    if not boolean(operator_approved, "operator_approved"):
        raise ValidationError("operator approval is required for preflight")
    if custody_rotation_policy not in ROTATION_POLICIES:
        choices = ", ".join(ROTATION_POLICIES)
        raise ValidationError(f"custody_rotation_policy must be one of {choices}, got {custody_rotation_policy!r}")
    if manifest.report_hash != manifest.expected_hash():
        raise ValidationError("the secure aggregation manifest does not fit its report_hash")
    threshold = integer(accepted_node_threshold, "accepted_node_threshold", minimum=1)
    if manifest.accepted_node_count < threshold:
        raise ValidationError(
            f"{manifest.accepted_node_count} nodes were accepted, accepted_node_threshold is {threshold}"
        )
    evidence = _by_node(quorum_evidence, manifest.accepted_node_ids, "quorum_evidence")
    if len(evidence) < threshold:
        raise ValidationError(f"quorum_evidence has {len(evidence)} nodes, accepted_node_threshold is {threshold}")
    custody = _by_node(custody_records, manifest.accepted_node_ids, "custody_records")
    absent = [node_id for node_id in manifest.accepted_node_ids if node_id not in custody]
    if absent:
        raise ValidationError(f"custody_records must be about exactly the accepted nodes, {absent} are missing")
    unsealed: dict[str, Any] = {
        "secure_aggregation_report_hash": manifest.report_hash,
        "accepted_node_count": manifest.accepted_node_count,
        "accepted_node_threshold": threshold,
        "custody_rotation_policy": custody_rotation_policy,
        "operator_id": non_empty_text(operator_id, "operator_id"),
        "service_owner": non_empty_text(service_owner, "service_owner"),
        "quorum_evidence": tuple(
            {"node_id": node_id, "evidence_hash": hex_digest(entry.get("evidence_hash"), "evidence_hash", lower=True)}
            for node_id, entry in evidence.items()
        ),
        "custody_records": tuple(
            _custody_record(node_id, entry, custody_rotation_policy) for node_id, entry in custody.items()
        ),
    }
    record = FederatedSecureAggregationPreflightManifest(**unsealed).to_audit_record()
    return FederatedSecureAggregationPreflightManifest(**unsealed, report_hash=ASCII.hash(record))
