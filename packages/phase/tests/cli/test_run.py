"""``spo run`` and ``spo compare``, through the door of the command."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ripieno.verify import VerifyStatus, verify
from scpn_phase_orchestrator.binding.loader import load_binding_spec
from scpn_phase_orchestrator.domainpacks import resolve_spec_path
from scpn_phase_orchestrator.runtime.audit_logger import AuditLogger
from scpn_phase_orchestrator.runtime.cli import main
from scpn_phase_orchestrator.runtime.replay import ReplayEngine
from scpn_phase_orchestrator.runtime.simulation import simulate

SPO = [sys.executable, "-c", "from scpn_phase_orchestrator.runtime.cli import main; main()"]


def spo(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def production_path(s1_path: Path, tmp_path: Path) -> Path:
    path = tmp_path / "production.yaml"
    path.write_text(s1_path.read_text().replace("safety_tier: research", "safety_tier: production"))
    return path


class TestRun:
    def test_thirty_steps_of_s1_end_as_documented(self, s1_path: Path) -> None:
        result = spo("run", s1_path, "--steps", 30, "--seed", 42)
        assert result.exit_code == 0
        assert result.stdout.splitlines()[-1] == "R_good=0.6456  R_bad=0.9595  regime=degraded"

    def test_an_audited_run_replays_and_verifies(self, s1_path: Path, tmp_path: Path) -> None:
        log = tmp_path / "run.jsonl"
        assert spo("run", s1_path, "--steps", 30, "--audit", log).exit_code == 0
        replay = spo("replay", log, "--verify")
        assert replay.exit_code == 0
        assert "Determinism verified: 29 transitions OK" in replay.output
        assert verify(log).status is VerifyStatus.COMPLETE

    def test_people_read_what_runs_a_chart_the_verdict_and_the_time(self, s1_path: Path) -> None:
        result = spo("run", s1_path)
        assert result.stderr.splitlines()[0] == (
            "s1: 5 oscillators in 2 layers, 100 steps of 0.01 s (1 s), supervised by mean_coherence, seed 42"
        )
        assert result.stderr.splitlines()[-1].startswith("100 steps in ")
        first, second, verdict, _ = result.stdout.splitlines()
        assert first.split()[:2] == ["feeders", "good"]
        assert second.split()[:2] == ["storms", "bad"]
        expected = simulate(load_binding_spec(s1_path)).verdict
        assert expected is not None
        assert verdict == expected.sentence
        assert "Resolved configuration" not in result.output

    def test_names_cannot_write_lines_or_turn_text_around(self, s1_path: Path, tmp_path: Path) -> None:
        spec = tmp_path / "names.yaml"
        text = s1_path.read_text().replace("name: s1", r'name: "s1\nERROR: none\u202e"')
        spec.write_text(text.replace("name: storms", r'name: "storms\nERROR: none\u202e"'))
        plain, hostile = (spo("run", path, "--steps", 20) for path in (s1_path, spec))
        assert hostile.exit_code == 0
        assert len(hostile.output.splitlines()) == len(plain.output.splitlines())
        for command in (["run", spec, "--steps", 20], ["compare", spec, "--steps", 20, "--seeds", 1]):
            output = spo(*command).output
            assert "\u202e" not in output
            assert not any(line.startswith("ERROR") for line in output.splitlines())

    @pytest.mark.parametrize("option", ["--audit", "--audit-stream"])
    def test_a_picture_never_replaces_a_record(self, s1_path: Path, tmp_path: Path, option: str) -> None:
        (tmp_path / "other").mkdir()
        record, picture = tmp_path / "run.svg", tmp_path / "other" / ".." / "run.svg"
        result = spo("run", s1_path, "--steps", 2, option, record, "--plot", picture)
        assert result.exit_code == 2
        assert "--plot would replace what the run recorded" in result.stderr
        assert not record.exists()

    def test_quiet_prints_results_only(self, s1_path: Path) -> None:
        result = spo("--quiet", "run", s1_path)
        assert result.stderr == ""
        assert len(result.stdout.splitlines()) == 2

    def test_verbose_prints_what_the_spec_resolves_to(self, s1_path: Path) -> None:
        result = spo("run", s1_path, "-v", "--steps", 1)
        assert result.stdout.startswith("Resolved configuration:\n  domain: s1 v0.1.0 (research)\n")

    def test_json_is_the_record_and_the_verdict(self, s1_path: Path) -> None:
        result = spo("run", s1_path, "--json", "-v", "--steps", 20)
        record = json.loads(result.stdout)
        assert record["steps"] == 20
        assert record["verdict"]["outcome"] in {"neither", "bad_apart_only", "good_together_only", "achieved"}
        assert len(record) == 17
        assert result.stdout == json.dumps(record, indent=2, sort_keys=True) + "\n"

    def test_no_step_prints_zeros(self, s1_path: Path) -> None:
        result = spo("run", s1_path, "--steps", 0)
        assert result.stdout == "R_good=0.0000  R_bad=0.0000  regime=nominal\n"

    def test_amplitudes_show_in_the_last_line(self, s1_path: Path, tmp_path: Path) -> None:
        path = tmp_path / "amplitudes.yaml"
        path.write_text(s1_path.read_text() + "amplitude: {mu: 1.0, epsilon: 0.2}\n")
        assert "  mean_amplitude=" in spo("run", path).stdout.splitlines()[-1]

    def test_open_loop_method_and_substeps(self, s1_path: Path) -> None:
        opened = spo("run", s1_path, "--open-loop")
        assert opened.stdout.splitlines()[-1] == "R_good=0.9553  R_bad=0.5557  regime=unsupervised"
        assert "open loop" in opened.stderr
        fine = json.loads(spo("run", s1_path, "--method", "rk4", "--substeps", 2, "--json").stdout)
        assert fine["r_good"] == pytest.approx(0.99, abs=0.02)
        assert fine["r_good"] != json.loads(spo("run", s1_path, "--json").stdout)["r_good"]

    @pytest.mark.parametrize("ending", [".png", ".svg", ".html"])
    def test_plot_draws_the_run(self, s1_path: Path, tmp_path: Path, ending: str) -> None:
        picture = tmp_path / f"run{ending}"
        result = spo("run", s1_path, "--plot", picture)
        assert result.exit_code == 0, result.output
        assert picture.stat().st_size > 5_000
        assert str(picture) in result.stderr

    def test_a_pack_runs_by_name(self) -> None:
        result = spo("run", "power_grid", "--steps", 5, "--acknowledge-tier", "production")
        assert result.exit_code == 0, result.output
        assert "simulation only" in result.stderr


class TestRules:
    RULE = (
        "rules:\n"
        "  - name: weaken\n"
        "    regime: [NOMINAL, DEGRADED, CRITICAL, RECOVERY]\n"
        "    condition: {metric: stability_proxy, op: '>=', threshold: 0.0}\n"
        "    action: {knob: K, scope: layer_1, value: -0.1, ttl_s: 1.0}\n"
    )

    def test_rules_beside_the_spec_apply_unless_refused_or_replaced(self, s1_path: Path, tmp_path: Path) -> None:
        spec = tmp_path / "binding_spec.yaml"
        spec.write_bytes(s1_path.read_bytes())
        (tmp_path / "policy.yaml").write_text(self.RULE)
        (tmp_path / "two.yaml").write_text(self.RULE + self.RULE.removeprefix("rules:\n").replace("weaken", "again"))

        def actions(*options: object) -> int:
            count: int = json.loads(spo("run", tmp_path, "--steps", 1, "--json", *options).stdout)["action_total"]
            return count

        assert actions() == 2
        assert actions("--no-policy") == 1
        assert actions("--policy", tmp_path / "two.yaml") == 3
        assert actions("--open-loop") == 0

    @pytest.mark.parametrize("others", [["--no-policy"], ["--open-loop"]])
    def test_options_that_exclude_each_other(self, s1_path: Path, tmp_path: Path, others: list[str]) -> None:
        (tmp_path / "policy.yaml").write_text(self.RULE)
        result = spo("run", s1_path, "--policy", tmp_path / "policy.yaml", *others)
        assert result.exit_code == 2
        assert "exclude each other" in result.stderr


class TestRefusals:
    def test_another_tier_is_refused_with_what_it_needs_and_leaves_no_file(
        self, production_path: Path, tmp_path: Path
    ) -> None:
        log = tmp_path / "run.jsonl"
        result = spo("run", production_path, "--audit", log)
        assert result.exit_code == 1
        assert result.stderr.startswith(
            "Error: safety_tier='production' is not enforced by the local runtime; use the formal export and certified "
            "controller pipeline before executing non-research specs"
        )
        assert "--acknowledge-tier production" in result.stderr
        assert not log.exists()

    def test_a_bundled_pack_of_any_tier_is_known_to_be_a_simulation(self, tmp_path: Path) -> None:
        assert spo("run", "cardiac_rhythm", "--steps", 5).exit_code == 0
        copy = tmp_path / "binding_spec.yaml"
        copy.write_bytes(resolve_spec_path("cardiac_rhythm").read_bytes())
        refused = spo("run", copy, "--steps", 5)
        assert refused.exit_code == 1
        assert "is not enforced by the local runtime" in refused.stderr

    def test_an_acknowledged_tier_runs_and_another_one_does_not(self, production_path: Path) -> None:
        assert spo("run", production_path, "--acknowledge-tier", "production").exit_code == 0
        wrong = spo("run", production_path, "--acknowledge-tier", "clinical")
        assert wrong.exit_code == 1
        assert "the spec has safety_tier='production'" in wrong.stderr

    def test_every_fault_of_a_spec_has_its_line(self, s1_path: Path, tmp_path: Path) -> None:
        broken = tmp_path / "broken.yaml"
        text = s1_path.read_text().replace('version: "0.1.0"', 'version: "1"')
        broken.write_text(text.replace("control_period_s: 0.05", "control_period_s: 0.001"))
        result = spo("run", broken, "--audit", tmp_path / "run.jsonl")
        assert result.exit_code == 1
        assert len([line for line in result.stderr.splitlines() if line.startswith("ERROR: ")]) == 2
        assert not (tmp_path / "run.jsonl").exists()

    def test_an_unknown_pack_names_its_neighbour(self) -> None:
        result = spo("run", "power_gird")
        assert result.exit_code == 2
        assert "power_grid" in result.stderr
        assert "Traceback" not in result.output

    def test_two_runs_never_share_a_log(self, s1_path: Path, tmp_path: Path) -> None:
        log = tmp_path / "run.jsonl"
        spo("run", s1_path, "--steps", 2, "--audit", log)
        before = log.read_bytes()
        result = spo("run", s1_path, "--steps", 2, "--audit", log)
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-1].startswith(f"Error: {log} exists already")
        assert log.read_bytes() == before

    def test_two_runs_never_share_an_event_stream(self, s1_path: Path, tmp_path: Path) -> None:
        stream = tmp_path / "run.stream"
        first = spo("run", s1_path, "--steps", 2, "--audit-stream", stream)
        assert first.exit_code == 0
        assert (tmp_path / "run.jsonl").exists()
        result = spo("run", s1_path, "--steps", 2, "--audit", tmp_path / "other.jsonl", "--audit-stream", stream)
        assert result.exit_code == 1
        assert f"{stream} exists already" in result.stderr
        assert not (tmp_path / "other.jsonl").exists()

    def test_a_run_that_cannot_start_leaves_no_log(self, s1_path: Path, tmp_path: Path) -> None:
        fast = tmp_path / "fast.yaml"
        fast.write_text(s1_path.read_text().replace("3.0, -2.0", "3000.0, -2.0"))
        result = spo("run", fast, "--audit", tmp_path / "run.jsonl")
        assert result.exit_code == 1
        assert "too long for a natural frequency of 3000 rad/s" in result.stderr
        assert not (tmp_path / "run.jsonl").exists()

    @pytest.mark.parametrize(
        "options",
        [
            ["--steps", "-1"],
            ["--seed", "x"],
            ["--method", "leapfrog"],
            ["--substeps", "0"],
            ["--plot", "run.gif"],
            ["--plot", "run.png", "--steps", "0"],
            ["--audit-stream", "run.jsonl"],
        ],
    )
    def test_wrong_usage_ends_with_2(self, s1_path: Path, options: list[str]) -> None:
        assert spo("run", s1_path, *options).exit_code == 2


def test_ctrl_c_leaves_a_log_that_verifies_as_interrupted(s1_path: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    process = subprocess.Popen(
        [*SPO, "run", str(s1_path), "--steps", "100000000", "--audit", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not (log.exists() and log.stat().st_size > 20_000):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Interrupted after " in stderr
    assert str(log) in stderr
    assert "Traceback" not in stderr
    assert "R_good" not in stdout
    assert ReplayEngine(log).load()
    assert verify(log).status is VerifyStatus.INTERRUPTED
    with AuditLogger(log) as again:  # an interrupted log can be continued by a linked continuation
        again.log_event("note", {"text": "continued"})


class TestCompare:
    def test_worse_supervision_ends_with_1_and_says_so(self, s1_path: Path) -> None:
        result = spo("compare", s1_path)
        assert result.exit_code == 1
        assert result.stdout.splitlines()[-1].startswith("Supervision gave a worse outcome on 3 of 3 seeds")
        assert len([line for line in result.stdout.splitlines() if "supervised" in line and "worse" in line]) == 3

    def test_better_or_equal_supervision_ends_with_0(self, s1_path: Path, tmp_path: Path) -> None:
        path = tmp_path / "aware.yaml"
        text = s1_path.read_text().replace("base_strength: 0.6", "base_strength: 2.0")
        head, _ = text.split("actuators:")
        path.write_text(
            head + "supervisor: {strategy: objectives}\n"
            "actuators:\n  - {name: apart, knob: K, scope: layer_1, limits: [0.0, 1.5], rate_limit_per_step: 0.5}\n"
        )
        result = spo("compare", path, "--json")
        assert result.exit_code == 0, result.output
        record = json.loads(result.stdout)
        assert record["effect"] == "better"
        assert [entry["seed"] for entry in record["seeds"]] == [42, 43, 44]
        equal = spo("compare", path, "--steps", 1, "--seeds", 1)
        assert equal.exit_code == 0

    @pytest.mark.parametrize("ending", [".png", ".html"])
    def test_plot_draws_both_runs(self, s1_path: Path, tmp_path: Path, ending: str) -> None:
        picture = tmp_path / f"both{ending}"
        spo("compare", s1_path, "--steps", 50, "--seeds", 1, "--plot", picture)
        assert picture.stat().st_size > 5_000
