"""Transport envelopes, their replay, the preflight of a transport, and keyed attestations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ripieno.errors import IntegrityError
from ripieno.signing import generate_key
from scpn_phase_orchestrator.supervisor.federated_attestation import (
    attest_transport_batch_with_secret,
    sign_transport_batch,
    verify_transport_batch_secret,
    verify_transport_batch_signature,
)
from scpn_phase_orchestrator.supervisor.federated_transport import (
    GENESIS_HASH,
    build_signed_transport_envelopes,
    build_transport_deployment_preflight_manifest,
    replay_federated_transport_batch,
    validate_federated_transport_batch,
    validate_transport_deployment_preflight_manifest,
)

FILE = {
    "transport": "jsonl",
    "endpoint": "file",
    "replay_supported": True,
    "local_path_evidence": "/data/x.jsonl",
}
LIVE = {
    "transport": "gRPC",
    "endpoint": "node.example:443",
    "owner": "ops",
    "auth_policy": "mtls",
    "replay_supported": True,
    "operator_approved": True,
    "tls": True,
}


def update(node_id: str = "n1", **changes: Any) -> dict[str, Any]:
    record = {
        "node_id": node_id,
        "policy_delta": {"K": 0.2, "zeta": 0.1},
        "sample_count": 10,
        "local_loss": 0.5,
        "previous_audit_hash": "a" * 64,
        "privacy_epsilon_spent": 0.1,
        "clipped_l2_norm": 0.2,
        "clip_scale": 1.0,
        "accepted": True,
        "rejection_reasons": [],
        "update_hash": "b" * 64,
    }
    return {**record, **changes}


def batch(n: int = 3) -> Any:
    records = [update(f"n{i % 2}", update_hash=f"{i:064x}") for i in range(n)]
    return build_signed_transport_envelopes(records)


def preflight(declaration: dict[str, Any]) -> Any:
    ledger = replay_federated_transport_batch(batch())
    return build_transport_deployment_preflight_manifest(declaration, replay_ledger=ledger)


def test_default_batch_id_is_the_documented_hash() -> None:
    (envelope,) = build_signed_transport_envelopes([update()])
    assert envelope.batch_id == "6c93ee19eb3458724957267cebccefa52185f997b55f37a39b7c70233bc1d64f"


def test_each_node_has_its_own_chain() -> None:
    first, other, second = batch()
    assert first.parent_envelope_hash == other.parent_envelope_hash == GENESIS_HASH
    assert second.parent_envelope_hash == first.envelope_hash
    assert [envelope.node_sequence for envelope in (first, other, second)] == [1, 1, 2]
    assert [envelope.sequence_position for envelope in (first, other, second)] == [1, 2, 3]


def test_replay_counts_every_node() -> None:
    ledger = replay_federated_transport_batch(batch(5))
    assert ledger.node_last_sequences == (("n0", 3), ("n1", 2))
    assert ledger.envelope_count == 5


def test_policy_delta_is_the_same_as_mapping_or_pairs_in_any_order() -> None:
    mapping = build_signed_transport_envelopes([update()])
    pairs = build_signed_transport_envelopes([update(policy_delta=[["zeta", 0.1], ["K", 0.2]])])
    assert mapping == pairs


@pytest.mark.parametrize("key", ["raw_data_blob", "RAW_TIME_SERIES", "my_raw_data"])
def test_raw_data_is_refused_under_any_spelling(key: str) -> None:
    with pytest.raises(ValueError, match="raw time-series content is not permitted in transport records"):
        build_signed_transport_envelopes([{**update(), key: 1}])


def test_raw_data_is_refused_inside_the_delta() -> None:
    with pytest.raises(ValueError, match="raw time-series content"):
        build_signed_transport_envelopes([update(policy_delta={"raw_data": 1.0})])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"sample_count": True}, "sample_count must be an integer"),
        ({"sample_count": -1}, "sample_count must be at least 0"),
        ({"local_loss": float("nan")}, "local_loss must be a finite number"),
        ({"policy_delta": {}}, "policy_delta must be non-empty"),
        ({"policy_delta": {"K": float("inf")}}, r"policy_delta\['K'\] must be a finite number"),
        ({"policy_delta": [["K", 1.0], ["K", 2.0]]}, "the key 'K' twice"),
        ({"previous_audit_hash": "A" * 64}, "previous_audit_hash must be 64 lowercase hex digits"),
        ({"accepted": 1}, "accepted must be a boolean"),
        ({"rejection_reasons": "late"}, "rejection_reasons must be a list"),
        ({"surprise": 1}, r"unknown \['surprise'\]"),
    ],
)
def test_a_record_of_the_wrong_kind_is_refused_by_name(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        build_signed_transport_envelopes([update(**changes)])


def test_a_missing_key_is_listed() -> None:
    record = update()
    del record["clip_scale"]
    with pytest.raises(ValueError, match=r"missing \['clip_scale'\]"):
        build_signed_transport_envelopes([record])


@given(
    index=st.integers(0, 2),
    field=st.sampled_from(
        [
            "batch_id",
            "sequence_position",
            "node_id",
            "node_sequence",
            "parent_envelope_hash",
            "node_update_hash",
            "envelope_id",
            "envelope_signature",
            "envelope_hash",
            "transport_execution_permitted",
            "raw_data_export_permitted",
            "operator_review_required",
        ]
    ),
)
def test_no_changed_field_survives_validation(index: int, field: str) -> None:
    envelopes = list(batch())
    value = getattr(envelopes[index], field)
    changed = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else "f" * 64
    envelopes[index] = replace(envelopes[index], **{field: changed})
    with pytest.raises(ValueError, match=r"envelope|records"):
        validate_federated_transport_batch(envelopes)


@pytest.mark.parametrize(
    ("field", "value"),
    [("transport_execution_permitted", 0), ("operator_review_required", 1), ("node_sequence", 1.0)],
)
def test_an_equal_value_of_another_type_does_not_survive_validation(field: str, value: object) -> None:
    envelopes = list(batch())
    assert getattr(envelopes[0], field) == value
    envelopes[0] = replace(envelopes[0], **{field: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"envelope 1: {field} does not follow"):
        validate_federated_transport_batch(envelopes)


def test_a_changed_update_record_does_not_survive_validation() -> None:
    envelopes = list(batch())
    record = tuple((key, 11 if key == "sample_count" else value) for key, value in envelopes[1].node_update_record)
    envelopes[1] = replace(envelopes[1], node_update_record=record)
    with pytest.raises(ValueError, match="envelope 2: envelope_signature does not follow"):
        validate_federated_transport_batch(envelopes)


def test_a_reordered_or_cut_batch_does_not_survive_validation() -> None:
    first, second, third = batch()
    for envelopes in ([second, first, third], [first, third], []):
        with pytest.raises(ValueError, match="envelope"):
            validate_federated_transport_batch(envelopes)


def test_a_file_transport_passes_and_permits_nothing() -> None:
    manifest = preflight(FILE)
    assert dict(manifest.transport_audit_record)["local_path_evidence"] == "/data/x.jsonl"
    assert manifest.transport_execution_permitted is False
    assert manifest.raw_data_export_permitted is False


@pytest.mark.parametrize("kind", ["rest", "grpc", "KAFKA"])
def test_a_live_transport_passes_with_everything_declared(kind: str) -> None:
    manifest = preflight({**LIVE, "transport": kind, "local_path_evidence": "/data/x"})
    assert manifest.transport == kind.lower()
    assert dict(manifest.transport_audit_record)["local_path_evidence"] == ""


@pytest.mark.parametrize(
    ("declaration", "text"),
    [
        ({**LIVE, "tls": False}, "live transport must use TLS or secure_channel"),
        ({**LIVE, "operator_approved": False}, "operator approval is required for live transport"),
        ({**LIVE, "replay_supported": False}, "replay support must be true for live transport"),
        ({**LIVE, "owner": " "}, "owner must be a non-empty string"),
        ({**LIVE, "secure_channel": False}, "tls and secure_channel must agree"),
        ({**LIVE, "transport": "carrier pigeon"}, "transport must be one of jsonl, rest, grpc, kafka"),
        ({**LIVE, "port": 1}, r"unknown declaration keys \['port'\]"),
        ({**FILE, "owner": "ops"}, "owner is not allowed for jsonl"),
        ({**FILE, "tls": True}, "not allowed for jsonl"),
        ({**FILE, "replay_supported": False}, "jsonl transport must declare replay support"),
        ({**FILE, "local_path_evidence": ""}, "local_path_evidence must be a non-empty string"),
        ({**FILE, "replay_supported": 1}, "replay_supported must be a boolean"),
    ],
)
def test_a_declaration_that_breaks_a_rule_is_refused_with_the_rule(declaration: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        preflight(declaration)


def test_missing_approval_is_said_before_missing_replay_and_tls() -> None:
    with pytest.raises(ValueError, match="operator approval"):
        preflight({**LIVE, "operator_approved": False, "replay_supported": False, "tls": False})


def test_a_changed_preflight_does_not_survive_validation() -> None:
    manifest = preflight(FILE)
    with pytest.raises(ValueError, match="transport_endpoint does not follow"):
        validate_transport_deployment_preflight_manifest(replace(manifest, transport_endpoint="elsewhere"))


def test_a_secret_attests_exactly_one_batch() -> None:
    secret = b"0123456789abcdef"
    attestation = attest_transport_batch_with_secret(batch(), secret)
    verify_transport_batch_secret(attestation, batch(), secret)
    with pytest.raises(IntegrityError, match="not made with this secret"):
        verify_transport_batch_secret(attestation, batch(), b"another secret!!")
    with pytest.raises(IntegrityError, match="about another batch"):
        verify_transport_batch_secret(attestation, batch(4), secret)
    with pytest.raises(ValueError, match="at least 16 bytes"):
        attest_transport_batch_with_secret(batch(), b"short")


def test_a_key_signs_exactly_one_batch() -> None:
    key, other = generate_key(), generate_key()
    attestation = sign_transport_batch(batch(), key)
    verify_transport_batch_signature(attestation, batch(), key.public_key())
    with pytest.raises(IntegrityError, match="not by key"):
        verify_transport_batch_signature(attestation, batch(), other.public_key())
    with pytest.raises(IntegrityError, match="about another batch"):
        verify_transport_batch_signature(replace(attestation, envelope_count=4), batch(), key.public_key())


def test_recomputed_digests_do_not_fool_a_key() -> None:
    key = generate_key()
    attestation = sign_transport_batch(batch(), key)
    forged = build_signed_transport_envelopes(
        [update(f"n{i % 2}", update_hash=f"{i:064x}", local_loss=0.0) for i in range(3)]
    )
    validate_federated_transport_batch(forged)
    with pytest.raises(IntegrityError, match="about another batch: replay_hash differs"):
        verify_transport_batch_signature(attestation, forged, key.public_key())
