"""formal-export, policy-dry-run and audit-detector through the public door."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ripieno.canonical import canonical_json
from ripieno.receipts import SEAL, check_sealed
from ripieno.signing import check_detached_signature, load_public_key, write_key_pair
from scpn_phase_orchestrator.meta import read_audit_history
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.cli import main
from scpn_phase_orchestrator.runtime.cli._app import COMMANDS
from scpn_phase_orchestrator.runtime.simulation import simulate

NET = """
protocol_net:
  places: [starting, steady]
  initial: {starting: 1}
  place_regime: {starting: DEGRADED, steady: NOMINAL}
  transitions:
    - {name: settle, inputs: [{place: starting}], outputs: [{place: steady}], guard: "R_0 > 0.7"}
"""
POLICY = """
rules:
  - name: boost
    regime: [DEGRADED]
    condition: {metric: R, layer: 0, op: "<", threshold: 0.99}
    action: {knob: K, scope: global, value: 0.1, ttl_s: 5.0}
  - name: brake
    regime: [DEGRADED]
    condition: {metric: R_bad, layer: 0, op: ">=", threshold: 0.0}
    action: {knob: K, scope: global, value: -0.1, ttl_s: 5.0}
  - name: never
    regime: [CRITICAL]
    condition: {metric: stability_proxy, op: ">", threshold: 0.5}
    action: {knob: zeta, scope: global, value: 0.1, ttl_s: 5.0}
stl_monitors:
  - {name: floor, spec: "always[0:5] R_0 > 0.2", severity: hard}
"""


def spo(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def pack(tmp_path: Path, s1_path: Path) -> Path:
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "binding_spec.yaml").write_text(s1_path.read_text() + NET)
    (folder / "policy.yaml").write_text(POLICY)
    return folder


@pytest.fixture
def log(tmp_path: Path, s1_path: Path) -> Path:
    from scpn_phase_orchestrator.binding.loader import load_binding_spec

    path = tmp_path / "run.jsonl"
    with AuditLogger(path) as logger:
        simulate(load_binding_spec(s1_path), steps=30, seed=42, policy_enabled=True, audit_logger=logger)
    return path


@pytest.mark.parametrize("command", ["formal-export", "policy-dry-run", "audit-detector"])
def test_help_starts_with_the_line_of_the_table_and_has_an_example(command: str) -> None:
    text = spo(command, "--help").stdout
    assert COMMANDS[command][2] in " ".join(text.split())
    assert f"spo {command}" in text


# --- formal export --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "beginning"),
    [
        ("protocol", "// Petri net"), ("protocol-tla", "---- MODULE spo_petri ----"), ("policy", "// Policy rules"),
        ("policy-tla", "---- MODULE spo_petri ----"), ("policy-smt", "; Policy rules"), ("stl", "; STL monitors"),
        ("package", "{"),
    ],
)  # fmt: skip
def test_every_kind_is_printed_and_written(kind: str, beginning: str, pack: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    result = spo("formal-export", pack, "--export", kind, "-o", output)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(beginning)
    assert output.read_text() == result.stdout


def test_what_the_spec_lacks_is_an_error(s1_path: Path) -> None:
    net = spo("formal-export", s1_path)
    assert (net.exit_code, net.stderr) == (1, "ERROR: spec 's1' declares no protocol_net\n")
    rules = spo("formal-export", s1_path, "--export", "policy")
    assert (rules.exit_code, rules.stderr) == (1, "ERROR: spec 's1' has no rule file; name one\n")


def test_a_named_rule_file_wins(pack: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("rules: []\n")
    result = spo("formal-export", pack, "--export", "policy", "--policy", other)
    assert (result.exit_code, result.stderr) == (1, "ERROR: there are no rules to export\n")


def test_a_module_name_and_a_bound_are_checked(pack: Path) -> None:
    assert "module name must match" in spo("formal-export", pack, "--module-name", "a b").stderr
    assert spo("formal-export", pack, "--max-tokens", "0").exit_code == 2
    assert "const int MAX_TOKENS = 7;" in spo("formal-export", pack, "--max-tokens", "7").stdout


def test_readiness_is_said_beside_the_export(pack: Path, tmp_path: Path) -> None:
    prism = tmp_path / "prism"
    prism.write_text("#!/bin/sh\n")
    prism.chmod(0o755)
    options = ("--include-checker-readiness", "--checker-path", f"prism={prism}")
    text = spo("formal-export", pack, *options)
    assert f"checker prism (prism): found at {prism}" in text.stderr
    assert text.stdout == spo("formal-export", pack).stdout
    package = json.loads(spo("formal-export", pack, "--export", "package", *options).stdout)
    assert package["checker_readiness"][0]["available"] is True


@pytest.mark.parametrize("value", ["prism", "prism=", "spin=/x"])
def test_a_malformed_checker_path_is_wrong_usage(value: str, pack: Path) -> None:
    result = spo("formal-export", pack, "--include-checker-readiness", "--checker-path", value)
    assert result.exit_code == 2


# --- rules over a log -----------------------------------------------------------------------------------------


def test_a_dry_run_counts_fires_overlaps_and_collisions(pack: Path, log: Path) -> None:
    report = json.loads(spo("policy-dry-run", pack, log, "--json").stdout)
    assert report["steps"] == 30
    degraded = report["fire_counts"]["brake"]
    assert degraded > 0
    assert report["unreachable_rules"] == ["never"]
    assert report["action_counts"] == {"K/global": degraded + report["fire_counts"]["boost"]}
    assert len(report["colliding_steps"]) == len(report["overlapping_steps"]) == report["fire_counts"]["boost"]
    assert report["non_actuating"] is True


def test_a_dry_run_in_words(pack: Path, log: Path) -> None:
    text = spo("policy-dry-run", pack, log).stdout
    assert text.startswith("Steps: 30\nRule fires:\n  boost: ")
    assert "Unreachable rules: never\n" in text
    assert "K/global: boost +0.1, brake -0.1" in text


def test_a_dry_run_needs_rules_and_steps_of_the_same_spec(s1_path: Path, pack: Path, log: Path, tmp_path: Path) -> None:
    without = spo("policy-dry-run", s1_path, log)
    assert (without.exit_code, without.stderr) == (1, "ERROR: spec 's1' has no rules; name a rule file with --policy\n")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert spo("policy-dry-run", pack, empty).stderr == f"ERROR: no step records in {empty}\n"
    other = tmp_path / "other.jsonl"
    other.write_text('{"layers":[{"R":0.5,"psi":0.0}],"regime":"nominal","stability":0.5,"step":0,"ts":0.0}\n')
    assert "the log has 1 layers, spec 's1' has 2" in spo("policy-dry-run", pack, other).stderr


def test_a_broken_log_is_one_line(pack: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"a": NaN}\n')
    result = spo("policy-dry-run", pack, broken)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: line 1: ")


def test_the_log_of_a_run_teaches_the_transfer(log: Path) -> None:
    (record,) = read_audit_history(log)
    assert record.domain == "s1"
    assert set(record.features) == {"R", "R_0", "R_1", "stability"}
    assert set(record.knobs) == {"K"}
    manifest = json.loads(spo("meta-transfer-manifest", log).stdout)
    assert manifest["training_summary"]["domains"] == ["s1"]


# --- detectors ------------------------------------------------------------------------------------------------


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    path = tmp_path / "scores.json"
    path.write_text(json.dumps({"event_scores": [5, 6, 7, 8, 9.5], "null_scores": [0, 1, 2, 3, 4, 4.5, 0.5, 1.5]}))
    return path


def test_an_audit_is_reproducible(scores: Path, tmp_path: Path) -> None:
    output = tmp_path / "audit.json"
    first = spo("audit-detector", scores, "--n-permutations", "500", "--output", output)
    assert first.exit_code == 0
    assert output.read_text() == first.stdout
    assert spo("audit-detector", scores, "--n-permutations", "500").stdout == first.stdout
    audit = json.loads(first.stdout)
    assert (audit["detection_rate"], audit["false_alarms"], audit["allowed_false_alarms"]) == (1.0, 0, 0)


def test_a_signed_record_can_be_checked(scores: Path, tmp_path: Path) -> None:
    public_key, _ = write_key_pair(tmp_path / "me.key")
    result = spo(
        "audit-detector", scores, "--n-permutations", "99", "--corpus-id", "ward-7", "--captured-at", "2024-05-01",
        "--sign", tmp_path / "me.key",
    )  # fmt: skip
    value = json.loads(result.stdout)
    check_sealed(value["record"])
    statement = canonical_json(value["signature"]) + b"\n"
    check_detached_signature(statement, value["record"][SEAL], load_public_key(public_key))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--corpus-id", "x"), "belong together"),
        (("--n-permutations", "0"), "x>=1"),
        (("--alpha", "1"), "0.0<x<1.0"),
        (("--target-false-alarm", "0"), "0.0<x<1.0"),
    ],
)
def test_wrong_options_are_wrong_usage(options: tuple[str, ...], message: str, scores: Path) -> None:
    result = spo("audit-detector", scores, *options)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "detector scores payload must be a JSON object"),
        ("{}", "event_scores must be a JSON array"),
        ('{"event_scores": [], "null_scores": [1]}', "event_scores must be non-empty"),
        ('{"event_scores": [true], "null_scores": [1]}', "event_scores[0] must be a number, got True"),
        ('{"event_scores": [1e999], "null_scores": [1]}', "malformed detector scores JSON: "),
    ],
)
def test_scores_of_the_wrong_kind_are_refused_by_name(text: str, message: str, scores: Path) -> None:
    scores.write_text(text)
    result = spo("audit-detector", scores)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {message}")


def test_a_dry_run_over_the_log_of_another_spec_says_so(pack: Path, log: Path) -> None:
    assert spo("policy-dry-run", pack, log).stderr == ""
    spec = pack / "binding_spec.yaml"
    first = re.search(r"layers:\s+- \{name: (\w+)", spec.read_text())
    assert first is not None
    spec.write_text(re.sub(rf"\b{first[1]}\b", "elsewhere", spec.read_text()))
    result = spo("policy-dry-run", pack, log)
    assert result.exit_code == 0
    assert f"the layers of the log ({first[1]}, " in result.stderr
