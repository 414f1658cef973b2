"""Secure aggregation: who counts, what is aggregated, and who keeps the keys."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scpn_phase_orchestrator.supervisor.federated_secure_aggregation import (
    build_federated_secure_aggregation_manifest,
    build_federated_secure_aggregation_preflight_manifest,
    commitment_hash,
    custody_continuity_hash,
    share_hash,
)


def commitment(node_id: str, samples: int, k: float, zeta: float = 0.1, **changes: Any) -> dict[str, Any]:
    delta = {"K": k, "zeta": zeta}
    record = {
        "node_id": node_id,
        "sample_count": samples,
        "masked_policy_delta": delta,
        "share_commitment": f"share of {node_id}",
        "share_commitment_hash": commitment_hash(node_id, f"share of {node_id}"),
        "share_hash": share_hash(node_id, delta),
    }
    return {**record, **changes}


def three() -> list[dict[str, Any]]:
    return [commitment("n1", 10, 0.1), commitment("n2", 20, 0.2), commitment("n3", 30, 0.4)]


def test_aggregate_is_the_mean_weighted_by_samples() -> None:
    manifest = build_federated_secure_aggregation_manifest(three())
    assert dict(manifest.aggregate_masked_delta) == {"K": 0.2833333333333333, "zeta": 0.1}
    assert manifest.total_sample_count == 60
    assert manifest.accepted_node_count == 3
    assert manifest.report_hash == manifest.expected_hash()


def test_order_of_commitments_does_not_matter() -> None:
    forward = build_federated_secure_aggregation_manifest(three())
    assert build_federated_secure_aggregation_manifest(three()[::-1]) == forward


def test_two_valid_nodes_are_no_quorum() -> None:
    nodes = [*three()[:2], commitment("n3", 30, 0.4, share_hash="0" * 64)]
    with pytest.raises(ValueError, match="quorum_not_met: accepted node commitments below minimum node count"):
        build_federated_secure_aggregation_manifest(nodes)


def test_a_rejected_node_says_every_reason_and_does_not_count() -> None:
    bad = commitment("n4", 99, 0.4, share_hash="0" * 64, share_commitment_hash="1" * 64)
    manifest = build_federated_secure_aggregation_manifest([*three(), bad])
    node = manifest.nodes[-1]
    assert node.rejection_reasons == ("share_hash_mismatch", "share_commitment_hash_mismatch")
    assert (node.state, node.accepted) == ("rejected", False)
    assert manifest.total_sample_count == 60


def test_a_node_that_commits_to_its_clipped_value_counts_as_clipped() -> None:
    length = math.sqrt(3.0 * 3.0 + 4.0 * 4.0)
    clipped = {"K": 3.0 * (1.0 / length), "zeta": 4.0 * (1.0 / length)}
    long = commitment("n4", 10, 3.0, 4.0, share_hash=share_hash("n4", clipped))
    manifest = build_federated_secure_aggregation_manifest([*three(), long])
    node = manifest.nodes[-1]
    assert (node.state, node.accepted, node.rejection_reasons) == ("clipped", True, ("masked_delta_clipped",))
    assert node.clip_scale == 0.2
    assert dict(node.masked_policy_delta) == clipped
    assert (manifest.clipped_node_count, manifest.accepted_node_count) == (1, 4)


def test_a_node_that_commits_to_its_unclipped_value_is_rejected() -> None:
    manifest = build_federated_secure_aggregation_manifest([*three(), commitment("n4", 10, 3.0, 4.0)])
    assert manifest.nodes[-1].rejection_reasons == ("masked_delta_clipped", "share_hash_mismatch")
    assert manifest.nodes[-1].state == "rejected"


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(-5, 5), st.floats(-5, 5)), min_size=3, max_size=8))
def test_no_aggregate_is_longer_than_the_clipping_norm(values: list[tuple[int, float, float]]) -> None:
    nodes: list[dict[str, Any]] = []
    for index, (samples, k, zeta) in enumerate(values):
        length = math.sqrt(k * k + zeta * zeta)
        scale = 1.0 if length <= 1.0 else 1.0 / length
        name = f"n{index}"
        nodes.append(
            commitment(name, samples, k, zeta, share_hash=share_hash(name, {"K": k * scale, "zeta": zeta * scale}))
        )
    manifest = build_federated_secure_aggregation_manifest(nodes)
    assert manifest.accepted_node_count == len(nodes)
    assert math.hypot(*dict(manifest.aggregate_masked_delta).values()) <= 1.0 + 1e-12


@pytest.mark.parametrize("key", ["raw_policy_delta", "policy_delta", "raw_time_series", "samples", "time_series"])
def test_raw_values_need_the_provenance_of_masking(key: str) -> None:
    nodes = three()
    nodes[0][key] = [1.0]
    with pytest.raises(ValueError, match="raw deltas or time-series require masked-audit provenance"):
        build_federated_secure_aggregation_manifest(nodes)
    nodes[0]["aggregated_from_masked_audit_values"] = True
    assert build_federated_secure_aggregation_manifest(nodes).accepted_node_count == 3


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"sample_count": 0}, "sample_count must be at least 1"),
        ({"share_hash": "xyz"}, "share_hash must be 64 lowercase hex digits"),
        ({"masked_policy_delta": {"K": 0.1}}, r"lacks the required keys \['zeta'\]"),
        ({"masked_policy_delta": {"K": float("nan"), "zeta": 0.1}}, "must be a finite number"),
        ({"share_commitment": ""}, "share_commitment must be a non-empty string"),
        ({"node_id": "n2"}, "node_id must be unique, 'n2' is there twice"),
    ],
)
def test_a_commitment_of_the_wrong_kind_is_refused_by_name(changes: dict[str, Any], text: str) -> None:
    nodes = three()
    nodes[0].update(changes)
    with pytest.raises(ValueError, match=text):
        build_federated_secure_aggregation_manifest(nodes)


@pytest.mark.parametrize(
    "limits", [{"clipping_norm": 0.0}, {"min_node_count": 0}, {"epsilon": -1.0}, {"delta": 1.0}, {"epsilon": True}]
)
def test_limits_out_of_range_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        build_federated_secure_aggregation_manifest(three(), **limits)


def custody(node_id: str) -> dict[str, str]:
    return {
        "node_id": node_id,
        "key_custody_label": "1" * 64,
        "share_custody_label": "2" * 64,
        "previous_key_custody_label": "3" * 64,
        "previous_share_custody_label": "4" * 64,
    }


def preflight(**changes: Any) -> Any:
    names = ["n2", "n1", "n3"]
    arguments: dict[str, Any] = {
        "quorum_evidence": [{"node_id": name, "evidence_hash": "5" * 64} for name in names],
        "custody_rotation_policy": "scheduled",
        "custody_records": [custody(name) for name in names],
        "accepted_node_threshold": 3,
        "operator_approved": True,
        "operator_id": "op-1",
        "service_owner": "ops",
    }
    manifest = changes.pop("manifest", None) or build_federated_secure_aggregation_manifest(three())
    return build_federated_secure_aggregation_preflight_manifest(manifest, **{**arguments, **changes})


def test_preflight_sorts_by_node_and_ties_custody_to_the_custody_before() -> None:
    manifest = preflight()
    assert [entry["node_id"] for entry in manifest.custody_records] == ["n1", "n2", "n3"]
    assert [entry["node_id"] for entry in manifest.quorum_evidence] == ["n1", "n2", "n3"]
    expected = custody_continuity_hash("n1", "scheduled", kind="key", previous_label="3" * 64, label="1" * 64)
    assert manifest.custody_records[0]["key_custody_continuity_hash"] == expected
    assert manifest.secure_aggregation_execution_permitted is False


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"operator_approved": False}, "operator approval is required for preflight"),
        ({"custody_rotation_policy": "never"}, "custody_rotation_policy must be one of continuous, manual, scheduled"),
        ({"accepted_node_threshold": 4}, "accepted_node_threshold is 4"),
        ({"quorum_evidence": []}, "quorum_evidence has 0 nodes"),
        ({"quorum_evidence": [{"node_id": "n9", "evidence_hash": "5" * 64}]}, "'n9' is none"),
        ({"custody_records": [custody("n1"), custody("n2")]}, r"\['n3'\] are missing"),
        ({"custody_records": [custody("n1"), custody("n1")]}, "'n1' is there twice"),
        (
            {
                "custody_records": [
                    {**custody("n1"), "key_custody_continuity_hash": "0" * 64},
                    custody("n2"),
                    custody("n3"),
                ]
            },
            "key_custody_continuity_hash of node 'n1' does not fit",
        ),
        ({"operator_id": ""}, "operator_id must be a non-empty string"),
    ],
)
def test_a_preflight_that_breaks_a_rule_is_refused_with_the_rule(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        preflight(**changes)


def test_an_edited_aggregation_gets_no_preflight() -> None:
    manifest = build_federated_secure_aggregation_manifest(three())
    with pytest.raises(ValueError, match="does not fit its report_hash"):
        preflight(manifest=replace(manifest, total_sample_count=61))


def test_another_object_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="FederatedSecureAggregationManifest"):
        preflight(manifest={"report_hash": ""})
