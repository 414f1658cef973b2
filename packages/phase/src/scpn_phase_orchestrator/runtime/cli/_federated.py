"""Commands that check, for review, what a federation would deploy: noise, aggregation, transport. None of them acts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click

from ripieno.canonical import INDENTED_LINE
from scpn_phase_orchestrator.runtime.cli._json_input import (
    BUNDLE_VERSION,
    INPUT_FILE,
    OUTPUT_FILE,
    array_of_objects_field,
    boolean_field,
    emit,
    failing_as,
    integer_field,
    load_json_lines,
    load_json_object,
    number_field,
    output_option,
    string_array_field,
    string_field,
    text_field,
    with_bundle_hash,
    write_output,
)

__all__ = [
    "federated_dp_noise_service_preflight",
    "federated_secure_aggregation_preflight",
    "federated_transport_preflight",
]


@click.command("federated-dp-noise-service-preflight")
@click.argument("request_json", type=INPUT_FILE)
@click.argument("deployment_json", type=INPUT_FILE)
@output_option
def federated_dp_noise_service_preflight(request_json: Path, deployment_json: Path, output: Path | None) -> None:
    """Check a differential-privacy noise service before it is deployed.

    The mechanism is the Gaussian one with standard deviation sensitivity * noise_multiplier; budgets add up (simple
    composition). The noise in the answer is a deterministic test vector that follows from the public seed hash: it lets
    two implementations compare their arithmetic and protects nobody. Not ready is a verdict, no error.

    \b
    Example:
      spo federated-dp-noise-service-preflight request.json deployment.json
    """
    from scpn_phase_orchestrator.supervisor.federated_dp_noise_service import (
        DpNoiseNodePrivacyBudget,
        DpNoiseServiceRequestManifest,
        build_dp_noise_service_deployment_preflight_manifest,
        build_dp_noise_service_manifest,
    )

    payload = load_json_object(request_json, artifact="DP noise request")
    deployment = load_json_object(deployment_json, artifact="DP noise deployment")
    numbers = {field: number_field(payload, field) for field in ("epsilon", "delta", "sensitivity", "noise_multiplier")}
    node_count, seed_hash = integer_field(payload, "node_count"), text_field(payload, "seed_hash")
    policy_keys = string_array_field(payload, "policy_keys")
    spent = [
        (text_field(entry, "node_id"), number_field(entry, "epsilon_spent"))
        for entry in array_of_objects_field(payload, "node_budgets")
    ]
    labels = {
        field: string_field(deployment, field)
        for field in (
            "mechanism_label",
            "privacy_accountant_owner",
            "seed_custody_label",
            "budget_issuer_label",
            "service_endpoint_label",
        )
    }
    operator_approved = boolean_field(deployment, "operator_approved")
    with failing_as("federated DP noise-service preflight"):
        request = DpNoiseServiceRequestManifest(
            **numbers,
            node_count=node_count,
            seed_hash=seed_hash,
            policy_keys=tuple(policy_keys),
            node_budgets=tuple(DpNoiseNodePrivacyBudget(node_id, epsilon) for node_id, epsilon in spent),
        )
        response = build_dp_noise_service_manifest(request)
        preflight = build_dp_noise_service_deployment_preflight_manifest(
            request, response, **labels, operator_approved=operator_approved
        )
    bundle = {
        "schema": "scpn_federated_dp_noise_service_preflight_bundle_v1",
        "version": BUNDLE_VERSION,
        "deployment_ready": preflight.deployment_ready,
        "deployment_reason": preflight.deployment_reason,
        "request_hash": preflight.request_hash,
        "response_hash": preflight.response_hash,
        "service_execution_permitted": False,
        "raw_data_export_permitted": False,
        "operator_review_required": True,
        "non_actuating": True,
        "request_manifest": request.to_audit_record(),
        "response_manifest": response.to_audit_record(),
        "preflight_manifest": preflight.to_audit_record(),
    }
    emit(with_bundle_hash(bundle), output, artifact="DP noise-service preflight bundle")


def _aggregation_options(deployment: Mapping[str, Any]) -> dict[str, Any]:
    value = deployment.get("aggregation", {})
    if not isinstance(value, dict):
        raise click.ClickException("aggregation must be a JSON object")
    aggregation = cast("dict[str, Any]", value)
    known = ("required_policy_keys", "clipping_norm", "min_node_count", "epsilon", "delta")
    unknown = sorted(key for key in aggregation if key not in known)
    if unknown:
        raise click.ClickException(f"unknown keys of aggregation: {', '.join(unknown)}; known are {', '.join(known)}")
    options: dict[str, Any] = {
        field: number_field(aggregation, field)
        for field in ("clipping_norm", "epsilon", "delta")
        if field in aggregation
    }
    if "min_node_count" in aggregation:
        options["min_node_count"] = integer_field(aggregation, "min_node_count")
    if aggregation.get("required_policy_keys") is not None:
        options["required_policy_keys"] = string_array_field(aggregation, "required_policy_keys")
    return options


@click.command("federated-secure-aggregation-preflight")
@click.argument("node_commitments_jsonl", type=INPUT_FILE)
@click.argument("deployment_json", type=INPUT_FILE)
@output_option
def federated_secure_aggregation_preflight(
    node_commitments_jsonl: Path, deployment_json: Path, output: Path | None
) -> None:
    """Check a secure aggregation before it is deployed.

    NODE_COMMITMENTS_JSONL has one masked commitment a line. A change longer than the clipping norm is scaled down; the
    node counts (state "clipped") when it committed to the scaled value, and is rejected when it did not.

    \b
    Example:
      spo federated-secure-aggregation-preflight commitments.jsonl deployment.json -o bundle.json
    """
    from scpn_phase_orchestrator.supervisor.federated_secure_aggregation import (
        build_federated_secure_aggregation_manifest,
        build_federated_secure_aggregation_preflight_manifest,
    )

    commitments = load_json_lines(node_commitments_jsonl, artifact="node-commitment")
    deployment = load_json_object(deployment_json, artifact="secure aggregation deployment")
    options = _aggregation_options(deployment)
    quorum_evidence = array_of_objects_field(deployment, "quorum_evidence")
    custody_records = array_of_objects_field(deployment, "custody_records")
    texts = {
        field: text_field(deployment, field) for field in ("custody_rotation_policy", "operator_id", "service_owner")
    }
    threshold = integer_field(deployment, "accepted_node_threshold")
    operator_approved = boolean_field(deployment, "operator_approved")
    with failing_as("federated secure aggregation preflight"):
        manifest = build_federated_secure_aggregation_manifest(commitments, **options)
        preflight = build_federated_secure_aggregation_preflight_manifest(
            manifest,
            quorum_evidence=quorum_evidence,
            custody_records=custody_records,
            accepted_node_threshold=threshold,
            operator_approved=operator_approved,
            **texts,
        )
    bundle = {
        "schema": "scpn_federated_secure_aggregation_preflight_bundle_v1",
        "version": BUNDLE_VERSION,
        "accepted_node_count": manifest.accepted_node_count,
        "accepted_node_threshold": preflight.accepted_node_threshold,
        "custody_rotation_policy": preflight.custody_rotation_policy,
        "operator_id": preflight.operator_id,
        "service_owner": preflight.service_owner,
        "secure_aggregation_execution_permitted": False,
        "raw_data_export_permitted": False,
        "operator_review_required": True,
        "non_actuating": True,
        "secure_aggregation_manifest": manifest.to_audit_record(),
        "preflight_manifest": preflight.to_audit_record(),
    }
    emit(with_bundle_hash(bundle), output, artifact="secure aggregation preflight bundle")


def _write_attestation(key: Path, path: Path, envelopes: Any) -> None:
    """Sign the batch and write the statement beside the bundle, whose hashes do not change."""
    from ripieno.signing import load_private_key
    from scpn_phase_orchestrator.supervisor.federated_attestation import sign_transport_batch

    record = sign_transport_batch(envelopes, load_private_key(key)).to_audit_record()
    write_output(path, INDENTED_LINE.dumps(record), artifact="attestation")
    click.echo(f"Attestation by key {record['key_id']} written: {path}", err=True)


@click.command("federated-transport-preflight")
@click.argument("node_updates_jsonl", type=INPUT_FILE)
@click.argument("transport_declaration_json", type=INPUT_FILE)
@click.option(
    "--sign-key", type=INPUT_FILE, default=None, help="Private key of `ripieno keygen`; signs the batch (ML-DSA)."
)
@click.option("--attestation", type=OUTPUT_FILE, default=None, help="Where the signed statement goes.")
@output_option
def federated_transport_preflight(
    node_updates_jsonl: Path,
    transport_declaration_json: Path,
    sign_key: Path | None,
    attestation: Path | None,
    output: Path | None,
) -> None:
    """Check the transport of node updates before it is deployed.

    NODE_UPDATES_JSONL has one node update a line. The envelope signatures in the bundle are digests without a key; give
    --sign-key and --attestation to vouch for the batch with a key, in a file of its own.

    \b
    Examples:
      spo federated-transport-preflight updates.jsonl transport.json
      spo federated-transport-preflight updates.jsonl transport.json --sign-key me.key --attestation batch.att.json
    """
    if (sign_key is None) != (attestation is None):
        raise click.UsageError("--sign-key and --attestation belong together")
    from scpn_phase_orchestrator.supervisor.federated_transport import (
        build_signed_transport_envelopes,
        build_transport_deployment_preflight_manifest,
        replay_federated_transport_batch,
    )

    updates = load_json_lines(node_updates_jsonl, artifact="node-update")
    declaration = load_json_object(transport_declaration_json, artifact="transport declaration")
    with failing_as("federated transport preflight"):
        envelopes = build_signed_transport_envelopes(updates)
        ledger = replay_federated_transport_batch(envelopes)
        preflight = build_transport_deployment_preflight_manifest(declaration, replay_ledger=ledger)
        if sign_key is not None and attestation is not None:
            _write_attestation(sign_key, attestation, envelopes)
    bundle = {
        "schema": "scpn_federated_transport_preflight_bundle_v1",
        "version": BUNDLE_VERSION,
        "envelope_count": ledger.envelope_count,
        "batch_id": ledger.batch_id,
        "transport": preflight.transport,
        "transport_endpoint": preflight.transport_endpoint,
        "transport_execution_permitted": False,
        "raw_data_export_permitted": False,
        "operator_review_required": True,
        "non_actuating": True,
        "envelopes": [envelope.to_audit_record() for envelope in envelopes],
        "replay_ledger": ledger.to_audit_record(),
        "preflight_manifest": preflight.to_audit_record(),
    }
    emit(with_bundle_hash(bundle), output, artifact="transport preflight bundle")
