"""The commands that write records for review: transfer, mutation grammars, federated preflights. None of them acts."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ripieno.canonical import strict_loads
from ripieno.errors import InputError, RipienoError
from ripieno.files import write_atomic
from scpn_phase_orchestrator.runtime.cli._json_input import (
    INPUT_FILE,
    OUTPUT_FILE,
    array_of_objects_field,
    boolean_field,
    emit,
    integer_field,
    load_json_lines,
    load_json_object,
    number_field,
    output_option,
    read_bytes,
    read_text,
    string_array_field,
    string_field,
    text_field,
    with_bundle_hash,
)

if TYPE_CHECKING:
    from scpn_phase_orchestrator.supervisor._grammar_review import RankedCandidate, ReviewCandidate

__all__ = [
    "evolutionary_petri_mutation",
    "evolutionary_policy_dsl_search",
    "evolutionary_topology_mutation",
    "federated_dp_noise_service_preflight",
    "federated_secure_aggregation_preflight",
    "federated_transport_preflight",
    "meta_transfer_manifest",
]

BUNDLE_VERSION = "1.0.0"
_COUNT = click.IntRange(min=1)
_POSITIVE = click.FloatRange(min=0.0, min_open=True)
_NOT_NEGATIVE = click.FloatRange(min=0.0)


@contextmanager
def _failing_as(what: str) -> Generator[None]:
    """Say in one line what failed."""
    try:
        yield
    except (TypeError, ValueError, RipienoError) as error:
        raise click.ClickException(f"{what} failed: {error}") from error


# --- transfer -------------------------------------------------------------------------------------------------


@click.command("meta-transfer-manifest")
@click.argument("audit_paths", nargs=-1, type=INPUT_FILE)
@click.option(
    "--audit-directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=None,
    help="Read every matching file below this directory instead.",
)
@click.option("--pattern", default="**/*.jsonl", show_default=True, help="Which files below the directory.")
@click.option("--min-records", type=int, default=1, show_default=True, help="Fewest examples that must be found.")
@click.option("--package-name", default="scpn-meta", show_default=True, help="Name of the package in the manifest.")
@click.option(
    "--import-target", default="scpn_phase_orchestrator.meta", show_default=True, help="Module in the manifest."
)
@click.option("--console-script", default="scpn-meta", show_default=True, help="Command in the manifest.")
@click.option("--output", "-o", type=OUTPUT_FILE, default=None, help="Write the manifest here as well.")
def meta_transfer_manifest(
    audit_paths: tuple[Path, ...],
    audit_directory: Path | None,
    pattern: str,
    min_records: int,
    package_name: str,
    import_target: str,
    console_script: str,
    output: Path | None,
) -> None:
    """Describe, for review, what audit histories could teach another domain.

    AUDIT_PATHS are audit logs of `spo run --audit` (one example per log: mean order parameters, mean of the actions by
    knob, mean stability as reward) or JSONL files with one example a line: domain, features, knobs, reward.

    \b
    Examples:
      spo meta-transfer-manifest grid.jsonl eeg.jsonl
      spo meta-transfer-manifest --audit-directory runs --min-records 10 -o manifest.json
    """
    if min_records < 1:
        raise click.ClickException("--min-records must be at least 1")
    if not audit_paths and audit_directory is None:
        raise click.ClickException("provide one or more audit JSONL files or --audit-directory")
    if audit_paths and audit_directory is not None:
        raise click.ClickException("audit JSONL files and --audit-directory are mutually exclusive")
    from scpn_phase_orchestrator.meta import CrossDomainMetaTransfer

    try:
        if audit_directory is not None:
            transfer = CrossDomainMetaTransfer().fit_audit_directory(audit_directory, pattern, min_records)
        else:
            transfer = CrossDomainMetaTransfer().fit_audit_history(audit_paths, min_records)
        text = transfer.to_package_manifest(package_name, import_target, console_script).to_json()
        if output is not None:
            write_atomic(output, text.encode())
    except (OSError, TypeError, ValueError, RipienoError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(text, nl=False)
    if output is not None:
        click.echo(f"Meta-transfer package manifest written: {output}", err=True)


# --- mutation grammars ----------------------------------------------------------------------------------------


def _scores_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--scores",
        type=INPUT_FILE,
        default=None,
        help="JSON object of candidate id to score (higher is better), e.g. from replays; adds a ranked shortlist.",
    )(command)


def _shortlist_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--shortlist", "shortlist_size", type=_COUNT, default=5, show_default=True, help="Longest shortlist."
    )(command)


def _ranked(
    scores: Path | None, candidates: tuple[ReviewCandidate, ...], shortlist_size: int
) -> tuple[RankedCandidate, ...] | None:
    if scores is None:
        return None
    from scpn_phase_orchestrator.supervisor._grammar_review import rank_candidates, scores_as_evaluator

    given = load_json_object(scores, artifact="scores")
    return rank_candidates(candidates, scores_as_evaluator(given, candidates), limit=shortlist_size)


def _emit_grammar_bundle(
    grammar: str, report: Mapping[str, Any], shortlist: tuple[RankedCandidate, ...] | None, output: Path | None
) -> None:
    bundle = with_bundle_hash(
        {
            "schema": "scpn_evolutionary_grammar_review_bundle_v1",
            "version": BUNDLE_VERSION,
            "grammar": grammar,
            "execution_disabled": True,
            "actuation_permitted": False,
            "live_merge_permitted": False,
            "hot_patch_permitted": False,
            "operator_review_required": True,
            "non_actuating": True,
            "report": dict(report),
        }
    )
    if shortlist is not None:
        bundle["shortlist"] = [place.to_audit_record() for place in shortlist]
    emit(bundle, output, artifact="evolutionary grammar review bundle")


@click.command("evolutionary-policy-dsl-search")
@click.argument("policy_dsl_file", type=INPUT_FILE)
@click.option("--generations", type=_COUNT, default=2, show_default=True, help="Number of generations.")
@click.option("--population", type=_COUNT, default=6, show_default=True, help="Candidates per generation.")
@click.option("--mutation-step", type=_POSITIVE, default=0.05, show_default=True, help="Smallest change of a constant.")
@_scores_option
@_shortlist_option
@output_option
def evolutionary_policy_dsl_search(
    policy_dsl_file: Path,
    generations: int,
    population: int,
    mutation_step: float,
    scores: Path | None,
    shortlist_size: int,
    output: Path | None,
) -> None:
    """List bounded mutations of policy rules for review.

    POLICY_DSL_FILE holds one rule a line: rule NAME: if METRIC OP NUMBER [and ...] then set TARGET = NUMBER. Every
    candidate moves one constant; those that leave [0, 1] are rejected. Nothing is selected unless you give scores, and
    nothing is applied.

    \b
    Examples:
      spo evolutionary-policy-dsl-search rules.dsl
      spo evolutionary-policy-dsl-search rules.dsl --generations 1 --scores scores.json -o bundle.json
    """
    from scpn_phase_orchestrator.supervisor.evolutionary_policy_dsl import run_offline_evolutionary_policy_dsl_search

    text = read_text(policy_dsl_file, artifact="policy DSL")
    with _failing_as("evolutionary policy-DSL search"):
        report = run_offline_evolutionary_policy_dsl_search(
            text, generation_count=generations, population_size=population, mutation_step=mutation_step
        )
        shortlist = _ranked(scores, report.candidates, shortlist_size)
    _emit_grammar_bundle("policy-dsl", report.to_audit_record(), shortlist, output)


def _load_net(path: Path) -> Any:
    try:
        net = strict_loads(read_bytes(path, artifact="net"))
    except InputError as error:
        raise click.ClickException(f"malformed net JSON: {error}") from error
    if not isinstance(net, dict | list):
        raise click.ClickException("net payload must be a JSON object or array")
    return cast("Any", net)


@click.command("evolutionary-petri-mutation")
@click.argument("net_json", type=INPUT_FILE)
@click.option("--generations", type=_COUNT, default=2, show_default=True, help="Number of generations.")
@click.option("--candidates-per-generation", type=_COUNT, default=6, show_default=True, help="Candidates in each.")
@click.option("--mutation-step", type=_POSITIVE, default=0.1, show_default=True, help="Relative size of a change.")
@click.option("--max-arc-weight", type=_COUNT, default=4, show_default=True, help="Largest weight of a new arc.")
@click.option("--max-token-bound", type=_COUNT, default=128, show_default=True, help="Largest bound of a place.")
@_scores_option
@_shortlist_option
@output_option
def evolutionary_petri_mutation(
    net_json: Path,
    generations: int,
    candidates_per_generation: int,
    mutation_step: float,
    max_arc_weight: int,
    max_token_bound: int,
    scores: Path | None,
    shortlist_size: int,
    output: Path | None,
) -> None:
    """List bounded mutations of a Petri net for review.

    NET_JSON describes places, transitions with guard weights, and arcs. Every candidate adds one arc, moves one guard
    weight or moves one token bound of the given net; nothing is applied.

    \b
    Example:
      spo evolutionary-petri-mutation net.json --candidates-per-generation 4
    """
    from scpn_phase_orchestrator.supervisor.evolutionary_petri_grammar import (
        run_offline_evolutionary_petri_mutation_grammar,
    )

    net = _load_net(net_json)
    with _failing_as("evolutionary Petri mutation"):
        plan = run_offline_evolutionary_petri_mutation_grammar(
            net,
            generation_count=generations,
            candidates_per_generation=candidates_per_generation,
            mutation_step=mutation_step,
            max_arc_weight=max_arc_weight,
            max_token_bound=max_token_bound,
        )
        shortlist = _ranked(scores, plan.candidates, shortlist_size)
    _emit_grammar_bundle("petri", plan.to_audit_record(), shortlist, output)


@click.command("evolutionary-topology-mutation")
@click.argument("topology_json", type=INPUT_FILE)
@click.option("--generations", type=_COUNT, default=2, show_default=True, help="Number of generations.")
@click.option("--population", type=_COUNT, default=8, show_default=True, help="Candidates per generation.")
@click.option("--mutation-step", type=_POSITIVE, default=0.05, show_default=True, help="Size of a change.")
@click.option("--min-edge-weight", type=_NOT_NEGATIVE, default=0.0, show_default=True, help="Smallest weight.")
@click.option("--max-edge-weight", type=_NOT_NEGATIVE, default=10.0, show_default=True, help="Largest weight.")
@click.option(
    "--edge-add-base-weight", type=_NOT_NEGATIVE, default=0.4, show_default=True, help="What new edges start from."
)
@click.option(
    "--max-add-candidates", type=click.IntRange(min=0), default=16, show_default=True, help="Most edges to be added."
)
@_scores_option
@_shortlist_option
@output_option
def evolutionary_topology_mutation(
    topology_json: Path,
    generations: int,
    population: int,
    mutation_step: float,
    min_edge_weight: float,
    max_edge_weight: float,
    edge_add_base_weight: float,
    max_add_candidates: int,
    scores: Path | None,
    shortlist_size: int,
    output: Path | None,
) -> None:
    """List bounded mutations of a coupling topology for review.

    TOPOLOGY_JSON is {"nodes": [{"id": 1, "community": "a"}, ...], "edges": [{"nodes": [1, 2], "weight": 0.5}, ...]}.
    Every candidate adds, removes or reweights one edge, or bridges two communities; nothing is applied.

    \b
    Example:
      spo evolutionary-topology-mutation topology.json --population 6
    """
    from scpn_phase_orchestrator.supervisor.evolutionary_topology_grammar import (
        run_offline_evolutionary_topology_mutation_search,
    )

    topology = load_json_object(topology_json, artifact="topology")
    nodes, edges = array_of_objects_field(topology, "nodes"), array_of_objects_field(topology, "edges")
    with _failing_as("evolutionary topology mutation"):
        report = run_offline_evolutionary_topology_mutation_search(
            nodes,
            edges,
            generation_count=generations,
            population_size=population,
            mutation_step=mutation_step,
            min_edge_weight=min_edge_weight,
            max_edge_weight=max_edge_weight,
            edge_add_base_weight=edge_add_base_weight,
            max_add_candidates=max_add_candidates,
        )
        shortlist = _ranked(scores, report.candidates, shortlist_size)
    _emit_grammar_bundle("topology", report.to_audit_record(), shortlist, output)


# --- federated preflights -------------------------------------------------------------------------------------


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
    with _failing_as("federated DP noise-service preflight"):
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
    with _failing_as("federated secure aggregation preflight"):
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
    try:
        write_atomic(path, json.dumps(record, indent=2, sort_keys=True).encode() + b"\n")
    except OSError as error:
        raise click.ClickException(f"cannot write attestation {path}: {error.strerror}") from error
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
    with _failing_as("federated transport preflight"):
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
