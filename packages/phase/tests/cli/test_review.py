"""The review commands through the public door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ripieno.canonical import ASCII
from ripieno.signing import load_public_key, write_key_pair
from scpn_phase_orchestrator.runtime.cli import main, meta_transfer_manifest
from scpn_phase_orchestrator.runtime.cli._app import COMMANDS
from scpn_phase_orchestrator.supervisor.federated_attestation import (
    FederatedTransportAttestation,
    verify_transport_batch_signature,
)
from scpn_phase_orchestrator.supervisor.federated_secure_aggregation import commitment_hash, share_hash
from scpn_phase_orchestrator.supervisor.federated_transport import build_signed_transport_envelopes

TWO = (
    '{"domain":"grid","features":{"R":0.8},"knobs":{"K":0.2},"reward":0.5}\n'
    '{"domainpack":"eeg","metrics":{"R":0.4,"psi":0.1},"actions":[{"knob":"K","value":0.1},{"knob":"K","value":0.3},'
    '{"knob":"bogus","value":1}],"R_global":0.7}\n'
)
POLICY = (
    "rule calm: if R < 0.4 and stability_proxy >= 0.2 then set K += 0.95\n"
    "rule drive: if pac_max > 0.9 then set zeta = 0.1\n"
)
NET: dict[str, Any] = {
    "places": [{"name": "idle", "token_bound": 1}, {"name": "busy", "token_bound": 127}],
    "transitions": [{"name": "go", "guard_weights": {"R": 0.5}}],
    "arcs": [
        {"place": "idle", "transition": "go", "direction": "input"},
        {"place": "busy", "transition": "go", "direction": "output"},
    ],
}
TOPOLOGY: dict[str, Any] = {
    "nodes": [{"id": 1, "community": "a"}, {"id": 2, "community": "a"}, {"id": 3, "community": "b"}],
    "edges": [{"nodes": [1, 2], "weight": 0.5}],
}
UPDATE: dict[str, Any] = {
    "node_id": "n1",
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
TRANSPORT = {"transport": "jsonl", "endpoint": "file", "replay_supported": True, "local_path_evidence": "/data/x.jsonl"}
REQUEST: dict[str, Any] = {
    "epsilon": 3.0,
    "delta": 1e-6,
    "sensitivity": 1.0,
    "noise_multiplier": 1.1,
    "node_count": 2,
    "seed_hash": "ab" * 32,
    "policy_keys": ["zeta", "K"],
    "node_budgets": [{"node_id": "a", "epsilon_spent": 0.5}, {"node_id": "b", "epsilon_spent": 0.25}],
}
DEPLOYMENT: dict[str, Any] = {
    "mechanism_label": "gaussian",
    "privacy_accountant_owner": "",
    "seed_custody_label": "hsm-1",
    "budget_issuer_label": "issuer",
    "service_endpoint_label": "https://noise.example",
    "operator_approved": False,
}


def commitment(node_id: str, samples: int, k: float) -> dict[str, Any]:
    delta = {"K": k, "zeta": 0.1}
    return {
        "node_id": node_id,
        "sample_count": samples,
        "masked_policy_delta": delta,
        "share_commitment": node_id,
        "share_commitment_hash": commitment_hash(node_id, node_id),
        "share_hash": share_hash(node_id, delta),
    }


COMMITMENTS = [commitment("n1", 10, 0.1), commitment("n2", 20, 0.2), commitment("n3", 30, 0.4)]
CUSTODY = {
    "aggregation": {"min_node_count": 3},
    "quorum_evidence": [{"node_id": name, "evidence_hash": "5" * 64} for name in ("n1", "n2", "n3")],
    "custody_records": [
        {
            "node_id": name,
            "key_custody_label": "1" * 64,
            "share_custody_label": "2" * 64,
            "previous_key_custody_label": "3" * 64,
            "previous_share_custody_label": "4" * 64,
        }
        for name in ("n1", "n2", "n3")
    ],
    "custody_rotation_policy": "scheduled",
    "accepted_node_threshold": 3,
    "operator_approved": True,
    "operator_id": "op",
    "service_owner": "ops",
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    def lines(records: list[Any]) -> str:
        return "".join(json.dumps(record) + "\n" for record in records)

    contents = {
        "history": TWO,
        "policy": POLICY,
        "net": json.dumps(NET),
        "topology": json.dumps(TOPOLOGY),
        "updates": lines([UPDATE]),
        "transport": json.dumps(TRANSPORT),
        "request": json.dumps(REQUEST),
        "deployment": json.dumps(DEPLOYMENT),
        "commitments": lines(COMMITMENTS),
        "custody": json.dumps(CUSTODY),
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in contents}


def spo(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


ALL = {
    "meta-transfer-manifest": ("history",),
    "evolutionary-policy-dsl-search": ("policy",),
    "evolutionary-petri-mutation": ("net",),
    "evolutionary-topology-mutation": ("topology",),
    "federated-dp-noise-service-preflight": ("request", "deployment"),
    "federated-secure-aggregation-preflight": ("commitments", "custody"),
    "federated-transport-preflight": ("updates", "transport"),
}


@pytest.mark.parametrize("command", ALL)
def test_output_file_and_stdout_are_the_same(command: str, files: dict[str, str], tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    result = spo(command, *(files[name] for name in ALL[command]), "--output", str(output))
    assert result.exit_code == 0, result.output
    assert output.read_text() == result.stdout
    value = json.loads(result.stdout)
    assert result.stdout == json.dumps(value, indent=2, sort_keys=True) + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*files, "out.json"])


@pytest.mark.parametrize("command", [name for name in ALL if name != "meta-transfer-manifest"])
def test_bundle_hash_covers_the_bundle(command: str, files: dict[str, str]) -> None:
    bundle = json.loads(spo(command, *(files[name] for name in ALL[command])).stdout)
    claimed = bundle.pop("bundle_hash")
    assert claimed == ASCII.hash(bundle)
    assert bundle["operator_review_required"] is True
    assert bundle["non_actuating"] is True
    assert not any(value for key, value in bundle.items() if key.endswith("_permitted"))


@pytest.mark.parametrize("command", ALL)
def test_help_starts_with_the_line_of_the_table_and_has_an_example(command: str) -> None:
    text = spo(command, "--help").stdout
    assert COMMANDS[command][2] in " ".join(text.split())
    assert f"spo {command}" in text
    assert "Example" in text


@pytest.mark.parametrize("command", ALL)
def test_an_unwritable_output_is_one_line(command: str, files: dict[str, str], tmp_path: Path) -> None:
    result = spo(command, *(files[name] for name in ALL[command]), "--output", str(tmp_path / "no" / "out.json"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [name for name in ALL if name != "evolutionary-policy-dsl-search"])
@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1, "a": 2}', "{", "\xff"])
def test_unclean_json_is_refused_everywhere(command: str, text: str, files: dict[str, str]) -> None:
    for name in ALL[command]:
        before = Path(files[name]).read_bytes()
        Path(files[name]).write_bytes(text.encode("latin-1"))
        result = spo(command, *(files[other] for other in ALL[command]))
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        Path(files[name]).write_bytes(before)


# --- transfer -------------------------------------------------------------------------------------------------


def test_an_endless_input_is_refused_and_a_pipe_is_read(files: dict[str, str], tmp_path: Path) -> None:
    done = spo("evolutionary-petri-mutation", "/dev/zero")
    assert done.exit_code == 1
    assert done.stderr == "Error: cannot read net file /dev/zero: it has more than 67108864 bytes\n"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as writer:
        writer.submit(pipe.write_text, '{"places": ["p"], "transitions": ["t"], "arcs": []}')
        assert spo("evolutionary-petri-mutation", str(pipe)).exit_code == 0


def test_transfer_needs_a_source() -> None:
    result = spo("meta-transfer-manifest")
    assert result.exit_code == 1
    assert result.stderr == "Error: provide one or more audit JSONL files or --audit-directory\n"


def test_transfer_takes_one_source_and_checks_the_minimum_first(files: dict[str, str], tmp_path: Path) -> None:
    both = ("meta-transfer-manifest", files["history"], "--audit-directory", str(tmp_path))
    assert spo(*both).stderr == "Error: audit JSONL files and --audit-directory are mutually exclusive\n"
    assert spo(*both, "--min-records", "0").stderr == "Error: --min-records must be at least 1\n"


def test_transfer_manifest_of_two_records(files: dict[str, str]) -> None:
    manifest = json.loads(spo("meta-transfer-manifest", files["history"]).stdout)
    assert manifest["package_sha256"] == "9bbcc5ddacbe3f1fcbb215d14aefc736500ecc5e5bc992409b43e66f0799053c"
    assert manifest["training_summary"]["record_count"] == 2
    assert manifest["training_summary"]["domains"] == ["eeg", "grid"]
    assert manifest["training_summary"]["reward_mean"] == 0.6
    assert manifest["execution_permitted"] is False


def test_transfer_asks_for_enough_records(files: dict[str, str]) -> None:
    result = spo("meta-transfer-manifest", files["history"], "--min-records", "3")
    assert result.stderr == "Error: audit history yielded 2 records; min_records=3\n"


def test_the_command_stands_alone_and_answers_in_one_line(files: dict[str, str]) -> None:
    alone = CliRunner().invoke(meta_transfer_manifest, [files["history"]])
    assert alone.stdout == spo("meta-transfer-manifest", files["history"]).stdout
    Path(files["history"]).write_text('{"features":{},"knobs":{"K":1}}\n')
    failed = CliRunner().invoke(meta_transfer_manifest, [files["history"]])
    assert failed.exit_code == 1
    assert failed.stderr == f"Error: {files['history']}:1: features must be non-empty\n"


def test_console_script_runs_as_its_own_process(files: dict[str, str]) -> None:
    code = "from scpn_phase_orchestrator.runtime.cli import meta_transfer_manifest as m; m()"
    done = subprocess.run([sys.executable, "-c", code, files["history"]], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["schema"] == "scpn_meta_package_manifest_v1"


# --- grammars -------------------------------------------------------------------------------------------------


def test_an_empty_policy_is_refused(files: dict[str, str]) -> None:
    Path(files["policy"]).write_text("")
    result = spo("evolutionary-policy-dsl-search", files["policy"])
    assert result.exit_code == 1
    expected = "Error: evolutionary policy-DSL search failed: policy_dsl must be a non-empty string\n"
    assert result.stderr == expected


def test_a_topology_needs_edges(files: dict[str, str]) -> None:
    Path(files["topology"]).write_text(json.dumps({"nodes": TOPOLOGY["nodes"]}))
    result = spo("evolutionary-topology-mutation", files["topology"])
    assert result.stderr == "Error: edges must be a JSON array\n"
    Path(files["topology"]).write_text(json.dumps({**TOPOLOGY, "edges": [*TOPOLOGY["edges"], {}, 3]}))
    assert spo("evolutionary-topology-mutation", files["topology"]).stderr == "Error: edges[2] must be a JSON object\n"


def test_a_net_is_an_object_or_an_array(files: dict[str, str]) -> None:
    Path(files["net"]).write_text("3")
    assert spo("evolutionary-petri-mutation", files["net"]).stderr == (
        "Error: net payload must be a JSON object or array\n"
    )


@pytest.mark.parametrize(
    ("command", "name"),
    [("evolutionary-policy-dsl-search", "policy"), ("evolutionary-petri-mutation", "net"),
     ("evolutionary-topology-mutation", "topology")],
)  # fmt: skip
def test_no_generation_is_wrong_usage(command: str, name: str, files: dict[str, str]) -> None:
    result = spo(command, files[name], "--generations", "0")
    assert result.exit_code == 2
    assert "x>=1" in result.stderr


def test_scores_add_a_shortlist_and_leave_the_hash_alone(files: dict[str, str], tmp_path: Path) -> None:
    arguments = ("evolutionary-policy-dsl-search", files["policy"], "--generations", "1", "--population", "2")
    scores = tmp_path / "scores.json"
    scores.write_text('{"g01-c001": 0.2, "g01-c002": 0.9}')
    plain, ranked = (json.loads(spo(*arguments, *more).stdout) for more in ((), ("--scores", str(scores))))
    assert [place["candidate_id"] for place in ranked["shortlist"]] == ["g01-c002", "g01-c001"]
    assert ranked["bundle_hash"] == plain["bundle_hash"]
    assert "shortlist" not in plain


# --- preflights -----------------------------------------------------------------------------------------------


def test_a_deployment_that_is_not_ready_is_a_verdict(files: dict[str, str]) -> None:
    result = spo("federated-dp-noise-service-preflight", files["request"], files["deployment"])
    bundle = json.loads(result.stdout)
    assert result.exit_code == 0
    assert bundle["deployment_ready"] is False
    assert bundle["deployment_reason"] == "privacy_accountant_owner is required; operator approval required"
    assert bundle["request_hash"] == "3e66f24ec6ef354a508d6603b2e8bd8d7d7834a13e5ecb90248d98b42dab3d50"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": "3"}, "epsilon must be a number"),
        ({"epsilon": True}, "epsilon must be a number"),
        ({"node_count": 2.0}, "node_count must be an integer"),
        ({"policy_keys": ["K", 1]}, "policy_keys must be a JSON array of strings"),
        ({"node_budgets": 1}, "node_budgets must be a JSON array"),
        ({"epsilon": 0.1}, "federated DP noise-service preflight failed: privacy budget exceeded: 0.75 of 0.1 spent"),
    ],
)
def test_a_request_of_the_wrong_kind_is_refused_by_name(
    changes: dict[str, Any], message: str, files: dict[str, str]
) -> None:
    Path(files["request"]).write_text(json.dumps({**REQUEST, **changes}))
    result = spo("federated-dp-noise-service-preflight", files["request"], files["deployment"])
    assert (result.exit_code, result.stderr) == (1, f"Error: {message}\n")


def test_a_missing_field_is_named(files: dict[str, str]) -> None:
    Path(files["deployment"]).write_text("{}")
    result = spo("federated-dp-noise-service-preflight", files["request"], files["deployment"])
    assert result.stderr == "Error: mechanism_label is required\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(COMMITMENTS[0]) + "\n[]\n", "node-commitment JSONL line 2 must be a JSON object"),
        ("\n \n", "node-commitment JSONL must contain at least one record"),
        ("\n{\n", "malformed node-commitment JSONL at line 2: not JSON: "),
    ],
)
def test_commitment_lines_are_refused_with_their_number(text: str, message: str, files: dict[str, str]) -> None:
    Path(files["commitments"]).write_text(text)
    result = spo("federated-secure-aggregation-preflight", files["commitments"], files["custody"])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {message}")


def test_a_missing_quorum_is_said(files: dict[str, str]) -> None:
    Path(files["commitments"]).write_text("".join(json.dumps(record) + "\n" for record in COMMITMENTS[:2]))
    result = spo("federated-secure-aggregation-preflight", files["commitments"], files["custody"])
    assert "federated secure aggregation preflight failed: quorum_not_met" in result.stderr


def test_transport_bundle_has_the_documented_batch(files: dict[str, str]) -> None:
    bundle = json.loads(spo("federated-transport-preflight", files["updates"], files["transport"]).stdout)
    assert bundle["envelope_count"] == 1
    assert bundle["batch_id"] == "6c93ee19eb3458724957267cebccefa52185f997b55f37a39b7c70233bc1d64f"


def test_a_signed_batch_can_be_checked_and_has_the_same_bundle(files: dict[str, str], tmp_path: Path) -> None:
    public_key, _ = write_key_pair(tmp_path / "me.key")
    statement = tmp_path / "batch.json"
    plain = spo("federated-transport-preflight", files["updates"], files["transport"])
    signed = spo(
        "federated-transport-preflight", files["updates"], files["transport"],
        "--sign-key", str(tmp_path / "me.key"), "--attestation", str(statement),
    )  # fmt: skip
    assert signed.stdout == plain.stdout
    attestation = FederatedTransportAttestation(**json.loads(statement.read_text()))
    verify_transport_batch_signature(
        attestation, build_signed_transport_envelopes([UPDATE]), load_public_key(public_key)
    )


def test_a_key_without_a_place_for_the_statement_is_wrong_usage(files: dict[str, str]) -> None:
    result = spo("federated-transport-preflight", files["updates"], files["transport"], "--attestation", "x")
    assert result.exit_code == 2
    assert "belong together" in result.stderr


def test_no_output_replaces_an_input_or_a_key(files: dict[str, str], tmp_path: Path) -> None:
    write_key_pair(tmp_path / "me.key")
    key = (tmp_path / "me.key").read_bytes()
    result = spo(
        "federated-transport-preflight", files["updates"], files["transport"],
        "--sign-key", str(tmp_path / "me.key"), "--attestation", str(tmp_path / "me.key"),
    )  # fmt: skip
    assert result.exit_code == 1
    assert "me.key is read by this command" in result.stderr
    assert (tmp_path / "me.key").read_bytes() == key
    for command, name in (("evolutionary-petri-mutation", "net"), ("meta-transfer-manifest", "history")):
        before = Path(files[name]).read_bytes()
        assert spo(command, files[name], "-o", files[name]).exit_code == 1
        assert Path(files[name]).read_bytes() == before


@pytest.mark.parametrize(
    ("command", "name", "option"),
    [
        ("evolutionary-policy-dsl-search", "policy", "--population"),
        ("evolutionary-petri-mutation", "net", "--candidates-per-generation"),
        ("evolutionary-topology-mutation", "topology", "--population"),
    ],
)
def test_more_candidates_than_anybody_reviews_are_wrong_usage(
    files: dict[str, str], command: str, name: str, option: str
) -> None:
    result = spo(command, files[name], "--generations", "1000", option, "1000000")
    assert result.exit_code == 2
    assert "1000 generations of 1000000 candidates are more than 100000 candidates" in result.stderr
